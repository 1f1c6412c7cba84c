//! The task that keeps computed pages up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::{Clock, Fault, Kind, Protocol, Seq, TreePath};
use svcfs_config::DataviewSettings;
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use super::computed_pages::{self, ComputedQuery, RefreshOutcome};
use crate::kernel::Space;

/// Changes read at once.
const BATCH: usize = 100;
/// How long after a write that may change an answer the query is asked again: writes that come together are answered together.
const QUIET: Duration = Duration::from_millis(300);
/// After a page that took so long, this many times as long is rested: however many pages are computed, others come first.
const RESTS: u32 = 4;
/// How long the task waits for the index before it looks whether it is to stop.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it sleeps when nobody wakes it.
const SLEEP: Duration = Duration::from_secs(300);

/// Follows the change feed of one space, and asks the query of a computed page again after writes that may change its answer.
///
/// What svcfs itself writes sets off nothing: an answer that looks at computed pages (at their size, say) would otherwise change with
/// each of its own versions, for ever.
pub struct ViewRefresher {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
    settings: DataviewSettings,
    /// Up to where changes were read; none before the first look.
    read: Option<Seq>,
    /// The computed pages, each with what the paths of the pages begin with that its answer hangs on.
    pages: BTreeMap<TreePath, Option<String>>,
    /// Those whose answer may have changed.
    stale: BTreeSet<TreePath>,
    /// When the next one is asked.
    due: Instant,
}

impl ViewRefresher {
    /// The refresher of a space.
    pub fn new(space: Arc<Space>, clock: Arc<dyn Clock>, settings: DataviewSettings) -> Self {
        let (pages, stale) = (BTreeMap::new(), BTreeSet::new());
        Self { space, clock, settings, read: None, pages, stale, due: Instant::now() }
    }

    /// Takes in what was changed since the last time; false while the index has not read it.
    fn follow(&mut self) -> Result<bool, Fault> {
        let Some(read) = self.read else {
            return self.begin();
        };
        loop {
            let events = self.space.vfs.feed().events_after(self.read.unwrap_or(read), BATCH)?;
            let Some(last) = events.last().map(|event| event.seq) else {
                return Ok(true);
            };
            if !self.space.index_watermark.wait(last.0, PATIENCE) {
                return Ok(false);
            }
            let others = events.iter().filter(|event| event.protocol != Protocol::Internal);
            let paths = others.flat_map(|event| &event.changes).map(|change| &change.path);
            let paths: BTreeSet<&TreePath> = paths.filter(|path| path.is_page() && !path.is_hidden()).collect();
            for path in paths {
                self.written(path)?;
            }
            self.read = Some(last);
        }
    }

    /// Finds the computed pages. What was written while nobody followed may have changed the answer of each.
    fn begin(&mut self) -> Result<bool, Fault> {
        let start = self.space.vfs.feed().last_seq();
        if !self.space.index_watermark.wait(start.0, PATIENCE) {
            return Ok(false);
        }
        for page in self.space.index.pages_with_keys(&[computed_pages::FLAG])? {
            self.written(&page.path)?;
        }
        self.read = Some(start);
        Ok(true)
    }

    /// A page was written, or is gone.
    fn written(&mut self, path: &TreePath) -> Result<(), Fault> {
        let was_fresh = self.stale.is_empty();
        let page = self.space.index.page(path)?.filter(|page| computed_pages::is_computed(&page.frontmatter));
        match page.map(|page| ComputedQuery::read(path, &page.frontmatter)) {
            Some(Ok(asked)) => {
                // Fields of the configuration may look at anything.
                let prefix = asked.query.path_prefix().filter(|_| self.settings.custom_fields.is_empty());
                self.pages.insert(path.clone(), prefix.map(str::to_owned));
                self.stale.insert(path.clone());
            }
            Some(Err(_)) => {
                // Nothing but the page itself changes that; it is told there.
                self.pages.remove(path);
                self.stale.insert(path.clone());
            }
            None => {
                self.pages.remove(path);
                self.stale.remove(path);
            }
        }
        let concerns = |prefix: &Option<String>| prefix.as_ref().is_none_or(|prefix| path.as_str().starts_with(prefix));
        let concerned = self.pages.iter().filter(|(_, prefix)| concerns(prefix)).map(|(page, _)| page.clone());
        self.stale.extend(concerned);
        if was_fresh {
            self.due = self.due.max(Instant::now() + QUIET);
        }
        Ok(())
    }

    /// Asks the query of the next page again.
    fn refresh(&mut self) {
        let Some(path) = self.stale.pop_first() else { return };
        let begun = Instant::now();
        let space = &self.space;
        match computed_pages::refresh(space, None, (&self.settings, self.clock.now()), &path) {
            Ok(RefreshOutcome::Regenerated) => {
                tracing::debug!(space = space.name, page = %path, "a computed page was written")
            }
            Ok(RefreshOutcome::Unchanged) => {}
            Err(fault) if matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed) => {
                // Whoever writes it all the time is a change that is still to be read.
            }
            Err(fault) => {
                if let Err(why) = computed_pages::tell_unreadable(space, &path) {
                    tracing::info!(space = space.name, page = %path, error = %why.message(), "nothing could be said of it");
                }
                tracing::info!(space = space.name, page = %path, error = %fault.message(), "a computed page is left as it is");
            }
        }
        self.due = Instant::now() + begun.elapsed() * RESTS;
    }
}

impl Task for ViewRefresher {
    const NAME: &'static str = "refresher";
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        if !self.follow()? {
            return Ok(NextStep::Now);
        }
        if self.stale.is_empty() {
            return Ok(NextStep::After(SLEEP));
        }
        let wait = self.due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            stop.wait(wait);
            return Ok(NextStep::Now);
        }
        self.refresh();
        Ok(NextStep::Now)
    }
}
