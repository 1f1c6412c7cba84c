//! A mount of a server on another machine, from the command line to its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http::Uri;
use nix::unistd::{Uid, User};
use sd_notify::NotifyState;
use svcfs_base::SystemClock;
use svcfs_config::LogOutput;
use svcfs_mount::{MountError, RemoteError, RemoteMount, RemoteOptions};
use tokio::sync::Notify;
use tracing::level_filters::LevelFilter;

use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;
use crate::stop::notify;
use crate::{background, credentials, logging, output, signals};

/// How long programs that use the mount may take to close their files when it ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a program waits for a server that is away, in seconds, unless it is told otherwise.
const PATIENCE_WITH_A_SERVER: u64 = 10;
/// Where root keeps what a mount has to keep.
const OF_ROOT: &str = "/var/lib/svcfs/remote";
/// Flags of a mount of another machine's server.
#[derive(Debug, Args)]
#[group(skip)]
pub struct RemoteFlags {
    /// Mount the knowledge base of a server on another machine, such as https://notes.example.org, over its HTTP API
    #[arg(long, value_name = "URL", value_parser = address, conflicts_with_all = ["root", "config", "at"])]
    remote: Option<String>,
    /// Send the first line of this file as `Authorization: Bearer`; nobody but you may read it [default: $SVC_API_KEY]
    #[arg(long, value_name = "FILE", requires = "remote")]
    token_file: Option<PathBuf>,
    /// Which space of the server; its first when absent
    #[arg(long, value_name = "NAME")]
    pub space: Option<String>,
    /// How long a program waits for a server that is away, before it gets an input/output error [default: 10]
    #[arg(long, value_name = "SECONDS", requires = "remote", value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: Option<u64>,
    /// Let the files be this user's (name or number), who may then write them; else whoever mounts. Only root gives them away
    #[arg(long, value_name = "USER", requires = "remote", value_parser = owner)]
    owner: Option<FileOwner>,
    /// Where texts that the server did not take are kept; else below ~/.local/state/svcfs, or /var/lib/svcfs for root
    #[arg(long, value_name = "DIR", requires = "remote")]
    state: Option<PathBuf>,
}

/// Whose the files of a mount are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileOwner {
    user: u32,
    group: u32,
}

/// A user of this machine.
fn owner(text: &str) -> Result<FileOwner, String> {
    let found = match text.parse() {
        Ok(number) => User::from_uid(Uid::from_raw(number)),
        Err(_) => User::from_name(text),
    };
    match found {
        Ok(Some(user)) => Ok(FileOwner { user: user.uid.as_raw(), group: user.gid.as_raw() }),
        Ok(None) => Err(format!("there is no user `{text}` on this machine")),
        Err(errno) => Err(format!("the user `{text}` cannot be looked up: {errno}")),
    }
}

/// The address of a server, as it is shown in the mount table.
fn address(text: &str) -> Result<String, String> {
    let uri: Uri = text
        .parse()
        .map_err(|error| format!("this is no address ({error}); write it like https://notes.example.org"))?;
    let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("write it like https://notes.example.org or http://localhost:4242".to_owned());
    };
    if authority.as_str().contains('@') {
        return Err(
            "everybody can read the mount table: put the token into a file, and name it with --token-file".to_owned()
        );
    }
    if uri.query().is_some() {
        return Err("an address of a server has no `?`".to_owned());
    }
    Ok(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')))
}

impl RemoteFlags {
    /// Mounts it, when that is what was asked for: until a signal asks for the end or somebody unmounts it, or in the background.
    ///
    /// # Errors
    /// What stands in the way of mounting, or did not end as it should.
    pub fn run(self, mountpoint: &Path, manner: MountFlags, is_in_background: bool) -> Result<(), CommandFailure> {
        let Self { remote, token_file, space, patience, owner, state } = self;
        let patience = patience.unwrap_or(PATIENCE_WITH_A_SERVER);
        if owner.is_some() && !rustix::process::geteuid().is_root() {
            return Err(CommandFailure::saying(
                ExitStatus::Usage,
                "--owner needs root: an ordinary user's mount is that user's",
            ));
        }
        let url = remote.unwrap_or_default();
        let state = state.map_or_else(|| state_of(&url, space.as_deref()), Ok)?;
        let state = std::path::absolute(state).context("the current directory is gone")?;
        let token = credentials::given(token_file.as_deref())?;
        if is_in_background {
            let mut arguments = vec![format!("--remote={url}").into(), format!("--patience={patience}").into()];
            arguments.extend(space.map(|space| format!("--space={space}").into()));
            if let Some(file) = &token_file {
                arguments.extend(["--token-file".into(), absolute(file)?.into()]);
            }
            arguments.extend(owner.map(|owner| format!("--owner={}", owner.user).into()));
            arguments.extend(["--state".into(), state.clone().into()]);
            let log = log_of(&state, mountpoint)?;
            return output::say(&background::start(arguments, (mountpoint, &manner), &log)?);
        }
        let owner = owner.map(|FileOwner { user, group }| (user, group));
        let (patience, kept) = (Duration::from_secs(patience), state.join("rejected"));
        let remote = RemoteOptions { url, space, token, timeout: patience, owner, rejected_dir: kept };
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::INFO)?;
        let listening = signals::listen(false)?;
        let over = Arc::new(Notify::new());
        let rung = Arc::clone(&over);
        let mut options = manner.options(Arc::new(SystemClock));
        options.on_end = Some(Arc::new(move || rung.notify_one()));
        let mount = RemoteMount::start(&remote, mountpoint, &options).map_err(CommandFailure::from)?;
        let told = format!("svcfs mounts {} at {}", remote.url, mount.mountpoint().display());
        let outcome = output::say(&told);
        notify(&[NotifyState::Ready, NotifyState::Status(&told)]);
        if outcome.is_ok() {
            listening.runtime.block_on(async {
                tokio::select! {
                    () = listening.end.cancelled() => {}
                    () = over.notified() => tracing::info!("it is not mounted any more"),
                }
            });
        }
        notify(&[NotifyState::Stopping]);
        let stopped = match mount.stop(PATIENCE) {
            // Programs that keep files open are theirs to mend; what they wrote is saved, and the end is a good one.
            Err(error @ MountError::StillOpen { .. }) => {
                tracing::warn!("{error}");
                Ok(())
            }
            stopped => stopped.map_err(CommandFailure::from),
        };
        listening.runtime.shutdown_background();
        outcome.and(stopped)
    }

    /// Whether a server elsewhere was asked for.
    pub const fn is_asked_for(&self) -> bool {
        self.remote.is_some()
    }

    /// Whether what belongs to another machine's server is asked of one.
    ///
    /// # Errors
    /// `Usage`, naming the flag.
    pub fn check(&self) -> Result<(), CommandFailure> {
        let Self { remote, token_file, space: _, patience, owner, state } = self;
        let given = [
            (token_file.is_some(), "--token-file"),
            (patience.is_some(), "--patience"),
            (owner.is_some(), "--owner"),
            (state.is_some(), "--state"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given && remote.is_none()) {
            Some((_, flag)) => Err(CommandFailure::saying(
                ExitStatus::Usage,
                format!("{flag} belongs to a mount of another machine's server; name that with --remote"),
            )),
            None => Ok(()),
        }
    }
}

impl From<RemoteError> for CommandFailure {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Mount(error) => error.into(),
            error @ RemoteError::Server { .. } => Self::new(ExitStatus::Failed, error),
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CommandFailure> {
    Ok(std::path::absolute(path).context("the current directory is gone")?)
}

/// Where a mount of a server keeps what it has to keep, unless that is said.
fn state_of(url: &str, space: Option<&str>) -> Result<PathBuf, CommandFailure> {
    let above = if rustix::process::geteuid().is_root() {
        PathBuf::from(OF_ROOT)
    } else {
        let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
        let told = "there is no home directory to keep anything in; say where with --state";
        state.ok_or_else(|| CommandFailure::saying(ExitStatus::Usage, told))?.join("svcfs/remote")
    };
    let mut name = url.to_owned();
    if let Some(space) = space {
        name.push('+');
        name.push_str(space);
    }
    Ok(above.join(as_name(&name)))
}

/// The log of a mount in the background.
fn log_of(state: &Path, mountpoint: &Path) -> Result<PathBuf, CommandFailure> {
    fs::create_dir_all(state).with_context(|| format!("cannot make the directory `{}`", state.display()))?;
    let name = as_name(&absolute(mountpoint)?.to_string_lossy());
    Ok(state.join(format!("mount{name}.log")))
}

/// A text as the name of one file.
fn as_name(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+') { c } else { '_' };
    text.chars().map(kept).collect()
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
            ("notes.example.org", Err("write it like")),
            ("ftp://example.org", Err("write it like")),
            ("https://me:secret@example.org", Err("--token-file")),
            ("https://example.org/?a=b", Err("no `?`")),
            ("", Err("write it like")),
            ("https://exa mple.org", Err("no address")),
        ] {
            match (address(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(told), Err(expected)) => assert!(told.contains(expected), "{text:?}: {told}"),
                (found, _) => panic!("{text:?}: {found:?}"),
            }
        }
    }
}
