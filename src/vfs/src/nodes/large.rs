//! Files too large to be recorded (over 64 MiB).
//!
//! One rule: such a file is on the disk and nowhere else, as a pipe is. It is written beside the tree until it is saved for the first
//! time and put in place whole; from then on it is changed where it is.

use svcfs_base::{Caller, Change, ChangeSet, DiskAttributes, Durability, Fault, Kind, Precondition, TreePath};
use svcfs_store::OpenFile;

use super::body::{DirtyBody, RECORDED};
use super::table::{DirtyBuffer, FileHandle, ReportedTimes, SharedNode};
use super::{Allocation, HandleId, NodeId, WriteAt};
use crate::Vfs;
use crate::core::EffectiveState;
use crate::view::{EntryKind, PathAttributes};

impl Vfs {
    /// The large file that stands at a path with these attributes, open; none when it is not large.
    pub(super) fn opened_large(&self, path: &TreePath, attributes: &PathAttributes) -> Result<Option<OpenFile>, Fault> {
        let is_large = attributes.kind == EntryKind::File && attributes.size > RECORDED;
        if !is_large || self.core.overlay.get(path).is_some() {
            return Ok(None);
        }
        Ok(Some(self.core.tree.open_to_write(path)?))
    }

    /// Saves unpublished bytes that cannot be recorded. What had versions under this name is removed, with a version that says so.
    pub(super) fn put_large(
        &self,
        caller: &Caller,
        path: &TreePath,
        shared: &mut SharedNode,
        durability: Durability,
    ) -> Result<(), Fault> {
        let Some(staging) = &mut shared.staging else { return Ok(()) };
        let DirtyBody::Disk { draft, .. } = &mut staging.body else { return Ok(()) };
        self.core.not_leased(caller, path, false)?;
        let mut attributes = DiskAttributes {
            mode: staging.mode,
            owner: Some((staging.uid, staging.gid)),
            modified: Some(staging.modified),
            accessed: staging.accessed,
        };
        let _held = loop {
            if let Some(there) = self.special(path)? {
                // Another such file, of which history knows nothing.
                attributes.mode = attributes.mode.or(Some(there.mode));
            } else if let EffectiveState::Leaf(there, _) = self.core.present(path)? {
                attributes.mode = attributes.mode.or(there.disk.mode);
                let expect = staging.base.map_or(Precondition::Any, |etag| Precondition::OneOf(vec![etag]));
                let removal = ChangeSet::from(Change::remove(path.clone()).with_precondition(expect)).soon();
                match self.apply_held(caller, removal) {
                    // Another door was faster.
                    Err(fault) if fault.kind() == Kind::NotFound => {}
                    outcome => drop(outcome?),
                }
            }
            self.settle_at(path)?;
            let held = self.core.locks.hold([path.clone()].into());
            // What another door wrote since is removed as well, so that history has it.
            if !matches!(self.core.present(path)?, EffectiveState::Leaf(..)) {
                break held;
            }
        };
        attributes.mode = attributes.mode.or(Some(0o644));
        let large = self.core.tree.install_large(draft, path, attributes)?;
        if durability == Durability::Now {
            large.flush()?;
        }
        shared.told = Some(ReportedTimes::new(staging.changed, staging.modified));
        shared.large = Some(large);
        shared.staging = None;
        self.core.forget_refused(std::iter::once(path), self.core.refusals.now());
        Ok(())
    }

    /// Saves what is unpublished at a path, where it cannot be recorded.
    pub(super) fn publish_large(&self, caller: &Caller, path: &TreePath) -> Result<(), Fault> {
        let Some(node) = self.nodes.at(path) else { return Ok(()) };
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if let Some(staging) = shared.staging.as_ref().filter(|staging| staging.body.length() > RECORDED) {
            let writer = staging.writer.clone();
            self.publish_held(writer.as_ref().unwrap_or(caller), node, &mut shared, Durability::Soon)?;
        }
        Ok(())
    }

    /// Begins unpublished bytes with the first part of a large file, which becomes a file that can be recorded. One that is emptied is about to be
    /// written anew, and most often as large: those bytes are beside the tree from the first one on.
    pub(super) fn cut_large(&self, large: &OpenFile, size: u64) -> Result<DirtyBuffer, Fault> {
        let (stat, now) = (large.stat()?, self.core.file_time());
        let length = usize::try_from(size).map_err(Fault::internal)?;
        Ok(DirtyBuffer {
            body: if length == 0 { DirtyBody::beside(&self.core) } else { large.read_at(0, length)?.into() },
            is_changed: true,
            is_written: size > 0,
            mode: Some(stat.mode),
            modified: now,
            changed: now,
            ..DirtyBuffer::of(&stat.into())
        })
    }

    /// Has the bytes of a new file go to the disk from the first one on, because more are announced than can be recorded: they would be copied there once
    /// they are too many. Nothing to do where some are here already.
    ///
    /// # Errors
    /// `Stale`, `NotFound`.
    pub fn spill_to_disk(&self, id: HandleId) -> Result<(), Fault> {
        let shared = self.nodes.shared(self.nodes.handle(id)?.node)?;
        let mut shared = shared.lock();
        if let Some(staging) = shared.staging.as_mut().filter(|staging| staging.is_new && staging.body.length() == 0) {
            staging.body = DirtyBody::beside(&self.core);
        }
        Ok(())
    }

    /// Where the next data, or the next hole, of a file begins; none behind its end.
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
        match (&shared.staging, &shared.large) {
            (Some(DirtyBuffer { body: DirtyBody::Disk { draft, .. }, .. }), _) => {
                Ok(draft.file().seek(offset, to_hole)?)
            }
            (None, Some(large)) => Ok(large.seek(offset, to_hole)?),
            // What is recorded has no holes: after its end comes the only one.
            (Some(_) | None, _) => Ok(Some(if to_hole { size } else { offset })),
        }
    }

    /// Writes into a large file where it is; false when none is open here, or its bytes are about to be replaced.
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
                return Err(Fault::new(Kind::TooLarge, "no file is as long as that"));
            }
            Ok(large.write_at(offset, data)?)
        })
    }

    /// Makes a part of a large file zeros where it is; false as in [`Vfs::write_large`].
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
        let (None, Some(large)) = (&shared.staging, &shared.large) else { return Ok(false) };
        // Nothing is saved later that could be refused. What has no name any more is nobody's.
        let path = self.nodes.path_of(handle.node).ok();
        // Whoever wants it for themselves in this moment waits until this is written.
        let _held = path.clone().map(|path| self.core.locks.hold([path].into()));
        if let Some(path) = &path {
            self.core.not_leased(&Caller::new(handle.protocol), path, false)?;
            // What takes its place by its size and time must find it as it was.
            self.settle_at(path)?;
        }
        change(large)?;
        shared.told = None;
        Ok(true)
    }
}
