//! The task that checks the content quality at regular intervals.

use std::sync::Arc;
use std::time::Duration;

use svcfs_base::Clock;
use svcfs_config::JanitorSettings;
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

/// Surveys the tree of one space. The result is cached and answers the next request.
pub struct JanitorTask {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
    settings: JanitorSettings,
    /// Whether the next step must not scan: after a start the first scan is one interval later.
    skips_next_scan: bool,
}

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl JanitorTask {
    /// The janitor of a space.
    pub fn new(space: Arc<Space>, clock: Arc<dyn Clock>, settings: JanitorSettings) -> Self {
        let skips_next_scan = !settings.startup_scan;
        Self { space, clock, settings, skips_next_scan }
    }
}

impl Task for JanitorTask {
    const NAME: &'static str = "janitor";
    fn step(&mut self, _: &StopToken) -> Result<NextStep, TaskFailure> {
        let next = self.settings.interval.map_or(NextStep::WhenSignalled, NextStep::After);
        if std::mem::take(&mut self.skips_next_scan) {
            return Ok(next);
        }
        if !self.space.index_watermark.wait(self.space.vfs.feed().last_seq().0, Duration::ZERO) {
            return Ok(NextStep::After(RETRY_INTERVAL));
        }
        let summary =
            self.space.survey_cache.rebuild_survey(&self.space, self.clock.now(), self.settings.stale_days)?;
        tracing::info!(
            space = self.space.name,
            pages = summary.scanned,
            healthy = summary.healthy,
            findings = summary.findings,
            "content quality survey finished"
        );
        Ok(next)
    }
}
