//! Limits the memory that the C library's allocator retains.
//!
//! By default every thread gets its own arena, and memory freed in one arena cannot be used by
//! another: with a hundred threads that wait for the disk, a third of the process was unused memory
//! (64 clients, 100,000 pages: 150 MB, with this limit 115 MB, at the same cost of a write;
//! docs/benchmarks.md).

use std::convert::Infallible;
#[cfg(target_env = "gnu")]
use std::time::Duration;

#[cfg(target_env = "gnu")]
use svcfs_knowledge::metrics::ProcessUsage;
#[cfg(target_env = "gnu")]
use tokio::time::MissedTickBehavior;

/// Number of arenas for all threads.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;
/// Free bytes at the end of an arena from which they are returned to the system.
#[cfg(target_env = "gnu")]
const TRIM_BYTES: i32 = 1 << 20;

/// How often free memory is checked.
#[cfg(target_env = "gnu")]
const CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// Free resident bytes from which memory is released while the server is busy; it would soon
/// allocate most of them again.
#[cfg(target_env = "gnu")]
const MUCH: usize = 16 << 20;
/// The same while the server is idle.
#[cfg(target_env = "gnu")]
const MUCH_AT_REST: usize = 2 << 20;
/// The server is idle if it used less CPU time than this since the last check.
#[cfg(target_env = "gnu")]
const RESTING: Duration = Duration::from_millis(30);

/// Sets the limits; call it before the first thread starts. Overrides `MALLOC_ARENA_MAX` and
/// similar variables.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way, and no other crate offers it")]
pub fn keep_small() {
    // SAFETY: two numbers for options of these names. On failure (0) the allocator is unchanged.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES);
    }
}

/// Periodically releases free memory between used blocks: adopting and indexing a large tree leaves
/// tens of unused megabytes, queries leave some, and so does a closed space.
#[cfg(target_env = "gnu")]
pub async fn release_periodically() -> Infallible {
    let mut interval = tokio::time::interval(CHECK_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = LastCheck::default();
    loop {
        interval.tick().await;
        // Only the C library could panic here.
        last = tokio::task::spawn_blocking(move || release_free_memory(last)).await.unwrap_or_default();
    }
}

/// Result of the last check.
#[cfg(target_env = "gnu")]
#[derive(Clone, Copy, Default)]
struct LastCheck {
    /// Total CPU time of the server.
    cpu_time: Duration,
    /// Free bytes that cannot be released, because each of their pages contains a used block.
    unreleasable: usize,
}

#[cfg(target_env = "gnu")]
impl LastCheck {
    /// Whether free bytes should be released now.
    fn should_release(&self, cpu_time: Duration, free: usize) -> bool {
        let is_resting = cpu_time.saturating_sub(self.cpu_time) < RESTING;
        free >= MUCH || (is_resting && free.saturating_sub(self.unreleasable) >= MUCH_AT_REST)
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way, and no other crate offers it")]
fn release_free_memory(last: LastCheck) -> LastCheck {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu_time = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default());
    let free = free_bytes();
    if !last.should_release(cpu_time, free) {
        return LastCheck { cpu_time, unreleasable: last.unreleasable.min(free) };
    }
    // SAFETY: releases empty pages and takes no pointer.
    unsafe { libc::malloc_trim(0) };
    LastCheck { cpu_time, unreleasable: free_bytes() }
}

/// Free resident bytes.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way, and no other crate offers it")]
fn free_bytes() -> usize {
    // SAFETY: returns numbers and takes no pointer.
    let used = unsafe { libc::mallinfo2() };
    let in_memory =
        ProcessUsage::anonymous_memory_bytes().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
    in_memory.saturating_sub(used.uordblks + used.hblkhd)
}

/// Other C libraries do this themselves, or never.
#[cfg(not(target_env = "gnu"))]
pub async fn release_periodically() -> Infallible {
    std::future::pending().await
}

/// Other C libraries have no arena for each thread.
#[cfg(not(target_env = "gnu"))]
pub const fn keep_small() {}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn an_idle_server_frees_little_memory_and_a_busy_one_only_much() {
        let last = LastCheck { cpu_time: Duration::from_secs(5), unreleasable: 3 << 20 };
        let (resting, working) = (last.cpu_time + RESTING / 2, last.cpu_time + RESTING);
        assert!(last.should_release(working, MUCH) && !last.should_release(working, MUCH - 1));
        let little = last.unreleasable + MUCH_AT_REST;
        assert!(last.should_release(resting, little));
        assert!(!last.should_release(resting, little - 1), "what is stuck is not tried again");
    }

    #[test]
    fn what_cannot_be_given_back_is_known_the_next_time() {
        let much = vec![1u8; 8 << 20];
        let first = release_free_memory(LastCheck::default());
        drop(much);
        let second = release_free_memory(first);
        assert!(second.cpu_time >= first.cpu_time && !second.cpu_time.is_zero());
        assert!(second.unreleasable < MUCH, "{} bytes stay free", second.unreleasable);
    }
}
