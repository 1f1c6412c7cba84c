//! The command that mounts a server on another machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http::Uri;
use nix::unistd::{Uid, User};
use sd_notify::NotifyState;
use svcfs_base::{Kind, SystemClock};
use svcfs_config::LogOutput;
use svcfs_mount::{MountError, RemoteError, RemoteMount, RemoteOptions};
use tokio::sync::Notify;
use tracing::level_filters::LevelFilter;

use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;
use crate::stop::notify;
use crate::{background, credentials, logging, output, signals};

/// How long programs may take to close their files when the mount ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Default time in seconds that a program waits for an unreachable server.
const DEFAULT_SERVER_TIMEOUT: u64 = 10;
/// State directory of mounts by root.
const ROOT_STATE_DIR: &str = "/var/lib/svcfs/remote";
/// Flags of a remote mount.
#[derive(Debug, Args)]
#[group(skip)]
pub struct RemoteFlags {
    /// Mount from a server on another machine over HTTP, such as https://notes.example.org
    #[arg(long, value_name = "URL", value_parser = address, conflicts_with_all = ["root", "config", "at"])]
    remote: Option<String>,
    /// File with the key in its first line (mode 0600) [default: $SVC_API_KEY]
    #[arg(long, value_name = "FILE", requires = "remote")]
    token_file: Option<PathBuf>,
    /// Space of the server [default: its first space]
    #[arg(long, value_name = "NAME")]
    pub space: Option<String>,
    /// Seconds that a program waits for an unreachable server before it gets an I/O error [default:
    /// 10]
    #[arg(long, alias = "patience", value_name = "SECONDS", requires = "remote", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: Option<u64>,
    /// Owner of the files (name or number), who may write them [default: the mounting user]; needs
    /// root
    #[arg(long, value_name = "USER", requires = "remote", value_parser = owner)]
    owner: Option<FileOwner>,
    /// Directory for rejected saves [default: below ~/.local/state/svcfs; /var/lib/svcfs for root]
    #[arg(long, value_name = "DIR", requires = "remote")]
    state: Option<PathBuf>,
}

/// Owner of the files of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileOwner {
    user: u32,
    group: u32,
}

/// Parses `--owner`.
fn owner(text: &str) -> Result<FileOwner, String> {
    let user = match text.parse() {
        Ok(number) => User::from_uid(Uid::from_raw(number)),
        Err(_) => User::from_name(text),
    };
    match user {
        Ok(Some(user)) => Ok(FileOwner { user: user.uid.as_raw(), group: user.gid.as_raw() }),
        Ok(None) => Err(format!("there is no user `{text}` on this machine")),
        Err(errno) => Err(format!("the user `{text}` cannot be looked up: {errno}")),
    }
}

/// Parses `--remote`; the URL appears in the mount table.
pub fn address(text: &str) -> Result<String, String> {
    let uri: Uri =
        text.parse().map_err(|error| format!("not a URL ({error}); use the form https://notes.example.org"))?;
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("use the form https://notes.example.org or http://localhost:4242".to_owned());
    };
    if authority.as_str().contains('@') {
        return Err("all users can read the mount table: put the token into a file and use --token-file".to_owned());
    }
    let has_port = authority.as_str().strip_prefix(authority.host()).is_some_and(|rest| rest.starts_with(':'));
    if has_port && authority.port_u16().is_none() {
        return Err("the port of a URL is a number from 1 to 65535".to_owned());
    }
    if uri.query().is_some() {
        return Err("the URL of a server has no `?`".to_owned());
    }
    Ok(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')))
}

impl RemoteFlags {
    /// Mounts until a signal or an unmount ends it, or in the background.
    ///
    /// # Errors
    /// When mounting or unmounting fails.
    pub fn run(self, mountpoint: &Path, flags: MountFlags, is_in_background: bool) -> Result<(), CommandFailure> {
        let Self { remote, token_file, space, timeout, owner, state } = self;
        let timeout = timeout.unwrap_or(DEFAULT_SERVER_TIMEOUT);
        if owner.is_some() && !rustix::process::geteuid().is_root() {
            return Err(CommandFailure::saying(
                ExitStatus::Usage,
                "--owner needs root: files of another user's mount belong to that user",
            ));
        }
        let url = remote.unwrap_or_default();
        let state = state.map_or_else(|| default_state_dir(&url, space.as_deref()), Ok)?;
        let state = std::path::absolute(state).context("the current directory does not exist any more")?;
        let token = credentials::load(token_file.as_deref())?;
        let token_source = token_source(token_file.as_deref(), token.is_some());
        if is_in_background {
            let mut arguments = vec![format!("--remote={url}").into(), format!("--timeout={timeout}").into()];
            arguments.extend(space.map(|space| format!("--space={space}").into()));
            if let Some(file) = &token_file {
                arguments.extend(["--token-file".into(), absolute(file)?.into()]);
            }
            arguments.extend(owner.map(|owner| format!("--owner={}", owner.user).into()));
            arguments.extend(["--state".into(), state.clone().into()]);
            let log = log_path(&state, mountpoint)?;
            return output::say(&background::start(arguments, (mountpoint, &flags), &log)?);
        }
        let owner = owner.map(|FileOwner { user, group }| (user, group));
        let (timeout, rejected_dir) = (Duration::from_secs(timeout), state.join("rejected"));
        let remote = RemoteOptions { url, space, token, timeout, owner, rejected_dir };
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::INFO)?;
        let listening = signals::listen(false)?;
        let ended = Arc::new(Notify::new());
        let notified = Arc::clone(&ended);
        let mut options = flags.options(Arc::new(SystemClock));
        options.on_end = Some(Arc::new(move || notified.notify_one()));
        let mount =
            RemoteMount::start(&remote, mountpoint, &options).map_err(|error| mount_failure(error, &token_source))?;
        let message = format!("svcfs mounts {} at {}", remote.url, mount.mountpoint().display());
        let outcome = output::say(&message);
        notify(&[NotifyState::Ready, NotifyState::Status(&message)]);
        if outcome.is_ok() {
            listening.runtime.block_on(async {
                tokio::select! {
                    () = listening.end.cancelled() => {}
                    () = ended.notified() => tracing::info!("the mount was unmounted"),
                }
            });
        }
        notify(&[NotifyState::Stopping]);
        let stopped = match mount.stop(CLOSE_TIMEOUT) {
            // Programs may have open files; their writes are saved, so this is not a failure.
            Err(error @ MountError::StillOpen { .. }) => {
                tracing::warn!("{error}");
                Ok(())
            }
            stopped => stopped.map_err(CommandFailure::from),
        };
        listening.runtime.shutdown_background();
        outcome.and(stopped)
    }

    /// Whether this is a remote mount.
    pub const fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// Checks that flags of remote mounts are used with `--remote`.
    ///
    /// # Errors
    /// `Usage`, naming the flag.
    pub fn check(&self) -> Result<(), CommandFailure> {
        let Self { remote, token_file, space: _, timeout, owner, state } = self;
        let given = [
            (token_file.is_some(), "--token-file"),
            (timeout.is_some(), "--timeout"),
            (owner.is_some(), "--owner"),
            (state.is_some(), "--state"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given && remote.is_none()) {
            Some((_, flag)) => Err(CommandFailure::saying(ExitStatus::Usage, format!("{flag} needs --remote"))),
            None => Ok(()),
        }
    }
}

/// Where the token comes from, for messages; none without a token.
fn token_source(file: Option<&Path>, has_token: bool) -> Option<String> {
    match file {
        Some(file) => Some(format!("in `{}`", file.display())),
        None => has_token.then(|| format!("in ${}", credentials::VARIABLE)),
    }
}

/// Why a mount failed, and for a refused token where it was and where tokens come from.
fn mount_failure(error: RemoteError, token_source: &Option<String>) -> CommandFailure {
    match error {
        RemoteError::Mount(error) => error.into(),
        RemoteError::Server { url, fault } if fault.kind() == Kind::Unauthenticated => {
            let problem = match token_source {
                Some(source) => format!("the server does not accept the token {source}"),
                None => "the server requires a token, and none was given".to_owned(),
            };
            let message = format!(
                "`{url}` cannot be mounted: {problem}; `svcfs token create --scope write` on the server's machine makes \
                 one, --token-file FILE or ${} passes it",
                credentials::VARIABLE
            );
            CommandFailure::new(ExitStatus::Failed, anyhow::Error::new(fault).context(message))
        }
        RemoteError::Server { url, fault } if fault.kind() == Kind::Forbidden => {
            let source = token_source.as_deref().unwrap_or("(none was given)");
            let message = format!("`{url}` cannot be mounted with the token {source}: {}", fault.message());
            CommandFailure::new(ExitStatus::Failed, anyhow::Error::new(fault).context(message))
        }
        error @ RemoteError::Server { .. } => CommandFailure::new(ExitStatus::Failed, error),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CommandFailure> {
    Ok(std::path::absolute(path).context("the current directory does not exist any more")?)
}

/// The default state directory of a remote mount.
fn default_state_dir(url: &str, space: Option<&str>) -> Result<PathBuf, CommandFailure> {
    let parent = if rustix::process::geteuid().is_root() {
        PathBuf::from(ROOT_STATE_DIR)
    } else {
        let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
        let message = "there is no home directory; give a directory with --state";
        state.ok_or_else(|| CommandFailure::saying(ExitStatus::Usage, message))?.join("svcfs/remote")
    };
    let mut name = url.to_owned();
    if let Some(space) = space {
        name.push('+');
        name.push_str(space);
    }
    Ok(parent.join(file_name_for(&name)))
}

/// The log file of a mount in the background.
fn log_path(state: &Path, mountpoint: &Path) -> Result<PathBuf, CommandFailure> {
    fs::create_dir_all(state).with_context(|| format!("cannot create the directory `{}`", state.display()))?;
    let name = file_name_for(&absolute(mountpoint)?.to_string_lossy());
    Ok(state.join(format!("mount{name}.log")))
}

/// A file name for a text.
fn file_name_for(text: &str) -> String {
    let rejected_dir = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+') { c } else { '_' };
    text.chars().map(rejected_dir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_a_server() {
        for (text, expected) in [
            ("https://notes.example.org", Ok("https://notes.example.org")),
            ("http://localhost:4242/", Ok("http://localhost:4242")),
            ("https://example.org/notes/", Ok("https://example.org/notes")),
            ("notes.example.org", Err("use the form")),
            ("ftp://example.org", Err("use the form")),
            ("https://me:secret@example.org", Err("--token-file")),
            ("https://example.org/?a=b", Err("no `?`")),
            ("http://example.org:99999", Err("a number from 1 to 65535")),
            ("http://[::1]:4242", Ok("http://[::1]:4242")),
            ("", Err("use the form")),
            ("https://exa mple.org", Err("not a URL")),
        ] {
            match (address(text), expected) {
                (Ok(user), Ok(expected)) => assert_eq!(user, expected),
                (Err(message), Err(expected)) => assert!(message.contains(expected), "{text:?}: {message}"),
                (user, _) => panic!("{text:?}: {user:?}"),
            }
        }
    }
}
