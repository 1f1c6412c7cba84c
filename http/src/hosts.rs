//! The hosts and origins that browsers may use.
//!
//! Invariant: a page of a foreign site must not reach a server that has no authentication. Two ways
//! are closed: scripts of a foreign site (`Origin`), and a foreign name that resolves to this
//! machine (`Host`, DNS rebinding). Clients other than browsers send no `Origin`.

use std::str::FromStr;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderValue, VARY,
};
use http::uri::Authority;
use http::{HeaderMap, Method};
use svcfs_base::{Fault, Kind};
use svcfs_config::{AllowedOrigins, CorsSettings, ListenAddress, ServerSettings};

/// Headers that a script of an allowed origin may send and read.
const ALLOWED_HEADERS: &str = "Content-Type, Authorization, If-Match, If-None-Match, X-Actor, X-Provenance, X-Claim-Fence, Idempotency-Key, X-Svc-Space, X-Space, \
    If-Modified-Since, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name";
const EXPOSED_HEADERS: &str = "ETag, Last-Modified, X-Permalink, X-File-Type, X-Total-Count, X-Svc-Note, X-Svc-Draft, X-As-Of, X-Request-Id, Idempotency-Replayed, Retry-After, Mcp-Session-Id";

const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The allowed hosts and origins.
#[derive(Debug)]
pub(crate) struct AllowedHosts {
    /// Names besides the local ones, in lower case.
    names: Vec<String>,
    /// Bound to all addresses: the server cannot know its names.
    is_unspecified: bool,
    /// What pages of other origins may do.
    cors: CorsSettings,
}

/// A web page with an allowed origin.
#[derive(Debug)]
pub(crate) struct BrowserOrigin {
    /// The `Origin` header.
    origin: HeaderValue,
    /// Whether only `server.cors` allows it.
    is_cross_origin: bool,
}

impl AllowedHosts {
    /// The names that follow from the listen address and the public URL.
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        let mut names = Vec::new();
        let mut is_unspecified = false;
        match &settings.host {
            ListenAddress::Address(address) if address.is_unspecified() => is_unspecified = true,
            ListenAddress::Address(std::net::IpAddr::V6(address)) => names.push(format!("[{address}]")),
            ListenAddress::Address(address @ std::net::IpAddr::V4(_)) => names.push(address.to_string()),
            ListenAddress::Name(name) => names.push(name.to_ascii_lowercase()),
        }
        names.extend(settings.public_url.iter().map(|url| url.host().to_ascii_lowercase()));
        Self { names, is_unspecified, cors: settings.cors.clone() }
    }

    /// Checks `Host`. A request without one (HTTP/1.0) is not from a browser and passes. Errors:
    /// `Forbidden` for the name of another server.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let Some(host) = headers.get(http::header::HOST) else {
            return Ok(());
        };
        let authority = host.to_str().unwrap_or_default();
        if self.is_unspecified || host_of(authority).is_some_and(|host| self.is_known(&host)) {
            return Ok(());
        }
        let text = authority.escape_default();
        Err(Fault::new(
            Kind::Forbidden,
            format!("host `{text}` is not this server's; if it should be, set `server.public_url`"),
        ))
    }

    /// Checks `Origin`. Allowed are local pages, the public URL, pages served from the same host
    /// and port, and the origins of `server.cors` with the methods listed there. `None` for a
    /// request that no page sent. Errors: `Forbidden` for every other origin.
    pub(crate) fn check_origin(&self, headers: &HeaderMap, method: &Method) -> Result<Option<BrowserOrigin>, Fault> {
        let Some(origin) = headers.get(http::header::ORIGIN) else {
            return Ok(None);
        };
        let text = origin.to_str().unwrap_or_default();
        let authority = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let is_same_origin = || {
            let host = headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
            self.is_unspecified && host.is_some() && authority == host
        };
        let origin_page = |is_cross_origin| Ok(Some(BrowserOrigin { origin: origin.clone(), is_cross_origin }));
        if authority.and_then(host_of).is_some_and(|host| self.is_known(&host)) || is_same_origin() {
            return origin_page(false);
        }
        let is_listed = match &self.cors.origins {
            // A page without an origin (`null`) could be from any site.
            AllowedOrigins::All => text.contains("://"),
            AllowedOrigins::List(origins) => origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)),
        };
        if !is_listed {
            let text = text.escape_default();
            return Err(Fault::new(Kind::Forbidden, format!("origin `{text}` is not allowed to use this server")));
        }
        // Simple requests have no preflight, so the method is checked here.
        if method != Method::OPTIONS && !self.allows_method(method.as_str()) {
            let message = format!("pages of other origins may not use `{method}` here (`server.cors.allowed_methods`)");
            return Err(Fault::new(Kind::Forbidden, message));
        }
        origin_page(true)
    }

    fn allows_method(&self, method: &str) -> bool {
        self.cors.methods.iter().any(|allowed| allowed.name() == method)
    }

    /// Adds the headers of a preflight response; `allow` lists the methods of the endpoint.
    pub(crate) fn describe_preflight(&self, origin_page: Option<&BrowserOrigin>, allow: &str, headers: &mut HeaderMap) {
        let methods = match origin_page {
            Some(BrowserOrigin { is_cross_origin: true, .. }) => {
                let common: Vec<&str> = allow.split(", ").filter(|method| self.allows_method(method)).collect();
                common.join(", ")
            }
            Some(_) | None => allow.to_owned(),
        };
        for (name, text) in [(ALLOW, allow), (ACCESS_CONTROL_ALLOW_METHODS, methods.as_str())] {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        }
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS));
        headers.insert(ACCESS_CONTROL_MAX_AGE, self.cors.max_age.into());
    }

    /// Adds the headers that let the page read a response.
    pub(crate) fn allow_reading(&self, origin_page: Option<&BrowserOrigin>, headers: &mut HeaderMap) {
        headers.append(VARY, HeaderValue::from_static("Origin"));
        let Some(BrowserOrigin { origin, .. }) = origin_page else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
        if self.cors.allow_credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }

    fn is_known(&self, host: &str) -> bool {
        LOCAL_NAMES.contains(&host) || self.names.iter().any(|name| name == host)
    }
}

/// The host of `host:port` in lower case, IPv6 in brackets.
fn host_of(authority: &str) -> Option<String> {
    let authority = Authority::from_str(authority).ok()?;
    Some(authority.host().to_ascii_lowercase())
}
