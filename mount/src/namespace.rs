//! A root that is covered by its own mount.
//!
//! One rule: the server never meets its own mount. When that is to cover the root, it steps into a mount namespace of its own first, in which
//! the root stays as it is, and makes and removes its mounts outside, where everybody else is.
//!
//! Why not by descriptors of the root, opened before it is covered? Because libgit2 and SQLite make absolute paths of all they are
//! given (realpath(3)), and those end at the mount. In a namespace every path is right, at no cost, for every library and program.
//! What others mount and unmount is seen in it as ever; only the root itself is kept apart.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::mount::{MountPropagationFlags, mount_bind_recursive, mount_change};

use crate::mountpoint::{MountError, canonical, connection};

/// The namespace of the thread that asks.
const NAMESPACE: &str = "/proc/thread-self/ns/mnt";

/// Where mounts are made.
#[derive(Debug, Clone, Default)]
pub struct MountNamespace(Option<Arc<File>>);

impl MountNamespace {
    /// For a root that is to be mounted at `mountpoint`: where this process is already, unless they are the same. Then it leaves the
    /// namespace it is in.
    ///
    /// Only the calling thread and those it starts from now on are taken along: to be called before there are others.
    ///
    /// # Errors
    /// `AlreadyMounted` when a server covers the root; `NeedsRoot` without the privilege; `Mount` when the system refuses.
    pub fn for_mount(root: &Path, mountpoint: &Path) -> Result<Self, MountError> {
        let (Ok(root), Ok(at)) = (canonical(root), canonical(mountpoint)) else {
            // What is wrong with the mountpoint is told by whoever mounts; a root may be made yet.
            return Ok(Self::default());
        };
        if root != at {
            return Ok(Self::default());
        }
        if connection(&at)?.is_some() {
            return Err(MountError::AlreadyMounted(at));
        }
        let outside = File::open(NAMESPACE).map_err(|source| failed(&at, source))?;
        step_aside(&at)?;
        Ok(Self(Some(Arc::new(outside))))
    }

    /// Whether mounts may cover the root.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.0.is_some()
    }

    /// The name of the namespace mounts are made in (mount_namespaces(7)).
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn name(&self) -> io::Result<PathBuf> {
        match &self.0 {
            Some(outside) => fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&**outside))),
            None => fs::read_link(NAMESPACE),
        }
    }

    /// Does something there. Threads it starts stay there, so it must not start any that will touch the root.
    pub(crate) fn visit<T: Send>(&self, work: impl FnOnce() -> Result<T, MountError> + Send) -> Result<T, MountError> {
        let Some(outside) = &self.0 else { return work() };
        let visit = || {
            // A thread that shares its current directory with others cannot go elsewhere alone.
            let moved = unshare(CloneFlags::CLONE_FS).and_then(|()| setns(&**outside, CloneFlags::CLONE_NEWNS));
            moved.map_err(|errno| failed(Path::new("/"), errno.into()))?;
            work()
        };
        let visited = thread::scope(|scope| scope.spawn(visit).join());
        visited.unwrap_or_else(|_| Err(failed(Path::new("/"), io::Error::other("the thread that mounts panicked"))))
    }
}

/// Into a namespace in which `root` is mounted upon itself: what covers the root outside comes in here beneath that.
fn step_aside(root: &Path) -> Result<(), MountError> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Err(nix::errno::Errno::EPERM) => return Err(MountError::NeedsRoot(root.to_owned())),
        outcome => outcome.map_err(|errno| failed(root, errno.into()))?,
    }
    let everything = MountPropagationFlags::REC;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | everything)
        .and_then(|()| mount_bind_recursive(root, root))
        .and_then(|()| mount_change(root, MountPropagationFlags::PRIVATE | everything))
        .map_err(|errno| failed(root, errno.into()))
}

fn failed(mountpoint: &Path, source: io::Error) -> MountError {
    MountError::Mount { mountpoint: mountpoint.to_owned(), source }
}
