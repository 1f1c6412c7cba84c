//! Where work runs: bounded lanes from async code into blocking code, supervised background tasks,
//! and executors for jobs that a busy thread hands over.
//!
//! Invariant: no work is unbounded or unwatched. A request takes a slot in a lane or gets 503; a
//! task has a name, never overlaps itself, backs off when it fails, and is joined when the program
//! stops.
//!
//! Tasks are steps instead of threads with loops, because a step that reads its own cursor can be
//! repeated after an error, a panic or a restart. The loop (waiting, backing off, stopping) is
//! written and tested once. A task that waits needs no thread: the tasks of all spaces share a few.
#![warn(missing_docs)]

mod keyed_locks;
mod lanes;
mod pid_lock;
mod pool;
mod serial_executor;
mod signal;
mod supervisor;
#[cfg(test)]
mod tests;
mod watermark;

pub use keyed_locks::{KeyedLockGuard, KeyedLocks};
pub use lanes::{Lane, LaneError, LaneOccupancy, Lanes, StartedWork};
pub use pid_lock::{PidLock, PidLockError};
pub use serial_executor::SerialExecutor;
pub use signal::{Signal, StopToken};
pub use supervisor::{Backoff, NextStep, Supervisor, Task, TaskFailure, TaskReports, TaskState, TaskStatus};
pub use watermark::Watermark;
