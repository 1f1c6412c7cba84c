//! `/raw/*` (contract 4.2): files as they are, for browsers. No ETag semantics.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderValue, LAST_MODIFIED};
use svcfs_base::{Caller, Door, Fault, Kind, Timestamp, TreePath};
use svcfs_knowledge::access::Identity;
use svcfs_knowledge::kernel::{Reader, Space};
use svcfs_work::Lane;
use warp::Reply;
use warp::reply::Response;

use crate::app::App;
use crate::{media, reply};

/// Bytes of a large file handed to a connection at once.
const PIECE: usize = 256 << 10;

/// A file, and when it was changed.
struct Found {
    content: Content,
    modified: std::time::SystemTime,
}

/// Its bytes.
enum Content {
    Here(Bytes),
    /// Too many for memory (over 64 MiB), and how many: read as they are.
    OnDisk(Reader, u64),
}

/// The bytes of a file that is not below a dot directory. What credentials let their bearer read is for nobody else's cache.
///
/// # Errors
/// `Invalid` for a path that is denied, `Forbidden` for one beyond `reach`, `NotFound` when nothing is there, or a directory or a dot file is.
pub(super) async fn raw(
    app: &Arc<App>,
    space: Arc<Space>,
    (path, identity): (&str, &Identity),
) -> Result<Response, Fault> {
    let reach = identity.reach.clone();
    let is_everybodys = app.server.access().is_open() || identity.token.is_none();
    let path = TreePath::parse(path)?;
    if path.is_dotted() {
        return Err(Fault::file_not_found(&path));
    }
    let wanted = path.clone();
    let read = move || {
        space.check_reach(&reach, Door::Http, &wanted)?;
        match space.vfs.read(Door::Http, &wanted) {
            Ok(file) => Ok(Found { content: Content::Here(file.content), modified: file.attributes.modified }),
            Err(fault) if fault.kind() == Kind::TooLarge => large(&space, &wanted),
            Err(fault) => Err(fault),
        }
    };
    let found = app.blocking(Lane::Quick, read).await;
    let found =
        found.map_err(|fault| if fault.kind() == Kind::IsDirectory { Fault::file_not_found(&path) } else { fault })?;
    let mut response = match found.content {
        Content::Here(content) => {
            let mime = media::of(&path, &content);
            let mut response = Response::new(content.into());
            media::describe(response.headers_mut(), &mime);
            response
        }
        Content::OnDisk(reader, length) => {
            let mut response = streamed(Arc::clone(app), reader, length);
            media::describe(response.headers_mut(), &media::of_large(&path));
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
            response
        }
    };
    let headers = response.headers_mut();
    let caching = if is_everybodys { "public, max-age=3600, must-revalidate" } else { "private, no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    let modified = Timestamp::try_from(found.modified).ok().and_then(reply::http_date);
    if let Some(value) = modified.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(LAST_MODIFIED, value);
    }
    Ok(response)
}

/// A file that no version has, open.
fn large(space: &Space, path: &TreePath) -> Result<Found, Fault> {
    let (reader, attributes) = Reader::at(&space.vfs, &Caller::new(Door::Http), path)?;
    Ok(Found { content: Content::OnDisk(reader, attributes.size), modified: attributes.modified })
}

/// A large file, read piece by piece as the client takes it.
fn streamed(app: Arc<App>, reader: Reader, length: u64) -> Response {
    let reader = Arc::new(reader);
    let pieces = stream::unfold((0, length), move |(offset, left)| {
        let (app, reader) = (Arc::clone(&app), Arc::clone(&reader));
        async move {
            if left == 0 {
                return None;
            }
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
            let piece = match reader.read_now(offset, most) {
                Some(piece) => Ok(piece),
                None => app.blocking(Lane::Quick, move || reader.read(offset, most)).await,
            };
            let piece: Result<Bytes, std::io::Error> = match piece {
                Ok(piece) if !piece.is_empty() => Ok(piece),
                // It became shorter meanwhile: the connection breaks off, and the client knows.
                Ok(_) => Err(std::io::ErrorKind::UnexpectedEof.into()),
                Err(fault) => Err(std::io::Error::other(fault)),
            };
            let read = piece.as_ref().map_or(left, |piece| piece.len() as u64);
            Some((piece, (offset + read, left - read)))
        }
    });
    warp::reply::stream(pieces).into_response()
}
