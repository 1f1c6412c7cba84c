//! Saves that are refused.
//!
//! One rule: what a handle wrote is never mixed with a text it did not begin from. Its bytes stay its own until they are accepted, or until
//! nobody who wrote them has the file open any more; a copy is kept where a person finds it from the first refusal on.

use std::collections::BTreeSet;

use bytes::Bytes;
use svcfs_base::{Caller, DiskAttributes, Durability, Fault, FileKind, Kind, Protocol, TreePath};
use svcfs_store::{FileInstall, StoreError};
use tracing::{error, warn};

use super::table::{DirtyBuffer, SharedNode};
use super::{HandleId, NodeId};
use crate::Vfs;
use crate::path_class::REJECTED_DIRECTORY;

/// Where the refused text of a page is kept; none for a page whose name is too long for that. What is below the root is kept below the place of
/// the root.
pub fn rejected_path(path: &TreePath) -> Option<TreePath> {
    if path.is_root() {
        return TreePath::parse(REJECTED_DIRECTORY).ok();
    }
    TreePath::parse(&format!("{REJECTED_DIRECTORY}/{path}")).ok()
}

impl DirtyBuffer {
    /// Notes why it was not accepted, where that is for what it is; what the disk refuses is tried again as it is.
    pub(super) fn judge(&mut self, fault: &Fault) {
        if matches!(fault.kind(), Kind::Rejected | Kind::Conflict | Kind::Locked) {
            self.verdict = Some(fault.duplicate());
        }
        if fault.kind() == Kind::Conflict {
            self.lost = Some(fault.duplicate());
        }
    }

    /// Why it is never accepted: others wrote the file since, and only parts of it were changed here. Whoever empties the file first writes all
    /// of it.
    pub(super) fn lost(&self) -> Option<&Fault> {
        self.lost.as_ref().filter(|_| self.base.is_some())
    }

    /// Bytes were written through a handle.
    pub(super) fn written_through(&mut self, handle: HandleId) {
        self.emptied.remove(&handle);
        self.writers.insert(handle);
    }

    /// Whoever wrote until now has nothing in the file any more.
    pub(super) fn begin_anew(&mut self) {
        self.base = None;
        let writers = std::mem::take(&mut self.writers);
        if self.is_refused() {
            self.emptied.extend(writers);
        }
    }

    /// Only the length was set to zero: see [`Vfs::publish`].
    pub(super) fn is_only_emptied(&self) -> bool {
        self.body.length() == 0 && !self.is_written && self.refused.is_none()
    }

    /// Whether they were refused, by a gate or by the disk.
    const fn is_refused(&self) -> bool {
        self.verdict.is_some() || self.refused.is_some()
    }
}

impl SharedNode {
    /// A handle goes on with what was put aside for it.
    ///
    /// # Errors
    /// `Conflict` when others are writing the file by now, or have taken the place of what was put aside.
    pub(super) fn take_back(&mut self, handle: HandleId) -> Result<(), Fault> {
        let is_displaced = self.displaced.contains(&handle);
        let is_its = self.aside.as_ref().is_some_and(|aside| aside.writers.contains(&handle));
        if is_displaced || is_its && self.staging.is_some() {
            let told = if is_displaced {
                "what was written here before is gone, as others wrote the file since; open it anew"
            } else {
                "the last save of this file was refused, and others are writing it by now; open it anew"
            };
            return Err(Fault::new(Kind::Conflict, told));
        }
        if is_its {
            self.staging = self.aside.take();
        }
        Ok(())
    }

    /// Whether a handle may write with nothing of its own put aside.
    fn is_free(&self, handle: HandleId) -> bool {
        !self.displaced.contains(&handle) && !self.aside.as_ref().is_some_and(|aside| aside.writers.contains(&handle))
    }

    /// Through which handle a page of a mapping is written. The kernel picks one of those that have the file open to write and does not say
    /// whose page it is: none of them where it may be of somebody who is free to write, else one that goes on with what was put aside for it.
    pub(super) fn handle_of_page(&self, picked: HandleId, writing: &BTreeSet<HandleId>) -> Option<HandleId> {
        if writing.iter().any(|handle| self.is_free(*handle)) {
            return None;
        }
        let goes_on = writing.iter().find(|handle| !self.displaced.contains(handle));
        Some(goes_on.copied().unwrap_or(picked))
    }

    /// The kernel wrote a page of a mapping, which may be of any of these handles: it does not say which.
    pub(super) fn written_by_any(&mut self, mut handles: BTreeSet<HandleId>) {
        handles.retain(|handle| self.is_free(*handle));
        if let Some(staging) = &mut self.staging {
            handles.into_iter().for_each(|handle| staging.written_through(handle));
        }
    }

    /// Whether the close of a handle has nothing to save but what others wrote, who were told that it is refused.
    pub(super) fn is_refused_of_others(&self, handle: HandleId) -> bool {
        self.staging.as_ref().is_some_and(|staging| staging.is_refused() && !staging.writers.contains(&handle))
    }

    /// Leaves refused bytes to those who wrote them.
    pub(super) fn put_aside(&mut self, staging: DirtyBuffer) {
        let replaced = self.aside.take().map(|aside| aside.writers).unwrap_or_default();
        self.displaced.extend(replaced.difference(&staging.writers).chain(&staging.emptied));
        self.aside = Some(staging);
    }
}

impl Vfs {
    /// What becomes of bytes that could not be published.
    pub(super) fn after_refusal(
        &self,
        shared: &mut SharedNode,
        path: &TreePath,
        (staging, content): (DirtyBuffer, Bytes),
        durability: Durability,
    ) {
        let Some(fault) = staging.verdict.as_ref().map(Fault::duplicate) else {
            // The disk, or we: the bytes stay with the node, and the next flush tries again.
            shared.staging = Some(staging);
            return;
        };
        let mode = staging.mode.or_else(|| Some(self.stat(Protocol::Internal, path).ok()?.mode)).unwrap_or(0o644);
        self.keep_refused(path, content, &fault, Some((mode, (staging.uid, staging.gid))));
        if durability == Durability::Now && staging.lost().is_none() {
            // No close, after which the file has to be what it was: whoever asked has it open, and goes on.
            shared.staging = Some(staging);
        } else {
            shared.put_aside(staging);
        }
    }

    /// [`Vfs::publish`] through a handle: what it wrote and was refused is tried again, and told again. What others wrote and was refused is theirs.
    ///
    /// # Errors
    /// As [`Vfs::publish`].
    pub fn publish_handle(&self, caller: &Caller, handle: HandleId, durability: Durability) -> Result<(), Fault> {
        let node = self.nodes.handle(handle)?.node;
        {
            let shared = self.nodes.shared(node)?;
            let mut shared = shared.lock();
            shared.take_back(handle)?;
            if durability == Durability::Soon && shared.is_refused_of_others(handle) {
                return Ok(());
            }
        }
        self.publish(caller, node, durability)
    }

    /// Before a handle is closed: refused bytes go with the last of those who could go on with them. Whoever saved was told; were the bytes kept,
    /// the next one to write the file would publish them unawares.
    pub(super) fn let_go_of_refused(&self, shared: &mut SharedNode, closing: HandleId) {
        shared.displaced.remove(&closing);
        let is_left = |staging: &DirtyBuffer| self.nodes.is_any_open(&staging.writers, closing);
        if shared.aside.as_ref().is_some_and(|aside| !is_left(aside)) {
            shared.aside = None;
        }
        if shared.staging.as_ref().is_some_and(|staging| staging.is_refused() && !is_left(staging)) {
            shared.staging = None;
        }
    }

    /// Keeps what was refused where a person finds it (gaps.md D6). `own` is what the refused file has of permission bits and owner, where it does
    /// not go by the page's.
    pub(super) fn keep_refused(&self, path: &TreePath, content: Bytes, fault: &Fault, own: Option<(u32, (u32, u32))>) {
        if let Err(error) = self.keep_text(path, content, fault, own) {
            error!(page.path = %path, %error, "the text of a refused save could not be kept");
        }
    }

    /// Keeps what a door was to save of a page and cannot, as a refused save of that page or of another name, for those who may read the page, or
    /// might while it was there; where it never was, as `own` says. It is on the disk when this returns.
    ///
    /// # Errors
    /// What the disk says; `NameTooLong` where nothing can be kept of a name.
    pub fn store_rejected(
        &self,
        (page, name): (&TreePath, &TreePath),
        content: Bytes,
        fault: &Fault,
        own: DiskAttributes,
    ) -> Result<(), Fault> {
        let there = self
            .stat(Protocol::Internal, page)
            .map_or_else(|_| self.tombstone_attributes(page), |there| Ok(Some(there)))?;
        let there = there.map(|there| (there.mode, (there.uid, there.gid)));
        self.keep_text(name, content, fault, there.or_else(|| own.mode.zip(own.owner)))?;
        self.flush()
    }

    /// Brings all that was written below the root to the disk.
    ///
    /// # Errors
    /// What the disk says.
    pub fn flush(&self) -> Result<(), Fault> {
        Ok(self.core.tree.flush(self.core.memory.other_disks())?)
    }

    /// Keeps it, readable for those who may read the page.
    fn keep_text(
        &self,
        path: &TreePath,
        content: Bytes,
        fault: &Fault,
        own: Option<(u32, (u32, u32))>,
    ) -> Result<(), Fault> {
        warn!(page.path = %path, reason = fault.message(), "a save was refused; its text is kept below `{REJECTED_DIRECTORY}`");
        let place = rejected_path(path).ok_or_else(|| {
            Fault::new(
                Kind::NameTooLong,
                format!("`{path}` is too long a name for a text to be kept below `{REJECTED_DIRECTORY}`"),
            )
        })?;
        let _keeping = self.core.refusals.note(path, fault.message());
        let page = self.stat(Protocol::Internal, path).ok().map(|there| (there.mode, (there.uid, there.gid)));
        let (mode, owner) = match (page, own) {
            // Nobody sees it who may not see both; whoever wrote it has it anyway.
            (Some((page, (_, group))), Some((own, owner))) if group == owner.1 => (page & own, Some(owner)),
            (Some((page, _)), Some((own, owner))) => (page & own & 0o604, Some(owner)),
            (Some((mode, owner)), None) | (None, Some((mode, owner))) => (mode, Some(owner)),
            (None, None) => (0o644, None),
        };
        let mode = match self.directories_as_above(path) {
            Ok(()) => mode & 0o644 | 0o600,
            Err(error) => {
                warn!(page.path = %path, %error, "the directories of a refused text do not get the permission bits of those of the page");
                0o600
            }
        };
        let disk = DiskAttributes { mode: Some(mode), owner, ..DiskAttributes::default() };
        let install = FileInstall { path: &place, content: &content, kind: FileKind::Regular, attributes: disk };
        Ok(self.core.tree.install(&install)?)
    }

    /// Makes the directories that the text of a refused save is kept in, each with the permission bits and the owner of the one of the page: who may
    /// remove the page may remove its text.
    fn directories_as_above(&self, path: &TreePath) -> Result<(), StoreError> {
        let tree = &self.core.tree;
        let mut above: Vec<TreePath> = path.ancestors().collect();
        above.sort();
        for directory in above {
            let Some(place) = rejected_path(&directory) else { continue };
            let there = match tree.stat(&directory) {
                // Of a page that was never saved.
                Err(error) if error.is_missing() => break,
                there => there?,
            };
            if tree.stat(&place).is_err() {
                tree.make_parents(&place)?;
                tree.make_directory(&place, there.mode & 0o700)?;
            }
            let now = tree.stat(&place)?;
            if (now.uid, now.gid) != (there.uid, there.gid) {
                tree.set_owner(&place, Some(there.uid), Some(there.gid))?;
            }
            if now.mode & 0o7777 != there.mode & 0o1777 {
                tree.set_mode(&place, there.mode & 0o1777)?;
            }
        }
        Ok(())
    }

    /// Why the last save of this node was refused, if it was (`user.svc.lint`, gaps.md D6); also of the refused text itself.
    pub fn rejection_reason(&self, node: NodeId) -> Option<String> {
        let path = self.nodes.path_of(node).ok()?;
        match path.as_str().strip_prefix(REJECTED_DIRECTORY).and_then(|path| path.strip_prefix('/')) {
            Some(page) => self.core.refusals.of(&TreePath::parse(page).ok()?),
            None => self.core.refusals.of(&path),
        }
    }
}
