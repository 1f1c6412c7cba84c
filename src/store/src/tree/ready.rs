//! A file that is written before its time: while a lone writer's set is flushed into the log, what it puts in place is written under a
//! name of our own, so that a rename is left to be done.
//!
//! One rule: it is a guess. Only the file that was foreseen is taken, over the very file that was foreseen to be there; anything else is
//! made when its time comes, and what nobody took is thrown away.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{self as sys, AtFlags};
use svcfs_base::{DiskAttributes, FileKind, TreePath};

use super::WorkTree;
use super::place::{Install, Spot};

/// Longer ones would take as long as the flush itself.
const MAX_BYTES: usize = 64 << 10;

/// The newest file that was written before its time, until it is taken.
pub(super) struct Ready {
    directory: Arc<OwnedFd>,
    file: Mutex<Option<Foreseen>>,
}

struct Foreseen {
    path: TreePath,
    content: Box<[u8]>,
    kind: FileKind,
    disk: DiskAttributes,
    over: Over,
    name: String,
}

/// What a file was made for: another one gives it other attributes.
#[derive(PartialEq, Eq)]
pub(super) enum Over {
    /// Device, inode, mode, owner and group, and the moment of the last change of content or attributes.
    File([u64; 5], (i64, u64)),
    /// Owner and group of the directory.
    Nothing(u32, u32),
}

impl Over {
    fn of(spot: &Spot<'_>) -> rustix::io::Result<Self> {
        Ok(match spot.before() {
            Some(stat) => {
                let [mode, user, group] = [stat.st_mode, stat.st_uid, stat.st_gid].map(u64::from);
                Self::File([stat.st_dev, stat.st_ino, mode, user, group], (stat.st_ctime, stat.st_ctime_nsec))
            }
            None => sys::fstat(&spot.parent).map(|stat| Self::Nothing(stat.st_uid, stat.st_gid))?,
        })
    }
}

impl Ready {
    pub(super) fn of(directory: &Arc<OwnedFd>) -> Self {
        Self { directory: Arc::clone(directory), file: Mutex::new(None) }
    }

    pub(super) const fn fits(install: &Install<'_>) -> bool {
        install.content.len() <= MAX_BYTES
    }

    /// Keeps a file under the name it was given.
    pub(super) fn keep(&self, install: &Install<'_>, spot: &Spot<'_>, name: String) {
        let Ok(over) = Over::of(spot) else { return self.throw_away(name) };
        let Install { path, content, kind, disk } = *install;
        let foreseen = Foreseen { path: path.clone(), content: content.into(), kind, disk, over, name };
        self.forget();
        *self.file.lock() = Some(foreseen);
    }

    /// The name of the file to put in place, if it was foreseen; it belongs to whoever takes it.
    pub(super) fn take(&self, install: &Install<'_>, spot: &Spot<'_>) -> Option<String> {
        let mut file = self.file.lock();
        let foreseen = file.as_ref()?;
        let Install { path, content, kind, disk } = *install;
        let is_that = foreseen.path == *path
            && foreseen.kind == kind
            && foreseen.disk == disk
            && *foreseen.content == *content
            && Over::of(spot).is_ok_and(|over| foreseen.over == over);
        if is_that { file.take().map(|foreseen| foreseen.name) } else { None }
    }

    /// Throws away what nobody takes.
    pub(super) fn forget(&self) {
        if let Some(foreseen) = self.file.lock().take() {
            self.throw_away(foreseen.name);
        }
    }

    fn throw_away(&self, name: String) {
        // A leftover is swept at the next opening.
        let _ = sys::unlinkat(&self.directory, name, AtFlags::empty());
    }
}

impl WorkTree {
    /// Writes what [`WorkTree::replace`] is about to put in place, while its time has not come: then a rename is all that is left to do.
    /// A guess that costs nothing when it is wrong.
    pub fn prepare(&self, install: &Install<'_>) {
        if !Ready::fits(install) {
            return;
        }
        let Ok(spot) = self.spot(install.path) else { return };
        if let Ok(mut new) = self.made(install, &spot) {
            new.has_name = false;
            self.ready.keep(install, &spot, std::mem::take(&mut new.name));
        }
    }

    /// Throws away what was prepared: it is not put in place after all.
    pub fn unprepare(&self) {
        self.ready.forget();
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.forget();
    }
}
