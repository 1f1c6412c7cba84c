//! What the operating system knows of this process.

use serde::{Deserialize, Serialize};

/// What this process takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Memory that is in use at this moment, in bytes.
    pub memory_bytes: u64,
    /// The most it ever was.
    pub peak_memory_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub open_files: u64,
    /// Time on processors since the start, in seconds.
    pub cpu_seconds: f64,
}

impl ProcessUsage {
    /// What of this process is in memory and in no file, in bytes; none where `/proc` cannot be read.
    pub fn anonymous_memory_bytes() -> Option<u64> {
        let status = procfs::process::Process::myself().ok()?.status().ok()?;
        Some(status.rssanon? * 1024)
    }

    /// This process; none where `/proc` cannot be read.
    pub fn current() -> Option<Self> {
        let process = procfs::process::Process::myself().ok()?;
        let (status, stat) = (process.status().ok()?, process.stat().ok()?);
        let bytes = |kibibytes: Option<u64>| kibibytes.unwrap_or_default() * 1024;
        Some(Self {
            memory_bytes: bytes(status.vmrss),
            peak_memory_bytes: bytes(status.vmhwm),
            threads: status.threads,
            open_files: process.fd_count().ok()? as u64,
            cpu_seconds: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
        })
    }
}
