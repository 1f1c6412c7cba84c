//! One request as the edge sees it: let in, or not, and told of when it is over. Pages and the agent protocol are visited alike.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use svcfs_base::Fault;
use svcfs_knowledge::access::Identity;
use warp::reply::Response;

use crate::app::{App, log};
use crate::hosts::Page;
use crate::reply;
use crate::specials;

/// Carries the id under which a failure is logged.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request in progress.
pub(crate) struct Visit {
    /// Under which it can be found in the log.
    pub id: String,
    /// Method and path.
    pub what: String,
    method: Method,
    path: String,
    /// Where it comes from; none where it came over no connection.
    peer: Option<IpAddr>,
    /// The web page behind it.
    page: Option<Page>,
    started: Instant,
}

/// A fresh id, under which a failure can be found in the log.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

impl Visit {
    /// A request that has just come in.
    pub(crate) fn begin(method: &Method, path: &str, peer: Option<IpAddr>) -> Self {
        Self {
            id: new_id(),
            what: format!("{method} {}", path.escape_default()),
            method: method.clone(),
            path: path.to_owned(),
            peer,
            page: None,
            started: Instant::now(),
        }
    }

    /// Checks where a browser's request comes from, finds out who sent it, and counts it, before anything else looks at it. Who sent it
    /// is an error of its own: not every place asks for it.
    ///
    /// # Errors
    /// `Forbidden` for a host or an origin that is not ours, `RateLimited`.
    pub(crate) async fn admit(&mut self, app: &App, headers: &HeaderMap) -> Result<Result<Identity, Fault>, Fault> {
        app.hosts.check_host(headers)?;
        self.page = app.hosts.check_origin(headers, &self.method)?;
        if specials::is_watched(&self.path) {
            return Ok(Ok(Identity::ANYBODY));
        }
        let identity = app.identify(headers).await;
        if let Some(limiter) = &app.limiter {
            let token = identity.as_ref().ok().and_then(|identity| identity.token.as_ref());
            limiter.admit(token, self.peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))?;
        }
        Ok(identity)
    }

    /// The answer to a preflight request for a place with these methods.
    pub(crate) fn preflight(&self, app: &App, allow: &str) -> Response {
        let mut response = reply::empty(http::StatusCode::NO_CONTENT);
        app.hosts.describe(self.page.as_ref(), allow, response.headers_mut());
        response
    }

    /// The answer that tells a fault, which is logged.
    pub(crate) fn refuse(&self, fault: &Fault) -> Response {
        log(fault, &self.what, &self.id);
        reply::fault(fault, &self.id)
    }

    /// Adds what every answer carries, and tells of it in the log.
    pub(crate) fn end<B>(self, app: &App, response: &mut http::Response<B>) {
        let status = response.status().as_u16();
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert(REQUEST_ID, id);
        }
        app.hosts.open(self.page.as_ref(), headers);
        tracing::debug!(
            request.id = self.id,
            status,
            took_ms = self.started.elapsed().as_millis() as u64,
            "{}",
            self.what
        );
    }
}
