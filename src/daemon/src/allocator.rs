//! How much memory the C library's allocator may keep for itself.
//!
//! By default every thread gets an arena of its own, and what one has freed no other can use: with a hundred threads that wait for
//! the disk, a third of the server was memory nobody used (64 clients, 100,000 pages: 150 MB, and 115 MB so, at the same cost of a
//! write; docs/benchmarks.md).

use std::convert::Infallible;
#[cfg(target_env = "gnu")]
use std::time::Duration;

#[cfg(target_env = "gnu")]
use svcfs_knowledge::metrics::ProcessUsage;
#[cfg(target_env = "gnu")]
use tokio::time::MissedTickBehavior;

/// So many arenas for all threads together.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;
/// What is free at the end of an arena is given back to the system from this many bytes on.
#[cfg(target_env = "gnu")]
const TRIM_BYTES: i32 = 1 << 20;

/// How often it is checked whether much of it is free.
#[cfg(target_env = "gnu")]
const LOOK: Duration = Duration::from_secs(3);
/// So many bytes that are in memory and free are given back while the server works: most of them it would take again soon.
#[cfg(target_env = "gnu")]
const MUCH: usize = 16 << 20;
/// The same while it rests.
#[cfg(target_env = "gnu")]
const MUCH_AT_REST: usize = 2 << 20;
/// The server rests when it took less of the processor's time than this since the last check.
#[cfg(target_env = "gnu")]
const RESTING: Duration = Duration::from_millis(30);

/// Sets it; to be called before the first thread. `MALLOC_ARENA_MAX` and its like in the environment do not count then.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way, and no other crate offers it")]
pub fn keep_small() {
    // SAFETY: two numbers for settings of that name. A refusal (0) leaves the allocator as it was.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES);
    }
}

/// Gives back what is free between what is used, again and again: adopting and indexing a large tree for the first time leaves tens of
/// megabytes that nobody uses, questions leave some, and a space that was closed all it had.
#[cfg(target_env = "gnu")]
pub async fn give_back() -> Infallible {
    let mut turn = tokio::time::interval(LOOK);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = LastCheck::default();
    loop {
        turn.tick().await;
        // A panic would be one of the C library.
        last = tokio::task::spawn_blocking(move || give_back_now(last)).await.unwrap_or_default();
    }
}

/// What was found when it was last checked.
#[cfg(target_env = "gnu")]
#[derive(Clone, Copy, Default)]
struct LastCheck {
    /// The processor's time that the server took in all.
    worked: Duration,
    /// Free bytes that cannot be given back, because something is in each page of them.
    stuck: usize,
}

#[cfg(target_env = "gnu")]
impl LastCheck {
    /// Whether it is time to give free bytes back.
    fn is_worth_it(&self, worked: Duration, free: usize) -> bool {
        let is_resting = worked.saturating_sub(self.worked) < RESTING;
        free >= MUCH || (is_resting && free.saturating_sub(self.stuck) >= MUCH_AT_REST)
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way, and no other crate offers it")]
fn give_back_now(last: LastCheck) -> LastCheck {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let worked = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default());
    let free = free_bytes();
    if !last.is_worth_it(worked, free) {
        return LastCheck { worked, stuck: last.stuck.min(free) };
    }
    // SAFETY: it lets go of pages in which nothing is, and takes no pointer.
    unsafe { libc::malloc_trim(0) };
    LastCheck { worked, stuck: free_bytes() }
}

/// Bytes that are in memory and not used.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way, and no other crate offers it")]
fn free_bytes() -> usize {
    // SAFETY: it gives numbers, and takes no pointer.
    let used = unsafe { libc::mallinfo2() };
    let in_memory =
        ProcessUsage::anonymous_memory_bytes().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
    in_memory.saturating_sub(used.uordblks + used.hblkhd)
}

/// Other C libraries do so by themselves, or never.
#[cfg(not(target_env = "gnu"))]
pub async fn give_back() -> Infallible {
    std::future::pending().await
}

/// Other C libraries do not keep an arena for each thread.
#[cfg(not(target_env = "gnu"))]
pub const fn keep_small() {}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_rests_gives_back_little_and_one_that_works_only_much() {
        let last = LastCheck { worked: Duration::from_secs(5), stuck: 3 << 20 };
        let (resting, working) = (last.worked + RESTING / 2, last.worked + RESTING);
        assert!(last.is_worth_it(working, MUCH) && !last.is_worth_it(working, MUCH - 1));
        let little = last.stuck + MUCH_AT_REST;
        assert!(last.is_worth_it(resting, little));
        assert!(!last.is_worth_it(resting, little - 1), "what is stuck is not tried again");
    }

    #[test]
    fn what_cannot_be_given_back_is_known_the_next_time() {
        let much = vec![1u8; 8 << 20];
        let first = give_back_now(LastCheck::default());
        drop(much);
        let second = give_back_now(first);
        assert!(second.worked >= first.worked && !second.worked.is_zero());
        assert!(second.stuck < MUCH, "{} bytes stay free", second.stuck);
    }
}
