//! `/public/file` and `/public/tree`: pages with `visibility: public`, without credentials.
//!
//! They exist below a named space, too: what is public there is public whoever asks.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_knowledge::kernel::{OperationContext, Space};
use svcfs_knowledge::publishing::{Audience, bytes_for_reader, public_tree, read_admitted};
use svcfs_knowledge::shares::reader;
use svcfs_work::Lane;
use warp::reply::Response;

use super::published::cacheable;
use crate::app::AppState;
use crate::request_handler::SpecialRequest;
use crate::{bind, media, reply};

/// The space and the path of a request. A space that does not exist looks like one without public
/// pages.
fn target(app: &AppState, request: &SpecialRequest) -> Result<(Arc<Space>, String), Fault> {
    let path = bind::query_value(&request.query, "path")?.unwrap_or_default();
    let space = request.address.space(app, &request.headers);
    Ok((space.map_err(|_| Fault::not_found(format!("file not found: {}", path.escape_default())))?, path))
}

/// A public page. Errors: `Invalid` without a path; `NotFound` for every other page alike.
pub(super) async fn file(app: &Arc<AppState>, request: &SpecialRequest) -> Result<Response, Fault> {
    let (space, path) = target(app, request)?;
    if path.is_empty() {
        return Err(Fault::invalid("path", "is missing"));
    }
    let path = space.parse_path(&path)?;
    let server = Arc::clone(&app.server);
    let work = move || {
        let caller = reader();
        let file = read_admitted(&OperationContext::new(&server, &space, &caller), &path, Audience::Public)?;
        let content = bytes_for_reader(&file.content);
        Ok((media::of(&path, &content), ETag::from_content(&content), content))
    };
    let (mime, etag, content) = app.blocking(Lane::Quick, work).await?;
    Ok(cacheable(&request.headers, (&mime, etag, content)))
}

/// The tree of public pages. Errors: `NotFound` if nothing below the path is public.
pub(super) async fn tree(app: &Arc<AppState>, request: &SpecialRequest) -> Result<Response, Fault> {
    let (space, path) = target(app, request)?;
    let path = if path.is_empty() { TreePath::root() } else { space.parse_path(&path)? };
    let server = Arc::clone(&app.server);
    let work = move || {
        let caller = reader();
        let nodes = public_tree(&OperationContext::new(&server, &space, &caller), &path)?;
        Ok(json!(nodes))
    };
    Ok(reply::json(StatusCode::OK, &app.blocking(Lane::Quick, work).await?))
}
