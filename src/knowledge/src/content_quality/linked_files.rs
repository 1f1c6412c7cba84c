//! Which files the links of pages lead to, as far as they are no pages.
//!
//! Invariant: an answer is remembered until the change feed names its path or a path below it. Empty directories are in no feed: one that
//! somebody makes or removes is noticed when the tree is looked through from the beginning.

use std::collections::HashMap;

use svcfs_base::{Fault, Kind, Protocol, Seq, TreePath};
use svcfs_vfs::{EntryKind, Vfs};

/// Changes that are looked at one by one; with more, everything is forgotten.
const MAX_EVENTS: usize = 10_000;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathPresence {
    Absent,
    File,
    Directory,
}

/// What is at the paths that links lead to, as of one position of the feed.
pub struct LinkedFiles {
    at: Seq,
    known: HashMap<TreePath, PathPresence>,
}

impl LinkedFiles {
    /// Nothing is known yet.
    pub fn new(vfs: &Vfs) -> Self {
        Self { at: vfs.feed().last_seq(), known: HashMap::new() }
    }

    /// Forgets what changes since then are about.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn catch_up(&mut self, vfs: &Vfs) -> Result<(), Fault> {
        let last = vfs.feed().last_seq();
        if last == self.at {
            return Ok(());
        }
        if self.known.is_empty() || last < self.at || last.0 - self.at.0 > MAX_EVENTS as u64 {
            *self = Self { at: last, known: HashMap::new() };
            return Ok(());
        }
        for event in vfs.feed().events_after(self.at, MAX_EVENTS)? {
            for change in &event.changes {
                let mut at_or_above = Some(change.path.clone());
                while let Some(path) = at_or_above {
                    self.known.remove(&path);
                    at_or_above = path.parent();
                }
            }
        }
        self.at = last;
        Ok(())
    }

    /// Whether a link leads to a file. A markdown link to a directory opens its listing; a wiki link means a page.
    ///
    /// # Errors
    /// Those of the tree.
    pub fn has(&mut self, vfs: &Vfs, path: &TreePath, is_wiki: bool) -> Result<bool, Fault> {
        let presence = match self.known.get(path) {
            Some(known) => *known,
            None => {
                let found = presence(vfs, path)?;
                self.known.insert(path.clone(), found);
                found
            }
        };
        Ok(is_target(presence, is_wiki))
    }
}

/// Whether a link leads to a file, looked up in the tree.
///
/// # Errors
/// Those of the tree.
pub fn leads_to_file(vfs: &Vfs, path: &TreePath, is_wiki: bool) -> Result<bool, Fault> {
    Ok(is_target(presence(vfs, path)?, is_wiki))
}

const fn is_target(presence: PathPresence, is_wiki: bool) -> bool {
    match presence {
        PathPresence::Absent => false,
        PathPresence::File => true,
        PathPresence::Directory => !is_wiki,
    }
}

fn presence(vfs: &Vfs, path: &TreePath) -> Result<PathPresence, Fault> {
    match vfs.stat(Protocol::Internal, path) {
        Ok(attributes) if attributes.kind == EntryKind::Directory => Ok(PathPresence::Directory),
        Ok(_) => Ok(PathPresence::File),
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(PathPresence::Absent),
        Err(fault) => Err(fault),
    }
}
