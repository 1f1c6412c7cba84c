//! What conditions are compared with, and the comparison.
//!
//! One rule: it is made while the path is held, by whoever changes what stands there, and nowhere else.

use svcfs_base::{ETag, Fault, Kind, LargeFile, Precondition, TreePath};

use crate::core::EffectiveState;

/// What conditions are compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CurrentState {
    Nothing,
    /// A content that versions can have.
    Content(ETag),
    /// A file too large for any version.
    Large(LargeFile),
    /// A pipe, socket or device.
    Special,
}

impl CurrentState {
    /// # Errors
    /// `IsDirectory`.
    pub(crate) fn of(path: &TreePath, present: &EffectiveState) -> Result<Self, Fault> {
        match present {
            EffectiveState::Absent => Ok(Self::Nothing),
            EffectiveState::Leaf(leaf, _) => Ok(Self::Content(leaf.etag)),
            EffectiveState::Large(large) => Ok(Self::Large(*large)),
            EffectiveState::Directory => Err(Fault::is_directory(path)),
        }
    }
}

/// Contract 9.1 and gaps.md D2: a condition that does not hold refuses the write, also on a path that does not exist.
pub(crate) fn check(path: &TreePath, now: CurrentState, expect: &Precondition) -> Result<(), Fault> {
    match (expect, now) {
        (Precondition::Any, _)
        | (Precondition::Absent, CurrentState::Nothing)
        | (Precondition::Present, CurrentState::Content(_) | CurrentState::Large(_) | CurrentState::Special) => Ok(()),
        (Precondition::OneOf(etags), CurrentState::Content(etag)) if etags.contains(&etag) => Ok(()),
        (Precondition::Large(large), CurrentState::Large(now)) if *large == now => Ok(()),
        (Precondition::Absent, _) => {
            Err(Fault::new(Kind::PreconditionFailed, format!("`{path}` exists already, and was to be created only")))
        }
        (Precondition::Present | Precondition::OneOf(_) | Precondition::Large(_), CurrentState::Nothing) => {
            Err(Fault::edit_conflict(path, None))
        }
        (_, CurrentState::Content(etag)) => Err(Fault::edit_conflict(path, Some(etag))),
        (_, CurrentState::Large(_) | CurrentState::Special) => {
            let told = format!(
                "conflict: file was modified since your last read: `{path}` is one that no version has now; look at it, and retry"
            );
            Err(Fault::new(Kind::Conflict, told))
        }
    }
}
