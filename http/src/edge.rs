//! One request, from method and path to answer.
//!
//! warp is the edge only: a single filter takes a request apart. Why not a filter per route? Because chains of filters are tried
//! in order and build types that do not compile any more at a hundred routes (dependencies.md 0.3).

use std::sync::Arc;
use std::time::Instant;

use bytes::Buf;
use futures_util::{Stream, StreamExt};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Body as _;
use svcfs_base::Fault;
use svcfs_knowledge::access::{Guard, Identity};
use svcfs_knowledge::kernel::Space;
use tracing::Instrument;
use warp::Filter;
use warp::reply::Response;

use crate::app::{App, log};
use crate::bind::{self, Body, Parts};
use crate::reply::{self, Cached};
use crate::routes::{Address, Found, Operation, Target};
use crate::specials;

/// Carries the id under which a failure is logged.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers a browser script of an allowed origin may send and read (gaps.md 4.1, CORS).
const MAY_SEND: &str = "Content-Type, Authorization, If-Match, If-None-Match, X-Actor, X-Provenance, X-Svc-Space, X-Space, \
    If-Modified-Since, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name";
const MAY_READ: &str = "ETag, Last-Modified, X-Permalink, X-File-Type, X-Request-Id, Retry-After, Mcp-Session-Id";

/// A request taken apart.
pub(crate) struct Request {
    /// Method.
    pub method: Method,
    /// Path, percent-encoded.
    pub path: String,
    /// Query without `?`, percent-encoded.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Body,
}

/// The one filter; it takes every request.
pub(crate) fn filter(app: Arc<App>) -> impl Filter<Extract = (Response,), Error = warp::Rejection> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    warp::method()
        .and(warp::path::full())
        .and(query)
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(move |method, path: warp::path::FullPath, query, headers, body| {
            let app = Arc::clone(&app);
            let body = Body::new(parts(body), &headers);
            let request = Request { method, path: path.as_str().to_owned(), query, headers, body };
            async move { app.answer(request).await }
        })
}

/// warp's body stream as ours.
fn parts<S, B>(stream: S) -> Parts
where
    S: Stream<Item = Result<B, warp::Error>> + Send + 'static,
    B: Buf,
{
    Box::pin(
        stream.map(|part| part.map(|mut part| part.copy_to_bytes(part.remaining())).map_err(|error| error.to_string())),
    )
}

/// Checks where a browser's request comes from, before anything else looks at it; the allowed origin, if there is one.
///
/// # Errors
/// The answer to give instead: a refusal.
pub(crate) fn admit(app: &App, headers: &HeaderMap, request_id: &str) -> Result<Option<String>, Box<Response>> {
    let admitted = app.hosts.check_host(headers).and_then(|()| app.hosts.check_origin(headers));
    admitted.map_err(|fault| {
        log(&fault, "admission", request_id);
        Box::new(reply::fault(&fault, request_id))
    })
}

/// The answer to a preflight request: what a script of an allowed origin may do.
pub(crate) fn preflight(allow: &str) -> Response {
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    if let Ok(allow) = HeaderValue::from_str(allow) {
        headers.insert(header::ALLOW, allow.clone());
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, allow);
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(MAY_SEND));
    response
}

/// Adds what every answer carries.
pub(crate) fn seal(headers: &mut HeaderMap, origin: Option<&str>, request_id: &str) {
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin.and_then(|origin| HeaderValue::from_str(origin).ok()) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(MAY_READ));
    }
}

/// A fresh id, under which a failure can be found in the log.
pub(crate) fn new_request_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

impl App {
    /// Answers a request, whatever it is.
    pub(crate) async fn answer(self: &Arc<Self>, request: Request) -> Response {
        let id = new_request_id();
        let started = Instant::now();
        let what = format!("{} {}", request.method, request.path.escape_default());
        let is_head = request.method == Method::HEAD;
        let origin = match admit(self, &request.headers, &id) {
            Ok(origin) => origin,
            Err(refusal) => return *refusal,
        };
        let span = tracing::info_span!("request", id, what);
        let mut response = match self.route(request).instrument(span).await {
            Ok(response) => response,
            Err(fault) => {
                log(&fault, &what, &id);
                reply::fault(&fault, &id)
            }
        };
        if is_head {
            response = without_body(response);
        }
        seal(response.headers_mut(), origin.as_deref(), &id);
        tracing::debug!(
            request.id = id,
            status = response.status().as_u16(),
            took_ms = started.elapsed().as_millis() as u64,
            "{what}"
        );
        response
    }

    async fn route(self: &Arc<Self>, request: Request) -> Result<Response, Fault> {
        match self.table.find(&request.method, &request.path)? {
            Found::Nothing => {
                let path = request.path.escape_default();
                Err(Fault::not_found(format!("not found: `{path}`; /api/openapi.json lists every endpoint")))
            }
            Found::OtherMethods(allow) if request.method == Method::OPTIONS => Ok(preflight(&allow)),
            Found::OtherMethods(allow) => Ok(reply::wrong_method(&allow)),
            Found::Target { target: Target::Special(page), address } => {
                let (identity, space) = match page.guard() {
                    Guard::Open => (Identity::ANYBODY, address.space(self, &request.headers)?),
                    Guard::Needs(scope) => {
                        let (identity, space) =
                            self.admit(&request.headers, &address, |space| page.stranger(space)).await?;
                        identity.reach.allow(scope, request.method.as_str())?;
                        (identity, space)
                    }
                };
                specials::answer(*page, self, (space, &address), (&request.headers, &identity)).await
            }
            Found::Target { target: Target::Operation(operation), address } => {
                self.operate(operation, address, request).await
            }
        }
    }

    /// Who sent a request, and the space it is for. Who is asked for first, so that a stranger learns nothing, not even which spaces there
    /// are; but one that `lets_in` strangers.
    ///
    /// # Errors
    /// `Unauthenticated`, `NotFound` for a space that is none.
    async fn admit(
        &self,
        headers: &HeaderMap,
        address: &Address,
        lets_in: impl FnOnce(&Space) -> Option<Identity>,
    ) -> Result<(Identity, Arc<Space>), Fault> {
        match self.identify(headers).await {
            Ok(identity) => {
                let space = address.space(self, headers)?;
                identity.enter(&space.name)?;
                Ok((identity, space))
            }
            Err(fault) if headers.contains_key(header::AUTHORIZATION) => Err(fault),
            Err(fault) => {
                let space = address.space(self, headers).ok();
                let found = space.and_then(|space| Some((lets_in(&space)?, space)));
                found.ok_or(fault)
            }
        }
    }

    async fn operate(
        &self,
        Operation { entry, route, inputs }: &Operation,
        address: Address,
        request: Request,
    ) -> Result<Response, Fault> {
        let headers = &request.headers;
        let stranger = |space: &Space| Identity::stranger(space.visibility(), entry, route.method);
        let (identity, space) = self.admit(headers, &address, stranger).await?;
        if route.is_at_root && entry.is_admin {
            identity.administer()?;
        }
        identity.reach.allow(entry.needs(), route.method.name())?;
        let caller = identity.vouch(bind::from_headers(headers, route.is_reading)?);
        let cached = Cached::of(headers)?;
        let texts =
            address.parameters.into_iter().chain(bind::pairs(&request.query)?).chain(bind::mark(route, headers));
        let content = bind::content(route, headers, request.body).await?;
        let arguments = bind::arguments(route, inputs, texts, content)?;
        let output = self.call(entry, space, caller, arguments).await?;
        reply::output(route, output, &cached)
    }
}

/// The answer to `HEAD`: the headers of `GET`.
fn without_body(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    let mut response = Response::default();
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}
