//! What a writer asks for, and what it got.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{CommitId, ETag, Fault, Seq, TreePath};

/// What must be true of a path before it is changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Precondition {
    /// Nothing.
    #[default]
    Any,
    /// Nothing may be there (`If-None-Match: *`).
    Absent,
    /// Something must be there (`If-Match: *`).
    Present,
    /// The content there must have one of these hashes (`If-Match`).
    OneOf(Vec<ETag>),
    /// A file too large for any version must be there, and be this one.
    Large(LargeFile),
}

/// What tells the contents of a file apart that is too large for any version (over [`crate::MAX_FILE_BYTES`]) and has no hash: its size and time.
/// As text it is the ETag of such a file at every door.
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

/// What kind of leaf a file is, as git records it.
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

/// What a file has on disk and history does not record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskAttributes {
    /// Permission bits; none keeps what is there (0644 when new). The execute bits follow the kind of file.
    pub mode: Option<u32>,
    /// User and group; none keeps what is there (its directory's when new). Only a server running as root can give files away.
    pub owner: Option<(u32, u32)>,
    /// Modification time; none is now.
    pub modified: Option<std::time::SystemTime>,
    /// Time of the last access; none is now. Kept by the disk alone: after a crash it is none.
    pub accessed: Option<std::time::SystemTime>,
}

/// One change a writer asks for.
#[derive(Debug, Clone)]
pub enum Change {
    /// Put content at a path, creating directories above it as needed.
    Put {
        /// Where.
        path: TreePath,
        /// The whole new content (of a link: its target).
        content: Bytes,
        /// What must be true before.
        precondition: Precondition,
        /// Kind of file; none keeps what is there (a regular file when new).
        kind: Option<FileKind>,
        /// What the file gets on disk beside its content; not versioned.
        attributes: DiskAttributes,
    },
    /// Remove a file or link.
    Remove {
        /// Which.
        path: TreePath,
        /// What must be true before.
        precondition: Precondition,
    },
    /// Give a file, link or whole directory another name. What was at `to` is replaced (a directory only when empty).
    Move {
        /// The old name.
        from: TreePath,
        /// The new name.
        to: TreePath,
        /// What must be true of `to` before.
        precondition: Precondition,
    },
    /// Make a directory; directories are on the disk only, history has none.
    MakeDir {
        /// Which.
        path: TreePath,
    },
    /// Remove an empty directory.
    RemoveDir {
        /// Which.
        path: TreePath,
    },
}

impl Change {
    /// Content for a path, whatever is there now.
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
    /// Removal of a file.
    pub const fn remove(path: TreePath) -> Self {
        Self::Remove { path, precondition: Precondition::Any }
    }
    /// A new name.
    pub const fn rename(from: TreePath, to: TreePath) -> Self {
        Self::Move { from, to, precondition: Precondition::Any }
    }
    /// The same change under a condition; directory changes have none.
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
    /// The path the change is about (of a move: the old name).
    pub const fn path(&self) -> &TreePath {
        match self {
            Self::Put { path, .. } | Self::Remove { path, .. } | Self::MakeDir { path } | Self::RemoveDir { path } => {
                path
            }
            Self::Move { from, .. } => from,
        }
    }
}

/// When an accepted change is answered (architecture.md 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After it is flushed, in the tree and announced; and committed, unless commits are made later (gaps.md D9).
    Now,
    /// Once it passed every gate and stands in the queue; flushed within 50 ms.
    Soon,
}

/// How a change set is told to the event stream (contract 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventAnnouncement {
    /// One `write` or `delete` for each path.
    Files,
    /// One `bulk` with every path.
    Bulk,
    /// One `import` with every path.
    Import,
}

impl EventAnnouncement {
    /// The event's name in the log and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Bulk => "bulk",
            Self::Import => "import",
        }
    }
    /// The announcement of a name, as [`Announcement::name`] gives it.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Files, Self::Bulk, Self::Import].into_iter().find(|kind| kind.name() == name)
    }
}

/// Changes that happen together: all of them or none, in one commit.
#[derive(Debug, Clone)]
pub struct ChangeSet {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// Subject of the commit; none for the usual one (gaps.md 4.4, commit conventions).
    pub message: Option<String>,
    /// When the writer is answered.
    pub durability: Durability,
    /// How subscribers hear of it.
    pub announcement: EventAnnouncement,
}

impl ChangeSet {
    /// Changes that are answered as [`Durability::Now`] says.
    pub const fn new(changes: Vec<Change>) -> Self {
        Self { changes, message: None, durability: Durability::Now, announcement: EventAnnouncement::Files }
    }
    /// The same set with a subject for its commit.
    #[must_use]
    pub fn with_message(mut self, text: impl Into<String>) -> Self {
        self.message = Some(text.into());
        self
    }
    /// The same set, announced in another way.
    #[must_use]
    pub const fn with_announcement(mut self, announcement: EventAnnouncement) -> Self {
        self.announcement = announcement;
        self
    }
    /// The same set, answered as soon as it stands in the queue.
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

/// One path after an accepted change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WriteResult {
    /// The normalised path.
    pub path: TreePath,
    /// Hash of the stored content; none when the path is gone.
    pub etag: Option<ETag>,
}

/// What became of a change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyResult {
    /// Its place in the change log; the log's present end when nothing had to change.
    pub seq: Seq,
    /// Its commit; none when nothing had to change, when the writer did not wait for it, or when it is made later.
    pub commit: Option<CommitId>,
    /// Every file it touched, in the order asked.
    pub files: Vec<WriteResult>,
}

impl ApplyResult {
    /// The one file of a set of one.
    ///
    /// # Errors
    /// `Internal` when the set touched none or several.
    pub fn single(self) -> Result<WriteResult, Fault> {
        match <[WriteResult; 1]>::try_from(self.files) {
            Ok([file]) => Ok(file),
            Err(files) => Err(Fault::internal(format!("a change set of one file touched {}", files.len()))),
        }
    }
}
