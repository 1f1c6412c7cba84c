//! The task that stores views, and removes expired shares.

use std::sync::Arc;
use std::time::Duration;

use svcfs_base::Clock;
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

const INTERVAL: Duration = Duration::from_secs(5);

/// See the module. Nothing depends on its speed: expiry is checked at every use of a share.
pub struct ShareWriter {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
}

impl ShareWriter {
    /// The task of a space.
    pub fn new(space: Arc<Space>, clock: Arc<dyn Clock>) -> Self {
        Self { space, clock }
    }
}

impl Task for ShareWriter {
    const NAME: &'static str = "shares";
    fn step(&mut self, _stop: &StopToken) -> Result<NextStep, TaskFailure> {
        if let Err(error) = self.space.shares.flush(self.clock.now()) {
            tracing::warn!(%error, "the views of shares could not be stored");
        }
        Ok(NextStep::After(INTERVAL))
    }
}
