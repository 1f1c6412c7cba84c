//! Where a space may be mounted, and how a mount is taken away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::namespace::MountNamespace;

/// The kind of filesystem in the mount table, after `fuse.`; how [`unmount`] knows one of ours.
pub(crate) const FILESYSTEM_NAME: &str = "svcfs";

/// How long a mount may take to say that it is there before its server counts as one that will never answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Why a space is not mounted, or a mount not taken away.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum MountError {
    #[error("mountpoint `{0}` does not exist; create it with `mkdir -p {0}`")]
    Missing(PathBuf),
    #[error("mountpoint `{0}` is not a directory; choose an empty directory")]
    NotADirectory(PathBuf),
    #[error("mountpoint `{0}` is not empty: its files would be hidden while mounted; choose an empty directory")]
    NotEmpty(PathBuf),
    #[error(
        "mountpoint `{mountpoint}` overlaps the root `{root}`; choose a directory outside, such as `{root}.mnt`, or start the server with the root itself as its mountpoint"
    )]
    OverlapsRoot { mountpoint: PathBuf, root: PathBuf },
    #[error("covering the root `{0}` with its own mount needs root; choose a directory outside, such as `{0}.mnt`")]
    NeedsRoot(PathBuf),
    #[error("`{0}` is mounted by svcfs already; `svcfs unmount {0}` takes it away")]
    AlreadyMounted(PathBuf),
    #[error(
        "`{0}` is a mount whose server is gone, and not one of svcfs; unmount it with `umount -l {0}` or choose another directory"
    )]
    DeadMount(PathBuf),
    #[error("`{0}` is a mount whose server does not answer; `svcfs unmount {0}` cuts it off and takes it away")]
    Unresponsive(PathBuf),
    #[error("nothing of svcfs is mounted at `{0}`; `findmnt -t fuse.svcfs` lists what is")]
    NotMounted(PathBuf),
    #[error(
        "cannot mount at `{mountpoint}`: {source}; mounting needs a /dev/fuse that you may open, and root or `fusermount3` (package fuse3)"
    )]
    Mount { mountpoint: PathBuf, source: io::Error },
    #[error(
        "`{0}` cannot be mounted for every user (allow_other): unless root mounts, /etc/fuse.conf must have a line `user_allow_other`, which root can add"
    )]
    AllowOtherDenied(PathBuf),
    #[error("cannot unmount `{mountpoint}`: {reason}")]
    Unmount { mountpoint: PathBuf, reason: String },
    #[error(
        "`{mountpoint}` is unmounted, but {writers} of its files are still open for writing; what they held was saved; `fuser -v` names the processes"
    )]
    StillOpen { mountpoint: PathBuf, writers: usize },
    #[error("cannot look at mountpoint `{mountpoint}`: {source}")]
    Unreadable { mountpoint: PathBuf, source: io::Error },
}

/// Checks that a space with this root, which need not exist yet, may be mounted here, and answers with the mountpoint's canonical
/// path. A mount of ours whose server died is taken away first. The root itself may be covered from [`Outside::of`] it.
///
/// # Errors
/// Why not: the mountpoint is missing, no directory, not empty, in use, or overlaps the root.
pub fn check_mountpoint(mountpoint: &Path, root: &Path, outside: &MountNamespace) -> Result<PathBuf, MountError> {
    outside.visit(|| check(mountpoint, root, outside))
}

fn check(mountpoint: &Path, root: &Path, outside: &MountNamespace) -> Result<PathBuf, MountError> {
    let at = free(mountpoint)?;
    let root = root.canonicalize().or_else(|_| std::path::absolute(root)).map_err(|source| unreadable(root, source))?;
    if at == root && outside.is_elsewhere() {
        return Ok(at);
    }
    if root.starts_with(&at) || at.starts_with(&root) {
        return Err(MountError::OverlapsRoot { mountpoint: at, root });
    }
    must_be_empty(&at)?;
    Ok(at)
}

/// Checks that something without a root on this machine may be mounted here; else as [`check_mountpoint`].
///
/// # Errors
/// Why not: the mountpoint is missing, no directory, not empty or in use.
pub(crate) fn check_remote(mountpoint: &Path) -> Result<PathBuf, MountError> {
    let at = free(mountpoint)?;
    must_be_empty(&at)?;
    Ok(at)
}

fn must_be_empty(at: &Path) -> Result<(), MountError> {
    let mut entries = fs::read_dir(at).map_err(|source| unreadable(at, source))?;
    if entries.next().is_some() { Err(MountError::NotEmpty(at.to_owned())) } else { Ok(()) }
}

/// A directory at which nothing of ours is mounted; what a dead server left there is taken away.
fn free(mountpoint: &Path) -> Result<PathBuf, MountError> {
    let at = canonical(mountpoint)?;
    match look(&at)? {
        MountpointState::Dead => {
            tracing::warn!(mountpoint = %at.display(), "taking away a mount whose server is gone");
            detach(&at).map_err(|error| match error {
                MountError::NotMounted(path) => MountError::DeadMount(path),
                other => other,
            })?;
        }
        MountpointState::Silent => return Err(MountError::Unresponsive(at)),
        MountpointState::Answers(found) if !found.is_dir() => return Err(MountError::NotADirectory(at)),
        MountpointState::Answers(_) if connection(&at)?.is_some() => return Err(MountError::AlreadyMounted(at)),
        MountpointState::Answers(_) => {}
    }
    Ok(at)
}

/// Whether a mount of svcfs is at a path.
pub fn is_mounted(mountpoint: &Path) -> bool {
    canonical(mountpoint).is_ok_and(|at| connection(&at).is_ok_and(|connection| connection.is_some()))
}

/// Whether a mount of svcfs is at a path whose server is gone, or never answers.
pub fn is_dead_mount(mountpoint: &Path) -> bool {
    let is_ours = |at: &PathBuf| connection(at).is_ok_and(|connection| connection.is_some());
    canonical(mountpoint)
        .is_ok_and(|at| is_ours(&at) && matches!(look(&at), Ok(MountpointState::Dead | MountpointState::Silent)))
}

/// Takes an svcfs mount away, also one whose server is gone or never answers. Processes with open files keep them until they
/// close them.
///
/// # Errors
/// `NotMounted` when no svcfs mount is there (mounts of others are left alone); `Unmount` when the system refuses.
pub fn unmount(mountpoint: &Path) -> Result<(), MountError> {
    let at = canonical(mountpoint)?;
    if connection(&at)?.is_some() && matches!(look(&at)?, MountpointState::Silent) {
        tracing::warn!(mountpoint = %at.display(), "cutting off a mount whose server does not answer");
        abort(&at)?;
    }
    detach(&at)
}

/// Cuts an svcfs mount off from its server: whatever waits for an answer gets an error, now and later.
///
/// For a server that was killed and cannot end: one of its threads waits inside the kernel for a lock (a directory's, to take a
/// name back; a page's), and whoever has that lock waits for an answer of the server.
///
/// # Errors
/// `NotMounted` when no svcfs mount is there; `Unmount` when the system refuses.
pub fn abort(mountpoint: &Path) -> Result<(), MountError> {
    let at = canonical(mountpoint)?;
    let Some(connection) = connection(&at)? else { return Err(MountError::NotMounted(at)) };
    // The way for the user who mounted. The filesystem of connections is not mounted everywhere; root has another way.
    let control = format!("/sys/fs/fuse/connections/{connection}/abort");
    #[expect(clippy::disallowed_methods, reason = "a switch of the kernel, no file")]
    let Err(error) = fs::write(control, "1") else { return Ok(()) };
    match rustix::mount::unmount(&at, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
        // Cut off; it is in the tree still because somebody uses it.
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(errno) => {
            let reason = format!("its server does not answer, and it cannot be cut off: {errno}, {error}");
            Err(MountError::Unmount { mountpoint: at, reason })
        }
    }
}

/// Takes a mount of ours away without asking its server anything.
pub(crate) fn detach(mountpoint: &Path) -> Result<(), MountError> {
    let at = canonical(mountpoint)?;
    if connection(&at)?.is_none() {
        return Err(MountError::NotMounted(at));
    }
    match rustix::mount::unmount(&at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => unmount_as_user(&at),
        Err(errno) => Err(MountError::Unmount { mountpoint: at, reason: errno.to_string() }),
    }
}

/// What a look at a directory finds.
enum MountpointState {
    Answers(fs::Metadata),
    /// A mount whose server is gone.
    Dead,
    /// A mount whose server does not answer.
    Silent,
}

/// Looks at a directory from a thread of its own: what a server that never answers is asked never returns.
fn look(at: &Path) -> Result<MountpointState, MountError> {
    let (tell, told) = channel();
    let place = at.to_owned();
    let ask = move || {
        // The filesystem first: attributes of a mountpoint whose server has just died come from the kernel's cache.
        let found = rustix::fs::statvfs(&place).map_err(io::Error::from).and_then(|_| fs::metadata(&place));
        // Nobody listens any more when the answer came too late.
        drop(tell.send(found));
    };
    thread::Builder::new().name("mountpoint".to_owned()).spawn(ask).map_err(|source| unreadable(at, source))?;
    match told.recv_timeout(ANSWERS_WITHIN) {
        Ok(Ok(found)) => Ok(MountpointState::Answers(found)),
        Ok(Err(error)) if is_dead(&error) => Ok(MountpointState::Dead),
        Ok(Err(source)) => Err(unreadable(at, source)),
        Err(RecvTimeoutError::Timeout) => Ok(MountpointState::Silent),
        Err(RecvTimeoutError::Disconnected) => Err(unreadable(at, io::Error::other("the look at it failed"))),
    }
}

/// Without the privilege to unmount, the helper that mounted does it.
fn unmount_as_user(at: &Path) -> Result<(), MountError> {
    let refused = |reason| MountError::Unmount { mountpoint: at.to_owned(), reason };
    let helper = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(at).stdin(Stdio::null()).output();
    let output = helper.map_err(|error| refused(format!("`fusermount3` (package fuse3) cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The path without links. The last component of a dead mount cannot be resolved; it is no link.
pub(crate) fn canonical(path: &Path) -> Result<PathBuf, MountError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing(path.to_owned()),
        _ => unreadable(path, error),
    };
    let absolute = std::path::absolute(path).map_err(failed)?;
    match (absolute.canonicalize(), absolute.parent(), absolute.file_name()) {
        (Err(error), Some(parent), Some(name)) if is_dead(&error) => {
            Ok(parent.canonicalize().map_err(failed)?.join(name))
        }
        (resolved, ..) => resolved.map_err(failed),
    }
}

/// The kernel's number of the connection behind the newest mount at a path; none when that is not one of svcfs.
pub(crate) fn connection(at: &Path) -> Result<Option<u32>, MountError> {
    let table = fs::read("/proc/thread-self/mountinfo").map_err(|source| unreadable(at, source))?;
    Ok(String::from_utf8_lossy(&table).lines().rev().find_map(|line| mounted(line, at)).flatten())
}

/// Of a line of the mount table: none when it is about another path, else the connection when the mount is ours (proc(5): the
/// device is the third word, `major:minor`, and the path the fifth; type and source are the first two after a lone dash).
pub(crate) fn mounted(line: &str, at: &Path) -> Option<Option<u32>> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let words: Vec<_> = mount.split(' ').collect();
    if *words.get(4)? != escaped(at) {
        return None;
    }
    let mut of = filesystem.split(' ');
    let kind = of.next()?;
    // The second is how older versions mounted.
    let is_ours =
        kind.strip_prefix("fuse.") == Some(FILESYSTEM_NAME) || kind == "fuse" && of.next() == Some(FILESYSTEM_NAME);
    // The kernel names a FUSE connection after its mount's device.
    Some(words.get(2).filter(|_| is_ours).and_then(|device| device.split_once(':')?.1.parse().ok()))
}

/// A path as the mount table writes it.
fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

fn is_dead(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())
}

fn unreadable(mountpoint: &Path, source: io::Error) -> MountError {
    MountError::Unreadable { mountpoint: mountpoint.to_owned(), source }
}
