//! Preconditions and the state they are compared with.
//!
//! Invariant: they are evaluated only while the path is locked, by the code that changes it.

use svcfs_base::{ETag, Fault, Kind, LargeFile, Precondition, TreePath};

use crate::core::EffectiveState;

#[derive(Debug, Clone, Copy)]
pub(crate) enum CurrentState {
    Nothing,
    Content(ETag),
    Large(LargeFile),
    Special,
}

impl CurrentState {
    pub(crate) fn of(path: &TreePath, present: &EffectiveState) -> Result<Self, Fault> {
        match present {
            EffectiveState::Absent => Ok(Self::Nothing),
            EffectiveState::Leaf(leaf, _) => Ok(Self::Content(leaf.etag)),
            EffectiveState::Large(large) => Ok(Self::Large(*large)),
            EffectiveState::Directory => Err(Fault::is_directory(path)),
        }
    }
}

/// A precondition that does not hold refuses the write, also on a path that does not exist.
pub(crate) fn check_precondition(path: &TreePath, current: CurrentState, expect: &Precondition) -> Result<(), Fault> {
    match (expect, current) {
        (Precondition::Any, _)
        | (Precondition::Absent, CurrentState::Nothing)
        | (Precondition::Present, CurrentState::Content(_) | CurrentState::Large(_) | CurrentState::Special) => Ok(()),
        (Precondition::OneOf(etags), CurrentState::Content(etag)) if etags.contains(&etag) => Ok(()),
        (Precondition::Large(large), CurrentState::Large(current)) if *large == current => Ok(()),
        (Precondition::Absent, _) => Err(Fault::new(
            Kind::PreconditionFailed,
            format!("`{path}` already exists; the request only allows creating it"),
        )),
        (Precondition::Present | Precondition::OneOf(_) | Precondition::Large(_), CurrentState::Nothing) => {
            Err(Fault::edit_conflict(path, None))
        }
        (_, CurrentState::Content(etag)) => Err(Fault::edit_conflict(path, Some(etag))),
        (_, CurrentState::Large(_) | CurrentState::Special) => {
            let message = format!(
                "conflict: file was modified since your last read: `{path}` is now a large or special file without versions; read it, and retry"
            );
            Err(Fault::new(Kind::Conflict, message))
        }
    }
}
