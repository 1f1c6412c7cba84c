//! Files too large to be versioned (over 64 MiB).
//!
//! Invariant: such a file is only on disk, like a pipe. It is written to a temporary file until it
//! is saved for the first time and installed by rename; after that it is changed in place.

use svcfs_base::{Caller, Change, ChangeSet, DiskAttributes, Durability, Fault, Kind, Precondition, TreePath};
use svcfs_store::OpenFile;

use super::body::{DirtyBody, MAX_VERSIONED_BYTES};
use super::table::{DirtyBuffer, FileHandle, ReportedTimes, SharedNode};
use super::{Allocation, HandleId, NodeId, WriteAt};
use crate::Vfs;
use crate::core::EffectiveState;
use crate::view::{EntryKind, PathAttributes};

impl Vfs {
    /// Opens the file at a path if these attributes are of a large one.
    pub(super) fn open_large(&self, path: &TreePath, attributes: &PathAttributes) -> Result<Option<OpenFile>, Fault> {
        let is_large = attributes.kind == EntryKind::File && attributes.size > MAX_VERSIONED_BYTES;
        if !is_large || self.core.overlay.get(path).is_some() {
            return Ok(None);
        }
        Ok(Some(self.core.tree.open_to_write(path)?))
    }

    /// Saves a dirty buffer that is too large to be versioned. Removes a versioned one.
    pub(super) fn save_large(
        &self,
        caller: &Caller,
        path: &TreePath,
        shared: &mut SharedNode,
        durability: Durability,
    ) -> Result<(), Fault> {
        let Some(dirty) = &mut shared.dirty else { return Ok(()) };
        let DirtyBody::Disk { staged, .. } = &mut dirty.body else { return Ok(()) };
        self.core.check_not_leased(caller, path, false)?;
        self.core.check_not_claimed(caller, path)?;
        let mut attributes = DiskAttributes {
            mode: dirty.mode,
            owner: Some((dirty.uid, dirty.gid)),
            modified: Some(dirty.modified),
            accessed: dirty.accessed,
        };
        let _locked = loop {
            if let Some(current) = self.special(path)? {
                // Another unversioned file.
                attributes.mode = attributes.mode.or(Some(current.mode));
            } else if let EffectiveState::Leaf(current, _) = self.core.effective_state(path)? {
                attributes.mode = attributes.mode.or(current.disk.mode);
                let precondition = dirty.base.map_or(Precondition::Any, |etag| Precondition::OneOf(vec![etag]));
                let removal = ChangeSet::from(Change::remove(path.clone()).with_precondition(precondition)).soon();
                match self.apply_locked(caller, removal) {
                    // Another caller removed it first.
                    Err(fault) if fault.kind() == Kind::NotFound => {}
                    outcome => drop(outcome?),
                }
            }
            self.wait_applied_at(path)?;
            let locked = self.core.path_locks.lock([path.clone()].into());
            // A file written since is removed in the next round, so that history has it.
            if !matches!(self.core.effective_state(path)?, EffectiveState::Leaf(..)) {
                break locked;
            }
        };
        attributes.mode = attributes.mode.or(Some(0o644));
        let large = self.core.tree.install_large(staged, path, attributes)?;
        if durability == Durability::Now {
            large.flush()?;
        }
        shared.reported_times = Some(ReportedTimes::new(dirty.changed, dirty.modified));
        shared.large = Some(large);
        shared.dirty = None;
        self.core.forget_rejected(std::iter::once(path), self.core.refusals.mark());
        Ok(())
    }

    /// Saves the dirty buffer at a path if it is too large to be versioned.
    pub(super) fn publish_large(&self, caller: &Caller, path: &TreePath) -> Result<(), Fault> {
        let Some(node) = self.nodes.at(path) else { return Ok(()) };
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if let Some(dirty) = shared.dirty.as_ref().filter(|dirty| dirty.body.length() > MAX_VERSIONED_BYTES) {
            let writer = dirty.writer.clone();
            self.publish_locked(writer.as_ref().unwrap_or(caller), node, &mut shared, Durability::Soon)?;
        }
        Ok(())
    }

    /// A dirty buffer with the first bytes of a large file. Starts on disk if truncated.
    pub(super) fn truncate_large(&self, large: &OpenFile, size: u64) -> Result<DirtyBuffer, Fault> {
        let (stat, now) = (large.stat()?, self.core.file_time());
        let length = usize::try_from(size).map_err(Fault::internal)?;
        Ok(DirtyBuffer {
            body: if length == 0 { DirtyBody::on_disk(&self.core) } else { large.read_at(0, length)?.into() },
            is_changed: true,
            is_written: size > 0,
            mode: Some(stat.mode),
            modified: now,
            changed: now,
            ..DirtyBuffer::from_attributes(&stat.into())
        })
    }

    /// Moves the buffer of a new file to disk before the first byte, because its announced size
    /// exceeds the versioned limit. Does nothing if it has bytes.
    ///
    /// # Errors
    /// `Stale`, `NotFound`.
    pub fn spill_to_disk(&self, id: HandleId) -> Result<(), Fault> {
        let shared = self.nodes.shared(self.nodes.handle(id)?.node)?;
        let mut shared = shared.lock();
        if let Some(dirty) = shared.dirty.as_mut().filter(|dirty| dirty.is_new && dirty.body.length() == 0) {
            dirty.body = DirtyBody::on_disk(&self.core);
        }
        Ok(())
    }

    /// Offset of the next data or hole; none beyond the end.
    ///
    /// # Errors
    /// `Stale`, `NotFound`.
    pub fn seek_node(&self, node: NodeId, offset: u64, to_hole: bool) -> Result<Option<u64>, Fault> {
        let size = self.attributes(node)?.size;
        if offset >= size {
            return Ok(None);
        }
        let shared = self.nodes.shared(node)?;
        let shared = shared.lock();
        match (&shared.dirty, &shared.large) {
            (Some(DirtyBuffer { body: DirtyBody::Disk { staged, .. }, .. }), _) => {
                Ok(staged.file().seek(offset, to_hole)?)
            }
            (None, Some(large)) => Ok(large.seek(offset, to_hole)?),
            // Versioned files have no holes: the only one is at the end.
            (Some(_) | None, _) => Ok(Some(if to_hole { size } else { offset })),
        }
    }

    /// Writes into a large file in place; false if none is open, or it has a dirty buffer.
    pub(super) fn write_large(
        &self,
        handle: FileHandle,
        shared: &mut SharedNode,
        (at, data): (WriteAt, &[u8]),
    ) -> Result<bool, Fault> {
        self.change_large(handle, shared, |large| {
            let offset = match at {
                WriteAt::Offset(offset) | WriteAt::Mapped(offset) => offset,
                WriteAt::End => large.stat()?.size,
            };
            if offset.checked_add(data.len() as u64).is_none_or(|end| i64::try_from(end).is_err()) {
                return Err(Fault::new(Kind::TooLarge, "the file would exceed the maximum size"));
            }
            Ok(large.write_at(offset, data)?)
        })
    }

    /// Zeroes a range of a large file in place; false as in [`Vfs::write_large`].
    pub(super) fn zero_large(
        &self,
        handle: FileHandle,
        shared: &mut SharedNode,
        part: Allocation,
    ) -> Result<bool, Fault> {
        self.change_large(handle, shared, |large| {
            let end = part.offset.saturating_add(part.length).min(large.stat()?.size);
            Ok(large.punch_hole(part.offset, end.saturating_sub(part.offset))?)
        })
    }

    fn change_large(
        &self,
        handle: FileHandle,
        shared: &mut SharedNode,
        change: impl FnOnce(&OpenFile) -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        let (None, Some(large)) = (&shared.dirty, &shared.large) else { return Ok(false) };
        // Not checked again on save. An unlinked file is not leased.
        let path = self.nodes.path_of(handle.node).ok();
        // A new lease waits until this write is done.
        let _locked = path.clone().map(|path| self.core.path_locks.lock([path].into()));
        if let Some(path) = &path {
            self.core.check_not_leased(&Caller::new(handle.protocol), path, false)?;
            // A pending change that replaces it compares size and mtime first.
            self.wait_applied_at(path)?;
        }
        change(large)?;
        shared.reported_times = None;
        Ok(true)
    }
}
