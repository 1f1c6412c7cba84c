//! The task that discards drafts that were not changed for a time.

use std::sync::Arc;
use std::time::Duration;

use svcfs_base::Clock;
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Discards the drafts of one space after `drafts.auto_discard`.
pub struct DraftRetention {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
    max_age: Option<Duration>,
}

impl DraftRetention {
    /// The task of a space.
    pub fn new(space: Arc<Space>, clock: Arc<dyn Clock>) -> Self {
        let settings = &space.settings.drafts;
        let max_age = settings.auto_discard.filter(|_| settings.enabled);
        Self { space, clock, max_age }
    }
}

impl Task for DraftRetention {
    const NAME: &'static str = "drafts";
    fn step(&mut self, _: &StopToken) -> Result<NextStep, TaskFailure> {
        let Some(max_age) = self.max_age else { return Ok(NextStep::WhenSignalled) };
        if let Ok(before) = self.clock.now().checked_sub(max_age) {
            for id in self.space.vfs.discard_old_drafts(before)? {
                tracing::info!(space = self.space.name, draft.id = %id, "a draft was not changed for `drafts.auto_discard` and is discarded");
            }
        }
        Ok(NextStep::After(CHECK_INTERVAL))
    }
}
