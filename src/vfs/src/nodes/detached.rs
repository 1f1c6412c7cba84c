//! Refused texts of doors whose clients neither open nor close a file (NFS).
//!
//! One rule: such a text is taken out of its file whole, with what it began from. The door finds out by what comes next who goes on with it; until
//! then the file is what was accepted last, and no handle of it stays open.

use std::collections::BTreeSet;

use bytes::Bytes;
use svcfs_base::{Caller, Durability, ETag, Fault, Kind, Protocol};

use super::table::{DirtyBuffer, SharedNode};
use super::{HandleId, NodeId};
use crate::Vfs;

/// A text that was refused for what it is, and what it began from.
#[derive(Debug)]
pub struct RejectedText(Box<DirtyBuffer>);

impl RejectedText {
    /// How long it is, in bytes.
    pub fn length(&self) -> u64 {
        self.0.body.length()
    }

    /// Bytes at an offset; fewer at the end.
    ///
    /// # Errors
    /// What the disk says, where it is there.
    pub fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        self.0.body.read(offset, length)
    }
}

/// Where a text is that was refused.
#[derive(Debug)]
pub enum RejectedBuffer {
    /// Where it was: nothing of this file was ever accepted, and this is all that there is of it.
    InPlace,
    /// Out of the file.
    Detached(RejectedText),
}

impl DirtyBuffer {
    /// The same text of nobody.
    fn copied(&self) -> Result<Self, Fault> {
        let length = usize::try_from(self.body.length()).map_err(Fault::internal)?;
        Ok(Self {
            body: self.body.read(0, length)?.into(),
            base: self.base,
            is_changed: self.is_changed,
            is_written: self.is_written,
            is_new: self.is_new,
            refused: None,
            verdict: None,
            lost: self.lost.as_ref().map(Fault::duplicate),
            writers: BTreeSet::new(),
            emptied: BTreeSet::new(),
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
    /// As [`Vfs::publish`], through a handle. What is refused for what it is, is taken out of the file in the same moment, so that nobody mixes it
    /// with theirs.
    ///
    /// # Errors
    /// As [`Vfs::publish`], and where the refused text is; nowhere when it was refused for another reason.
    pub fn publish_or_detach(
        &self,
        caller: &Caller,
        handle: HandleId,
        durability: Durability,
    ) -> Result<(), (Fault, Option<RejectedBuffer>)> {
        let nowhere = |fault| (fault, None);
        let node = self.nodes.handle(handle).map_err(nowhere)?.node;
        let shared = self.nodes.shared(node).map_err(nowhere)?;
        let mut shared = shared.lock();
        // What another handle was told of these bytes is told once more here.
        shared.take_back(handle).map_err(nowhere)?;
        if durability == Durability::Soon && shared.staging.as_ref().is_some_and(DirtyBuffer::is_only_emptied) {
            return Ok(());
        }
        let outcome = self.publish_held(caller, node, &mut shared, durability);
        outcome.map_err(|fault| (fault, self.left_of(&mut shared, (node, handle))))
    }

    /// Where the text is that was refused of a handle.
    fn left_of(&self, shared: &mut SharedNode, (node, handle): (NodeId, HandleId)) -> Option<RejectedBuffer> {
        let is_its = |staging: &DirtyBuffer| staging.verdict.is_some() && staging.writers.contains(&handle);
        let is_here = shared.staging.as_ref().is_some_and(is_its);
        let text = if is_here { &mut shared.staging } else { &mut shared.aside };
        let refused = text.as_ref().filter(|staging| is_its(staging))?;
        if !self.nodes.path_of(node).is_ok_and(|path| self.stat(Protocol::Internal, &path).is_ok()) {
            if !is_here && shared.staging.is_none() {
                shared.staging = shared.aside.take();
            }
            return Some(RejectedBuffer::InPlace);
        }
        // Those who wrote it through a mount go on with their own.
        let taken = if refused.writers.len() > 1 { refused.copied().ok()? } else { text.take()? };
        Some(RejectedBuffer::Detached(RejectedText(Box::new(taken))))
    }

    /// A handle that was just opened goes on with a refused text, and not with what the file is. Answers with the hash of what that text began from, where
    /// it keeps to that: it is never accepted over anything else.
    ///
    /// # Errors
    /// `Conflict` when others are writing the file; what the disk says. The text comes back.
    pub fn reattach(&self, handle: HandleId, text: RejectedText) -> Result<Option<ETag>, (Fault, RejectedText)> {
        let shared = match self.nodes.handle(handle).and_then(|handle| self.nodes.shared(handle.node)) {
            Ok(shared) => shared,
            Err(fault) => return Err((fault, text)),
        };
        let mut shared = shared.lock();
        if shared.staging.is_some() {
            let told = "the last save of this file was refused, and others are writing it by now";
            return Err((Fault::new(Kind::Conflict, told), text));
        }
        let mut staging = *text.0;
        let length = staging.body.length();
        if let Err(fault) = staging.body.resize(&self.core, length) {
            return Err((fault, RejectedText(Box::new(staging))));
        }
        (staging.verdict, staging.refused, staging.is_new) = (None, None, false);
        (staging.writers, staging.emptied) = (BTreeSet::from([handle]), BTreeSet::new());
        let base = staging.base;
        (shared.staging, shared.large) = (Some(staging), None);
        Ok(base)
    }
}
