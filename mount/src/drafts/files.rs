//! Content of files in drafts: handles, dirty buffers, saves.

use std::time::SystemTime;

use bytes::Bytes;
use fuser::{Errno, FileAttr, FileHandle, INodeNo};
use svcfs_base::{
    Caller, Change, DiskAttributes, DraftId, ETag, Fault, Kind, MAX_FILE_BYTES, Precondition, Protocol, TreePath,
};
use svcfs_vfs::{SetAttributes, WriteAt};

use super::nodes::{DirtyBytes, DraftEntry, DraftHandle};
use super::{DRAFTS, DraftFiles, new_file};
use crate::convert::read_range;
use crate::reply::{RequestFailure, log, or_stale};

/// Executable by anyone: a versioned attribute, which drafts do not have.
const EXECUTE_BITS: u32 = 0o111;

impl DraftFiles {
    /// Opens a file: a reader keeps the current content.
    pub(crate) fn open(&self, inode: INodeNo, is_writing: bool) -> Result<FileHandle, RequestFailure> {
        let (id, path) = self.path(inode)?;
        let snapshot = self.stored(id, &path).map_err(or_stale)?.map_or_else(Bytes::new, |(_, content)| content);
        Ok(self.nodes.open(DraftHandle { inode, is_writing, snapshot: Some(snapshot) }))
    }

    pub(crate) fn read(&self, handle: FileHandle, offset: u64, length: u32) -> Result<Bytes, RequestFailure> {
        let DraftHandle { inode, snapshot, .. } = self.nodes.handle(handle)?;
        let file = self.nodes.file(inode)?;
        let dirty = file.lock();
        if let Some(dirty) = &*dirty {
            return Ok(Bytes::copy_from_slice(&dirty.bytes[read_range(dirty.bytes.len(), offset, length)]));
        }
        let content = match snapshot {
            Some(content) => content,
            None => {
                let (id, path) = self.path(inode)?;
                let content = self.stored(id, &path).map_err(or_stale)?.map_or_else(Bytes::new, |(_, content)| content);
                self.nodes.set_snapshot(handle, content.clone());
                content
            }
        };
        Ok(content.slice(read_range(content.len(), offset, length)))
    }

    pub(crate) fn write(&self, handle: FileHandle, at: WriteAt, data: &[u8]) -> Result<u32, RequestFailure> {
        let DraftHandle { inode, is_writing, snapshot } = self.nodes.handle(handle)?;
        if !is_writing {
            return Err(RequestFailure::Errno(Errno::EBADF));
        }
        let file = self.nodes.file(inode)?;
        let mut file = file.lock();
        let dirty = self.dirty(&mut file, inode, snapshot)?;
        let start = match at {
            WriteAt::Offset(offset) | WriteAt::Mapped(offset) => usize::try_from(offset).unwrap_or(usize::MAX),
            WriteAt::End => dirty.bytes.len(),
        };
        let end = start.saturating_add(data.len());
        if end > MAX_FILE_BYTES {
            return Err(Fault::too_large("file", MAX_FILE_BYTES).into());
        }
        if dirty.bytes.len() < end {
            dirty.bytes.resize(end, 0);
        }
        dirty.bytes[start..end].copy_from_slice(data);
        dirty.is_written = true;
        dirty.modified = SystemTime::now();
        u32::try_from(data.len()).map_err(|error| Fault::internal(error).into())
    }

    /// Changes the size. A draft records no owner, permissions and times: those that differ in
    /// more than read and write permission are refused, times are those of the last change.
    pub(crate) fn set_attributes(
        &self,
        caller: &Caller,
        inode: INodeNo,
        set: &SetAttributes,
    ) -> Result<FileAttr, RequestFailure> {
        let current = self.attributes(inode)?;
        let is_changed = set.uid.is_some_and(|uid| uid != current.uid)
            || set.gid.is_some_and(|gid| gid != current.gid)
            || set.mode.is_some_and(|mode| (mode ^ u32::from(current.perm)) & EXECUTE_BITS != 0);
        if is_changed {
            return Err(RequestFailure::Errno(Errno::EPERM));
        }
        if let Some(size) = set.size {
            let size = usize::try_from(size).ok().filter(|size| *size <= MAX_FILE_BYTES);
            let size = size.ok_or_else(|| Fault::too_large("file", MAX_FILE_BYTES))?;
            let file = self.nodes.file(inode)?;
            let mut file = file.lock();
            let dirty = self.dirty(&mut file, inode, None)?;
            dirty.is_written |= size > 0;
            dirty.bytes.resize(size, 0);
            dirty.modified = SystemTime::now();
            drop(file);
            if !self.nodes.has_writer(inode) {
                self.publish(caller, inode)?;
            }
        }
        self.attributes(inode)
    }

    /// Publishes at a close of one descriptor. A file that was only truncated waits for the last
    /// close: a shell closes copies of a descriptor before the program writes.
    pub(crate) fn flush(&self, caller: &Caller, handle: FileHandle) -> Result<(), RequestFailure> {
        let inode = self.nodes.handle(handle)?.inode;
        let is_written = self.nodes.file(inode)?.lock().as_ref().is_some_and(|dirty| dirty.is_written);
        if is_written { self.publish(caller, inode) } else { Ok(()) }
    }

    pub(crate) fn fsync(&self, caller: &Caller, handle: FileHandle) -> Result<(), RequestFailure> {
        self.publish(caller, self.nodes.handle(handle)?.inode)
    }

    /// Publishes what remains and removes the handle. Bytes that are rejected again are dropped
    /// with the last writer; a copy is below `.svc/rejected`.
    pub(crate) fn release(&self, caller: &Caller, handle: FileHandle) {
        let Ok(DraftHandle { inode, is_writing, .. }) = self.nodes.handle(handle) else { return };
        if is_writing && let Err(RequestFailure::Fault(fault)) = self.publish(caller, inode) {
            log("release", &fault);
        }
        let file = self.nodes.file(inode);
        self.nodes.close(handle);
        if is_writing && !self.nodes.has_writer(inode) {
            if let Ok(file) = file {
                *file.lock() = None;
            }
            if let Ok(entry) = self.nodes.entry(inode)
                && self.nodes.is_new(&entry)
            {
                self.nodes.detach(&entry);
            }
        }
    }

    /// Saves the dirty buffer of a file; also creates a new file that is still empty.
    pub(crate) fn publish(&self, caller: &Caller, inode: INodeNo) -> Result<(), RequestFailure> {
        let file = self.nodes.file(inode)?;
        let mut file = file.lock();
        // Removed: nothing to save.
        let Ok(entry) = self.nodes.entry(inode) else { return Ok(()) };
        let DraftEntry::Path(id, path) = &entry else { return Ok(()) };
        let (bytes, base) = match &*file {
            Some(dirty) => (Bytes::copy_from_slice(&dirty.bytes), dirty.base),
            None if self.nodes.is_new(&entry) => (Bytes::new(), None),
            None => return Ok(()),
        };
        let precondition = base.map_or(Precondition::Absent, |base| Precondition::OneOf(vec![base]));
        let change = Change::put(path.clone(), bytes.clone()).with_precondition(precondition);
        match self.view(*id).and_then(|view| view.apply(caller, change)) {
            Ok(written) => {
                *file = None;
                self.nodes.set_new(entry.clone(), false);
                // A gate may have rewritten the bytes; they are read again then.
                let etag = ETag::from_content(&bytes);
                let is_same = written.iter().all(|file| file.etag == Some(etag));
                self.nodes.set_snapshots(inode, is_same.then_some(&bytes));
                self.record_rejection((*id, path.clone()), None);
                if let Some(name) = rejected_name(*id, path) {
                    self.vfs.forget_rejected(&name);
                }
                Ok(())
            }
            Err(fault) => {
                if fault.kind().refuses_content() {
                    self.store_rejected((*id, path), bytes, &fault);
                    self.record_rejection((*id, path.clone()), Some(fault.message().to_owned()));
                }
                Err(or_stale(fault))
            }
        }
    }

    /// Stores a rejected text for the user, as one of the tree (`.svc/rejected/.svc/draft/<id>/…`).
    fn store_rejected(&self, (id, path): (DraftId, &TreePath), content: Bytes, fault: &Fault) {
        let Some(name) = rejected_name(id, path) else { return };
        // As stored: the file is locked here, so its unsaved attributes must not be read.
        let stat = |path: &TreePath| self.view(id)?.stat(Protocol::Fuse, path);
        let of_new = || stat(&path.parent().unwrap_or_else(TreePath::root)).map(|parent| new_file(&parent));
        let attributes = stat(path).or_else(|_| of_new()).map_or_else(
            |_| DiskAttributes::default(),
            |own| DiskAttributes { mode: Some(own.mode), owner: Some((own.uid, own.gid)), ..DiskAttributes::default() },
        );
        if let Err(error) = self.vfs.store_rejected((path, &name), content, fault, attributes) {
            tracing::error!(draft.id = %id, page.path = %path, ?error, "cannot store the text of a rejected save");
        }
    }

    /// Saves a file that is still open when the mount ends.
    pub(crate) fn publish_at_end(&self, caller: &Caller, inode: INodeNo) {
        if let Err(RequestFailure::Fault(fault)) = self.publish(caller, inode) {
            tracing::error!(error = ?fault, "cannot save an open file of a draft at unmount");
        }
    }

    /// The dirty buffer of a file, made from its content on the first change.
    fn dirty<'a>(
        &self,
        file: &'a mut Option<DirtyBytes>,
        inode: INodeNo,
        snapshot: Option<Bytes>,
    ) -> Result<&'a mut DirtyBytes, RequestFailure> {
        if let Some(dirty) = file {
            return Ok(dirty);
        }
        let (base, content) = match self.path(inode) {
            Ok((id, path)) => self.stored(id, &path).map_err(or_stale)?.unzip(),
            // Removed while it is open.
            Err(_) => (None, snapshot),
        };
        let bytes = content.map_or_else(Vec::new, Vec::from);
        Ok(file.insert(DirtyBytes { bytes, base, is_written: false, modified: SystemTime::now() }))
    }

    /// The saved content of a file; none for a new one.
    fn stored(&self, id: DraftId, path: &TreePath) -> Result<Option<(ETag, Bytes)>, Fault> {
        let view = self.view(id)?;
        if self.nodes.is_new(&DraftEntry::Path(id, path.clone())) {
            return Ok(None);
        }
        let stat = view.stat(Protocol::Fuse, path)?;
        if stat.large_file().is_some() {
            return Err(Fault::too_large("file", MAX_FILE_BYTES));
        }
        match view.read(Protocol::Fuse, path) {
            Ok(file) => Ok(Some((file.etag, file.content))),
            Err(fault) if fault.kind() == Kind::IsDirectory => Err(Fault::is_directory(path)),
            Err(fault) => Err(fault),
        }
    }
}

/// The name below `.svc/rejected` of a rejected text of a draft: its name on the mount, which no
/// file of the tree has. None if it is too long.
fn rejected_name(id: DraftId, path: &TreePath) -> Option<TreePath> {
    TreePath::parse(&format!(".svc/{DRAFTS}/{id}/{path}")).ok()
}
