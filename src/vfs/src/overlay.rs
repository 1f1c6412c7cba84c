//! Accepted changes that are not in the tree yet.
//!
//! One rule: from the moment a change is accepted, every reader sees it, although the committer has not installed it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::RwLock;
use svcfs_base::{DiskAttributes, ETag, FileKind, LargeFile, TreePath};

/// A file or link with its content.
#[derive(Debug, Clone)]
pub(crate) struct OverlayFile {
    pub(crate) content: Bytes,
    pub(crate) etag: ETag,
    pub(crate) kind: FileKind,
    pub(crate) disk: DiskAttributes,
}

impl OverlayFile {
    pub(crate) fn new(content: Bytes, kind: FileKind) -> Self {
        Self { etag: ETag::from_content(&content), content, kind, disk: DiskAttributes::default() }
    }
}

/// What will stand at a path.
#[derive(Debug, Clone)]
pub(crate) struct PendingState {
    /// Tells this change from a later one to the same path.
    pub(crate) stamp: u64,
    /// The file; none when it will be gone.
    pub(crate) leaf: Option<OverlayFile>,
    /// The file too large for any version that stands there in the tree as long as this does not.
    pub(crate) over: Option<LargeFile>,
    /// When it was accepted.
    pub(crate) accepted: SystemTime,
}

#[derive(Default)]
pub(crate) struct Overlay {
    entries: RwLock<BTreeMap<TreePath, PendingState>>,
}

impl Overlay {
    pub(crate) fn get(&self, path: &TreePath) -> Option<PendingState> {
        self.entries.read().get(path).cloned()
    }

    /// Shows a change, unless a later one to the same path is shown.
    pub(crate) fn put(&self, path: TreePath, pending: PendingState) {
        let mut entries = self.entries.write();
        if entries.get(&path).is_none_or(|shown| shown.stamp <= pending.stamp) {
            entries.insert(path, pending);
        }
    }

    /// Forgets a path, unless a later change has taken its place.
    pub(crate) fn clear(&self, path: &TreePath, stamp: u64) {
        let mut entries = self.entries.write();
        if entries.get(path).is_some_and(|pending| pending.stamp == stamp) {
            entries.remove(path);
        }
    }

    /// Pending paths strictly below a directory.
    pub(crate) fn below(&self, directory: &TreePath) -> Vec<(TreePath, PendingState)> {
        let entries = self.entries.read();
        if entries.is_empty() {
            return Vec::new();
        }
        entries
            .range((Bound::Excluded(directory.clone()), Bound::Unbounded))
            .skip_while(|(path, _)| !path.is_under(directory) && path.as_str().starts_with(directory.as_str()))
            .take_while(|(path, _)| path.as_str().starts_with(directory.as_str()))
            .filter(|(path, _)| path.is_under(directory))
            .map(|(path, pending)| (path.clone(), pending.clone()))
            .collect()
    }

    /// When a name in a directory was last made to come, to go, or to lead to another file, of what is not in the tree yet.
    pub(crate) fn changed(&self, directory: &TreePath) -> Option<SystemTime> {
        let entries = self.entries.read();
        let from = (Bound::Excluded(directory.clone()), Bound::Unbounded);
        let near = entries.range(from).take_while(|(path, _)| path.as_str().starts_with(directory.as_str()));
        near.filter(|(path, _)| path.parent().as_ref() == Some(directory)).map(|(_, pending)| pending.accepted).max()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.read().is_empty()
    }
}
