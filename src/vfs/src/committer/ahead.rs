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
use svcfs_work::Helper;
use tracing::debug;

use super::Planned;
use crate::core::Core;
use crate::overlay::Leaf;
use crate::queue::After;

/// Does what is needed after the flush while that lasts.
#[derive(Default)]
pub(super) struct Ahead(Helper);

/// What is done ahead, in this order; a step that has not begun when the flush is over is left.
const STEPS: [Step; 2] = [publish, prepare];
type Step = fn(&Core, Option<&Page>);
type Page = (TreePath, Leaf);

impl Ahead {
    /// Does something while what was staged is published, and a lone page prepared; all of it is over then.
    pub(super) fn beside<T>(&self, core: &Arc<Core>, planned: &[Planned], deed: impl FnOnce() -> T) -> T {
        if core.memory.git().is_none() {
            return deed();
        }
        let claims: Arc<[AtomicBool; STEPS.len()]> = Arc::default();
        let claim = |claims: &[AtomicBool], step: usize| !claims[step].swap(true, Ordering::AcqRel);
        let (shared, claimed, page) = (Arc::clone(core), Arc::clone(&claims), lone_page(planned));
        self.0.run(move || {
            for (at, step) in STEPS.iter().enumerate() {
                if claim(&*claimed, at) {
                    step(&shared, page.as_ref());
                }
            }
        });
        let outcome = deed();
        // The last first: who has begun with that has begun with all.
        if !(0..STEPS.len()).rev().all(|at| claim(&*claims, at)) {
            self.0.rest();
        }
        outcome
    }
}

fn publish(core: &Core, _: Option<&Page>) {
    if let Some(Err(error)) = core.memory.git().map(History::publish) {
        debug!(%error, "a pack could not be written ahead; it is when the branch moves");
    }
}

fn prepare(core: &Core, page: Option<&Page>) {
    if let Some((path, leaf)) = page {
        core.prepare(path, leaf);
    }
}

/// The only file that is to be put in place; none where there are several, which would keep the processor from the writers behind them.
fn lone_page(planned: &[Planned]) -> Option<Page> {
    let [Planned { prepared, .. }] = planned else { return None };
    match &prepared.effects[..] {
        [effect] if !prepared.is_adopted && prepared.moves.is_empty() => match &effect.after {
            Some(After::Leaf(leaf)) => Some((effect.path.clone(), leaf.clone())),
            Some(After::Blob(..)) | None => None,
        },
        _ => None,
    }
}
