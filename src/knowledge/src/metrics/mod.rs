//! How the server itself is doing: what its doors count, and which of its parts are sick.
//!
//! One rule: looking changes nothing and waits for nobody but the disk. Counters stand beside what they count; everything else is asked of its
//! owner at the moment of looking. `/metrics`, `/readyz` and `svcfs status` show the same.

mod counters;
mod process;
mod protocols;
mod readiness;
mod registry;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::OnceLock;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

pub use counters::{FlushTimes, RequestMetrics};
pub use process::ProcessUsage;
pub use protocols::{ProtocolEndpoint, ProtocolReport, ProtocolServer};
pub use readiness::{
    ComponentProblem, QueueReport, ReadinessDetails, ReadinessReport, ServerReadiness, SpaceReport, TaskReport,
    index_progress, readiness_report,
};
pub use registry::{MetricsAudience, build_registry, metric_family};

/// What is known of a server beside its spaces.
#[derive(Default)]
pub struct ServerMetrics {
    /// What its doors count.
    pub requests: RequestMetrics,
    protocols: RwLock<Vec<ProtocolServer>>,
    mounts: OnceLock<MountLister>,
}

type MountLister = Box<dyn Fn() -> Vec<MountReport> + Send + Sync>;

/// A place where a space is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    /// Where, without links.
    pub mountpoint: PathBuf,
    /// The flags of `svcfs mount` that make such a mount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl ServerMetrics {
    /// Tells of a protocol server from here on; one that is not enabled is told of, too. A later one of the same name takes its place.
    pub fn add_protocol(&self, protocol: ProtocolServer) {
        let mut protocols = self.protocols.write();
        protocols.retain(|known| known.name != protocol.name);
        protocols.push(protocol);
    }

    /// Has mounts asked of whoever makes them; only the first who says is asked.
    pub fn set_mount_source(&self, mounts: impl Fn() -> Vec<MountReport> + Send + Sync + 'static) {
        let _only_the_first = self.mounts.set(Box::new(mounts));
    }

    /// Where the first space is mounted.
    pub fn mounts(&self) -> Vec<MountReport> {
        self.mounts.get().map(|mounts| mounts()).unwrap_or_default()
    }
}
