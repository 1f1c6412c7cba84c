//! Stages a large set's files on a second thread, while its commit is built and logged.
//!
//! Invariant: staging is best-effort, as in `overlap`. It runs from the last file to the first,
//! installation from the first to the last; it ends where they meet. Unused staged files are
//! discarded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use svcfs_base::TreePath;
use svcfs_work::SerialExecutor;

use crate::core::VfsCore;
use crate::overlay::OverlayFile;
use crate::queue::{FileEffect, QueuedSet, StateAfter};

/// With fewer files a second thread is not worth waking.
const MIN_FILES: usize = 16;

#[derive(Default)]
pub(super) struct ParallelStager {
    helper: SerialExecutor,
    /// Number of files, from the first, that need no staging any more; none while idle.
    installed: Option<Arc<AtomicUsize>>,
}

impl ParallelStager {
    /// Starts staging a lone set. With several sets, other writers need the processor.
    pub(super) fn start(&mut self, core: &Arc<VfsCore>, sets: &[QueuedSet]) {
        let [set] = sets else { return };
        if set.is_adopted || set.effects.len() < MIN_FILES || core.write_error.lock().is_some() {
            return;
        }
        let pages: Vec<_> = set.effects.iter().filter_map(|effect| staged_page(set, effect)).collect();
        if pages.len() < MIN_FILES {
            return;
        }
        let (core, passed) = (Arc::clone(core), Arc::new(AtomicUsize::new(0)));
        self.installed = Some(Arc::clone(&passed));
        self.helper.submit(move || {
            for (number, (path, file)) in pages.iter().enumerate().rev() {
                if passed.load(Ordering::Relaxed) > number {
                    break;
                }
                core.stage(path, file);
            }
        });
    }

    pub(super) fn mark_installed(&self) {
        if let Some(passed) = &self.installed {
            passed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Discards staged files that were not installed.
    pub(super) fn finish(&mut self, core: &VfsCore) {
        if let Some(passed) = self.installed.take() {
            passed.store(usize::MAX, Ordering::Relaxed);
            self.helper.wait_idle();
        }
        core.tree.discard_staged();
    }
}

fn staged_page(set: &QueuedSet, effect: &FileEffect) -> Option<(TreePath, OverlayFile)> {
    match &effect.after {
        Some(StateAfter::Leaf(file)) if set.is_installed_alone(effect) => Some((effect.path.clone(), file.clone())),
        Some(StateAfter::Leaf(_) | StateAfter::Blob(..)) | None => None,
    }
}
