//! The task that looks through the tree from time to time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::Clock;
use svcfs_config::JanitorSettings;
use svcfs_work::{Failure, Next, Stop, Task};

use super::survey::Looking;
use crate::kernel::Space;

/// Looks through the tree of one space, in slices with rests between them, and keeps what it found for whoever asks.
pub struct Janitor {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
    settings: JanitorSettings,
    /// Whether the server started just now, so that the first scan is due an interval later.
    has_just_started: bool,
    /// A look that is under way.
    looking: Option<Looking>,
}

/// After how long it asks again whether the index has read the tree.
const PATIENCE: Duration = Duration::from_secs(1);

impl Janitor {
    /// The janitor of a space.
    pub fn new(space: Arc<Space>, clock: Arc<dyn Clock>, settings: JanitorSettings) -> Self {
        let has_just_started = !settings.startup_scan;
        Self { space, clock, settings, has_just_started, looking: None }
    }
}

impl Task for Janitor {
    const NAME: &'static str = "janitor";
    fn step(&mut self, _: &Stop) -> Result<Next, Failure> {
        let next = self.settings.interval.map_or(Next::WhenSignalled, Next::After);
        if std::mem::take(&mut self.has_just_started) {
            return Ok(next);
        }
        // After a failure one looks anew.
        let mut looking = match self.looking.take() {
            Some(looking) => looking,
            None if self.space.indexed.wait(self.space.vfs.feed().last().0, Duration::ZERO) => {
                Looking::begin(&self.space, self.clock.now(), self.settings.stale_days)?
            }
            None => return Ok(Next::After(PATIENCE)),
        };
        let begun = Instant::now();
        if looking.slice(&self.space)? {
            self.looking = Some(looking);
            // As long a rest as the slice took, for writers and other questions; the thread is others' meanwhile.
            return Ok(Next::After(begun.elapsed()));
        }
        let found = looking.end(&self.space)?;
        tracing::info!(
            space = self.space.name,
            pages = found.scanned,
            healthy = found.healthy,
            findings = found.findings.len(),
            "looked through the tree"
        );
        self.space.health.keep(found);
        Ok(next)
    }
}
