//! Removes objects: DeleteObject, and DeleteObjects in one change set.

use std::sync::Arc;

use s3s::dto::{DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use svcfs_base::{Change, ChangeSet, CommitId, Fault, Kind, Precondition, Scope, TreePath};

use crate::S3Server;
use crate::conditions::WriteConditions;
use crate::context::{S3RequestContext, S3RequestError};
use crate::error::{refuse, to_s3_error};
use crate::key::{ParsedKey, SERVER_FOLDER};
use crate::object_metadata::{ObjectMetadata, is_missing};
use crate::resolved::ResolvedNode;
use crate::response_info::is_xml_char;

/// Keys of one request (S3's own limit).
const MAX_KEYS: usize = 1000;

/// `DeleteObject`
pub(crate) async fn delete(
    protocol: &Arc<S3Server>,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "DeleteObject"))?;
    let input = request.input;
    if input.version_id.is_some() {
        return Err(s3_error!(NotImplemented, "versions cannot be removed: they are the history of the tree"));
    }
    if input.if_match_last_modified_time.is_some() || input.if_match_size.is_some() {
        return Err(s3_error!(NotImplemented, "the only supported condition is `If-Match`"));
    }
    let conditions = WriteConditions { if_match: input.if_match, if_none_match: None };
    let key = ParsedKey::parse(&input.key).map_err(|fault| to_s3_error(&fault))?;
    let removed = context
        .run("DeleteObject", move |context| {
            let expected = conditions.expect(context, &key)?;
            let RemovalResult { failed, marker, .. } = remove(context, &[key], &expected)?;
            failed.into_iter().next().map_or(Ok(marker), |(_, fault)| Err(fault.into()))
        })
        .await?;
    let version_id = removed.map(|marker| marker.to_string());
    Ok(S3Response::new(DeleteObjectOutput {
        delete_marker: version_id.as_ref().map(|_| true),
        version_id,
        ..DeleteObjectOutput::default()
    }))
}

/// `DeleteObjects`
pub(crate) async fn delete_many(
    protocol: &Arc<S3Server>,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "DeleteObjects"))?;
    let delete = request.input.delete;
    if delete.objects.len() > MAX_KEYS {
        return Err(s3_error!(
            MalformedXML,
            "the request has {} keys; at most {MAX_KEYS} are allowed",
            delete.objects.len()
        ));
    }
    if let Some(object) = delete.objects.iter().find(|object| !object.key.chars().all(is_xml_char)) {
        let key = object.key.escape_default();
        return Err(s3_error!(
            MalformedXML,
            "the key `{key}` has a character that XML 1.0 cannot represent; nothing was removed"
        ));
    }
    let is_quiet = delete.quiet.unwrap_or_default();
    let (mut keys, mut texts, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for object in delete.objects {
        let rejection = if object.version_id.is_some() || object.e_tag.is_some() {
            Some(s3_error!(NotImplemented, "conditions and versions are not supported for each object"))
        } else {
            let allowed = ParsedKey::parse(&object.key)
                .and_then(|key| context.caller.permissions.check_path(key.path()).map(|()| key));
            match allowed {
                Ok(key) => {
                    keys.push(key);
                    texts.push(object.key.clone());
                    None
                }
                Err(fault) => Some(to_s3_error(&fault)),
            }
        };
        errors.extend(rejection.map(|rejection| error(object.key, &rejection)));
    }
    let outcome = context.run("DeleteObjects", move |context| remove(context, &keys, &Precondition::Any)).await;
    let deleted = match outcome {
        Ok(RemovalResult { failed, marker, removed_pages }) => {
            let is_failed = |text: &str| failed.iter().any(|(key, _)| key.text() == text);
            let removed = texts.into_iter().filter(|text| !is_quiet && !is_failed(text));
            let to_deleted = |key: String| {
                let marker = marker.filter(|_| removed_pages.iter().any(|path| *path.as_str() == *key));
                DeletedObject {
                    delete_marker: marker.map(|_| true),
                    delete_marker_version_id: marker.map(|marker| marker.to_string()),
                    key: Some(key),
                    ..DeletedObject::default()
                }
            };
            let removed = removed.map(to_deleted).collect();
            errors.extend(failed.into_iter().map(|(key, fault)| error(key.text(), &refuse(fault, "DeleteObjects"))));
            removed
        }
        Err(rejection) => {
            errors.extend(texts.into_iter().map(|key| error(key, &rejection)));
            Vec::new()
        }
    };
    let (deleted, errors) = (Some(deleted), Some(errors));
    Ok(S3Response::new(DeleteObjectsOutput { deleted, errors, ..DeleteObjectsOutput::default() }))
}

fn error(key: String, rejection: &s3s::S3Error) -> Error {
    Error {
        code: Some(rejection.code().as_str().to_owned()),
        key: Some(key),
        message: rejection.message().map(str::to_owned),
        version_id: None,
    }
}

/// The outcome of removing several keys.
struct RemovalResult {
    /// Keys that could not be removed. Large files and folders are removed one by one.
    failed: Vec<(ParsedKey, Fault)>,
    /// The version with the removals of pages, if it is committed already.
    marker: Option<CommitId>,
    /// The pages removed by that version.
    removed_pages: Vec<TreePath>,
}

/// Removes keys; pages in one change set. A missing key counts as removed.
fn remove(
    context: &S3RequestContext,
    keys: &[ParsedKey],
    expected: &Precondition,
) -> Result<RemovalResult, S3RequestError> {
    let (mut changes, mut large, mut folders) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        let entry = match ResolvedNode::at_no_follow(context, key.path()) {
            Err(fault) if is_missing(&fault) => continue,
            entry => entry?,
        };
        match key {
            ParsedKey::Folder(path) if entry.is_folder() => folders.push(path.clone()),
            ParsedKey::File(path) if entry.is_file() && entry.is_large() => large.push(path.clone()),
            ParsedKey::File(path)
                if !entry.is_folder() && !changes.iter().any(|change: &Change| change.path() == path) =>
            {
                changes.push(Change::remove(path.clone()).with_precondition(expected.clone()));
            }
            ParsedKey::Folder(_) | ParsedKey::File(_) => {}
        }
    }
    let removed_pages: Vec<TreePath> = changes.iter().map(|change| change.path().clone()).collect();
    let mut removed_paths = removed_pages.clone();
    let marker = if changes.is_empty() {
        None
    } else {
        context.space.vfs.apply(&context.caller, ChangeSet::new(changes))?.commit
    };
    let mut failed = Vec::new();
    if !large.is_empty() {
        for path in large {
            match remove_large(context, &path, expected) {
                Ok(()) => removed_paths.push(path),
                Err(fault) => failed.push((ParsedKey::File(path), fault)),
            }
        }
        context.space.vfs.wait_applied()?;
    }
    // Deepest first.
    folders.sort_unstable_by(|a, b| b.cmp(a));
    for path in folders {
        match remove_folder(context, &path) {
            Ok(true) => removed_paths.push(path),
            // A folder with content is no longer an object, but stays.
            Ok(false) => {}
            Err(fault) => failed.push((ParsedKey::Folder(path), fault)),
        }
    }
    removed_paths.sort_unstable();
    for path in removed_paths.iter().rev() {
        if let Err(fault) = remove_empty_parents(context, path) {
            tracing::warn!(page.path = %path, error = ?fault, "could not remove an empty parent folder");
        }
    }
    Ok(RemovalResult { failed, marker, removed_pages })
}

fn remove_large(context: &S3RequestContext, path: &TreePath, expected: &Precondition) -> Result<(), Fault> {
    let change = Change::remove(path.clone()).with_precondition(expected.clone());
    match context.space.vfs.apply(&context.caller, change) {
        Err(fault) if is_missing(&fault) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Removes the object of a folder; returns whether the folder is removed too.
fn remove_folder(context: &S3RequestContext, path: &TreePath) -> Result<bool, Fault> {
    let entry = match ResolvedNode::at_no_follow(context, path) {
        Err(fault) if is_missing(&fault) => return Ok(true),
        entry => entry?,
    };
    if !context.is_proposing() {
        let _guard = context.lock(path);
        let record = ObjectMetadata { is_folder: false, ..ObjectMetadata::of(context, &entry)? };
        record.store(context, entry.node(context)?)?;
    }
    drop(entry);
    remove_empty(context, path)
}

/// Removes a folder if it is empty; returns whether it was removed.
fn remove_empty(context: &S3RequestContext, path: &TreePath) -> Result<bool, Fault> {
    match context.space.vfs.apply(&context.caller, Change::RemoveDir { path: path.clone() }) {
        Ok(_) => Ok(true),
        Err(fault) if fault.kind() == Kind::NotEmpty || is_missing(&fault) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Removes the parent folders that are empty now, since a bucket has no folders; folders that are
/// objects stay.
fn remove_empty_parents(context: &S3RequestContext, path: &TreePath) -> Result<(), Fault> {
    let mut parent = path.parent();
    while let Some(folder) = parent.filter(|folder| !folder.is_root() && folder.as_str() != SERVER_FOLDER) {
        if !context.caller.permissions.covers(&folder) || context.caller.permissions.folder.as_ref() == Some(&folder) {
            break;
        }
        let entry = match ResolvedNode::at_no_follow(context, &folder) {
            Ok(entry) if entry.is_folder() => entry,
            Ok(_) => break,
            Err(fault) if is_missing(&fault) => break,
            Err(fault) => return Err(fault),
        };
        let stays = ObjectMetadata::of(context, &entry)?.is_folder
            || context.tree().list(context.caller.protocol, &folder).map_or(true, |entries| !entries.is_empty());
        drop(entry);
        if stays || !remove_empty(context, &folder)? {
            break;
        }
        parent = folder.parent();
    }
    Ok(())
}
