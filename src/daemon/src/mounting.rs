//! How a knowledge base is mounted, as flags say it.

use std::collections::HashMap;
use std::sync::Arc;

use clap::Args;
use nix::unistd::User;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Clock};
use svcfs_mount::{AttributionPolicy, MountOptions};

/// Flags of every command that mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[group(skip)]
pub struct MountFlags {
    /// Mount it so that nobody changes anything through it
    #[arg(long, requires = "mountpoint")]
    read_only: bool,
    /// Mount the tree as it was, read-only: a time, a date, a commit, a branch or a tag
    #[arg(long, value_name = "TIME|COMMIT", requires = "mountpoint")]
    pub at: Option<String>,
    /// Let no program on it be started
    #[arg(long, requires = "mountpoint")]
    no_exec: bool,
    /// Let every user in, under the permissions of the files; always so when root mounts
    #[arg(long, requires = "mountpoint")]
    allow_other: bool,
    /// Save what this user (name or number) changes under another name, whatever their programs say; may be repeated
    #[arg(long, value_name = "USER=NAME", value_parser = pin, requires = "mountpoint")]
    actor: Vec<PinnedActor>,
    /// Believe no program that names who it works for in the variable SVC_ACTOR
    #[arg(long, requires = "mountpoint")]
    no_svc_actor: bool,
    /// Which space of the server; its first when absent.
    #[arg(skip)]
    pub space: Option<String>,
}

/// A user whose changes are always another name's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PinnedActor {
    user: u32,
    name: Actor,
}

impl MountFlags {
    /// The options of a mount: as many requests at once as a build with every core needs, few enough to cost nothing at rest.
    pub fn options(self, clock: Arc<dyn Clock>) -> MountOptions {
        let Self { read_only, at: _, no_exec, allow_other, actor, no_svc_actor, space: _ } = self;
        let pinned = actor.into_iter().map(|PinnedActor { user, name }| (user, name)).collect::<HashMap<_, _>>();
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        MountOptions {
            is_read_only: read_only,
            is_noexec: no_exec,
            allow_other,
            attribution: AttributionPolicy { fixed_actors: pinned, allow_process_actor: !no_svc_actor },
            ..MountOptions::new(clock, (2 * cores).clamp(8, 32))
        }
    }
}

impl MountFlags {
    /// The flags that say the same to another process.
    pub fn flags(&self) -> Vec<String> {
        let Self { read_only, at, no_exec, allow_other, actor, no_svc_actor, space } = self;
        let switches = [
            (*read_only, "--read-only"),
            (*no_exec, "--no-exec"),
            (*allow_other, "--allow-other"),
            (*no_svc_actor, "--no-svc-actor"),
        ];
        let switched = switches.iter().filter(|(is_on, _)| *is_on).map(|(_, flag)| (*flag).to_owned());
        let at = at.iter().map(|at| format!("--at={at}"));
        let space = space.iter().map(|space| format!("--space={space}"));
        switched
            .chain(at)
            .chain(space)
            .chain(actor.iter().map(|PinnedActor { user, name }| format!("--actor={user}={name}")))
            .collect()
    }
}

/// `USER=NAME` of the command line.
fn pin(text: &str) -> Result<PinnedActor, String> {
    let (user, name) = text.split_once('=').ok_or("write it like `1000=agent:x` or `ann=Ann Other`")?;
    let number = match user.parse() {
        Ok(number) => number,
        Err(_) => match User::from_name(user) {
            Ok(Some(user)) => user.uid.as_raw(),
            Ok(None) => return Err(format!("there is no user `{user}` on this machine")),
            Err(errno) => return Err(format!("the user `{user}` cannot be looked up: {errno}")),
        },
    };
    let actor = Actor::new(name);
    if actor.as_str() != name {
        return Err(format!("`{name}` is no name for a commit; what git would take of it is `{actor}`"));
    }
    Ok(PinnedActor { user: number, name: actor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        mountpoint: String,
        #[command(flatten)]
        manner: MountFlags,
    }

    #[test]
    fn a_manner_is_the_same_in_another_process() {
        use clap::Parser;
        let read =
            |flags: Vec<String>| Line::parse_from(["svcfs", "mnt"].map(str::to_owned).into_iter().chain(flags)).manner;
        let given =
            "--read-only --no-exec --allow-other --no-svc-actor --at=2026-11-22 --actor=0=agent:x --actor=1000=a=b";
        let manner = read(given.split(' ').map(str::to_owned).collect());
        assert_eq!(manner.flags().join(" "), given);
        assert_eq!(read(manner.flags()), manner);
        assert_eq!(serde_json::from_value::<MountFlags>(serde_json::to_value(&manner).unwrap()).unwrap(), manner);
        assert!(read(Vec::new()).flags().is_empty());
    }

    #[test]
    fn a_user_is_pinned_by_name_or_number_to_a_name_git_takes() {
        let given = |text| pin(text).map(|PinnedActor { user, name }| (user, name.to_string()));
        assert_eq!(given("1000=agent:x"), Ok((1000, "agent:x".to_owned())));
        assert_eq!(given("root=Ann = Other"), Ok((0, "Ann = Other".to_owned())));
        for (text, told) in [
            ("agent:x", "write it like"),
            ("", "write it like"),
            ("nobody-of-this-name=x", "no user `nobody-of-this-name`"),
            ("-1=x", "no user `-1`"),
            ("4294967296=x", "no user"),
            ("=x", "no user ``"),
            ("0=", "what git would take of it is `anonymous`"),
            ("0=Eve <eve@example.org>", "`Eve eve@example.org`"),
            ("0=a\nb", "`ab`"),
        ] {
            let error = given(text).unwrap_err();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }
}
