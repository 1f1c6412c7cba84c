//! What an operation may touch.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use svcfs_base::{ApplyResult, Caller, ChangeSet, Clock, Fault, Seq, Timestamp};
use svcfs_config::{KeyDigest, PublicUrl, Settings, SpaceVisibility};
use svcfs_index::Index;
use svcfs_store::UsageCounts;
use svcfs_vfs::Vfs;
use svcfs_work::{TaskReports, TaskStatus, Watermark};

use crate::access::{AccessControl, RequestLimiter};
use crate::audit::{self, AuditRecorder};
use crate::content_quality;
use crate::graph::AnalysisCache;
use crate::metrics::{FlushTimes, ServerMetrics};
use crate::search::RecheckQueue;
use crate::spaces::SpaceCollection;

use super::MinSeq;
use super::freshness::{IndexFreshness, RequiredFreshness};
use super::response_meta::{self, MetaCollector, ResponseMeta};

/// How long a question waits for the index to have read everything accepted before it.
const INDEX_PATIENCE: Duration = Duration::from_secs(2);

/// The longest that a write is delayed because the index is behind.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(100);

/// How long a question waits for a position that it names.
const AT_LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// When to ask again for one that was not reached.
const AT_LEAST_RETRY: Duration = Duration::from_secs(2);

/// How far an index has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexProgress {
    /// Whether it has read every change of the tree.
    pub complete: bool,
    /// How many it has not read.
    pub behind: u64,
}

/// One knowledge base: a tree and what is derived from it.
pub struct Space {
    /// Name in URLs and headers.
    pub name: String,
    /// The tree and its history.
    pub vfs: Arc<Vfs>,
    /// What is derived from the tree; ask through [`Cx::index`], which waits for the caller's own writes.
    pub index: Arc<Index>,
    /// The change feed's position up to which the index has read; the indexer raises it after each step.
    pub index_watermark: Watermark,
    /// How fresh answers of the index must be.
    pub freshness: Arc<IndexFreshness>,
    /// What the index read while it was not as recorded.
    pub recheck_queue: RecheckQueue,
    /// What readers asked for; ask through [`Cx::usage`].
    pub usage: UsageCounts,
    /// The last look at how the tree is doing.
    pub survey_cache: content_quality::SurveyCache,
    /// What was worked out about the links between pages.
    pub graph: AnalysisCache,
    /// Who asked for what; none where that is not kept.
    pub audit: Option<Arc<AuditRecorder>>,
    /// Its settings.
    pub settings: Settings,
    /// How long its disk takes.
    pub flush_times: FlushTimes,
    tasks: OnceLock<TaskReports>,
    visibility: RwLock<SpaceVisibility>,
}

impl Space {
    /// A space whose index has read the feed up to `indexed`.
    pub fn new(
        name: impl Into<String>,
        vfs: Arc<Vfs>,
        (index, indexed): (Arc<Index>, Seq),
        usage: UsageCounts,
        settings: Settings,
    ) -> Self {
        let audit = settings.audit.as_ref().map(|audit| Arc::new(AuditRecorder::new(vfs.root(), audit)));
        let name = name.into();
        audit.iter().for_each(|audit| audit::follow(&vfs, audit, &name));
        Self {
            name,
            flush_times: FlushTimes::new(&vfs),
            freshness: IndexFreshness::follow(&vfs),
            tasks: OnceLock::new(),
            audit,
            vfs,
            index,
            index_watermark: Watermark::new(indexed.0),
            recheck_queue: RecheckQueue::default(),
            usage,
            survey_cache: content_quality::SurveyCache::default(),
            graph: AnalysisCache::default(),
            visibility: RwLock::new(settings.visibility),
            settings,
        }
    }
    /// How the background tasks that were started for it are doing.
    pub fn tasks(&self) -> Vec<TaskStatus> {
        self.tasks.get().map(TaskReports::all).unwrap_or_default()
    }
    /// Has its background tasks told of by these reports.
    pub(crate) fn attended(&self, tasks: TaskReports) {
        // Started anew by the same supervisor, if ever.
        let _only_the_first = self.tasks.set(tasks);
    }
    /// As [`Cx::index_within`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn index_within(&self, patience: Duration) -> Result<&Index, Fault> {
        match self.wait_for_everything(patience) {
            Ok(()) if self.recheck_queue.wait_for_look(patience) => Ok(&self.index),
            Ok(()) => Err(Fault::unavailable(
                "the search index has pages that are not as recorded, and did not look at them again; try again in a moment",
            )),
            Err(accepted) => {
                let behind = accepted.0.saturating_sub(self.index_watermark.level());
                Err(Fault::unavailable(format!(
                    "the search index is behind (changes to read: {behind}); try again in a moment"
                )))
            }
        }
    }
    /// Waits until the index has read the changes up to a position, which it does without delay; false when that takes longer.
    pub fn wait_for_index(&self, position: Seq, timeout: Duration) -> bool {
        if self.index_watermark.level() >= position.0 {
            return true;
        }
        self.freshness.demand(position);
        self.index_watermark.wait(position.0, timeout)
    }
    /// Waits until the index has read everything accepted so far; else up to where that is.
    fn wait_for_everything(&self, timeout: Duration) -> Result<(), Seq> {
        // A save through the mount is accepted before it is announced; a question asked after it must still see it.
        let accepted = self.vfs.wait_applied().unwrap_or_else(|_| self.vfs.last_seq());
        if self.wait_for_index(accepted, timeout) { Ok(()) } else { Err(accepted) }
    }
    /// Waits until the index is as fresh as a question of this caller must have it; else the position that it has not read.
    fn wait_for_fresh_index(&self, caller: &Caller, timeout: Duration) -> Result<(), Seq> {
        let (required, queued) = self.freshness.required(caller, (self.index_watermark.level(), Instant::now()));
        match required {
            RequiredFreshness::Everything => {
                let outcome = self.wait_for_everything(timeout);
                self.freshness.announced(queued, self.vfs.last_seq());
                outcome
            }
            RequiredFreshness::Position(position) if self.wait_for_index(position, timeout) => Ok(()),
            RequiredFreshness::Position(position) => Err(position),
        }
    }
    /// Who may read it without credentials.
    pub fn visibility(&self) -> SpaceVisibility {
        *self.visibility.read()
    }
    /// Waits before a write of this caller is answered. With `search.async_index = false`, until the index has read what its client wrote, at
    /// most 2 s; false when that is not enough. Otherwise only while questions are asked and the index is behind, at most 100 ms.
    pub fn wait_for_indexed_writes(&self, caller: &Caller) -> bool {
        if !self.settings.search.async_index {
            return self.wait_for_index(self.freshness.own(caller), INDEX_PATIENCE);
        }
        if let Some(delay) = self.freshness.delay(caller, (self.index_watermark.level(), Instant::now())) {
            self.wait_for_index(delay.position, MAX_WRITE_DELAY);
        }
        true
    }
    /// What its index does not know yet, for whoever reads an answer of it; none when it knows everything.
    pub fn index_lag(&self) -> Option<String> {
        self.index_lag_at(self.vfs.last_seq())
    }
    /// The same of the changes up to a position.
    fn index_lag_at(&self, last: Seq) -> Option<String> {
        let read = self.index_watermark.level();
        response_meta::lag(read, last.0, self.freshness.age(read, Instant::now()))
    }
    /// How far its index has come.
    pub fn index_progress(&self) -> IndexProgress {
        let behind = self.vfs.last_seq().0.saturating_sub(self.index_watermark.level());
        IndexProgress { complete: behind == 0, behind }
    }
    /// Whether its disk takes what is written: pages, and who asked for what.
    ///
    /// # Errors
    /// What the disk said.
    pub fn check_storage(&self) -> Result<(), Fault> {
        self.vfs.health()?;
        match self.audit.as_ref().and_then(|audit| audit.status().last_error) {
            Some(trouble) => Err(Fault::unavailable(format!("the audit log cannot be written: {trouble}"))),
            None => Ok(()),
        }
    }
    /// Writes what waits to be kept of who asked for what, at the end.
    pub fn flush_audit(&self) {
        let Some(audit) = &self.audit else { return };
        if let Err(fault) = audit.flush() {
            let lost = audit.status().pending;
            tracing::error!(space = self.name, lost, error = ?fault, "the end of the audit log could not be written");
        }
    }
    /// Lets others read it without credentials, or no longer.
    pub fn set_visibility(&self, visibility: SpaceVisibility) {
        *self.visibility.write() = visibility;
    }
}

/// Everything a running server has: its spaces, the first of which is the primary one, and its settings, which are that space's.
pub struct ServerState {
    spaces: SpaceCollection,
    clock: Arc<dyn Clock>,
    access: AccessControl,
    /// None for as often as they like.
    limiter: Option<RequestLimiter>,
    started: Timestamp,
    vitals: ServerMetrics,
}

impl ServerState {
    /// A server of these spaces, started now, for whom `access` lets in.
    pub fn new(spaces: SpaceCollection, clock: Arc<dyn Clock>, access: AccessControl) -> Self {
        let limiter = spaces.first().settings.server.rate_limit.map(RequestLimiter::new);
        Self { spaces, started: clock.now(), clock, access, limiter, vitals: ServerMetrics::default() }
    }
    /// The space that answers when none is named.
    pub fn primary(&self) -> &Arc<Space> {
        self.spaces.first()
    }
    /// Every space.
    pub fn spaces(&self) -> &SpaceCollection {
        &self.spaces
    }
    /// The settings of the server.
    pub fn settings(&self) -> &Settings {
        &self.primary().settings
    }
    /// Who may ask.
    pub fn access(&self) -> &AccessControl {
        &self.access
    }
    /// Counts one request of whoever has this key, else of this address (contract 8).
    ///
    /// # Errors
    /// `RateLimited`, with the seconds to wait.
    pub fn check_rate_limit(&self, key: Option<&KeyDigest>, address: IpAddr) -> Result<(), Fault> {
        self.limiter.as_ref().map_or(Ok(()), |limiter| limiter.admit(key, address))
    }
    /// How it is doing.
    pub fn metrics(&self) -> &ServerMetrics {
        &self.vitals
    }
    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
    /// When the server started.
    pub fn started_at(&self) -> Timestamp {
        self.started
    }
}

/// What an operation may touch: one space, on behalf of one caller.
pub struct OperationContext<'a> {
    /// The space asked.
    pub space: &'a Space,
    /// Who asks, and under which precondition.
    pub caller: &'a Caller,
    server: &'a ServerState,
    remarks: MetaCollector,
}

impl<'a> OperationContext<'a> {
    /// The context of one call.
    pub fn new(server: &'a ServerState, space: &'a Space, caller: &'a Caller) -> Self {
        Self { space, caller, server, remarks: MetaCollector::default() }
    }
    /// Has the caller told, beside the answer.
    pub fn add_note(&self, note: impl Into<String>) {
        self.remarks.note(note.into());
    }
    /// Has the caller told how many entries there are in all, of a list that has so many of them.
    pub fn set_total(&self, total: usize, shown: usize) {
        self.remarks.total(total, shown);
    }
    /// What is told beside the answer.
    pub fn response_meta(&self) -> ResponseMeta {
        self.remarks.all()
    }
    /// Changes the tree: all of the set or none.
    ///
    /// # Errors
    /// What the vfs refuses.
    pub fn apply(&self, set: impl Into<ChangeSet>) -> Result<ApplyResult, Fault> {
        self.space.vfs.apply(self.caller, set)
    }
    /// The index, once it has read every change that this caller's client made before, so that it finds what it wrote, and every change of
    /// others that is older than half a second. An answer without newer ones says so.
    ///
    /// The wait is bounded (2 s): while a large tree is being read in, an older answer is better than none, and says so.
    pub fn index(&self) -> &Index {
        let last = self.space.vfs.last_seq();
        if let Err(required) = self.space.wait_for_fresh_index(self.caller, INDEX_PATIENCE) {
            tracing::warn!(
                space = self.space.name,
                index.seq = self.space.index_watermark.level(),
                feed.seq = required.0,
                "the index is behind; answering from what it has"
            );
            let lag = self.space.index_lag();
            self.add_note(lag.unwrap_or_else(|| "the search index was behind a moment ago".to_owned()));
        } else if let Some(lag) = self.space.index_lag_at(last) {
            self.add_note(lag);
        }
        &self.space.index
    }
    /// The index, for whoever changes pages by what it says: never one that is behind. A page it has not read would be left out for
    /// good.
    ///
    /// # Errors
    /// `Unavailable` when it has not read everything accepted so far within this time.
    pub fn up_to_date_index(&self, patience: Duration) -> Result<&Index, Fault> {
        self.space.index_within(patience)
    }
    /// What readers asked for, up to this moment.
    ///
    /// # Errors
    /// When the counts cannot be written.
    pub fn usage(&self) -> Result<&UsageCounts, Fault> {
        self.space.usage.flush(self.now())?;
        Ok(&self.space.usage)
    }
    /// The index, once it has read the change at this position of the log; without one, as [`Cx::index`].
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a position the log has not reached; [`Kind::Unavailable`], with the seconds after which to ask again, when
    /// the index has not read that far within 10 s.
    pub fn index_at_seq(&self, position: MinSeq) -> Result<&Index, Fault> {
        self.index_having_read(position.0, AT_LEAST_PATIENCE)
    }
    /// As [`Cx::index_at_least`], waiting no longer than that.
    pub(crate) fn index_having_read(&self, position: Option<u64>, patience: Duration) -> Result<&Index, Fault> {
        let Some(position) = position else { return Ok(self.index()) };
        let last = self.space.vfs.wait_applied().unwrap_or_else(|_| self.space.vfs.last_seq()).0;
        if position > last {
            let why = format!("{position} lies ahead; the newest change of this space is {last}");
            return Err(Fault::invalid("at_least", why));
        }
        if !self.space.wait_for_index(Seq(position), patience) {
            let read = self.space.index_watermark.level();
            let why = format!("the search index has read the changes up to {read}, not yet {position}; ask again");
            return Err(Fault::unavailable(why).with_detail("retry_after", AT_LEAST_RETRY.as_secs()));
        }
        Ok(&self.space.index)
    }
    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.server.now()
    }
    /// How the server is doing.
    pub fn metrics(&self) -> &'a ServerMetrics {
        self.server.metrics()
    }
    /// The settings of the space.
    pub fn settings(&self) -> &'a Settings {
        &self.space.settings
    }
    /// How clients reach the server; none when it was not said.
    pub fn public_url(&self) -> Option<&'a PublicUrl> {
        self.server.settings().server.public_url.as_ref()
    }
    /// Every space of the server.
    pub fn spaces(&self) -> &'a SpaceCollection {
        self.server.spaces()
    }
}
