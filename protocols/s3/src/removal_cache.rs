//! Removed keys, collected from the change feed.
//!
//! The feed is long and a listing of versions has many pages: the feed is read once, later only its
//! new records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use svcfs_base::{Fault, Kind, VersionId};
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{ChangeRecord, PathAction};

/// Records of the feed that are read; at least this many of the newest are known.
const MAX_CHANGES: usize = 100_000;
/// Spaces that are cached: the ones listed last.
const MAX_SPACES: usize = 4;

/// The id of the version and the time of a removal.
pub(crate) type RemovalMarker = (VersionId, SystemTime);

/// The removed keys of a space.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemovedKeys {
    pub(crate) by_key: BTreeMap<String, Vec<RemovalMarker>>,
    /// Position in the feed, and the number of records read.
    last_seq: String,
    record_count: usize,
}

impl RemovedKeys {
    fn apply(&mut self, changes: Vec<ChangeRecord>, last_seq: String) {
        (self.record_count, self.last_seq) = (self.record_count + changes.len(), last_seq);
        for change in changes.into_iter().filter(|change| change.action == PathAction::Delete) {
            let removal = (change.seq, SystemTime::from(change.timestamp));
            self.by_key.entry(change.path.to_string()).or_default().push(removal);
        }
    }
}

/// The removed keys of the spaces listed last, newest first.
#[derive(Debug)]
pub(crate) struct RemovalCache {
    spaces: Mutex<Vec<(PathBuf, Arc<RemovedKeys>)>>,
    max_changes: usize,
}

impl Default for RemovalCache {
    fn default() -> Self {
        Self::new(MAX_CHANGES)
    }
}

impl RemovalCache {
    pub(crate) fn new(max_changes: usize) -> Self {
        Self { spaces: Mutex::default(), max_changes }
    }

    /// Brings the cached removals of a space up to date. Blocks on history.
    pub(crate) fn refresh(&self, space: &Space) -> Result<Arc<RemovedKeys>, Fault> {
        let root = space.vfs.root();
        let cached = self
            .spaces
            .lock()
            .iter()
            .find(|(cached_root, _)| cached_root == root)
            .map(|(_, removed)| Arc::clone(removed));
        let removed = match self.catch_up(space, cached.unwrap_or_default()) {
            // The log was replaced.
            Err(fault) if fault.kind() == Kind::Invalid => self.load(space)?,
            removed => removed?,
        };
        let mut spaces = self.spaces.lock();
        spaces.retain(|(cached_root, _)| cached_root != root);
        spaces.insert(0, (root.to_owned(), Arc::clone(&removed)));
        spaces.truncate(MAX_SPACES);
        Ok(removed)
    }

    fn load(&self, space: &Space) -> Result<Arc<RemovedKeys>, Fault> {
        let newest = space.vfs.changes(None, self.max_changes)?;
        let mut removed = RemovedKeys::default();
        removed.apply(newest.changes, newest.last_seq);
        Ok(Arc::new(removed))
    }

    fn catch_up(&self, space: &Space, mut removed: Arc<RemovedKeys>) -> Result<Arc<RemovedKeys>, Fault> {
        loop {
            // An empty feed has no position to continue from. Reloading from time to time bounds
            // the memory.
            if removed.last_seq.is_empty() || removed.record_count >= 2 * self.max_changes {
                return self.load(space);
            }
            let new = space.vfs.changes(Some(&removed.last_seq), self.max_changes)?;
            if new.changes.is_empty() {
                return Ok(removed);
            }
            Arc::make_mut(&mut removed).apply(new.changes, new.last_seq);
        }
    }
}
