//! Changes on their way to the server.
//!
//! One rule: nothing is covered that its writer did not know. Each save names the version it was made from, and the server refuses it when
//! another one is there. Then, and whenever a save does not arrive, the text is kept here, its program is told, and the file shows what the
//! server has.

use std::time::SystemTime;

use bytes::Bytes;
use fuser::{Errno, INodeNo};
use svcfs_base::{Actor, ETag, Fault, Kind, MAX_FILE_BYTES, MAX_PAGE_BYTES, PathComponent, TreePath};

use super::client::{EntryType, ExpectedVersion, VersionedContent};
use super::dirty_buffers::RemoteDirtyBuffer;
use super::nodes::{RemoteHandle, SharedFile, UnsavedChange};
use super::rejected::RejectedSaves;
use super::tree::{AttributeReply, RemoteTree};
use crate::reply::RequestFailure;

/// How often a file that others change all the time is tried to be removed once more.
const MOST_TRIES: u32 = 5;

/// Who changes something.
#[derive(Clone)]
pub(super) struct ChangeAuthor {
    pub(super) name: Actor,
    /// Their process; none when it is not known.
    pub(super) process: Option<u32>,
}

/// Where a write goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum WriteOffset {
    Offset(u64),
    End,
}

impl UnsavedChange {
    /// Bytes made from a version.
    pub(super) fn of(base: ExpectedVersion, draft: RemoteDirtyBuffer) -> Self {
        Self { draft, base, is_changed: true, is_written: false, modified: SystemTime::now() }
    }
}

impl RemoteTree {
    /// The path of an entry that is about to be made.
    fn place(&self, parent: INodeNo, name: &PathComponent) -> Result<TreePath, Fault> {
        let path = self.nodes.path(parent)?.join(name);
        RejectedSaves::check_writable(&path)?;
        Ok(path)
    }

    fn is_there(&self, path: &TreePath) -> Result<bool, Fault> {
        Ok(self.nodes.is_own_file(path) || self.nodes.is_own_directory(path) || self.entry(path)?.is_some())
    }

    /// Creates a file (found once) and opens it. It is on the server once it is saved.
    ///
    /// # Errors
    /// `Exists` when the name is taken.
    pub(super) fn create(&self, parent: INodeNo, name: &PathComponent) -> Result<(AttributeReply, u64), Fault> {
        let path = self.place(parent, name)?;
        if self.is_there(&path)? {
            return Err(Fault::exists(&path));
        }
        // A name that was taken before may have left a node that still has handles.
        self.nodes.removed(&path);
        let inode = self.nodes.find(&path, 1);
        self.nodes.add_own_file(&path);
        self.nodes.shared(inode)?.lock().unsaved =
            Some(UnsavedChange::of(ExpectedVersion::Absent, self.drafts.empty()));
        let handle = self.nodes.open(RemoteHandle { inode, is_writing: true, content: None, refused: None });
        Ok((self.attributes(inode)?, handle))
    }

    /// Makes a directory, which the server hears of with the first file in it.
    ///
    /// # Errors
    /// `Exists` when the name is taken.
    pub(super) fn make_directory(&self, parent: INodeNo, name: &PathComponent) -> Result<AttributeReply, Fault> {
        let path = self.place(parent, name)?;
        if self.is_there(&path)? {
            return Err(Fault::exists(&path));
        }
        self.nodes.add_own_directory(&path);
        let inode = self.nodes.find(&path, 1);
        self.attributes(inode)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// `Exists`; `Invalid` for a target outside the tree.
    pub(super) fn make_link(
        &self,
        author: &ChangeAuthor,
        parent: INodeNo,
        (name, target): (&PathComponent, &str),
    ) -> Result<AttributeReply, Fault> {
        let path = self.place(parent, name)?;
        if self.is_there(&path)? {
            return Err(Fault::exists(&path));
        }
        self.client.link(&author.name, &path, target)?;
        self.cache.changed(&path, None);
        self.look(&path)?;
        let inode = self.nodes.find(&path, 1);
        self.attributes(inode)
    }

    /// Removes a file or link.
    ///
    /// # Errors
    /// `NotFound`, those of asking the server.
    pub(super) fn unlink(&self, author: &ChangeAuthor, parent: INodeNo, name: &PathComponent) -> Result<(), Fault> {
        let path = self.nodes.path(parent)?.join(name);
        if RejectedSaves::has(&path) {
            self.kept.remove(&path)?;
            self.nodes.removed(&path);
            return Ok(());
        }
        if !self.nodes.is_own_file(&path) {
            self.remove(author, &path)?;
        }
        self.nodes.removed(&path);
        Ok(())
    }

    /// Removes what is at a path of the server: the version that is there now, so that what somebody makes there later stays, however often
    /// the server has to be asked.
    fn remove(&self, author: &ChangeAuthor, path: &TreePath) -> Result<(), Fault> {
        let mut tries = 0;
        let is_gone = loop {
            let version = self.standing(path)?.ok_or_else(|| Fault::file_not_found(path))?;
            match self.client.remove(&author.name, path, version) {
                // Changed since: what is meant is the name, whatever it has.
                Err(fault) if fault.kind() == Kind::Conflict && version.is_some() && tries < MOST_TRIES => {
                    self.cache.changed(path, None);
                    self.forget_above(path);
                    tries += 1;
                }
                outcome => break outcome?,
            }
        };
        self.cache.changed(path, None);
        if is_gone {
            self.cache.keep_entry(path, None, self.cache.asked());
        } else {
            self.forget_above(path);
        }
        Ok(())
    }

    /// The version that stands at a path of the server, if anything does; none of a file that is too large to have one.
    fn standing(&self, path: &TreePath) -> Result<Option<Option<ETag>>, Fault> {
        let Some(entry) = self.entry(path)? else { return Ok(None) };
        Ok(Some(match entry.kind {
            // A link's version is that of its target's name.
            EntryType::Symlink => Some(ETag::from_content(&self.client.target(path)?)),
            _ if entry.size > MAX_FILE_BYTES as u64 => None,
            _ => Some(self.version(path)?),
        }))
    }

    fn forget_above(&self, path: &TreePath) {
        self.cache.forget_listing(&path.parent().unwrap_or_else(TreePath::root));
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty`, `NotFound`, those of asking the server.
    pub(super) fn remove_directory(
        &self,
        author: &ChangeAuthor,
        parent: INodeNo,
        name: &PathComponent,
    ) -> Result<(), Fault> {
        let path = self.nodes.path(parent)?.join(name);
        if RejectedSaves::has(&path) {
            return self.kept.remove(&path);
        }
        let not_empty = || Fault::new(Kind::NotEmpty, format!("directory `{path}` is not empty"));
        if !self.is_empty(&path)? {
            return Err(not_empty());
        }
        if self.entry(&path)?.is_some() {
            let removed = self.client.remove(&author.name, &path, None);
            removed.map_err(|fault| if fault.kind() == Kind::Conflict { not_empty() } else { fault })?;
        }
        self.nodes.remove_own_directory(&path);
        self.cache.forget_listing(&path);
        self.cache.keep_entry(&path, None, self.cache.asked());
        self.nodes.removed(&path);
        Ok(())
    }

    /// Gives a file another name; what is there is replaced, unless that is not wanted.
    ///
    /// # Errors
    /// `EXDEV` for a directory of the server, which the API cannot rename: `mv` then copies. `Conflict` when what is replaced is not what
    /// the program knew of it: the text is kept.
    pub(super) fn rename(
        &self,
        author: &ChangeAuthor,
        (parent, name): (INodeNo, &PathComponent),
        (new_parent, new_name): (INodeNo, &PathComponent),
        may_replace: bool,
    ) -> Result<(), RequestFailure> {
        let (from, to) = (self.place(parent, name)?, self.place(new_parent, new_name)?);
        if self.nodes.is_own_directory(&from) && self.entry(&from)?.is_none() {
            if self.is_there(&to)? {
                return Err(Fault::exists(&to).into());
            }
            self.nodes.renamed(&from, &to);
            return Ok(());
        }
        // What was written to it goes first: the server renames what it has.
        if let Some(inode) = self.nodes.at(&from) {
            self.publish(author, inode)?;
        }
        let entry = self.entry(&from)?.ok_or_else(|| Fault::file_not_found(&from))?;
        if entry.kind == EntryType::Directory {
            return Err(RequestFailure::Word(Errno::EXDEV));
        }
        let read = || author.process.and_then(|process| self.readers.version(process, &to));
        let replaced = match self.entry(&to)?.map(|entry| entry.kind) {
            Some(_) if !may_replace => return Err(Fault::exists(&to).into()),
            // A link's version is that of its target's name.
            Some(EntryType::Symlink) => Some(ETag::from_content(&self.client.target(&to)?)),
            Some(_) => Some(read().map_or_else(|| self.version(&to), Ok)?),
            None if !may_replace && self.nodes.is_own_file(&to) => return Err(Fault::exists(&to).into()),
            None => None,
        };
        let moved = self.cache.content(&from).filter(|(_, is_current)| *is_current).map(|(content, _)| content);
        let renamed = self.client.rename(&author.name, (&from, &to), replaced);
        if let Err(fault) = &renamed
            && fault.kind() == Kind::Conflict
        {
            self.keep_moved((&from, &to), moved.clone(), author, fault);
        }
        let renamed = renamed?;
        // Its own links may have been led on, and those of others.
        let moved = moved.filter(|content| renamed.is_some_and(|(etag, _)| content.etag == etag));
        if renamed.is_none_or(|(_, is_of_others)| is_of_others) {
            self.cache.missed();
        }
        self.cache.changed(&from, None);
        self.cache.changed(&to, moved.as_ref().map(|content| content.etag));
        self.cache.keep_entry(&from, None, self.cache.asked());
        if let Some(content) = moved {
            if let Some(process) = author.process {
                self.readers.saved(process, &to, content.etag);
            }
            self.cache.keep_content(&to, content, self.cache.asked());
        }
        self.nodes.renamed(&from, &to);
        self.kept.accepted(&to);
        // What the kernel asks next is then known.
        self.look(&to)?;
        Ok(())
    }

    /// Keeps the text of a file that could not replace another one.
    fn keep_moved(
        &self,
        (from, to): (&TreePath, &TreePath),
        moved: Option<VersionedContent>,
        author: &ChangeAuthor,
        fault: &Fault,
    ) {
        if let Some(process) = author.process {
            self.readers.told(process, to);
        }
        match moved.map_or_else(|| self.content(from, None), Ok) {
            Ok(content) => self.keep_text(to, &content.bytes, fault),
            // It is still there under its own name.
            Err(error) => {
                tracing::warn!(%from, %to, %error, "a file that could not replace another one cannot be kept")
            }
        }
        self.cache.forget_listing(&to.parent().unwrap_or_else(TreePath::root));
    }

    /// Writes through a handle.
    ///
    /// # Errors
    /// `TooLarge` over 32 MiB, which is what the API takes; that of its last save, when that was refused.
    pub(super) fn write(&self, handle: u64, place: WriteOffset, data: &[u8]) -> Result<(), Fault> {
        let opened = self.nodes.opened(handle)?;
        if let Some(kind) = opened.refused {
            return Err(Fault::new(kind, "the last save of this file was refused; open it anew"));
        }
        self.change(&opened, |unsaved| {
            let start = match place {
                WriteOffset::Offset(offset) => usize::try_from(offset).unwrap_or(usize::MAX),
                WriteOffset::End => unsaved.draft.length(),
            };
            checked(start.saturating_add(data.len()))?;
            unsaved.draft.write(start, data)?;
            unsaved.is_written = true;
            Ok(())
        })
    }

    /// Makes a file shorter or longer; saved at once when nobody has it open to write, whose closing would save it.
    ///
    /// # Errors
    /// As [`Tree::write`] and [`Tree::publish`].
    pub(super) fn resize(
        &self,
        author: &ChangeAuthor,
        (inode, handle): (INodeNo, Option<u64>),
        size: u64,
    ) -> Result<(), Fault> {
        let opened = match handle {
            Some(handle) => self.nodes.opened(handle)?,
            None => RemoteHandle { inode, is_writing: true, content: None, refused: None },
        };
        self.nodes.path(inode).map_or(Ok(()), |path| RejectedSaves::check_writable(&path))?;
        let size = checked(usize::try_from(size).unwrap_or(usize::MAX))?;
        self.change(&opened, |unsaved| unsaved.draft.resize(size))?;
        if self.nodes.is_being_written(inode) { Ok(()) } else { self.publish(author, inode) }
    }

    /// Changes what is not saved, which begins as what was read through the handle.
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
                    self.drafts.begun(&content.bytes)?,
                ))
            }
        };
        match change(unsaved) {
            Ok(()) => {
                unsaved.is_changed = true;
                unsaved.modified = SystemTime::now();
                Ok(())
            }
            // What is too long is not begun with.
            Err(fault) if fault.kind() == Kind::TooLarge => Err(fault),
            Err(fault) => {
                // What this machine's disk refused may be there in part: half a save, and nobody's version.
                shared.unsaved = None;
                self.nodes.path(opened.inode).iter().for_each(|path| self.nodes.remove_own_file(path));
                self.nodes.settled(opened.inode, Err(fault.kind()));
                Err(fault)
            }
        }
    }

    /// Saves what was written to a file, unless it was only emptied and somebody may still write to it.
    ///
    /// # Errors
    /// As [`Tree::publish`]; that of the last save through this handle, when it was refused.
    pub(super) fn flush(&self, author: &ChangeAuthor, inode: INodeNo, handle: u64) -> Result<(), Fault> {
        self.check_taken(handle)?;
        let is_only_emptied = |unsaved: &UnsavedChange| unsaved.draft.length() == 0 && !unsaved.is_written;
        let is_waiting = self.nodes.shared(inode)?.lock().unsaved.as_ref().is_some_and(is_only_emptied);
        if is_waiting { Ok(()) } else { self.publish(author, inode) }
    }

    /// Refuses when the last save through a handle was refused: its program may ask more than once.
    fn check_taken(&self, handle: u64) -> Result<(), Fault> {
        let refused = self.nodes.opened(handle)?.refused;
        refused.map_or(Ok(()), |kind| Err(Fault::new(kind, "the last save of this file was refused")))
    }

    /// Saves what was written to a file, for a program that wants to be sure of it.
    ///
    /// # Errors
    /// As [`Tree::flush`].
    pub(super) fn synchronise(&self, author: &ChangeAuthor, inode: INodeNo, handle: u64) -> Result<(), Fault> {
        self.check_taken(handle)?;
        self.publish(author, inode)
    }

    /// Saves what was written to a file. Nothing to do when nothing was.
    ///
    /// # Errors
    /// `Conflict` when the server has another version than it was made from; `Rejected` by lint; `Upstream` when the server is away. The
    /// text is kept then.
    pub(super) fn publish(&self, author: &ChangeAuthor, inode: INodeNo) -> Result<(), Fault> {
        self.publish_unless(author, inode, || false)
    }

    /// The same, unless something is so once nobody else opens or saves the file.
    fn publish_unless(&self, author: &ChangeAuthor, inode: INodeNo, is_so: impl FnOnce() -> bool) -> Result<(), Fault> {
        let shared = self.nodes.shared(inode)?;
        let mut shared = shared.lock();
        if is_so() {
            return Ok(());
        }
        let (path, is_replaced) = match (self.nodes.path(inode), self.nodes.replaced(inode)) {
            (Ok(path), _) => (path, false),
            (Err(_), Some(path)) => (path, true),
            // Removed: what is written to it is its handles' alone, as long as there are any.
            (Err(_), None) => return Ok(()),
        };
        let Some(mut unsaved) = shared.unsaved.take().filter(|unsaved| unsaved.is_changed) else { return Ok(()) };
        let bytes = match unsaved.draft.taken() {
            Ok(bytes) => bytes,
            Err(fault) => {
                shared.unsaved = Some(unsaved);
                return Err(fault);
            }
        };
        if is_replaced {
            let fault = Fault::new(Kind::Conflict, format!("another file took the place of `{path}` meanwhile"));
            return Err(self.refused(author, (inode, &path), &mut shared, &bytes, fault));
        }
        let asked = self.cache.asked();
        match self.client.write(&author.name, &path, &bytes, unsaved.base) {
            Ok(etag) => {
                self.saved(author, (inode, &path), &mut shared, (etag, bytes), asked);
                Ok(())
            }
            Err(fault) => Err(self.refused(author, (inode, &path), &mut shared, &bytes, fault)),
        }
    }

    fn saved(
        &self,
        author: &ChangeAuthor,
        (inode, path): (INodeNo, &TreePath),
        shared: &mut SharedFile,
        (etag, bytes): (ETag, Bytes),
        asked: super::cache::FetchStamp,
    ) {
        self.nodes.remove_own_file(path);
        self.kept.accepted(path);
        shared.refusal = None;
        if let Some(process) = author.process {
            self.readers.saved(process, path, etag);
        }
        self.cache.changed(path, Some(etag));
        // A server that tidies pages has another text than was sent.
        let is_as_sent = ETag::from_content(&bytes) == etag;
        if is_as_sent {
            let content = VersionedContent { etag, bytes };
            self.nodes.settled(inode, Ok(&content));
            self.cache.keep_content(path, content, asked);
        } else if let Ok(content) = self.content(path, None) {
            self.nodes.settled(inode, Ok(&content));
        }
        // The directory may be new; and the file's time is the server's.
        if let Err(fault) = self.look(path) {
            tracing::debug!(%path, error = ?fault, "a saved file cannot be looked at");
            self.cache.forget_listing(&path.parent().unwrap_or_else(TreePath::root));
        }
        self.cache.appeared(path);
    }

    fn refused(
        &self,
        author: &ChangeAuthor,
        (inode, path): (INodeNo, &TreePath),
        shared: &mut SharedFile,
        text: &[u8],
        fault: Fault,
    ) -> Fault {
        // Somebody made the file first: to the program, which created it, that is a lost race like any other.
        let is_lost = matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed);
        let fault = if is_lost { Fault::new(Kind::Conflict, fault.message()) } else { fault };
        self.keep_text(path, text, &fault);
        if let Some(process) = author.process {
            self.readers.told(process, path);
        }
        shared.refusal = Some(fault.message().to_owned());
        self.nodes.remove_own_file(path);
        self.nodes.settled(inode, Err(fault.kind()));
        if is_lost {
            self.cache.changed(path, None);
            self.cache.forget_listing(&path.parent().unwrap_or_else(TreePath::root));
        }
        fault
    }

    fn keep_text(&self, path: &TreePath, text: &[u8], fault: &Fault) {
        tracing::warn!(%path, reason = fault.message(), "a save was refused; its text is at .svc/rejected/{path}");
        if let Err(error) = self.kept.keep(path, text) {
            tracing::error!(%path, %error, "the text of a refused save could not be kept");
        }
    }

    /// Closes a handle; the last one saves what is left, as a safety net.
    ///
    /// # Errors
    /// As [`Tree::publish`]; the handle is closed all the same.
    pub(super) fn release(&self, author: &ChangeAuthor, inode: INodeNo, handle: u64) -> Result<(), Fault> {
        // Whoever opens it to write it anew has emptied it by then, and must not find that saved: updates were lost so.
        let outcome = self.publish_unless(author, inode, || self.nodes.is_open(inode, Some(handle)));
        self.nodes.close(handle);
        outcome
    }
}

/// A size, if the API takes it.
fn checked(size: usize) -> Result<usize, Fault> {
    if size > MAX_PAGE_BYTES { Err(Fault::too_large("file", MAX_PAGE_BYTES)) } else { Ok(size) }
}
