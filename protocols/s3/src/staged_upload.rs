//! An upload of any length, written to a temporary file next to its target.

use std::time::SystemTime;

use svcfs_base::{Change, Fault, Kind, MAX_FILE_BYTES, PathComponent, Precondition, TreePath};
use svcfs_listener::BlockSink;
use svcfs_vfs::StagedFile;

use crate::context::{S3RequestContext, S3RequestError};
use crate::object_metadata::{ObjectMetadata, is_missing};
use crate::resolved::ResolvedNode;

/// Checks, before the body arrives, that a path can be written: S3 keys have no folders, files do.
/// Errors: `NotDirectory` when a parent is a file; `Invalid` for the server's own files.
pub(crate) fn check_parents(context: &S3RequestContext, path: &TreePath) -> Result<(), Fault> {
    if !context.space.vfs.is_visible(context.caller.protocol, path) {
        return Err(Fault::invalid("path", format_args!("path denied: `{path}` belongs to the server")));
    }
    let mut folder = path.parent();
    while let Some(path) = folder.filter(|path| !path.is_root() && context.caller.permissions.covers(path)) {
        match ResolvedNode::at(context, &path) {
            Ok(entry) if entry.is_folder() => break,
            Ok(_) => return Err(Fault::not_directory(&path)),
            Err(fault) if is_missing(&fault) => {}
            Err(fault) => return Err(fault),
        }
        folder = path.parent();
    }
    Ok(())
}

/// Creates the missing parent folders of a path. Errors: `NotDirectory` when a parent is a file.
pub(crate) fn create_parents(context: &S3RequestContext, path: &TreePath) -> Result<(), Fault> {
    let mut missing = Vec::new();
    let mut folder = path.parent();
    while let Some(path) = folder.filter(|path| !path.is_root() && context.caller.permissions.covers(path)) {
        match ResolvedNode::at(context, &path) {
            Ok(entry) if entry.is_folder() => break,
            Ok(_) => return Err(Fault::not_directory(&path)),
            Err(fault) if fault.kind() == Kind::NotFound => missing.push(path.clone()),
            Err(fault) => return Err(fault),
        }
        folder = path.parent();
    }
    for path in missing.into_iter().rev() {
        match context.space.vfs.apply(&context.caller, Change::MakeDir { path }) {
            Err(fault) if fault.kind() == Kind::Exists => {}
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

/// An object that is being uploaded; removed when dropped before it is installed.
pub(crate) struct StagedUpload(StagedFile);

impl StagedUpload {
    /// Creates one in the folder of `path`.
    pub(crate) fn new(context: &S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        if context.is_proposing() {
            return Err(Fault::too_large("file in a draft", MAX_FILE_BYTES));
        }
        create_parents(context, path)?;
        let folder = ResolvedNode::parent_of(context, path)?;
        StagedFile::create(&context.space.vfs, &context.caller, (folder.node(context)?, &folder.path)).map(Self)
    }

    /// Appends data.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.0.append(data)
    }

    /// Flushes the file to disk, which may take long.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        self.0.flush()
    }

    /// Installs the flushed file with its metadata, if the target is in the expected state. Returns
    /// its modification time. Errors: `Conflict`, `Exists` when the target is in another state. The
    /// target is unchanged then.
    pub(crate) fn install(
        mut self,
        context: &S3RequestContext,
        target: &TreePath,
        (expect, record): (Precondition, ObjectMetadata),
    ) -> Result<SystemTime, S3RequestError> {
        let attributes = context.space.vfs.attributes(self.0.node())?;
        let of = attributes.large_file().map(|large| large.to_string()).unwrap_or_default();
        // Before the rename, so that the metadata is never stored with the file of another client.
        ObjectMetadata { of, ..record }.store_metadata(context, self.0.node())?;
        let folder = ResolvedNode::parent_of(context, target)?;
        let folder = folder.node(context)?;
        self.0.install(folder, (folder, &PathComponent::parse(target.name())?), expect)?;
        Ok(attributes.modified)
    }
}

impl BlockSink for StagedUpload {
    fn write_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.append(block)
    }
}
