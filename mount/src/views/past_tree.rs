//! `.svc/at/<time or commit>/…`: the whole tree as it was.

use std::sync::Arc;

use svcfs_base::{Fault, PathComponent, TreePath};
use svcfs_vfs::{PastName, PastState};

use super::past_file::PastFile;
use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeKind, ViewNodeRef, ViewReader};

/// Every state the tree ever had, by any name of it: there are too many to list.
pub(super) struct PastStates;

impl ViewNode for PastStates {
    fn key(&self) -> Vec<u8> {
        b"at".to_vec()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&TreePath::root()))
    }

    fn find(
        &self,
        views: &MountViews,
        _reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let state = views.vfs.past_state(name.as_str())?;
        Ok(state.map(|state| Arc::new(PastDirectory::root(state, name.as_str().to_owned())) as ViewNodeRef))
    }
}

/// A directory of the tree as it was.
pub(super) struct PastDirectory {
    state: PastState,
    /// The name it is shown under: two names of one state are two folders, because a folder is in one place only.
    asked: String,
    path: TreePath,
}

impl ViewNode for PastDirectory {
    fn key(&self) -> Vec<u8> {
        let Self { state: PastState { commit, time: _ }, asked, path } = self;
        format!("at {commit} {asked}/{path}").into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes { modified: Some(self.state.time), ..ViewAttributes::folder(&self.path) })
    }

    fn find(
        &self,
        views: &MountViews,
        _reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let names = self.names(views)?;
        let found = names.binary_search_by(|entry| entry.name.cmp(name)).ok();
        Ok(found.map(|at| self.place(&names[at])))
    }

    fn list(&self, views: &MountViews, _reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let names = self.names(views)?;
        let listed = |entry: &PastName| ViewEntry { name: entry.name.as_str().to_owned(), place: self.place(entry) };
        Ok(names.iter().map(listed).collect())
    }
}

impl PastDirectory {
    /// The whole tree, under one of its names.
    pub(super) fn root(state: PastState, asked: String) -> Self {
        Self { state, asked, path: TreePath::root() }
    }

    fn names(&self, views: &MountViews) -> Result<Arc<Vec<PastName>>, Fault> {
        let key = (self.state.commit, self.path.clone());
        if let Some(names) = views.past.directories.get(&key) {
            return Ok(names);
        }
        let names = views.vfs.past_directory(&self.state, &self.path)?;
        let names = names.ok_or_else(|| Fault::file_not_found(&self.path))?;
        Ok(views.past.directories.keep(key, names))
    }

    fn place(&self, entry: &PastName) -> ViewNodeRef {
        let PastName { name, leaf } = entry;
        let (path, time) = (self.path.join(name), self.state.time);
        match leaf.clone() {
            None => Arc::new(Self { state: self.state, asked: self.asked.clone(), path }),
            Some((content, kind)) => Arc::new(PastFile { content, kind, time, path }),
        }
    }
}
