//! The disk: the tree of files, the durable log in front of it, and the version store (git,
//! snapshots or nothing) behind it.
//!
//! Invariant: only this crate accesses the knowledge root. It handles files, records and commits.
//! `vfs` decides what may be written and in which order.
#![warn(missing_docs)]
#![expect(clippy::disallowed_methods, reason = "only this crate accesses the disk")]

mod atomic_file;
mod audit_log;
pub mod boot_marker;
mod claims;
mod deferred_unlink;
mod drafts;
mod error;
mod fail_points;
mod git_names;
mod history;
mod inode_table;
mod job_files;
mod leases;
mod log;
mod path_rules;
mod paths;
pub mod preflight;
mod probe;
mod recycled_files;
mod removal;
mod rename;
mod request_answers;
mod shares;
mod sqlite_file;
mod tree;
mod untracked;
mod usage;
mod version_store;
mod view_counts;
mod webhooks;

pub use atomic_file::{FileRights, create_file, replace_file};
pub use audit_log::{AuditLog, RetentionLimits};
pub use claims::{ClaimFile, ClaimWrite, StoredClaims};
pub use deferred_unlink::DeferGuard;
pub use drafts::{DraftContents, DraftFile, DraftWrite, StoredDraft};
pub use error::StoreError;
pub use fail_points::{FailPoint, FailPointKind, FailPoints};
pub use git_names::path_refusal;
pub use history::EMAIL as INTERNAL_EMAIL;
pub use history::{
    BadObject, BlameHunk, BranchPage, CommitAuthor, DivergedMove, ExternalGit, FileEdit, FileVersion, ForeignCommit,
    ForeignEntry, GitLock, HeadMove, History, LockHolder, PastEntry, ReachableObjects, RepoInspection, StagedCommit,
    TreeState, UncommittedChanges, UncommittedFile, UncommittedKind, UnknownCommits, are_similar_contents,
    changed_lines, compare_entries, normalize_message, repair_head, unified_diff,
};
pub use inode_table::{InodeTable, StableOperation, StableWrite};
pub use job_files::JobFiles;
pub use leases::{Lease, LeaseFile};
pub use log::{
    ChangeFilter, ChangePage, DayActivity, DiffBase, FileCreation, HistorySet, Log, LogCheck, LogEntry, LogRecord,
    NamePeriod, PageActivity, PathChange, PathOccurrence, PathVersion, RecordKind, RemovedPath, RenameSources,
    RequestSet, SetMetadata, TotalActivity, author_email, direct_provenance,
};
pub use path_rules::{GitIdentity, PathRules};
pub use paths::{AUDIT_DIRECTORY, STATE_DIRECTORY, StatePaths};
pub use removal::remove_root;
pub use request_answers::{AnswerFile, StoredAnswer};
pub use shares::{Share, ShareFile, ShareWrite, StoredShares};
pub use sqlite_file::snapshot_database;
pub use tree::{
    CachedFile, DiskUsage, ExpectedFile, FileInstall, FileStat, InstallResult, LargeFileStaging, OpenFile,
    SetXattrMode, SpecialFile, SpecialKind, StatKind, WorkTree, XattrProbe, strip_setid,
};
pub use untracked::UntrackedFiles;
pub use usage::{BucketCount, BucketSize, HourRange, PageViews, SearchCount, UsageCounts, UsageTotals};
pub use version_store::{
    LogOnlyState, PathState, SNAPSHOT_DIRECTORY, SnapshotStore, VersionStore, VersionStrategy, WriteTip,
};
pub use view_counts::ViewCountFile;
pub use webhooks::{
    DeliveryAttempt, HookFile, HookPosition, HookWrite, QueuedDelivery, StoredHook, StoredHooks, snapshot_webhooks,
};
