//! Where work runs: bounded lanes from async doors into blocking code, supervised background tasks, and helpers of whoever is at work.
//!
//! One rule: no work is unbounded or unwatched. A request takes a place in a lane or is told to come back; a task has a name,
//! never overlaps itself, backs off when it fails, and is joined when the program stops.
//!
//! Why steps instead of threads with loops of their own? Because a step that reads its own cursor can be repeated after an
//! error, a panic or a restart, and because the loop (waiting, backing off, stopping) is then written and tested once. And a task that
//! waits needs no thread: those of all spaces take their steps on a few that they share.
#![warn(missing_docs)]

mod lanes;
mod pool;
mod serial_executor;
mod signal;
mod supervisor;
#[cfg(test)]
mod tests;
mod watermark;

pub use lanes::{Lane, LaneError, LaneOccupancy, Lanes, StartedWork};
pub use serial_executor::SerialExecutor;
pub use signal::{Signal, StopToken};
pub use supervisor::{Backoff, NextStep, Supervisor, Task, TaskFailure, TaskReports, TaskState, TaskStatus};
pub use watermark::Watermark;
