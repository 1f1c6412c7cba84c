//! What measures svcfs: the real `svcfs serve` as a process of its own, beside git and beside the bare filesystem, in one run.
//!
//! One rule: a figure is worth something only beside another one of the same minutes on the same disk. Why no harness of micro
//! benchmarks? Because what people wait for is a flush, a process and a socket, and those are measured from outside.
//!
//! Nothing but 127.0.0.1 is reached, every loop has a limit in count and time and ends when the run is to end, and what was
//! measured was also checked: one commit for every write under the right name, search answers that are those of `grep`, a
//! history that `git fsck` accepts.
//!
//! `svcfs bench` is this on a user's disk; the benchmark behind docs/benchmarks.md (`tests/bench`) is this and more.
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
