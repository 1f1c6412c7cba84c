use serde::{Deserialize, Serialize};

/// Resource usage of this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Resident memory in bytes.
    pub memory_bytes: u64,
    /// Maximum of resident memory so far.
    pub peak_memory_bytes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of open file descriptors.
    pub open_files: u64,
    /// Processor time since the start, in seconds.
    pub cpu_seconds: f64,
}

impl ProcessUsage {
    /// Anonymous resident memory in bytes; none if `/proc` cannot be read.
    pub fn anonymous_memory_bytes() -> Option<u64> {
        let status = procfs::process::Process::myself().ok()?.status().ok()?;
        Some(status.rssanon? * 1024)
    }

    /// The current usage; none if `/proc` cannot be read.
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
