//! Capabilities requested from the kernel at FUSE_INIT.

use std::io;

use fuser::{InitFlags, KernelConfig};

/// Longest write of one request, in bytes; the maximum of Linux.
pub(crate) const MAX_WRITE_BYTES: u32 = 1 << 20;

/// Requested where the kernel offers them. Not requested: the write-back cache (`flush` needs all
/// bytes here), locks (the kernel then handles them, which is right for one machine), and
/// truncation in `open` (`O_RDONLY | O_TRUNC` would truncate a running program before the kernel
/// checks for that).
pub(crate) const INIT_FLAGS: InitFlags = InitFlags::FUSE_ASYNC_READ
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    // Drops pages when size or modification time change: a safety net below the follower.
    .union(InitFlags::FUSE_AUTO_INVAL_DATA)
    // The tree has no set-user-id bits or file capabilities; without this flag, each write would
    // query them.
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP)
    .union(InitFlags::FUSE_PASSTHROUGH);

/// The same for a remote mount.
pub(crate) const REMOTE_INIT_FLAGS: InitFlags = InitFlags::FUSE_ASYNC_READ
    .union(InitFlags::FUSE_ATOMIC_O_TRUNC)
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_AUTO_INVAL_DATA)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);

/// Requests those of `flags` that the kernel offers, and returns them.
pub(crate) fn negotiate(config: &mut KernelConfig, flags: InitFlags) -> io::Result<InitFlags> {
    let offered = flags & config.capabilities();
    let refused = |flags| io::Error::other(format!("the kernel refused the capabilities {flags:?}"));
    config.add_capabilities(offered).map_err(refused)?;
    let limited = |max| io::Error::other(format!("the kernel limits writes to {max} bytes"));
    config.set_max_write(MAX_WRITE_BYTES).map_err(limited)?;
    Ok(offered)
}
