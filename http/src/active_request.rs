//! One request as the edge sees it: let in, or not, and told of when it is over. Pages and the agent protocol are visited alike.

use std::net::IpAddr;

use http::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Method};
use svcfs_base::{Actor, Fault, Protocol};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::audit::{RequestHead, RequestNotes, TrackedRequest};
use warp::reply::Response;

use crate::app::{AppState, log};
use crate::bind::{bearer, header};
use crate::hosts::BrowserOrigin;
use crate::{mcp, reply, specials};

/// Carries the id under which a failure is logged.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a browser may do with an answer that says nothing else about it: nothing.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// A request in progress.
pub(crate) struct ActiveRequest {
    /// Under which it can be found in the log.
    pub id: String,
    /// Method and path.
    pub what: String,
    /// What becomes known of it.
    pub notes: RequestNotes,
    request: TrackedRequest,
    method: Method,
    path: String,
    /// The web page behind it.
    page: Option<BrowserOrigin>,
}

/// A fresh id, under which a failure can be found in the log.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

impl ActiveRequest {
    /// A request that has just come in.
    pub(crate) fn begin(app: &AppState, (method, path, query): (&Method, &str, &str), peer: Option<IpAddr>) -> Self {
        let id = new_id();
        let head = RequestHead {
            protocol: if path == mcp::PATH { Protocol::Mcp } else { Protocol::Http },
            method: method.as_str().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            peer,
            id: Some(id.clone()),
        };
        let request = TrackedRequest::start(&app.server, head);
        if specials::is_watched(path) {
            request.suppress_log();
        }
        Self {
            id,
            what: format!("{method} {}", path.escape_default()),
            notes: request.notes().clone(),
            request,
            method: method.clone(),
            path: path.to_owned(),
            page: None,
        }
    }

    /// Checks where a browser's request comes from, finds out who sent it, and counts it, before anything else looks at it. Who sent it
    /// is an error of its own: not every place asks for it.
    ///
    /// # Errors
    /// `Forbidden` for a host or an origin that is not ours, `RateLimited`.
    pub(crate) async fn admit(
        &mut self,
        app: &AppState,
        headers: &HeaderMap,
    ) -> Result<Result<CallerIdentity, Fault>, Fault> {
        app.hosts.check_host(headers)?;
        self.page = app.hosts.check_origin(headers, &self.method)?;
        if specials::is_watched(&self.path) {
            return Ok(Ok(CallerIdentity::UNRESTRICTED));
        }
        let identity = app.identify(headers).await;
        let of = |name| header(headers, name).ok().flatten();
        self.notes.set_claims(of("X-Space").as_deref(), of("X-Provenance").as_deref());
        // What the key says holds.
        of("X-Actor").iter().for_each(|name| self.notes.set_actor(Actor::new(name)));
        self.request.admit(identity.as_ref().ok(), bearer(headers).ok().flatten())?;
        Ok(identity)
    }

    /// The answer to a preflight request for a place with these methods.
    pub(crate) fn preflight(&self, app: &AppState, allow: &str) -> Response {
        let mut response = reply::empty(http::StatusCode::NO_CONTENT);
        app.hosts.describe(self.page.as_ref(), allow, response.headers_mut());
        response
    }

    /// The answer that tells a fault, which is logged.
    pub(crate) fn refuse(&self, fault: &Fault) -> Response {
        log(fault, &self.what, &self.id);
        reply::fault(fault, &self.id)
    }

    /// Adds what every answer carries, and tells of it in the log and, where there is one, in the audit log.
    pub(crate) fn end<B>(self, app: &AppState, response: &mut http::Response<B>) {
        let status = response.status().as_u16();
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert(REQUEST_ID, id);
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NOTHING));
        app.hosts.open(self.page.as_ref(), headers);
        self.request.finish(status);
    }
}
