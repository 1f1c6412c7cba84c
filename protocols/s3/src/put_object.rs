//! What writes one object: PutObject, CopyObject, and the end of an upload in parts.

use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, ETag, PutObjectInput, PutObjectOutput, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use svcfs_base::{Change, Fault, Kind, Precondition, Scope, TreePath};
use svcfs_vfs::{FileContent as Read, FileReader};
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

/// Bytes of a large file copied at once.
const PIECE: usize = 4 << 20;

/// An object that was written.
pub(crate) struct WrittenObject {
    pub(crate) etag: String,
    pub(crate) modified: SystemTime,
    /// Its version, where it has one already: commits may be made later.
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
    refuse_what_is_not_there(input.website_redirect_location.is_some() || input.write_offset_bytes.is_some())?;
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
    let gathered = gather(&asked, &place, input.body, &announced).await?;
    let sums = gathered.sums.clone();
    let checksum_type = sums.kind();
    let written = finish(&asked, key, (place, expected), gathered, record).await?;
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

fn refuse_what_is_not_there(is_asked_for: bool) -> S3Result<()> {
    match is_asked_for {
        true => Err(s3_error!(NotImplemented, "objects that redirect, and writing at an offset, are not there")),
        false => Ok(()),
    }
}

/// Headers that are given back as they came; the content type only where the name does not tell it.
pub(crate) fn kept_headers(headers: &http::HeaderMap, path: &TreePath) -> BTreeMap<String, String> {
    let names =
        ["content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires"];
    let value = |name: &str| {
        let mut value = headers.get(name)?.to_str().ok()?.to_owned();
        if name == "content-encoding" {
            // How the body came, not what it is.
            value = value.split(',').map(str::trim).filter(|part| *part != "aws-chunked").collect::<Vec<_>>().join(",");
        }
        let tells = !value.is_empty() && (name != "content-type" || value != guessed(path));
        tells.then(|| (name.to_owned(), value))
    };
    names.into_iter().filter_map(value).collect()
}

/// What must be true when the object is written, and where it will be: where links lead to.
///
/// # Errors
/// As [`Writing::expect`]; `InvalidArgument` where a folder stands.
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
                    let told = if found.is_folder() { Fault::is_directory } else { Fault::not_directory };
                    return Err(told(key.path()).into());
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

/// Puts a content in its place, and keeps what is to be remembered of it.
///
/// # Errors
/// Those of the write path.
pub(crate) async fn finish(
    asked: &S3RequestContext,
    key: ParsedKey,
    (place, expected): (TreePath, Precondition),
    gathered: ReceivedBody,
    record: ObjectMetadata,
) -> S3Result<WrittenObject> {
    asked.run("PutObject", move |asked| put_in_place(asked, &key, (place, expected), gathered, record)).await
}

/// The same, by the thread that asks.
///
/// # Errors
/// As [`finish`].
pub(crate) fn put_in_place(
    asked: &S3RequestContext,
    key: &ParsedKey,
    (place, expected): (TreePath, Precondition),
    ReceivedBody { content, md5, sums, room: _held }: ReceivedBody,
    record: ObjectMetadata,
) -> Result<WrittenObject, S3RequestError> {
    let vfs = &asked.space.vfs;
    let mut record = ObjectMetadata { sums, ..record };
    let mut etag = record.etag.clone().unwrap_or_else(|| hex(&md5));
    let mut version = None;
    if let BodyContent::Beside(beside) = &content {
        beside.flush()?;
    }
    let _alone = asked.hold(&place);
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
            return Err(s3_error!(InvalidArgument, "a key that ends with `/` is a folder, which has no content").into());
        }
        (ParsedKey::File(_), BodyContent::Here(content)) => {
            let sent = svcfs_base::ETag::from_content(&content);
            let stored = vfs.save(&asked.caller, place.clone(), content, expected)?.etag.unwrap_or(sent);
            record.of = stored.to_string();
            // Somebody else may have written it since: that is another one.
            let newest = match vfs.try_newest_version(&place) {
                Ok(newest) => newest.filter(|newest| newest.etag == stored),
                Err(fault) => {
                    warn!(page.path = %place, error = ?fault, "what a version is called that was written cannot be told");
                    None
                }
            };
            version = newest.map(|newest| newest.version.hash.to_string());
            if stored != sent {
                // A gate tidied it: what is there is not what came.
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
    let keep = || {
        let found = ResolvedNode::itself(asked, &place)?;
        record.keep_said(asked, found.node)?;
        Ok(found.attributes.modified)
    };
    let modified = match keep() {
        // It was written, and another has removed it since: nothing is left that anything could be said of.
        Err(S3RequestError::Fault(fault)) if is_missing(&fault) => SystemTime::now(),
        kept => kept?,
    };
    Ok(WrittenObject { etag, modified, version })
}

/// What a copy is made of.
pub(crate) struct SourceObject {
    /// The name of its space.
    pub(crate) space: String,
    pub(crate) object: S3Object,
    /// What its version is called.
    pub(crate) version: Option<String>,
}

/// The object that a copy is made of.
///
/// # Errors
/// `NotImplemented` for access points; those of asking for it.
pub(crate) async fn source<T>(
    protocol: &Arc<S3Server>,
    request: &S3Request<T>,
    source: &CopySource,
    conditions: ReadConditions,
) -> S3Result<SourceObject> {
    let CopySource::Bucket { bucket, key, version_id } = source else {
        return Err(s3_error!(NotImplemented, "there are no access points; name the bucket"));
    };
    let asked = protocol.asked(request, bucket, (Scope::Read, "GetObject"))?;
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
    let says_anew = replaces(input.metadata_directive.as_ref().map(s3s::dto::MetadataDirective::as_str));
    let tags_anew = replaces(input.tagging_directive.as_ref().map(s3s::dto::TaggingDirective::as_str));
    let is_itself = space == asked.space.name && object.path == *key.path() && object.attributes.is_some();
    if is_itself && !says_anew && !tags_anew {
        return Err(s3_error!(
            InvalidRequest,
            "an object is copied to itself only to say something else of it (`x-amz-metadata-directive: REPLACE`)"
        ));
    }
    let mut record = object.record.clone();
    if says_anew {
        record.headers = kept_headers(&request.headers, key.path());
        record.metadata = metadata_of(input.metadata.clone());
    }
    if tags_anew {
        record.tags = tags_of(input.tagging.as_deref())?;
    }
    (record.etag, record.parts, record.is_folder) = Default::default();
    record.check()?;
    let checksum = MultipartChecksum::of(input.checksum_algorithm.as_ref(), None)?;
    let (expected, place) = begin(&asked, &key, WriteConditions::of(&request.headers)?).await?;
    let is_in_place = space == asked.space.name && object.path == place && object.attributes.is_some();
    let length = if is_in_place { 0 } else { object.size };
    let put = move |asked: &S3RequestContext| match is_in_place {
        true => say_anew(asked, (&key, &place), record, (says_anew, tags_anew)),
        false => gathered_of(asked, object, (key, checksum), (place, expected), record),
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

/// Says something else of an object that is there. Its content is left alone: another may have written it since it was looked at.
fn say_anew(
    asked: &S3RequestContext,
    (key, place): (&ParsedKey, &TreePath),
    said: ObjectMetadata,
    (says_anew, tags_anew): (bool, bool),
) -> Result<(WrittenObject, ContentChecksums), S3RequestError> {
    let _alone = asked.hold(place);
    let found = ResolvedNode::itself(asked, place)?;
    let mut record = ObjectMetadata::of(asked, &found)?;
    if says_anew {
        (record.headers, record.metadata) = (said.headers, said.metadata);
    }
    if tags_anew {
        record.tags = said.tags;
    }
    record.is_folder |= matches!(key, ParsedKey::Folder(_));
    record.check()?;
    record.keep_said(asked, found.node)?;
    let object = S3Object::at(asked, key)?;
    let version = versions::current(asked, key, &object);
    let sums = if object.is_of_record() { object.record.sums } else { ContentChecksums::default() };
    Ok((WrittenObject { etag: object.etag, modified: object.modified, version }, sums))
}

fn gathered_of(
    asked: &S3RequestContext,
    object: S3Object,
    (key, checksum): (ParsedKey, Option<MultipartChecksum>),
    (place, expected): (TreePath, Precondition),
    record: ObjectMetadata,
) -> Result<(WrittenObject, ContentChecksums), S3RequestError> {
    // Of an object that came in parts, the copy has none.
    let is_same = object.is_of_record() && !object.record.sums.is_of_parts();
    let kept = if is_same { object.record.sums.clone() } else { Default::default() };
    let algorithm = checksum.as_ref().map(|checksum| checksum.algorithm.as_str());
    let mut summing = ContentHasher::new(RequestedChecksums::either(algorithm, &ContentChecksums::default()));
    let content = match (object.content, object.blob) {
        (Read::OnDisk(reader), None) => {
            BodyContent::Beside(Box::new(copy_large(asked, (&reader, &mut summing), object.size, &place)?))
        }
        (content, _) => {
            let content = content.read(0, usize::try_from(object.size).unwrap_or(usize::MAX))?;
            summing.update(&content);
            BodyContent::Here(content)
        }
    };
    let (md5, found) = summing.finish();
    let sums = if checksum.is_some() { found } else { kept };
    let told = sums.clone();
    let written =
        put_in_place(asked, &key, (place, expected), ReceivedBody { content, md5, sums, room: None }, record)?;
    Ok((written, told))
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
        let piece: Bytes = reader.read(offset, PIECE)?;
        if piece.is_empty() {
            return Err(Fault::unavailable("the file became shorter while it was copied; try again"));
        }
        summing.update(&piece);
        beside.append(&piece)?;
        offset += piece.len() as u64;
    }
    Ok(beside)
}
