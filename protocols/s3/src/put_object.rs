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
use crate::error::told;
use crate::key::ParsedKey;
use crate::multipart_checksum::MultipartChecksum;
use crate::normalize::VerifiedRequest;
use crate::object::{S3Object, guessed};
use crate::object_metadata::{ObjectMetadata, is_missing, metadata_of, tags_of};
use crate::received_body::{BodyContent, DeclaredBody, ReceivedBody, gather};
use crate::resolved::ResolvedNode;
use crate::staged_upload::{StagedUpload, check_way, make_way};
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
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "PutObject"))?;
    unsupported::refuse(&request)?;
    let S3Request { input, headers, trailing_headers, extensions, .. } = request;
    let trailing_headers = VerifiedRequest::trailing(trailing_headers, &extensions);
    refuse_unsupported_fields(input.website_redirect_location.is_some() || input.write_offset_bytes.is_some())?;
    let key = ParsedKey::parse(&input.key).map_err(|fault| told(&fault))?;
    let length = (input.content_length, input.content_md5.clone());
    let announced = DeclaredBody::of(&headers, length, None, trailing_headers);
    let record = ObjectMetadata {
        headers: kept_headers(&headers, key.path()),
        metadata: metadata_of(input.metadata.clone()),
        tags: tags_of(input.tagging.as_deref())?,
        ..ObjectMetadata::default()
    };
    record.check()?;
    let conditions = WriteConditions { if_match: input.if_match, if_none_match: input.if_none_match };
    let (expected, place) = begin(&asked, &key, conditions).await?;
    let received = gather(&asked, &place, input.body, &announced).await?;
    let sums = received.sums.clone();
    let checksum_type = sums.kind();
    let written = finish(&asked, key, (place, expected), received, record).await?;
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
pub(crate) fn kept_headers(headers: &http::HeaderMap, path: &TreePath) -> BTreeMap<String, String> {
    let names =
        ["content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires"];
    let value = |name: &str| {
        let mut value = headers.get(name)?.to_str().ok()?.to_owned();
        if name == "content-encoding" {
            // This is the transfer encoding, not one of the content.
            value = value.split(',').map(str::trim).filter(|part| *part != "aws-chunked").collect::<Vec<_>>().join(",");
        }
        let is_stored = !value.is_empty() && (name != "content-type" || value != guessed(path));
        is_stored.then(|| (name.to_owned(), value))
    };
    names.into_iter().filter_map(value).collect()
}

/// Checks the conditions of a write and returns the target path, links followed.
///
/// # Errors
/// As [`WriteConditions::expect`]; `InvalidArgument` where a folder is.
pub(crate) async fn begin(
    asked: &S3RequestContext,
    key: &ParsedKey,
    conditions: WriteConditions,
) -> S3Result<(Precondition, TreePath)> {
    let key = key.clone();
    asked
        .run("PutObject", move |asked| {
            let place = match ResolvedNode::at(asked, key.path()) {
                Ok(found) if found.is_folder() != matches!(key, ParsedKey::Folder(_)) => {
                    let to_fault = if found.is_folder() { Fault::is_directory } else { Fault::not_directory };
                    return Err(to_fault(key.path()).into());
                }
                Ok(found) => found.path.clone(),
                Err(fault) if is_missing(&fault) => {
                    check_way(asked, key.path())?;
                    key.path().clone()
                }
                Err(fault) => return Err(fault.into()),
            };
            Ok((conditions.expect(asked, &key)?, place))
        })
        .await
}

/// Writes content and metadata of an object.
///
/// # Errors
/// Those of the write path.
pub(crate) async fn finish(
    asked: &S3RequestContext,
    key: ParsedKey,
    (place, expected): (TreePath, Precondition),
    received: ReceivedBody,
    record: ObjectMetadata,
) -> S3Result<WrittenObject> {
    asked.run("PutObject", move |asked| put_in_place(asked, &key, (place, expected), received, record)).await
}

/// Like [`finish`], on the calling thread.
///
/// # Errors
/// As [`finish`].
pub(crate) fn put_in_place(
    asked: &S3RequestContext,
    key: &ParsedKey,
    (place, expected): (TreePath, Precondition),
    ReceivedBody { content, md5, sums, memory: _memory }: ReceivedBody,
    record: ObjectMetadata,
) -> Result<WrittenObject, S3RequestError> {
    let vfs = &asked.space.vfs;
    let mut record = ObjectMetadata { sums, ..record };
    let mut etag = record.etag.clone().unwrap_or_else(|| hex(&md5));
    let mut version = None;
    if let BodyContent::Beside(beside) = &content {
        beside.flush()?;
    }
    let _guard = asked.hold(&place);
    match (key, content) {
        (ParsedKey::Folder(_), BodyContent::Here(content)) if content.is_empty() => {
            make_way(asked, &place)?;
            match vfs.apply(&asked.caller, Change::MakeDir { path: place.clone() }) {
                Err(fault) if fault.kind() == Kind::Exists => {}
                outcome => drop(outcome?),
            }
            record.is_folder = true;
        }
        (ParsedKey::Folder(_), _) => {
            return Err(s3_error!(InvalidArgument, "a key that ends with `/` is a folder and cannot have content").into());
        }
        (ParsedKey::File(_), BodyContent::Here(content)) => {
            let sent = svcfs_base::ETag::from_content(&content);
            let stored = vfs.save(&asked.caller, place.clone(), content, expected)?.etag.unwrap_or(sent);
            record.of = stored.to_string();
            // Another client may have written the object since: then the newest version is not this
            // one.
            let newest = match vfs.try_newest_version(&place) {
                Ok(newest) => newest.filter(|newest| newest.etag == stored),
                Err(fault) => {
                    warn!(page.path = %place, error = ?fault, "the id of the written version could not be read");
                    None
                }
            };
            version = newest.map(|newest| newest.version.hash.to_string());
            if stored != sent {
                // A gate rewrote the content, so the stored bytes differ from the sent ones.
                match vfs.read(asked.caller.protocol, &place) {
                    Err(fault) if is_missing(&fault) => {}
                    file => etag = etag_of(&file?.content),
                }
                (record.etag, record.parts, record.sums) = Default::default();
            }
        }
        (ParsedKey::File(_), BodyContent::Beside(beside)) => {
            record.etag = Some(etag.clone());
            let modified = beside.into_place(asked, &place, (expected, record))?;
            return Ok(WrittenObject { etag, modified, version });
        }
    }
    let store_metadata = || {
        let found = ResolvedNode::itself(asked, &place)?;
        record.keep_said(asked, found.node)?;
        Ok(found.attributes.modified)
    };
    let modified = match store_metadata() {
        // Another client has removed the object since: there is nothing to store metadata for.
        Err(S3RequestError::Fault(fault)) if is_missing(&fault) => SystemTime::now(),
        stored => stored?, };
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

/// Opens the source of a copy.
///
/// # Errors
/// `NotImplemented` for access points; those of reading an object.
pub(crate) async fn source<T>(
    protocol: &Arc<S3Server>,
    request: &S3Request<T>,
    source: &CopySource,
    conditions: ReadConditions,
) -> S3Result<SourceObject> {
    let CopySource::Bucket { bucket, key, version_id } = source else {
        return Err(s3_error!(NotImplemented, "access points are not supported; name the bucket"));
    };
    let asked = protocol.asked(request, bucket, (Scope::FileContent, "GetObject"))?;
    let (text, version) = (key.to_string(), version_id.as_ref().map(ToString::to_string));
    let (object, version) = asked
        .run("CopyObject", move |asked| {
            let key = ParsedKey::parse(&text)?;
            let object = versions::object(asked, &key, version.as_deref())?;
            conditions.check_source(&object)?;
            let version = version.or_else(|| versions::current(asked, &key, &object));
            Ok((object, version))
        })
        .await?;
    Ok(SourceObject { space: asked.space.name.clone(), object, version })
}

/// `CopyObject`
pub(crate) async fn copy(
    protocol: &Arc<S3Server>,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "CopyObject"))?;
    let input = &request.input;
    unsupported::refuse(&request)?;
    let conditions = ReadConditions {
        if_match: input.copy_source_if_match.clone(),
        if_none_match: input.copy_source_if_none_match.clone(),
        if_modified_since: input.copy_source_if_modified_since.clone(),
        if_unmodified_since: input.copy_source_if_unmodified_since.clone(),
    };
    let SourceObject { space, object, version } = source(protocol, &request, &input.copy_source, conditions).await?;
    let key = ParsedKey::parse(&input.key).map_err(|fault| told(&fault))?;
    let replaces = |directive: Option<&str>| directive == Some("REPLACE");
    let replaces_metadata = replaces(input.metadata_directive.as_ref().map(s3s::dto::MetadataDirective::as_str));
    let replaces_tags = replaces(input.tagging_directive.as_ref().map(s3s::dto::TaggingDirective::as_str));
    let is_itself = space == asked.space.name && object.path == *key.path() && object.attributes.is_some();
    if is_itself && !replaces_metadata && !replaces_tags {
        return Err(s3_error!(
            InvalidRequest,
            "an object can be copied to itself only to change its metadata (`x-amz-metadata-directive: REPLACE`)"
        ));
    }
    let mut record = object.record.clone();
    if replaces_metadata {
        record.headers = kept_headers(&request.headers, key.path());
        record.metadata = metadata_of(input.metadata.clone());
    }
    if replaces_tags {
        record.tags = tags_of(input.tagging.as_deref())?;
    }
    (record.etag, record.parts, record.is_folder) = Default::default();
    record.check()?;
    let checksum = MultipartChecksum::of(input.checksum_algorithm.as_ref(), None)?;
    let (expected, place) = begin(&asked, &key, WriteConditions::of(&request.headers)?).await?;
    let is_in_place = space == asked.space.name && object.path == place && object.attributes.is_some();
    let length = if is_in_place { 0 } else { object.size };
    let put = move |asked: &S3RequestContext| match is_in_place {
        true => update_metadata(asked, (&key, &place), record, (replaces_metadata, replaces_tags)),
        false => copy_content(asked, object, (key, checksum), (place, expected), record),
    };
    let (written, sums) = asked.run_over(length, "CopyObject", put).await?;
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
    asked: &S3RequestContext,
    (key, place): (&ParsedKey, &TreePath),
    new_metadata: ObjectMetadata,
    (replaces_metadata, replaces_tags): (bool, bool),
) -> Result<(WrittenObject, ContentChecksums), S3RequestError> {
    let _guard = asked.hold(place);
    let found = ResolvedNode::itself(asked, place)?;
    let mut record = ObjectMetadata::of(asked, &found)?;
    if replaces_metadata {
        (record.headers, record.metadata) = (new_metadata.headers, new_metadata.metadata);
    }
    if replaces_tags {
        record.tags = new_metadata.tags;
    }
    record.is_folder |= matches!(key, ParsedKey::Folder(_));
    record.check()?;
    record.keep_said(asked, found.node)?;
    let object = S3Object::at(asked, key)?;
    let version = versions::current(asked, key, &object);
    let sums = if object.is_of_record() { object.record.sums } else { ContentChecksums::default() };
    Ok((WrittenObject { etag: object.etag, modified: object.modified, version }, sums))
}

fn copy_content(
    asked: &S3RequestContext,
    object: S3Object,
    (key, checksum): (ParsedKey, Option<MultipartChecksum>),
    (place, expected): (TreePath, Precondition),
    record: ObjectMetadata,
) -> Result<(WrittenObject, ContentChecksums), S3RequestError> {
    // The copy of a multipart object is not a multipart object.
    let is_same = object.is_of_record() && !object.record.sums.is_of_parts();
    let stored = if is_same { object.record.sums.clone() } else { Default::default() };
    let algorithm = checksum.as_ref().map(|checksum| checksum.algorithm.as_str());
    let mut summing = ContentHasher::new(RequestedChecksums::either(algorithm, &ContentChecksums::default()));
    let content = match (object.content, object.blob) {
        (FileContent::OnDisk(reader), None) => {
            BodyContent::Beside(Box::new(copy_large(asked, (&reader, &mut summing), object.size, &place)?))
        }
        (content, _) => {
            let content = content.read(0, usize::try_from(object.size).unwrap_or(usize::MAX))?;
            summing.update(&content);
            BodyContent::Here(content)
        }
    };
    let (md5, computed) = summing.finish();
    let sums = if checksum.is_some() { computed } else { stored };
    let reported_sums = sums.clone();
    let written =
        put_in_place(asked, &key, (place, expected), ReceivedBody { content, md5, sums, memory: None }, record)?;
    Ok((written, reported_sums))
}

fn copy_large(
    asked: &S3RequestContext,
    (reader, summing): (&FileReader, &mut ContentHasher),
    size: u64,
    place: &TreePath,
) -> Result<StagedUpload, Fault> {
    let mut beside = StagedUpload::new(asked, place)?;
    let mut offset = 0;
    while offset < size {
        let piece: Bytes = reader.read(offset, COPY_BYTES)?;
        if piece.is_empty() {
            return Err(Fault::unavailable("the file was truncated while it was copied; try again"));
        }
        summing.update(&piece);
        beside.append(&piece)?;
        offset += piece.len() as u64;
    }
    Ok(beside)
}
