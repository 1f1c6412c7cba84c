//! Requested changes and their results.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Actor, CommitId, DraftId, ETag, Fault, Seq, TreePath};

/// Condition on a path that must hold before it is changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Precondition {
    /// No condition.
    #[default]
    Any,
    /// The path must not exist (`If-None-Match: *`).
    Absent,
    /// The path must exist (`If-Match: *`).
    Present,
    /// The present content must have one of these hashes (`If-Match`).
    OneOf(Vec<ETag>),
    /// The path must be this large, unversioned file.
    Large(LargeFile),
}

/// Identity of a file that is too large for a version (over [`crate::MAX_FILE_BYTES`]) and has no
/// hash: its size and modification time. As text it is the ETag of such a file in every protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeFile {
    /// Length in bytes.
    pub size: u64,
    /// Last modification.
    pub modified: SystemTime,
}

impl fmt::Display for LargeFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modified = self.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        write!(formatter, "{:x}-{:x}", self.size, modified.as_nanos())
    }
}

/// Kind of a file, as git records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// git mode 100644.
    Regular,
    /// git mode 100755.
    Executable,
    /// git mode 120000; the content is the target.
    Symlink,
}

impl FileKind {
    /// The mode git stores in a tree.
    pub const fn git_mode(self) -> i32 {
        match self {
            Self::Regular => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
        }
    }
    /// The kind of a mode in a git tree; none for directories and submodules.
    pub const fn from_git_mode(mode: i32) -> Option<Self> {
        match mode {
            0o100_644 | 0o100_664 => Some(Self::Regular),
            0o100_755 => Some(Self::Executable),
            0o120_000 => Some(Self::Symlink),
            _ => None,
        }
    }
}

/// Attributes of a file that exist on disk only and are not versioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskAttributes {
    /// Permission bits; none keeps the present ones (0644 when new). The execute bits follow the
    /// kind.
    pub mode: Option<u32>,
    /// User and group; none keeps the present ones (those of the directory when new). Only a server
    /// that runs as root can change owners.
    pub owner: Option<(u32, u32)>,
    /// Modification time; none is now.
    pub modified: Option<std::time::SystemTime>,
    /// Time of the last access; none is now. Not in the log: after a crash it is none.
    pub accessed: Option<std::time::SystemTime>,
}

/// One requested change.
#[derive(Debug, Clone)]
pub enum Change {
    /// Put content at a path, creating directories above it as needed.
    Put {
        /// The path.
        path: TreePath,
        /// The complete new content; the target of a symbolic link.
        content: Bytes,
        /// Condition on the path.
        precondition: Precondition,
        /// Kind of file; none keeps the present kind (a regular file when new).
        kind: Option<FileKind>,
        /// Unversioned attributes of the file.
        attributes: DiskAttributes,
    },
    /// Remove a file or link.
    Remove {
        /// The path.
        path: TreePath,
        /// Condition on the path.
        precondition: Precondition,
    },
    /// Rename a file, link or directory. An existing target is replaced (a directory only when
    /// empty).
    Move {
        /// The old name.
        from: TreePath,
        /// The new name.
        to: TreePath,
        /// Condition on `to`.
        precondition: Precondition,
    },
    /// Create a directory. Directories exist on disk only and are not versioned.
    MakeDir {
        /// The path.
        path: TreePath,
    },
    /// Remove an empty directory.
    RemoveDir {
        /// The path.
        path: TreePath,
    },
}

impl Change {
    /// Content for a path, without a condition.
    pub fn put(path: TreePath, content: impl Into<Bytes>) -> Self {
        Self::Put {
            path,
            content: content.into(),
            precondition: Precondition::Any,
            kind: None,
            attributes: DiskAttributes::default(),
        }
    }
    /// A symbolic link at a path.
    pub fn symlink(path: TreePath, target: &str) -> Self {
        let content = Bytes::copy_from_slice(target.as_bytes());
        Self::Put {
            path,
            content,
            precondition: Precondition::Any,
            kind: Some(FileKind::Symlink),
            attributes: DiskAttributes::default(),
        }
    }
    /// Removes a file.
    pub const fn remove(path: TreePath) -> Self {
        Self::Remove { path, precondition: Precondition::Any }
    }
    /// Renames a path.
    pub const fn rename(from: TreePath, to: TreePath) -> Self {
        Self::Move { from, to, precondition: Precondition::Any }
    }
    /// The same change with a precondition; ignored for directory changes.
    #[must_use]
    pub fn with_precondition(mut self, condition: Precondition) -> Self {
        match &mut self {
            Self::Put { precondition: expect, .. }
            | Self::Remove { precondition: expect, .. }
            | Self::Move { precondition: expect, .. } => *expect = condition,
            Self::MakeDir { .. } | Self::RemoveDir { .. } => {}
        }
        self
    }
    /// The changed path (of a rename: the old name).
    pub const fn path(&self) -> &TreePath {
        match self {
            Self::Put { path, .. } | Self::Remove { path, .. } | Self::MakeDir { path } | Self::RemoveDir { path } => {
                path
            }
            Self::Move { from, .. } => from,
        }
    }
}

/// When the writer of an accepted change is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After the change is flushed, in the tree, committed and announced; with
    /// `versioning.async_commit` the commit follows later.
    Now,
    /// After all gates accepted it and it is in the queue; it is flushed within 50 ms.
    Soon,
}

/// How a change set appears in the event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventAnnouncement {
    /// One `write` or `delete` for each path.
    Files,
    /// One `bulk` with every path.
    Bulk,
    /// One `bulk` with every path: the changes of a draft.
    Merge,
    /// One `import` with every path.
    Import,
    /// One `comment.add` with the page.
    CommentAdd,
    /// One `comment.resolve` with the page; also when a comment is opened again.
    CommentResolve,
    /// One `comment.delete` with the page.
    CommentDelete,
}

impl EventAnnouncement {
    /// The name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Bulk => "bulk",
            Self::Merge => "merge",
            Self::Import => "import",
            Self::CommentAdd => "comment.add",
            Self::CommentResolve => "comment.resolve",
            Self::CommentDelete => "comment.delete",
        }
    }
    /// The name in the event stream.
    pub const fn stream_name(self) -> &'static str {
        match self {
            Self::Merge => Self::Bulk.name(),
            other => other.name(),
        }
    }
    /// Whether it is about a comment; the change is one of the file with the comments of the page.
    pub const fn is_comment(self) -> bool {
        matches!(self, Self::CommentAdd | Self::CommentResolve | Self::CommentDelete)
    }
    /// Parses a name, as [`EventAnnouncement::name`] gives it.
    pub fn parse(name: &str) -> Option<Self> {
        let comments = [Self::CommentAdd, Self::CommentResolve, Self::CommentDelete];
        [Self::Files, Self::Bulk, Self::Merge, Self::Import]
            .into_iter()
            .chain(comments)
            .find(|kind| kind.name() == name)
    }
}

/// Changes that are applied together: all or none, in one commit.
#[derive(Debug, Clone)]
pub struct ChangeSet {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// Subject of the commit; none for the default.
    pub message: Option<String>,
    /// Author of the commit, if it is not the caller: who wrote what the caller accepts.
    pub author: Option<Actor>,
    /// When the writer is answered.
    pub durability: Durability,
    /// How event subscribers see the set.
    pub announcement: EventAnnouncement,
}

impl ChangeSet {
    /// Changes with [`Durability::Now`].
    pub const fn new(changes: Vec<Change>) -> Self {
        Self {
            changes,
            message: None,
            author: None,
            durability: Durability::Now,
            announcement: EventAnnouncement::Files,
        }
    }
    /// The same set with a commit subject.
    #[must_use]
    pub fn with_message(mut self, text: impl Into<String>) -> Self {
        self.message = Some(text.into());
        self
    }
    /// The same set with another author.
    #[must_use]
    pub fn with_author(mut self, actor: Actor) -> Self {
        self.author = Some(actor);
        self
    }
    /// The same set with another announcement.
    #[must_use]
    pub const fn with_announcement(mut self, announcement: EventAnnouncement) -> Self {
        self.announcement = announcement;
        self
    }
    /// The same set with [`Durability::Soon`].
    #[must_use]
    pub const fn soon(mut self) -> Self {
        self.durability = Durability::Soon;
        self
    }
}

impl From<Change> for ChangeSet {
    fn from(change: Change) -> Self {
        Self::new(vec![change])
    }
}

/// State of one path after an accepted change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WriteResult {
    /// The normalised path.
    pub path: TreePath,
    /// Hash of the stored content; none when the path does not exist any more.
    pub etag: Option<ETag>,
}

/// Result of a change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyResult {
    /// Its position in the change log; the end of the log when nothing changed.
    pub seq: Seq,
    /// Its commit; none when nothing changed, when the writer did not wait for it, or when it is
    /// committed later.
    pub commit: Option<CommitId>,
    /// The changed files, in the requested order.
    pub files: Vec<WriteResult>,
    /// Notes for the caller, such as that another actor has claimed the page.
    pub notes: Vec<String>,
    /// The draft with the changes, if the caller may only propose them.
    pub draft: Option<DraftId>,
}

impl ApplyResult {
    /// The file of a set with one change.
    ///
    /// # Errors
    /// `Internal` when the set changed no file or several.
    pub fn single(self) -> Result<WriteResult, Fault> {
        match <[WriteResult; 1]>::try_from(self.files) {
            Ok([file]) => Ok(file),
            Err(files) => Err(Fault::internal(format!("a change set of one file touched {}", files.len()))),
        }
    }
}
