//! What a request's conditions are judged by, and what its write expects to find: one look at each file.
//!
//! dav-server asks about a file for each condition that names it, and again when it writes. Were each of these a look of its own, a write of
//! another door between two of them would be lost: the condition is judged by what was there before it, and what the write expects is made of
//! what came. So the first look is kept, hash and time of one content, and is the answer to everything that is asked until the end.

use svcfs_base::{ETag, Fault, Kind, Precondition, TreePath};

use crate::context::WebdavRequestContext;
use crate::metadata::ResourceMetadata;
use crate::resolved::ResolvedResource;

/// What stood at a path when a request's conditions were first judged.
#[derive(Debug, Clone)]
pub(crate) enum ObservedState {
    /// Nothing.
    Nothing,
    /// A file, and the hash of its content.
    File(ResourceMetadata, ETag),
    /// One that is too large for any version.
    Large(ResourceMetadata),
}

impl ObservedState {
    /// Looks at a file that was found.
    ///
    /// # Errors
    /// Those of reading it.
    pub(crate) fn at(asked: &WebdavRequestContext, found: &ResolvedResource<'_>) -> Result<Self, Fault> {
        let attributes = found.attributes.clone();
        if found.is_large() {
            return Ok(Self::Large(ResourceMetadata::of_large(attributes)));
        }
        match asked.space().vfs.read(asked.caller().protocol, &found.path) {
            Ok(file) => Ok(Self::File(ResourceMetadata::of(file.attributes, file.etag), file.etag)),
            // Made through a mount, and not saved yet: to all others it is an empty file.
            Err(fault) if fault.kind() == Kind::NotFound => {
                let etag = ETag::from_content(b"");
                Ok(Self::File(ResourceMetadata::of(attributes, etag), etag))
            }
            Err(fault) => Err(fault),
        }
    }

    /// What dav-server is told of it.
    ///
    /// # Errors
    /// `NotFound` where nothing was.
    pub(crate) fn metadata(self, path: &TreePath) -> Result<ResourceMetadata, Fault> {
        match self {
            Self::Nothing => Err(Fault::file_not_found(path)),
            Self::File(metadata, _) | Self::Large(metadata) => Ok(metadata),
        }
    }

    /// Refuses content that was read later, unless it is what was looked at.
    ///
    /// # Errors
    /// `Conflict`.
    pub(crate) fn admits(&self, path: &TreePath, now: ETag) -> Result<(), Fault> {
        match self {
            Self::File(_, etag) if *etag == now => Ok(()),
            Self::Nothing | Self::File(..) | Self::Large(_) => Err(Fault::edit_conflict(path, Some(now))),
        }
    }
}

/// What the write path is to find. Anything, where no condition was judged.
pub(crate) fn expect(look: Option<&ObservedState>) -> Precondition {
    match look {
        None => Precondition::Any,
        Some(ObservedState::Nothing) => Precondition::Absent,
        Some(ObservedState::File(_, etag)) => Precondition::OneOf(vec![*etag]),
        Some(ObservedState::Large(metadata)) => {
            metadata.attributes.large_file().map_or(Precondition::Present, Precondition::Large)
        }
    }
}

/// Refuses to go on when what is read is not as it was looked at. Of what is written, the write path looks itself.
///
/// # Errors
/// `Conflict`.
pub(crate) fn check(asked: &WebdavRequestContext, look: Option<&ObservedState>, path: &TreePath) -> Result<(), Fault> {
    let Some(look) = look else { return Ok(()) };
    let now = match ResolvedResource::itself(asked, path) {
        Ok(found) => ObservedState::at(asked, &found)?,
        Err(fault) if fault.kind() == Kind::NotFound => ObservedState::Nothing,
        Err(fault) => return Err(fault),
    };
    match (look, now) {
        (ObservedState::Nothing, ObservedState::Nothing) => Ok(()),
        (ObservedState::Large(then), ObservedState::Large(now)) if then.etag == now.etag => Ok(()),
        (look, ObservedState::File(_, now)) => look.admits(path, now),
        (ObservedState::File(..) | ObservedState::Large(_), ObservedState::Nothing) => {
            Err(Fault::edit_conflict(path, None))
        }
        (_, ObservedState::Large(_)) => {
            let told = format!(
                "conflict: file was modified since your last read: `{path}` is another large file now; look at it, and retry"
            );
            Err(Fault::new(Kind::Conflict, told))
        }
    }
}
