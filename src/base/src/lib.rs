//! The vocabulary of svcfs: paths, content hashes, actors, changes, faults.
//!
//! One rule: no input and no output happens here. Everything that enters the house is parsed into these types once, at the
//! door, so that the rooms behind it cannot hold `../`, an unbounded limit or an author name git would refuse.
#![warn(missing_docs)]

mod actor;
mod address;
mod audit;
mod change;
mod clock;
mod fault;
mod hash;
mod limit;
mod path;
mod permissions;
mod plain;
mod scratch;
mod version;

pub use actor::{Actor, Caller, Client, OriginId, Protocol, Provenance};
pub use address::network_prefix;
pub use audit::AuditEntry;
pub use change::{
    ApplyResult, Change, ChangeSet, DiskAttributes, Durability, EventAnnouncement, FileKind, LargeFile, Precondition,
    WriteResult,
};
pub use clock::{Clock, FrozenClock, SystemClock, Timestamp};
pub use fault::{Fault, Kind, LogLevel, McpError};
pub use hash::{CommitId, ETag, ETagHasher, Seq};
pub use limit::Limit;
pub use path::{PathComponent, TreePath, is_hidden_name};
pub use permissions::{Permissions, Scope};
pub use plain::escape_unprintable;
pub use scratch::{expand_case, is_case_insensitive};
pub use version::VersionId;

/// Longest file a filesystem door, a log record or a text operation accepts, in bytes (gaps.md 8: NFS and FUSE file).
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Longest page body accepted by `PUT /file`, append and bulk entries, in bytes (gaps.md 4.3).
pub const MAX_PAGE_BYTES: usize = 32 << 20;
