//! Mount options on the command line.

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
    /// Mount read-only
    #[arg(long, requires = "mountpoint")]
    read_only: bool,
    /// Mount a past state read-only: a time, date, commit, branch or tag
    #[arg(long, value_name = "TIME|COMMIT", requires = "mountpoint")]
    pub at: Option<String>,
    /// Mount the tree as an open draft shows it; saves change the draft only
    #[arg(long, value_name = "ID", requires = "mountpoint", conflicts_with = "at")]
    pub draft: Option<String>,
    /// Mount with noexec
    #[arg(long, requires = "mountpoint")]
    no_exec: bool,
    /// Allow access by all users, subject to file permissions; always on when root mounts
    #[arg(long, requires = "mountpoint")]
    allow_other: bool,
    /// Attribute changes of a user (name or number) to this name; can be repeated
    #[arg(long, value_name = "USER=NAME", value_parser = parse_actor, requires = "mountpoint")]
    actor: Vec<PinnedActor>,
    /// Ignore SVC_ACTOR in the environment of programs
    #[arg(long, requires = "mountpoint")]
    no_svc_actor: bool,
    /// Space of the server; none for the first.
    #[arg(skip)]
    pub space: Option<String>,
}

/// A user whose changes are attributed to a fixed name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PinnedActor {
    user: u32,
    name: Actor,
}

impl MountFlags {
    /// The options of a mount, with enough threads for a parallel build on all cores.
    pub fn options(self, clock: Arc<dyn Clock>) -> MountOptions {
        let Self { read_only, at: _, draft: _, no_exec, allow_other, actor, no_svc_actor, space: _ } = self;
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
    /// The same options as command-line flags.
    pub fn flags(&self) -> Vec<String> {
        let Self { read_only, at, draft, no_exec, allow_other, actor, no_svc_actor, space } = self;
        let switches = [
            (*read_only, "--read-only"),
            (*no_exec, "--no-exec"),
            (*allow_other, "--allow-other"),
            (*no_svc_actor, "--no-svc-actor"),
        ];
        let switched = switches.iter().filter(|(is_on, _)| *is_on).map(|(_, flag)| (*flag).to_owned());
        let at = at.iter().map(|at| format!("--at={at}"));
        let draft = draft.iter().map(|id| format!("--draft={id}"));
        let space = space.iter().map(|space| format!("--space={space}"));
        switched
            .chain(at)
            .chain(draft)
            .chain(space)
            .chain(actor.iter().map(|PinnedActor { user, name }| format!("--actor={user}={name}")))
            .collect()
    }
}

/// Parses `USER=NAME`.
fn parse_actor(text: &str) -> Result<PinnedActor, String> {
    let (user, name) = text.split_once('=').ok_or("use USER=NAME, such as `1000=agent:x` or `ann=Ann Other`")?;
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
        return Err(format!("`{name}` is not valid as a git author; use `{actor}`"));
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
        flags: MountFlags,
    }

    #[test]
    fn mount_flags_survive_a_round_trip() {
        use clap::Parser;
        let read =
            |flags: Vec<String>| Line::parse_from(["svcfs", "mnt"].map(str::to_owned).into_iter().chain(flags)).flags;
        let given =
            "--read-only --no-exec --allow-other --no-svc-actor --at=2026-11-22 --actor=0=agent:x --actor=1000=a=b";
        let parsed = read(given.split(' ').map(str::to_owned).collect());
        assert_eq!(parsed.flags().join(" "), given);
        assert_eq!(read(parsed.flags()), parsed);
        assert_eq!(serde_json::from_value::<MountFlags>(serde_json::to_value(&parsed).unwrap()).unwrap(), parsed);
        assert!(read(Vec::new()).flags().is_empty());
    }

    #[test]
    fn a_user_is_attributed_to_a_name_that_git_accepts() {
        let given = |text| parse_actor(text).map(|PinnedActor { user, name }| (user, name.to_string()));
        assert_eq!(given("1000=agent:x"), Ok((1000, "agent:x".to_owned())));
        assert_eq!(given("root=Ann = Other"), Ok((0, "Ann = Other".to_owned())));
        for (text, expected) in [
            ("agent:x", "use USER=NAME"),
            ("", "use USER=NAME"),
            ("nobody-of-this-name=x", "no user `nobody-of-this-name`"),
            ("-1=x", "no user `-1`"),
            ("4294967296=x", "no user"),
            ("=x", "no user ``"),
            ("0=", "use `anonymous`"),
            ("0=Eve <eve@example.org>", "`Eve eve@example.org`"),
            ("0=a\nb", "`ab`"),
        ] {
            let error = given(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
