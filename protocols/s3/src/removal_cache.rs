//! What was removed, by key, as the change feed tells it.
//!
//! The feed is long, and a listing of versions has many pages: it is gone through once, and then only what is new of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use svcfs_base::{Fault, Kind, VersionId};
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{ChangeRecord, PathAction};

/// Records of the feed that are gone through; of the newest at least as many are known.
const MAX_CHANGES: usize = 100_000;
/// Spaces of which it is remembered: those that were listed last.
const MAX_SPACES: usize = 4;

/// When a key was removed, and what that version is called.
pub(crate) type RemovalMarker = (VersionId, SystemTime);

/// What was removed in a space.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemovedKeys {
    pub(crate) by_key: BTreeMap<String, Vec<RemovalMarker>>,
    /// How far the feed is known, and how many records of it were gone through.
    last_seq: String,
    seen: usize,
}

impl RemovedKeys {
    fn take(&mut self, changes: Vec<ChangeRecord>, last_seq: String) {
        (self.seen, self.last_seq) = (self.seen + changes.len(), last_seq);
        for change in changes.into_iter().filter(|change| change.action == PathAction::Delete) {
            let removal = (change.seq, SystemTime::from(change.timestamp));
            self.by_key.entry(change.path.to_string()).or_default().push(removal);
        }
    }
}

/// What was removed in the spaces that were asked for last, the last one first.
#[derive(Debug)]
pub(crate) struct RemovalCache {
    spaces: Mutex<Vec<(PathBuf, Arc<RemovedKeys>)>>,
    most: usize,
}

impl Default for RemovalCache {
    fn default() -> Self {
        Self::of(MAX_CHANGES)
    }
}

impl RemovalCache {
    pub(crate) fn of(most: usize) -> Self {
        Self { spaces: Mutex::default(), most }
    }

    /// What was removed in a space up to now. Waits for history.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn up_to_now(&self, space: &Space) -> Result<Arc<RemovedKeys>, Fault> {
        let root = space.vfs.root();
        let before = self.spaces.lock().iter().find(|(other, _)| other == root).map(|(_, removed)| Arc::clone(removed));
        let removed = match self.gone_on(space, before.unwrap_or_default()) {
            // The log is another one than it was.
            Err(fault) if fault.kind() == Kind::Invalid => self.begun(space)?,
            removed => removed?,
        };
        let mut spaces = self.spaces.lock();
        spaces.retain(|(other, _)| other != root);
        spaces.insert(0, (root.to_owned(), Arc::clone(&removed)));
        spaces.truncate(MAX_SPACES);
        Ok(removed)
    }

    fn begun(&self, space: &Space) -> Result<Arc<RemovedKeys>, Fault> {
        let newest = space.vfs.changes(None, self.most)?;
        let mut removed = RemovedKeys::default();
        removed.take(newest.changes, newest.last_seq);
        Ok(Arc::new(removed))
    }

    fn gone_on(&self, space: &Space, mut removed: Arc<RemovedKeys>) -> Result<Arc<RemovedKeys>, Fault> {
        loop {
            // Of what had no changes, all are new; and from time to time anew, or what is known would only become more.
            if removed.last_seq.is_empty() || removed.seen >= 2 * self.most {
                return self.begun(space);
            }
            let new = space.vfs.changes(Some(&removed.last_seq), self.most)?;
            if new.changes.is_empty() {
                return Ok(removed);
            }
            Arc::make_mut(&mut removed).take(new.changes, new.last_seq);
        }
    }
}
