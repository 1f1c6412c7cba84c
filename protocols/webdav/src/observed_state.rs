//! The state of a file that the preconditions of a request are checked against, read once.
//!
//! dav-server queries a file for each condition, and again when it writes. If each query read the
//! file, a concurrent write between two of them would be lost: the condition would be checked
//! against the old content, and the write would expect the new one. So the first state, hash and
//! time of one content, is kept until the end of the request.

use svcfs_base::{ETag, Fault, Kind, Precondition, TreePath};

use crate::context::WebdavRequestContext;
use crate::metadata::ResourceMetadata;
use crate::resolved::ResolvedResource;

/// The state of a path when a precondition was first checked.
#[derive(Debug, Clone)]
pub(crate) enum ObservedState {
    Nothing,
    /// A file with the hash of its content.
    File(ResourceMetadata, ETag),
    /// A file too large to be versioned.
    Large(ResourceMetadata),
}

impl ObservedState {
    /// Reads the state of a file.
    pub(crate) fn read(context: &WebdavRequestContext, resource: &ResolvedResource<'_>) -> Result<Self, Fault> {
        let attributes = resource.attributes.clone();
        if resource.is_large() {
            return Ok(Self::Large(ResourceMetadata::of_large(attributes)));
        }
        match context.tree().read(context.caller().protocol, &resource.path) {
            Ok(file) => Ok(Self::File(ResourceMetadata::of(file.attributes, file.etag), file.etag)),
            // Created through a mount and not saved yet: other clients see an empty file.
            Err(fault) if fault.kind() == Kind::NotFound => {
                let etag = ETag::from_content(b"");
                Ok(Self::File(ResourceMetadata::of(attributes, etag), etag))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The metadata for dav-server. Errors: `NotFound` if nothing was there.
    pub(crate) fn metadata(self, path: &TreePath) -> Result<ResourceMetadata, Fault> {
        match self {
            Self::Nothing => Err(Fault::file_not_found(path)),
            Self::File(metadata, _) | Self::Large(metadata) => Ok(metadata),
        }
    }

    /// Checks that content that was read later is the observed one. Errors: `Conflict`.
    pub(crate) fn check_unchanged(&self, path: &TreePath, current: ETag) -> Result<(), Fault> {
        match self {
            Self::File(_, etag) if *etag == current => Ok(()),
            Self::Nothing | Self::File(..) | Self::Large(_) => Err(Fault::edit_conflict(path, Some(current))),
        }
    }
}

/// What the write path must find; anything, if no precondition was checked.
pub(crate) fn to_precondition(observed: Option<&ObservedState>) -> Precondition {
    match observed {
        None => Precondition::Any,
        Some(ObservedState::Nothing) => Precondition::Absent,
        Some(ObservedState::File(_, etag)) => Precondition::OneOf(vec![*etag]),
        Some(ObservedState::Large(metadata)) => {
            metadata.attributes.large_file().map_or(Precondition::Present, Precondition::Large)
        }
    }
}

/// Checks that a resource that is read is still in the observed state. For writes, the write path
/// checks it. Errors: `Conflict`.
pub(crate) fn check(
    context: &WebdavRequestContext,
    observed: Option<&ObservedState>,
    path: &TreePath,
) -> Result<(), Fault> {
    let Some(observed) = observed else { return Ok(()) };
    let current = match ResolvedResource::at_no_follow(context, path) {
        Ok(resource) => ObservedState::read(context, &resource)?,
        Err(fault) if fault.kind() == Kind::NotFound => ObservedState::Nothing,
        Err(fault) => return Err(fault),
    };
    match (observed, current) {
        (ObservedState::Nothing, ObservedState::Nothing) => Ok(()),
        (ObservedState::Large(before), ObservedState::Large(current)) if before.etag == current.etag => Ok(()),
        (observed, ObservedState::File(_, current)) => observed.check_unchanged(path, current),
        (ObservedState::File(..) | ObservedState::Large(_), ObservedState::Nothing) => {
            Err(Fault::edit_conflict(path, None))
        }
        (_, ObservedState::Large(_)) => {
            let message = format!(
                "conflict: file was modified since your last read: `{path}` is another large file now; read it again and retry"
            );
            Err(Fault::new(Kind::Conflict, message))
        }
    }
}
