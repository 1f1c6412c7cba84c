//! How other commands find the server of a root: `.svc/state/server.json`.
//!
//! The lock of the root shows that a process uses it; this file says how to reach that process. It
//! counts only when it names the process that holds the lock, so the file of a killed server does
//! no harm.

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
use svcfs_store::{FileRights, StatePaths, replace_file};

use crate::control;
use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;

const FILE: &str = "server.json";

/// Name of the first space, which answers requests that name none.
pub const FIRST: &str = "default";

/// File with the key for local commands, readable by the user of the server and root.
const KEY: &str = "server.key";

/// How long a killed server may take to exit after its mount was aborted.
const EXIT_TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The server of a root and its URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedRoot {
    /// Process id.
    pub pid: u32,
    /// URL of the HTTP server without a trailing `/`; none without HTTP.
    pub url: Option<String>,
    /// Name of the space, if it is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// Control socket of the process, if the root is not its first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<PathBuf>,
    /// Mounts of the root.
    #[serde(default)]
    pub mounts: Vec<MountedRoot>,
}

/// A mount of a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedRoot {
    /// The mountpoint with links resolved.
    pub mountpoint: PathBuf,
    /// Mount options.
    #[serde(rename = "manner")]
    pub flags: MountFlags,
}

/// The file of a running server; dropping it removes the file.
#[derive(Debug)]
#[must_use = "the announcement ends when this is dropped"]
pub struct PresenceFile {
    path: PathBuf,
    key: PathBuf,
    served: ServedRoot,
}

/// Announces to other commands that this process serves `root` as a space: at `url` if over HTTP,
/// with the key for local commands, and with these mounts. `control` is the control socket of the
/// first space for the others.
///
/// # Errors
/// When the state directory cannot be written.
pub fn announce(
    root: &Path,
    (space, control): (&str, Option<PathBuf>),
    (url, key): (Option<String>, &str),
    mounts: Vec<MountedRoot>,
) -> Result<PresenceFile, CommandFailure> {
    let space = Some(space).filter(|space| *space != FIRST).map(str::to_owned);
    let served = ServedRoot { pid: std::process::id(), url, space, control, mounts };
    let file = PresenceFile { path: path(root), key: key_path(root), served };
    replace_file(&file.key, key.as_bytes(), FileRights::Mode(0o600))
        .with_context(|| format!("cannot write `{}`", file.key.display()))?;
    file.write()?;
    Ok(file)
}

impl PresenceFile {
    /// Updates the announced mounts.
    ///
    /// # Errors
    /// When the state directory cannot be written.
    pub fn set_mounts(&mut self, mounts: Vec<MountedRoot>) -> Result<(), CommandFailure> {
        self.served.mounts = mounts;
        self.write()
    }

    fn write(&self) -> Result<(), CommandFailure> {
        let text = serde_json::to_vec(&self.served).map_err(anyhow::Error::new)?;
        replace_file(&self.path, &text, FileRights::Mode(0o644))
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

/// The process that uses a root.
#[derive(Debug)]
pub struct RootHolder {
    /// Process id from the lock file; empty until the process has written it.
    pub pid: String,
    /// How to reach it; none for a short command or a server that is starting.
    pub served: Option<ServedRoot>,
}

/// The process that uses a root, if opening failed for that reason; none for every other fault.
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

/// The key for local commands, if this user may read it.
pub fn key(root: &Path) -> Option<String> {
    fs::read_to_string(key_path(root)).ok()
}

/// The name under which a running server serves a root as a secondary space, and its process id.
pub fn secondary_space(root: &Path) -> Option<(String, u32)> {
    let ServedRoot { pid, space, .. } = announced(root)?;
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    // The file of a killed server names no running process.
    rustix::process::test_kill_process(process).ok()?;
    Some((space?, pid))
}

/// Where the process that has a root listens, and the name of the root as its space, if it is not
/// the first. The process may have ended.
pub fn control_socket(root: &Path) -> (PathBuf, Option<String>) {
    match announced(root) {
        Some(ServedRoot { control: Some(control), space, .. }) => (control, space),
        Some(_) | None => (control::socket_path(root), None),
    }
}

/// The content of the file; it may be out of date.
pub fn announced(root: &Path) -> Option<ServedRoot> {
    serde_json::from_slice(&fs::read(path(root)).ok()?).ok()
}

/// Unmounts the stale mount of a killed server that hides its root.
///
/// # Errors
/// When unmounting fails.
pub fn unmount_stale(root: &Path) -> Result<(), CommandFailure> {
    if svcfs_mount::is_dead_mount(root) {
        svcfs_mount::unmount(root)?;
    }
    Ok(())
}

/// Aborts the mounts of a killed server that hangs in them, so that it exits and releases the root:
/// see [`svcfs_mount::abort`]. Returns its stale mounts.
///
/// # Errors
/// When a mount cannot be aborted, or the process does not exit then.
pub fn abort_hung_server(root: &Path) -> Result<Vec<MountedRoot>, CommandFailure> {
    let Some(ServedRoot { pid, mounts, .. }) = announced(root) else { return Ok(Vec::new()) };
    if !mounts.is_empty() && is_hung(pid) {
        abort_mounts(root, pid, &mounts)?;
    }
    Ok(mounts.into_iter().filter(|mount| svcfs_mount::is_dead_mount(&mount.mountpoint)).collect())
}

fn abort_mounts(root: &Path, pid: u32, mounts: &[MountedRoot]) -> Result<(), CommandFailure> {
    for MountedRoot { mountpoint, .. } in mounts {
        tracing::warn!(pid, mountpoint = %mountpoint.display(), "the last server was killed and hangs in its mount; aborting the mount");
        match svcfs_mount::abort(mountpoint) {
            // Another process has unmounted it already.
            Err(MountError::NotMounted(_) | MountError::Missing(_)) => {}
            outcome => outcome?,
        }
    }
    if !wait_for_exit(pid).with_context(|| format!("cannot wait for the end of process {pid}"))? {
        let message = format!(
            "process {pid}, which served `{}`, was killed and does not exit; a disk may hang, see `cat /proc/{pid}/task/*/stack`",
            root.display()
        );
        return Err(CommandFailure::saying(ExitStatus::Refused, message));
    }
    Ok(())
}

/// Waits until a process has exited, at most [`EXIT_TIMEOUT`].
fn wait_for_exit(pid: u32) -> rustix::io::Result<bool> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(true) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(true),
        opened => opened?,
    };
    Ok(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&EXIT_TIMEOUT))? > 0)
}

/// Whether a process was killed and has threads that do not exit. Its first thread is a zombie then
/// (proc_pid_stat(5): the state follows the name in parentheses), and other threads remain.
fn is_hung(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_killed = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z "));
    is_killed && fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1)
}

/// The failure of a command that needs exclusive use of a served root, with what to do.
pub fn root_in_use(root: &Path, fault: Fault, advice: &str) -> CommandFailure {
    let Some(RootHolder { pid, served }) = holder(root, &fault) else {
        return fault.into();
    };
    let root = root.display();
    let message = match served {
        Some(ServedRoot { pid, mounts, .. }) if !mounts.is_empty() && is_hung(pid) => {
            let commands: Vec<_> =
                mounts.iter().map(|mount| format!("`svcfs unmount {}`", mount.mountpoint.display())).collect();
            let commands = commands.join(" and ");
            format!("process {pid}, which served `{root}`, was killed and hangs in its mount; run {commands}")
        }
        served => {
            let at = served.and_then(|served| served.url).map(|url| format!(" at {url}")).unwrap_or_default();
            format!("root `{root}` is already served by process {pid}{at}; {advice}")
        }
    };
    CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(fault).context(message))
}
