//! Under which conditions something is read or written (RFC 9110 13, as S3 has it).

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

/// The conditions of a request that reads.
#[derive(Debug, Default)]
pub(crate) struct ReadConditions {
    pub(crate) if_match: Option<ETagCondition>,
    pub(crate) if_none_match: Option<ETagCondition>,
    pub(crate) if_modified_since: Option<Timestamp>,
    pub(crate) if_unmodified_since: Option<Timestamp>,
}

impl ReadConditions {
    /// Whether they hold for an object.
    ///
    /// # Errors
    /// `PreconditionFailed`, `NotModified`.
    pub(crate) fn check(&self, object: &S3Object) -> S3Result<()> {
        let is = |condition: &ETagCondition| condition.as_etag().is_none_or(|tag| tag.value() == object.etag);
        match (&self.if_match, &self.if_unmodified_since) {
            (Some(condition), _) if !is(condition) => return Err(failed()),
            (None, Some(since)) if is_after(object.modified, since) => return Err(failed()),
            _ => {}
        }
        match (&self.if_none_match, &self.if_modified_since) {
            (Some(condition), _) if is(condition) => Err(S3Error::new(S3ErrorCode::NotModified)),
            (None, Some(since)) if !is_after(object.modified, since) => Err(S3Error::new(S3ErrorCode::NotModified)),
            _ => Ok(()),
        }
    }

    /// The same for what is copied, where nothing is answered with `304`.
    ///
    /// # Errors
    /// `PreconditionFailed`.
    pub(crate) fn check_source(&self, object: &S3Object) -> S3Result<()> {
        self.check(object).map_err(|_| failed())
    }
}

fn failed() -> S3Error {
    s3_error!(PreconditionFailed, "the object is not, or no longer, the one that the request is about")
}

/// Whether a moment lies after another, in whole seconds: headers have no others.
fn is_after(modified: SystemTime, since: &Timestamp) -> bool {
    let seconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let since = time_of(since).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    seconds > since
}

/// A moment, as the standard library has it.
fn time_of(moment: &Timestamp) -> SystemTime {
    let mut text = Vec::new();
    let format = s3s::dto::TimestampFormat::EpochSeconds;
    // Whole seconds in decimal; what cannot be written is no moment that a file could have.
    let seconds = moment.format(format, &mut text).ok().and_then(|()| String::from_utf8(text).ok());
    let seconds = seconds.and_then(|text| text.parse::<f64>().ok()).filter(|seconds| (0.0..1e12).contains(seconds));
    UNIX_EPOCH + std::time::Duration::from_secs(seconds.unwrap_or_default() as u64)
}

/// The conditions of a request that writes.
#[derive(Debug, Default)]
pub(crate) struct WriteConditions {
    pub(crate) if_match: Option<ETagCondition>,
    pub(crate) if_none_match: Option<ETagCondition>,
}

impl WriteConditions {
    /// Those of a request in which s3s does not look for them.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no condition.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Self> {
        let condition = |name: HeaderName| {
            let value = headers.get(&name).map(|value| ETagCondition::parse_http_header(value.as_bytes()));
            value.transpose().map_err(|_| s3_error!(InvalidArgument, "`{name}` is one ETag, in quotes, or `*`"))
        };
        Ok(Self { if_match: condition(IF_MATCH)?, if_none_match: condition(IF_NONE_MATCH)? })
    }

    /// What must still be true when the object is written.
    ///
    /// # Errors
    /// `PreconditionFailed`; `NotFound` where something must be there and is not; `NotImplemented` for what S3 has not either.
    pub(crate) fn expect(&self, asked: &S3RequestContext, key: &ParsedKey) -> Result<Precondition, S3RequestError> {
        let there = || match S3Object::at(asked, key) {
            Ok(object) => Ok(Some(object)),
            Err(fault) if is_missing(&fault) => Ok(None),
            Err(fault) => Err(fault),
        };
        match (&self.if_match, &self.if_none_match) {
            (None, None) => Ok(Precondition::Any),
            (None, Some(condition)) if condition.is_any() => match there()? {
                Some(_) => Err(failed().into()),
                None => Ok(Precondition::Absent),
            },
            (Some(condition), None) => {
                let object = there()?.ok_or_else(|| Fault::file_not_found(key.path()))?;
                if condition.as_etag().is_some_and(|tag: &Tag| tag.value() != object.etag) {
                    return Err(failed().into());
                }
                Ok(match (object.blob, object.large()) {
                    (Some(blob), _) => Precondition::OneOf(vec![blob]),
                    (None, Some(large)) => Precondition::Large(large),
                    (None, None) => Precondition::Present,
                })
            }
            // Of any other state of the object than that one, a client says nothing.
            (None, Some(condition)) => match (there()?, condition.as_etag()) {
                (Some(object), Some(tag)) if tag.value() == object.etag => Err(failed().into()),
                _ => Ok(Precondition::Any),
            },
            (Some(_), Some(_)) => {
                Err(s3_error!(NotImplemented, "to write, `If-Match` and `If-None-Match` are taken alone").into())
            }
        }
    }
}
