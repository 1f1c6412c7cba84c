//! A root that is covered by its own mount.
//!
//! Invariant: the server never accesses its own mount. Before a mount covers the root, the server
//! enters a mount namespace of its own in which the root stays visible. It makes and removes its
//! mounts outside, in the original namespace.
//!
//! Rejected: file descriptors of the root, opened before it is covered. libgit2 and SQLite make
//! absolute paths (realpath(3)), and those end at the mount. In a namespace every path is right,
//! without cost, for every library and program. Other mounts and unmounts still propagate into it;
//! only the root itself is private.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::mount::{MountPropagationFlags, mount_bind_recursive, mount_change};

use crate::mountpoint::{MountError, canonical, connection};

/// Mount namespace of the calling thread.
const NAMESPACE: &str = "/proc/thread-self/ns/mnt";

/// The mount namespace in which mounts are made.
#[derive(Debug, Clone, Default)]
pub struct MountNamespace(Option<Arc<File>>);

impl MountNamespace {
    /// Chooses the namespace for mounting `root` at `mountpoint`: the current one, unless both are
    /// the same directory. Then the calling thread enters a new namespace.
    ///
    /// Only the calling thread and threads it starts later are moved, so call this before there are
    /// others.
    ///
    /// # Errors
    /// `AlreadyMounted` when a mount of svcfs covers the root; `NeedsRoot` without the privilege;
    /// `Mount` when the system refuses.
    pub fn for_mount(root: &Path, mountpoint: &Path) -> Result<Self, MountError> {
        let (Ok(root), Ok(target)) = (canonical(root), canonical(mountpoint)) else {
            // Mounting reports a bad mountpoint; a missing root may be created later.
            return Ok(Self::default());
        };
        if root != target {
            return Ok(Self::default());
        }
        if connection(&target)?.is_some() {
            return Err(MountError::AlreadyMounted(target));
        }
        let original = File::open(NAMESPACE).map_err(|source| mount_error(&target, source))?;
        enter_private_namespace(&target)?;
        Ok(Self(Some(Arc::new(original))))
    }

    /// Whether mounts may cover the root.
    pub(crate) fn is_separate(&self) -> bool {
        self.0.is_some()
    }

    /// The identity of the namespace in which mounts are made (mount_namespaces(7)).
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn name(&self) -> io::Result<PathBuf> {
        match &self.0 {
            Some(original) => fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&**original))),
            None => fs::read_link(NAMESPACE),
        }
    }

    /// Runs `work` in that namespace. Threads it starts stay there, so it must not start threads
    /// that access the root.
    pub(crate) fn run_inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, MountError> + Send,
    ) -> Result<T, MountError> {
        let Some(original) = &self.0 else { return work() };
        let run = || {
            // setns(2) refuses a thread that shares its current directory with others.
            let joined = unshare(CloneFlags::CLONE_FS).and_then(|()| setns(&**original, CloneFlags::CLONE_NEWNS));
            joined.map_err(|errno| mount_error(Path::new("/"), errno.into()))?;
            work()
        };
        let outcome = thread::scope(|scope| scope.spawn(run).join());
        outcome.unwrap_or_else(|_| Err(mount_error(Path::new("/"), io::Error::other("the mount thread panicked"))))
    }
}

/// Enters a namespace in which `root` is bind-mounted on itself: a mount that covers it outside
/// propagates to below that.
fn enter_private_namespace(root: &Path) -> Result<(), MountError> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Err(nix::errno::Errno::EPERM) => return Err(MountError::NeedsRoot(root.to_owned())),
        outcome => outcome.map_err(|errno| mount_error(root, errno.into()))?,
    }
    let recursive = MountPropagationFlags::REC;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | recursive)
        .and_then(|()| mount_bind_recursive(root, root))
        .and_then(|()| mount_change(root, MountPropagationFlags::PRIVATE | recursive))
        .map_err(|errno| mount_error(root, errno.into()))
}

fn mount_error(mountpoint: &Path, source: io::Error) -> MountError {
    MountError::Mount { mountpoint: mountpoint.to_owned(), source }
}
