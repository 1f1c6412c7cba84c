//! Changes sent to the server.
//!
//! Invariant: a save never overwrites a version that its author did not know. Each save names its
//! base version, and the server rejects it if another one is current. Then, and when a save fails,
//! the text is stored locally, the program gets an error, and the file shows the server's version.

use std::time::SystemTime;

use bytes::Bytes;
use fuser::{Errno, INodeNo};
use svcfs_base::{Actor, ETag, Fault, Kind, MAX_FILE_BYTES, MAX_PAGE_BYTES, PathComponent, TreePath};

use super::cache::FetchStamp;
use super::client::{EntryType, ExpectedVersion, VersionedContent};
use super::merged_saves::SavedVersion;
use super::nodes::{RemoteHandle, SharedFile, UnsavedChange};
use super::rejected::RejectedSaves;
use super::tree::{AttributeReply, RemoteTree};
use crate::reply::RequestFailure;

/// Attempts to remove a file that other clients keep changing.
const MAX_REMOVE_ATTEMPTS: u32 = 5;

#[derive(Clone)]
pub(super) struct ChangeAuthor {
    pub(super) name: Actor,
    /// None when it is unknown.
    pub(super) process: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum WriteOffset {
    Offset(u64),
    End,
}

impl RemoteTree {
    /// The path of an entry to create.
    fn new_path(&self, parent: INodeNo, name: &PathComponent) -> Result<TreePath, Fault> {
        let path = self.nodes.path(parent)?.join(name);
        RejectedSaves::check_writable(&path)?;
        Ok(path)
    }

    fn exists(&self, path: &TreePath) -> Result<bool, Fault> {
        Ok(self.nodes.is_local_file(path) || self.nodes.is_local_directory(path) || self.entry(path)?.is_some())
    }

    /// Creates a file (lookup count 1) and opens it. The first save sends it to the server.
    ///
    /// # Errors
    /// `Exists`.
    pub(super) fn create(&self, parent: INodeNo, name: &PathComponent) -> Result<(AttributeReply, u64), Fault> {
        let path = self.new_path(parent, name)?;
        if self.exists(&path)? {
            return Err(Fault::exists(&path));
        }
        // A removed file of this name may still have handles.
        self.nodes.unlink(&path);
        let inode = self.nodes.inode_for(&path, 1);
        self.nodes.add_local_file(&path);
        self.nodes.shared(inode)?.lock().unsaved =
            Some(UnsavedChange::of(ExpectedVersion::Absent, self.dirty_buffers.empty()));
        let handle = self.nodes.open(RemoteHandle::new(inode, true));
        Ok((self.attributes(inode)?, handle))
    }

    /// Creates a directory locally; the first file in it creates it on the server.
    ///
    /// # Errors
    /// `Exists`.
    pub(super) fn make_directory(&self, parent: INodeNo, name: &PathComponent) -> Result<AttributeReply, Fault> {
        let path = self.new_path(parent, name)?;
        if self.exists(&path)? {
            return Err(Fault::exists(&path));
        }
        self.nodes.add_local_directory(&path);
        let inode = self.nodes.inode_for(&path, 1);
        self.attributes(inode)
    }

    /// # Errors
    /// `Exists`; `Invalid` for a target outside the tree.
    pub(super) fn make_link(
        &self,
        author: &ChangeAuthor,
        parent: INodeNo,
        (name, target): (&PathComponent, &str),
    ) -> Result<AttributeReply, Fault> {
        let path = self.new_path(parent, name)?;
        if self.exists(&path)? {
            return Err(Fault::exists(&path));
        }
        self.client.link(&author.name, &path, target)?;
        self.cache.record_own_change(&path, None);
        self.refresh_entry(&path)?;
        let inode = self.nodes.inode_for(&path, 1);
        self.attributes(inode)
    }

    /// Removes a file or link.
    ///
    /// # Errors
    /// `NotFound`, those of the request.
    pub(super) fn unlink(&self, author: &ChangeAuthor, parent: INodeNo, name: &PathComponent) -> Result<(), Fault> {
        let path = self.nodes.path(parent)?.join(name);
        if RejectedSaves::contains(&path) {
            self.rejected.remove(&path)?;
            self.nodes.unlink(&path);
            return Ok(());
        }
        if !self.nodes.is_local_file(&path) {
            self.remove(author, &path)?;
        }
        self.nodes.unlink(&path);
        Ok(())
    }

    /// Removes the current version at a path of the server, so that a retry does not remove a newer
    /// file.
    fn remove(&self, author: &ChangeAuthor, path: &TreePath) -> Result<(), Fault> {
        let mut attempts = 0;
        let is_removed = loop {
            let version = self.current_version(path)?.ok_or_else(|| Fault::file_not_found(path))?;
            match self.client.remove(&author.name, path, version) {
                // Changed since: unlink(2) removes the name, whatever its content.
                Err(fault) if fault.kind() == Kind::Conflict && version.is_some() && attempts < MAX_REMOVE_ATTEMPTS => {
                    self.cache.record_own_change(path, None);
                    self.drop_parent_listing(path);
                    attempts += 1;
                }
                outcome => break outcome?,
            }
        };
        self.cache.record_own_change(path, None);
        if is_removed {
            self.cache.store_entry(path, None, self.cache.stamp());
        } else {
            self.drop_parent_listing(path);
        }
        Ok(())
    }

    /// The current version at a path of the server, if it exists; the inner none is for a file too
    /// large for versions.
    fn current_version(&self, path: &TreePath) -> Result<Option<Option<ETag>>, Fault> {
        let Some(entry) = self.entry(path)? else { return Ok(None) };
        Ok(Some(match entry.kind {
            // A link's version is the hash of its target path.
            EntryType::Symlink => Some(ETag::from_content(&self.client.target(path)?)),
            _ if entry.size > MAX_FILE_BYTES as u64 => None,
            _ => Some(self.version(path)?),
        }))
    }

    pub(super) fn drop_parent_listing(&self, path: &TreePath) {
        self.cache.drop_listing(&path.parent().unwrap_or_else(TreePath::root));
    }

    /// # Errors
    /// `NotEmpty`, `NotFound`, those of the request.
    pub(super) fn remove_directory(
        &self,
        author: &ChangeAuthor,
        parent: INodeNo,
        name: &PathComponent,
    ) -> Result<(), Fault> {
        let path = self.nodes.path(parent)?.join(name);
        if RejectedSaves::contains(&path) {
            return self.rejected.remove(&path);
        }
        let not_empty = || Fault::new(Kind::NotEmpty, format!("directory `{path}` is not empty"));
        if !self.is_empty(&path)? {
            return Err(not_empty());
        }
        if self.entry(&path)?.is_some() {
            let removed = self.client.remove(&author.name, &path, None);
            removed.map_err(|fault| if fault.kind() == Kind::Conflict { not_empty() } else { fault })?;
        }
        self.nodes.remove_local_directory(&path);
        self.cache.drop_listing(&path);
        self.cache.store_entry(&path, None, self.cache.stamp());
        self.nodes.unlink(&path);
        Ok(())
    }

    /// Renames a file, replacing the target if `may_replace`.
    ///
    /// # Errors
    /// `EXDEV` for a directory of the server, which the API cannot rename: `mv` then copies.
    /// `Conflict` when the target is not the version the program knows: the text is stored.
    pub(super) fn rename(
        &self,
        author: &ChangeAuthor,
        (parent, name): (INodeNo, &PathComponent),
        (new_parent, new_name): (INodeNo, &PathComponent),
        may_replace: bool,
    ) -> Result<(), RequestFailure> {
        let (from, to) = (self.new_path(parent, name)?, self.new_path(new_parent, new_name)?);
        if self.nodes.is_local_directory(&from) && self.entry(&from)?.is_none() {
            if self.exists(&to)? {
                return Err(Fault::exists(&to).into());
            }
            self.nodes.rename(&from, &to);
            return Ok(());
        }
        // Saved first, because the server renames what it has.
        if let Some(inode) = self.nodes.known_inode(&from) {
            self.publish(author, inode)?;
        }
        let entry = self.entry(&from)?.ok_or_else(|| Fault::file_not_found(&from))?;
        if entry.kind == EntryType::Directory {
            return Err(RequestFailure::Errno(Errno::EXDEV));
        }
        let read = || author.process.and_then(|process| self.read_versions.version(process, &to));
        let replaced = match self.entry(&to)?.map(|entry| entry.kind) {
            Some(_) if !may_replace => return Err(Fault::exists(&to).into()),
            Some(EntryType::Symlink) => Some(ETag::from_content(&self.client.target(&to)?)),
            Some(_) => Some(read().map_or_else(|| self.version(&to), Ok)?),
            None if !may_replace && self.nodes.is_local_file(&to) => return Err(Fault::exists(&to).into()),
            None => None,
        };
        let content = self.cache.content(&from).filter(|(_, is_current)| *is_current).map(|(content, _)| content);
        let has_unread_changes = self.has_unread_changes(author, &from)?;
        let renamed = match self.client.rename(&author.name, (&from, &to), replaced) {
            Err(fault) if fault.kind() == Kind::Conflict => {
                return Ok(self.merge_rename(author, (&from, &to), content, (replaced, fault))?);
            }
            renamed => renamed?,
        };
        // The rename may have updated links in this file and in others.
        let content = content.filter(|content| renamed.is_some_and(|(etag, _)| content.etag == etag));
        if renamed.is_none_or(|(_, may_change_others)| may_change_others) {
            self.cache.expire_all();
        }
        self.cache.record_own_change(&from, None);
        self.cache.record_own_change(&to, content.as_ref().map(|content| content.etag));
        self.cache.store_entry(&from, None, self.cache.stamp());
        if let Some(content) = content {
            if let Some(process) = author.process {
                self.read_versions.record_save(process, &to, content.etag);
            }
            self.cache.store_content(&to, content, self.cache.stamp());
        }
        self.nodes.rename(&from, &to);
        self.rejected.discard(&to);
        if let Some(process) = author.process.filter(|_| has_unread_changes) {
            self.read_versions.record_set_aside(process, &from, &to);
        }
        self.refresh_entry(&to)?;
        Ok(())
    }

    /// Writes through a handle.
    ///
    /// # Errors
    /// `TooLarge` over 32 MiB, the limit of the API; that of the last save, if it was rejected.
    pub(super) fn write(&self, handle: u64, position: WriteOffset, data: &[u8]) -> Result<(), Fault> {
        self.check_not_rejected(handle)?;
        let opened = self.nodes.handle(handle)?;
        if matches!(position, WriteOffset::Offset(_)) {
            check_not_merged(&opened)?;
        }
        self.change(&opened, |unsaved| {
            let start = match position {
                WriteOffset::Offset(offset) => usize::try_from(offset).unwrap_or(usize::MAX),
                WriteOffset::End => unsaved.buffer.length(),
            };
            check_size(start.saturating_add(data.len()))?;
            unsaved.buffer.write(start, data)?;
            unsaved.is_written = true;
            Ok(())
        })
    }

    /// Sets the size of a file; saves immediately if no handle is open for writing, whose close
    /// would save it.
    ///
    /// # Errors
    /// As [`Self::write`] and [`Self::publish`].
    pub(super) fn resize(
        &self,
        author: &ChangeAuthor,
        (inode, handle): (INodeNo, Option<u64>),
        size: u64,
    ) -> Result<(), Fault> {
        let opened = match handle {
            Some(handle) => self.nodes.handle(handle)?,
            None => RemoteHandle::new(inode, true),
        };
        check_not_merged(&opened)?;
        self.nodes.path(inode).map_or(Ok(()), |path| RejectedSaves::check_writable(&path))?;
        let size = check_size(usize::try_from(size).unwrap_or(usize::MAX))?;
        if size == 0 {
            self.begin_new_text(author.process, inode)?;
        }
        self.change(&opened, |unsaved| unsaved.buffer.resize(size))?;
        if self.nodes.is_open_for_writing(inode) { Ok(()) } else { self.publish(author, inode) }
    }

    /// Changes the dirty buffer, which starts as the content read through the handle.
    fn change(
        &self,
        opened: &RemoteHandle,
        change: impl FnOnce(&mut UnsavedChange) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let shared = self.nodes.shared(opened.inode)?;
        let mut shared = shared.lock();
        let unsaved = match &mut shared.unsaved {
            Some(unsaved) => unsaved,
            none => {
                let content = match &opened.content {
                    Some(content) => content.clone(),
                    None => self.content(&self.nodes.path(opened.inode)?, None)?,
                };
                none.insert(UnsavedChange::of(
                    ExpectedVersion::Version(content.etag),
                    self.dirty_buffers.with_content(&content.bytes)?,
                ))
            }
        };
        match change(unsaved) {
            Ok(()) => {
                unsaved.is_changed = true;
                unsaved.modified = SystemTime::now();
                Ok(())
            }
            // Checked before the buffer was changed.
            Err(fault) if fault.kind() == Kind::TooLarge => Err(fault),
            Err(fault) => {
                // After an I/O error the buffer may be incomplete, and must not become a version.
                shared.unsaved = None;
                self.nodes.path(opened.inode).iter().for_each(|path| self.nodes.remove_local_file(path));
                self.nodes.record_save(opened.inode, Err(fault.kind()));
                Err(fault)
            }
        }
    }

    /// Saves a file, unless it was only truncated and may still be written.
    ///
    /// # Errors
    /// As [`Self::publish`]; that of the last save through this handle, if it was rejected.
    pub(super) fn flush(&self, author: &ChangeAuthor, inode: INodeNo, handle: u64) -> Result<(), Fault> {
        self.check_not_rejected(handle)?;
        let is_only_truncated = |unsaved: &UnsavedChange| unsaved.buffer.length() == 0 && !unsaved.is_written;
        let is_deferred = self.nodes.shared(inode)?.lock().unsaved.as_ref().is_some_and(is_only_truncated);
        if is_deferred { Ok(()) } else { self.publish(author, inode) }
    }

    /// Fails if the last save through a handle was rejected: a program may flush more than once.
    fn check_not_rejected(&self, handle: u64) -> Result<(), Fault> {
        match self.nodes.handle(handle)?.rejected {
            Some(kind) => Err(Fault::new(kind, "the last save of this file was rejected; reopen the file")),
            None => Ok(()),
        }
    }

    /// Saves a file for fsync(2).
    pub(super) fn fsync(&self, author: &ChangeAuthor, inode: INodeNo, handle: u64) -> Result<(), Fault> {
        self.check_not_rejected(handle)?;
        self.publish(author, inode)
    }

    /// Saves the unsaved change of a file, if it has one.
    ///
    /// # Errors
    /// `Conflict` when the server has another version than the base; `Rejected` by lint; `Upstream`
    /// when the server is unreachable. The text is then stored.
    pub(super) fn publish(&self, author: &ChangeAuthor, inode: INodeNo) -> Result<(), Fault> {
        self.publish_unless(author, inode, || false)
    }

    /// Like [`Self::publish`], unless `skip` returns true under the file's lock.
    fn publish_unless(&self, author: &ChangeAuthor, inode: INodeNo, skip: impl FnOnce() -> bool) -> Result<(), Fault> {
        let shared = self.nodes.shared(inode)?;
        let mut shared = shared.lock();
        if skip() {
            return Ok(());
        }
        let (path, is_replaced) = match (self.nodes.path(inode), self.nodes.replaced_path(inode)) {
            (Ok(path), _) => (path, false),
            (Err(_), Some(path)) => (path, true),
            // Removed: its content is visible only through its handles.
            (Err(_), None) => return Ok(()),
        };
        let Some(mut unsaved) = shared.unsaved.take().filter(|unsaved| unsaved.is_changed) else { return Ok(()) };
        let bytes = match unsaved.buffer.take_content() {
            Ok(bytes) => bytes,
            Err(fault) => {
                shared.unsaved = Some(unsaved);
                return Err(fault);
            }
        };
        if is_replaced {
            let fault = Fault::new(Kind::Conflict, format!("`{path}` was replaced by another file while it was open"));
            return Err(self.reject(author, (inode, &path), &mut shared, &bytes, fault));
        }
        let stamp = self.cache.stamp();
        match self.save(author, &path, &bytes, unsaved.base) {
            Ok(SavedVersion::AsSent(etag)) => {
                self.record_saved(author, (inode, &path), &mut shared, (etag, bytes), stamp);
                Ok(())
            }
            Ok(SavedVersion::Merged) => {
                self.record_merged(author, (inode, &path), &mut shared, bytes);
                Ok(())
            }
            Err(fault) => Err(self.reject(author, (inode, &path), &mut shared, &bytes, fault)),
        }
    }

    fn record_saved(
        &self,
        author: &ChangeAuthor,
        (inode, path): (INodeNo, &TreePath),
        shared: &mut SharedFile,
        (etag, bytes): (ETag, Bytes),
        stamp: FetchStamp,
    ) {
        self.nodes.remove_local_file(path);
        self.rejected.discard(path);
        shared.rejection = None;
        if let Some(process) = author.process {
            self.read_versions.record_save(process, path, etag);
        }
        self.cache.record_own_change(path, Some(etag));
        // A formatting server stores another text than was sent.
        let is_unchanged = ETag::from_content(&bytes) == etag;
        if is_unchanged {
            let content = VersionedContent { etag, bytes };
            self.nodes.record_save(inode, Ok(&content));
            self.cache.store_content(path, content, stamp);
        } else if let Ok(content) = self.content(path, None) {
            self.nodes.record_save(inode, Ok(&content));
        }
        // The directory may be new, and the modification time is the server's.
        if let Err(fault) = self.refresh_entry(path) {
            tracing::debug!(%path, error = ?fault, "cannot fetch the entry of a saved file");
            self.drop_parent_listing(path);
        }
        self.cache.on_created(path);
    }

    fn reject(
        &self,
        author: &ChangeAuthor,
        (inode, path): (INodeNo, &TreePath),
        shared: &mut SharedFile,
        text: &[u8],
        fault: Fault,
    ) -> Fault {
        // A lost race to create the file is a conflict, too.
        let is_conflict = matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed);
        let fault = if is_conflict { Fault::new(Kind::Conflict, fault.message()) } else { fault };
        self.store_rejected(path, text, &fault);
        if let Some(process) = author.process {
            self.read_versions.forget(process, path);
        }
        shared.rejection = Some(fault.message().to_owned());
        self.nodes.remove_local_file(path);
        self.nodes.record_save(inode, Err(fault.kind()));
        if is_conflict {
            self.cache.record_own_change(path, None);
            self.drop_parent_listing(path);
        }
        fault
    }

    pub(super) fn store_rejected(&self, path: &TreePath, text: &[u8], fault: &Fault) {
        tracing::warn!(%path, reason = fault.message(), "a save was rejected; its text is at .svc/rejected/{path}");
        if let Err(error) = self.rejected.store(path, text) {
            tracing::error!(%path, %error, "cannot store the text of a rejected save");
        }
    }

    /// Closes a handle; the last one saves what is unsaved, as a safety net.
    ///
    /// # Errors
    /// As [`Self::publish`]; the handle is closed all the same.
    pub(super) fn release(&self, author: &ChangeAuthor, inode: INodeNo, handle: u64) -> Result<(), Fault> {
        // A concurrent opener may have truncated the file to rewrite it; saving that would lose its
        // update.
        let outcome = self.publish_unless(author, inode, || self.nodes.is_open(inode, Some(handle)));
        self.nodes.close(handle);
        outcome
    }
}

/// Refuses a write at an offset of a text that the program does not know.
fn check_not_merged(opened: &RemoteHandle) -> Result<(), Fault> {
    let message = "the last save of this file was merged with changes by others; reopen the file";
    if opened.is_merged { Err(Fault::new(Kind::Conflict, message)) } else { Ok(()) }
}

/// A size within the limit of the API.
fn check_size(size: usize) -> Result<usize, Fault> {
    if size > MAX_PAGE_BYTES { Err(Fault::too_large("file", MAX_PAGE_BYTES)) } else { Ok(size) }
}
