//! Handles one request, from method and path to the response.
//!
//! warp is used as the transport only: a single filter takes a request apart. Filters per route
//! would be tried in order, and their types no longer compile at a hundred routes.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Buf;
use futures_util::{Stream, StreamExt};
use http::Method;
use http::header::{self, HeaderMap};
use hyper::body::Body as _;
use svcfs_base::{Caller, Client, Fault};
use svcfs_knowledge::access::{CallerIdentity, RequestGuard};
use svcfs_knowledge::audit::RequestNotes;
use svcfs_knowledge::kernel::Space;
use svcfs_listener::ClientConnection;
use tracing::Instrument;
use warp::Filter;
use warp::reply::Response;

use crate::active_request::ActiveRequest;
use crate::app::AppState;
use crate::bind::{self, BodyStream, UnreadBody};
use crate::reply::{self, CacheValidators};
use crate::routes::{OperationRoute, RouteMatch, RouteParameters, RouteTarget};
use crate::specials;

/// The parts of a request.
pub(crate) struct HttpRequest {
    pub method: Method,
    /// Path, percent-encoded.
    pub path: String,
    /// Query without `?`, percent-encoded.
    pub query: String,
    pub headers: HeaderMap,
    pub body: UnreadBody,
    /// Address of the client.
    pub peer: Option<IpAddr>,
    /// Id of the connection.
    pub connection: Option<u64>,
}

/// A request for a special page.
pub(crate) struct SpecialRequest {
    pub page: specials::SpecialPage,
    /// May contain credentials.
    pub headers: HeaderMap,
    /// Query without `?`, percent-encoded.
    pub query: String,
    /// Whether only the headers of the answer are sent.
    pub is_head: bool,
    /// Parameters in the path.
    pub address: RouteParameters,
    /// Address of the client.
    pub peer: Option<IpAddr>,
}

/// The only filter; it accepts every request of a connection.
pub(crate) fn filter(
    app: Arc<AppState>,
    connection: ClientConnection,
) -> impl Filter<Extract = (Response,), Error = warp::Rejection> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    warp::method()
        .and(warp::path::full())
        .and(query)
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(move |method, path: warp::path::FullPath, query, headers, body| {
            let app = Arc::clone(&app);
            let body = UnreadBody::new(body_stream(body), &headers);
            let request = HttpRequest {
                method,
                path: path.as_str().to_owned(),
                query,
                headers,
                body,
                peer: Some(connection.peer),
                connection: Some(connection.id),
            };
            async move { app.handle(request).await }
        })
}

/// Converts the body stream of warp.
fn body_stream<S, B>(stream: S) -> BodyStream
where
    S: Stream<Item = Result<B, warp::Error>> + Send + 'static,
    B: Buf,
{
    Box::pin(
        stream.map(|part| part.map(|mut part| part.copy_to_bytes(part.remaining())).map_err(|error| error.to_string())),
    )
}

/// The response to a malformed request; closes the connection.
pub(crate) fn reject_malformed<B>(
    app: &AppState,
    request: &http::Request<B>,
    (fault, peer): (&Fault, IpAddr),
) -> Response {
    let uri = request.uri();
    let target = (request.method(), uri.path(), uri.query().unwrap_or_default());
    let active = ActiveRequest::start(app, target, Some(peer));
    let mut response = active.fault_response(fault);
    response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    active.finish(app, &mut response);
    response
}

impl AppState {
    /// Handles any request.
    pub(crate) async fn handle(self: &Arc<Self>, request: HttpRequest) -> Response {
        let mut active = ActiveRequest::start(self, (&request.method, &request.path, &request.query), request.peer);
        let is_head = request.method == Method::HEAD;
        let page = specials::has_failure_page(&request.path).then(|| {
            let accepts_html = specials::accepts_html(&request.headers);
            (request.path.clone(), accepts_html)
        });
        let outcome = match active.admit(self, &request.headers).await {
            Ok(identity) => {
                let span = tracing::info_span!("request", id = active.id, what = active.what);
                svcfs_listener::catch_panic(self.route(request, identity, &active)).instrument(span).await
            }
            Err(refusal) => Err(refusal),
        };
        let mut response = outcome.unwrap_or_else(|fault| {
            let response = active.fault_response(&fault);
            match &page {
                Some((path, accepts_html)) => specials::failure_response(response, (path, *accepts_html), &fault),
                None => response,
            }
        });
        if is_head {
            response = without_body(response);
        }
        active.finish(self, &mut response);
        response
    }

    async fn route(
        self: &Arc<Self>,
        request: HttpRequest,
        identity: Result<CallerIdentity, Fault>,
        active: &ActiveRequest,
    ) -> Result<Response, Fault> {
        match self.routes.find(&request.method, &request.path)? {
            RouteMatch::NotFound => {
                let path = request.path.escape_default();
                Err(Fault::not_found(format!("not found: `{path}`; /api/openapi.json lists every endpoint")))
            }
            RouteMatch::OtherMethods(allow) if request.method == Method::OPTIONS => Ok(active.preflight(self, &allow)),
            RouteMatch::OtherMethods(allow) => Ok(reply::method_not_allowed(&allow)),
            RouteMatch::Target { target: RouteTarget::Special(page), address } => {
                address.space(self, &request.headers).iter().for_each(|space| active.notes.set_space(space));
                let HttpRequest { method, headers, query, peer, .. } = request;
                let is_head = method == Method::HEAD;
                let special = SpecialRequest { page: *page, headers, query, is_head, address, peer };
                let (identity, space) = match page.guard() {
                    RequestGuard::Open => (CallerIdentity::UNRESTRICTED, self.unauthenticated_space(&special)?),
                    RequestGuard::RequiresScope(scope) => {
                        let (identity, space) = self.admit_special(identity, &special)?;
                        identity.permissions.check_scope(scope, &active.what)?;
                        (identity, space)
                    }
                };
                specials::handle(self, space, (special, identity)).await
            }
            RouteMatch::Target { target: RouteTarget::Operation(operation), address } => {
                self.call_operation(operation, address, (request, identity), &active.notes).await
            }
        }
    }

    /// The caller of a request and its space. Credentials are checked first, so that
    /// unauthenticated callers do not learn which spaces exist, except those for which `anonymous`
    /// returns an identity. Errors: `Unauthenticated`, `NotFound` for an unknown space.
    fn admit(
        &self,
        identity: Result<CallerIdentity, Fault>,
        (headers, address): (&HeaderMap, &RouteParameters),
        anonymous: impl FnOnce(&Space) -> Option<CallerIdentity>,
    ) -> Result<(CallerIdentity, Arc<Space>), Fault> {
        match identity {
            Ok(identity) => {
                let space = self.enter_space(&identity, address.space_name(headers)?.as_deref())?;
                Ok((identity, space))
            }
            Err(fault) if headers.contains_key(header::AUTHORIZATION) => Err(fault),
            Err(fault) => {
                let space = address.space(self, headers).ok();
                let admitted = space.and_then(|space| Some((anonymous(&space)?, space)));
                admitted.ok_or(fault)
            }
        }
    }

    /// The caller of a special page and its space.
    fn admit_special(
        &self,
        identity: Result<CallerIdentity, Fault>,
        special: &SpecialRequest,
    ) -> Result<(CallerIdentity, Arc<Space>), Fault> {
        self.admit(identity, (&special.headers, &special.address), |space| special.page.anonymous(space))
    }

    /// The space of a page that needs no credentials. Naming one does need credentials, so that
    /// unauthenticated callers do not learn which spaces exist, except public ones. Pages without a
    /// space ignore the name.
    fn unauthenticated_space(&self, special: &SpecialRequest) -> Result<Arc<Space>, Fault> {
        if !special.page.has_space() || special.address.space_name(&special.headers)?.is_none() {
            return Ok(Arc::clone(self.server.primary()));
        }
        let identity = specials::identify_cached(self, &special.headers);
        self.admit_special(identity, special).map(|(_, space)| space)
    }

    /// Whether a caller that was admitted before still has the same identity and space. Streams
    /// check this periodically: keys are revoked, tokens expire, spaces are removed or made
    /// private.
    pub(crate) async fn still_admits(
        &self,
        special: &SpecialRequest,
        (admitted_identity, admitted_space): (&CallerIdentity, &Arc<Space>),
    ) -> bool {
        let identity = self.identify(&special.headers).await;
        let admitted = self.admit_special(identity, special);
        admitted.is_ok_and(|(identity, space)| identity == *admitted_identity && Arc::ptr_eq(&space, admitted_space))
    }

    async fn call_operation(
        self: &Arc<Self>,
        OperationRoute { entry, route, inputs }: &OperationRoute,
        address: RouteParameters,
        (request, identity): (HttpRequest, Result<CallerIdentity, Fault>),
        notes: &RequestNotes,
    ) -> Result<Response, Fault> {
        let headers = &request.headers;
        notes.set_operation(entry.name);
        address.space(self, headers).iter().for_each(|space| notes.set_space(space));
        let anonymous = |space: &Space| CallerIdentity::anonymous(space.visibility(), entry, route.method);
        let (identity, space) = self.admit(identity, (headers, &address), anonymous)?;
        if route.is_at_root && entry.is_admin {
            identity.check_server_admin()?;
        }
        entry.check_scope(&identity.permissions)?;
        let client = Client { key: None, connection: request.connection };
        let protocol = self.protocol_of(headers, &identity);
        let caller = Caller { client, protocol, ..bind::from_headers(headers, route.is_read_only)? };
        let caller = identity.apply_to(caller);
        notes.set_actor(caller.actor());
        let cached = CacheValidators::of(headers)?;
        let texts = address
            .parameters
            .into_iter()
            .chain(bind::parse_query(&request.query)?)
            .chain(bind::media_flag(route, headers));
        let content = bind::read_body(route, headers, request.body).await?;
        let arguments = bind::arguments(route, inputs, texts, content)?;
        arguments.as_object().into_iter().for_each(|arguments| notes.set_arguments(arguments));
        let response_space = Arc::clone(&space);
        let (mut response, meta) = if reply::is_plain(route) && caller.request.is_none() {
            let (text, meta) = self.run_operation((entry, entry.call_json), space, caller, arguments).await?;
            (self.json_response(route, text).await?, meta)
        } else {
            let (output, meta) = self.run_once((entry, entry.call), space, caller, arguments).await?;
            (reply::output(route, output, &cached)?, meta)
        };
        reply::add_meta(&meta, response.headers_mut());
        if request.method == Method::HEAD {
            Ok(response)
        } else {
            self.bounded((response_space, route.is_read_only), response).await
        }
    }
}

/// The response to `HEAD`: the headers of `GET`.
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
