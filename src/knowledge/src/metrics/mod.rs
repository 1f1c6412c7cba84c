//! Metrics and readiness of the server.
//!
//! Invariant: reading them changes nothing and blocks only on the disk. Counters are updated where
//! the work is done; everything else is read on request. `/metrics`, `/readyz` and `svcfs status`
//! agree.

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

/// Server-wide metrics and sources.
#[derive(Default)]
pub struct ServerMetrics {
    /// Metrics of requests.
    pub requests: RequestMetrics,
    protocols: RwLock<Vec<ProtocolServer>>,
    mounts: OnceLock<MountLister>,
}

type MountLister = Box<dyn Fn() -> Vec<MountReport> + Send + Sync>;

/// A mount of a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    /// Mount point, without symbolic links.
    pub mountpoint: PathBuf,
    /// The flags of `svcfs mount` for such a mount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl ServerMetrics {
    /// Adds a protocol server to the reports, even a disabled one; replaces one with the same name.
    pub fn add_protocol(&self, protocol: ProtocolServer) {
        let mut protocols = self.protocols.write();
        protocols.retain(|known| known.name != protocol.name);
        protocols.push(protocol);
    }

    /// Sets the source of mounts, once; later calls have no effect.
    pub fn set_mount_source(&self, mounts: impl Fn() -> Vec<MountReport> + Send + Sync + 'static) {
        let _ignored = self.mounts.set(Box::new(mounts));
    }

    /// The mounts of the first space.
    pub fn mounts(&self) -> Vec<MountReport> {
        self.mounts.get().map(|mounts| mounts()).unwrap_or_default()
    }
}
