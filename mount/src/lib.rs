//! The kernel door: a FUSE mount of one space.
//!
//! One rule: a callback translates the kernel's words, makes one call of the vfs and answers with its outcome. What may be
//! written, what becomes a version and what a name means is decided in `svcfs-vfs`; this crate knows the protocol only.
//!
//! What the kernel may keep: names and attributes for a second, pages until told otherwise. [`Mount`] runs a follower that reads
//! the change feed and takes back what other doors changed; a file opened while the follower is behind is read past the page
//! cache, so that whoever opens a file after a write was acknowledged reads what was written.
//!
//! Permissions are the kernel's work (`default_permissions`): it checks mode, owner and group as the vfs reports them, with the
//! caller's groups and capabilities, which this process cannot see. `access` is therefore never asked here.
//!
//! Below `.svc/` the mount shows what is on no disk, such as earlier versions: `views` holds them, by inodes of their own.
//!
//! Not offered: hard links, device nodes, extended attributes but those below `user.` (`attributes`), locks across machines (the kernel
//! keeps `flock` and `fcntl` locks itself), and the write-back cache: `close` must find all bytes here to turn them into a
//! version, and to be told when they are refused.
#![warn(missing_docs)]

mod actors;
mod callbacks;
mod convert;
mod follower;
mod fuse_server;
mod init_flags;
mod listings;
mod mountpoint;
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
pub use mountpoint::{MountError, abort, check_mountpoint, is_dead_mount, is_mounted, unmount};
pub use namespace::MountNamespace;
pub use remote::{RemoteError, RemoteMount, RemoteOptions};
pub use reply::OnAnswer;
pub use session::{LocalMount, MountOptions};
pub use views::{KnowledgeSource, LintFinding, PageFilter, PageHit};
