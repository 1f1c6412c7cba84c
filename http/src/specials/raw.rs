//! `/raw/*` (contract 4.2): files as they are, for browsers. No ETag semantics.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, HeaderValue, LAST_MODIFIED};
use svcfs_base::{Door, Fault, Kind, Timestamp, TreePath};
use svcfs_knowledge::access::Identity;
use svcfs_knowledge::kernel::Space;
use svcfs_work::Lane;
use warp::reply::Response;

use crate::app::App;
use crate::{media, reply};

/// The bytes of a file that is not below a dot directory. What credentials let their bearer read is for nobody else's cache.
///
/// # Errors
/// `Invalid` for a path that is denied, `Forbidden` for one beyond `reach`, `NotFound` when nothing is there, or a directory or a dot file is.
pub(super) async fn raw(app: &App, space: Arc<Space>, (path, identity): (&str, &Identity)) -> Result<Response, Fault> {
    let reach = identity.reach.clone();
    let is_everybodys = app.server.access().is_open() || identity.token.is_none();
    let path = TreePath::parse(path)?;
    if path.is_dotted() {
        return Err(Fault::file_not_found(&path));
    }
    let wanted = path.clone();
    let read = move || {
        space.check_reach(&reach, Door::Http, &wanted)?;
        space.vfs.read(Door::Http, &wanted)
    };
    let file = app.blocking(Lane::Quick, read).await;
    let file =
        file.map_err(|fault| if fault.kind() == Kind::IsDirectory { Fault::file_not_found(&path) } else { fault })?;
    let mime = media::of(&path, &file.content);
    let mut response = Response::new(file.content.into());
    let headers = response.headers_mut();
    media::describe(headers, &mime);
    let caching = if is_everybodys { "public, max-age=3600, must-revalidate" } else { "private, no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    let modified = Timestamp::try_from(file.attributes.modified).ok().and_then(reply::http_date);
    if let Some(value) = modified.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(LAST_MODIFIED, value);
    }
    Ok(response)
}
