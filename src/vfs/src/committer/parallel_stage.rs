//! The pages of a set of many are written by a second thread, while this one makes the set's commit and logs it.
//!
//! One rule: nothing hangs on it, as in `ahead`. It goes from the last page to the first, and whoever puts them in place from the first to
//! the last: where they meet it ends. What is not taken is thrown away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use svcfs_base::TreePath;
use svcfs_work::SerialExecutor;

use crate::core::VfsCore;
use crate::overlay::OverlayFile;
use crate::queue::{FileEffect, QueuedSet, StateAfter};

/// For fewer a second thread is not worth waking.
const FEWEST: usize = 16;

/// Writes pages before their time.
#[derive(Default)]
pub(super) struct ParallelStager {
    helper: SerialExecutor,
    /// How many pages, from the first, need not be written any more; none when nobody is at work.
    passed: Option<Arc<AtomicUsize>>,
}

impl ParallelStager {
    /// Begins with the pages of a lone set. Several sets are several writers, and who comes behind them needs the processor.
    pub(super) fn begin(&mut self, core: &Arc<VfsCore>, sets: &[QueuedSet]) {
        let [set] = sets else { return };
        if set.is_adopted || set.effects.len() < FEWEST || core.trouble.lock().is_some() {
            return;
        }
        let pages: Vec<_> = set.effects.iter().filter_map(|effect| page_of(set, effect)).collect();
        if pages.len() < FEWEST {
            return;
        }
        let (core, passed) = (Arc::clone(core), Arc::new(AtomicUsize::new(0)));
        self.passed = Some(Arc::clone(&passed));
        self.helper.submit(move || {
            for (at, (path, leaf)) in pages.iter().enumerate().rev() {
                if passed.load(Ordering::Relaxed) > at {
                    break;
                }
                core.prepare(path, leaf);
            }
        });
    }

    /// Says that one more is in place.
    pub(super) fn pass(&self) {
        if let Some(passed) = &self.passed {
            passed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Throws away what was written and not taken.
    pub(super) fn end(&mut self, core: &VfsCore) {
        if let Some(passed) = self.passed.take() {
            passed.store(usize::MAX, Ordering::Relaxed);
            self.helper.wait_idle();
        }
        core.tree.discard_staged();
    }
}

fn page_of(set: &QueuedSet, effect: &FileEffect) -> Option<(TreePath, OverlayFile)> {
    match &effect.after {
        Some(StateAfter::Leaf(leaf)) if set.is_put_in_place(effect) => Some((effect.path.clone(), leaf.clone())),
        Some(StateAfter::Leaf(_) | StateAfter::Blob(..)) | None => None,
    }
}
