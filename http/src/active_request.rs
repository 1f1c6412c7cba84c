//! A request in progress: admission, and its records in the log and the audit log. Used for REST
//! and for MCP.

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

/// Carries the id under which failures are logged.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The default policy: a browser loads and runs nothing of a response.
const DENY_ALL_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// A request in progress.
pub(crate) struct ActiveRequest {
    /// The id in log lines.
    pub id: String,
    /// Method and path.
    pub what: String,
    /// Filled in while the request is handled, for the audit log.
    pub notes: RequestNotes,
    request: TrackedRequest,
    method: Method,
    path: String,
    /// The web page that sent the request.
    origin_page: Option<BrowserOrigin>,
}

/// A new request id.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

impl ActiveRequest {
    pub(crate) fn start(app: &AppState, (method, path, query): (&Method, &str, &str), peer: Option<IpAddr>) -> Self {
        let id = new_id();
        // Neither log gets the secrets of shares.
        let redacted = specials::without_secrets(path);
        let (path, query) = redacted.as_deref().map_or((path, query), |path| (path, ""));
        let head = RequestHead {
            protocol: if mcp::is_endpoint(path) { Protocol::Mcp } else { Protocol::Http },
            method: method.as_str().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            peer,
            id: Some(id.clone()),
        };
        let request = TrackedRequest::start(&app.server, head);
        if specials::is_monitoring(path) {
            request.suppress_log();
        }
        Self {
            id,
            what: format!("{method} {}", path.escape_default()),
            notes: request.notes().clone(),
            request,
            method: method.clone(),
            path: path.to_owned(),
            origin_page: None,
        }
    }

    /// Checks host and origin, identifies the caller, and counts the request for rate limits,
    /// before it is handled. The identity is a result of its own, because not every endpoint needs
    /// one. Errors: `Forbidden` for a foreign host or origin, `RateLimited`.
    pub(crate) async fn admit(
        &mut self,
        app: &AppState,
        headers: &HeaderMap,
    ) -> Result<Result<CallerIdentity, Fault>, Fault> {
        app.hosts.check_host(headers)?;
        self.origin_page = app.hosts.check_origin(headers, &self.method)?;
        if specials::is_monitoring(&self.path) {
            return Ok(Ok(CallerIdentity::UNRESTRICTED));
        }
        let identity = app.identify(headers).await;
        let text = |name| header(headers, name).ok().flatten();
        self.notes.set_claims(text("X-Space").as_deref(), text("X-Provenance").as_deref());
        // The actor of the key, if it has one, takes precedence.
        text("X-Actor").iter().for_each(|name| self.notes.set_actor(Actor::new(name)));
        self.request.admit(identity.as_ref().ok(), bearer(headers).ok().flatten())?;
        Ok(identity)
    }

    /// The response to a preflight request for an endpoint with these methods.
    pub(crate) fn preflight(&self, app: &AppState, allow: &str) -> Response {
        let mut response = reply::empty(http::StatusCode::NO_CONTENT);
        app.hosts.describe_preflight(self.origin_page.as_ref(), allow, response.headers_mut());
        response
    }

    /// Logs a fault and returns its response.
    pub(crate) fn fault_response(&self, fault: &Fault) -> Response {
        log(fault, &self.what, &self.id);
        reply::fault(fault, &self.id)
    }

    /// Adds the headers that every response has, and records the request in the log and the audit
    /// log.
    pub(crate) fn finish<B>(self, app: &AppState, response: &mut http::Response<B>) {
        let status = response.status().as_u16();
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert(REQUEST_ID, id);
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(DENY_ALL_POLICY));
        app.hosts.allow_reading(self.origin_page.as_ref(), headers);
        self.request.finish(status);
    }
}
