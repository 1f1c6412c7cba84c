//! The task that looks through the tree from time to time.

use std::sync::Arc;
use std::time::Duration;

use svcfs_base::Clock;
use svcfs_config::JanitorSettings;
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

/// Looks through the tree of one space. What it finds is also the answer to the next question.
pub struct JanitorTask {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
    settings: JanitorSettings,
    /// Whether the server started just now, so that the first scan is due an interval later.
    has_just_started: bool,
}

/// After how long it asks again whether the index has read the tree.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl JanitorTask {
    /// The janitor of a space.
    pub fn new(space: Arc<Space>, clock: Arc<dyn Clock>, settings: JanitorSettings) -> Self {
        let has_just_started = !settings.startup_scan;
        Self { space, clock, settings, has_just_started }
    }
}

impl Task for JanitorTask {
    const NAME: &'static str = "janitor";
    fn step(&mut self, _: &StopToken) -> Result<NextStep, TaskFailure> {
        let next = self.settings.interval.map_or(NextStep::WhenSignalled, NextStep::After);
        if std::mem::take(&mut self.has_just_started) {
            return Ok(next);
        }
        if !self.space.index_watermark.wait(self.space.vfs.feed().last_seq().0, Duration::ZERO) {
            return Ok(NextStep::After(RETRY_INTERVAL));
        }
        let found = self.space.survey_cache.rebuild_survey(&self.space, self.clock.now(), self.settings.stale_days)?;
        tracing::info!(
            space = self.space.name,
            pages = found.scanned,
            healthy = found.healthy,
            findings = found.findings,
            "looked through the tree"
        );
        Ok(next)
    }
}
