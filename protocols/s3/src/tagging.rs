//! Object tags.

use std::sync::Arc;

use s3s::dto::{
    DeleteObjectTaggingInput, DeleteObjectTaggingOutput, GetObjectTaggingInput, GetObjectTaggingOutput,
    PutObjectTaggingInput, PutObjectTaggingOutput, Tag,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use svcfs_base::{Fault, Scope};

use crate::S3Server;
use crate::context::{S3RequestContext, S3RequestError};
use crate::key::ParsedKey;
use crate::object_metadata::{ObjectMetadata, check_tags, is_missing};
use crate::resolved::ResolvedNode;

/// Resolves the object of a key.
fn resolve<'a>(
    context: &'a S3RequestContext,
    key: &str,
    version: Option<&str>,
) -> Result<ResolvedNode<'a>, S3RequestError> {
    if version.is_some_and(|version| version != "null") {
        return Err(s3_error!(NotImplemented, "tags belong to the object, not to its versions").into());
    }
    let key = ParsedKey::parse(key)?;
    let missing = || Fault::file_not_found(key.path());
    let entry = match ResolvedNode::at(context, key.path()) {
        Err(fault) if is_missing(&fault) => return Err(missing().into()),
        entry => entry?,
    };
    if entry.is_folder() != matches!(key, ParsedKey::Folder(_)) {
        return Err(missing().into());
    }
    Ok(entry)
}

async fn replace_tags(
    context: &S3RequestContext,
    what: &'static str,
    (key, version): (String, Option<String>),
    tags: Vec<(String, String)>,
) -> S3Result<()> {
    context
        .run(what, move |context| {
            let entry = resolve(context, &key, version.as_deref())?;
            let _guard = context.lock(&entry.path);
            let record = ObjectMetadata { tags, ..ObjectMetadata::of(context, &entry)? };
            record.check()?;
            record.store_metadata(context, entry.node(context)?)
        })
        .await
}

/// `GetObjectTagging`
pub(crate) async fn get(
    protocol: &Arc<S3Server>,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Read, "GetObjectTagging"))?;
    let GetObjectTaggingInput { key, version_id, .. } = request.input;
    let record = context
        .run("GetObjectTagging", move |context| {
            Ok(ObjectMetadata::of(context, &resolve(context, &key, version_id.as_deref())?)?)
        })
        .await?;
    let tag = |(name, value): (String, String)| Tag { key: Some(name), value: Some(value) };
    let tag_set = record.tags.into_iter().map(tag).collect();
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id: None }))
}

/// `PutObjectTagging`
pub(crate) async fn put(
    protocol: &Arc<S3Server>,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Write, "PutObjectTagging"))?;
    let PutObjectTaggingInput { key, version_id, tagging, .. } = request.input;
    let tags =
        tagging.tag_set.into_iter().map(|Tag { key, value }| (key.unwrap_or_default(), value.unwrap_or_default()));
    let tags: Vec<_> = tags.collect();
    check_tags(&tags)?;
    replace_tags(&context, "PutObjectTagging", (key, version_id), tags).await?;
    Ok(S3Response::new(PutObjectTaggingOutput::default()))
}

/// `DeleteObjectTagging`
pub(crate) async fn delete(
    protocol: &Arc<S3Server>,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Write, "DeleteObjectTagging"))?;
    let DeleteObjectTaggingInput { key, version_id, .. } = request.input;
    replace_tags(&context, "DeleteObjectTagging", (key, version_id), Vec::new()).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput::default()))
}
