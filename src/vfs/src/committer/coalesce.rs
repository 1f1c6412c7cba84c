//! Which of the sets that wait for a commit become one (contract 9.1, gaps.md D9).
//!
//! One rule: nobody's change goes under another's name, and a path's changes keep their order. A set of one path goes into the
//! newest commit of its actor, unless that is full, or is not to be added to, or another commit that comes after it has to
//! do with the path (itself, a directory above it, something below it): then a new commit begins. A bulk write, and every
//! other set of several paths (a rename), is a commit by itself, whatever its size, and nothing is added to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use svcfs_base::{Actor, EventAnnouncement, TreePath};
use svcfs_store::LogRecord;

/// Sets that become one commit, in the order of their acceptance.
pub(super) struct CommitGroup<'r> {
    pub(super) sets: Vec<&'r LogRecord>,
    paths: BTreeSet<&'r TreePath>,
    /// Nothing is added to it.
    is_standalone: bool,
}

/// Gathers sets, given in the order of their acceptance, into commits of at most so many paths, in the order in which the commits
/// are to be made.
pub(super) fn coalesce(sets: &[LogRecord], max_paths: usize) -> Vec<CommitGroup<'_>> {
    let mut gatherings: Vec<CommitGroup<'_>> = Vec::new();
    // The newest commit of each actor, and the newest that has to do with each path.
    let mut of_actor: HashMap<&Actor, usize> = HashMap::new();
    let mut of_path: BTreeMap<&TreePath, usize> = BTreeMap::new();
    for set in sets {
        let is_alone = set.entries.len() != 1 || !set.moves.is_empty() || set.announcement != EventAnnouncement::Files;
        let newest = of_actor.get(&set.actor).copied().filter(|at| {
            let gathering = &gatherings[*at];
            let has_room = |path| gathering.paths.contains(path) || gathering.paths.len() < max_paths;
            let is_last = |path| latest_related_commit(&of_path, path).is_none_or(|other| other <= *at);
            !is_alone
                && !gathering.is_standalone
                && set.entries.iter().all(|entry| has_room(&entry.path) && is_last(&entry.path))
        });
        let at = newest.unwrap_or_else(|| {
            gatherings.push(CommitGroup { sets: Vec::new(), paths: BTreeSet::new(), is_standalone: is_alone });
            gatherings.len() - 1
        });
        gatherings[at].sets.push(set);
        of_actor.insert(&set.actor, at);
        for entry in &set.entries {
            gatherings[at].paths.insert(&entry.path);
            of_path.insert(&entry.path, at);
        }
    }
    gatherings
}

/// The newest commit that has to do with a path, with a directory above it, or with something below it.
fn latest_related_commit(of_path: &BTreeMap<&TreePath, usize>, path: &TreePath) -> Option<usize> {
    let above = path.ancestors().filter_map(|above| of_path.get(&above).copied()).max();
    let below = of_path
        .range::<TreePath, _>((Bound::Excluded(path), Bound::Unbounded))
        .take_while(|(other, _)| other.as_str().starts_with(path.as_str()))
        .filter(|(other, _)| other.is_under(path))
        .map(|(_, at)| *at)
        .max();
    [of_path.get(path).copied(), above, below].into_iter().flatten().max()
}

impl<'r> CommitGroup<'r> {
    /// One set for itself.
    pub(super) fn standalone(set: &'r LogRecord) -> Self {
        let paths = set.entries.iter().map(|entry| &entry.path).collect();
        Self { sets: vec![set], paths, is_standalone: true }
    }

    /// The commit's message: that of its one set; of several, how many files there are and what each set said, once.
    pub(super) fn message(&self, actor: &Actor) -> String {
        let mut said: Vec<&str> = Vec::new();
        let mut seen = BTreeSet::new();
        said.extend(self.sets.iter().map(|set| set.message.as_str()).filter(|message| seen.insert(*message)));
        if let [only] = said[..] {
            return only.to_owned();
        }
        let subject = match self.paths.first().filter(|_| self.paths.len() == 1) {
            Some(only) => format!("{actor}: {only}"),
            None => format!("{actor}: {} files", self.paths.len()),
        };
        format!("{subject}\n\n{}", said.join("\n"))
    }
}

#[cfg(test)]
mod tests;
