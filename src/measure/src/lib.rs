//! Benchmarks of svcfs: the real `svcfs serve` in its own process, compared with git and with the
//! bare filesystem in one run.
//!
//! Invariant: a figure is only compared with figures of the same run on the same disk.
//! Micro-benchmarks are not used: users wait for a flush, a process and a socket, and these are
//! measured from outside.
//!
//! Only 127.0.0.1 is reached. Every loop has a limit in count and time, and ends when the run is
//! stopped. Results are verified: one commit per write under the right name, search results equal
//! to those of `grep`, and a history that `git fsck` accepts.
//!
//! `svcfs bench` runs this on a user's disk; `tests/bench`, behind docs/benchmarks.md, extends it.
#![warn(missing_docs)]
#![expect(clippy::disallowed_methods, reason = "it writes beside svcfs, and measures the disk without it")]

pub mod disk;
pub mod git;
pub mod http;
pub mod machine;
pub mod pages;
pub mod plan;
pub mod reading;
pub mod run;
pub mod series;
pub mod server;
pub mod table;
pub mod writing;
