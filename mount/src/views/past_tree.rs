//! `.svc/at/<time or commit>/…`: the whole tree of the past.

use std::sync::Arc;

use svcfs_base::{Fault, PathComponent, TreePath};
use svcfs_vfs::{PastName, PastState};

use super::past_file::PastFile;
use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeRef, ViewReader};

/// All states, by any of their names: too many to list.
pub(super) struct PastStates;

impl ViewNode for PastStates {
    fn key(&self) -> Vec<u8> {
        b"at".to_vec()
    }

    fn lookup(
        &self,
        views: &MountViews,
        _reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let state = views.vfs.past_state(name.as_str())?;
        Ok(state.map(|state| Arc::new(PastDirectory::root(state, name.as_str().to_owned())) as ViewNodeRef))
    }
}

/// A directory of a past tree.
pub(super) struct PastDirectory {
    state: PastState,
    /// Name of the state in the path: two names of one state are two folders, because a folder has
    /// one parent.
    state_name: String,
    path: TreePath,
}

impl ViewNode for PastDirectory {
    fn key(&self) -> Vec<u8> {
        let Self { state: PastState { commit, time: _ }, state_name, path } = self;
        format!("at {commit} {state_name}/{path}").into_bytes()
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes { modified: Some(self.state.time), ..ViewAttributes::folder(&self.path) })
    }

    fn lookup(
        &self,
        views: &MountViews,
        _reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let names = self.names(views)?;
        let index = names.binary_search_by(|entry| entry.name.cmp(name)).ok();
        Ok(index.map(|index| self.node(&names[index])))
    }

    fn list(&self, views: &MountViews, _reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let names = self.names(views)?;
        let listed = |entry: &PastName| ViewEntry { name: entry.name.as_str().to_owned(), node: self.node(entry) };
        Ok(names.iter().map(listed).collect())
    }
}

impl PastDirectory {
    pub(super) fn root(state: PastState, state_name: String) -> Self {
        Self { state, state_name, path: TreePath::root() }
    }

    fn names(&self, views: &MountViews) -> Result<Arc<Vec<PastName>>, Fault> {
        let key = (self.state.commit, self.path.clone());
        if let Some(names) = views.past.directories.get(&key) {
            return Ok(names);
        }
        let names = views.vfs.past_directory(&self.state, &self.path)?;
        let names = names.ok_or_else(|| Fault::file_not_found(&self.path))?;
        Ok(views.past.directories.insert(key, names))
    }

    fn node(&self, entry: &PastName) -> ViewNodeRef {
        let PastName { name, leaf } = entry;
        let (path, time) = (self.path.join(name), self.state.time);
        match leaf.clone() {
            None => Arc::new(Self { state: self.state, state_name: self.state_name.clone(), path }),
            Some((content, kind)) => Arc::new(PastFile { content, kind, time, path }),
        }
    }
}
