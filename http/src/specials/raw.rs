//! `/raw/*` (contract 4.2): files as they are, for browsers. No ETag semantics.
//!
//! One part of a file is sent to whom asks for one: players ask so for films, and downloads go on that broke off. Whoever asks for several parts
//! gets all of it, as any server may answer (RFC 9110 14.2).

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use headers::{AcceptRanges, ContentLength, ContentRange, HeaderMapExt, IfRange, LastModified};
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use svcfs_base::{Caller, Fault, Kind, Permissions, Protocol, TreePath};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::{FileContent, FileReader, OpenedFile, Space};
use svcfs_work::Lane;
use warp::reply::Response;

use crate::app::AppState;
use crate::response_budget::PIECE;
use crate::{media, reply};

/// A file, how long it is, when it was changed, and its type.
struct RawFile {
    content: FileContent,
    length: u64,
    modified: SystemTime,
    mime: String,
}

impl RawFile {
    fn of(path: &TreePath, OpenedFile { content, attributes, .. }: OpenedFile) -> Result<Self, Fault> {
        let (length, modified) = (attributes.size, attributes.modified);
        let mime = match media::of_path(path) {
            Some(mime) => mime,
            None => media::of_content(is_text(&content, length)?),
        };
        Ok(Self { content, length, modified, mime })
    }
}

/// Whether all of a content is UTF-8.
fn is_text(content: &FileContent, length: u64) -> Result<bool, Fault> {
    let (mut at, mut left) = (0, Vec::new());
    while at < length {
        let piece = content.read(at, PIECE)?;
        if piece.is_empty() {
            break;
        }
        at += piece.len() as u64;
        left.extend_from_slice(&piece);
        match std::str::from_utf8(&left) {
            Ok(_) => left.clear(),
            // A letter that goes on in the next piece.
            Err(error) if error.error_len().is_none() => drop(left.drain(..error.valid_up_to())),
            Err(_) => return Ok(false),
        }
    }
    Ok(left.is_empty())
}

/// What of a file is asked for.
#[derive(Debug, PartialEq, Eq)]
enum RequestedRange {
    All,
    One(Range<u64>),
    /// One that begins behind its end.
    Beyond,
}

impl RequestedRange {
    /// As a request says of a file with so many bytes.
    fn of(headers: &HeaderMap, length: u64, modified: SystemTime) -> Self {
        if svcfs_listener::single_range(headers).is_none() {
            return Self::All;
        }
        let Ok(Some(wanted)) = headers.typed_try_get::<headers::Range>() else { return Self::All };
        match headers.typed_try_get::<IfRange>() {
            Ok(None) => {}
            // A time tells two contents apart only when nothing else can have come in the same second (RFC 9110 8.8.2.2).
            Ok(Some(condition)) => {
                let is_steady = modified.elapsed().is_ok_and(|age| age > Duration::from_secs(2));
                if !is_steady || condition.is_modified(None, Some(&LastModified::from(modified))) {
                    return Self::All;
                }
            }
            Err(_) => return Self::All,
        }
        let mut ranges = wanted.satisfiable_ranges(length);
        let (Some((Bound::Included(begin), end)), None) = (ranges.next(), ranges.next()) else { return Self::All };
        let end = match end {
            Bound::Included(last) if last < begin => return Self::All,
            Bound::Included(last) => last.saturating_add(1).min(length),
            Bound::Excluded(_) | Bound::Unbounded => length,
        };
        if begin < length { Self::One(begin..end) } else { Self::Beyond }
    }
}

/// A file, if nothing must be waited for; [`find`] tells of all others.
fn at_once(space: &Space, reach: &Permissions, path: &TreePath) -> Option<RawFile> {
    // A file that is found at once has no link on its way: it lies where its path says.
    reach.check_path(path).ok()?;
    let (file, _) = space.vfs.try_read_cached(Protocol::Http, path, None)?;
    RawFile::of(path, file.into()).ok()
}

fn find(space: &Space, reach: &Permissions, path: &TreePath) -> Result<RawFile, Fault> {
    space.check_path_access(reach, Protocol::Http, path)?;
    match space.vfs.open_content(Protocol::Http, path) {
        Err(fault) if fault.kind() == Kind::TooLarge => large(space, path),
        opened => RawFile::of(path, opened?),
    }
}

/// The bytes of a file that is not below a dot directory. What credentials let their bearer read is for nobody else's cache.
///
/// # Errors
/// `Invalid` for a path that is denied, `Forbidden` for one beyond `reach`, `NotFound` when nothing is there, or a directory or a dot file is.
pub(super) async fn raw(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (headers, path, identity): (&HeaderMap, &str, &CallerIdentity),
) -> Result<Response, Fault> {
    let is_everybodys = app.server.access().is_open() || identity.token.is_none();
    let path = TreePath::parse(path)?;
    if path.is_hidden() {
        return Err(Fault::file_not_found(&path));
    }
    let found = match at_once(&space, &identity.permissions, &path) {
        Some(found) => found,
        None => {
            let (reach, wanted) = (identity.permissions.clone(), path.clone());
            let found = app.blocking(Lane::Quick, move || find(&space, &reach, &wanted)).await;
            found
                .map_err(|fault| if fault.kind() == Kind::IsDirectory { Fault::file_not_found(&path) } else { fault })?
        }
    };
    let RawFile { content, length, modified, mime } = found;
    let (status, part) = match RequestedRange::of(headers, length, modified) {
        RequestedRange::All => (StatusCode::OK, 0..length),
        RequestedRange::One(part) => (StatusCode::PARTIAL_CONTENT, part),
        RequestedRange::Beyond => return Ok(beyond(length)),
    };
    let mut response = match content {
        FileContent::InMemory(content) => {
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            Response::new(content.slice(at(part.start)..at(part.end)).into())
        }
        FileContent::OnDisk(reader) => app.streamed(reader, part.clone()),
    };
    media::describe(response.headers_mut(), &mime);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // Of a file without bytes there is no part that could be told.
    if status == StatusCode::PARTIAL_CONTENT
        && let Ok(told) = ContentRange::bytes(part.clone(), length)
    {
        headers.typed_insert(told);
    }
    headers.typed_insert(ContentLength(part.end - part.start));
    headers.typed_insert(AcceptRanges::bytes());
    headers.typed_insert(LastModified::from(modified));
    let caching = if is_everybodys { "public, max-age=3600, must-revalidate" } else { "private, no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    Ok(response)
}

/// The answer to whom asks for a part that is not there.
fn beyond(length: u64) -> Response {
    let told =
        json!({ "error": format!("the file has {length} bytes, and the part that is asked for begins behind them") });
    let mut response = reply::json(StatusCode::RANGE_NOT_SATISFIABLE, &told);
    response.headers_mut().typed_insert(ContentRange::unsatisfied_bytes(length));
    response.headers_mut().typed_insert(AcceptRanges::bytes());
    response
}

/// A file that no version has, open.
fn large(space: &Space, path: &TreePath) -> Result<RawFile, Fault> {
    let (reader, attributes) = FileReader::open_path(&space.vfs, &Caller::new(Protocol::Http), path)?;
    let (length, modified) = (attributes.size, attributes.modified);
    Ok(RawFile { content: FileContent::OnDisk(reader), length, modified, mime: media::of_large(path) })
}
