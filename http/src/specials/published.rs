//! `/p/…`: published pages as HTML, their index, and the files that they use. No credentials, no
//! script.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, VARY};
use http::{HeaderMap, StatusCode};
use svcfs_base::{ETag, Fault, Kind};
use svcfs_knowledge::kernel::{OperationContext, ServerState, Space};
use svcfs_knowledge::publishing::{
    self, PublishedDocument, PublishedResource, QueryUse, SpaceState, published_resource,
};
use svcfs_knowledge::shares::reader;
use svcfs_work::Lane;
use warp::reply::Response;

use super::raw::{self, RawFile};
use super::shared::{self, is_share_address};
use crate::app::AppState;
use crate::request_handler::SpecialRequest;
use crate::{bind, media, reply};

/// Shared caches may serve a page for a minute after it was withdrawn.
const CACHING: &str = "public, max-age=60, must-revalidate";

/// What pages may load. A block of JSON-LD is data, and no script.
pub(super) fn policy(has_own_images: bool, has_external_images: bool) -> &'static str {
    match (has_own_images, has_external_images) {
        (true, true) => {
            "default-src 'none'; style-src 'self'; img-src 'self' https: http:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        }
        (true, false) => {
            "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        }
        (false, true) => {
            "default-src 'none'; style-src 'self'; img-src https: http:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        }
        (false, false) => {
            "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        }
    }
}

/// What a request at `/p/` leads to.
enum PublishedContent {
    Document(Arc<PublishedDocument>),
    File(Box<RawFile>),
    /// A page with queries: they wait for a place in the slow lane.
    NeedsQueries,
}

/// What is published at an address. Errors: `NotFound` for everything else alike.
pub(super) async fn published(
    app: &Arc<AppState>,
    primary: Arc<Space>,
    (request, path): (&SpecialRequest, &str),
) -> Result<Response, Fault> {
    // A folder of the primary space may begin with `@`, too.
    let named = path.strip_prefix('@').and_then(|rest| rest.split_once('/'));
    let named = named.and_then(|(name, rest)| Some((app.space(Some(name)).ok()?, rest.to_owned())));
    let is_named = named.is_some();
    let (space, address) = named.unwrap_or_else(|| (Arc::clone(&primary), path.to_owned()));
    // Other documents have one address: a query would make them again for each request.
    let number = match address.is_empty() {
        // Without published pages, a space looks as if it did not exist, whatever the query is.
        true if is_named => index_number(&request.query).unwrap_or(0),
        true => index_number(&request.query)?,
        false => 1,
    };
    let not_found = || Fault::not_found(format!("file not found: {}", path.escape_default()));
    // Spaces without published pages look like those that do not exist.
    let hide = |fault: Fault| match fault.kind() {
        Kind::NotFound if is_named => primary.parse_path(path).err().unwrap_or_else(not_found),
        Kind::NotFound if number == 1 => not_found(),
        _ => fault,
    };
    let document = match find(app, &space, (address, number)).await.map_err(hide)? {
        PublishedContent::File(file) => return Ok(raw::response(app, &request.headers, (*file, CACHING))),
        PublishedContent::Document(document) => document,
        PublishedContent::NeedsQueries => return Err(Fault::internal("the queries of a page were not run")),
    };
    if let Some(page) = document.page.as_ref().filter(|_| space.settings.publish.count_views && !request.is_head) {
        space.view_counts.count(page);
    }
    let mut response = cacheable(&request.headers, (&document.mime, document.etag, document.body.clone()));
    if document.mime == media::HTML {
        let policy = policy(true, space.settings.render.external_images);
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    Ok(response)
}

/// What is at an address. A document is made once for all who wait for it.
async fn find(
    app: &Arc<AppState>,
    space: &Arc<Space>,
    (address, number): (String, usize),
) -> Result<PublishedContent, Fault> {
    let since = SpaceState::of(space);
    let cached = || if number == 1 { space.publishing.document(since, &address) } else { None };
    if let Some(document) = cached() {
        return Ok(PublishedContent::Document(document));
    }
    let _turn = if number == 1 && publishing::is_document(&address) {
        Some(app.page_renders.wait_turn((space.name.clone(), address.clone())).await)
    } else {
        None
    };
    if let Some(document) = cached() {
        return Ok(PublishedContent::Document(document));
    }
    let run = |lane, query_use| {
        let (server, space, address) = (Arc::clone(&app.server), Arc::clone(space), address.clone());
        app.blocking(lane, move || read(&server, &space, (&address, number), query_use))
    };
    match run(Lane::Quick, QueryUse::Skip).await? {
        PublishedContent::NeedsQueries => run(Lane::Slow, QueryUse::Run).await,
        found => Ok(found),
    }
}

/// The page of the index that a query asks for.
fn index_number(query: &str) -> Result<usize, Fault> {
    if query.is_empty() {
        return Ok(1);
    }
    let number = bind::query_value(query, "page")?;
    number.map_or(Ok(1), |text| text.parse().map_err(|_| Fault::invalid("page", "must be a number from 1")))
}

fn read(
    server: &ServerState,
    space: &Space,
    (address, number): (&str, usize),
    query_use: QueryUse,
) -> Result<PublishedContent, Fault> {
    let caller = reader();
    let cx = OperationContext::new(server, space, &caller);
    match published_resource(&cx, (address, number), query_use)? {
        PublishedResource::Document(document) => Ok(PublishedContent::Document(document)),
        PublishedResource::File(path) => Ok(PublishedContent::File(raw::open_file(space, &caller, &path)?.into())),
        PublishedResource::NeedsQueries => Ok(PublishedContent::NeedsQueries),
    }
}

/// A response that caches may store.
pub(super) fn cacheable(headers: &HeaderMap, (mime, etag, body): (&str, ETag, Bytes)) -> Response {
    let mut response = if reply::is_current(headers, etag) {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        Response::new(body.into())
    };
    let answer = response.headers_mut();
    media::describe(answer, mime);
    answer.insert(CACHE_CONTROL, HeaderValue::from_static(CACHING));
    reply::set_etag(answer, etag);
    response
}

/// Whether a request of a browser may lead to a page about its failure.
pub(crate) fn has_failure_page(path: &str) -> bool {
    path == "/p" || path.starts_with("/p/") || is_share_address(path)
}

/// The failure of a request at `/p` or at a share: as a page for browsers, with the same error for
/// programs.
pub(crate) fn failure_response(mut failure: Response, (path, accepts_html): (&str, bool), fault: &Fault) -> Response {
    let (status, is_share) = (failure.status(), is_share_address(path));
    if accepts_html {
        let title = status.canonical_reason().unwrap_or("Failed");
        let message = match fault.kind() {
            Kind::NotFound if is_share => "This link does not exist or is no longer valid.",
            Kind::NotFound => "There is no published page at this address.",
            kind if reply::is_generic(kind) => "The server cannot show this page.",
            _ => fault.message(),
        };
        let body = match path.strip_prefix("/p/") {
            _ if is_share => publishing::share_failure_page(path, title, message),
            address => publishing::failure_page(address.unwrap_or_default(), title, message),
        };
        *failure.body_mut() = Response::new(body.into()).into_body();
        let headers = failure.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media::HTML));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy(false, false)));
    }
    let headers = failure.headers_mut();
    if is_share {
        shared::add_privacy(headers);
    } else {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    failure
}

/// The site maps. Errors: `NotFound` without a public address; those of the index.
pub(super) async fn site_map(app: &Arc<AppState>, space: Arc<Space>) -> Result<Response, Fault> {
    let server = Arc::clone(&app.server);
    let work = move || publishing::site_map(&OperationContext::new(&server, &space, &reader()));
    let mut response = reply::text("application/xml; charset=utf-8", app.blocking(Lane::Quick, work).await?);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(CACHING));
    Ok(response)
}

/// What search engines may read.
pub(super) async fn robots(app: &Arc<AppState>, space: Arc<Space>) -> Result<Response, Fault> {
    let text = publishing::robots(&OperationContext::new(&app.server, &space, &reader()));
    let mut response = reply::text(media::PLAIN, text);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(CACHING));
    Ok(response)
}
