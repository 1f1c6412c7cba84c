//! `/raw/*`: files for browsers, without ETags. Files at `/p/` and in shares are sent alike.
//!
//! A single range is supported, for video players and resumed downloads. A request for several
//! ranges gets the full file, which RFC 9110 14.2 allows.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use headers::{AcceptRanges, ContentLength, ContentRange, HeaderMapExt, IfRange, LastModified};
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use svcfs_base::{Caller, ETag, Fault, Kind, Protocol, TreePath};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::{FileContent, FileReader, OpenedFile, Space};
use svcfs_work::Lane;
use warp::reply::Response;

use crate::app::AppState;
use crate::response_budget::PIECE;
use crate::{media, reply};

/// An open file.
pub(super) struct RawFile {
    content: FileContent,
    length: u64,
    modified: SystemTime,
    mime: String,
    /// None for a file without versions, and where clients get no ETag.
    etag: Option<ETag>,
}

impl RawFile {
    pub(super) fn of(path: &TreePath, OpenedFile { content, attributes, etag }: OpenedFile) -> Result<Self, Fault> {
        let (length, modified) = (attributes.size, attributes.modified);
        let mime = match media::of_path(path) {
            Some(mime) => mime,
            None => media::of_content(is_text(&content, length)?),
        };
        Ok(Self { content, length, modified, mime, etag: Some(etag) })
    }

    pub(super) fn without_etag(self) -> Self {
        Self { etag: None, ..self }
    }
}

/// Whether all of the content is UTF-8.
fn is_text(content: &FileContent, length: u64) -> Result<bool, Fault> {
    let (mut offset, mut incomplete) = (0, Vec::new());
    while offset < length {
        let piece = content.read(offset, PIECE)?;
        if piece.is_empty() {
            break;
        }
        offset += piece.len() as u64;
        incomplete.extend_from_slice(&piece);
        match std::str::from_utf8(&incomplete) {
            Ok(_) => incomplete.clear(),
            // A character that continues in the next piece.
            Err(error) if error.error_len().is_none() => drop(incomplete.drain(..error.valid_up_to())),
            Err(_) => return Ok(false),
        }
    }
    Ok(incomplete.is_empty())
}

/// The requested part of a file.
#[derive(Debug, PartialEq, Eq)]
enum RequestedRange {
    All,
    Single(Range<u64>),
    /// Starts after the end of the file.
    AfterEnd,
}

impl RequestedRange {
    /// Parses the range for a file of `length` bytes.
    fn of(headers: &HeaderMap, length: u64, (etag, modified): (Option<ETag>, SystemTime)) -> Self {
        if svcfs_listener::single_range(headers).is_none() {
            return Self::All;
        }
        let Ok(Some(requested)) = headers.typed_try_get::<headers::Range>() else { return Self::All };
        match headers.typed_try_get::<IfRange>() {
            Ok(None) => {}
            // A date identifies the content only when the file did not change again within the same
            // second (RFC 9110 8.8.2.2).
            Ok(Some(condition)) => {
                let is_unambiguous = modified.elapsed().is_ok_and(|age| age > Duration::from_secs(2));
                let modified = LastModified::from(modified);
                let etag = etag.and_then(|etag| format!("\"{etag}\"").parse().ok());
                if condition.is_modified(etag.as_ref(), is_unambiguous.then_some(&modified)) {
                    return Self::All;
                }
            }
            Err(_) => return Self::All,
        }
        let mut ranges = requested.satisfiable_ranges(length);
        let (Some((Bound::Included(start), end)), None) = (ranges.next(), ranges.next()) else { return Self::All };
        let end = match end {
            Bound::Included(last) if last < start => return Self::All,
            Bound::Included(last) => last.saturating_add(1).min(length),
            Bound::Excluded(_) | Bound::Unbounded => length,
        };
        if start < length { Self::Single(start..end) } else { Self::AfterEnd }
    }
}

/// Opens a file without blocking; [`open_file`] opens all others.
fn open_cached(space: &Space, caller: &Caller, path: &TreePath) -> Option<RawFile> {
    // A cached file has no symbolic link in its path, so the path itself is checked.
    caller.permissions.check_path(path).ok()?;
    if space.vfs.proposal_of(caller).is_some() {
        return None;
    }
    let (file, _) = space.vfs.try_read_cached(Protocol::Http, path, None)?;
    RawFile::of(path, file.into()).ok()
}

pub(super) fn open_file(space: &Space, caller: &Caller, path: &TreePath) -> Result<RawFile, Fault> {
    space.check_path_access(&caller.permissions, Protocol::Http, path)?;
    match space.vfs.tree_of(caller).open_content(Protocol::Http, path) {
        Err(fault) if fault.kind() == Kind::TooLarge => open_large(space, path),
        opened => RawFile::of(path, opened?),
    }
}

/// The bytes of a file that is not hidden, or an exception. Responses to authenticated requests are
/// not for shared caches. Errors: `Invalid` for a path that is not allowed, `Forbidden` for one
/// outside the caller's permissions, `NotFound` for a missing or hidden file or a directory.
pub(super) async fn raw(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (headers, path, identity): (&HeaderMap, &str, &CallerIdentity),
) -> Result<Response, Fault> {
    let is_public = app.server.access().is_open() || identity.token.is_none();
    let caller = identity.apply_to(Caller::new(Protocol::Http));
    let path = space.parse_path(path)?;
    if !space.vfs.hidden_files().lists(&path) {
        return Err(Fault::file_not_found(&path));
    }
    let file = match open_cached(&space, &caller, &path) {
        Some(file) => file,
        None => {
            let requested = path.clone();
            let file = app.blocking(Lane::Quick, move || open_file(&space, &caller, &requested)).await;
            file.map_err(|fault| if fault.kind() == Kind::IsDirectory { Fault::file_not_found(&path) } else { fault })?
        }
    };
    let caching = if is_public { "public, max-age=3600, must-revalidate" } else { "private, no-cache" };
    Ok(response(app, headers, (file.without_etag(), caching)))
}

/// A file as the answer to a request for all of it or for a part.
pub(super) fn response(app: &Arc<AppState>, headers: &HeaderMap, (file, caching): (RawFile, &'static str)) -> Response {
    let RawFile { content, length, modified, mime, etag } = file;
    let is_current = etag.is_some_and(|etag| reply::is_current(headers, etag));
    let (status, part) = match RequestedRange::of(headers, length, (etag, modified)) {
        _ if is_current => (StatusCode::NOT_MODIFIED, 0..0),
        RequestedRange::All => (StatusCode::OK, 0..length),
        RequestedRange::Single(part) => (StatusCode::PARTIAL_CONTENT, part),
        RequestedRange::AfterEnd => return range_not_satisfiable(length),
    };
    let mut response = match content {
        _ if is_current => Response::default(),
        FileContent::InMemory(content) => {
            let index = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            Response::new(content.slice(index(part.start)..index(part.end)).into())
        }
        FileContent::OnDisk(reader) => app.streamed(reader, part.clone()),
    };
    media::describe(response.headers_mut(), &mime);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // An empty file has no valid range.
    if status == StatusCode::PARTIAL_CONTENT
        && let Ok(range_header) = ContentRange::bytes(part.clone(), length)
    {
        headers.typed_insert(range_header);
    }
    if !is_current {
        headers.typed_insert(ContentLength(part.end - part.start));
    }
    if let Some(etag) = etag {
        reply::set_etag(headers, etag);
    }
    headers.typed_insert(AcceptRanges::bytes());
    headers.typed_insert(LastModified::from(modified));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

/// The response to a range after the end of the file.
fn range_not_satisfiable(length: u64) -> Response {
    let body = json!({ "error": format!("the file has {length} bytes; the requested range starts after its end") });
    let mut response = reply::json(StatusCode::RANGE_NOT_SATISFIABLE, &body);
    response.headers_mut().typed_insert(ContentRange::unsatisfied_bytes(length));
    response.headers_mut().typed_insert(AcceptRanges::bytes());
    response
}

/// Opens a file that is too large for versions.
fn open_large(space: &Space, path: &TreePath) -> Result<RawFile, Fault> {
    let (reader, attributes) = FileReader::open_path(&space.vfs, &Caller::new(Protocol::Http), path)?;
    let (length, modified) = (attributes.size, attributes.modified);
    Ok(RawFile { content: FileContent::OnDisk(reader), length, modified, mime: media::of_large(path), etag: None })
}
