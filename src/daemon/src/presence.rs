//! How other commands find the server of a root: `.svc/state/server.json`.
//!
//! The lock of the root says that somebody has it; this file says how to reach them. It is believed only when it names the
//! process that holds the lock, so one left behind by a killed server does no harm.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind};
use svcfs_mount::MountError;
use svcfs_store::StatePaths;

use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;
use crate::replacing::{FileRights, replace};

const FILE: &str = "server.json";

/// Name of the space a server is started with, which answers when none is named (contract 2.14).
pub const FIRST: &str = "default";

/// Holds the key that opens the server to whoever can read its files: the user it runs as, and root.
const KEY: &str = "server.key";

/// How long a killed server may take to end once its mount is cut off.
const BURIAL: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Who serves a root, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedRoot {
    /// Process id.
    pub pid: u32,
    /// Address of the HTTP server without a trailing `/`; none when it only mounts or talks to one agent.
    pub url: Option<String>,
    /// Which of its spaces the root is, when it is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// Where it mounts the root.
    #[serde(default)]
    pub mounts: Vec<MountedRoot>,
}

/// A mount of a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedRoot {
    /// Where, without links.
    pub mountpoint: PathBuf,
    /// How.
    pub manner: MountFlags,
}

/// The file, for as long as this process serves.
#[derive(Debug)]
#[must_use = "the announcement ends when this is dropped"]
pub struct PresenceFile {
    path: PathBuf,
    key: PathBuf,
    served: ServedRoot,
}

/// Tells other commands that this process serves `root`, as the space of this name: at `url` if over HTTP, where `key` is asked for, and as
/// these folders.
///
/// # Errors
/// When the state directory cannot be written.
pub fn announce(
    root: &Path,
    space: &str,
    (url, key): (Option<String>, &str),
    mounts: Vec<MountedRoot>,
) -> Result<PresenceFile, CommandFailure> {
    let space = Some(space).filter(|space| *space != FIRST).map(str::to_owned);
    let served = ServedRoot { pid: std::process::id(), url, space, mounts };
    let announced = PresenceFile { path: path(root), key: key_path(root), served };
    replace(&announced.key, key.as_bytes(), FileRights::Mode(0o600))
        .with_context(|| format!("cannot write `{}`", announced.key.display()))?;
    announced.write()?;
    Ok(announced)
}

impl PresenceFile {
    /// Tells that the root is mounted at these places now.
    ///
    /// # Errors
    /// When the state directory cannot be written.
    pub fn mounted(&mut self, mounts: Vec<MountedRoot>) -> Result<(), CommandFailure> {
        self.served.mounts = mounts;
        self.write()
    }

    fn write(&self) -> Result<(), CommandFailure> {
        let text = serde_json::to_vec(&self.served).map_err(anyhow::Error::new)?;
        replace(&self.path, &text, FileRights::Mode(0o644))
            .with_context(|| format!("cannot write `{}`", self.path.display()))?;
        Ok(())
    }
}

impl Drop for PresenceFile {
    #[expect(clippy::disallowed_methods, reason = "state of this process, no part of the tree")]
    fn drop(&mut self) {
        for path in [&self.path, &self.key] {
            if let Err(error) = fs::remove_file(path)
                && error.kind() != ErrorKind::NotFound
            {
                tracing::warn!(%error, "`{}` could not be removed", path.display());
            }
        }
    }
}

/// Who has a root.
#[derive(Debug)]
pub struct RootHolder {
    /// Process id, as the lock tells it; empty in the moment before it is written.
    pub pid: String,
    /// How to reach it; none for a command that will let go in a moment, or a server that is still starting.
    pub served: Option<ServedRoot>,
}

/// Who has a root, when opening it failed because somebody else has; none for every other fault.
pub fn holder(root: &Path, fault: &Fault) -> Option<RootHolder> {
    if fault.kind() != Kind::Conflict {
        return None;
    }
    let pid = fault.detail().get("pid")?.as_str()?.to_owned();
    Some(RootHolder { served: announced(root).filter(|served| served.pid.to_string() == pid), pid })
}

fn path(root: &Path) -> PathBuf {
    StatePaths::new(root).directory().join(FILE)
}

fn key_path(root: &Path) -> PathBuf {
    StatePaths::new(root).directory().join(KEY)
}

/// The key of the server of a root, for whoever may read it.
pub fn key(root: &Path) -> Option<String> {
    fs::read_to_string(key_path(root)).ok()
}

/// As which space beside the first a running server serves a root, and its process.
pub fn beside_the_first(root: &Path) -> Option<(String, u32)> {
    let ServedRoot { pid, space, .. } = announced(root)?;
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    // A file that a killed server left behind names nobody.
    rustix::process::test_kill_process(process).ok()?;
    Some((space?, pid))
}

/// What the file says, whether or not it still holds.
pub fn announced(root: &Path) -> Option<ServedRoot> {
    serde_json::from_slice(&fs::read(path(root)).ok()?).ok()
}

/// Takes away the mount that a killed server left over its root.
///
/// # Errors
/// When the system refuses.
pub fn uncover(root: &Path) -> Result<(), CommandFailure> {
    if svcfs_mount::is_dead_mount(root) {
        svcfs_mount::unmount(root)?;
    }
    Ok(())
}

/// Helps a server that was killed and cannot end to its end, so that it lets go of the root: see [`svcfs_mount::abort`]. Answers with
/// the dead mounts that it left behind.
///
/// # Errors
/// When its mount cannot be cut off, or it does not end then.
pub fn bury(root: &Path) -> Result<Vec<MountedRoot>, CommandFailure> {
    let Some(ServedRoot { pid, mounts, .. }) = announced(root) else { return Ok(Vec::new()) };
    if !mounts.is_empty() && lingers(pid) {
        cut_off(root, pid, &mounts)?;
    }
    Ok(mounts.into_iter().filter(|mount| svcfs_mount::is_dead_mount(&mount.mountpoint)).collect())
}

fn cut_off(root: &Path, pid: u32, mounts: &[MountedRoot]) -> Result<(), CommandFailure> {
    for MountedRoot { mountpoint, .. } in mounts {
        tracing::warn!(pid, mountpoint = %mountpoint.display(), "the last server was killed and hangs in its mount; cutting that off");
        match svcfs_mount::abort(mountpoint) {
            // Somebody was faster with this one.
            Err(MountError::NotMounted(_) | MountError::Missing(_)) => {}
            outcome => outcome?,
        }
    }
    if !ends(pid).with_context(|| format!("cannot wait for the end of process {pid}"))? {
        let told = format!(
            "process {pid}, which served `{}`, was killed and does not end; a disk may not answer, see `cat /proc/{pid}/task/*/stack`",
            root.display()
        );
        return Err(CommandFailure::saying(ExitStatus::Refused, told));
    }
    Ok(())
}

/// Waits until the process of a [`Holder`] is gone, at most ten seconds; whether it is.
///
/// # Errors
/// When it cannot be waited for.
pub fn is_gone(pid: &str) -> Result<bool, CommandFailure> {
    let Ok(pid) = pid.parse() else { return Ok(false) };
    Ok(ends(pid).with_context(|| format!("cannot wait for the end of process {pid}"))?)
}

/// Waits until a process is gone, at most [`BURIAL`].
fn ends(pid: u32) -> rustix::io::Result<bool> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(true) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(true),
        opened => opened?,
    };
    Ok(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&BURIAL))? > 0)
}

/// Whether a process was killed and has threads that do not end. Its first thread is a zombie then (proc_pid_stat(5): the state
/// follows the name in parentheses), and others are left.
fn lingers(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_killed = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z "));
    is_killed && fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1)
}

/// Why a command that needs the root for itself cannot have it, and what to do.
pub fn taken(root: &Path, fault: Fault, advice: &str) -> CommandFailure {
    let Some(RootHolder { pid, served }) = holder(root, &fault) else {
        return fault.into();
    };
    let root = root.display();
    let told = match served {
        Some(ServedRoot { pid, mounts, .. }) if !mounts.is_empty() && lingers(pid) => {
            let places: Vec<_> =
                mounts.iter().map(|mount| format!("`svcfs unmount {}`", mount.mountpoint.display())).collect();
            let places = places.join(" and ");
            format!("process {pid}, which served `{root}`, was killed and hangs in its mount; {places} ends it")
        }
        served => {
            let at = served.and_then(|served| served.url).map(|url| format!(" at {url}")).unwrap_or_default();
            format!("root `{root}` is served already by process {pid}{at}; {advice}")
        }
    };
    CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(fault).context(told))
}
