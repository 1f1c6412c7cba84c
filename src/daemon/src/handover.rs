//! A server takes a root over from the process of an agent.
//!
//! Invariant: the lock of the root decides who has it. A request over the control socket only makes
//! the process release it; other processes may take it first, and are asked in turn.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use svcfs_base::Fault;

use crate::failure::{CommandFailure, ExitStatus};
use crate::{control, presence};

/// How long a server waits for a root.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// How often it checks. File locks have no wait with a timeout.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Detail of a fault: the process did not release the root in time.
const IS_LATE: &str = "late";

/// Opens a root with `open`. If the process of an agent (`svcfs mcp`) has it, that process hands it
/// over and becomes a client of this one.
///
/// # Errors
/// Those of `open`; `Conflict` with the `pid` when another server has the root, or a process does
/// not release it within ten seconds.
pub fn open<T>(root: &Path, mut open: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    let started = Instant::now();
    loop {
        let fault = match open() {
            Err(fault) if presence::holder(root, &fault).is_some() => fault,
            outcome => return outcome,
        };
        match control::request_release(root, TIMEOUT.saturating_sub(started.elapsed())) {
            _ if started.elapsed() >= TIMEOUT => return Err(fault.with_detail(IS_LATE, true)),
            Ok(Some(())) => tracing::info!("an agent has the root; its process hands it over"),
            Err(failure) if failure.exit() == ExitStatus::Refused => return Err(fault),
            // A process that starts, stops or runs a command.
            Ok(None) | Err(_) => {}
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// The failure of a command that needs a root, with what to do.
pub fn failure(root: &Path, fault: Fault, advice: &str) -> CommandFailure {
    let late = fault.detail().get(IS_LATE).and(fault.detail().get("pid")).and_then(Value::as_str).map(|pid| {
        let seconds = TIMEOUT.as_secs();
        format!("it did not release the root within {seconds} s; end it with `kill {pid}`, then retry")
    });
    presence::root_in_use(root, fault, late.as_deref().unwrap_or(advice))
}
