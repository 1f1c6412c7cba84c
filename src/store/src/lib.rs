//! The disk: the tree of files, the durable log in front of it, and git (or snapshots, or nothing) as its memory.
//!
//! One rule: only this crate touches the knowledge root. It knows files, records and commits, and decides nothing: what may be
//! written, and in which order, is `vfs`'s affair.
#![warn(missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the disk lives here")]

pub mod boot;
pub mod condition;
mod disposal;
mod error;
mod fail;
mod history;
mod leases;
mod log;
mod memory;
mod numbers;
mod paths;
mod probe;
mod removal;
mod rename;
mod spares;
mod trail;
mod tree;
mod usage;

pub use disposal::Hurry;
pub use error::StoreError;
pub use fail::{FailPoint, FailPoints, Nature};
pub use history::{
    Author, BadObject, BlameHunk, Edit, FileVersion, ForeignCommit, ForeignEntry, GitLock, History, Holder, Inspection,
    Jump, Objects, OtherGit, PastEntry, Staged, TreeState, UnknownCommits, Way, as_recorded, mend_head, order_within,
    unified_diff,
};
pub use leases::{Lease, LeaseFile};
pub use log::{
    Activity, Against, ChangePage, DayActivity, Entry, Log, LogCheck, Occurrence, PageActivity, PathChange,
    PathVersion, Record, Role, Selection, SetOf,
};
pub use memory::{Ledger, Memory, SNAPSHOT_DIRECTORY, Snapshots, State, Strategy, Tip};
pub use numbers::{Act, FileNumbers, Promise};
pub use paths::{AUDIT_DIRECTORY, STATE_DIRECTORY, StatePaths};
pub use removal::remove_root;
pub use trail::{Keep, Trail};
pub use tree::{
    AtOnce, Disk, Draft, Install, Known, OpenFile, Placed, Probe, SetExtended, Special, SpecialKind, Stat, StatKind,
    WorkTree, without_privileges,
};
pub use usage::{Bucket, Counted, PageViews, Searched, Span, Totals, Usage};
