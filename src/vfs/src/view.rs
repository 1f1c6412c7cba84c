//! What readers get.
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::SystemTime;
use svcfs_base::{Actor, ETag, Timestamp, TreePath};

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
}

/// What is known of a path without reading it.
#[derive(Debug, Clone)]
pub struct Attributes {
    /// What it is.
    pub kind: EntryKind,
    /// Length in bytes; of a directory 0, of a link the length of its target.
    pub size: u64,
    /// Permission bits (0o777).
    pub mode: u32,
    /// Owner on the server's disk.
    pub uid: u32,
    /// Group on the server's disk.
    pub gid: u32,
    /// Last modification.
    pub modified: SystemTime,
    /// Last change of attributes.
    pub changed: SystemTime,
    /// Last access.
    pub accessed: SystemTime,
    /// Number of names (directories: 2 + subdirectories).
    pub links: u32,
}

/// One entry of a listing.
#[derive(Debug, Clone)]
pub struct DirectoryEntry {
    /// Its full path.
    pub path: TreePath,
    /// What is known of it.
    pub attributes: Attributes,
}

/// A file's content and what goes with it.
#[derive(Debug, Clone)]
pub struct File {
    /// The bytes.
    pub content: Bytes,
    /// Their git blob hash.
    pub etag: ETag,
    /// What is known of the file.
    pub attributes: Attributes,
}

/// Contract 2.3.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Version {
    /// Commit.
    pub hash: String,
    /// Who.
    pub author: Actor,
    /// Commit message.
    pub message: String,
    /// When.
    pub timestamp: Timestamp,
}

/// Contract 2.4.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BlameLine {
    /// From 1.
    pub line: usize,
    /// Without its line end.
    pub content: String,
    /// Commit.
    pub hash: String,
    /// Who.
    pub author: Actor,
    /// When.
    pub timestamp: Timestamp,
}

/// Contract 2.5.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ChangeRecord {
    /// Commit.
    pub seq: String,
    /// Which path.
    pub path: TreePath,
    /// `write` or `delete`.
    pub action: String,
    /// Who.
    pub actor: Actor,
    /// When.
    pub timestamp: Timestamp,
}

/// A page of the change feed, oldest first (gaps.md D10).
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Changes {
    /// The records.
    pub changes: Vec<ChangeRecord>,
    /// Commit to pass as `since` next time.
    pub last_seq: String,
}
