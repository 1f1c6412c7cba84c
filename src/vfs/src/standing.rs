//! What conditions are compared with, and the comparison.
//!
//! One rule: it is made while the path is held, by whoever changes what stands there, and nowhere else.

use svcfs_base::{ETag, Fault, Kind, LargeFile, Precondition, TreePath};

use crate::core::Present;

/// What conditions are compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Standing {
    Nothing,
    /// A content that versions can have.
    Content(ETag),
    /// A file too large for any version.
    Large(LargeFile),
    /// A pipe, socket or device.
    Special,
}

impl Standing {
    /// # Errors
    /// `IsDirectory`.
    pub(crate) fn of(path: &TreePath, present: &Present) -> Result<Self, Fault> {
        match present {
            Present::Absent => Ok(Self::Nothing),
            Present::Leaf(leaf, _) => Ok(Self::Content(leaf.etag)),
            Present::Large(large) => Ok(Self::Large(*large)),
            Present::Directory => Err(Fault::is_directory(path)),
        }
    }
}

/// Contract 9.1 and gaps.md D2: a condition that does not hold refuses the write, also on a path that does not exist.
pub(crate) fn check(path: &TreePath, now: Standing, expect: &Precondition) -> Result<(), Fault> {
    match (expect, now) {
        (Precondition::Any, _)
        | (Precondition::Absent, Standing::Nothing)
        | (Precondition::Present, Standing::Content(_) | Standing::Large(_) | Standing::Special) => Ok(()),
        (Precondition::OneOf(etags), Standing::Content(etag)) if etags.contains(&etag) => Ok(()),
        (Precondition::Large(large), Standing::Large(now)) if *large == now => Ok(()),
        (Precondition::Absent, _) => {
            Err(Fault::new(Kind::PreconditionFailed, format!("`{path}` exists already, and was to be created only")))
        }
        (Precondition::Present | Precondition::OneOf(_) | Precondition::Large(_), Standing::Nothing) => {
            Err(Fault::modified(path, None))
        }
        (_, Standing::Content(etag)) => Err(Fault::modified(path, Some(etag))),
        (_, Standing::Large(_) | Standing::Special) => {
            let told = format!(
                "conflict: file was modified since your last read: `{path}` is one that no version has now; look at it, and retry"
            );
            Err(Fault::new(Kind::Conflict, told))
        }
    }
}
