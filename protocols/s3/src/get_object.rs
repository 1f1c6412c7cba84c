//! Reads one object: GetObject and HeadObject.

use std::sync::Arc;

use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, EXPIRES, LAST_MODIFIED, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use s3s::dto::{
    ETag as Tag, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, Range, StreamingBlob, Timestamp,
    TimestampFormat,
};
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use svcfs_base::Scope;
use svcfs_listener::{ReadFunctions, stream_file};
use svcfs_vfs::{FileContent, FileReader};

use crate::S3Server;
use crate::checksums::ContentChecksums;
use crate::conditions::ReadConditions as Conditions;
use crate::context::{S3RequestContext, S3RequestError};
use crate::error::refuse;
use crate::key::ParsedKey;
use crate::multipart_upload::MAX_PARTS;
use crate::object::S3Object;
use crate::versions;

/// What a request reads.
struct ReadRequest {
    key: String,
    version: Option<String>,
    conditions: Conditions,
    range: Option<Range>,
    part: Option<i32>,
    /// Whether the id of the current version is requested.
    needs_version: bool,
}

/// Marks the answer to a HEAD for a part of an object: s3s has no status for it.
#[derive(Debug, Clone)]
pub(crate) struct PartialHead;

/// An object and the requested range of it.
struct ObjectSelection {
    object: S3Object,
    range: Option<std::ops::Range<u64>>,
    /// The id of its version, if requested: it costs a log query.
    version: Option<String>,
}

impl ObjectSelection {
    async fn of(context: &S3RequestContext, what: &'static str, read: ReadRequest) -> S3Result<Self> {
        let key = ParsedKey::parse(&read.key).map_err(|fault| refuse(fault, what))?;
        let is_streamed = read.version.is_some() && !read.needs_version;
        let may_be_cached = read.version.is_none() && !read.needs_version;
        if let Some(object) = may_be_cached.then(|| S3Object::try_cached(context, &key)).flatten() {
            return Self::select(object, read).map_err(|refused| refused.into_s3_error(what));
        }
        context
            .run(what, move |context| {
                let object = versions::object(context, &key, read.version.as_deref())?;
                let version = read.needs_version.then(|| versions::current(context, &key, &object)).flatten();
                let mut selection = Self { version, ..Self::select(object, read)? };
                if is_streamed {
                    selection.spill(context);
                }
                Ok(selection)
            })
            .await
    }

    /// Moves an earlier version to disk, because a slow client may stream it for long; without disk
    /// space it stays in memory.
    fn spill(&mut self, context: &S3RequestContext) {
        let FileContent::InMemory(content) = &self.object.content else { return };
        match context.space.vfs.spill_content(content.clone()) {
            Ok(spilled) => self.object.content = spilled,
            Err(fault) => {
                tracing::warn!(error = ?fault, "could not spill a version to disk; it is streamed from memory")
            }
        }
    }

    /// Applies conditions, range and part number to an object.
    fn select(object: S3Object, read: ReadRequest) -> Result<Self, S3RequestError> {
        let ReadRequest { conditions, range, part, .. } = read;
        conditions.check(&object).map_err(|refused| unmodified(refused, &object))?;
        let range = match (range, part) {
            (Some(_), Some(_)) => {
                return Err(s3_error!(InvalidRequest, "request a range or a part, not both").into());
            }
            (None, Some(part)) => part_of(&object, part)?,
            (range, None) => range.map(|range| range.check(object.size)).transpose().map_err(|_| {
                s3_error!(InvalidRange, "the range is outside of the object, which has {} bytes", object.size)
            })?,
        };
        Ok(Self { object, range, version: None })
    }

    fn length(&self) -> u64 {
        self.range.as_ref().map_or(self.object.size, |range| range.end - range.start)
    }
    fn content_range(&self) -> Option<String> {
        // An empty range cannot be expressed.
        let range = self.range.as_ref().filter(|range| !range.is_empty())?;
        Some(format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), self.object.size))
    }
    /// The checksums; they cover the full object, so they are omitted for a range.
    fn sums(&self, is_requested: bool) -> ContentChecksums {
        let is_included = is_requested && self.range.is_none() && self.object.has_content_fields();
        if is_included { self.object.record.sums.clone() } else { ContentChecksums::default() }
    }
    fn header(&self, name: &str) -> Option<String> {
        self.object.record.headers.get(name).cloned()
    }
    fn expires(&self) -> Option<Timestamp> {
        Timestamp::parse(TimestampFormat::HttpDate, &self.header("expires")?).ok()
    }
}

/// `GetObject`
pub(crate) async fn get(
    protocol: &Arc<S3Server>,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Read, "GetObject"))?;
    let input = request.input;
    let (is_requested, is_part_request) = (input.checksum_mode.is_some(), input.part_number.is_some());
    let read = ReadRequest {
        key: input.key,
        version: input.version_id.clone(),
        conditions: Conditions {
            if_match: input.if_match,
            if_none_match: input.if_none_match,
            if_modified_since: input.if_modified_since,
            if_unmodified_since: input.if_unmodified_since,
        },
        range: input.range,
        part: input.part_number,
        needs_version: false,
    };
    let selection = ObjectSelection::of(&context, "GetObject", read).await?;
    let (length, content_range, sums) = (selection.length(), selection.content_range(), selection.sums(is_requested));
    let checksum_type = sums.kind();
    let is_part = content_range.is_some();
    let tags = selection.object.record.tags.len();
    let parts_count = selection.object.parts().filter(|_| is_part_request);
    let mut output = GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: i64::try_from(length).ok(),
        content_range,
        content_type: Some(selection.object.content_type()),
        cache_control: selection.header("cache-control"),
        content_disposition: selection.header("content-disposition"),
        content_language: selection.header("content-language"),
        content_encoding: selection.header(CONTENT_ENCODING.as_str()),
        expires: selection.expires(),
        e_tag: Some(Tag::Strong(selection.object.etag.clone())),
        last_modified: Some(Timestamp::from(selection.object.modified)),
        metadata: Some(selection.object.metadata().into_iter().collect()),
        parts_count,
        tag_count: i32::try_from(tags).ok().filter(|count| *count > 0),
        version_id: input.version_id,
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_crc64nvme: sums.crc64nvme,
        checksum_type,
        ..GetObjectOutput::default()
    };
    let from = selection.range.as_ref().map_or(0, |range| range.start);
    output.body = Some(match selection.object.content {
        FileContent::InMemory(content) => {
            let start = usize::try_from(from).unwrap_or(usize::MAX).min(content.len());
            let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)).min(content.len());
            StreamingBlob::from(Body::from(content.slice(start..end)))
        }
        FileContent::OnDisk(reader) => {
            let read = ReadFunctions { try_read: FileReader::try_read_cached, read: FileReader::read };
            StreamingBlob::wrap(stream_file(Arc::clone(&context.protocol.lanes), (reader, read), from..from + length))
        }
    });
    let mut response = S3Response::new(output);
    response.status = is_part.then_some(StatusCode::PARTIAL_CONTENT);
    // Files come from many authors; a page must not run scripts with the rights of its reader.
    response.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    Ok(response)
}

/// Adds the headers that a 304 needs (RFC 9110 15.4.5).
fn unmodified(mut refused: S3Error, object: &S3Object) -> S3Error {
    if *refused.code() == S3ErrorCode::NotModified {
        let mut headers = HeaderMap::new();
        let mut set = |name: HeaderName, text: Option<String>| {
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
                headers.insert(name, value);
            }
        };
        set(ETAG, Some(format!("\"{}\"", object.etag)));
        let mut modified = Vec::new();
        let written = Timestamp::from(object.modified).format(TimestampFormat::HttpDate, &mut modified);
        set(LAST_MODIFIED, written.ok().and_then(|()| String::from_utf8(modified).ok()));
        for name in [CACHE_CONTROL, EXPIRES] {
            set(name.clone(), object.record.headers.get(name.as_str()).cloned());
        }
        refused.set_headers(headers);
    }
    refused
}

/// The bytes of a part. Parts are counted from 1 in the order of the object, whatever their numbers
/// were at upload; an object without parts has one. Errors: `InvalidPartNumber` for a number that
/// it does not have; `NotImplemented` when the lengths are not known.
fn part_of(object: &S3Object, part: i32) -> S3Result<Option<std::ops::Range<u64>>> {
    let part_count = object.parts().unwrap_or(1);
    if !(1..=MAX_PARTS).contains(&part) {
        return Err(s3_error!(InvalidArgument, "parts are numbered from 1 to {MAX_PARTS}"));
    }
    if part > part_count {
        let code = S3ErrorCode::Custom("InvalidPartNumber".into());
        let mut error = S3Error::with_message(code, "The requested partnumber is not satisfiable");
        error.set_status_code(StatusCode::RANGE_NOT_SATISFIABLE);
        return Err(error);
    }
    if part_count == 1 {
        return Ok((object.size > 0).then_some(0..object.size));
    }
    let message = "the lengths of the parts are unknown; request a range instead";
    object.part(part).map(Some).ok_or_else(|| s3_error!(NotImplemented, "{}", message))
}

/// `HeadObject`
pub(crate) async fn head(
    protocol: &Arc<S3Server>,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Read, "HeadObject"))?;
    let input = request.input;
    let (is_requested, is_part_request) = (input.checksum_mode.is_some(), input.part_number.is_some());
    let read = ReadRequest {
        key: input.key,
        version: input.version_id.clone(),
        conditions: Conditions {
            if_match: input.if_match,
            if_none_match: input.if_none_match,
            if_modified_since: input.if_modified_since,
            if_unmodified_since: input.if_unmodified_since,
        },
        range: input.range,
        part: input.part_number,
        needs_version: true,
    };
    let selection = ObjectSelection::of(&context, "HeadObject", read).await?;
    let version_id = input.version_id.or(selection.version.clone());
    let sums = selection.sums(is_requested);
    let checksum_type = sums.kind();
    let parts_count = selection.object.parts().filter(|_| is_part_request);
    let is_part = selection.content_range().is_some();
    let output = HeadObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: i64::try_from(selection.length()).ok(),
        content_range: selection.content_range(),
        content_type: Some(selection.object.content_type()),
        cache_control: selection.header("cache-control"),
        content_disposition: selection.header("content-disposition"),
        content_language: selection.header("content-language"),
        content_encoding: selection.header(CONTENT_ENCODING.as_str()),
        expires: selection.expires(),
        e_tag: Some(Tag::Strong(selection.object.etag.clone())),
        last_modified: Some(Timestamp::from(selection.object.modified)),
        metadata: Some(selection.object.metadata().into_iter().collect()),
        parts_count,
        version_id,
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_crc64nvme: sums.crc64nvme,
        checksum_type,
        ..HeadObjectOutput::default()
    };
    let mut response = S3Response::new(output);
    if is_part {
        response.extensions.insert(PartialHead);
    }
    Ok(response)
}
