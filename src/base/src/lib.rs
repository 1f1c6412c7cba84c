//! The vocabulary of svcfs: paths, content hashes, actors, changes, faults.
//!
//! Invariant: no I/O happens here. All input is parsed into these types once, at the edge, so that
//! the code behind it cannot receive `../`, an unbounded limit or an author name that git refuses.
#![warn(missing_docs)]

mod actor;
mod address;
mod audit;
mod change;
mod claim;
mod clock;
mod draft;
mod fault;
mod hash;
mod limit;
mod path;
mod permissions;
mod plain;
mod query_text;
mod request;
mod scratch;
mod version;
mod webhook;

pub use actor::{Actor, Caller, Client, OriginId, Protocol, Provenance, deserialize_selected_actor};
pub use address::network_prefix;
pub use audit::AuditEntry;
pub use change::{
    ApplyResult, Change, ChangeSet, DiskAttributes, Durability, EventAnnouncement, FileKind, LargeFile, Precondition,
    WriteResult,
};
pub use claim::Claim;
pub use clock::{Clock, FrozenClock, SystemClock, Timestamp};
pub use draft::{Draft, DraftDirectory, DraftId, DraftPage};
pub use fault::{DISK_FULL, Fault, Kind, LogLevel, McpError};
pub use hash::{CommitId, ETag, ETagHasher, Seq, to_hex};
pub use limit::Limit;
pub use path::{HiddenFiles, PathComponent, TreePath, is_hidden_name};
pub use permissions::{Permissions, Scope};
pub use plain::{escape_unprintable, fold_label};
pub use query_text::{excerpt, excerpt_of, message_at, nearest_name};
pub use request::{ClientRequest, RequestKey, RequestMark};
pub use scratch::{expand_case, is_case_insensitive};
pub use version::VersionId;
pub use webhook::WebhookEvent;

/// Largest file that a filesystem protocol, a log record or a text operation accepts, in bytes.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Largest page accepted by `PUT /file`, append and bulk entries, in bytes.
pub const MAX_PAGE_BYTES: usize = 32 << 20;
