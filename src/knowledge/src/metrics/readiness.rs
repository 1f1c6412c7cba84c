//! Whether the server takes work, and which of its parts are sick.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use svcfs_base::Fault;
use svcfs_work::{TaskState, TaskStatus};

use super::registry::behind;
use super::{MetricsAudience, MountReport, ProcessUsage, ProtocolReport};
use crate::kernel::{IndexProgress, ServerState, Space};
use crate::spaces::SpaceStatus;

/// Whether the server takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerReadiness {
    /// It does.
    Ready,
    /// The space that was asked about takes no writes.
    StorageUnreachable,
    /// A protocol server that is enabled does not answer.
    ProtocolUnhealthy,
}

/// The answer of `/readyz` (contract 4.2).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadinessReport {
    /// Whether the server takes work.
    pub status: ServerReadiness,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How far the search index of the space that was asked about has come.
    #[serde(default)]
    pub index: IndexProgress,
    /// Every protocol server that this program has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub protocols: BTreeMap<String, ProtocolReport>,
    /// The rest, for whoever may know.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub details: Option<ReadinessDetails>,
}

/// What operators are told beside that.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadinessDetails {
    /// The running version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// What the process takes; absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessUsage>,
    /// Every space, the first one first.
    pub spaces: Vec<SpaceReport>,
    /// Where the first space is mounted.
    pub mounts: Vec<MountReport>,
    /// What is not as it should be; empty when all is well.
    pub problems: Vec<ComponentProblem>,
}

/// A part that is sick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentProblem {
    /// Which part: `space`, `storage`, `task NAME` or `protocol NAME`.
    pub component: String,
    /// Of which space; none when it is the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

/// How a space is doing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpaceReport {
    /// Its name.
    pub name: String,
    /// Its root on the server's disk.
    pub root: PathBuf,
    /// Whether it takes writes.
    pub writable: bool,
    /// Pages that its search index has; absent when it could not be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// The newest position of its change feed.
    pub position: u64,
    /// Changes that its search index has not read yet.
    pub index_behind: u64,
    /// What that means for who asks it; absent when it has read everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_note: Option<String>,
    /// What is on its way to the disk.
    pub queue: QueueReport,
    /// Its background tasks.
    pub tasks: Vec<TaskReport>,
}

/// What is on its way to the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Change sets that wait for the committer.
    pub sets: u64,
    /// What they bring.
    pub bytes: u64,
    /// What the log holds until the next checkpoint.
    pub unsettled_bytes: u64,
    /// The log's files on the disk.
    pub log_bytes: u64,
}

/// How a background task is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// `busy`, `idle`, `backing off` or `stopped`.
    pub state: String,
    /// Steps that failed since the start.
    pub failures: u64,
    /// Why it pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How the server is doing, asked about one of its spaces. Waits for the disk, and for protocol servers 200 ms each at most.
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

/// How far the search indexes of all open spaces have come together.
pub fn index_progress(server: &ServerState) -> IndexProgress {
    let spaces = server.spaces().list_all();
    let behind = spaces.iter().map(|known| match known {
        SpaceStatus::Open(space) => space.index_progress().behind,
        SpaceStatus::Failed(..) => 0,
    });
    let behind = behind.sum();
    IndexProgress { complete: behind == 0, behind }
}

fn details(server: &ServerState, protocols: &BTreeMap<String, ProtocolReport>) -> ReadinessDetails {
    let mut problems = Vec::new();
    let spaces = server.spaces().list_all().into_iter().map(|known| of_space(known, &mut problems)).collect();
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

fn of_space(known: SpaceStatus, problems: &mut Vec<ComponentProblem>) -> SpaceReport {
    let name = known.name().to_owned();
    let mut complain = |component: String, reason: String| {
        problems.push(ComponentProblem { component, space: Some(name.clone()), reason })
    };
    let space = match known {
        SpaceStatus::Open(space) => space,
        SpaceStatus::Failed(name, root, why) => {
            complain("space".to_owned(), format!("could not be opened: {why}"));
            let (queue, tasks) = Default::default();
            return SpaceReport {
                name,
                root,
                writable: false,
                pages: None,
                position: 0,
                index_behind: 0,
                index_note: None,
                queue,
                tasks,
            };
        }
    };
    let health = space.check_storage();
    if let Err(fault) = &health {
        complain("storage".to_owned(), fault.message().to_owned());
    }
    let pages =
        space.index.page_count().map_err(|error| complain("index".to_owned(), Fault::from(error).message().to_owned()));
    let tasks: Vec<TaskReport> = space.tasks().into_iter().map(of_task).collect();
    for task in &tasks {
        if let Some(error) = &task.error {
            complain(format!("task {}", task.name), error.clone());
        }
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
        index_behind: behind(&space),
        index_note: space.index_lag(),
        queue,
        tasks,
    }
}

fn of_task(status: TaskStatus) -> TaskReport {
    let TaskStatus { name, state, panics, errors, last_error } = status;
    // What failed once and pauses is told; what a later step made good is not.
    let error = last_error.filter(|_| matches!(state, TaskState::BackingOff | TaskState::Busy));
    TaskReport { name: name.to_owned(), state: state.name().to_owned(), failures: panics + errors, error }
}
