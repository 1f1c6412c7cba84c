//! How much memory the C library's allocator may keep for itself.
//!
//! By default every thread gets an arena of its own, and what one has freed no other can use: with a hundred threads that wait for
//! the disk, a third of the server was memory nobody used (64 clients, 100,000 pages: 150 MB, and 115 MB so, at the same cost of a
//! write; docs/benchmarks.md).

/// So many arenas for all threads together.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;
/// What is free at the end of an arena is given back to the system from this many bytes on.
#[cfg(target_env = "gnu")]
const TRIM_BYTES: i32 = 1 << 20;

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

/// Other C libraries do not keep an arena for each thread.
#[cfg(not(target_env = "gnu"))]
pub const fn keep_small() {}
