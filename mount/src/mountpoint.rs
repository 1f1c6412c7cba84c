//! Where a space may be mounted, and how a mount is taken away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// What the mount is called in the mount table; how [`unmount`] knows one of ours.
pub(crate) const FILESYSTEM_NAME: &str = "svcfs";

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
    #[error("mountpoint `{mountpoint}` overlaps the root `{root}`; choose a directory outside, such as `{root}.mnt`")]
    OverlapsRoot { mountpoint: PathBuf, root: PathBuf },
    #[error("`{0}` is mounted by svcfs already; `svcfs unmount {0}` takes it away")]
    AlreadyMounted(PathBuf),
    #[error(
        "`{0}` is a mount whose server is gone, and not one of svcfs; unmount it with `umount -l {0}` or choose another directory"
    )]
    DeadMount(PathBuf),
    #[error("nothing of svcfs is mounted at `{0}`; `findmnt -t fuse,fuse.svcfs` lists what is")]
    NotMounted(PathBuf),
    #[error(
        "cannot mount at `{mountpoint}`: {source}; mounting needs /dev/fuse, and root or `fusermount3` (package fuse3)"
    )]
    Mount { mountpoint: PathBuf, source: io::Error },
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
/// path. A mount of ours whose server died is taken away first.
///
/// # Errors
/// Why not: the mountpoint is missing, no directory, not empty, in use, or overlaps the root.
pub fn check_mountpoint(mountpoint: &Path, root: &Path) -> Result<PathBuf, MountError> {
    let at = canonical(mountpoint)?;
    // The filesystem itself is asked first: attributes of a mountpoint whose server has just died come from the kernel's cache.
    match rustix::fs::statvfs(&at).map_err(io::Error::from).and_then(|_| fs::metadata(&at)) {
        Err(error) if is_dead(&error) => {
            tracing::warn!(mountpoint = %at.display(), "taking away a mount whose server is gone");
            unmount(&at).map_err(|error| match error {
                MountError::NotMounted(path) => MountError::DeadMount(path),
                other => other,
            })?;
        }
        Err(source) => return Err(unreadable(&at, source)),
        Ok(found) if !found.is_dir() => return Err(MountError::NotADirectory(at)),
        Ok(_) if is_ours(&at)? => return Err(MountError::AlreadyMounted(at)),
        Ok(_) => {}
    }
    let root = root.canonicalize().or_else(|_| std::path::absolute(root)).map_err(|source| unreadable(root, source))?;
    if root.starts_with(&at) || at.starts_with(&root) {
        return Err(MountError::OverlapsRoot { mountpoint: at, root });
    }
    let mut entries = fs::read_dir(&at).map_err(|source| unreadable(&at, source))?;
    if entries.next().is_some() {
        return Err(MountError::NotEmpty(at));
    }
    Ok(at)
}

/// Whether a mount of svcfs is at a path whose server is gone.
pub fn is_dead_mount(mountpoint: &Path) -> bool {
    let answers = rustix::fs::statvfs(mountpoint).map_err(io::Error::from);
    answers.is_err_and(|error| is_dead(&error))
        && canonical(mountpoint).and_then(|at| is_ours(&at)).is_ok_and(|is_ours| is_ours)
}

/// Takes an svcfs mount away, also one whose server is gone. Processes with open files keep them until they close them.
///
/// # Errors
/// `NotMounted` when no svcfs mount is there (mounts of others are left alone); `Unmount` when the system refuses.
pub fn unmount(mountpoint: &Path) -> Result<(), MountError> {
    let at = canonical(mountpoint)?;
    if !is_ours(&at)? {
        return Err(MountError::NotMounted(at));
    }
    match rustix::mount::unmount(&at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => unmount_as_user(&at),
        Err(errno) => Err(MountError::Unmount { mountpoint: at, reason: errno.to_string() }),
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
fn canonical(path: &Path) -> Result<PathBuf, MountError> {
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

/// True when the newest mount at a path is one of svcfs.
fn is_ours(at: &Path) -> Result<bool, MountError> {
    let table = fs::read("/proc/self/mountinfo").map_err(|source| unreadable(at, source))?;
    Ok(String::from_utf8_lossy(&table).lines().rev().find_map(|line| owner(line, at)).is_some_and(|ours| ours))
}

/// Of a line of the mount table: none when it is about another path, else whether the mount is ours (proc(5): the path is the
/// fifth word, type and source are the first two after a lone dash).
pub(crate) fn owner(line: &str, at: &Path) -> Option<bool> {
    let (mount, filesystem) = line.split_once(" - ")?;
    if mount.split(' ').nth(4)? != escaped(at) {
        return None;
    }
    let mut words = filesystem.split(' ');
    let kind = words.next()?;
    Some((kind == "fuse" || kind == "fuse.svcfs") && words.next() == Some(FILESYSTEM_NAME))
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
