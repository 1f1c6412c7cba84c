//! Logged states that have no commit yet (`async_commit`).
//!
//! Invariant: history queries read this before git, or both could miss a new commit.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::RwLock;
use svcfs_base::{ETag, FileKind, Seq, TreePath};
use svcfs_store::{LogEntry, LogRecord};

/// State of a path in history: content and kind, or nothing.
pub(crate) type CommittedState = Option<(ETag, FileKind)>;

#[derive(Default)]
pub(crate) struct UncommittedPaths {
    /// The newest set that changed each path, and the state after it.
    entries: RwLock<BTreeMap<TreePath, (Seq, CommittedState)>>,
}

impl UncommittedPaths {
    /// The state of a path if a set after a position changed it.
    pub(crate) fn get(&self, path: &TreePath, after: Seq) -> Option<CommittedState> {
        self.entries.read().get(path).filter(|(seq, _)| *seq > after).map(|(_, recorded)| *recorded)
    }

    /// The state of each path that an uncommitted set changed.
    pub(crate) fn states_at(&self, paths: &[TreePath]) -> Vec<Option<CommittedState>> {
        let entries = self.entries.read();
        paths.iter().map(|path| entries.get(path).map(|(_, recorded)| *recorded)).collect()
    }

    /// Paths below a directory that a set after a position changed.
    pub(crate) fn below(&self, directory: &TreePath, after: Seq) -> Vec<(TreePath, CommittedState)> {
        let entries = self.entries.read();
        entries
            .range((Bound::Excluded(directory.clone()), Bound::Unbounded))
            .take_while(|(path, _)| path.as_str().starts_with(directory.as_str()))
            .filter(|(path, (seq, _))| path.is_under(directory) && *seq > after)
            .map(|(path, (_, recorded))| (path.clone(), *recorded))
            .collect()
    }

    pub(crate) fn add(&self, set: &LogRecord) {
        self.entries.write().extend(states(set));
    }

    /// Replaces all sets, after a rollback.
    pub(crate) fn replace<'r>(&self, sets: impl Iterator<Item = &'r LogRecord>) {
        let entries: BTreeMap<_, _> = sets.flat_map(states).collect();
        *self.entries.write() = entries;
    }

    /// Removes the sets up to a position: git has them.
    pub(crate) fn forget_up_to(&self, up_to: Seq) {
        let mut entries = self.entries.write();
        if !entries.is_empty() {
            entries.retain(|_, (seq, _)| *seq > up_to);
        }
    }
}

fn states(set: &LogRecord) -> impl Iterator<Item = (TreePath, (Seq, CommittedState))> {
    let state = |entry: &LogEntry| entry.new.map(|blob| (blob, entry.kind));
    set.entries.iter().map(move |entry| (entry.path.clone(), (set.seq, state(entry))))
}
