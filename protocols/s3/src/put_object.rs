//! Writes one object: PutObject, CopyObject, and the end of a multipart upload.

use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, ETag, PutObjectInput, PutObjectOutput, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use svcfs_base::{Change, Fault, Kind, Precondition, Scope, TreePath};
use svcfs_vfs::{FileContent, FileReader};
use tracing::warn;

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums, etag_of, hex};
use crate::conditions::{ReadConditions, WriteConditions};
use crate::context::{S3RequestContext, S3RequestError};
use crate::error::to_s3_error;
use crate::key::ParsedKey;
use crate::multipart_checksum::MultipartChecksum;
use crate::normalize::VerifiedRequest;
use crate::object::{S3Object, guess_content_type};
use crate::object_metadata::{ObjectMetadata, is_missing, metadata_of, tags_of};
use crate::received_body::{BodyContent, DeclaredBody, ReceivedBody, receive};
use crate::resolved::ResolvedNode;
use crate::staged_upload::{StagedUpload, check_parents, create_parents};
use crate::versions;
use crate::{S3Server, unsupported};

/// Bytes of one piece when a large file is copied.
const COPY_BYTES: usize = 4 << 20;

/// A written object.
pub(crate) struct WrittenObject {
    pub(crate) etag: String,
    pub(crate) modified: SystemTime,
    /// The version, if it has one already: with deferred commits, it may come later.
    pub(crate) version: Option<String>,
}

/// `PutObject`
pub(crate) async fn put(
    protocol: &Arc<S3Server>,
    request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "PutObject"))?;
    unsupported::refuse(&request)?;
    let S3Request { input, headers, trailing_headers, extensions, .. } = request;
    let trailing_headers = VerifiedRequest::trailing(trailing_headers, &extensions);
    refuse_unsupported_fields(input.website_redirect_location.is_some() || input.write_offset_bytes.is_some())?;
    let key = ParsedKey::parse(&input.key).map_err(|fault| to_s3_error(&fault))?;
    let length = (input.content_length, input.content_md5.clone());
    let declared = DeclaredBody::of(&headers, length, None, trailing_headers);
    let record = ObjectMetadata {
        headers: stored_headers(&headers, key.path()),
        metadata: metadata_of(input.metadata.clone()),
        tags: tags_of(input.tagging.as_deref())?,
        ..ObjectMetadata::default()
    };
    record.check()?;
    let conditions = WriteConditions { if_match: input.if_match, if_none_match: input.if_none_match };
    let (expected, target) = prepare_write(&context, &key, conditions).await?;
    let received = receive(&context, &target, input.body, &declared).await?;
    let sums = received.sums.clone();
    let checksum_type = sums.kind();
    let written = finish(&context, key, (target, expected), received, record).await?;
    Ok(S3Response::new(PutObjectOutput {
        version_id: written.version,
        e_tag: Some(ETag::Strong(written.etag)),
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_crc64nvme: sums.crc64nvme,
        checksum_type,
        ..PutObjectOutput::default()
    }))
}

fn refuse_unsupported_fields(is_requested: bool) -> S3Result<()> {
    match is_requested {
        true => Err(s3_error!(NotImplemented, "redirects and writes at an offset are not supported")),
        false => Ok(()),
    }
}

/// Headers that are stored and returned as sent; the content type only if the name does not imply
/// it.
pub(crate) fn stored_headers(headers: &http::HeaderMap, path: &TreePath) -> BTreeMap<String, String> {
    let names =
        ["content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires"];
    let value = |name: &str| {
        let mut value = headers.get(name)?.to_str().ok()?.to_owned();
        if name == "content-encoding" {
            // This is the transfer encoding, not one of the content.
            value = value.split(',').map(str::trim).filter(|part| *part != "aws-chunked").collect::<Vec<_>>().join(",");
        }
        let is_stored = !value.is_empty() && (name != "content-type" || value != guess_content_type(path));
        is_stored.then(|| (name.to_owned(), value))
    };
    names.into_iter().filter_map(value).collect()
}

/// Checks the conditions of a write and returns the target path, links followed. Errors: as
/// [`WriteConditions::expect`]; `InvalidArgument` where a folder is.
pub(crate) async fn prepare_write(
    context: &S3RequestContext,
    key: &ParsedKey,
    conditions: WriteConditions,
) -> S3Result<(Precondition, TreePath)> {
    let key = key.clone();
    context
        .run("PutObject", move |context| {
            let target = match ResolvedNode::at(context, key.path()) {
                Ok(entry) if entry.is_folder() != matches!(key, ParsedKey::Folder(_)) => {
                    let to_fault = if entry.is_folder() { Fault::is_directory } else { Fault::not_directory };
                    return Err(to_fault(key.path()).into());
                }
                Ok(entry) => entry.path.clone(),
                Err(fault) if is_missing(&fault) => {
                    check_parents(context, key.path())?;
                    key.path().clone()
                }
                Err(fault) => return Err(fault.into()),
            };
            Ok((conditions.expect(context, &key)?, target))
        })
        .await
}

/// Writes content and metadata of an object.
pub(crate) async fn finish(
    context: &S3RequestContext,
    key: ParsedKey,
    (target, expected): (TreePath, Precondition),
    received: ReceivedBody,
    record: ObjectMetadata,
) -> S3Result<WrittenObject> {
    context.run("PutObject", move |context| store_object(context, &key, (target, expected), received, record)).await
}

/// Like [`finish`], on the calling thread.
pub(crate) fn store_object(
    context: &S3RequestContext,
    key: &ParsedKey,
    (target, expected): (TreePath, Precondition),
    ReceivedBody { content, md5, sums, memory: _memory }: ReceivedBody,
    record: ObjectMetadata,
) -> Result<WrittenObject, S3RequestError> {
    let vfs = &context.space.vfs;
    let mut record = ObjectMetadata { sums, ..record };
    let mut etag = record.etag.clone().unwrap_or_else(|| hex(&md5));
    let mut version = None;
    if let BodyContent::Staged(staged) = &content {
        staged.flush()?;
    }
    let _guard = context.lock(&target);
    match (key, content) {
        (ParsedKey::Folder(_), BodyContent::InMemory(content)) if content.is_empty() => {
            create_parents(context, &target)?;
            match vfs.apply(&context.caller, Change::MakeDir { path: target.clone() }) {
                Err(fault) if fault.kind() == Kind::Exists => {}
                outcome => drop(outcome?),
            }
            record.is_folder = true;
        }
        (ParsedKey::Folder(_), _) => {
            return Err(
                s3_error!(InvalidArgument, "a key that ends with `/` is a folder and cannot have content").into()
            );
        }
        (ParsedKey::File(_), BodyContent::InMemory(content)) => {
            let sent = svcfs_base::ETag::from_content(&content);
            let stored = vfs.save(&context.caller, target.clone(), content, expected)?.etag.unwrap_or(sent);
            record.of = stored.to_string();
            // Another client may have written the object since: then the newest version is not this
            // one.
            let newest = match vfs.try_newest_version(&target) {
                Ok(newest) => newest.filter(|newest| newest.etag == stored),
                Err(fault) => {
                    warn!(page.path = %target, error = ?fault, "the id of the written version could not be read");
                    None
                }
            };
            version = newest.map(|newest| newest.version.hash.to_string());
            if stored != sent {
                // A gate rewrote the content, so the stored bytes differ from the sent ones.
                match context.tree().read(context.caller.protocol, &target) {
                    Err(fault) if is_missing(&fault) => {}
                    file => etag = etag_of(&file?.content),
                }
                (record.etag, record.parts, record.sums) = Default::default();
            }
        }
        (ParsedKey::File(_), BodyContent::Staged(staged)) => {
            record.etag = Some(etag.clone());
            let modified = staged.install(context, &target, (expected, record))?;
            return Ok(WrittenObject { etag, modified, version });
        }
    }
    let store_metadata = || {
        let entry = ResolvedNode::at_no_follow(context, &target)?;
        // A draft has no metadata: headers and checksums that clients add to every upload are not
        // stored.
        if !context.is_proposing() {
            record.store_metadata(context, entry.node(context)?)?;
        }
        Ok(entry.attributes.modified)
    };
    let modified = match store_metadata() {
        // Another client has removed the object since: there is nothing to store metadata for.
        Err(S3RequestError::Fault(fault)) if is_missing(&fault) => SystemTime::now(),
        stored => stored?,
    };
    Ok(WrittenObject { etag, modified, version })
}

/// The source of a copy.
pub(crate) struct SourceObject {
    /// The name of its space.
    pub(crate) space: String,
    pub(crate) object: S3Object,
    /// The id of its version.
    pub(crate) version: Option<String>,
}

/// Opens the source of a copy. Errors: `NotImplemented` for access points.
pub(crate) async fn source<T>(
    protocol: &Arc<S3Server>,
    request: &S3Request<T>,
    source: &CopySource,
    conditions: ReadConditions,
) -> S3Result<SourceObject> {
    let CopySource::Bucket { bucket, key, version_id } = source else {
        return Err(s3_error!(NotImplemented, "access points are not supported; name the bucket"));
    };
    let context = protocol.authorize(request, bucket, (Scope::Read, "GetObject"))?;
    let (text, version) = (key.to_string(), version_id.as_ref().map(ToString::to_string));
    let (object, version) = context
        .run("CopyObject", move |context| {
            let key = ParsedKey::parse(&text)?;
            let object = versions::object(context, &key, version.as_deref())?;
            conditions.check_source(&object)?;
            let version = version.or_else(|| versions::current(context, &key, &object));
            Ok((object, version))
        })
        .await?;
    Ok(SourceObject { space: context.space.name.clone(), object, version })
}

/// `CopyObject`
pub(crate) async fn copy(
    protocol: &Arc<S3Server>,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "CopyObject"))?;
    let input = &request.input;
    unsupported::refuse(&request)?;
    let conditions = ReadConditions {
        if_match: input.copy_source_if_match.clone(),
        if_none_match: input.copy_source_if_none_match.clone(),
        if_modified_since: input.copy_source_if_modified_since.clone(),
        if_unmodified_since: input.copy_source_if_unmodified_since.clone(),
    };
    let SourceObject { space, object, version } = source(protocol, &request, &input.copy_source, conditions).await?;
    let key = ParsedKey::parse(&input.key).map_err(|fault| to_s3_error(&fault))?;
    let replaces = |directive: Option<&str>| directive == Some("REPLACE");
    let replaces_metadata = replaces(input.metadata_directive.as_ref().map(s3s::dto::MetadataDirective::as_str));
    let replaces_tags = replaces(input.tagging_directive.as_ref().map(s3s::dto::TaggingDirective::as_str));
    let is_itself = space == context.space.name && object.path == *key.path() && object.attributes.is_some();
    if is_itself && !replaces_metadata && !replaces_tags {
        return Err(s3_error!(
            InvalidRequest,
            "an object can be copied to itself only to change its metadata (`x-amz-metadata-directive: REPLACE`)"
        ));
    }
    let mut record = object.record.clone();
    if replaces_metadata {
        record.headers = stored_headers(&request.headers, key.path());
        record.metadata = metadata_of(input.metadata.clone());
    }
    if replaces_tags {
        record.tags = tags_of(input.tagging.as_deref())?;
    }
    (record.etag, record.parts, record.is_folder) = Default::default();
    record.check()?;
    let checksum = MultipartChecksum::of(input.checksum_algorithm.as_ref(), None)?;
    let (expected, target) = prepare_write(&context, &key, WriteConditions::of(&request.headers)?).await?;
    let is_in_place = space == context.space.name && object.path == target && object.attributes.is_some();
    let length = if is_in_place { 0 } else { object.size };
    let put = move |context: &S3RequestContext| match is_in_place {
        true => update_metadata(context, (&key, &target), record, (replaces_metadata, replaces_tags)),
        false => copy_content(context, object, (key, checksum), (target, expected), record),
    };
    let (written, sums) = context.run_over(length, "CopyObject", put).await?;
    let result = CopyObjectResult {
        e_tag: Some(ETag::Strong(written.etag)),
        last_modified: Some(Timestamp::from(written.modified)),
        checksum_type: sums.kind(),
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_crc64nvme: sums.crc64nvme,
    };
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(result),
        copy_source_version_id: version,
        version_id: written.version,
        ..CopyObjectOutput::default()
    }))
}

/// Replaces the metadata of an existing object. The content is not rewritten: another client may
/// have changed it since it was read.
fn update_metadata(
    context: &S3RequestContext,
    (key, target): (&ParsedKey, &TreePath),
    new_metadata: ObjectMetadata,
    (replaces_metadata, replaces_tags): (bool, bool),
) -> Result<(WrittenObject, ContentChecksums), S3RequestError> {
    let _guard = context.lock(target);
    let entry = ResolvedNode::at_no_follow(context, target)?;
    let mut record = ObjectMetadata::of(context, &entry)?;
    if replaces_metadata {
        (record.headers, record.metadata) = (new_metadata.headers, new_metadata.metadata);
    }
    if replaces_tags {
        record.tags = new_metadata.tags;
    }
    record.is_folder |= matches!(key, ParsedKey::Folder(_));
    record.check()?;
    record.store_metadata(context, entry.node(context)?)?;
    let object = S3Object::at(context, key)?;
    let version = versions::current(context, key, &object);
    let sums = if object.has_content_fields() { object.record.sums } else { ContentChecksums::default() };
    Ok((WrittenObject { etag: object.etag, modified: object.modified, version }, sums))
}

fn copy_content(
    context: &S3RequestContext,
    object: S3Object,
    (key, checksum): (ParsedKey, Option<MultipartChecksum>),
    (target, expected): (TreePath, Precondition),
    record: ObjectMetadata,
) -> Result<(WrittenObject, ContentChecksums), S3RequestError> {
    // The copy of a multipart object is not a multipart object.
    let is_same = object.has_content_fields() && !object.record.sums.is_composite();
    let stored = if is_same { object.record.sums.clone() } else { Default::default() };
    let algorithm = checksum.as_ref().map(|checksum| checksum.algorithm.as_str());
    let mut hasher = ContentHasher::new(RequestedChecksums::either(algorithm, &ContentChecksums::default()));
    let content = match (object.content, object.blob) {
        (FileContent::OnDisk(reader), None) => {
            BodyContent::Staged(Box::new(copy_large(context, (&reader, &mut hasher), object.size, &target)?))
        }
        (content, _) => {
            let content = content.read(0, usize::try_from(object.size).unwrap_or(usize::MAX))?;
            hasher.update(&content);
            BodyContent::InMemory(content)
        }
    };
    let (md5, computed) = hasher.finish();
    let sums = if checksum.is_some() { computed } else { stored };
    let reported_sums = sums.clone();
    let written =
        store_object(context, &key, (target, expected), ReceivedBody { content, md5, sums, memory: None }, record)?;
    Ok((written, reported_sums))
}

fn copy_large(
    context: &S3RequestContext,
    (reader, hasher): (&FileReader, &mut ContentHasher),
    size: u64,
    target: &TreePath,
) -> Result<StagedUpload, Fault> {
    let mut staged = StagedUpload::new(context, target)?;
    let mut offset = 0;
    while offset < size {
        let piece: Bytes = reader.read(offset, COPY_BYTES)?;
        if piece.is_empty() {
            return Err(Fault::unavailable("the file was truncated while it was copied; try again"));
        }
        hasher.update(&piece);
        staged.append(&piece)?;
        offset += piece.len() as u64;
    }
    Ok(staged)
}
