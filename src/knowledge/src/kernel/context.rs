//! The state that operations use: spaces, and the context of a call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Caller, CommitId, Fault, Protocol, Seq, Timestamp, TreePath};
use svcfs_config::{AuthSettings, PublicUrl, Settings, SpaceVisibility};
use svcfs_index::Index;
use svcfs_store::UsageCounts;
use svcfs_vfs::{CallerTree, Vfs};
use svcfs_work::{TaskReports, TaskStatus, Watermark};

use crate::audit::{self, AuditRecorder};
use crate::backup::BackupMonitor;
use crate::comments::CommentIndex;
use crate::content_quality;
use crate::graph::AnalysisCache;
use crate::idempotency::RequestAnswers;
use crate::limits::LimitCounters;
use crate::metrics::{FlushTimes, ServerMetrics};
use crate::publishing::{PublishingCaches, ViewCounts};
use crate::schemas::SchemaRegistry;
use crate::search::RecheckQueue;
use crate::shares::ShareRegistry;
use crate::spaces::SpaceCollection;
use crate::tasks::TaskQueue;
use crate::webhooks::Webhooks;
use crate::workflows::BoardCache;

use super::changes::DryRun;
use super::freshness::{IndexFreshness, RequiredFreshness};
use super::response_meta::{self, MetaCollector, ResponseMeta};
use super::{MinSeq, NoticeBoard, ServerState};

const INDEX_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_WRITE_DELAY: Duration = Duration::from_millis(100);
const MIN_SEQ_TIMEOUT: Duration = Duration::from_secs(10);
const MIN_SEQ_RETRY_AFTER: Duration = Duration::from_secs(2);

/// Progress of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexProgress {
    /// Whether all changes are indexed.
    pub complete: bool,
    /// Number of changes that are not indexed yet.
    pub behind: u64,
}

/// A knowledge base: a tree and what is derived from it.
pub struct Space {
    /// Name in URLs and headers.
    pub name: String,
    /// The tree and its history.
    pub vfs: Arc<Vfs>,
    /// The index. Operations use [`OperationContext::index`], which waits for the caller's writes.
    pub index: Arc<Index>,
    /// The vectors of its pages; none if disabled. Operations use `PageVectors::of`.
    pub vectors: Option<Arc<crate::vectors::PageVectors>>,
    /// The feed position up to which the index is current; the indexer raises it after each step.
    pub index_watermark: Watermark,
    /// How current answers of the index must be.
    pub freshness: Arc<IndexFreshness>,
    /// Pages that the index read while their content differed from the log.
    pub recheck_queue: RecheckQueue,
    /// Usage statistics. Operations use [`OperationContext::usage`].
    pub usage: UsageCounts,
    /// The tasks that can be started.
    pub task_queue: TaskQueue,
    /// Serialises operations that create a page unless the index knows one that is the same.
    pub creation_lock: Mutex<()>,
    /// Links to single pages.
    pub shares: ShareRegistry,
    /// Webhooks; none if disabled.
    pub webhooks: Option<Arc<Webhooks>>,
    /// Events that are no change of a file.
    pub notices: NoticeBoard,
    /// How often published pages are read.
    pub view_counts: ViewCounts,
    /// What is kept of rendered pages.
    pub publishing: PublishingCaches,
    /// Where comments are.
    pub comments: CommentIndex,
    /// The last content quality survey.
    pub survey_cache: content_quality::SurveyCache,
    /// Cached analyses of the link graph.
    pub graph: AnalysisCache,
    /// The schemas of pages.
    pub schemas: Arc<SchemaRegistry>,
    /// The audit log; none if disabled.
    pub audit: Option<Arc<AuditRecorder>>,
    /// Its settings.
    pub settings: Settings,
    /// Its backups.
    pub backup: BackupMonitor,
    /// Durations of disk flushes.
    pub flush_times: FlushTimes,
    /// Locked while a page takes a place in a workflow state with a limit.
    pub workflow_places: Mutex<()>,
    /// Cached boards of workflows.
    pub boards: BoardCache,
    /// Long calls of agents.
    pub jobs: crate::jobs::JobRegistry,
    /// What its agents changed a short time ago.
    pub agent_limits: LimitCounters,
    /// Answers to requests that their clients may send again.
    pub request_answers: RequestAnswers,
    tasks: OnceLock<TaskReports>,
    visibility: RwLock<SpaceVisibility>,
}

impl Space {
    /// A space whose index is current up to the feed position `indexed`.
    pub fn new(
        name: impl Into<String>,
        vfs: Arc<Vfs>,
        (index, indexed): (Arc<Index>, Seq),
        (usage, shares, view_counts): (UsageCounts, ShareRegistry, ViewCounts),
        settings: Settings,
    ) -> Self {
        let audit = settings.audit.as_ref().map(|audit| Arc::new(AuditRecorder::new(vfs.root(), audit)));
        let name = name.into();
        audit.iter().for_each(|audit| audit::follow(&vfs, audit, &name));
        Self {
            name,
            backup: BackupMonitor::new(vfs.root(), &settings.backup),
            flush_times: FlushTimes::new(&vfs),
            freshness: IndexFreshness::follow(&vfs),
            tasks: OnceLock::new(),
            workflow_places: Mutex::default(),
            boards: BoardCache::default(),
            jobs: crate::jobs::JobRegistry::new(&vfs.state_directory()),
            agent_limits: LimitCounters::new(settings.agent_limits),
            request_answers: RequestAnswers::new(vfs.root()),
            audit,
            vfs,
            index,
            index_watermark: Watermark::new(indexed.0),
            recheck_queue: RecheckQueue::default(),
            usage,
            task_queue: TaskQueue::default(),
            creation_lock: Mutex::default(),
            shares,
            webhooks: None,
            vectors: None,
            notices: NoticeBoard::default(),
            view_counts,
            publishing: PublishingCaches::default(),
            comments: CommentIndex::default(),
            survey_cache: content_quality::SurveyCache::default(),
            graph: AnalysisCache::default(),
            schemas: Arc::default(),
            visibility: RwLock::new(settings.visibility),
            settings,
        }
    }
    /// The same space with these schemas, which its gates use too.
    #[must_use]
    pub fn with_schemas(self, schemas: Arc<SchemaRegistry>) -> Self {
        schemas.attach(&self.vfs);
        Self { schemas, ..self }
    }
    /// The same space with webhooks.
    #[must_use]
    pub fn with_webhooks(self, webhooks: Option<Arc<Webhooks>>) -> Self {
        Self { webhooks, ..self }
    }
    /// The status of its background tasks.
    pub fn tasks(&self) -> Vec<TaskStatus> {
        self.tasks.get().map(TaskReports::all).unwrap_or_default()
    }
    pub(crate) fn set_tasks(&self, tasks: TaskReports) {
        // Later calls come from the same supervisor.
        let _ignored = self.tasks.set(tasks);
    }
    /// As [`OperationContext::up_to_date_index`].
    pub(crate) fn index_within(&self, timeout: Duration) -> Result<&Index, Fault> {
        match self.wait_for_all(timeout) {
            Ok(()) if self.recheck_queue.wait_for_recheck(timeout) => Ok(&self.index),
            Ok(()) => Err(Fault::unavailable("the search index is still re-reading changed pages; try again later")),
            Err(accepted) => {
                let behind = accepted.0.saturating_sub(self.index_watermark.level());
                Err(Fault::unavailable(format!("the search index is {behind} changes behind; try again later")))
            }
        }
    }
    /// Waits until the index is current up to a position, with priority; false on timeout.
    pub fn wait_for_index(&self, position: Seq, timeout: Duration) -> bool {
        if self.index_watermark.level() >= position.0 {
            return true;
        }
        self.freshness.demand(position);
        self.index_watermark.wait(position.0, timeout)
    }
    /// Waits until everything accepted so far is indexed. On timeout returns the missing position.
    fn wait_for_all(&self, timeout: Duration) -> Result<(), Seq> {
        // A save through the mount is accepted before it is announced; a later read must see it.
        let accepted = self.vfs.wait_applied().unwrap_or_else(|_| self.vfs.last_seq());
        if self.wait_for_index(accepted, timeout) { Ok(()) } else { Err(accepted) }
    }
    /// As [`wait_for_all`](Self::wait_for_all), as far as a read of this caller requires.
    fn wait_for_fresh_index(&self, caller: &Caller, timeout: Duration) -> Result<(), Seq> {
        let (required, queued) = self.freshness.required(caller, (self.index_watermark.level(), Instant::now()));
        match required {
            RequiredFreshness::Everything => {
                let outcome = self.wait_for_all(timeout);
                self.freshness.record_announced(queued, self.vfs.last_seq());
                outcome
            }
            RequiredFreshness::Position(position) if self.wait_for_index(position, timeout) => Ok(()),
            RequiredFreshness::Position(position) => Err(position),
        }
    }
    /// Who may read the space without credentials.
    pub fn visibility(&self) -> SpaceVisibility {
        *self.visibility.read()
    }
    /// Waits before a write of this caller is answered. With `search.async_index = false`: until
    /// the client's own writes are indexed, at most 2 s; false on timeout. Otherwise only while
    /// there are reads and the index is behind, at most 100 ms.
    pub fn wait_for_indexed_writes(&self, caller: &Caller) -> bool {
        if !self.settings.search.async_index {
            return self.wait_for_index(self.freshness.last_own_change(caller), INDEX_TIMEOUT);
        }
        if let Some(write) = self.freshness.delay_write(caller, (self.index_watermark.level(), Instant::now())) {
            self.wait_for_index(write.position, MAX_WRITE_DELAY);
        }
        true
    }
    /// A note for readers about changes that are not indexed yet; none if there are none.
    pub fn index_lag(&self) -> Option<String> {
        self.index_lag_at(self.vfs.last_seq())
    }
    /// The same for changes up to a position.
    fn index_lag_at(&self, last: Seq) -> Option<String> {
        let read = self.index_watermark.level();
        response_meta::lag(read, last.0, self.freshness.age(read, Instant::now()))
    }
    /// Progress of its index.
    pub fn index_progress(&self) -> IndexProgress {
        let behind = self.vfs.last_seq().0.saturating_sub(self.index_watermark.level());
        IndexProgress { complete: behind == 0, behind }
    }
    /// Checks that pages and the audit log can be written to disk.
    ///
    /// # Errors
    /// The last I/O error.
    pub fn check_storage(&self) -> Result<(), Fault> {
        self.vfs.health()?;
        match self.audit.as_ref().and_then(|audit| audit.status().last_error) {
            Some(error) => Err(Fault::unavailable(format!("cannot write the audit log: {error}"))),
            None => Ok(()),
        }
    }
    /// Writes the queued audit entries and the views of shares at shutdown.
    pub fn flush_records(&self) {
        // Shares that expired meanwhile are removed at the next start.
        if let Err(error) = self.shares.flush(Timestamp::UNIX_EPOCH) {
            tracing::error!(space = self.name, %error, "cannot write the last views of shares");
        }
        if let Err(error) = self.view_counts.flush() {
            tracing::error!(space = self.name, %error, "cannot write the last views of published pages");
        }
        let Some(audit) = &self.audit else { return };
        if let Err(fault) = audit.flush() {
            let dropped = audit.status().pending;
            tracing::error!(space = self.name, dropped, error = ?fault, "cannot write the last audit log entries");
        }
    }
    /// Sets who may read the space without credentials.
    pub fn set_visibility(&self, visibility: SpaceVisibility) {
        *self.visibility.write() = visibility;
    }
}

/// The context of a call: one space, on behalf of one caller.
pub struct OperationContext<'a> {
    /// The space of the call.
    pub space: &'a Space,
    /// The caller and its precondition.
    pub caller: &'a Caller,
    server: &'a ServerState,
    pub(super) meta: MetaCollector,
    pub(super) dry_run: DryRun,
    /// Whether the limits of agents do not apply to the operation.
    is_unlimited: AtomicBool,
}

impl<'a> OperationContext<'a> {
    /// The context of one call.
    pub fn new(server: &'a ServerState, space: &'a Space, caller: &'a Caller) -> Self {
        let (meta, dry_run, is_unlimited) = Default::default();
        Self { space, caller, server, meta, dry_run, is_unlimited }
    }
    /// The context of the same call in another space.
    pub(crate) fn in_space<'s>(&self, space: &'s Space) -> OperationContext<'s>
    where
        'a: 's,
    {
        OperationContext {
            is_unlimited: AtomicBool::new(self.is_unlimited()),
            ..OperationContext::new(self.server, space, self.caller)
        }
    }
    /// Declares that the limits of agents do not apply (`Operation::LIMITED`).
    pub(super) fn lift_limits(&self) {
        self.is_unlimited.store(true, Ordering::Relaxed);
    }
    /// Whether the limits of agents do not apply to the operation.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.is_unlimited.load(Ordering::Relaxed)
    }
    /// Adds a note to the response.
    pub fn add_note(&self, note: impl Into<String>) {
        self.meta.note(note.into());
    }
    /// Sets the total number of entries of a list, of which `shown` are in the output.
    pub fn set_total(&self, total: usize, shown: usize) {
        self.meta.total(total, shown);
    }
    /// Sets the commit whose tree is read.
    pub(super) fn set_as_of(&self, commit: CommitId) {
        self.meta.as_of(commit);
    }
    /// The notes and totals added so far.
    pub fn response_meta(&self) -> ResponseMeta {
        self.meta.all()
    }
    /// The caller with the name in the request, unless its key or header has one; without any, a
    /// caller over HTTP gets the default name.
    pub(crate) fn named_caller(&self, actor: Option<Actor>, default: &str) -> Caller {
        let default = || (self.caller.protocol == Protocol::Http).then(|| Actor::new(default));
        Caller { actor: self.caller.actor.clone().or(actor).or_else(default), ..self.caller.clone() }
    }
    /// The tree as the caller sees it: with its draft over it, if it may only propose changes.
    pub fn tree(&self) -> CallerTree<'a> {
        self.space.vfs.tree_of(self.caller)
    }
    /// Whether the caller's changes of pages go into a draft.
    pub fn is_proposing(&self) -> bool {
        self.caller.permissions.is_proposing()
    }
    /// A commit message for the caller: without hidden files, and empty for a key of a folder.
    pub fn visible_message(&self, message: String) -> String {
        let message = self.caller.permissions.redact_message(message);
        let hides = |line: &str| {
            line.contains('.') && TreePath::parse(line).is_ok_and(|path| self.space.vfs.hidden_files().hides(&path))
        };
        if !self.caller.protocol.serves_knowledge_only() || !message.lines().skip(1).any(hides) {
            return message;
        }
        let lines = message.lines().enumerate().filter(|(at, line)| *at == 0 || !hides(line)).map(|(_, line)| line);
        lines.collect::<Vec<_>>().join("\n")
    }
    /// The index, current for this caller: with every change that its client made before, and every
    /// change of other clients older than half a second. A note is added if newer changes are
    /// missing.
    ///
    /// The wait is limited to 2 s: while a large tree is indexed, an older answer with a note is
    /// better than none.
    pub fn index(&self) -> &Index {
        self.note_unindexed_draft();
        let last = self.space.vfs.last_seq();
        if let Err(required) = self.space.wait_for_fresh_index(self.caller, INDEX_TIMEOUT) {
            tracing::warn!(
                space = self.space.name,
                index.seq = self.space.index_watermark.level(),
                feed.seq = required.0,
                "the search index is behind; answering from an older state"
            );
            let lag = self.space.index_lag();
            self.add_note(lag.unwrap_or_else(|| "the search index was behind during this request".to_owned()));
        } else if let Some(lag) = self.space.index_lag_at(last) {
            self.add_note(lag);
        }
        &self.space.index
    }
    /// Notes for a caller with a draft that the index does not contain it.
    fn note_unindexed_draft(&self) {
        if self.tree().is_draft() {
            self.add_note("links and search results are those of the tree: a draft is not indexed");
        }
    }
    /// The index with everything accepted so far, for operations that change pages by its content:
    /// a page it does not know would be missed forever.
    ///
    /// # Errors
    /// `Unavailable` on timeout.
    pub fn up_to_date_index(&self, timeout: Duration) -> Result<&Index, Fault> {
        self.space.index_within(timeout)
    }
    /// The usage statistics, including pending counts.
    ///
    /// # Errors
    /// If the counts cannot be written.
    pub fn usage(&self) -> Result<&UsageCounts, Fault> {
        self.space.usage.flush(self.now())?;
        Ok(&self.space.usage)
    }
    /// The index, current up to this log position; without one, as [`index`](Self::index).
    ///
    /// # Errors
    /// `Invalid` for a position the log has not reached; `Unavailable`, with the seconds to wait,
    /// if it is not indexed within 10 s.
    pub fn index_at_seq(&self, position: MinSeq) -> Result<&Index, Fault> {
        self.index_at_seq_within(position.0, MIN_SEQ_TIMEOUT)
    }
    /// As [`index_at_seq`](Self::index_at_seq), with a timeout.
    pub(crate) fn index_at_seq_within(&self, position: Option<u64>, timeout: Duration) -> Result<&Index, Fault> {
        let Some(position) = position else { return Ok(self.index()) };
        self.note_unindexed_draft();
        let last = self.space.vfs.wait_applied().unwrap_or_else(|_| self.space.vfs.last_seq()).0;
        if position > last {
            let message = format!("{position} is not reached yet; the newest change of this space is {last}");
            return Err(Fault::invalid("at_least", message));
        }
        if !self.space.wait_for_index(Seq(position), timeout) {
            let read = self.space.index_watermark.level();
            let message = format!("the search index has changes up to {read}, not yet {position}; try again later");
            return Err(Fault::unavailable(message).with_detail("retry_after", MIN_SEQ_RETRY_AFTER.as_secs()));
        }
        Ok(&self.space.index)
    }
    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.server.now()
    }
    /// The metrics of the server.
    pub fn metrics(&self) -> &'a ServerMetrics {
        self.server.metrics()
    }
    /// The settings of the space.
    pub fn settings(&self) -> &'a Settings {
        &self.space.settings
    }
    /// Whether the server authenticates its callers.
    pub fn needs_credentials(&self) -> bool {
        self.server.settings().auth != AuthSettings::None
    }
    /// The server's public address, if set.
    pub fn public_url(&self) -> Option<&'a PublicUrl> {
        self.server.settings().server.public_url.as_ref()
    }
    /// All spaces of the server.
    pub fn spaces(&self) -> &'a SpaceCollection {
        self.server.spaces()
    }
}
