//! Which link targets that the index does not have exist: folders, hidden and ignored files.
//!
//! Invariant: a result is cached until the change feed names its path or a path below it. Empty
//! directories are not in the feed: a new or removed one is noticed at the next full survey.

use std::collections::HashMap;

use svcfs_base::{Fault, Kind, Protocol, Seq, TreePath};
use svcfs_vfs::{EntryKind, Vfs};

/// Limit of changes that are applied one by one; with more, the cache is dropped.
const MAX_EVENTS: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathPresence {
    Absent,
    File,
    Directory,
}

/// Cache of what exists at link targets, as of one position of the feed.
pub struct LinkedFiles {
    at: Seq,
    cached: HashMap<TreePath, PathPresence>,
}

impl LinkedFiles {
    /// An empty cache.
    pub fn new(vfs: &Vfs) -> Self {
        Self { at: vfs.feed().last_seq(), cached: HashMap::new() }
    }

    /// Drops the entries that changes since the cached position affect.
    pub fn catch_up(&mut self, vfs: &Vfs) -> Result<(), Fault> {
        let last = vfs.feed().last_seq();
        if last == self.at {
            return Ok(());
        }
        if self.cached.is_empty() || last < self.at || last.0 - self.at.0 > MAX_EVENTS as u64 {
            *self = Self { at: last, cached: HashMap::new() };
            return Ok(());
        }
        for event in vfs.feed().events_after(self.at, MAX_EVENTS)? {
            for change in &event.changes {
                let mut at_or_above = Some(change.path.clone());
                while let Some(path) = at_or_above {
                    self.cached.remove(&path);
                    at_or_above = path.parent();
                }
            }
        }
        self.at = last;
        Ok(())
    }

    /// Whether a link has a target. A markdown link may point to a directory, a wiki link may not.
    pub fn has(&mut self, vfs: &Vfs, path: &TreePath, is_wiki: bool) -> Result<bool, Fault> {
        let presence = match self.cached.get(path) {
            Some(presence) => *presence,
            None => {
                let presence = presence(vfs, path)?;
                self.cached.insert(path.clone(), presence);
                presence
            }
        };
        Ok(is_target(presence, is_wiki))
    }
}

/// As [`LinkedFiles::has`], without a cache.
pub fn is_link_to_file(vfs: &Vfs, path: &TreePath, is_wiki: bool) -> Result<bool, Fault> {
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
