//! Writes the batch's pack, and stages the file of a lone set, while the log is flushed: a writer
//! waits for the longest of them, not for the sum. The flush waits for the disk and leaves the
//! processor free.
//!
//! Invariant: overlap is best-effort. What is written before the log is unreferenced until the
//! branch moves. A crash leaves a pack with a `.keep` file, which recovery checks, and a temporary
//! file, which it removes. What could not be written is written in its own step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use svcfs_base::TreePath;
use svcfs_store::History;
use svcfs_work::SerialExecutor;
use tracing::debug;

use super::PlannedSet;
use crate::core::VfsCore;
use crate::overlay::OverlayFile;
use crate::queue::StateAfter;

/// Runs the next steps' work on helper threads while the caller waits for the flush.
#[derive(Default)]
pub(super) struct FlushOverlap {
    pack: OverlapStep,
    page: OverlapStep,
}

impl FlushOverlap {
    /// Runs `work` while the pack is written and a lone file is staged; waits for all.
    pub(super) fn during<T>(&self, core: &Arc<VfsCore>, planned: &[PlannedSet], work: impl FnOnce() -> T) -> T {
        if core.versions.git().is_none() {
            return work();
        }
        let core_for_step = Arc::clone(core);
        let pack = self.pack.start(move || publish(&core_for_step));
        let page = single_page(planned).map(|(path, leaf)| {
            let core_for_step = Arc::clone(core);
            self.page.start(move || core_for_step.stage(&path, &leaf))
        });
        let outcome = work();
        if let Some(page) = page {
            self.page.finish(&page);
        }
        self.pack.finish(&pack);
        outcome
    }
}

/// Work for a helper thread, skipped if it does not start in time.
#[derive(Default)]
struct OverlapStep(SerialExecutor);

/// Whether a step was started, or cancelled.
type StepClaim = Arc<AtomicBool>;

impl OverlapStep {
    fn start(&self, step: impl FnOnce() + Send + 'static) -> StepClaim {
        let claim = StepClaim::default();
        let step_claim = Arc::clone(&claim);
        self.0.submit(move || {
            if !step_claim.swap(true, Ordering::AcqRel) {
                step();
            }
        });
        claim
    }

    /// Waits for a started step; cancels one that was not started.
    fn finish(&self, claim: &StepClaim) {
        if claim.swap(true, Ordering::AcqRel) {
            self.0.wait_idle();
        }
    }
}

fn publish(core: &VfsCore) {
    if let Some(Err(error)) = core.versions.git().map(History::publish) {
        debug!(%error, "a pack could not be written early; it is written when the branch moves");
    }
}

/// The only file to install; none for several, whose staging would slow other writers.
fn single_page(planned: &[PlannedSet]) -> Option<(TreePath, OverlayFile)> {
    let [PlannedSet { set: prepared, .. }] = planned else { return None };
    match &prepared.effects[..] {
        [effect] if !prepared.is_adopted && prepared.moves.is_empty() => match &effect.after {
            Some(StateAfter::Leaf(leaf)) => Some((effect.path.clone(), leaf.clone())),
            Some(StateAfter::Blob(..)) | None => None,
        },
        _ => None,
    }
}
