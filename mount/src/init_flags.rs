//! What is asked of the kernel when a mount begins.

use fuser::InitFlags;

/// Longest write of one request, in bytes; the most Linux sends.
pub(crate) const MAX_WRITE_BYTES: u32 = 1 << 20;

/// What is asked of the kernel where it offers it. Not asked for: the write-back cache (`flush` must find all bytes here),
/// locks (the kernel then keeps them itself, which is right for one machine), and emptying files in `open` (`O_RDONLY | O_TRUNC` would
/// then empty a program that is running, before the kernel looks whether it is).
pub(crate) const WANTED: InitFlags = InitFlags::FUSE_ASYNC_READ
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    // Pages go when size or modification time turn out different: the safety net below the follower.
    .union(InitFlags::FUSE_AUTO_INVAL_DATA)
    // The tree has no set-user-id bits and no file capabilities; without this, writes ask for them first.
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP)
    .union(InitFlags::FUSE_PASSTHROUGH);
