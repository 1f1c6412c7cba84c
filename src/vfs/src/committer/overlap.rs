//! The pack of a batch is written while the disk flushes the log, and the page of a lone set, too: a writer waits for the longest of them,
//! not for all.
//!
//! One rule: nothing hangs on it. What is written ahead of the log is unreferenced until the branch shows it, and a crash in between
//! leaves a pack that its `.keep` file tells the next opening to look at, and a file of our own that the next opening sweeps. What could not
//! be written is written when its time comes.

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

/// Does what is needed after the flush while that lasts, each by a thread of its own: the disk is waited for meanwhile, and not a processor.
#[derive(Default)]
pub(super) struct FlushOverlap {
    pack: OverlapStep,
    page: OverlapStep,
}

impl FlushOverlap {
    /// Does something while what was staged is published, and a lone page prepared; all of it is over then.
    pub(super) fn beside<T>(&self, core: &Arc<VfsCore>, planned: &[PlannedSet], deed: impl FnOnce() -> T) -> T {
        if core.memory.git().is_none() {
            return deed();
        }
        let shared = Arc::clone(core);
        let pack = self.pack.begin(move || publish(&shared));
        let page = lone_page(planned).map(|(path, leaf)| {
            let shared = Arc::clone(core);
            self.page.begin(move || shared.prepare(&path, &leaf))
        });
        let outcome = deed();
        if let Some(page) = page {
            self.page.end(&page);
        }
        self.pack.end(&pack);
        outcome
    }
}

/// Something that is done by a helper, if it comes to it in time.
#[derive(Default)]
struct OverlapStep(SerialExecutor);

/// Whether a step was begun, or will not be any more.
type StepClaim = Arc<AtomicBool>;

impl OverlapStep {
    fn begin(&self, step: impl FnOnce() + Send + 'static) -> StepClaim {
        let claim = StepClaim::default();
        let claimed = Arc::clone(&claim);
        self.0.submit(move || {
            if !claimed.swap(true, Ordering::AcqRel) {
                step();
            }
        });
        claim
    }

    /// Waits for what was begun; what was not is left.
    fn end(&self, claim: &StepClaim) {
        if claim.swap(true, Ordering::AcqRel) {
            self.0.wait_idle();
        }
    }
}

fn publish(core: &VfsCore) {
    if let Some(Err(error)) = core.memory.git().map(History::publish) {
        debug!(%error, "a pack could not be written ahead; it is when the branch moves");
    }
}

/// The only file that is to be put in place; none where there are several, which would keep the processor from the writers behind them.
fn lone_page(planned: &[PlannedSet]) -> Option<(TreePath, OverlayFile)> {
    let [PlannedSet { prepared, .. }] = planned else { return None };
    match &prepared.effects[..] {
        [effect] if !prepared.is_adopted && prepared.moves.is_empty() => match &effect.after {
            Some(StateAfter::Leaf(leaf)) => Some((effect.path.clone(), leaf.clone())),
            Some(StateAfter::Blob(..)) | None => None,
        },
        _ => None,
    }
}
