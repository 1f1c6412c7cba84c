//! The tasks that can be started, in memory and in order.
//!
//! Invariant: the queue follows the change feed and the claims, and is only a hint: a worker gets a
//! task after its claim has started and the stored page was checked.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use svcfs_base::{Fault, Protocol, Seq, TreePath};
use svcfs_text::page::{Page, tags_of_value};
use svcfs_vfs::ClaimEventKind;

use super::operations::EligibleTask;
use crate::kernel::Space;
use crate::workflows::blocker_names;

/// Change sets per read of the feed.
const BATCH_SETS: usize = 512;
/// With more changed pages than this, the queue is read from the index.
const MAX_CHANGED_PAGES: usize = 5_000;
/// How often it is read from the index in any case: the index corrects itself without an event.
const REBUILD_INTERVAL: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Default)]
pub struct TaskQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    /// The feed position that it has reached, and the last claim event.
    position: Seq,
    last_claim_event: u64,
    rebuilt_at: Option<Instant>,
    tasks: HashMap<TreePath, QueuedTask>,
    /// Tasks that may be started.
    ready: BTreeSet<(TaskOrder, TreePath)>,
    /// Tasks that wait, by the unfinished page they wait for.
    waiting: HashMap<TreePath, BTreeSet<TreePath>>,
    claimed: HashSet<TreePath>,
}

/// Sort key: priority, whether there is no date, the date.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TaskOrder(i64, bool, String);

struct QueuedTask {
    order: TaskOrder,
    answer: EligibleTask,
    dependencies: Vec<String>,
    /// What says whether it is finished.
    workflow_fields: Map<String, Value>,
    /// Lower case, without `#`.
    labels: Vec<String>,
}

/// Which tasks a caller wants.
pub(super) struct TaskFilter {
    pub below: TreePath,
    /// All of these.
    pub labels: Vec<String>,
}

impl TaskFilter {
    fn admits(&self, path: &TreePath, task: &QueuedTask) -> bool {
        path.is_under(&self.below) && self.labels.iter().all(|label| task.labels.contains(label))
    }
}

/// A label as it is compared.
pub(super) fn normalize_label(label: &str) -> String {
    label.trim().trim_start_matches('#').to_lowercase()
}

impl TaskQueue {
    /// Up to `limit` tasks that can be started, most urgent first.
    pub(super) fn list(&self, space: &Space, filter: &TaskFilter, limit: usize) -> Result<Vec<EligibleTask>, Fault> {
        let mut state = self.0.lock();
        state.refresh(space)?;
        let mut listed = Vec::new();
        let candidates: Vec<TreePath> = state.ready.iter().map(|(_, path)| path.clone()).collect();
        for path in candidates {
            if listed.len() == limit {
                break;
            }
            let Some(task) = state.tasks.get(&path).filter(|task| filter.admits(&path, task)) else { continue };
            let answer = task.answer.clone();
            if space.vfs.claim_at(&path).is_none() && state.is_startable(space, &path)? {
                listed.push(answer);
            }
        }
        Ok(listed)
    }

    /// Takes the most urgent task from the queue, so that other workers try the next one.
    pub(super) fn take(&self, space: &Space, filter: &TaskFilter) -> Result<Option<EligibleTask>, Fault> {
        let mut state = self.0.lock();
        state.refresh(space)?;
        loop {
            let matching = state
                .ready
                .iter()
                .find(|(_, path)| state.tasks.get(path).is_some_and(|task| filter.admits(path, task)));
            let Some((order, path)) = matching.cloned() else { return Ok(None) };
            if state.is_startable(space, &path)? {
                state.ready.remove(&(order, path.clone()));
                return Ok(state.tasks.get(&path).map(|task| task.answer.clone()));
            }
        }
    }

    /// Puts a task back that was taken and not claimed.
    pub(super) fn put_back(&self, path: &TreePath) {
        self.0.lock().set_ready(path);
    }
}

impl QueueState {
    /// Whether all dependencies of a ready task are finished; else it waits for them.
    fn is_startable(&mut self, space: &Space, path: &TreePath) -> Result<bool, Fault> {
        let Some(task) = self.tasks.get(path) else { return Ok(false) };
        let state = task.workflow_fields.get("state").and_then(Value::as_str);
        if state.is_some_and(|state| state.trim().eq_ignore_ascii_case(super::BLOCKED_STATE))
            || super::has_ended(space, task.workflow_fields.clone())
        {
            self.ready.remove(&(task.order.clone(), path.clone()));
            return Ok(false);
        }
        if task.dependencies.is_empty() {
            return Ok(true);
        }
        let unfinished = super::unfinished_dependencies(space, path, &task.dependencies)?;
        if unfinished.is_empty() {
            return Ok(true);
        }
        self.ready.remove(&(task.order.clone(), path.clone()));
        for page in unfinished {
            self.waiting.entry(page).or_default().insert(path.clone());
        }
        Ok(false)
    }

    fn set_ready(&mut self, path: &TreePath) {
        if let Some(task) = self.tasks.get(path)
            && !self.claimed.contains(path)
        {
            self.ready.insert((task.order.clone(), path.clone()));
        }
    }

    /// Brings the queue up to date.
    fn refresh(&mut self, space: &Space) -> Result<(), Fault> {
        let (claim_events, is_incomplete) = space.vfs.claim_events_after(self.last_claim_event);
        let is_old = self.rebuilt_at.is_none_or(|rebuilt_at| rebuilt_at.elapsed() > REBUILD_INTERVAL);
        if is_incomplete || is_old || space.vfs.last_seq() < self.position {
            return self.rebuild(space);
        }
        for event in claim_events {
            self.last_claim_event = event.number;
            match event.kind {
                ClaimEventKind::Claim => self.set_claimed(&event.claim.path),
                ClaimEventKind::Release | ClaimEventKind::Expire => {
                    self.claimed.remove(&event.claim.path);
                    self.set_ready(&event.claim.path);
                }
            }
        }
        if self.follow(space)? { Ok(()) } else { self.rebuild(space) }
    }

    fn set_claimed(&mut self, path: &TreePath) {
        self.claimed.insert(path.clone());
        if let Some(task) = self.tasks.get(path) {
            self.ready.remove(&(task.order.clone(), path.clone()));
        }
    }

    /// Reads the pages that changed since the last time; false when there are too many.
    fn follow(&mut self, space: &Space) -> Result<bool, Fault> {
        let mut changed = HashSet::new();
        let mut position = self.position;
        loop {
            let events = space.vfs.feed().events_after(position, BATCH_SETS)?;
            let Some(last) = events.last() else { break };
            position = last.seq;
            let pages = events.iter().flat_map(|event| &event.changes).filter(|change| change.path.is_page());
            changed.extend(pages.map(|change| change.path.clone()));
            if changed.len() > MAX_CHANGED_PAGES {
                return Ok(false);
            }
        }
        self.position = position;
        for path in changed {
            let is_listed = space.vfs.hidden_files().lists(&path);
            let file = if is_listed { space.vfs.read(Protocol::Internal, &path).ok() } else { None };
            let text = file.as_ref().and_then(|file| std::str::from_utf8(&file.content).ok());
            let task = text.and_then(|text| {
                let page = Page::parse(path.as_str(), text);
                QueuedTask::of(&path, &page.title, &page.frontmatter)
            });
            self.set(path, task);
        }
        Ok(true)
    }

    /// Replaces what is known of a page.
    fn set(&mut self, path: TreePath, task: Option<QueuedTask>) {
        if let Some(known) = self.tasks.remove(&path) {
            self.ready.remove(&(known.order, path.clone()));
        }
        for dependent in self.waiting.remove(&path).unwrap_or_default() {
            self.set_ready(&dependent);
        }
        if let Some(task) = task {
            self.tasks.insert(path.clone(), task);
            self.set_ready(&path);
        }
    }

    /// Reads all tasks from the index, and the changes that it does not have yet.
    fn rebuild(&mut self, space: &Space) -> Result<(), Fault> {
        *self = Self {
            // Read first: what changes meanwhile is read again.
            position: Seq(space.index_watermark.level()),
            last_claim_event: space.vfs.last_claim_event(),
            rebuilt_at: Some(Instant::now()),
            ..Self::default()
        };
        // None where claims are switched off.
        let claims = space.vfs.claims_below(&TreePath::root()).unwrap_or_default();
        self.claimed.extend(claims.into_iter().map(|claim| claim.path));
        for row in space.index.pages_with_status(super::OPEN_STATUS, &TreePath::root())? {
            if let Value::Object(fields) = &row.metadata {
                self.set(row.path.clone(), QueuedTask::of(&row.path, &row.title, fields));
            }
        }
        // While an index is built there are too many changes: they follow with it.
        self.follow(space).map(drop)
    }
}

impl QueuedTask {
    /// The task of a page; none when it is not open.
    fn of(path: &TreePath, title: &str, fields: &Map<String, Value>) -> Option<Self> {
        if !super::is_open(fields) {
            return None;
        }
        let (priority, (has_no_date, date)) = super::urgency(fields);
        // Bits of a float sort like an integer once negative ones are turned around.
        let bits = priority.to_bits().cast_signed();
        let priority = bits ^ (bits >> 63).cast_unsigned().wrapping_shr(1).cast_signed();
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let labels = ["labels", "tags"].iter().filter_map(|name| fields.get(*name)).flat_map(tags_of_value);
        Some(Self {
            order: TaskOrder(priority, has_no_date, date.to_owned()),
            answer: EligibleTask {
                path: path.clone(),
                title: title.to_owned(),
                status: field("status"),
                priority: field("priority"),
            },
            dependencies: blocker_names(&Value::Object(fields.clone())),
            workflow_fields: ["status", "workflow", "state"]
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), fields.get(*key)?.clone())))
                .collect(),
            labels: labels.map(|label| normalize_label(&label)).collect(),
        })
    }
}
