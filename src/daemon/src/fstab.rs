//! The program as the mount(8) helper of an `/etc/fstab` line: `mount.fuse.svcfs SOURCE TARGET -o
//! OPTIONS`.
//!
//! Invariant: it becomes an ordinary `svcfs mount --background` with the same options and decides
//! nothing itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;

/// Prefix of the names of mount(8) helpers.
const PREFIX: &str = "mount.";

/// Options without effect here, or that mount(8) and systemd handle.
const IGNORED_OPTIONS: [&str; 20] = [
    "rw",
    "defaults",
    "exec",
    "nosuid",
    "nodev",
    "async",
    "noatime",
    "nodiratime",
    "relatime",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "silent",
    "loud",
];

/// Mount a knowledge base from /etc/fstab; a line there is
///
/// /srv/notes /srv/notes.mnt fuse.svcfs nofail 0 0
#[derive(Debug, Parser)]
#[command(name = "mount.fuse.svcfs", version, max_term_width = 100)]
struct FstabMount {
    /// Directory of the knowledge base, or the URL of a server on another machine
    #[arg(value_name = "ROOT|URL")]
    root: PathBuf,
    /// Empty directory to mount at
    mountpoint: PathBuf,
    /// ro, noexec, allow_other, actor=USER=NAME, no_svc_actor, space=NAME; of a root
    /// at=TIME|COMMIT, config=FILE; of a server token_file=FILE, timeout=SECONDS, uid=USER,
    /// state=DIR; see svcfs mount --help
    #[arg(short, value_delimiter = ',')]
    options: Vec<String>,
    /// Ignore unknown options
    #[arg(short)]
    sloppy: bool,
    /// Only check the options
    #[arg(short)]
    fake: bool,
    /// No effect: there is no mount table
    #[arg(short)]
    no_table: bool,
    /// No effect: messages are always printed
    #[arg(short)]
    verbose: bool,
    /// No effect: there is one type
    #[arg(short = 't', value_name = "TYPE")]
    filesystem: Option<String>,
}

/// Translates the command line of a mount helper; none when the program was called by another name.
///
/// # Errors
/// The errors of clap, including help.
pub fn arguments(arguments_given: &[OsString]) -> Option<Result<Vec<OsString>, clap::Error>> {
    let name = Path::new(arguments_given.first()?).file_name()?.to_str()?;
    name.starts_with(PREFIX).then(|| FstabMount::try_parse_from(arguments_given).and_then(translate))
}

fn translate(helper: FstabMount) -> Result<Vec<OsString>, clap::Error> {
    let FstabMount { root, mountpoint, options, sloppy, fake, no_table: _, verbose: _, filesystem: _ } = helper;
    let is_remote = root.to_str().is_some_and(|root| root.starts_with("https://") || root.starts_with("http://"));
    let mut arguments: Vec<OsString> = ["svcfs", "mount", "--background"].map(OsString::from).to_vec();
    if fake {
        arguments.push("--dry-run".into());
    }
    for option in options.iter().filter(|option| !is_ignored(option)) {
        let (name, value) = option.split_once('=').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
        let flag = match (name, value) {
            ("ro", None) => "--read-only".to_owned(),
            ("noexec", None) => "--no-exec".to_owned(),
            ("allow_other", None) => "--allow-other".to_owned(),
            ("no_svc_actor", None) => "--no-svc-actor".to_owned(),
            ("at", Some(value)) if !is_remote => format!("--at={value}"),
            ("actor", Some(value)) => format!("--actor={value}"),
            ("config", Some(value)) if !is_remote => format!("--config={value}"),
            ("token_file", Some(value)) if is_remote => format!("--token-file={value}"),
            ("space", Some(value)) => format!("--space={value}"),
            ("timeout" | "patience", Some(value)) if is_remote => format!("--timeout={value}"),
            ("uid", Some(value)) if is_remote => format!("--owner={value}"),
            ("state", Some(value)) if is_remote => format!("--state={value}"),
            _ if sloppy => continue,
            _ => {
                let own = if is_remote {
                    "token_file=FILE, timeout=SECONDS, uid=USER and state=DIR"
                } else {
                    "at=TIME|COMMIT and config=FILE"
                };
                let message = format!(
                    "`{option}` is not a mount option of svcfs; use ro, noexec, allow_other, actor=USER=NAME, no_svc_actor, space=NAME, {own}\n"
                );
                return Err(clap::Error::raw(clap::error::ErrorKind::InvalidValue, message));
            }
        };
        arguments.push(flag.into());
    }
    let source = if is_remote { "--remote" } else { "--root" };
    arguments.extend([source.into(), root.into_os_string(), "--".into(), mountpoint.into_os_string()]);
    Ok(arguments)
}

/// Whether an option is ignored. Those with `x-` and `comment=` are for other programs (fstab(5)).
fn is_ignored(option: &str) -> bool {
    option.is_empty() || option.starts_with("x-") || option.starts_with("comment=") || IGNORED_OPTIONS.contains(&option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(line: &str) -> Result<String, String> {
        let arguments_given: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let arguments = arguments(&arguments_given).unwrap().map_err(|error| error.to_string())?;
        Ok(arguments.iter().map(|argument| argument.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    /// Shows: REM-13
    #[test]
    fn a_line_of_fstab_is_an_ordinary_mount() {
        for (line, expected) in [
            ("/sbin/mount.fuse.svcfs /srv/a /mnt/a -o rw", "svcfs mount --background --root /srv/a -- /mnt/a"),
            (
                "mount.svcfs a b -n -v -t fuse.svcfs -o ro,noexec,nosuid,nodev,x-systemd.automount,_netdev,,comment=mine",
                "svcfs mount --background --read-only --no-exec --root a -- b",
            ),
            (
                "mount.fuse.svcfs a b -o at=v1,allow_other,actor=1000=agent:x,actor=ann=Ann,no_svc_actor,config=/etc/a.toml",
                "svcfs mount --background --at=v1 --allow-other --actor=1000=agent:x --actor=ann=Ann --no-svc-actor --config=/etc/a.toml --root a -- b",
            ),
            ("mount.fuse.svcfs a b -s -o acl", "svcfs mount --background --root a -- b"),
            (
                "mount.fuse.svcfs https://a.org /mnt/a -o rw,_netdev,token_file=/etc/a.token,space=notes,patience=30,uid=ann,state=/var/a",
                "svcfs mount --background --token-file=/etc/a.token --space=notes --timeout=30 --owner=ann --state=/var/a --remote https://a.org -- /mnt/a",
            ),
            ("mount.fuse.svcfs -f a b", "svcfs mount --background --dry-run --root a -- b"),
            ("mount.fuse.svcfs a b -o space=team", "svcfs mount --background --space=team --root a -- b"),
        ] {
            assert_eq!(called(line).as_deref(), Ok(expected), "{line}");
        }
        for (line, message) in [
            ("mount.fuse.svcfs a b -o acl", "`acl` is not a mount option of svcfs"),
            ("mount.fuse.svcfs a b -o ro=1", "`ro=1` is not a mount option of svcfs"),
            ("mount.fuse.svcfs a b -o actor", "`actor` is not a mount option of svcfs"),
            ("mount.fuse.svcfs a b -o state=/var/a", "`state=/var/a` is not a mount option of svcfs"),
            ("mount.fuse.svcfs http://a b -o config=/etc/a.toml", "token_file=FILE"),
            ("mount.fuse.svcfs a", "<MOUNTPOINT>"),
            ("mount.fuse.svcfs --help", "/etc/fstab"),
        ] {
            let error = called(line).unwrap_err();
            assert!(error.contains(message), "{line}: {error}");
        }
        for name in ["svcfs", "/usr/bin/svcfs", ""] {
            assert!(arguments(&[name.into(), "mount".into()]).is_none(), "{name:?}");
        }
    }
}
