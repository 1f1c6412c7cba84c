//! Content of nodes: open, read, write, publish.

use bytes::Bytes;
use svcfs_base::{
    Caller, Change, ChangeSet, DiskAttributes, Durability, ETag, Fault, FileKind, Kind, MAX_FILE_BYTES, Precondition,
    Protocol, TreePath, WriteResult,
};
use svcfs_store::OpenFile;
use tracing::error;

use super::body::{MAX_VERSIONED_BYTES, clamped_range};
use super::orphans::is_orphan_fallback;
use super::table::{DirtyBuffer, ReportedTimes, SharedNode};
use super::{Allocation, HandleId, NodeId, OpenMode, PRIVILEGES, WriteAt};
use crate::Vfs;
use crate::core::{EffectiveState, is_disk_error};
use crate::view::{EntryKind, PathAttributes};

impl Vfs {
    /// Resizes a file, through a handle or by name.
    pub(super) fn resize(
        &self,
        caller: &Caller,
        (node, handle_id): (NodeId, Option<HandleId>),
        size: u64,
    ) -> Result<(), Fault> {
        if let Ok(path) = self.nodes.path_of(node) {
            self.core.check_not_leased(caller, &path, false)?;
            self.core.check_not_claimed(caller, &path)?;
        }
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if let Some(handle) = handle_id {
            if size == 0 {
                // A handle that truncates the file starts from nothing.
                shared.superseded_handles.remove(&handle);
            }
            shared.reattach_for(handle)?;
        }
        if shared.dirty.is_none()
            && shared.large.is_none()
            && let Ok(path) = self.nodes.path_of(node)
        {
            self.check_writes_tree(caller)?;
            // By name, without a handle.
            shared.large = self.open_large(&path, &self.stat(Protocol::Internal, &path)?)?;
        }
        let (is_open, is_being_written) = (self.nodes.is_open(node), !self.nodes.write_handles(node).is_empty());
        match &shared.large {
            Some(large) if size > MAX_VERSIONED_BYTES => {
                large.resize(size)?;
                shared.reported_times = None;
            }
            Some(large) => {
                let mut dirty = self.truncate_large(large, size)?;
                dirty.body.resize(&self.core, size)?;
                dirty.writers.extend(handle_id);
                dirty.writer = Some(caller.clone());
                shared.dirty = Some(dirty);
                shared.large = None;
            }
            None => self.change_dirty((node, handle_id), &mut shared, size > 0, |dirty, now| {
                dirty.is_changed |= dirty.body.length() != size;
                if size == 0 {
                    dirty.reset_base();
                }
                dirty.body.resize(&self.core, size)?;
                dirty.is_written |= size > 0;
                dirty.touch(caller, now);
                Ok(())
            })?,
        }
        // Resized by name: no handle will publish it when closed; readers publish nothing.
        if !is_being_written {
            let outcome = self.publish_locked(caller, node, &mut shared, Durability::Soon);
            shared.detached = None;
            outcome?;
            if !is_open {
                shared.large = None;
            }
        }
        Ok(())
    }

    /// Zeroes a range of a file, or extends the file. Reserves no space on disk.
    ///
    /// # Errors
    /// `NoSpace` when the disk has too little space; `TooLarge`; as [`Vfs::write_node`].
    pub fn allocate(&self, caller: &Caller, id: HandleId, part: Allocation) -> Result<(), Fault> {
        let handle = self.nodes.handle(id)?;
        if !handle.is_writing {
            return Err(Fault::new(Kind::Forbidden, "the file was opened read-only"));
        }
        let too_large = || Fault::new(Kind::TooLarge, "the file would exceed the maximum size");
        let end = part.offset.checked_add(part.length).ok_or_else(too_large)?;
        let size = self.attributes(handle.node)?.size;
        let disk = self.disk_space()?;
        if end.saturating_sub(size) > disk.available.saturating_mul(u64::from(disk.block_size)) {
            return Err(Fault::disk_full(format_args!("{} bytes", part.length)));
        }
        if part.is_zeroed {
            let shared = self.nodes.shared(handle.node)?;
            let mut shared = shared.lock();
            if !self.zero_large(handle, &mut shared, part)? {
                self.change_dirty((handle.node, Some(id)), &mut shared, true, |dirty, now| {
                    dirty.body.zero(part.offset, part.length)?;
                    dirty.is_changed = true;
                    dirty.is_written = true;
                    dirty.touch(caller, now);
                    Ok(())
                })?;
            }
        }
        if part.grows && size < end { self.resize(caller, (handle.node, Some(id)), end) } else { Ok(()) }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `IsDirectory`, `NotFound`, `Stale`; `Forbidden` to write the server's own files.
    pub fn open_node(&self, caller: &Caller, node: NodeId, mode: OpenMode) -> Result<HandleId, Fault> {
        let attributes = self.attributes(node)?;
        if attributes.kind == EntryKind::Directory {
            return Err(Fault::is_directory(&self.nodes.path_of(node)?));
        }
        // A file that was unlinked meanwhile is opened all the same.
        if mode.write
            && let Ok(path) = self.nodes.path_of(node)
        {
            if !self.core.is_visible(caller.protocol, &path) {
                return Err(Fault::new(Kind::Forbidden, "this file belongs to the server"));
            }
            self.core.check_not_leased(caller, &path, false)?;
            self.core.check_not_claimed(caller, &path)?;
        }
        let handle = self.nodes.open(node, caller.protocol, mode.write)?;
        let outcome = if mode.truncate && mode.write {
            self.truncate(caller, node, handle)
        } else {
            self.open_large_file(node, &attributes)
        };
        if let Err(fault) = outcome {
            self.nodes.close(handle);
            return Err(fault);
        }
        Ok(handle)
    }

    fn truncate(&self, caller: &Caller, node: NodeId, handle: HandleId) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if let Some(large) = shared.large.take() {
            shared.dirty = Some(self.truncate_large(&large, 0)?);
        }
        self.change_dirty((node, None), &mut shared, false, |dirty, now| {
            dirty.is_changed |= dirty.body.length() > 0;
            dirty.is_written = false;
            dirty.reset_base();
            dirty.add_writer(handle);
            dirty.body.resize(&self.core, 0)?;
            dirty.touch(caller, now);
            Ok(())
        })
    }

    fn open_large_file(&self, node: NodeId, attributes: &PathAttributes) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if shared.dirty.is_none()
            && shared.large.is_none()
            && let Ok(path) = self.nodes.path_of(node)
        {
            shared.large = self.open_large(&path, attributes)?;
        }
        Ok(())
    }

    /// Whether a change of the handle's file is accepted and not announced yet.
    pub fn has_pending_change(&self, handle: HandleId) -> bool {
        let path = self.nodes.handle(handle).and_then(|handle| self.nodes.path_of(handle.node));
        path.is_ok_and(|path| self.core.overlay.get(&path).is_some())
    }

    /// Bytes at an offset, including dirty ones; fewer at the end.
    ///
    /// # Errors
    /// `Stale`, `NotFound`, `IsDirectory`.
    pub fn read_node(&self, node: NodeId, offset: u64, length: usize) -> Result<Bytes, Fault> {
        {
            let shared = self.nodes.shared(node)?;
            let shared = shared.lock();
            if let Some(dirty) = &shared.dirty {
                return dirty.body.read(offset, length);
            }
            if let Some(large) = &shared.large {
                return Ok(large.read_at(offset, length)?);
            }
        }
        match self.read_published(node, offset, length) {
            Err(fault) if is_orphan_fallback(&fault) => {
                // The orphan was preserved before the name was removed.
                let shared = self.nodes.shared(node)?;
                let shared = shared.lock();
                shared.orphan.as_ref().ok_or(fault)?.read(offset, length)
            }
            outcome => outcome,
        }
    }

    /// Bytes at a node's path, without dirty ones.
    fn read_published(&self, node: NodeId, offset: u64, length: usize) -> Result<Bytes, Fault> {
        let path = self.nodes.path_of(node)?;
        match self.core.overlay.get(&path) {
            Some(pending) => {
                let leaf = pending.leaf.ok_or_else(|| Fault::file_not_found(&path))?;
                let range = clamped_range(&leaf.content, offset, length as u64);
                Ok(leaf.content.slice(range))
            }
            None => self
                .core
                .tree
                .read_range(&path, offset, length)
                .map_err(|error| crate::view::not_found_fault(&path, error)),
        }
    }

    /// Writes at an offset or at the end; no version until published.
    ///
    /// # Errors
    /// `TooLarge` beyond the maximum size; `Forbidden` for a handle opened read-only; `Stale`;
    /// `NoSpace` and `ReadOnly` while the disk fails.
    pub fn write_node(&self, caller: &Caller, id: HandleId, at: WriteAt, data: &[u8]) -> Result<usize, Fault> {
        let handle = self.nodes.handle(id)?;
        if !handle.is_writing {
            return Err(Fault::new(Kind::Forbidden, "the file was opened read-only"));
        }
        // Reported here if known: many programs check the result of `write`, few that of `close`.
        let disk_error = self.core.write_error.lock().as_ref().map(Fault::duplicate);
        if let Some(fault) = disk_error.filter(is_disk_error) {
            if let Some(dirty) = &mut self.nodes.shared(handle.node)?.lock().dirty {
                dirty.add_writer(id);
                dirty.write_error = Some(fault.duplicate());
            }
            return Err(fault);
        }
        let shared = self.nodes.shared(handle.node)?;
        let mut shared = shared.lock();
        if self.write_large(handle, &mut shared, (at, data))? {
            return Ok(data.len());
        }
        let handle_id = match at {
            WriteAt::Offset(_) | WriteAt::End => Some(id),
            WriteAt::Mapped(_) => shared.mapped_write_handle(id, &self.nodes.write_handles(handle.node)),
        };
        self.change_dirty((handle.node, handle_id), &mut shared, true, |dirty, now| {
            let start = match at {
                WriteAt::Offset(offset) | WriteAt::Mapped(offset) => offset,
                WriteAt::End => dirty.body.length(),
            };
            dirty.body.write(&self.core, start, data)?;
            // Set-id bits were granted for other content.
            dirty.mode = dirty.mode.map(|mode| mode & !PRIVILEGES);
            dirty.is_changed = true;
            dirty.is_written = true;
            dirty.touch(caller, now);
            Ok(())
        })?;
        if matches!(at, WriteAt::Mapped(_)) {
            shared.add_mapped_writers(self.nodes.write_handles(handle.node));
        }
        Ok(data.len())
    }

    /// Changes the dirty buffer; creates it from the published content, or empty.
    fn change_dirty(
        &self,
        (node, handle_id): (NodeId, Option<HandleId>),
        shared: &mut SharedNode,
        keeps_content: bool,
        change: impl FnOnce(&mut DirtyBuffer, std::time::SystemTime) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let now = self.core.file_time();
        handle_id.map_or(Ok(()), |handle| shared.reattach_for(handle))?;
        if shared.dirty.is_none() {
            let loaded = self.nodes.path_of(node).and_then(|path| self.load_dirty(&path, keeps_content));
            let mut loaded = match (loaded, &shared.orphan) {
                (Err(fault), Some(orphan)) if is_orphan_fallback(&fault) => orphan.to_dirty(keeps_content)?,
                (loaded, _) => loaded?,
            };
            loaded.body.resize(&self.core, loaded.body.length())?;
            shared.dirty = Some(loaded);
        }
        match &mut shared.dirty {
            Some(dirty) => {
                change(dirty, now)?;
                handle_id.into_iter().for_each(|handle| dirty.add_writer(handle));
                dirty.write_error = None;
                dirty.rejected = None;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn load_dirty(&self, path: &TreePath, keeps_content: bool) -> Result<DirtyBuffer, Fault> {
        let attributes = self.stat(Protocol::Internal, path)?;
        if !keeps_content && let Some(large) = self.open_large(path, &attributes)? {
            return self.truncate_large(&large, 0);
        }
        if !keeps_content && attributes.kind == EntryKind::File {
            // Neither read nor hashed: only the size matters.
            return Ok(DirtyBuffer { is_changed: attributes.size > 0, ..DirtyBuffer::from_attributes(&attributes) });
        }
        let leaf = match self.core.effective_state(path)? {
            EffectiveState::Leaf(leaf, _) => leaf,
            EffectiveState::Directory => return Err(Fault::is_directory(path)),
            EffectiveState::Absent => return Err(Fault::file_not_found(path)),
            EffectiveState::Large(_) => return Err(Fault::too_large("file", MAX_FILE_BYTES)),
        };
        Ok(DirtyBuffer {
            base: keeps_content.then_some(leaf.etag),
            body: leaf.content.into(),
            ..DirtyBuffer::from_attributes(&attributes)
        })
    }

    /// Publishes the dirty buffer as one version (`flush`: Soon, `fsync`: Now), if any.
    ///
    /// A file that was only truncated waits for its last handle: a shell closes a copy of the
    /// descriptor before it writes, and an empty version is not a save.
    ///
    /// # Errors
    /// `Rejected` by a gate: the last good version stays, the rejected text is stored below
    /// `.svc/rejected/`. `Conflict` when another writer changed the file, and only parts of it were
    /// changed here. Those of [`Vfs::apply`].
    pub fn publish(&self, caller: &Caller, node: NodeId, durability: Durability) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let is_waiting = shared.lock().dirty.as_ref().is_some_and(DirtyBuffer::is_only_truncated);
        if is_waiting && durability == Durability::Soon {
            return Ok(());
        }
        self.publish_now(caller, node, durability)
    }

    fn publish_now(&self, caller: &Caller, node: NodeId, durability: Durability) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        self.publish_locked(caller, node, &mut shared, durability)
    }

    /// Publishes a node whose state is locked, so that its name cannot change meanwhile.
    pub(super) fn publish_locked(
        &self,
        caller: &Caller,
        node: NodeId,
        shared: &mut SharedNode,
        durability: Durability,
    ) -> Result<(), Fault> {
        let Ok(path) = self.nodes.path_of(node) else { return Ok(()) };
        if let Some(DirtyBuffer { write_error: None, body, .. }) = &shared.dirty
            && body.length() > MAX_VERSIONED_BYTES
        {
            self.save_large(caller, &path, shared, durability)?;
            self.write_pending_xattrs(&path, shared);
            return Ok(());
        }
        let Some(mut dirty) = shared.dirty.take() else {
            if durability == Durability::Now {
                shared.large.as_ref().map_or(Ok(()), OpenFile::flush)?;
                self.wait_applied()?;
            }
            return Ok(());
        };
        if let Some(fault) = dirty.write_error.as_ref().map(Fault::duplicate) {
            // The page stays as it was, and closing reports it: many programs check only one call.
            shared.detach(dirty);
            return Err(fault);
        }
        if !dirty.is_changed && !dirty.is_new {
            if dirty.writer.is_some()
                && let Some(content) = dirty.body.take_content()?
            {
                // Truncated to its own length: no version, but new times.
                self.keep_saved_times(&path, &content, &dirty);
            }
            // Another handle's recent save is in this file, too.
            return if durability == Durability::Now { self.wait_applied().map(drop) } else { Ok(()) };
        }
        let Some(content) = dirty.body.take_content()? else {
            return Err(Fault::too_large("file", MAX_FILE_BYTES));
        };
        let kind = dirty.mode.map(|mode| if mode & 0o100 != 0 { FileKind::Executable } else { FileKind::Regular });
        let change = Change::Put {
            path: path.clone(),
            content: content.clone(),
            precondition: dirty.base.map_or(Precondition::Any, |etag| Precondition::OneOf(vec![etag])),
            kind,
            attributes: DiskAttributes {
                mode: dirty.mode,
                owner: Some((dirty.uid, dirty.gid)),
                modified: Some(dirty.modified),
                accessed: dirty.accessed,
            },
        };
        let set = ChangeSet { durability, ..ChangeSet::from(change) };
        let is_unchanged = self.has_content_at(&path, &content);
        let outcome = match dirty.conflict() {
            Some(fault) => Err(fault.duplicate()),
            None => self.apply_locked(caller, set),
        };
        match outcome {
            Ok(_) => {
                if is_unchanged {
                    self.keep_saved_times(&path, &content, &dirty);
                }
                shared.reported_times = Some(ReportedTimes::new(dirty.changed, dirty.modified));
                self.write_pending_xattrs(&path, shared);
                Ok(())
            }
            Err(fault) => {
                dirty.body.give_back(content.clone());
                dirty.record_rejection(&fault);
                self.handle_rejection(shared, &path, (dirty, content), durability);
                Err(fault)
            }
        }
    }

    /// Writes a whole file, for protocols without handles; stores a rejected text.
    ///
    /// # Errors
    /// As [`Vfs::apply`].
    pub fn save(
        &self,
        caller: &Caller,
        path: TreePath,
        content: Bytes,
        expect: Precondition,
    ) -> Result<WriteResult, Fault> {
        let change = Change::put(path.clone(), content.clone()).with_precondition(expect);
        match self.apply(caller, change) {
            Ok(applied) => applied.single(),
            Err(fault) => {
                if fault.kind().refuses_content() {
                    self.keep_rejected(&path, content, &fault, None);
                }
                Err(fault)
            }
        }
    }

    /// Closes a handle; the last one publishes the dirty buffer.
    ///
    /// # Errors
    /// As [`Vfs::publish`]; the handle is closed all the same.
    pub fn release(&self, caller: &Caller, handle: HandleId) -> Result<(), Fault> {
        let node = self.nodes.handle(handle)?.node;
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        self.drop_rejected(&mut shared, handle);
        // Under the lock: a handle that opens and truncates now must not be published here.
        let is_last = !self.nodes.is_open_elsewhere(node);
        let outcome = if is_last { self.publish_locked(caller, node, &mut shared, Durability::Soon) } else { Ok(()) };
        if is_last && outcome.is_err() {
            // The writer got the error. The next handle must not publish the buffer.
            (shared.dirty, shared.detached) = (None, None);
        }
        if is_last {
            shared.superseded_handles.clear();
        }
        if is_last && self.nodes.path_of(node).is_ok() {
            shared.drop_orphan(false);
        }
        self.nodes.close(handle);
        outcome
    }

    /// The hash of the node's published content.
    ///
    /// # Errors
    /// `Stale`, `NotFound`, `IsDirectory`.
    pub fn etag(&self, node: NodeId) -> Result<ETag, Fault> {
        let path = self.nodes.path_of(node)?;
        match self.core.effective_state(&path)? {
            EffectiveState::Leaf(leaf, _) => Ok(leaf.etag),
            EffectiveState::Directory => Err(Fault::is_directory(&path)),
            EffectiveState::Absent => Err(Fault::file_not_found(&path)),
            EffectiveState::Large(_) => Err(Fault::too_large("file", MAX_FILE_BYTES)),
        }
    }

    pub(crate) fn publish_all(&self) {
        let caller = Caller::new(Protocol::Internal);
        for (node, path) in self.nodes.open_nodes() {
            if let Err(fault) = self.publish_now(&caller, node, Durability::Now) {
                error!(page.path = %path, error = ?fault, "an open file could not be published at shutdown");
            }
        }
    }
}
