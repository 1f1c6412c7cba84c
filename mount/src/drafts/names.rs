//! Creating, removing and renaming in drafts.

use fuser::{Errno, FileAttr, FileHandle, INodeNo};
use svcfs_base::{Caller, Change, Fault, Kind, PathComponent, Precondition, Protocol};
use svcfs_vfs::NodeId;

use super::nodes::{DraftEntry, DraftHandle};
use super::{DraftFiles, is_draft_id};
use crate::convert::file_attr;
use crate::reply::{RequestFailure, or_not_permitted};

impl DraftFiles {
    /// Creates a file and opens it; its lookup count is 1. It is in the draft after its first save.
    ///
    /// # Errors
    /// `Exists`; `EPERM` beside the drafts and for names that programs cannot create.
    pub(crate) fn create(
        &self,
        parent: INodeNo,
        name: &PathComponent,
    ) -> Result<(FileAttr, FileHandle), RequestFailure> {
        let (id, path) = self.child(parent, name)?;
        let entry = DraftEntry::Path(id, path.clone());
        match self.entry_attributes(&entry) {
            Ok(_) => return Err(Fault::exists(&path).into()),
            Err(fault) if fault.kind() == Kind::NotFound => {}
            Err(fault) => return Err(fault.into()),
        }
        self.view(id)?;
        self.nodes.set_new(entry.clone(), true);
        let attributes = self.entry_attributes(&entry).inspect_err(|_| self.nodes.set_new(entry.clone(), false))?;
        let inode = self.nodes.add_lookup(entry);
        let snapshot = Some(bytes::Bytes::new());
        let handle = self.nodes.open(DraftHandle { inode, is_writing: true, snapshot });
        Ok((file_attr(NodeId(inode.0), &attributes), handle))
    }

    /// Creates an empty file.
    pub(crate) fn create_empty(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &PathComponent,
    ) -> Result<FileAttr, RequestFailure> {
        let (attributes, handle) = self.create(parent, name)?;
        let saved = self.fsync(caller, handle);
        self.release(caller, handle);
        saved.map(|()| attributes)
    }

    pub(crate) fn make_directory(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &PathComponent,
    ) -> Result<FileAttr, RequestFailure> {
        let (id, path) = self.child(parent, name)?;
        if self.nodes.is_new(&DraftEntry::Path(id, path.clone())) {
            return Err(Fault::exists(&path).into());
        }
        self.view(id)?.apply(caller, Change::MakeDir { path })?;
        self.lookup(parent, name)?.ok_or(RequestFailure::Errno(Errno::ESTALE))
    }

    pub(crate) fn remove_directory(
        &self,
        caller: &Caller,
        parent: INodeNo,
        name: &PathComponent,
    ) -> Result<(), RequestFailure> {
        let (id, path) = self.child(parent, name)?;
        if !self.nodes.new_files(id, &path).is_empty() {
            return Err(RequestFailure::Errno(Errno::ENOTEMPTY));
        }
        self.view(id)?.apply(caller, Change::RemoveDir { path: path.clone() })?;
        self.nodes.detach(&DraftEntry::Path(id, path));
        Ok(())
    }

    pub(crate) fn unlink(&self, caller: &Caller, parent: INodeNo, name: &PathComponent) -> Result<(), RequestFailure> {
        let (id, path) = self.child(parent, name)?;
        let entry = DraftEntry::Path(id, path.clone());
        if !self.nodes.is_new(&entry) {
            self.view(id)?.apply(caller, Change::remove(path)).map_err(or_not_permitted)?;
        }
        self.nodes.detach(&entry);
        Ok(())
    }

    /// Renames within a draft.
    ///
    /// # Errors
    /// `EXDEV` to or from another draft or the tree; those of the draft.
    pub(crate) fn rename(
        &self,
        caller: &Caller,
        from: (INodeNo, &PathComponent),
        to: (INodeNo, &PathComponent),
        may_replace: bool,
    ) -> Result<(), RequestFailure> {
        if !is_draft_id(from.0.0) || !is_draft_id(to.0.0) {
            return Err(RequestFailure::Errno(Errno::EXDEV));
        }
        let ((id, from), (target_id, to)) = (self.child(from.0, from.1)?, self.child(to.0, to.1)?);
        if id != target_id {
            return Err(RequestFailure::Errno(Errno::EXDEV));
        }
        let target = DraftEntry::Path(id, to.clone());
        if !may_replace && self.entry_attributes(&target).is_ok() {
            return Err(Fault::exists(&to).into());
        }
        for inode in self.nodes.inodes_below(id, &from) {
            self.publish(caller, inode)?;
        }
        let view = self.view(id)?;
        if from == to {
            return view.stat(Protocol::Fuse, &from).map(drop).map_err(Into::into);
        }
        let change = Change::rename(from.clone(), to.clone()).with_precondition(Precondition::Any);
        view.apply(caller, change).map_err(or_not_permitted)?;
        self.nodes.rename(id, (&from, &to));
        Ok(())
    }
}
