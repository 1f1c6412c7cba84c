//! How often published pages are read (`publish.count_views`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use svcfs_base::{Fault, Seq, TreePath};
use svcfs_store::{StatePaths, StoreError, ViewCountFile};
use svcfs_vfs::{FeedEvent, Vfs};
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Limit of counted pages: pages that are removed beside svcfs keep their count.
const MAX_PAGES: usize = 100_000;

/// The counts of a space. They are stored in batches: a killed server loses the last five seconds.
pub struct ViewCounts {
    file: ViewCountFile,
    vfs: Arc<Vfs>,
    state: Mutex<ViewState>,
}

struct ViewState {
    counts: BTreeMap<TreePath, u64>,
    /// The position in the feed; at the start its end, so counts do not follow what happened while
    /// the last of them were not stored.
    followed: Seq,
    /// Pages whose count is not stored yet.
    changed: BTreeSet<TreePath>,
}

impl ViewCounts {
    /// Opens the counts of a root.
    ///
    /// # Errors
    /// Those of [`ViewCountFile::open`].
    pub fn open(paths: &StatePaths, vfs: Arc<Vfs>) -> Result<Self, StoreError> {
        let (file, counts) = ViewCountFile::open(&paths.view_counts())?;
        let followed = vfs.feed().last_seq();
        Ok(Self { file, vfs, state: Mutex::new(ViewState { counts, followed, changed: BTreeSet::new() }) })
    }

    /// Counts a view.
    pub fn count(&self, path: &TreePath) {
        let mut state = self.current();
        if state.counts.len() >= MAX_PAGES && !state.counts.contains_key(path) {
            return;
        }
        let count = state.counts.entry(path.clone()).or_default();
        *count = count.saturating_add(1);
        state.changed.insert(path.clone());
    }

    /// The views of a page.
    pub(super) fn of(&self, path: &TreePath) -> u64 {
        self.current().counts.get(path).copied().unwrap_or_default()
    }

    /// The counts, which follow every change of their pages that was answered.
    fn current(&self) -> MutexGuard<'_, ViewState> {
        let mut state = self.state.lock();
        let mut position = state.followed;
        if let Err(fault) = self.vfs.feed().follow(&mut position, |event| state.follow(&self.vfs, event)) {
            tracing::warn!(error = ?fault, "the renames and removals of published pages cannot be read; their views stay under the old names");
        }
        state.followed = position;
        state
    }

    /// Stores the counts that changed.
    ///
    /// # Errors
    /// Those of the disk; they are stored the next time then.
    pub fn flush(&self) -> Result<(), StoreError> {
        let writes: Vec<(TreePath, Option<u64>)> = {
            let mut state = self.current();
            let changed = std::mem::take(&mut state.changed);
            changed.into_iter().map(|path| (path.clone(), state.counts.get(&path).copied())).collect()
        };
        if writes.is_empty() {
            return Ok(());
        }
        // Readers go on counting while the disk writes.
        let outcome = self.file.write(&writes);
        if outcome.is_err() {
            self.state.lock().changed.extend(writes.into_iter().map(|(path, _)| path));
        }
        outcome
    }
}

impl ViewState {
    /// Renamed pages keep their counts, removed ones have none.
    fn follow(&mut self, vfs: &Vfs, event: &FeedEvent) -> Result<(), Fault> {
        for (path, to) in vfs.relocations(event, |path| self.counts.contains_key(path))? {
            let count = self.counts.remove(&path);
            if let (Some(target), Some(count)) = (to, count) {
                self.counts.insert(target.clone(), count);
                self.changed.insert(target);
            }
            self.changed.insert(path);
        }
        Ok(())
    }
}

/// The task that stores the counts of one space.
pub struct ViewCountWriter {
    space: Arc<Space>,
}

impl ViewCountWriter {
    /// The task of a space.
    pub fn new(space: Arc<Space>) -> Self {
        Self { space }
    }
}

impl Task for ViewCountWriter {
    const NAME: &'static str = "views";
    fn step(&mut self, _stop: &StopToken) -> Result<NextStep, TaskFailure> {
        if let Err(error) = self.space.view_counts.flush() {
            tracing::warn!(%error, "the views of published pages could not be stored");
        }
        Ok(NextStep::After(WRITE_INTERVAL))
    }
}
