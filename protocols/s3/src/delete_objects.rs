//! What removes objects: DeleteObject, and DeleteObjects in one change set.

use std::sync::Arc;

use s3s::dto::{DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use svcfs_base::{Change, ChangeSet, CommitId, Fault, Kind, Precondition, Scope, TreePath};

use crate::S3Server;
use crate::conditions::WriteConditions;
use crate::context::{S3RequestContext, S3RequestError};
use crate::error::{refuse, told};
use crate::key::{ParsedKey, SERVERS};
use crate::object_metadata::{ObjectMetadata, is_missing};
use crate::resolved::ResolvedNode;
use crate::response_info::is_of_xml;

/// Keys that are removed at once, at most (S3's own limit).
const MOST: usize = 1000;

/// `DeleteObject`
pub(crate) async fn one(
    protocol: &Arc<S3Server>,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "DeleteObject"))?;
    let input = request.input;
    if input.version_id.is_some() {
        return Err(s3_error!(NotImplemented, "versions are not removed: they are the history of the tree"));
    }
    if input.if_match_last_modified_time.is_some() || input.if_match_size.is_some() {
        return Err(s3_error!(NotImplemented, "of conditions, only `If-Match` is taken"));
    }
    let conditions = WriteConditions { if_match: input.if_match, if_none_match: None };
    let key = ParsedKey::parse(&input.key).map_err(|fault| told(&fault))?;
    let removed = asked
        .run("DeleteObject", move |asked| {
            let expected = conditions.expect(asked, &key)?;
            let RemovalResult { failed, marker, .. } = remove(asked, &[key], &expected)?;
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
pub(crate) async fn many(
    protocol: &Arc<S3Server>,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "DeleteObjects"))?;
    let delete = request.input.delete;
    if delete.objects.len() > MOST {
        return Err(s3_error!(MalformedXML, "{} keys are named, and {MOST} are removed at once", delete.objects.len()));
    }
    if let Some(object) = delete.objects.iter().find(|object| !object.key.chars().all(is_of_xml)) {
        let told = object.key.escape_default();
        return Err(s3_error!(
            MalformedXML,
            "the key `{told}` has a character that XML 1.0 has not; nothing was removed"
        ));
    }
    let is_quiet = delete.quiet.unwrap_or_default();
    let (mut keys, mut texts, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for object in delete.objects {
        let refused = if object.version_id.is_some() || object.e_tag.is_some() {
            Some(s3_error!(NotImplemented, "objects are removed whatever they are, and versions are not"))
        } else {
            let reached = ParsedKey::parse(&object.key)
                .and_then(|key| asked.caller.permissions.check_path(key.path()).map(|()| key));
            match reached {
                Ok(key) => {
                    keys.push(key);
                    texts.push(object.key.clone());
                    None
                }
                Err(fault) => Some(told(&fault)),
            }
        };
        errors.extend(refused.map(|refused| error(object.key, &refused)));
    }
    let outcome = asked.run("DeleteObjects", move |asked| remove(asked, &keys, &Precondition::Any)).await;
    let deleted = match outcome {
        Ok(RemovalResult { failed, marker, marked }) => {
            let is_failed = |text: &str| failed.iter().any(|(key, _)| key.text() == text);
            let removed = texts.into_iter().filter(|text| !is_quiet && !is_failed(text));
            let told = |key: String| {
                let marker = marker.filter(|_| marked.iter().any(|path| *path.as_str() == *key));
                DeletedObject {
                    delete_marker: marker.map(|_| true),
                    delete_marker_version_id: marker.map(|marker| marker.to_string()),
                    key: Some(key),
                    ..DeletedObject::default()
                }
            };
            let removed = removed.map(told).collect();
            errors.extend(failed.into_iter().map(|(key, fault)| error(key.text(), &refuse(fault, "DeleteObjects"))));
            removed
        }
        Err(refused) => {
            errors.extend(texts.into_iter().map(|key| error(key, &refused)));
            Vec::new()
        }
    };
    let (deleted, errors) = (Some(deleted), Some(errors));
    Ok(S3Response::new(DeleteObjectsOutput { deleted, errors, ..DeleteObjectsOutput::default() }))
}

fn error(key: String, refused: &s3s::S3Error) -> Error {
    Error {
        code: Some(refused.code().as_str().to_owned()),
        key: Some(key),
        message: refused.message().map(str::to_owned),
        version_id: None,
    }
}

/// What became of keys.
struct RemovalResult {
    /// Those that could not be removed: large files and folders, each by itself.
    failed: Vec<(ParsedKey, Fault)>,
    /// The version that says that pages were removed, where it is made already.
    marker: Option<CommitId>,
    /// The pages it removed.
    marked: Vec<TreePath>,
}

/// Removes what these keys name, pages in one change set. What is not there is as good as removed.
fn remove(
    asked: &S3RequestContext,
    keys: &[ParsedKey],
    expected: &Precondition,
) -> Result<RemovalResult, S3RequestError> {
    let (mut changes, mut large, mut folders) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        let found = match ResolvedNode::itself(asked, key.path()) {
            Err(fault) if is_missing(&fault) => continue,
            found => found?,
        };
        match key {
            ParsedKey::Folder(path) if found.is_folder() => folders.push(path.clone()),
            ParsedKey::File(path) if found.is_file() && found.is_large() => large.push(path.clone()),
            ParsedKey::File(path)
                if !found.is_folder() && !changes.iter().any(|change: &Change| change.path() == path) =>
            {
                changes.push(Change::remove(path.clone()).with_precondition(expected.clone()));
            }
            ParsedKey::Folder(_) | ParsedKey::File(_) => {}
        }
    }
    let marked: Vec<TreePath> = changes.iter().map(|change| change.path().clone()).collect();
    let mut left = marked.clone();
    let marker =
        if changes.is_empty() { None } else { asked.space.vfs.apply(&asked.caller, ChangeSet::new(changes))?.commit };
    let mut failed = Vec::new();
    if !large.is_empty() {
        for path in large {
            match remove_large(asked, &path, expected) {
                Ok(()) => left.push(path),
                Err(fault) => failed.push((ParsedKey::File(path), fault)),
            }
        }
        asked.space.vfs.wait_applied()?;
    }
    // The deepest first.
    folders.sort_unstable_by(|one, other| other.cmp(one));
    for path in folders {
        match remove_folder(asked, &path) {
            Ok(true) => left.push(path),
            // With something in it, it is no object any more, and there all the same.
            Ok(false) => {}
            Err(fault) => failed.push((ParsedKey::Folder(path), fault)),
        }
    }
    left.sort_unstable();
    for path in left.iter().rev() {
        if let Err(fault) = tidy_above(asked, path) {
            tracing::warn!(page.path = %path, error = ?fault, "a folder that an object was removed from could not be tidied away");
        }
    }
    Ok(RemovalResult { failed, marker, marked })
}

fn remove_large(asked: &S3RequestContext, path: &TreePath, expected: &Precondition) -> Result<(), Fault> {
    let change = Change::remove(path.clone()).with_precondition(expected.clone());
    match asked.space.vfs.apply(&asked.caller, change) {
        Err(fault) if is_missing(&fault) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Makes a folder no object any more; whether it is gone.
fn remove_folder(asked: &S3RequestContext, path: &TreePath) -> Result<bool, Fault> {
    let found = match ResolvedNode::itself(asked, path) {
        Err(fault) if is_missing(&fault) => return Ok(true),
        found => found?,
    };
    let alone = asked.hold(path);
    let record = ObjectMetadata { is_folder: false, ..ObjectMetadata::of(asked, &found)? };
    record.keep(asked, found.node)?;
    drop((alone, found));
    remove_empty(asked, path)
}

/// Removes a folder unless something is in it; whether it is gone.
fn remove_empty(asked: &S3RequestContext, path: &TreePath) -> Result<bool, Fault> {
    match asked.space.vfs.apply(&asked.caller, Change::RemoveDir { path: path.clone() }) {
        Ok(_) => Ok(true),
        Err(fault) if fault.kind() == Kind::NotEmpty || is_missing(&fault) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Removes the folders above that are empty now, as a bucket has no folders; those that are objects themselves stay.
fn tidy_above(asked: &S3RequestContext, path: &TreePath) -> Result<(), Fault> {
    let mut above = path.parent();
    while let Some(folder) = above.filter(|folder| !folder.is_root() && folder.as_str() != SERVERS) {
        if !asked.caller.permissions.covers(&folder) || asked.caller.permissions.folder.as_ref() == Some(&folder) {
            break;
        }
        let found = match ResolvedNode::itself(asked, &folder) {
            Ok(found) if found.is_folder() => found,
            Ok(_) => break,
            Err(fault) if is_missing(&fault) => break,
            Err(fault) => return Err(fault),
        };
        let stays = ObjectMetadata::of(asked, &found)?.is_folder
            || asked.space.vfs.list(asked.caller.protocol, &folder).map_or(true, |entries| !entries.is_empty());
        drop(found);
        if stays || !remove_empty(asked, &folder)? {
            break;
        }
        above = folder.parent();
    }
    Ok(())
}
