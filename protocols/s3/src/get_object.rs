//! What reads one object: GetObject and HeadObject.

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

/// What is asked of an object.
struct ReadRequest {
    key: String,
    version: Option<String>,
    conditions: Conditions,
    range: Option<Range>,
    part: Option<i32>,
    /// Whether the version of what is there now is to be told.
    tells_version: bool,
}

/// Says of the answer to a HEAD that it is about a part of the object, for which s3s has no status.
#[derive(Debug, Clone)]
pub(crate) struct PartialHead;

/// An object, and the part of it that was asked for.
struct ObjectSelection {
    object: S3Object,
    range: Option<std::ops::Range<u64>>,
    /// What its version is called, where that is looked up: it costs a question to the log.
    version: Option<String>,
}

impl ObjectSelection {
    async fn of(asked: &S3RequestContext, what: &'static str, question: ReadRequest) -> S3Result<Self> {
        let key = ParsedKey::parse(&question.key).map_err(|fault| refuse(fault, what))?;
        let is_streamed = question.version.is_some() && !question.tells_version;
        let may_be_here = question.version.is_none() && !question.tells_version;
        if let Some(object) = may_be_here.then(|| S3Object::at_once(asked, &key)).flatten() {
            return Self::about(object, question).map_err(|refused| refused.told(what));
        }
        asked
            .run(what, move |asked| {
                let object = versions::object(asked, &key, question.version.as_deref())?;
                let version = question.tells_version.then(|| versions::current(asked, &key, &object)).flatten();
                let mut answer = Self { version, ..Self::about(object, question)? };
                if is_streamed {
                    answer.set_aside(asked);
                }
                Ok(answer)
            })
            .await
    }

    /// Lets an earlier version be read from the disk, for it is streamed as slowly as a client takes it; where there is no room on the disk, it stays
    /// in memory.
    fn set_aside(&mut self, asked: &S3RequestContext) {
        let FileContent::InMemory(content) = &self.object.content else { return };
        match asked.space.vfs.spill_content(content.clone()) {
            Ok(aside) => self.object.content = aside,
            Err(fault) => tracing::warn!(error = ?fault, "a version is handed on from memory"),
        }
    }

    /// The part of an object that a question is about.
    fn about(object: S3Object, question: ReadRequest) -> Result<Self, S3RequestError> {
        let ReadRequest { conditions, range, part, .. } = question;
        conditions.check(&object).map_err(|refused| unmodified(refused, &object))?;
        let range = match (range, part) {
            (Some(_), Some(_)) => {
                return Err(
                    s3_error!(InvalidRequest, "ask for a range or for a part of the object, not for both").into()
                );
            }
            (None, Some(part)) => part_of(&object, part)?,
            (range, None) => range.map(|range| range.check(object.size)).transpose().map_err(|_| {
                s3_error!(InvalidRange, "the object has {} bytes, none of which lie in that range", object.size)
            })?,
        };
        Ok(Self { object, range, version: None })
    }

    fn length(&self) -> u64 {
        self.range.as_ref().map_or(self.object.size, |range| range.end - range.start)
    }
    fn content_range(&self) -> Option<String> {
        // No range tells of no bytes.
        let range = self.range.as_ref().filter(|range| !range.is_empty())?;
        Some(format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), self.object.size))
    }
    /// Checksums are of the whole, so they are told with the whole only, and to whom asks.
    fn sums(&self, is_asked_for: bool) -> ContentChecksums {
        let tells = is_asked_for && self.range.is_none() && self.object.is_of_record();
        if tells { self.object.record.sums.clone() } else { ContentChecksums::default() }
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
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Read, "GetObject"))?;
    let input = request.input;
    let (is_asked_for, is_of_part) = (input.checksum_mode.is_some(), input.part_number.is_some());
    let question = ReadRequest {
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
        tells_version: false,
    };
    let answer = ObjectSelection::of(&asked, "GetObject", question).await?;
    let (length, content_range, sums) = (answer.length(), answer.content_range(), answer.sums(is_asked_for));
    let checksum_type = sums.kind();
    let is_part = content_range.is_some();
    let tags = answer.object.record.tags.len();
    let parts_count = answer.object.parts().filter(|_| is_of_part);
    let mut output = GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: i64::try_from(length).ok(),
        content_range,
        content_type: Some(answer.object.content_type()),
        cache_control: answer.header("cache-control"),
        content_disposition: answer.header("content-disposition"),
        content_language: answer.header("content-language"),
        content_encoding: answer.header(CONTENT_ENCODING.as_str()),
        expires: answer.expires(),
        e_tag: Some(Tag::Strong(answer.object.etag.clone())),
        last_modified: Some(Timestamp::from(answer.object.modified)),
        metadata: Some(answer.object.metadata().into_iter().collect()),
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
    let from = answer.range.as_ref().map_or(0, |range| range.start);
    output.body = Some(match answer.object.content {
        FileContent::InMemory(content) => {
            let begin = usize::try_from(from).unwrap_or(usize::MAX).min(content.len());
            let end = begin.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)).min(content.len());
            StreamingBlob::from(Body::from(content.slice(begin..end)))
        }
        FileContent::OnDisk(reader) => {
            let read = ReadFunctions { try_read: FileReader::try_read_cached, read: FileReader::read };
            StreamingBlob::wrap(stream_file(Arc::clone(&asked.protocol.lanes), (reader, read), from..from + length))
        }
    });
    let mut response = S3Response::new(output);
    response.status = is_part.then_some(StatusCode::PARTIAL_CONTENT);
    // Files come from many hands, and a page among them would run with the rights of whoever looks.
    response.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    Ok(response)
}

/// What a 304 tells of the object that the client has (RFC 9110 15.4.5).
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

/// The bytes of a part, counted from 1 as the object has them, whatever numbers they were sent with: of an object that did not come in parts, or in one,
/// the first is all of it.
///
/// # Errors
/// `InvalidPartNumber` for one that it does not have; `NotImplemented` where it is not known how long they are.
fn part_of(object: &S3Object, part: i32) -> S3Result<Option<std::ops::Range<u64>>> {
    let came_in = object.parts().unwrap_or(1);
    if !(1..=MAX_PARTS).contains(&part) {
        return Err(s3_error!(InvalidArgument, "parts are numbered from 1 to {MAX_PARTS}"));
    }
    if part > came_in {
        let code = S3ErrorCode::Custom("InvalidPartNumber".into());
        let mut error = S3Error::with_message(code, "The requested partnumber is not satisfiable");
        error.set_status_code(StatusCode::RANGE_NOT_SATISFIABLE);
        return Err(error);
    }
    if came_in == 1 {
        return Ok((object.size > 0).then_some(0..object.size));
    }
    let told = "how long the parts of this object are is not known; ask for a range instead";
    object.part(part).map(Some).ok_or_else(|| s3_error!(NotImplemented, "{}", told))
}

/// `HeadObject`
pub(crate) async fn head(
    protocol: &Arc<S3Server>,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Read, "HeadObject"))?;
    let input = request.input;
    let (is_asked_for, is_of_part) = (input.checksum_mode.is_some(), input.part_number.is_some());
    let question = ReadRequest {
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
        tells_version: true,
    };
    let answer = ObjectSelection::of(&asked, "HeadObject", question).await?;
    let version_id = input.version_id.or(answer.version.clone());
    let sums = answer.sums(is_asked_for);
    let checksum_type = sums.kind();
    let parts_count = answer.object.parts().filter(|_| is_of_part);
    let is_part = answer.content_range().is_some();
    let output = HeadObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: i64::try_from(answer.length()).ok(),
        content_range: answer.content_range(),
        content_type: Some(answer.object.content_type()),
        cache_control: answer.header("cache-control"),
        content_disposition: answer.header("content-disposition"),
        content_language: answer.header("content-language"),
        content_encoding: answer.header(CONTENT_ENCODING.as_str()),
        expires: answer.expires(),
        e_tag: Some(Tag::Strong(answer.object.etag.clone())),
        last_modified: Some(Timestamp::from(answer.object.modified)),
        metadata: Some(answer.object.metadata().into_iter().collect()),
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
