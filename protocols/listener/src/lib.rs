//! What the protocols over HTTP share: accept loop, connection limits, bodies, and the way into
//! blocking code.
//!
//! Invariant: nothing here knows a protocol or the tree.
#![warn(missing_docs)]

mod catch_panic;
mod connection_limiter;
mod connections;
mod file_stream;
mod http_credentials;
mod pipeline;
mod server_names;
mod spill_buffer;
mod timed_body;
mod validate;

pub use catch_panic::catch_panic;
pub use connections::{ClientConnection, serve};
pub use file_stream::{ReadFunctions, stream_file};
pub use http_credentials::HttpCredentials;
pub use pipeline::{BlockBuffer, BlockSink, PipelineStage};
pub use server_names::ServerNames;
pub use spill_buffer::{MemoryBudget, SpillBuffer};
pub use timed_body::{BodyError, TimedBody};
pub use validate::{drop_unsupported_ranges, single_range, validate_request};

use svcfs_base::Fault;
use svcfs_work::{Lane, LaneError, Lanes};

/// Runs blocking work in a lane, inside the current tracing span.
///
/// # Errors
/// Those of the work; `Unavailable` when the lane stays full; `Internal` when the work panicked.
pub async fn run_blocking<T, W>(lanes: &Lanes, lane: Lane, work: W) -> Result<T, Fault>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, Fault> + Send + 'static,
{
    let span = tracing::Span::current();
    match lanes.run(lane, move || span.in_scope(work)).await {
        Ok(outcome) => outcome,
        Err(error) => Err(lane_fault(error)),
    }
}

/// Translates the reason why a lane did not run something.
fn lane_fault(error: LaneError) -> Fault {
    match error {
        LaneError::Busy { .. } | LaneError::Stopped => Fault::unavailable(error.to_string()),
        LaneError::Panicked(_) => Fault::internal(error),
    }
}

/// Logs a fault at the level of its kind; `what` names the request. Call it once, at the edge.
pub fn log_fault(fault: &Fault, what: &str) {
    let kind = fault.kind();
    match kind.level() {
        svcfs_base::LogLevel::Debug => tracing::debug!(kind = kind.name(), error = ?fault, "`{what}`: not found"),
        svcfs_base::LogLevel::Info => tracing::info!(kind = kind.name(), error = ?fault, "`{what}` was refused"),
        svcfs_base::LogLevel::Error => tracing::error!(kind = kind.name(), error = ?fault, "`{what}` failed"),
    }
}
