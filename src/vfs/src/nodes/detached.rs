//! Rejected texts for protocols whose clients neither open nor close files (NFS).
//!
//! Invariant: such a text is detached from its node as a unit, with its base. The protocol learns
//! from the next requests who continues it; until then the file is the last accepted one, without
//! open handles.

use std::collections::BTreeSet;

use bytes::Bytes;
use svcfs_base::{Caller, Durability, ETag, Fault, Kind, Protocol};

use super::table::{DirtyBuffer, SharedNode};
use super::{HandleId, NodeId};
use crate::Vfs;

/// A text whose content was rejected, and its base.
#[derive(Debug)]
pub struct RejectedText(Box<DirtyBuffer>);

impl RejectedText {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.0.body.length()
    }

    /// Bytes at an offset; fewer at the end.
    ///
    /// # Errors
    /// The disk's error, when it is on disk.
    pub fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        self.0.body.read(offset, length)
    }
}

/// Where a rejected text is.
#[derive(Debug)]
pub enum RejectedBuffer {
    /// Still in the node: the file has no accepted version.
    InPlace,
    /// Detached from the node.
    Detached(RejectedText),
}

impl DirtyBuffer {
    fn copy_ownerless(&self) -> Result<Self, Fault> {
        let length = usize::try_from(self.body.length()).map_err(Fault::internal)?;
        Ok(Self {
            body: self.body.read(0, length)?.into(),
            base: self.base,
            is_changed: self.is_changed,
            is_written: self.is_written,
            is_new: self.is_new,
            write_error: None,
            rejected: None,
            conflict: self.conflict.as_ref().map(Fault::duplicate),
            writers: BTreeSet::new(),
            truncated_writers: BTreeSet::new(),
            writer: self.writer.clone(),
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            modified: self.modified,
            accessed: self.accessed,
            changed: self.changed,
        })
    }
}

impl Vfs {
    /// As [`Vfs::publish`], through a handle; detaches a text whose content is rejected, so that
    /// other writers do not mix with it.
    ///
    /// # Errors
    /// As [`Vfs::publish`], and where the rejected text is; none when it failed for another reason.
    pub fn publish_or_detach(
        &self,
        caller: &Caller,
        handle: HandleId,
        durability: Durability,
    ) -> Result<(), (Fault, Option<RejectedBuffer>)> {
        let without_text = |fault| (fault, None);
        let node = self.nodes.handle(handle).map_err(without_text)?.node;
        let shared = self.nodes.shared(node).map_err(without_text)?;
        let mut shared = shared.lock();
        // A rejection reported to another handle is reported here, too.
        shared.reattach_for(handle).map_err(without_text)?;
        if durability == Durability::Soon && shared.dirty.as_ref().is_some_and(DirtyBuffer::is_only_truncated) {
            return Ok(());
        }
        let outcome = self.publish_locked(caller, node, &mut shared, durability);
        outcome.map_err(|fault| (fault, self.take_rejected(&mut shared, (node, handle))))
    }

    /// Takes the text that was rejected for a handle.
    fn take_rejected(&self, shared: &mut SharedNode, (node, handle): (NodeId, HandleId)) -> Option<RejectedBuffer> {
        let is_writer = |dirty: &DirtyBuffer| dirty.rejected.is_some() && dirty.writers.contains(&handle);
        let is_attached = shared.dirty.as_ref().is_some_and(is_writer);
        let text = if is_attached { &mut shared.dirty } else { &mut shared.detached };
        let rejected = text.as_ref().filter(|dirty| is_writer(dirty))?;
        if !self.nodes.path_of(node).is_ok_and(|path| self.stat(Protocol::Internal, &path).is_ok()) {
            if !is_attached && shared.dirty.is_none() {
                shared.dirty = shared.detached.take();
            }
            return Some(RejectedBuffer::InPlace);
        }
        // Its other writers, through a mount, continue with the original.
        let text_buffer = if rejected.writers.len() > 1 { rejected.copy_ownerless().ok()? } else { text.take()? };
        Some(RejectedBuffer::Detached(RejectedText(Box::new(text_buffer))))
    }

    /// Attaches a rejected text to a handle that was just opened. Returns the hash of its base, if
    /// it may only replace that.
    ///
    /// # Errors
    /// `Conflict` when another writer is changing the file; the disk's error. The text is returned.
    pub fn reattach(&self, handle: HandleId, text: RejectedText) -> Result<Option<ETag>, (Fault, RejectedText)> {
        let shared = match self.nodes.handle(handle).and_then(|handle| self.nodes.shared(handle.node)) {
            Ok(shared) => shared,
            Err(fault) => return Err((fault, text)),
        };
        let mut shared = shared.lock();
        if shared.dirty.is_some() {
            let message = "the last save of this file was rejected, and another writer is changing it";
            return Err((Fault::new(Kind::Conflict, message), text));
        }
        let mut dirty = *text.0;
        let length = dirty.body.length();
        if let Err(fault) = dirty.body.resize(&self.core, length) {
            return Err((fault, RejectedText(Box::new(dirty))));
        }
        (dirty.rejected, dirty.write_error, dirty.is_new) = (None, None, false);
        (dirty.writers, dirty.truncated_writers) = (BTreeSet::from([handle]), BTreeSet::new());
        let base = dirty.base;
        (shared.dirty, shared.large) = (Some(dirty), None);
        Ok(base)
    }
}
