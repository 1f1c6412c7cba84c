//! The pack of a batch is written while the disk flushes the log: a writer waits for the longer of the two, not for both.
//!
//! One rule: nothing hangs on it. What is written ahead of the log is unreferenced until the branch shows it, and a crash in between
//! leaves a pack that its `.keep` file tells the next opening to look at. What could not be written is written when the branch moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use svcfs_store::History;
use svcfs_work::Helper;
use tracing::debug;

use crate::core::Core;

/// Publishes what was staged.
#[derive(Default)]
pub(super) struct Ahead(Helper);

impl Ahead {
    /// Does something while what was staged is published; both are over then.
    pub(super) fn beside<T>(&self, core: &Arc<Core>, deed: impl FnOnce() -> T) -> T {
        if core.memory.git().is_none() {
            return deed();
        }
        let is_claimed = Arc::new(AtomicBool::new(false));
        let (shared, claim) = (Arc::clone(core), Arc::clone(&is_claimed));
        self.0.run(move || {
            // Otherwise the deed was over first: it is written when the branch moves.
            if !claim.swap(true, Ordering::AcqRel)
                && let Some(Err(error)) = shared.memory.git().map(History::publish)
            {
                debug!(%error, "a pack could not be written ahead; it is when the branch moves");
            }
        });
        let outcome = deed();
        if is_claimed.swap(true, Ordering::AcqRel) {
            self.0.rest();
        }
        outcome
    }
}
