//! `/p/…`: published pages as HTML, their index, and the files that they use. No credentials, no
//! script.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_knowledge::kernel::{OperationContext, ServerState, Space};
use svcfs_knowledge::publishing::{self, PublishedDocument, PublishedResource, published_resource};
use svcfs_knowledge::shares::reader;
use svcfs_work::Lane;
use warp::reply::Response;

use crate::app::AppState;
use crate::bind::{self, etag_header};
use crate::request_handler::SpecialRequest;
use crate::{media, reply};

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

/// A response body with its type and entity tag.
struct Document {
    mime: String,
    body: Bytes,
    etag: ETag,
    page: Option<TreePath>,
    /// Whether svcfs made it: the bytes of a file have the policy of their media type.
    is_generated: bool,
}

impl From<Arc<PublishedDocument>> for Document {
    fn from(document: Arc<PublishedDocument>) -> Self {
        Self {
            mime: document.mime.clone(),
            body: document.body.clone(),
            etag: document.etag,
            page: document.page.clone(),
            is_generated: true,
        }
    }
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
    let (space, address) = named.unwrap_or((primary, path.to_owned()));
    // Other documents have one address: a query would make them again for each request.
    let number = if address.is_empty() { index_number(&request.query)? } else { 1 };
    let cached = if number == 1 { space.publishing.document(&space, &address) } else { None };
    let document = match cached {
        Some(document) => document.into(),
        None => {
            let (server, space) = (Arc::clone(&app.server), Arc::clone(&space));
            app.blocking(Lane::Quick, move || document(&server, &space, (&address, number))).await?
        }
    };
    if let Some(page) = document.page.as_ref().filter(|_| space.settings.publish.count_views && !request.is_head) {
        space.view_counts.count(page);
    }
    let is_generated = document.is_generated;
    let mut response = cacheable(&request.headers, document);
    let policy = policy(true, space.settings.render.external_images);
    if is_generated && response.headers().get(CONTENT_TYPE).is_some_and(|mime| mime == "text/html; charset=utf-8") {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    Ok(response)
}

/// The page of the index that a query asks for.
fn index_number(query: &str) -> Result<usize, Fault> {
    if query.is_empty() {
        return Ok(1);
    }
    let number = bind::query_value(query, "page")?;
    number.map_or(Ok(1), |text| text.parse().map_err(|_| Fault::invalid("page", "must be a number from 1")))
}

fn document(server: &ServerState, space: &Space, (address, number): (&str, usize)) -> Result<Document, Fault> {
    let caller = reader();
    match published_resource(&OperationContext::new(server, space, &caller), address, number)? {
        PublishedResource::Document(document) => Ok(document.into()),
        PublishedResource::File(path, file) => {
            let mime = media::of(&path, &file.content);
            Ok(Document { mime, etag: file.etag, body: file.content, page: None, is_generated: false })
        }
    }
}

/// A response that caches may store.
fn cacheable(headers: &HeaderMap, document: Document) -> Response {
    let etag = document.etag.to_string();
    let is_current = etag_header(headers, &IF_NONE_MATCH).is_some_and(|tags| reply::contains_etag(&tags, &etag));
    let mut response =
        if is_current { reply::empty(StatusCode::NOT_MODIFIED) } else { Response::new(document.body.into()) };
    let answer = response.headers_mut();
    media::describe(answer, &document.mime);
    answer.insert(CACHE_CONTROL, HeaderValue::from_static(CACHING));
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{etag}\"")) {
        answer.insert(ETAG, etag);
    }
    response
}

/// The bytes of a file that everyone may read.
pub(super) fn public_file(headers: &HeaderMap, (mime, etag, body): (String, ETag, Bytes)) -> Response {
    cacheable(headers, Document { mime, body, etag, page: None, is_generated: false })
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
