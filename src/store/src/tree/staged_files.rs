//! Files that are written before their time: while a lone writer's set is on its way into the log, what it puts in place is written under
//! names of our own, so that renames are left to be done.
//!
//! One rule: each is a guess. Only the file that was foreseen is taken, over the very file that was foreseen to be there; anything else is
//! made when its time comes, and what nobody took is thrown away.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{self as sys, AtFlags};
use svcfs_base::{DiskAttributes, FileKind, TreePath};

use super::WorkTree;
use super::install::{DirectorySlot, FileInstall};

/// Longer ones would take as long as the flush itself.
const MAX_BYTES: usize = 64 << 10;
/// All together, while they wait.
const MAX_WAITING: usize = 16 << 20;

/// The files that were written before their time, until they are taken.
pub(super) struct StagedFiles {
    directory: Arc<OwnedFd>,
    files: Mutex<StagedMap>,
}

#[derive(Default)]
struct StagedMap {
    by_path: HashMap<TreePath, StagedFile>,
    bytes: usize,
}

struct StagedFile {
    content: Box<[u8]>,
    kind: FileKind,
    disk: DiskAttributes,
    over: AttributeSource,
    name: String,
}

/// What a file was made for: another one gives it other attributes.
#[derive(PartialEq, Eq)]
pub(super) enum AttributeSource {
    /// Device, inode, mode, owner and group, and the moment of the last change of content or attributes.
    File([u64; 5], (i64, u64)),
    /// Owner and group of the directory.
    Nothing(u32, u32),
}

impl AttributeSource {
    fn of(spot: &DirectorySlot<'_>) -> rustix::io::Result<Self> {
        Ok(match spot.before() {
            Some(stat) => {
                let [mode, user, group] = [stat.st_mode, stat.st_uid, stat.st_gid].map(u64::from);
                Self::File([stat.st_dev, stat.st_ino, mode, user, group], (stat.st_ctime, stat.st_ctime_nsec))
            }
            None => sys::fstat(&spot.parent).map(|stat| Self::Nothing(stat.st_uid, stat.st_gid))?,
        })
    }
}

impl StagedFiles {
    pub(super) fn of(directory: &Arc<OwnedFd>) -> Self {
        Self { directory: Arc::clone(directory), files: Mutex::default() }
    }

    fn has_room(&self, install: &FileInstall<'_>) -> bool {
        install.content.len() <= MAX_BYTES && self.files.lock().bytes + install.content.len() <= MAX_WAITING
    }

    /// Keeps a file under the name it was given.
    pub(super) fn keep(&self, install: &FileInstall<'_>, spot: &DirectorySlot<'_>, name: String) {
        let Ok(over) = AttributeSource::of(spot) else { return self.throw_away(name) };
        let FileInstall { path, content, kind, attributes: disk } = *install;
        let foreseen = StagedFile { content: content.into(), kind, disk, over, name };
        let mut files = self.files.lock();
        files.bytes += content.len();
        if let Some(older) = files.by_path.insert(path.clone(), foreseen) {
            files.bytes -= older.content.len();
            drop(files);
            self.throw_away(older.name);
        }
    }

    /// The name of the file to put in place, if it was foreseen; it belongs to whoever takes it.
    pub(super) fn take(&self, install: &FileInstall<'_>, spot: &DirectorySlot<'_>) -> Option<String> {
        let mut files = self.files.lock();
        let foreseen = files.by_path.remove(install.path)?;
        files.bytes -= foreseen.content.len();
        drop(files);
        let is_that = foreseen.kind == install.kind
            && foreseen.disk == install.attributes
            && *foreseen.content == *install.content
            && AttributeSource::of(spot).is_ok_and(|over| foreseen.over == over);
        if is_that {
            return Some(foreseen.name);
        }
        self.throw_away(foreseen.name);
        None
    }

    /// Throws away what nobody takes.
    pub(super) fn forget(&self) {
        let files = std::mem::take(&mut *self.files.lock());
        for foreseen in files.by_path.into_values() {
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
    pub fn stage_file(&self, install: &FileInstall<'_>) {
        if !self.ready.has_room(install) {
            return;
        }
        let Ok(spot) = self.spot(install.path) else { return };
        if let Ok(mut new) = self.made(install, &spot, true) {
            new.has_name = false;
            self.ready.keep(install, &spot, std::mem::take(&mut new.name));
        }
    }

    /// Throws away what was prepared: it is not put in place after all.
    pub fn discard_staged(&self) {
        self.ready.forget();
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        self.forget();
    }
}
