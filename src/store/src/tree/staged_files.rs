//! Speculatively written files: while the set of a lone writer is being logged, its files are
//! written under temporary names, so that only renames remain.
//!
//! Invariant: each is a guess. It is used only for exactly the predicted file over exactly the
//! predicted predecessor. Otherwise the file is written as usual, and unused ones are removed.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{self as sys, AtFlags};
use svcfs_base::{DiskAttributes, FileKind, TreePath};

use super::WorkTree;
use super::install::{DirectorySlot, FileInstall};

/// Larger files would take longer than the flush of the log, in bytes.
const MAX_STAGED_FILE_BYTES: usize = 64 << 10;
/// Limit of all staged files together, in bytes.
const MAX_TOTAL_BYTES: usize = 16 << 20;

/// Staged files by path.
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
    attributes: DiskAttributes,
    source: AttributeSource,
    name: String,
}

/// What a staged file took its attributes from; a different source would give others.
#[derive(PartialEq, Eq)]
pub(super) enum AttributeSource {
    /// Device, inode, mode, owner and group, and ctime of the replaced file.
    File([u64; 5], (i64, u64)),
    /// Owner and group of the directory.
    Nothing(u32, u32),
}

impl AttributeSource {
    fn new(slot: &DirectorySlot<'_>) -> rustix::io::Result<Self> {
        Ok(match slot.before() {
            Some(stat) => {
                let [mode, user, group] = [stat.st_mode, stat.st_uid, stat.st_gid].map(u64::from);
                Self::File([stat.st_dev, stat.st_ino, mode, user, group], (stat.st_ctime, stat.st_ctime_nsec))
            }
            None => sys::fstat(&slot.parent).map(|stat| Self::Nothing(stat.st_uid, stat.st_gid))?,
        })
    }
}

impl StagedFiles {
    pub(super) fn new(directory: &Arc<OwnedFd>) -> Self {
        Self { directory: Arc::clone(directory), files: Mutex::default() }
    }

    fn has_capacity(&self, install: &FileInstall<'_>) -> bool {
        install.content.len() <= MAX_STAGED_FILE_BYTES
            && self.files.lock().bytes + install.content.len() <= MAX_TOTAL_BYTES
    }

    /// Adds a file under its temporary name.
    pub(super) fn add(&self, install: &FileInstall<'_>, slot: &DirectorySlot<'_>, name: String) {
        let Ok(source) = AttributeSource::new(slot) else { return self.unlink(name) };
        let FileInstall { path, content, kind, attributes } = *install;
        let staged_file = StagedFile { content: content.into(), kind, attributes, source, name };
        let mut files = self.files.lock();
        files.bytes += content.len();
        if let Some(older) = files.by_path.insert(path.clone(), staged_file) {
            files.bytes -= older.content.len();
            drop(files);
            self.unlink(older.name);
        }
    }

    /// The name of the staged file for an install, if one matches; the caller owns it.
    pub(super) fn take(&self, install: &FileInstall<'_>, slot: &DirectorySlot<'_>) -> Option<String> {
        let mut files = self.files.lock();
        let staged_file = files.by_path.remove(install.path)?;
        files.bytes -= staged_file.content.len();
        drop(files);
        let is_match = staged_file.kind == install.kind
            && staged_file.attributes == install.attributes
            && *staged_file.content == *install.content
            && AttributeSource::new(slot).is_ok_and(|source| staged_file.source == source);
        if is_match {
            return Some(staged_file.name);
        }
        self.unlink(staged_file.name);
        None
    }

    /// Removes unused files.
    pub(super) fn clear(&self) {
        let files = std::mem::take(&mut *self.files.lock());
        for staged_file in files.by_path.into_values() {
            self.unlink(staged_file.name);
        }
    }

    fn unlink(&self, name: String) {
        // A leftover is removed by the sweep at the next open.
        let _ = sys::unlinkat(&self.directory, name, AtFlags::empty());
    }
}

impl WorkTree {
    /// Writes a file that [`WorkTree::replace`] is about to install, so that only the rename
    /// remains. An unused guess does no harm.
    pub fn stage_file(&self, install: &FileInstall<'_>) {
        if !self.staged.has_capacity(install) {
            return;
        }
        let Ok(slot) = self.open_slot(install.path) else { return };
        if let Ok(mut new) = self.create_temp(install, &slot, true) {
            new.has_name = false;
            self.staged.add(install, &slot, std::mem::take(&mut new.name));
        }
    }

    /// Removes the staged files: they are not installed after all.
    pub fn discard_staged(&self) {
        self.staged.clear();
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        self.clear();
    }
}
