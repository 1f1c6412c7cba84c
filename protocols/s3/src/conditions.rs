//! Preconditions of reads and writes (RFC 9110 section 13, in S3's variant).

use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName};
use s3s::dto::{ETag as Tag, ETagCondition, Timestamp};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};
use svcfs_base::{Fault, Precondition};

use crate::context::{S3RequestContext, S3RequestError};
use crate::key::ParsedKey;
use crate::object::S3Object;
use crate::object_metadata::is_missing;

/// The preconditions of a read.
#[derive(Debug, Default)]
pub(crate) struct ReadConditions {
    pub(crate) if_match: Option<ETagCondition>,
    pub(crate) if_none_match: Option<ETagCondition>,
    pub(crate) if_modified_since: Option<Timestamp>,
    pub(crate) if_unmodified_since: Option<Timestamp>,
}

impl ReadConditions {
    /// Checks them against an object. Errors: `PreconditionFailed`, `NotModified`.
    pub(crate) fn check(&self, object: &S3Object) -> S3Result<()> {
        let matches = |condition: &ETagCondition| condition.as_etag().is_none_or(|tag| tag.value() == object.etag);
        match (&self.if_match, &self.if_unmodified_since) {
            (Some(condition), _) if !matches(condition) => return Err(precondition_failed()),
            (None, Some(since)) if is_after(object.modified, since) => return Err(precondition_failed()),
            _ => {}
        }
        match (&self.if_none_match, &self.if_modified_since) {
            (Some(condition), _) if matches(condition) => Err(S3Error::new(S3ErrorCode::NotModified)),
            (None, Some(since)) if !is_after(object.modified, since) => Err(S3Error::new(S3ErrorCode::NotModified)),
            _ => Ok(()),
        }
    }

    /// Checks them for a copy source, where `304` does not exist. Errors: `PreconditionFailed`.
    pub(crate) fn check_source(&self, object: &S3Object) -> S3Result<()> {
        self.check(object).map_err(|_| precondition_failed())
    }
}

fn precondition_failed() -> S3Error {
    s3_error!(PreconditionFailed, "the object does not match the precondition of the request")
}

/// Compares in whole seconds, the resolution of the headers.
fn is_after(modified: SystemTime, since: &Timestamp) -> bool {
    let seconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let since = to_system_time(since).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    seconds > since
}

/// Converts to the time of the standard library.
fn to_system_time(timestamp: &Timestamp) -> SystemTime {
    let mut text = Vec::new();
    let format = s3s::dto::TimestampFormat::EpochSeconds;
    // Whole seconds in decimal; a value out of range cannot be the time of a file.
    let seconds = timestamp.format(format, &mut text).ok().and_then(|()| String::from_utf8(text).ok());
    let seconds = seconds.and_then(|text| text.parse::<f64>().ok()).filter(|seconds| (0.0..1e12).contains(seconds));
    UNIX_EPOCH + std::time::Duration::from_secs(seconds.unwrap_or_default() as u64)
}

/// The preconditions of a write.
#[derive(Debug, Default)]
pub(crate) struct WriteConditions {
    pub(crate) if_match: Option<ETagCondition>,
    pub(crate) if_none_match: Option<ETagCondition>,
}

impl WriteConditions {
    /// Reads them from the headers, where s3s does not. Errors: `InvalidArgument` for an invalid
    /// value.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Self> {
        let condition = |name: HeaderName| {
            let value = headers.get(&name).map(|value| ETagCondition::parse_http_header(value.as_bytes()));
            value.transpose().map_err(|_| s3_error!(InvalidArgument, "`{name}` must be one ETag in quotes, or `*`"))
        };
        Ok(Self { if_match: condition(IF_MATCH)?, if_none_match: condition(IF_NONE_MATCH)? })
    }

    /// Checks them, and returns what must still hold when the object is written. Errors:
    /// `PreconditionFailed`; `NotFound` when the object is missing; `NotImplemented` for
    /// combinations that S3 has not either.
    pub(crate) fn expect(&self, context: &S3RequestContext, key: &ParsedKey) -> Result<Precondition, S3RequestError> {
        let current = || match S3Object::at(context, key) {
            Ok(object) => Ok(Some(object)),
            Err(fault) if is_missing(&fault) => Ok(None),
            Err(fault) => Err(fault),
        };
        match (&self.if_match, &self.if_none_match) {
            (None, None) => Ok(Precondition::Any),
            (None, Some(condition)) if condition.is_any() => match current()? {
                Some(_) => Err(precondition_failed().into()),
                None => Ok(Precondition::Absent),
            },
            (Some(condition), None) => {
                let object = current()?.ok_or_else(|| Fault::file_not_found(key.path()))?;
                if condition.as_etag().is_some_and(|tag: &Tag| tag.value() != object.etag) {
                    return Err(precondition_failed().into());
                }
                Ok(match (object.blob, object.large()) {
                    (Some(blob), _) => Precondition::OneOf(vec![blob]),
                    (None, Some(large)) => Precondition::Large(large),
                    (None, None) => Precondition::Present,
                })
            }
            // Any other state of the object is accepted.
            (None, Some(condition)) => match (current()?, condition.as_etag()) {
                (Some(object), Some(tag)) if tag.value() == object.etag => Err(precondition_failed().into()),
                _ => Ok(Precondition::Any),
            },
            (Some(_), Some(_)) => {
                Err(s3_error!(NotImplemented, "a write can have `If-Match` or `If-None-Match`, not both").into())
            }
        }
    }
}
