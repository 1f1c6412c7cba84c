//! Which hosts and origins a browser may come from.
//!
//! One rule: a page of some other site must not reach a server that trusts whoever can reach it. Two ways in are closed: a
//! foreign site's script (`Origin`), and a foreign name that was made to resolve to this machine (`Host`, DNS rebinding).
//! Programs other than browsers send no `Origin` and are not concerned by the first.

use std::str::FromStr;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderValue, VARY,
};
use http::uri::Authority;
use http::{HeaderMap, Method};
use svcfs_base::{Fault, Kind};
use svcfs_config::{AllowedOrigins, CorsSettings, ListenAddress, ServerSettings};

/// Headers a script of an allowed origin may send and read (gaps.md 4.1, CORS).
const MAY_SEND: &str = "Content-Type, Authorization, If-Match, If-None-Match, X-Actor, X-Provenance, X-Svc-Space, X-Space, \
    If-Modified-Since, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name";
const MAY_READ: &str = "ETag, Last-Modified, X-Permalink, X-File-Type, X-Total-Count, X-Svc-Note, X-Request-Id, Retry-After, Mcp-Session-Id";

const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names this server answers to.
#[derive(Debug)]
pub(crate) struct AllowedHosts {
    /// Names beside the local ones, in lower case.
    names: Vec<String>,
    /// Bound to every address of the machine: there is no telling which names lead here.
    any: bool,
    /// What pages of other origins may do.
    others: CorsSettings,
}

/// A web page that may ask.
#[derive(Debug)]
pub(crate) struct BrowserOrigin {
    /// Its origin, as the browser wrote it.
    origin: HeaderValue,
    /// Whether it is allowed by `server.cors` only.
    is_other: bool,
}

impl AllowedHosts {
    /// The names that follow from where the server listens and how it is known outside.
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        let mut names = Vec::new();
        let mut any = false;
        match &settings.host {
            ListenAddress::Address(address) if address.is_unspecified() => any = true,
            ListenAddress::Address(std::net::IpAddr::V6(address)) => names.push(format!("[{address}]")),
            ListenAddress::Address(address @ std::net::IpAddr::V4(_)) => names.push(address.to_string()),
            ListenAddress::Name(name) => names.push(name.to_ascii_lowercase()),
        }
        names.extend(settings.public_url.iter().map(|url| url.host().to_ascii_lowercase()));
        Self { names, any, others: settings.cors.clone() }
    }

    /// Checks `Host`. A request without one (HTTP/1.0) is no browser's and passes.
    ///
    /// # Errors
    /// `Forbidden` when the name is not ours.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let Some(host) = headers.get(http::header::HOST) else {
            return Ok(());
        };
        let authority = host.to_str().unwrap_or_default();
        if self.any || host_of(authority).is_some_and(|host| self.knows(&host)) {
            return Ok(());
        }
        let text = authority.escape_default();
        Err(Fault::new(
            Kind::Forbidden,
            format!("host `{text}` is not this server's; if it should be, set `server.public_url`"),
        ))
    }

    /// The web page that a request comes from, when it comes from one and that is allowed: local ones, our own public address, whatever was
    /// served by the same host and port, and those of `server.cors` with the methods named there.
    ///
    /// # Errors
    /// `Forbidden` for every other origin (gaps.md 4.1, CORS).
    pub(crate) fn check_origin(&self, headers: &HeaderMap, method: &Method) -> Result<Option<BrowserOrigin>, Fault> {
        let Some(origin) = headers.get(http::header::ORIGIN) else {
            return Ok(None);
        };
        let text = origin.to_str().unwrap_or_default();
        let authority = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let same = || {
            let host = headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
            self.any && host.is_some() && authority == host
        };
        let page = |is_other| Ok(Some(BrowserOrigin { origin: origin.clone(), is_other }));
        if authority.and_then(host_of).is_some_and(|host| self.knows(&host)) || same() {
            return page(false);
        }
        let is_listed = match &self.others.origins {
            // A page without an origin of its own (`null`) is nobody's.
            AllowedOrigins::All => text.contains("://"),
            AllowedOrigins::List(origins) => origins.iter().any(|known| known.eq_ignore_ascii_case(text)),
        };
        if !is_listed {
            let text = text.escape_default();
            return Err(Fault::new(Kind::Forbidden, format!("origin `{text}` is not allowed to use this server")));
        }
        // A browser asks before it sends anything but the simplest; others are told here.
        if method != Method::OPTIONS && !self.lets_use(method.as_str()) {
            let told = format!("pages of other origins may not use `{method}` here (`server.cors.allowed_methods`)");
            return Err(Fault::new(Kind::Forbidden, told));
        }
        page(true)
    }

    fn lets_use(&self, method: &str) -> bool {
        self.others.methods.iter().any(|known| known.name() == method)
    }

    /// Describes what `page` may do, in the answer to its preflight request for a place where `allow` lists the methods.
    pub(crate) fn describe(&self, page: Option<&BrowserOrigin>, allow: &str, headers: &mut HeaderMap) {
        let methods = match page {
            Some(BrowserOrigin { is_other: true, .. }) => {
                let common: Vec<&str> = allow.split(", ").filter(|method| self.lets_use(method)).collect();
                common.join(", ")
            }
            Some(_) | None => allow.to_owned(),
        };
        for (name, text) in [(ALLOW, allow), (ACCESS_CONTROL_ALLOW_METHODS, methods.as_str())] {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        }
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(MAY_SEND));
        headers.insert(ACCESS_CONTROL_MAX_AGE, self.others.max_age.into());
    }

    /// Tells a browser that `page` may read this answer.
    pub(crate) fn open(&self, page: Option<&BrowserOrigin>, headers: &mut HeaderMap) {
        headers.append(VARY, HeaderValue::from_static("Origin"));
        let Some(BrowserOrigin { origin, .. }) = page else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(MAY_READ));
        if self.others.allow_credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }

    fn knows(&self, host: &str) -> bool {
        LOCAL.contains(&host) || self.names.iter().any(|name| name == host)
    }
}

/// The host of `host:port` in lower case, IPv6 in brackets.
fn host_of(authority: &str) -> Option<String> {
    let authority = Authority::from_str(authority).ok()?;
    Some(authority.host().to_ascii_lowercase())
}
