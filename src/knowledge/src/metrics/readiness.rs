//! Readiness of the server, and problems of its components.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Timestamp};
use svcfs_work::{TaskState, TaskStatus};

use super::registry::unindexed_changes;
use super::{MetricsAudience, MountReport, ProcessUsage, ProtocolReport};
use crate::kernel::{IndexProgress, ServerState, Space};
use crate::spaces::SpaceStatus;

/// Whether the server accepts work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerReadiness {
    /// It does.
    Ready,
    /// The requested space accepts no writes.
    StorageUnreachable,
    /// An enabled protocol server does not answer.
    ProtocolUnhealthy,
}

/// The response of `/readyz`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadinessReport {
    /// Whether the server accepts work.
    pub status: ServerReadiness,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Progress of the search index of the requested space.
    #[serde(default)]
    pub index: IndexProgress,
    /// All protocol servers of this program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub protocols: BTreeMap<String, ProtocolReport>,
    /// Details, for authorized callers.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub details: Option<ReadinessDetails>,
}

/// Details for operators.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadinessDetails {
    /// The running version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Resource usage; absent if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessUsage>,
    /// All spaces; the primary one first.
    pub spaces: Vec<SpaceReport>,
    /// The mounts of the first space.
    pub mounts: Vec<MountReport>,
    /// Problems; empty if all components are healthy.
    pub problems: Vec<ComponentProblem>,
}

/// A problem of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentProblem {
    /// The component: `space`, `storage`, `backup`, `index`, `vectors`, `task NAME`, `webhook ID`
    /// or `protocol NAME`.
    pub component: String,
    /// Its space; none for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// Description of the problem.
    pub reason: String,
}

/// The status of a space.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpaceReport {
    /// Name of the space.
    pub name: String,
    /// Its root on the server's disk.
    pub root: PathBuf,
    /// Whether it accepts writes.
    pub writable: bool,
    /// Number of indexed pages; absent if the index cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// The newest position of its change feed.
    pub position: u64,
    /// Number of changes that are not indexed yet.
    pub index_behind: u64,
    /// Number of pages that are not embedded yet; absent without search by meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_vectors: Option<u64>,
    /// The note that readers of the index get; absent if it is current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_note: Option<String>,
    /// State of the write path.
    pub queue: QueueReport,
    /// Its background tasks.
    pub tasks: Vec<TaskReport>,
}

/// State of the write path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Change sets queued for the committer.
    pub sets: u64,
    /// Their contents in bytes.
    pub bytes: u64,
    /// Bytes in the log since the last checkpoint.
    pub unsettled_bytes: u64,
    /// Size of the log files.
    pub log_bytes: u64,
}

/// The status of a background task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Name of the task.
    pub name: String,
    /// `busy`, `idle`, `backing off` or `stopped`.
    pub state: String,
    /// Number of failed steps since the start.
    pub failures: u64,
    /// The error it backs off from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The readiness of the server for one of its spaces. Blocks on the disk, and 200 ms per protocol
/// server.
pub fn readiness_report(server: &ServerState, space: &Space, audience: MetricsAudience) -> ReadinessReport {
    let storage = space.check_storage();
    let protocols = server.metrics().protocol_reports();
    let unhealthy = protocols.iter().find_map(|(name, protocol)| Some((name, protocol.error.as_ref()?)));
    let (status, error) = match (&storage, unhealthy) {
        (Err(fault), _) => (ServerReadiness::StorageUnreachable, Some(fault.message().to_owned())),
        (Ok(()), Some((name, error))) => (ServerReadiness::ProtocolUnhealthy, Some(format!("{name}: {error}"))),
        (Ok(()), None) => (ServerReadiness::Ready, None),
    };
    let details = (audience == MetricsAudience::Operator).then(|| details(server, &protocols));
    ReadinessReport { status, error, index: space.index_progress(), protocols, details }
}

/// Progress of the search indexes of all open spaces.
pub fn index_progress(server: &ServerState) -> IndexProgress {
    let spaces = server.spaces().list_all();
    let behind = spaces.iter().map(|status| match status {
        SpaceStatus::Open(space) => space.index_progress().behind,
        SpaceStatus::Failed(..) => 0,
    });
    let behind = behind.sum();
    IndexProgress { complete: behind == 0, behind }
}

fn details(server: &ServerState, protocols: &BTreeMap<String, ProtocolReport>) -> ReadinessDetails {
    let mut problems = Vec::new();
    let spaces = server
        .spaces()
        .list_all()
        .into_iter()
        .map(|status| space_report(status, server.now(), &mut problems))
        .collect();
    for (name, protocol) in protocols {
        if let Some(reason) = &protocol.error {
            problems.push(ComponentProblem {
                component: format!("protocol {name}"),
                space: None,
                reason: reason.clone(),
            });
        }
    }
    let uptime = server.now().duration_since(server.started_at()).as_secs();
    ReadinessDetails {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_seconds: u64::try_from(uptime).unwrap_or_default(),
        process: ProcessUsage::current(),
        spaces,
        mounts: server.metrics().mounts(),
        problems,
    }
}

fn space_report(status: SpaceStatus, now: Timestamp, problems: &mut Vec<ComponentProblem>) -> SpaceReport {
    let name = status.name().to_owned();
    let mut add_problem = |component: String, reason: String| {
        problems.push(ComponentProblem { component, space: Some(name.clone()), reason })
    };
    let space = match status {
        SpaceStatus::Open(space) => space,
        SpaceStatus::Failed(name, root, reason) => {
            add_problem("space".to_owned(), format!("cannot be opened: {reason}"));
            let (queue, tasks) = Default::default();
            return SpaceReport {
                name,
                root,
                writable: false,
                pages: None,
                position: 0,
                index_behind: 0,
                pending_vectors: None,
                index_note: None,
                queue,
                tasks,
            };
        }
    };
    let health = space.check_storage();
    if let Err(fault) = &health {
        add_problem("storage".to_owned(), fault.message().to_owned());
    }
    if let Some(reason) = space.backup.problem(now) {
        add_problem("backup".to_owned(), reason);
    }
    let pages = space
        .index
        .page_count()
        .map_err(|error| add_problem("index".to_owned(), Fault::from(error).message().to_owned()));
    let tasks: Vec<TaskReport> = space.tasks().into_iter().map(task_report).collect();
    for task in &tasks {
        if let Some(error) = &task.error {
            add_problem(format!("task {}", task.name), error.clone());
        }
    }
    match space.schemas.unusable() {
        Ok(schemas) => {
            for (name, fault) in schemas {
                add_problem(format!("schema {name}"), fault.message().to_owned());
            }
        }
        Err(fault) => add_problem("schemas".to_owned(), fault.message().to_owned()),
    }
    for (component, reason) in space.webhooks.iter().flat_map(|webhooks| webhooks.problems()) {
        add_problem(component, reason);
    }
    let vectors = space.vectors.as_ref();
    // A task that backs off is a problem already; its error may have the kind and causes, too.
    let is_listed = |reason: &String| tasks.iter().filter_map(|task| task.error.as_ref()).any(|it| it.contains(reason));
    let failure = vectors.and_then(|vectors| vectors.index.problem()).map(|problem| problem.message);
    let refused = vectors.and_then(|vectors| vectors.refused_pages());
    for reason in failure.filter(|it| !is_listed(it)).into_iter().chain(refused) {
        add_problem("vectors".to_owned(), reason);
    }
    let load = space.vfs.queue_load();
    let queue = QueueReport {
        sets: load.queued_sets as u64,
        bytes: load.queued_bytes as u64,
        unsettled_bytes: load.uncheckpointed_bytes,
        log_bytes: load.log_bytes,
    };
    SpaceReport {
        name: space.name.clone(),
        root: space.vfs.root().to_owned(),
        writable: health.is_ok(),
        pages: pages.ok().map(|count| count as u64),
        position: space.vfs.last_seq().0,
        index_behind: unindexed_changes(&space),
        pending_vectors: vectors.map(|vectors| vectors.index.pending() as u64),
        index_note: space.index_lag(),
        queue,
        tasks,
    }
}

fn task_report(status: TaskStatus) -> TaskReport {
    let TaskStatus { name, state, panics, errors, last_error } = status;
    // An error that a later step recovered from is not reported.
    let error = last_error.filter(|_| matches!(state, TaskState::BackingOff | TaskState::Busy));
    TaskReport { name: name.to_owned(), state: state.name().to_owned(), failures: panics + errors, error }
}
