//! The task that ends lapsed claims, so that followers of the space know.

use std::sync::Arc;
use std::time::Duration;

use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

const INTERVAL: Duration = Duration::from_secs(1);

/// See the module. Nothing depends on its speed: expiry is checked at every use of a claim.
pub struct ClaimSweeper {
    space: Arc<Space>,
}

impl ClaimSweeper {
    /// The task of a space.
    pub const fn new(space: Arc<Space>) -> Self {
        Self { space }
    }
}

impl Task for ClaimSweeper {
    const NAME: &'static str = "claims";
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        for lapsed in self.space.vfs.lapsed_claims() {
            if stop.is_requested() {
                break;
            }
            if let Err(fault) = super::end_lapsed(&self.space, &lapsed) {
                tracing::warn!(page.path = %lapsed.path, error = ?fault, "cannot end a lapsed claim");
            }
        }
        Ok(NextStep::After(INTERVAL))
    }
}
