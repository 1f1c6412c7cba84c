//! The task that backs up a space.

use std::sync::Arc;
use std::time::Duration;

use svcfs_base::Clock;
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

/// After a failure that may end by itself, the next attempt is not later than this.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Backs up one space at start, at intervals and when its signal is raised.
pub struct BackupTask {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
}

impl BackupTask {
    /// The task of a space.
    pub const fn new(space: Arc<Space>, clock: Arc<dyn Clock>) -> Self {
        Self { space, clock }
    }
}

impl Task for BackupTask {
    const NAME: &'static str = "backup";
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        let monitor = &self.space.backup;
        let interval = monitor.settings().interval;
        let outcome = monitor.run(&self.space, (self.clock.now(), &|| stop.is_requested(), None));
        Ok(NextStep::After(match outcome {
            Err(error) if !error.is_refusal() => interval.min(RETRY_INTERVAL),
            Ok(_) | Err(_) => interval,
        }))
    }
}
