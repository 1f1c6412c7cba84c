//! The task that keeps computed pages up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use svcfs_base::{Clock, Fault, Kind, Protocol, Seq, TreePath};
use svcfs_config::DataviewSettings;
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use super::computed_pages::{self, ComputedQuery, RefreshOutcome};
use crate::kernel::Space;

const MAX_EVENTS: usize = 100;
/// Delay after a write that may change a result: writes within it cause one refresh.
const REFRESH_DELAY: Duration = Duration::from_millis(300);
/// After a refresh the task pauses for this many times its duration: other work comes first,
/// however many pages are computed.
const PAUSE_FACTOR: u32 = 4;
/// How long to wait for the index before checking for a stop request.
const INDEX_TIMEOUT: Duration = Duration::from_secs(1);
const IDLE_INTERVAL: Duration = Duration::from_secs(300);

/// Follows the change feed of one space, and refreshes a computed page after writes that may change
/// its result.
///
/// Writes by svcfs itself are ignored: otherwise a result that depends on computed pages (on their
/// size, for example) would change with each of its own versions, forever.
pub struct ViewRefresher {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
    settings: DataviewSettings,
    /// Position up to which events were read; none before the first scan.
    position: Option<Seq>,
    /// The computed pages, with the path prefix of pages that their result depends on, if known.
    pages: BTreeMap<TreePath, Option<String>>,
    stale: BTreeSet<TreePath>,
    due: Instant,
}

impl ViewRefresher {
    /// The refresher of a space.
    pub fn new(space: Arc<Space>, clock: Arc<dyn Clock>, settings: DataviewSettings) -> Self {
        let (pages, stale) = (BTreeMap::new(), BTreeSet::new());
        Self { space, clock, settings, position: None, pages, stale, due: Instant::now() }
    }

    /// Reads events since the last time; false while the index is behind.
    fn read_events(&mut self) -> Result<bool, Fault> {
        let Some(position) = self.position else {
            return self.scan();
        };
        loop {
            let events = self.space.vfs.feed().events_after(self.position.unwrap_or(position), MAX_EVENTS)?;
            let Some(last) = events.last().map(|event| event.seq) else {
                return Ok(true);
            };
            if !self.space.index_watermark.wait(last.0, INDEX_TIMEOUT) {
                return Ok(false);
            }
            let external = events.iter().filter(|event| event.protocol != Protocol::Internal);
            let paths = external.flat_map(|event| &event.changes).map(|change| &change.path);
            let is_knowledge = |path: &&TreePath| path.is_page() && self.space.vfs.hidden_files().lists(path);
            let paths: BTreeSet<&TreePath> = paths.filter(is_knowledge).collect();
            for path in paths {
                self.mark_changed(path)?;
            }
            self.position = Some(last);
        }
    }

    /// Finds the computed pages. All are stale: changes may have been missed before.
    fn scan(&mut self) -> Result<bool, Fault> {
        let start = self.space.vfs.feed().last_seq();
        if !self.space.index_watermark.wait(start.0, INDEX_TIMEOUT) {
            return Ok(false);
        }
        for page in self.space.index.pages_with_keys(&[computed_pages::FLAG_KEY])? {
            self.mark_changed(&page.path)?;
        }
        self.position = Some(start);
        Ok(true)
    }

    fn mark_changed(&mut self, path: &TreePath) -> Result<(), Fault> {
        let was_up_to_date = self.stale.is_empty();
        let page = self.space.index.page(path)?.filter(|page| computed_pages::is_computed(&page.frontmatter));
        match page.map(|page| self.computed_query(path, &page.frontmatter)) {
            Some(Ok(computed)) => {
                // Custom fields may depend on any page.
                let prefix = computed.path_prefix().filter(|_| self.settings.custom_fields.is_empty());
                self.pages.insert(path.clone(), prefix.map(str::to_owned));
                self.stale.insert(path.clone());
            }
            Some(Err(_)) => {
                // An invalid query depends only on its page; the error is written there.
                self.pages.remove(path);
                self.stale.insert(path.clone());
            }
            None => {
                self.pages.remove(path);
                self.stale.remove(path);
            }
        }
        let depends = |prefix: &Option<String>| prefix.as_ref().is_none_or(|prefix| path.as_str().starts_with(prefix));
        let dependent = self.pages.iter().filter(|(_, prefix)| depends(prefix)).map(|(page, _)| page.clone());
        self.stale.extend(dependent);
        if was_up_to_date {
            self.due = self.due.max(Instant::now() + REFRESH_DELAY);
        }
        Ok(())
    }

    /// The query of a page; its body is read only for a page without a query in the frontmatter.
    fn computed_query(&self, path: &TreePath, frontmatter: &Map<String, Value>) -> Result<ComputedQuery, Fault> {
        if frontmatter.contains_key(computed_pages::QUERY_KEY) {
            return ComputedQuery::read(path, frontmatter, "");
        }
        let file = self.space.vfs.read(Protocol::Internal, path)?;
        let text = String::from_utf8_lossy(&file.content);
        ComputedQuery::read(path, frontmatter, svcfs_text::frontmatter::split(&text).body)
    }

    fn refresh(&mut self) {
        let Some(path) = self.stale.pop_first() else { return };
        let started_at = Instant::now();
        let space = &self.space;
        match computed_pages::refresh(space, None, (&self.settings, self.clock.now()), &path) {
            Ok(RefreshOutcome::Regenerated) => {
                tracing::debug!(space = space.name, page = %path, "refreshed a computed page")
            }
            Ok(RefreshOutcome::Unchanged) => {}
            Err(fault) if matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed) => {
                // The concurrent write is an event that is still to be read.
            }
            Err(fault) => {
                if let Err(error) = computed_pages::write_query_error(space, &path) {
                    tracing::info!(space = space.name, page = %path, error = %error.message(), "cannot write the query error into a computed page");
                }
                tracing::info!(space = space.name, page = %path, error = %fault.message(), "cannot refresh a computed page");
            }
        }
        self.due = Instant::now() + started_at.elapsed() * PAUSE_FACTOR;
    }
}

impl Task for ViewRefresher {
    const NAME: &'static str = "refresher";
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        if !self.read_events()? {
            return Ok(NextStep::Now);
        }
        if self.stale.is_empty() {
            return Ok(NextStep::After(IDLE_INTERVAL));
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
