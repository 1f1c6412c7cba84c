//! One request, from method and path to answer.
//!
//! warp is the edge only: a single filter takes a request apart. Why not a filter per route? Because chains of filters are tried
//! in order and build types that do not compile any more at a hundred routes (dependencies.md 0.3).

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
use tracing::Instrument;
use warp::Filter;
use warp::reply::Response;

use crate::active_request::ActiveRequest;
use crate::app::AppState;
use crate::bind::{self, BodyStream, UnreadBody};
use crate::reply::{self, CacheValidators};
use crate::routes::{OperationRoute, RouteMatch, RouteParameters, RouteTarget};
use crate::specials;

/// A request taken apart.
pub(crate) struct HttpRequest {
    /// Method.
    pub method: Method,
    /// Path, percent-encoded.
    pub path: String,
    /// Query without `?`, percent-encoded.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: UnreadBody,
    /// Where it comes from.
    pub peer: Option<IpAddr>,
    /// The number of its connection.
    pub connection: Option<u64>,
}

/// With what somebody comes for a special page.
pub(crate) struct SpecialRequest {
    /// Which page.
    pub page: specials::SpecialPage,
    /// Credentials among them, perhaps.
    pub headers: HeaderMap,
    /// What the path says.
    pub address: RouteParameters,
    /// Where it comes from.
    pub peer: Option<IpAddr>,
}

/// The one filter; it takes every request of the connection of this number, which comes from `peer`.
pub(crate) fn filter(
    app: Arc<AppState>,
    (peer, connection): (IpAddr, u64),
) -> impl Filter<Extract = (Response,), Error = warp::Rejection> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    warp::method()
        .and(warp::path::full())
        .and(query)
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(move |method, path: warp::path::FullPath, query, headers, body| {
            let app = Arc::clone(&app);
            let body = UnreadBody::new(parts(body), &headers);
            let request = HttpRequest {
                method,
                path: path.as_str().to_owned(),
                query,
                headers,
                body,
                peer: Some(peer),
                connection: Some(connection),
            };
            async move { app.answer(request).await }
        })
}

/// warp's body stream as ours.
fn parts<S, B>(stream: S) -> BodyStream
where
    S: Stream<Item = Result<B, warp::Error>> + Send + 'static,
    B: Buf,
{
    Box::pin(
        stream.map(|part| part.map(|mut part| part.copy_to_bytes(part.remaining())).map_err(|error| error.to_string())),
    )
}

/// The answer to a request of a form that is refused; the connection ends with it.
pub(crate) fn misshapen<B>(app: &AppState, request: &http::Request<B>, (fault, peer): (&Fault, IpAddr)) -> Response {
    let uri = request.uri();
    let asked = (request.method(), uri.path(), uri.query().unwrap_or_default());
    let visit = ActiveRequest::begin(app, asked, Some(peer));
    let mut response = visit.refuse(fault);
    response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    visit.end(app, &mut response);
    response
}

impl AppState {
    /// Answers a request, whatever it is.
    pub(crate) async fn answer(self: &Arc<Self>, request: HttpRequest) -> Response {
        let mut visit = ActiveRequest::begin(self, (&request.method, &request.path, &request.query), request.peer);
        let is_head = request.method == Method::HEAD;
        let outcome = match visit.admit(self, &request.headers).await {
            Ok(identity) => {
                let span = tracing::info_span!("request", id = visit.id, what = visit.what);
                svcfs_listener::catch_panic(self.route(request, identity, &visit)).instrument(span).await
            }
            Err(refusal) => Err(refusal),
        };
        let mut response = outcome.unwrap_or_else(|fault| visit.refuse(&fault));
        if is_head {
            response = without_body(response);
        }
        visit.end(self, &mut response);
        response
    }

    async fn route(
        self: &Arc<Self>,
        request: HttpRequest,
        identity: Result<CallerIdentity, Fault>,
        visit: &ActiveRequest,
    ) -> Result<Response, Fault> {
        match self.table.find(&request.method, &request.path)? {
            RouteMatch::Nothing => {
                let path = request.path.escape_default();
                Err(Fault::not_found(format!("not found: `{path}`; /api/openapi.json lists every endpoint")))
            }
            RouteMatch::OtherMethods(allow) if request.method == Method::OPTIONS => Ok(visit.preflight(self, &allow)),
            RouteMatch::OtherMethods(allow) => Ok(reply::wrong_method(&allow)),
            RouteMatch::Target { target: RouteTarget::Special(page), address } => {
                address.space(self, &request.headers).iter().for_each(|space| visit.notes.set_space(space));
                let HttpRequest { headers, method, peer, .. } = request;
                let pass = SpecialRequest { page: *page, headers, address, peer };
                let (identity, space) = match page.guard() {
                    RequestGuard::Open => (CallerIdentity::UNRESTRICTED, self.shown(&pass)?),
                    RequestGuard::RequiresScope(scope) => {
                        let (identity, space) = self.pass(identity, &pass)?;
                        identity.permissions.check_scope(scope, method.as_str())?;
                        (identity, space)
                    }
                };
                specials::answer(self, space, (pass, identity)).await
            }
            RouteMatch::Target { target: RouteTarget::Operation(operation), address } => {
                self.operate(operation, address, (request, identity), &visit.notes).await
            }
        }
    }

    /// Who sent a request, and the space it is for. Who is asked for first, so that a stranger learns nothing, not even which spaces there
    /// are; but one that `lets_in` strangers.
    ///
    /// # Errors
    /// `Unauthenticated`, `NotFound` for a space that is none.
    fn admit(
        &self,
        identity: Result<CallerIdentity, Fault>,
        (headers, address): (&HeaderMap, &RouteParameters),
        lets_in: impl FnOnce(&Space) -> Option<CallerIdentity>,
    ) -> Result<(CallerIdentity, Arc<Space>), Fault> {
        match identity {
            Ok(identity) => {
                let space = self.enter(&identity, address.named(headers)?.as_deref())?;
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

    /// Who came for a page, and the space it is of.
    fn pass(
        &self,
        identity: Result<CallerIdentity, Fault>,
        pass: &SpecialRequest,
    ) -> Result<(CallerIdentity, Arc<Space>), Fault> {
        self.admit(identity, (&pass.headers, &pass.address), |space| pass.page.stranger(space))
    }

    /// The space that a page which needs no credentials is about. To ask about one by its name needs them: a stranger learns nothing of which
    /// spaces there are, but by those that let strangers in. Pages that are about no space look at no name.
    fn shown(&self, pass: &SpecialRequest) -> Result<Arc<Space>, Fault> {
        if !pass.page.is_about_a_space() || pass.address.named(&pass.headers)?.is_none() {
            return Ok(Arc::clone(self.server.primary()));
        }
        let identity = specials::known(self, &pass.headers);
        self.pass(identity, pass).map(|(_, space)| space)
    }

    /// Whether somebody who was let in would be let in now, as the same and to the same space. What lasts asks again and again: keys are
    /// revoked, tokens run out, spaces go or close their doors.
    pub(crate) async fn still_admits(
        &self,
        pass: &SpecialRequest,
        (known, there): (&CallerIdentity, &Arc<Space>),
    ) -> bool {
        let identity = self.identify(&pass.headers).await;
        let admitted = self.pass(identity, pass);
        admitted.is_ok_and(|(identity, space)| identity == *known && Arc::ptr_eq(&space, there))
    }

    async fn operate(
        self: &Arc<Self>,
        OperationRoute { entry, route, inputs }: &OperationRoute,
        address: RouteParameters,
        (request, identity): (HttpRequest, Result<CallerIdentity, Fault>),
        notes: &RequestNotes,
    ) -> Result<Response, Fault> {
        let headers = &request.headers;
        notes.set_operation(entry.name);
        address.space(self, headers).iter().for_each(|space| notes.set_space(space));
        let stranger = |space: &Space| CallerIdentity::anonymous(space.visibility(), entry, route.method);
        let (identity, space) = self.admit(identity, (headers, &address), stranger)?;
        if route.is_at_root && entry.is_admin {
            identity.check_server_admin()?;
        }
        identity.permissions.check_scope(entry.required_scope(), route.method.name())?;
        let client = Client { key: None, connection: request.connection };
        let caller = Caller { client, ..bind::from_headers(headers, route.is_read_only)? };
        let caller = identity.apply_to(caller);
        notes.set_actor(caller.actor());
        let cached = CacheValidators::of(headers)?;
        let texts =
            address.parameters.into_iter().chain(bind::pairs(&request.query)?).chain(bind::mark(route, headers));
        let content = bind::content(route, headers, request.body).await?;
        let arguments = bind::arguments(route, inputs, texts, content)?;
        arguments.as_object().into_iter().for_each(|arguments| notes.set_arguments(arguments));
        let kept_by = Arc::clone(&space);
        let (mut response, remarks) = if reply::is_plain(route) {
            let (text, remarks) = self.ask((entry, entry.call_json), space, caller, arguments).await?;
            (self.written(route, text).await?, remarks)
        } else {
            let (output, remarks) = self.ask((entry, entry.call), space, caller, arguments).await?;
            (reply::output(route, output, &cached)?, remarks)
        };
        reply::remark(&remarks, response.headers_mut());
        if request.method == Method::HEAD {
            Ok(response)
        } else {
            self.bounded((kept_by, route.is_read_only), response).await
        }
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
