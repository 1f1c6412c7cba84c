//! How often published pages are read (`publish.count_views`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use svcfs_base::TreePath;
use svcfs_store::{StatePaths, StoreError, ViewCountFile};
use svcfs_vfs::Relocation;
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Limit of counted pages: pages that are removed beside svcfs keep their count.
const MAX_PAGES: usize = 100_000;

/// The counts of a space. They are stored in batches: a killed server loses the last five seconds.
pub struct ViewCounts {
    file: ViewCountFile,
    state: Mutex<ViewState>,
}

#[derive(Default)]
struct ViewState {
    counts: BTreeMap<TreePath, u64>,
    /// Pages whose count is not stored yet.
    changed: BTreeSet<TreePath>,
}

impl ViewCounts {
    /// Opens the counts of a root.
    ///
    /// # Errors
    /// Those of [`ViewCountFile::open`].
    pub fn open(paths: &StatePaths) -> Result<Self, StoreError> {
        let (file, counts) = ViewCountFile::open(&paths.view_counts())?;
        Ok(Self { file, state: Mutex::new(ViewState { counts, changed: BTreeSet::new() }) })
    }

    /// Counts a view.
    pub fn count(&self, path: &TreePath) {
        let mut state = self.state.lock();
        if state.counts.len() >= MAX_PAGES && !state.counts.contains_key(path) {
            return;
        }
        let count = state.counts.entry(path.clone()).or_default();
        *count = count.saturating_add(1);
        state.changed.insert(path.clone());
    }

    /// The views of a page.
    pub(super) fn of(&self, path: &TreePath) -> u64 {
        self.state.lock().counts.get(path).copied().unwrap_or_default()
    }

    /// Follows renames and removals of pages.
    pub(crate) fn follow(&self, relocations: &[Relocation]) {
        let mut state = self.state.lock();
        if state.counts.is_empty() {
            return;
        }
        for relocation in relocations {
            match relocation {
                Relocation::Moved { from, to } => {
                    let moved: Vec<TreePath> =
                        state.counts.keys().filter(|path| path.rebase(from, to).is_some()).cloned().collect();
                    for path in moved {
                        let (Some(target), Some(count)) = (path.rebase(from, to), state.counts.remove(&path)) else {
                            continue;
                        };
                        state.counts.insert(target.clone(), count);
                        state.changed.extend([path, target]);
                    }
                }
                Relocation::Removed(path) => {
                    if state.counts.remove(path).is_some() {
                        state.changed.insert(path.clone());
                    }
                }
            }
        }
    }

    /// Stores the counts that changed.
    ///
    /// # Errors
    /// Those of the disk; they are stored the next time then.
    pub fn flush(&self) -> Result<(), StoreError> {
        let writes: Vec<(TreePath, Option<u64>)> = {
            let mut state = self.state.lock();
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
