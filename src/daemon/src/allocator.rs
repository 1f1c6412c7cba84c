//! How much memory the C library's allocator may keep for itself.
//!
//! By default every thread gets an arena of its own, and what one has freed no other can use: with a hundred threads that wait for
//! the disk, a third of the server was memory nobody used (64 clients, 100,000 pages: 150 MB, and 115 MB so, at the same cost of a
//! write; docs/benchmarks.md).

use std::convert::Infallible;
#[cfg(target_env = "gnu")]
use std::time::Duration;

#[cfg(target_env = "gnu")]
use svcfs_knowledge::vitals::Process;
#[cfg(target_env = "gnu")]
use tokio::time::MissedTickBehavior;

/// So many arenas for all threads together.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;
/// What is free at the end of an arena is given back to the system from this many bytes on.
#[cfg(target_env = "gnu")]
const TRIM_BYTES: i32 = 1 << 20;

/// How often it is looked whether much of it is free.
#[cfg(target_env = "gnu")]
const LOOK: Duration = Duration::from_secs(3);
/// So many bytes that are in memory and free are given back.
#[cfg(target_env = "gnu")]
const MUCH: usize = 16 << 20;

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
/// megabytes that nobody uses, and a space that was closed all it had.
#[cfg(target_env = "gnu")]
pub async fn give_back() -> Infallible {
    let mut turn = tokio::time::interval(LOOK);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        // A panic would be one of the C library.
        let _ = tokio::task::spawn_blocking(give_back_now).await;
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way, and no other crate offers it")]
fn give_back_now() {
    // SAFETY: the one gives numbers, the other lets go of pages in which nothing is; neither takes a pointer.
    let used = unsafe { libc::mallinfo2() };
    let in_memory = Process::own_memory().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
    if in_memory.saturating_sub(used.uordblks + used.hblkhd) >= MUCH {
        // SAFETY: as above.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Other C libraries do so by themselves, or never.
#[cfg(not(target_env = "gnu"))]
pub async fn give_back() -> Infallible {
    std::future::pending().await
}

/// Other C libraries do not keep an arena for each thread.
#[cfg(not(target_env = "gnu"))]
pub const fn keep_small() {}
