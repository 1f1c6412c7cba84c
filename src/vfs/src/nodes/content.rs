//! Content of nodes: opening, reading, writing, publishing.

use bytes::Bytes;
use svcfs_base::{
    Caller, Change, ChangeSet, DiskAttributes, Door, Durability, ETag, Expect, Fault, FileKind, Kind, MAX_FILE_BYTES,
    TreePath,
};
use svcfs_store::Install;
use tracing::{error, warn};

use super::table::{Shared, Staging};
use super::{HandleId, NodeId, OpenMode, PRIVILEGES, SetAttributes, WriteAt};
use crate::Vfs;
use crate::core::{Present, is_of_disk};
use crate::place::REJECTED_DIRECTORY;
use crate::view::{Attributes, EntryKind};

impl Vfs {
    /// Attributes, counting unpublished writes.
    ///
    /// # Errors
    /// `Stale` when the node is gone and nothing of it is open; `NotFound`.
    pub fn attributes(&self, node: NodeId) -> Result<Attributes, Fault> {
        let shared = self.nodes.shared(node)?;
        let shared = shared.lock();
        let Some(staging) = &shared.staging else {
            let path = self.nodes.path_of(node)?;
            let mut attributes = self.stat_any(Door::Internal, &path)?;
            if attributes.kind == EntryKind::Directory
                && let Some(changed) = self.core.overlay.changed(&path)
            {
                // As on any disk: a directory whose names change was changed.
                attributes.modified = attributes.modified.max(changed);
                attributes.changed = attributes.changed.max(changed);
            }
            return Ok(attributes);
        };
        let standing = self.nodes.path_of(node).ok().and_then(|path| self.stat(Door::Internal, &path).ok());
        let mode = staging.mode.or(standing.as_ref().map(|attributes| attributes.mode)).unwrap_or(0o644);
        Ok(Attributes {
            kind: EntryKind::File,
            size: staging.bytes.len() as u64,
            mode,
            uid: staging.uid,
            gid: staging.gid,
            modified: staging.modified,
            changed: staging.modified,
            accessed: standing.map_or(staging.modified, |attributes| attributes.accessed),
            links: u32::from(self.nodes.path_of(node).is_ok()),
        })
    }

    /// Changes attributes, and answers with the new ones. A new length is a write of the node; a new execute bit is a
    /// version; other permission bits, owners and times are the disk's alone.
    ///
    /// # Errors
    /// `TooLarge` over 64 MiB, `IsDirectory` for a length of a directory, `Forbidden` when the disk refuses.
    pub fn set_attributes(&self, caller: &Caller, node: NodeId, set: SetAttributes) -> Result<Attributes, Fault> {
        if let Some(size) = set.size {
            self.resize(caller, node, size)?;
        }
        let shared = self.nodes.shared(node)?;
        {
            let mut shared = shared.lock();
            if let Some(staging) = &mut shared.staging {
                staging.mode = set.mode.map(|mode| mode & 0o7777).or(staging.mode);
                staging.modified = set.modified.unwrap_or(staging.modified);
                staging.uid = set.uid.unwrap_or(staging.uid);
                staging.gid = set.gid.unwrap_or(staging.gid);
                if staging.is_new || self.nodes.path_of(node).is_err() {
                    drop(shared);
                    return self.attributes(node);
                }
            }
        }
        let path = self.nodes.path_of(node)?;
        if set.mode.is_some()
            || set.uid.is_some()
            || set.gid.is_some()
            || set.modified.is_some()
            || set.accessed.is_some()
        {
            self.set_on_disk(caller, &path, &set)?;
        }
        self.attributes(node)
    }

    fn set_on_disk(&self, caller: &Caller, path: &TreePath, set: &SetAttributes) -> Result<(), Fault> {
        // What is installed later changes a file's attributes again, and a directory's times.
        if self.core.overlay.get(path).is_some() || !self.core.overlay.below(path).is_empty() {
            self.settled()?;
        }
        if let Some(mode) = set.mode {
            self.set_mode(caller, path, mode)?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            self.core.tree.set_owner(path, set.uid, set.gid)?;
        }
        if set.modified.is_some() || set.accessed.is_some() {
            self.core.tree.set_times(path, set.accessed, set.modified)?;
        }
        Ok(())
    }

    fn set_mode(&self, caller: &Caller, path: &TreePath, mode: u32) -> Result<(), Fault> {
        while let Present::Leaf(leaf, _) = self.core.present(path)?
            && leaf.kind != FileKind::Symlink
        {
            let kind = if mode & 0o100 != 0 { FileKind::Executable } else { FileKind::Regular };
            if kind == leaf.kind {
                break;
            }
            let change = Change::Put {
                path: path.clone(),
                content: leaf.content,
                // A bit must not bring back what somebody else replaces in this moment.
                expect: Expect::OneOf(vec![leaf.etag]),
                kind: Some(kind),
                disk: DiskAttributes { mode: Some(mode), ..leaf.disk },
            };
            match self.apply(caller, change) {
                Err(fault) if fault.kind() == Kind::Conflict => {}
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        Ok(self.core.tree.set_mode(path, mode)?)
    }

    fn resize(&self, caller: &Caller, node: NodeId, size: u64) -> Result<(), Fault> {
        let size = usize::try_from(size).ok().filter(|size| *size <= MAX_FILE_BYTES);
        let size = size.ok_or_else(|| Fault::too_large("file", MAX_FILE_BYTES))?;
        self.stage(node, size > 0, |staging, now| {
            staging.is_changed |= staging.bytes.len() != size;
            if size == 0 {
                staging.base = None;
            }
            staging.bytes.resize(size, 0);
            staging.is_written |= size > 0;
            staging.modified = now;
            Ok(())
        })?;
        // Set by name, without a handle whose closing would publish it.
        if !self.nodes.is_open(node) {
            self.publish_now(caller, node, Durability::Soon)?;
        }
        Ok(())
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
        if mode.write && !self.core.places.is_visible(caller.door, &self.nodes.path_of(node)?) {
            return Err(Fault::new(Kind::Forbidden, "this file belongs to the server"));
        }
        let handle = self.nodes.open(node, mode.write)?;
        if mode.truncate && mode.write {
            let emptied = self.stage(node, false, |staging, now| {
                staging.is_changed |= !staging.bytes.is_empty();
                staging.is_written = false;
                staging.base = None;
                staging.bytes.clear();
                staging.modified = now;
                Ok(())
            });
            if let Err(fault) = emptied {
                self.nodes.close(handle);
                return Err(fault);
            }
        }
        Ok(handle)
    }

    /// Whether a change of the file a handle has open is accepted and not announced yet. Readers of some doors may have seen it.
    pub fn is_settling(&self, handle: HandleId) -> bool {
        let path = self.nodes.handle(handle).and_then(|handle| self.nodes.path_of(handle.node));
        path.is_ok_and(|path| self.core.overlay.get(&path).is_some())
    }

    /// Bytes at an offset, counting unpublished writes; fewer at the end.
    ///
    /// # Errors
    /// `Stale`, `NotFound`, `IsDirectory`.
    pub fn read_node(&self, node: NodeId, offset: u64, length: usize) -> Result<Bytes, Fault> {
        let shared = self.nodes.shared(node)?;
        let slice = |bytes: &[u8]| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let end = start.saturating_add(length).min(bytes.len());
            start..end
        };
        if let Some(staging) = &shared.lock().staging {
            return Ok(Bytes::copy_from_slice(&staging.bytes[slice(&staging.bytes)]));
        }
        let path = self.nodes.path_of(node)?;
        match self.core.overlay.get(&path) {
            Some(pending) => {
                let leaf = pending.leaf.ok_or_else(|| Fault::file_not_found(&path))?;
                let range = slice(&leaf.content);
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
    /// `TooLarge` when the file would exceed 64 MiB; `Forbidden` for a handle opened to read; `Stale`; `NoSpace` and `ReadOnly`
    /// while the disk is known to refuse.
    pub fn write_node(&self, handle: HandleId, at: WriteAt, data: &[u8]) -> Result<usize, Fault> {
        let handle = self.nodes.handle(handle)?;
        if !handle.is_writing {
            return Err(Fault::new(Kind::Forbidden, "the file was opened to read only"));
        }
        // Told at once where it is known: many programs look at the outcome of `write`, and few at that of `close`.
        let trouble = self.core.trouble.lock().as_ref().map(Fault::again);
        if let Some(fault) = trouble.filter(is_of_disk) {
            if let Some(staging) = &mut self.nodes.shared(handle.node)?.lock().staging {
                staging.refused = Some(fault.again());
            }
            return Err(fault);
        }
        self.stage(handle.node, true, |staging, now| {
            let length = staging.bytes.len();
            let start = match at {
                WriteAt::Offset(offset) => usize::try_from(offset).unwrap_or(usize::MAX),
                WriteAt::End => length,
            };
            let end = start.checked_add(data.len()).filter(|end| *end <= MAX_FILE_BYTES);
            let end = end.ok_or_else(|| Fault::too_large("file", MAX_FILE_BYTES))?;
            if end > length {
                staging.bytes.resize(end, 0);
            }
            staging.bytes[start..end].copy_from_slice(data);
            // Whoever was trusted with more wrote something else.
            staging.mode = staging.mode.map(|mode| mode & !PRIVILEGES);
            staging.is_changed = true;
            staging.is_written = true;
            staging.modified = now;
            Ok(())
        })?;
        Ok(data.len())
    }

    /// Changes unpublished content, which begins as what is published; as nothing when the present content does not matter.
    fn stage(
        &self,
        node: NodeId,
        is_based: bool,
        change: impl FnOnce(&mut Staging, std::time::SystemTime) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        let now = self.core.file_time();
        if shared.staging.is_none() {
            shared.staging = Some(self.staged(&self.nodes.path_of(node)?, is_based)?);
        }
        match &mut shared.staging {
            Some(staging) => {
                change(staging, now)?;
                staging.refused = None;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn staged(&self, path: &TreePath, is_based: bool) -> Result<Staging, Fault> {
        let attributes = self.stat(Door::Internal, path)?;
        let leaf = match self.core.present(path)? {
            Present::Leaf(leaf, _) => leaf,
            Present::Directory => return Err(Fault::is_directory(path)),
            Present::Absent => return Err(Fault::file_not_found(path)),
        };
        Ok(Staging {
            base: is_based.then_some(leaf.etag),
            bytes: leaf.content.into(),
            is_changed: false,
            is_written: false,
            is_new: false,
            refused: None,
            mode: None,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: attributes.modified,
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
        let is_only_emptied =
            |staging: &Staging| staging.bytes.is_empty() && !staging.is_written && staging.refused.is_none();
        let is_waiting = shared.lock().staging.as_ref().is_some_and(is_only_emptied);
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
        shared: &mut Shared,
        durability: Durability,
    ) -> Result<(), Fault> {
        let Ok(path) = self.nodes.path_of(node) else { return Ok(()) };
        let Some(staging) = shared.staging.take() else {
            if durability == Durability::Now {
                self.settled()?;
            }
            return Ok(());
        };
        if let Some(fault) = staging.refused {
            // Closing leaves the page as it was, and says so: many programs look at the outcome of one call only.
            return Err(fault);
        }
        if !staging.is_changed && !staging.is_new {
            return Ok(());
        }
        let kind = staging.mode.map(|mode| if mode & 0o100 != 0 { FileKind::Executable } else { FileKind::Regular });
        let change = Change::Put {
            path: path.clone(),
            content: Bytes::copy_from_slice(&staging.bytes),
            expect: staging.base.map_or(Expect::Any, |etag| Expect::OneOf(vec![etag])),
            kind,
            disk: DiskAttributes {
                mode: staging.mode,
                owner: Some((staging.uid, staging.gid)),
                modified: Some(staging.modified),
            },
        };
        let set = ChangeSet { durability, ..ChangeSet::from(change) };
        match self.apply(caller, set) {
            Ok(_) => {
                self.accepted_save(shared, &path);
                Ok(())
            }
            Err(fault) => {
                self.after_refusal(shared, &path, staging, &fault);
                Err(fault)
            }
        }
    }

    fn after_refusal(&self, shared: &mut Shared, path: &TreePath, staging: Staging, fault: &Fault) {
        match fault.kind() {
            Kind::Rejected | Kind::Conflict => {
                shared.refusal = Some(fault.message().to_owned());
                self.keep_refused(path, staging.bytes.into(), fault);
            }
            // The disk, or we: the bytes stay with the node, and the next flush tries again.
            _ => shared.staging = Some(staging),
        }
    }

    /// Keeps what was refused where a person finds it (gaps.md D6).
    pub(super) fn keep_refused(&self, path: &TreePath, content: Bytes, fault: &Fault) {
        warn!(page.path = %path, reason = fault.message(), "a save was refused; its text is kept below `{REJECTED_DIRECTORY}`");
        let Ok(place) = TreePath::parse(&format!("{REJECTED_DIRECTORY}/{path}")) else {
            return;
        };
        let install =
            Install { path: &place, content: &content, kind: FileKind::Regular, disk: DiskAttributes::default() };
        if let Err(error) = self.core.tree.install(&install) {
            error!(page.path = %path, %error, "the text of a refused save could not be kept");
        }
    }

    /// An accepted save makes an earlier refusal of the same path void.
    pub(super) fn accepted_save(&self, shared: &mut Shared, path: &TreePath) {
        shared.refusal = None;
        let Ok(place) = TreePath::parse(&format!("{REJECTED_DIRECTORY}/{path}")) else {
            return;
        };
        if self.core.tree.stat(&place).is_ok()
            && let Err(error) = self.core.tree.remove(&place)
        {
            warn!(page.path = %path, %error, "the text of an earlier refused save could not be removed");
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
        // Asked while the content is held: who opens the file and empties it in this moment waits, and is not published by us.
        let is_last = !self.nodes.is_open_elsewhere(node);
        let outcome = if is_last { self.publish_held(caller, node, &mut shared, Durability::Soon) } else { Ok(()) };
        if is_last && outcome.is_err() {
            // Whoever saved was told. Were the bytes kept, the next one to open the file would publish them unawares.
            shared.staging = None;
        }
        self.nodes.close(handle);
        outcome
    }

    /// Why the last save of this node was refused, if it was (`user.svc.lint`, gaps.md D6).
    pub fn refusal(&self, node: NodeId) -> Option<String> {
        self.nodes.shared(node).ok()?.lock().refusal.clone()
    }

    /// The hash of the node's published content.
    ///
    /// # Errors
    /// `Stale`, `NotFound`, `IsDirectory`.
    pub fn etag(&self, node: NodeId) -> Result<ETag, Fault> {
        let path = self.nodes.path_of(node)?;
        match self.core.present(&path)? {
            Present::Leaf(leaf, _) => Ok(leaf.etag),
            Present::Directory => Err(Fault::is_directory(&path)),
            Present::Absent => Err(Fault::file_not_found(&path)),
        }
    }

    /// Publishes everything, at the end.
    pub(crate) fn publish_all(&self) {
        let caller = Caller::new(Door::Internal);
        for (node, path) in self.nodes.opened() {
            if let Err(fault) = self.publish_now(&caller, node, Durability::Now) {
                error!(page.path = %path, error = ?fault, "an open file could not be published at the end");
            }
        }
    }
}
