//! Errors of the disk, of git and of SQLite, and their translation into [`Fault`].

use std::error::Error;
use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;
use svcfs_base::{Fault, Kind, TreePath};

/// A failure of the disk, of git or of SQLite.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call failed on a path of the tree.
    #[error("`{path}`: {source}")]
    Disk {
        /// The path.
        path: TreePath,
        /// The error of the system call.
        source: io::Error,
    },
    /// A component of the path is a symbolic link; links are not followed here.
    #[error("a part of `{0}` is a symbolic link")]
    SymlinkInPath(TreePath),
    /// libgit2 failed.
    #[error("git: {0}")]
    Git(#[from] git2::Error),
    /// The version store cannot record this path; git, for example, refuses a file named `.git`.
    #[error("`{path}` cannot be recorded: {reason}")]
    Unrecordable {
        /// The path.
        path: TreePath,
        /// The reason.
        reason: String,
    },
    /// A filter that `.gitattributes` names for a path could not convert its content.
    #[error("`{path}`: a git filter failed: {reason}")]
    FilterFailed {
        /// The path.
        path: TreePath,
        /// What git reported.
        reason: String,
    },
    /// SQLite failed.
    #[error("log.db: {0}")]
    Database(#[from] rusqlite::Error),
    /// A file of svcfs's own state could not be read or written.
    #[error("state: {0}")]
    State(#[from] io::Error),
    /// A file of git's could not be written.
    #[error("git: {0}")]
    GitFile(io::Error),
    /// The git directory is missing, damaged or locked by another process. The text says what to do
    /// and may be shown to every caller.
    #[error("{0}")]
    Repository(String),
    /// Another server already serves this repository, through another of its work trees.
    #[error(
        "root `{root}` is a work tree of a repository that process {process} already serves as root `{other}`; stop that process, or \
         serve a clone: two servers would delete each other's packs", root = root.display(), other = other.display()
    )]
    AlreadyServed {
        /// The root that was to be served.
        root: PathBuf,
        /// The root that is served already.
        other: PathBuf,
        /// The process that serves it.
        process: String,
    },
    /// A stored value is invalid.
    #[error("the state is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// Whether no file exists at the path, or none can: a component above it is a file.
    pub fn is_missing(&self) -> bool {
        use io::ErrorKind as E;
        matches!(self.io_kind(), Some(E::NotFound | E::NotADirectory))
    }

    /// Whether the path, or a component above it, is of another type: a directory, a file, a link,
    /// another mount.
    pub fn is_type_conflict(&self) -> bool {
        use io::ErrorKind as E;
        let is_link = matches!(self, Self::SymlinkInPath(_));
        is_link
            || matches!(
                self.io_kind(),
                Some(E::IsADirectory | E::NotADirectory | E::DirectoryNotEmpty | E::CrossesDevices)
            )
    }

    /// Whether the file is too large to have versions.
    pub fn is_too_large(&self) -> bool {
        self.io_kind() == Some(io::ErrorKind::FileTooLarge)
    }

    /// The kind of a system error on a path of the tree.
    pub(crate) fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Disk { source, .. } => Some(source.kind()),
            Self::SymlinkInPath(_)
            | Self::Git(_)
            | Self::Unrecordable { .. }
            | Self::FilterFailed { .. }
            | Self::Database(_)
            | Self::State(_)
            | Self::GitFile(_)
            | Self::Repository(_)
            | Self::AlreadyServed { .. }
            | Self::Damaged(_) => None,
        }
    }

    /// This error of a system call on a file of git's.
    pub(crate) fn in_git(self) -> Self {
        match self {
            Self::State(source) => Self::GitFile(source),
            error => error,
        }
    }

    /// Whether another git process locks what is to be written. Such locks usually last
    /// milliseconds.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Git(error) if error.code() == git2::ErrorCode::Locked)
    }

    /// Whether another program moved the branch at the same time.
    pub fn is_branch_moved(&self) -> bool {
        matches!(self, Self::Git(error) if is_branch_moved(error))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Disk { path, source } => Self::io(&path, source),
            StoreError::SymlinkInPath(path) => {
                Self::invalid("path", format_args!("a part of `{path}` is a symbolic link; use the path it leads to"))
            }
            StoreError::Unrecordable { path, reason } => {
                Self::invalid("path", format_args!("`{path}` cannot be recorded: {reason}; choose another name"))
            }
            StoreError::FilterFailed { path, reason } => Self::invalid(
                "path",
                format_args!(
                    "`{path}` needs a git filter (`.gitattributes`), which failed: {reason}; nothing was written. Repair the filter \
                     in git's configuration, or change the attribute"
                ),
            ),
            StoreError::State(source) => state_fault(".svc/state", source),
            StoreError::GitFile(source) => state_fault(".git", source),
            StoreError::Repository(text) => Self::unavailable(text),
            StoreError::AlreadyServed { .. } => Self::new(Kind::Conflict, error.to_string()),
            StoreError::Database(source) => match source.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => no_space(".svc/state/log.db", source),
                Some(ErrorCode::ReadOnly) => read_only(source),
                Some(ErrorCode::SystemIoFailure) => disk_failed(source),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => unreadable_log(source),
                _ => Self::internal(StoreError::Database(source)),
            },
            // libgit2 keeps the message of the system error, but not its number.
            StoreError::Git(source) => match source.message() {
                text if text.contains("No space left on device") || text.contains("Disk quota exceeded") => {
                    no_space(".git", source)
                }
                text if text.contains("Read-only file system") => read_only(source),
                text if text.contains("Input/output error") => disk_failed(source),
                text if text.contains("Permission denied") => no_permission(source),
                _ if source.code() == git2::ErrorCode::Locked || is_branch_moved(&source) => locked(source),
                _ if source.class() == git2::ErrorClass::Reference => unreadable_branch(source),
                // libgit2 does not always set the code.
                text if source.class() == git2::ErrorClass::Odb && text.starts_with("object not found") => {
                    missing_object(source)
                }
                _ => Self::internal(StoreError::Git(source)),
            },
            StoreError::Damaged(text) => Self::internal(StoreError::Damaged(text)),
        }
    }
}

fn is_branch_moved(error: &git2::Error) -> bool {
    error.class() == git2::ErrorClass::Reference && error.code() == git2::ErrorCode::Modified
}

/// Translates a system error on a file in a directory of svcfs or git.
fn state_fault(directory: &str, source: io::Error) -> Fault {
    use io::ErrorKind as E;
    match source.kind() {
        E::StorageFull | E::QuotaExceeded => no_space(directory, source),
        E::ReadOnlyFilesystem => read_only(source),
        E::PermissionDenied => no_permission(source),
        E::FileTooLarge => Fault::new(Kind::TooLarge, "the file is longer than the file system of the server allows")
            .with_source(source),
        _ if source.raw_os_error() == Some(Kind::DiskFailed.errno()) => disk_failed(source),
        E::NotFound => Fault::unavailable(
            "a directory below `.git` or `.svc/state` of the root is missing; restore it, or run `svcfs doctor`",
        )
        .with_source(source),
        _ => Fault::internal(StoreError::State(source)),
    }
}

/// `place` is the part of the root that could not be written.
fn no_space(place: &str, source: impl Error + Send + Sync + 'static) -> Fault {
    Fault::disk_full(format_args!("`{place}` in the server's root")).with_source(source)
}

fn disk_failed(source: impl Error + Send + Sync + 'static) -> Fault {
    Fault::new(Kind::DiskFailed, "the server's disk failed: input/output error; check the disk").with_source(source)
}

/// SQLite reports a malformed file; the cause is usually the disk.
fn unreadable_log(source: rusqlite::Error) -> Fault {
    let text = "the log (`.svc/state/log.db`) is corrupt; check the disk, and run `svcfs doctor`";
    Fault::new(Kind::DiskFailed, text).with_source(source)
}

fn read_only(source: impl Error + Send + Sync + 'static) -> Fault {
    Fault::new(Kind::ReadOnly, "the server's disk is read-only; nothing was written").with_source(source)
}

fn locked(source: git2::Error) -> Fault {
    let text = "another program holds a lock of git on the branch, or moves it; retry when it has ended. If no git command runs, \
                `svcfs doctor` names the stale lock";
    Fault::unavailable(text).with_source(source)
}

fn unreadable_branch(source: git2::Error) -> Fault {
    let text = "git's `HEAD` or its branch cannot be read; restore it, or run `svcfs doctor`";
    Fault::unavailable(text).with_source(source)
}

fn missing_object(source: git2::Error) -> Fault {
    let text = format!(
        "an object of the branch is missing in git ({}); restore `.git/objects`, or run `svcfs doctor` to list the missing objects",
        source.message()
    );
    Fault::unavailable(text).with_source(source)
}

fn no_permission(source: impl Error + Send + Sync + 'static) -> Fault {
    let text = "permission denied on the server's disk; the server must be allowed to write `.svc/state` and `.git` in its root";
    Fault::new(Kind::Forbidden, text).with_source(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_error_is_classified_the_same_for_every_caller() {
        let git =
            |text: &str| StoreError::Git(git2::Error::new(git2::ErrorCode::GenericError, git2::ErrorClass::Os, text));
        let branch = |code, text: &str| StoreError::Git(git2::Error::new(code, git2::ErrorClass::Reference, text));
        let state = |errno| StoreError::State(io::Error::from_raw_os_error(errno));
        let database =
            |code| StoreError::Database(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        for (error, kind) in [
            (git("failed to make directory 'objects/39': No space left on device"), Kind::NoSpace),
            (git("could not create 'index.lock': Read-only file system"), Kind::ReadOnly),
            (git("could not open 'HEAD.lock': Permission denied"), Kind::Forbidden),
            (git("failed to write 'objects/39': Input/output error"), Kind::DiskFailed),
            (git("object not found"), Kind::Internal),
            (branch(git2::ErrorCode::Locked, "failed to lock 'objects/39'"), Kind::Unavailable),
            (branch(git2::ErrorCode::Modified, "old reference value does not match"), Kind::Unavailable),
            (branch(git2::ErrorCode::GenericError, "corrupted loose reference file: HEAD"), Kind::Unavailable),
            (StoreError::Repository("the git branch is gone".to_owned()), Kind::Unavailable),
            (state(2), Kind::Unavailable),
            (state(28), Kind::NoSpace),
            (StoreError::GitFile(io::Error::from_raw_os_error(28)), Kind::NoSpace),
            (state(122), Kind::NoSpace),
            (state(30), Kind::ReadOnly),
            (state(13), Kind::Forbidden),
            (state(5), Kind::DiskFailed),
            (state(75), Kind::Internal),
            (database(rusqlite::ffi::SQLITE_FULL), Kind::NoSpace),
            (database(rusqlite::ffi::SQLITE_READONLY), Kind::ReadOnly),
            (database(rusqlite::ffi::SQLITE_IOERR), Kind::DiskFailed),
            (database(rusqlite::ffi::SQLITE_CORRUPT), Kind::DiskFailed),
            (database(rusqlite::ffi::SQLITE_MISMATCH), Kind::Internal),
        ] {
            let told = error.to_string();
            let fault = Fault::from(error);
            assert_eq!(fault.kind(), kind, "{told}");
            let names_place = [".svc/state", ".svc/state/log.db", ".git"]
                .map(|place| format!("disk full: no space left for `{place}`"));
            let is_named = names_place.iter().any(|text| fault.message().starts_with(text));
            assert_eq!(is_named, kind == Kind::NoSpace, "{fault}");
            assert!(!fault.message().contains("objects/39"), "a caller reads where the server keeps things: {fault}");
        }
    }
}
