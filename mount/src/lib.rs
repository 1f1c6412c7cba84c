//! FUSE mount of one space.
//!
//! Invariant: a callback translates the kernel's request, makes one `Vfs` call and replies with its
//! outcome. `svcfs-vfs` decides what may be written, what becomes a version and what a name means;
//! this crate knows only the protocol.
//!
//! Kernel caches: names and attributes live for one second, pages until they are invalidated.
//! [`LocalMount`] runs a follower that reads the change feed and invalidates what other protocols
//! changed. A file opened while the follower is behind bypasses the page cache, so an open after an
//! acknowledged write reads that write.
//!
//! Permissions are checked by the kernel (`default_permissions`) from the mode, owner and group
//! that the vfs reports, because this process does not know the caller's groups and capabilities.
//! `access` is therefore never called.
//!
//! Below `.svc/` the mount shows virtual files such as earlier versions (see `views`) and the trees
//! of drafts, which are writable (see `drafts`).
//!
//! Not supported: hard links, device nodes, extended attributes outside `user.` (see `xattrs`),
//! locks across machines (the kernel handles `flock` and `fcntl` locally), and the kernel's
//! write-back cache: `flush` needs all bytes here, to publish them as a version and to report a
//! rejection to the program.
#![warn(missing_docs)]

mod actors;
mod callbacks;
mod convert;
mod drafts;
mod follower;
mod fuse_server;
mod init_flags;
mod listings;
mod mountpoint;
mod names;
mod namespace;
mod passthrough;
mod remote;
mod reply;
mod session;
mod views;
mod write_handles;
mod xattrs;

#[cfg(test)]
mod tests;

pub use actors::AttributionPolicy;
pub use mountpoint::{MountError, abort, check_mountpoint, is_dead_mount, is_mounted, mounted_root, unmount};
pub use namespace::MountNamespace;
pub use remote::{RemoteError, RemoteMount, RemoteOptions};
pub use reply::OnAnswer;
pub use session::{LocalMount, MountOptions};
pub use views::{KnowledgeSource, LintFinding, PageFilter, PageHit, PageHits};
