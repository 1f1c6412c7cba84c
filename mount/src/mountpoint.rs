//! Checks mountpoints, and unmounts.

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

/// Filesystem type in the mount table, after `fuse.`; [`unmount`] recognizes svcfs mounts by it.
pub(crate) const FILESYSTEM_NAME: &str = "svcfs";

/// Timeout of a check; a server that takes longer counts as unresponsive.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why mounting or unmounting failed.
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
    #[error("mounting over the root `{0}` itself needs root; choose a directory outside, such as `{0}.mnt`")]
    NeedsRoot(PathBuf),
    #[error("`{0}` is already mounted by svcfs; unmount it with `svcfs unmount {0}`")]
    AlreadyMounted(PathBuf),
    #[error(
        "`{0}` is a stale mount (its server exited) of another program; unmount it with `umount -l {0}` or choose another directory"
    )]
    DeadMount(PathBuf),
    #[error("`{0}` is a mount whose server does not respond; abort it with `svcfs unmount {0}`")]
    Unresponsive(PathBuf),
    #[error("no svcfs mount at `{0}`; list the mounts with `findmnt -t fuse.svcfs`")]
    NotMounted(PathBuf),
    #[error(
        "cannot mount at `{mountpoint}`: {source}; mounting needs access to /dev/fuse, and root or `fusermount3` (package fuse3)"
    )]
    Mount { mountpoint: PathBuf, source: io::Error },
    #[error(
        "`{0}` cannot be mounted for every user (allow_other): mount as root, or let root add the line `user_allow_other` to /etc/fuse.conf"
    )]
    AllowOtherDenied(PathBuf),
    #[error("cannot unmount `{mountpoint}`: {reason}")]
    Unmount { mountpoint: PathBuf, reason: String },
    #[error(
        "`{mountpoint}` is unmounted, but {writers} of its files are still open for writing; their content was saved; find the processes with `fuser -v`"
    )]
    StillOpen { mountpoint: PathBuf, writers: usize },
    #[error("cannot access mountpoint `{mountpoint}`: {source}")]
    Unreadable { mountpoint: PathBuf, source: io::Error },
}

/// Checks that a space with this root, which need not exist yet, may be mounted here, and returns
/// the canonical mountpoint. Unmounts a stale mount of svcfs first. The root itself may be covered
/// if the namespace came from [`MountNamespace::for_mount`].
///
/// # Errors
/// The mountpoint is missing, no directory, not empty, in use, or overlaps the root.
pub fn check_mountpoint(mountpoint: &Path, root: &Path, namespace: &MountNamespace) -> Result<PathBuf, MountError> {
    namespace.run_inside(|| check(mountpoint, root, namespace))
}

fn check(mountpoint: &Path, root: &Path, namespace: &MountNamespace) -> Result<PathBuf, MountError> {
    let target = prepare_mountpoint(mountpoint)?;
    let root =
        root.canonicalize().or_else(|_| std::path::absolute(root)).map_err(|source| check_error(root, source))?;
    if target == root && namespace.is_separate() {
        return Ok(target);
    }
    if root.starts_with(&target) || target.starts_with(&root) {
        return Err(MountError::OverlapsRoot { mountpoint: target, root });
    }
    check_empty(&target)?;
    Ok(target)
}

/// Like [`check_mountpoint`], without a root on this machine.
///
/// # Errors
/// The mountpoint is missing, no directory, not empty or in use.
pub(crate) fn check_remote(mountpoint: &Path) -> Result<PathBuf, MountError> {
    let target = prepare_mountpoint(mountpoint)?;
    check_empty(&target)?;
    Ok(target)
}

fn check_empty(target: &Path) -> Result<(), MountError> {
    let mut entries = fs::read_dir(target).map_err(|source| check_error(target, source))?;
    if entries.next().is_some() { Err(MountError::NotEmpty(target.to_owned())) } else { Ok(()) }
}

/// Checks that no svcfs mount is at a directory; unmounts a stale one.
fn prepare_mountpoint(mountpoint: &Path) -> Result<PathBuf, MountError> {
    let target = canonical(mountpoint)?;
    match probe(&target)? {
        MountpointState::Dead => {
            tracing::warn!(mountpoint = %target.display(), "unmounting a stale mount: its server exited");
            detach(&target).map_err(|error| match error {
                MountError::NotMounted(path) => MountError::DeadMount(path),
                error => error,
            })?;
        }
        MountpointState::Unresponsive => return Err(MountError::Unresponsive(target)),
        MountpointState::Responsive(metadata) if !metadata.is_dir() => return Err(MountError::NotADirectory(target)),
        MountpointState::Responsive(_) if connection(&target)?.is_some() => {
            return Err(MountError::AlreadyMounted(target));
        }
        MountpointState::Responsive(_) => {}
    }
    Ok(target)
}

/// Whether an svcfs mount is at a path.
pub fn is_mounted(mountpoint: &Path) -> bool {
    canonical(mountpoint).is_ok_and(|target| connection(&target).is_ok_and(|connection| connection.is_some()))
}

/// The root that is mounted at a path, if the mount table has it: not for remote mounts.
pub fn mounted_root(mountpoint: &Path) -> Option<PathBuf> {
    let target = canonical(mountpoint).ok()?;
    let table = fs::read_to_string("/proc/thread-self/mountinfo").ok()?;
    let line = table.lines().rev().find(|line| parse_mount_line(line, &target).is_some())?;
    parse_mount_line(line, &target)??;
    let root = PathBuf::from(unescape(line.split_once(" - ")?.1.split(' ').nth(1)?));
    (root.is_absolute() && root != target).then_some(root)
}

/// Whether an svcfs mount is at a path whose server is dead or unresponsive.
pub fn is_dead_mount(mountpoint: &Path) -> bool {
    let is_svcfs = |target: &PathBuf| connection(target).is_ok_and(|connection| connection.is_some());
    canonical(mountpoint).is_ok_and(|target| {
        is_svcfs(&target) && matches!(probe(&target), Ok(MountpointState::Dead | MountpointState::Unresponsive))
    })
}

/// Unmounts svcfs, also when its server is dead or unresponsive. Processes keep their open files
/// until they close them.
///
/// # Errors
/// `NotMounted` when no svcfs mount is there (other mounts stay); `Unmount` when the system
/// refuses.
pub fn unmount(mountpoint: &Path) -> Result<(), MountError> {
    let target = canonical(mountpoint)?;
    if connection(&target)?.is_some() && matches!(probe(&target)?, MountpointState::Unresponsive) {
        tracing::warn!(mountpoint = %target.display(), "aborting a mount whose server does not respond");
        abort(&target)?;
    }
    detach(&target)
}

/// Aborts the connection of an svcfs mount: waiting and later requests fail.
///
/// Needed for a killed server that cannot exit: one of its threads waits in the kernel for a lock
/// (of a directory, for an invalidation, or of a page) whose owner waits for a reply of the server.
///
/// # Errors
/// `NotMounted` when no svcfs mount is there; `Unmount` when the system refuses.
pub fn abort(mountpoint: &Path) -> Result<(), MountError> {
    let target = canonical(mountpoint)?;
    let Some(connection) = connection(&target)? else { return Err(MountError::NotMounted(target)) };
    // Works for the user who mounted. fusectl is not mounted everywhere; root uses MNT_FORCE
    // instead.
    let control = format!("/sys/fs/fuse/connections/{connection}/abort");
    #[expect(clippy::disallowed_methods, reason = "a switch of the kernel, no file")]
    let Err(error) = fs::write(control, "1") else { return Ok(()) };
    match rustix::mount::unmount(&target, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
        // Aborted; still mounted because it is in use.
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(errno) => {
            let reason = format!("its server does not respond and the connection cannot be aborted: {errno}, {error}");
            Err(MountError::Unmount { mountpoint: target, reason })
        }
    }
}

/// Unmounts svcfs without a request to its server.
pub(crate) fn detach(mountpoint: &Path) -> Result<(), MountError> {
    let target = canonical(mountpoint)?;
    if connection(&target)?.is_none() {
        return Err(MountError::NotMounted(target));
    }
    match rustix::mount::unmount(&target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => unmount_as_user(&target),
        Err(errno) => Err(MountError::Unmount { mountpoint: target, reason: errno.to_string() }),
    }
}

/// Result of probing a directory.
enum MountpointState {
    Responsive(fs::Metadata),
    /// The server of the mount exited.
    Dead,
    /// The server of the mount did not answer in time.
    Unresponsive,
}

/// Probes a directory in a separate thread: with an unresponsive server the call never returns.
fn probe(target: &Path) -> Result<MountpointState, MountError> {
    let (sender, receiver) = channel();
    let path = target.to_owned();
    let run = move || {
        // statvfs first: the attributes of a mountpoint whose server just died are still in the
        // kernel's cache.
        let metadata = rustix::fs::statvfs(&path).map_err(io::Error::from).and_then(|_| fs::metadata(&path));
        // Fails when the receiver timed out.
        drop(sender.send(metadata));
    };
    thread::Builder::new().name("mountpoint".to_owned()).spawn(run).map_err(|source| check_error(target, source))?;
    match receiver.recv_timeout(PROBE_TIMEOUT) {
        Ok(Ok(metadata)) => Ok(MountpointState::Responsive(metadata)),
        Ok(Err(error)) if is_dead(&error) => Ok(MountpointState::Dead),
        Ok(Err(source)) => Err(check_error(target, source)),
        Err(RecvTimeoutError::Timeout) => Ok(MountpointState::Unresponsive),
        Err(RecvTimeoutError::Disconnected) => Err(check_error(target, io::Error::other("the check panicked"))),
    }
}

/// Unmounts without privilege, through the setuid helper.
fn unmount_as_user(target: &Path) -> Result<(), MountError> {
    let to_error = |reason| MountError::Unmount { mountpoint: target.to_owned(), reason };
    let helper = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(target).stdin(Stdio::null()).output();
    let output =
        helper.map_err(|error| to_error(format!("`fusermount3` (package fuse3) cannot be started: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(to_error(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Resolves symbolic links. The last component of a dead mount cannot be resolved; it is no link.
pub(crate) fn canonical(path: &Path) -> Result<PathBuf, MountError> {
    let to_error = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing(path.to_owned()),
        _ => check_error(path, error),
    };
    let absolute = std::path::absolute(path).map_err(to_error)?;
    match (absolute.canonicalize(), absolute.parent(), absolute.file_name()) {
        (Err(error), Some(parent), Some(name)) if is_dead(&error) => {
            Ok(parent.canonicalize().map_err(to_error)?.join(name))
        }
        (resolved, ..) => resolved.map_err(to_error),
    }
}

/// The FUSE connection number of the newest mount at a path; none when that is not an svcfs mount.
pub(crate) fn connection(target: &Path) -> Result<Option<u32>, MountError> {
    let table = fs::read("/proc/thread-self/mountinfo").map_err(|source| check_error(target, source))?;
    Ok(String::from_utf8_lossy(&table).lines().rev().find_map(|line| parse_mount_line(line, target)).flatten())
}

/// Parses a line of the mount table: none for another path, else the connection if it is an svcfs
/// mount (proc(5): field 3 is the device, `major:minor`, field 5 the path; type and source follow a
/// lone dash).
pub(crate) fn parse_mount_line(line: &str, target: &Path) -> Option<Option<u32>> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let fields: Vec<_> = mount.split(' ').collect();
    if *fields.get(4)? != escape(target) {
        return None;
    }
    let mut names = filesystem.split(' ');
    let kind = names.next()?;
    // The second form is from older versions of svcfs.
    let is_svcfs =
        kind.strip_prefix("fuse.") == Some(FILESYSTEM_NAME) || kind == "fuse" && names.next() == Some(FILESYSTEM_NAME);
    // A FUSE connection has the number of the mount's device.
    Some(fields.get(2).filter(|_| is_svcfs).and_then(|device| device.split_once(':')?.1.parse().ok()))
}

/// Escapes a path as the mount table does.
fn escape(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

/// Reverses [`escape`].
fn unescape(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

fn is_dead(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())
}

fn check_error(mountpoint: &Path, source: io::Error) -> MountError {
    MountError::Unreadable { mountpoint: mountpoint.to_owned(), source }
}
