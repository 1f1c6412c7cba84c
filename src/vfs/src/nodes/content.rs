//! Content of nodes: opening, reading, writing, publishing.

use bytes::Bytes;
use svcfs_base::{
    Caller, Change, ChangeSet, DiskAttributes, Durability, ETag, Fault, FileKind, Kind, MAX_FILE_BYTES, Precondition,
    Protocol, TreePath, WriteResult,
};
use svcfs_store::OpenFile;
use tracing::error;

use super::body::{RECORDED, part};
use super::orphans::stands_in_for;
use super::table::{DirtyBuffer, ReportedTimes, SharedNode};
use super::{Allocation, HandleId, NodeId, OpenMode, PRIVILEGES, WriteAt};
use crate::Vfs;
use crate::core::{EffectiveState, is_of_disk};
use crate::view::{EntryKind, PathAttributes};

impl Vfs {
    /// Gives a file another length, through a handle or by name.
    pub(super) fn resize(
        &self,
        caller: &Caller,
        (node, through): (NodeId, Option<HandleId>),
        size: u64,
    ) -> Result<(), Fault> {
        if let Ok(path) = self.nodes.path_of(node) {
            self.core.not_leased(caller, &path, false)?;
        }
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if let Some(handle) = through {
            if size == 0 {
                // Whoever empties the file goes on with nothing.
                shared.displaced.remove(&handle);
            }
            shared.take_back(handle)?;
        }
        if shared.staging.is_none()
            && shared.large.is_none()
            && let Ok(path) = self.nodes.path_of(node)
        {
            // By name, without a handle.
            shared.large = self.opened_large(&path, &self.stat(Protocol::Internal, &path)?)?;
        }
        let (is_open, is_being_written) = (self.nodes.is_open(node), !self.nodes.writing(node).is_empty());
        match &shared.large {
            Some(large) if size > RECORDED => {
                large.resize(size)?;
                shared.told = None;
            }
            Some(large) => {
                let mut staging = self.cut_large(large, size)?;
                staging.body.resize(&self.core, size)?;
                staging.writers.extend(through);
                staging.writer = Some(caller.clone());
                shared.staging = Some(staging);
                shared.large = None;
            }
            None => self.stage_held((node, through), &mut shared, size > 0, |staging, now| {
                staging.is_changed |= staging.body.length() != size;
                if size == 0 {
                    staging.begin_anew();
                }
                staging.body.resize(&self.core, size)?;
                staging.is_written |= size > 0;
                staging.touch(caller, now);
                Ok(())
            })?,
        }
        // Set by name, without a handle whose closing would publish it: those who read close nothing that is theirs to save.
        if !is_being_written {
            let outcome = self.publish_held(caller, node, &mut shared, Durability::Soon);
            shared.aside = None;
            outcome?;
            if !is_open {
                shared.large = None;
            }
        }
        Ok(())
    }

    /// Makes a part of a file zeros, or the file longer. Nothing is reserved: before a file is published it has no place on the disk.
    ///
    /// # Errors
    /// `NoSpace` when the disk has no room for it now; `TooLarge` where no file is as long; as [`Vfs::write_node`].
    pub fn allocate(&self, caller: &Caller, id: HandleId, part: Allocation) -> Result<(), Fault> {
        let handle = self.nodes.handle(id)?;
        if !handle.is_writing {
            return Err(Fault::new(Kind::Forbidden, "the file was opened to read only"));
        }
        let too_far = || Fault::new(Kind::TooLarge, "no file is as long as that");
        let end = part.offset.checked_add(part.length).ok_or_else(too_far)?;
        let size = self.attributes(handle.node)?.size;
        let disk = self.disk_space()?;
        if end.saturating_sub(size) > disk.available.saturating_mul(u64::from(disk.block_size)) {
            return Err(Fault::new(Kind::NoSpace, format!("no space left on the disk for {} bytes", part.length)));
        }
        if part.is_zeroed {
            let shared = self.nodes.shared(handle.node)?;
            let mut shared = shared.lock();
            if !self.zero_large(handle, &mut shared, part)? {
                self.stage_held((handle.node, Some(id)), &mut shared, true, |staging, now| {
                    staging.body.zero(part.offset, part.length)?;
                    staging.is_changed = true;
                    staging.is_written = true;
                    staging.touch(caller, now);
                    Ok(())
                })?;
            }
        }
        if part.grows && size < end { self.resize(caller, (handle.node, Some(id)), end) } else { Ok(()) }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `IsDirectory`, `NotFound`, `Stale`; `Forbidden` to write what belongs to the server.
    pub fn open_node(&self, caller: &Caller, node: NodeId, mode: OpenMode) -> Result<HandleId, Fault> {
        let attributes = self.attributes(node)?;
        if attributes.kind == EntryKind::Directory {
            return Err(Fault::is_directory(&self.nodes.path_of(node)?));
        }
        // One whose name is gone meanwhile is opened all the same.
        if mode.write
            && let Ok(path) = self.nodes.path_of(node)
        {
            if !self.core.places.is_visible(caller.protocol, &path) {
                return Err(Fault::new(Kind::Forbidden, "this file belongs to the server"));
            }
            self.core.not_leased(caller, &path, false)?;
        }
        let handle = self.nodes.open(node, caller.protocol, mode.write)?;
        let opened = if mode.truncate && mode.write {
            self.empty(caller, node, handle)
        } else {
            self.open_held(node, &attributes)
        };
        if let Err(fault) = opened {
            self.nodes.close(handle);
            return Err(fault);
        }
        Ok(handle)
    }

    fn empty(&self, caller: &Caller, node: NodeId, handle: HandleId) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if let Some(large) = shared.large.take() {
            shared.staging = Some(self.cut_large(&large, 0)?);
        }
        self.stage_held((node, None), &mut shared, false, |staging, now| {
            staging.is_changed |= staging.body.length() > 0;
            staging.is_written = false;
            staging.begin_anew();
            staging.written_through(handle);
            staging.body.resize(&self.core, 0)?;
            staging.touch(caller, now);
            Ok(())
        })
    }

    /// A large file is held open for as long as any handle of it is.
    fn open_held(&self, node: NodeId, attributes: &PathAttributes) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if shared.staging.is_none()
            && shared.large.is_none()
            && let Ok(path) = self.nodes.path_of(node)
        {
            shared.large = self.opened_large(&path, attributes)?;
        }
        Ok(())
    }

    /// Whether a change of the file a handle has open is accepted and not announced yet. Readers of some doors may have seen it.
    pub fn has_pending_change(&self, handle: HandleId) -> bool {
        let path = self.nodes.handle(handle).and_then(|handle| self.nodes.path_of(handle.node));
        path.is_ok_and(|path| self.core.overlay.get(&path).is_some())
    }

    /// Bytes at an offset, counting unpublished writes; fewer at the end.
    ///
    /// # Errors
    /// `Stale`, `NotFound`, `IsDirectory`.
    pub fn read_node(&self, node: NodeId, offset: u64, length: usize) -> Result<Bytes, Fault> {
        {
            let shared = self.nodes.shared(node)?;
            let shared = shared.lock();
            if let Some(staging) = &shared.staging {
                return staging.body.read(offset, length);
            }
            if let Some(large) = &shared.large {
                return Ok(large.read_at(offset, length)?);
            }
        }
        match self.read_standing(node, offset, length) {
            Err(fault) if stands_in_for(&fault) => {
                // What is kept was kept before the name went.
                let shared = self.nodes.shared(node)?;
                let shared = shared.lock();
                shared.kept.as_ref().ok_or(fault)?.read(offset, length)
            }
            outcome => outcome,
        }
    }

    /// Bytes of what stands at a node's path, unpublished writes not counted.
    fn read_standing(&self, node: NodeId, offset: u64, length: usize) -> Result<Bytes, Fault> {
        let path = self.nodes.path_of(node)?;
        match self.core.overlay.get(&path) {
            Some(pending) => {
                let leaf = pending.leaf.ok_or_else(|| Fault::file_not_found(&path))?;
                let range = part(&leaf.content, offset, length as u64);
                Ok(leaf.content.slice(range))
            }
            None => {
                self.core.tree.read_range(&path, offset, length).map_err(|error| crate::view::not_there(&path, error))
            }
        }
    }

    /// Writes at an offset or at the end; not in history until published.
    ///
    /// # Errors
    /// `TooLarge` where no file is as long; `Forbidden` for a handle opened to read; `Stale`; `NoSpace` and `ReadOnly`
    /// while the disk is known to refuse.
    pub fn write_node(&self, caller: &Caller, id: HandleId, at: WriteAt, data: &[u8]) -> Result<usize, Fault> {
        let handle = self.nodes.handle(id)?;
        if !handle.is_writing {
            return Err(Fault::new(Kind::Forbidden, "the file was opened to read only"));
        }
        // Told at once where it is known: many programs look at the outcome of `write`, and few at that of `close`.
        let trouble = self.core.trouble.lock().as_ref().map(Fault::duplicate);
        if let Some(fault) = trouble.filter(is_of_disk) {
            if let Some(staging) = &mut self.nodes.shared(handle.node)?.lock().staging {
                staging.written_through(id);
                staging.refused = Some(fault.duplicate());
            }
            return Err(fault);
        }
        let shared = self.nodes.shared(handle.node)?;
        let mut shared = shared.lock();
        if self.write_large(handle, &mut shared, (at, data))? {
            return Ok(data.len());
        }
        let through = match at {
            WriteAt::Offset(_) | WriteAt::End => Some(id),
            WriteAt::Mapped(_) => shared.handle_of_page(id, &self.nodes.writing(handle.node)),
        };
        self.stage_held((handle.node, through), &mut shared, true, |staging, now| {
            let start = match at {
                WriteAt::Offset(offset) | WriteAt::Mapped(offset) => offset,
                WriteAt::End => staging.body.length(),
            };
            staging.body.write(&self.core, start, data)?;
            // Whoever was trusted with more wrote something else.
            staging.mode = staging.mode.map(|mode| mode & !PRIVILEGES);
            staging.is_changed = true;
            staging.is_written = true;
            staging.touch(caller, now);
            Ok(())
        })?;
        if matches!(at, WriteAt::Mapped(_)) {
            shared.written_by_any(self.nodes.writing(handle.node));
        }
        Ok(data.len())
    }

    /// Changes unpublished content, which begins as what is published; as nothing when the present content does not matter.
    fn stage_held(
        &self,
        (node, through): (NodeId, Option<HandleId>),
        shared: &mut SharedNode,
        is_based: bool,
        change: impl FnOnce(&mut DirtyBuffer, std::time::SystemTime) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let now = self.core.file_time();
        through.map_or(Ok(()), |handle| shared.take_back(handle))?;
        if shared.staging.is_none() {
            let begun = self.nodes.path_of(node).and_then(|path| self.staged(&path, is_based));
            let mut begun = match (begun, &shared.kept) {
                (Err(fault), Some(kept)) if stands_in_for(&fault) => kept.staged(is_based)?,
                (begun, _) => begun?,
            };
            begun.body.resize(&self.core, begun.body.length())?;
            shared.staging = Some(begun);
        }
        match &mut shared.staging {
            Some(staging) => {
                change(staging, now)?;
                through.into_iter().for_each(|handle| staging.written_through(handle));
                staging.refused = None;
                staging.verdict = None;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn staged(&self, path: &TreePath, is_based: bool) -> Result<DirtyBuffer, Fault> {
        let attributes = self.stat(Protocol::Internal, path)?;
        if !is_based && let Some(large) = self.opened_large(path, &attributes)? {
            return self.cut_large(&large, 0);
        }
        if !is_based && attributes.kind == EntryKind::File {
            // Neither read nor hashed: how much there was is all that counts.
            return Ok(DirtyBuffer { is_changed: attributes.size > 0, ..DirtyBuffer::of(&attributes) });
        }
        let leaf = match self.core.present(path)? {
            EffectiveState::Leaf(leaf, _) => leaf,
            EffectiveState::Directory => return Err(Fault::is_directory(path)),
            EffectiveState::Absent => return Err(Fault::file_not_found(path)),
            EffectiveState::Large(_) => return Err(Fault::too_large("file", MAX_FILE_BYTES)),
        };
        Ok(DirtyBuffer {
            base: is_based.then_some(leaf.etag),
            body: leaf.content.into(),
            ..DirtyBuffer::of(&attributes)
        })
    }

    /// Turns the node's unpublished bytes into one version (`flush`: Soon, `fsync`: Now). Nothing to do when clean.
    ///
    /// A file that was only emptied waits for its last handle: a shell closes a copy of the descriptor between opening a file
    /// and writing to it, and an empty version in between is nobody's save.
    ///
    /// # Errors
    /// `Rejected` by a gate: the last good version stays, the refused bytes are kept below `.svc/rejected/`. `Conflict` when
    /// another door wrote the file since, and only parts of it were changed here. What [`Vfs::apply`] says.
    pub fn publish(&self, caller: &Caller, node: NodeId, durability: Durability) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let is_waiting = shared.lock().staging.as_ref().is_some_and(DirtyBuffer::is_only_emptied);
        if is_waiting && durability == Durability::Soon {
            return Ok(());
        }
        self.publish_now(caller, node, durability)
    }

    fn publish_now(&self, caller: &Caller, node: NodeId, durability: Durability) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        self.publish_held(caller, node, &mut shared, durability)
    }

    /// Publishes a node whose shared content is held: between the look at its name and the write nobody takes the name away.
    pub(super) fn publish_held(
        &self,
        caller: &Caller,
        node: NodeId,
        shared: &mut SharedNode,
        durability: Durability,
    ) -> Result<(), Fault> {
        let Ok(path) = self.nodes.path_of(node) else { return Ok(()) };
        if let Some(DirtyBuffer { refused: None, body, .. }) = &shared.staging
            && body.length() > RECORDED
        {
            self.put_large(caller, &path, shared, durability)?;
            self.put_extended(&path, shared);
            return Ok(());
        }
        let Some(mut staging) = shared.staging.take() else {
            if durability == Durability::Now {
                shared.large.as_ref().map_or(Ok(()), OpenFile::flush)?;
                self.wait_applied()?;
            }
            return Ok(());
        };
        if let Some(fault) = staging.refused.as_ref().map(Fault::duplicate) {
            // Closing leaves the page as it was, and says so: many programs look at the outcome of one call only.
            shared.put_aside(staging);
            return Err(fault);
        }
        if !staging.is_changed && !staging.is_new {
            if staging.writer.is_some()
                && let Some(content) = staging.body.take_recorded()?
            {
                // Emptied, or cut to its length: no version, but a change of the file.
                self.keep_time(&path, &content, &staging);
            }
            // What another handle saved a moment ago is in this file, too.
            return if durability == Durability::Now { self.wait_applied().map(drop) } else { Ok(()) };
        }
        let Some(content) = staging.body.take_recorded()? else {
            return Err(Fault::too_large("file", MAX_FILE_BYTES));
        };
        let kind = staging.mode.map(|mode| if mode & 0o100 != 0 { FileKind::Executable } else { FileKind::Regular });
        let change = Change::Put {
            path: path.clone(),
            content: content.clone(),
            precondition: staging.base.map_or(Precondition::Any, |etag| Precondition::OneOf(vec![etag])),
            kind,
            attributes: DiskAttributes {
                mode: staging.mode,
                owner: Some((staging.uid, staging.gid)),
                modified: Some(staging.modified),
                accessed: staging.accessed,
            },
        };
        let set = ChangeSet { durability, ..ChangeSet::from(change) };
        let is_same = self.stands_at(&path, &content);
        let outcome = match staging.lost() {
            Some(fault) => Err(fault.duplicate()),
            None => self.apply_held(caller, set),
        };
        match outcome {
            Ok(_) => {
                if is_same {
                    self.keep_time(&path, &content, &staging);
                }
                shared.told = Some(ReportedTimes::new(staging.changed, staging.modified));
                self.put_extended(&path, shared);
                Ok(())
            }
            Err(fault) => {
                staging.body.give_back(content.clone());
                staging.judge(&fault);
                self.after_refusal(shared, &path, (staging, content), durability);
                Err(fault)
            }
        }
    }

    /// Puts a whole file as doors of files do that have no handles: what a gate refuses is kept where a person finds it (gaps.md D6).
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
                if fault.kind() == Kind::Rejected {
                    self.keep_refused(&path, content, &fault, None);
                }
                Err(fault)
            }
        }
    }

    /// Closes a handle; the last one publishes what is left, as a safety net.
    ///
    /// # Errors
    /// As [`Vfs::publish`]; the handle is closed all the same.
    pub fn release(&self, caller: &Caller, handle: HandleId) -> Result<(), Fault> {
        let node = self.nodes.handle(handle)?.node;
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        self.let_go_of_refused(&mut shared, handle);
        // Asked while the content is held: who opens the file and empties it in this moment waits, and is not published by us.
        let is_last = !self.nodes.is_open_elsewhere(node);
        let outcome = if is_last { self.publish_held(caller, node, &mut shared, Durability::Soon) } else { Ok(()) };
        if is_last && outcome.is_err() {
            // Whoever saved was told. Were the bytes kept, the next one to open the file would publish them unawares.
            (shared.staging, shared.aside) = (None, None);
        }
        if is_last {
            shared.displaced.clear();
        }
        if is_last && self.nodes.path_of(node).is_ok() {
            shared.unkeep(false);
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
        match self.core.present(&path)? {
            EffectiveState::Leaf(leaf, _) => Ok(leaf.etag),
            EffectiveState::Directory => Err(Fault::is_directory(&path)),
            EffectiveState::Absent => Err(Fault::file_not_found(&path)),
            EffectiveState::Large(_) => Err(Fault::too_large("file", MAX_FILE_BYTES)),
        }
    }

    /// Publishes everything, at the end.
    pub(crate) fn publish_all(&self) {
        let caller = Caller::new(Protocol::Internal);
        for (node, path) in self.nodes.opened() {
            if let Err(fault) = self.publish_now(&caller, node, Durability::Now) {
                error!(page.path = %path, error = ?fault, "an open file could not be published at the end");
            }
        }
    }
}
