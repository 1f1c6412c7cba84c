//! Coalescing: which uncommitted sets become one commit.
//!
//! Invariant: no change is committed under another author, and the changes of a path keep their
//! order. A set of one path joins the newest commit of its actor, unless that is full or
//! standalone, or a later commit has a related path (the same, an ancestor, or a descendant): then
//! it starts a new commit. A set of several paths (bulk write, rename) and an external edit are
//! standalone commits: no other set joins them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use svcfs_base::{Actor, EventAnnouncement, Protocol, TreePath};
use svcfs_store::LogRecord;

/// Sets that become one commit, in order of acceptance.
pub(super) struct CommitGroup<'r> {
    pub(super) sets: Vec<&'r LogRecord>,
    paths: BTreeSet<&'r TreePath>,
    /// No other set may join it.
    is_standalone: bool,
}

/// Groups sets into commits of at most `max_paths` paths; both in order.
pub(super) fn coalesce(sets: &[LogRecord], max_paths: usize) -> Vec<CommitGroup<'_>> {
    let mut groups: Vec<CommitGroup<'_>> = Vec::new();
    // The newest commit of each actor, and of each path.
    let mut by_actor: HashMap<&Actor, usize> = HashMap::new();
    let mut by_path: BTreeMap<&TreePath, usize> = BTreeMap::new();
    for set in sets {
        let is_alone = set.entries.len() != 1
            || !set.moves.is_empty()
            || set.announcement != EventAnnouncement::Files
            || set.protocol == Protocol::Direct;
        let newest = by_actor.get(&set.actor).copied().filter(|at| {
            let group = &groups[*at];
            let has_capacity = |path| group.paths.contains(path) || group.paths.len() < max_paths;
            let is_last = |path| latest_related_commit(&by_path, path).is_none_or(|newer| newer <= *at);
            !is_alone
                && !group.is_standalone
                && set.entries.iter().all(|entry| has_capacity(&entry.path) && is_last(&entry.path))
        });
        let at = newest.unwrap_or_else(|| {
            groups.push(CommitGroup { sets: Vec::new(), paths: BTreeSet::new(), is_standalone: is_alone });
            groups.len() - 1
        });
        groups[at].sets.push(set);
        by_actor.insert(&set.actor, at);
        for entry in &set.entries {
            groups[at].paths.insert(&entry.path);
            by_path.insert(&entry.path, at);
        }
    }
    groups
}

/// The newest commit with this path, an ancestor, or a descendant of it.
fn latest_related_commit(by_path: &BTreeMap<&TreePath, usize>, path: &TreePath) -> Option<usize> {
    let above = path.ancestors().filter_map(|above| by_path.get(&above).copied()).max();
    let below = by_path
        .range::<TreePath, _>((Bound::Excluded(path), Bound::Unbounded))
        .take_while(|(newer, _)| newer.as_str().starts_with(path.as_str()))
        .filter(|(newer, _)| newer.is_under(path))
        .map(|(_, at)| *at)
        .max();
    [by_path.get(path).copied(), above, below].into_iter().flatten().max()
}

impl<'r> CommitGroup<'r> {
    pub(super) fn standalone(set: &'r LogRecord) -> Self {
        let paths = set.entries.iter().map(|entry| &entry.path).collect();
        Self { sets: vec![set], paths, is_standalone: true }
    }

    /// The commit message: that of its only set, or the number of files and each distinct message.
    pub(super) fn message(&self, actor: &Actor) -> String {
        let mut messages: Vec<&str> = Vec::new();
        let mut known = BTreeSet::new();
        messages.extend(self.sets.iter().map(|set| set.message.as_str()).filter(|message| known.insert(*message)));
        if let [only] = messages[..] {
            return only.to_owned();
        }
        let subject = match self.paths.first().filter(|_| self.paths.len() == 1) {
            Some(only) => format!("{actor}: {only}"),
            None => format!("{actor}: {} files", self.paths.len()),
        };
        format!("{subject}\n\n{}", messages.join("\n"))
    }
}

#[cfg(test)]
mod tests;
