//! What the log has and no commit shows yet (`async_commit`).
//!
//! One rule: whoever asks what history has of a path asks here first, then git. Were it the other
//! way round, a commit made in between would be seen by neither.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::RwLock;
use svcfs_base::{ETag, FileKind, Seq, TreePath};
use svcfs_store::{LogEntry, LogRecord};

/// What stands at a path in history: content and kind, or nothing.
pub(crate) type CommittedState = Option<(ETag, FileKind)>;

#[derive(Default)]
pub(crate) struct UncommittedPaths {
    /// By path: the newest set that changed it, and what it made of it.
    entries: RwLock<BTreeMap<TreePath, (Seq, CommittedState)>>,
}

impl UncommittedPaths {
    /// What a path will have in history, if a set after a position changed it; none when none did.
    pub(crate) fn get(&self, path: &TreePath, after: Seq) -> Option<CommittedState> {
        self.entries.read().get(path).filter(|(seq, _)| *seq > after).map(|(_, recorded)| *recorded)
    }

    /// What each of these paths will have in history; none for those that no set without a commit
    /// changed.
    pub(crate) fn states_at(&self, paths: &[TreePath]) -> Vec<Option<CommittedState>> {
        let entries = self.entries.read();
        paths.iter().map(|path| entries.get(path).map(|(_, recorded)| *recorded)).collect()
    }

    /// Files below a directory that a set after a position made, or changed.
    pub(crate) fn below(&self, directory: &TreePath, after: Seq) -> Vec<(TreePath, CommittedState)> {
        let entries = self.entries.read();
        entries
            .range((Bound::Excluded(directory.clone()), Bound::Unbounded))
            .take_while(|(path, _)| path.as_str().starts_with(directory.as_str()))
            .filter(|(path, (seq, _))| path.is_under(directory) && *seq > after)
            .map(|(path, (_, recorded))| (path.clone(), *recorded))
            .collect()
    }

    /// Takes in a set.
    pub(crate) fn add(&self, set: &LogRecord) {
        self.entries.write().extend(states(set));
    }

    /// What there is from now on: after some were taken back.
    pub(crate) fn replace<'r>(&self, sets: impl Iterator<Item = &'r LogRecord>) {
        let entries: BTreeMap<_, _> = sets.flat_map(states).collect();
        *self.entries.write() = entries;
    }

    /// Forgets the sets up to a position: history has them.
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
