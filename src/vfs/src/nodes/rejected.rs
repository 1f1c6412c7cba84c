//! Rejected saves.
//!
//! Invariant: what a handle wrote is never mixed with content it did not start from. Its buffer
//! stays its own until it is accepted, or until none of its writers has the file open; a copy is
//! stored for the user from the first rejection on.

use std::collections::BTreeSet;

use bytes::Bytes;
use svcfs_base::{Caller, DiskAttributes, Durability, Fault, FileKind, Kind, Protocol, TreePath};
use svcfs_store::{FileInstall, StoreError};
use tracing::{error, warn};

use super::table::{DirtyBuffer, SharedNode};
use super::{HandleId, NodeId};
use crate::Vfs;
use crate::path_class::REJECTED_DIRECTORY;

/// Where the rejected text of a page is stored; none if the name is too long.
pub fn rejected_path(path: &TreePath) -> Option<TreePath> {
    if path.is_root() {
        return TreePath::parse(REJECTED_DIRECTORY).ok();
    }
    TreePath::parse(&format!("{REJECTED_DIRECTORY}/{path}")).ok()
}

impl DirtyBuffer {
    /// Records why its content was rejected; after a disk error it is retried as it is.
    pub(super) fn record_rejection(&mut self, fault: &Fault) {
        if fault.kind().refuses_content() || matches!(fault.kind(), Kind::Conflict | Kind::Locked) {
            self.rejected = Some(fault.duplicate());
        }
        if fault.kind() == Kind::Conflict {
            self.conflict = Some(fault.duplicate());
        }
    }

    /// Why it is never accepted: another writer changed the file that this is based on.
    pub(super) fn conflict(&self) -> Option<&Fault> {
        self.conflict.as_ref().filter(|_| self.base.is_some())
    }

    pub(super) fn add_writer(&mut self, handle: HandleId) {
        self.truncated_writers.remove(&handle);
        self.writers.insert(handle);
    }

    /// Starts from an empty file: earlier writers have no bytes in it.
    pub(super) fn reset_base(&mut self) {
        self.base = None;
        let writers = std::mem::take(&mut self.writers);
        if self.is_rejected() {
            self.truncated_writers.extend(writers);
        }
    }

    /// Whether only the length was set to zero: see [`Vfs::publish`].
    pub(super) fn is_only_truncated(&self) -> bool {
        self.body.length() == 0 && !self.is_written && self.write_error.is_none()
    }

    /// Whether it was rejected by a gate or failed on the disk.
    const fn is_rejected(&self) -> bool {
        self.rejected.is_some() || self.write_error.is_some()
    }
}

impl SharedNode {
    /// Reattaches a handle's detached buffer.
    ///
    /// # Errors
    /// `Conflict` when another writer changes the file, or the buffer was superseded.
    pub(super) fn reattach_for(&mut self, handle: HandleId) -> Result<(), Fault> {
        let is_superseded = self.superseded_handles.contains(&handle);
        let is_writer = self.detached.as_ref().is_some_and(|buffer| buffer.writers.contains(&handle));
        if is_superseded || is_writer && self.dirty.is_some() {
            let message = if is_superseded {
                "what was written here before is lost, because the file was changed by another writer; open it again"
            } else {
                "the last save of this file was rejected, and another writer is changing it; open it again"
            };
            return Err(Fault::new(Kind::Conflict, message));
        }
        if is_writer {
            self.dirty = self.detached.take();
        }
        Ok(())
    }

    /// Whether a handle has no detached or superseded buffer.
    fn has_nothing_detached(&self, handle: HandleId) -> bool {
        !self.superseded_handles.contains(&handle)
            && !self.detached.as_ref().is_some_and(|buffer| buffer.writers.contains(&handle))
    }

    /// The handle to which a mapped write belongs. The kernel passes any handle open for writing.
    /// None if the writer may be one without a detached buffer, else one that continues with its
    /// detached buffer.
    pub(super) fn mapped_write_handle(&self, picked: HandleId, write_handles: &BTreeSet<HandleId>) -> Option<HandleId> {
        if write_handles.iter().any(|handle| self.has_nothing_detached(*handle)) {
            return None;
        }
        let continuing = write_handles.iter().find(|handle| !self.superseded_handles.contains(handle));
        Some(continuing.copied().unwrap_or(picked))
    }

    /// Records a mapped write, which may belong to any of these handles.
    pub(super) fn add_mapped_writers(&mut self, mut handles: BTreeSet<HandleId>) {
        handles.retain(|handle| self.has_nothing_detached(*handle));
        if let Some(dirty) = &mut self.dirty {
            handles.into_iter().for_each(|handle| dirty.add_writer(handle));
        }
    }

    /// Whether a closing handle has no bytes of its own in a rejected buffer.
    pub(super) fn is_rejected_from_others(&self, handle: HandleId) -> bool {
        self.dirty.as_ref().is_some_and(|dirty| dirty.is_rejected() && !dirty.writers.contains(&handle))
    }

    /// Detaches a rejected buffer, for its writers only.
    pub(super) fn detach(&mut self, dirty: DirtyBuffer) {
        let replaced_writers = self.detached.take().map(|buffer| buffer.writers).unwrap_or_default();
        self.superseded_handles.extend(replaced_writers.difference(&dirty.writers).chain(&dirty.truncated_writers));
        self.detached = Some(dirty);
    }
}

impl Vfs {
    pub(super) fn handle_rejection(
        &self,
        shared: &mut SharedNode,
        path: &TreePath,
        (dirty, content): (DirtyBuffer, Bytes),
        durability: Durability,
    ) {
        let Some(fault) = dirty.rejected.as_ref().map(Fault::duplicate) else {
            // A disk or internal error: the buffer stays, and the next flush retries.
            shared.dirty = Some(dirty);
            return;
        };
        let mode = dirty.mode.or_else(|| Some(self.stat(Protocol::Internal, path).ok()?.mode)).unwrap_or(0o644);
        self.keep_rejected(path, content, &fault, Some((mode, (dirty.uid, dirty.gid))));
        if durability == Durability::Now && dirty.conflict().is_none() {
            // Not a close: the writer has the file open and continues with this buffer.
            shared.dirty = Some(dirty);
        } else {
            shared.detach(dirty);
        }
    }

    /// [`Vfs::publish`] through a handle: retries its own rejected buffer, ignores others'.
    ///
    /// # Errors
    /// As [`Vfs::publish`].
    pub fn publish_handle(&self, caller: &Caller, handle: HandleId, durability: Durability) -> Result<(), Fault> {
        let node = self.nodes.handle(handle)?.node;
        {
            let shared = self.nodes.shared(node)?;
            let mut shared = shared.lock();
            shared.reattach_for(handle)?;
            if durability == Durability::Soon && shared.is_rejected_from_others(handle) {
                return Ok(());
            }
        }
        self.publish(caller, node, durability)
    }

    /// Before a handle is closed: drops rejected buffers that no other handle can continue. Their
    /// writers got the error; the next writer would publish them unknowingly.
    pub(super) fn drop_rejected(&self, shared: &mut SharedNode, closing: HandleId) {
        shared.superseded_handles.remove(&closing);
        let has_open_writer = |dirty: &DirtyBuffer| self.nodes.is_any_open(&dirty.writers, closing);
        if shared.detached.as_ref().is_some_and(|buffer| !has_open_writer(buffer)) {
            shared.detached = None;
        }
        if shared.dirty.as_ref().is_some_and(|dirty| dirty.is_rejected() && !has_open_writer(dirty)) {
            shared.dirty = None;
        }
    }

    /// Stores a rejected text for the user. `own_attributes`: its mode and owner.
    pub(super) fn keep_rejected(
        &self,
        path: &TreePath,
        content: Bytes,
        fault: &Fault,
        own_attributes: Option<(u32, (u32, u32))>,
    ) {
        if let Err(error) = self.store_rejected_text(path, content, fault, own_attributes) {
            error!(page.path = %path, %error, "cannot store the text of a rejected save");
        }
    }

    /// Stores a text that a protocol cannot save, as a rejected save of `name`. It is readable for
    /// those who may read `page`, or might while it existed; else as `own_attributes` says. Durable
    /// on return.
    ///
    /// # Errors
    /// The disk's error; `NameTooLong` when the name cannot be stored.
    pub fn store_rejected(
        &self,
        (page, name): (&TreePath, &TreePath),
        content: Bytes,
        fault: &Fault,
        own_attributes: DiskAttributes,
    ) -> Result<(), Fault> {
        let attributes = self
            .stat(Protocol::Internal, page)
            .map_or_else(|_| self.tombstone_attributes(page), |attributes| Ok(Some(attributes)))?;
        let attributes = attributes.map(|attributes| (attributes.mode, (attributes.uid, attributes.gid)));
        self.store_rejected_text(
            name,
            content,
            fault,
            attributes.or_else(|| own_attributes.mode.zip(own_attributes.owner)),
        )?;
        self.flush()
    }

    /// Removes the stored text of a save that [`Vfs::store_rejected`] stored under this name: a
    /// later save was accepted.
    pub fn forget_rejected(&self, name: &TreePath) {
        self.core.forget_rejected(std::iter::once(name), self.core.refusals.mark());
    }

    /// Records why a change of a page was refused that has no text to store (`user.svc.lint`),
    /// until the next accepted write.
    pub fn note_refusal(&self, path: &TreePath, reason: &str) {
        drop(self.core.refusals.note(path, reason));
    }

    /// Flushes everything written below the root.
    ///
    /// # Errors
    /// The disk's error.
    pub fn flush(&self) -> Result<(), Fault> {
        Ok(self.core.tree.flush(self.core.versions.other_disks())?)
    }

    /// Stores it, readable for those who may read the page.
    fn store_rejected_text(
        &self,
        path: &TreePath,
        content: Bytes,
        fault: &Fault,
        own_attributes: Option<(u32, (u32, u32))>,
    ) -> Result<(), Fault> {
        warn!(page.path = %path, reason = fault.message(), "a save was rejected; its text is stored below `{REJECTED_DIRECTORY}`");
        let stored_at = rejected_path(path).ok_or_else(|| {
            Fault::new(
                Kind::NameTooLong,
                format!("the name `{path}` is too long to store a text below `{REJECTED_DIRECTORY}`"),
            )
        })?;
        let _file_lock = self.core.refusals.note(path, fault.message());
        let page = self
            .stat(Protocol::Internal, path)
            .ok()
            .map(|attributes| (attributes.mode, (attributes.uid, attributes.gid)));
        let (mode, owner) = match (page, own_attributes) {
            // Readable only for those who may read both page and text.
            (Some((page, (_, group))), Some((own_attributes, owner))) if group == owner.1 => {
                (page & own_attributes, Some(owner))
            }
            (Some((page, _)), Some((own_attributes, owner))) => (page & own_attributes & 0o604, Some(owner)),
            (Some((mode, owner)), None) | (None, Some((mode, owner))) => (mode, Some(owner)),
            (None, None) => (0o644, None),
        };
        let mode = match self.mirror_directories(path) {
            Ok(()) => mode & 0o644 | 0o600,
            Err(error) => {
                warn!(page.path = %path, %error, "cannot copy the permissions of the page's directories to those of a rejected text");
                0o600
            }
        };
        let disk = DiskAttributes { mode: Some(mode), owner, ..DiskAttributes::default() };
        let install = FileInstall { path: &stored_at, content: &content, kind: FileKind::Regular, attributes: disk };
        Ok(self.core.tree.install(&install)?)
    }

    /// Creates the directories of a rejected text with the mode and owner of the page's
    /// directories: whoever may remove the page may remove its text.
    fn mirror_directories(&self, path: &TreePath) -> Result<(), StoreError> {
        let tree = &self.core.tree;
        let mut directories: Vec<TreePath> = path.ancestors().collect();
        directories.sort();
        for directory in directories {
            let Some(stored_at) = rejected_path(&directory) else { continue };
            let attributes = match tree.stat(&directory) {
                // The page was never saved.
                Err(error) if error.is_missing() => break,
                attributes => attributes?,
            };
            if tree.stat(&stored_at).is_err() {
                tree.make_parents(&stored_at)?;
                tree.make_directory(&stored_at, attributes.mode & 0o700)?;
            }
            let now = tree.stat(&stored_at)?;
            if (now.uid, now.gid) != (attributes.uid, attributes.gid) {
                tree.set_owner(&stored_at, Some(attributes.uid), Some(attributes.gid))?;
            }
            if now.mode & 0o7777 != attributes.mode & 0o1777 {
                tree.set_mode(&stored_at, attributes.mode & 0o1777)?;
            }
        }
        Ok(())
    }

    /// Why the node's last save, or this stored text, was rejected (`user.svc.lint`).
    pub fn rejection_reason(&self, node: NodeId) -> Option<String> {
        let path = self.nodes.path_of(node).ok()?;
        match path.as_str().strip_prefix(REJECTED_DIRECTORY).and_then(|path| path.strip_prefix('/')) {
            Some(page) => self.core.refusals.reason(&TreePath::parse(page).ok()?),
            None => self.core.refusals.reason(&path),
        }
    }
}
