//! Which hosts and origins a browser may come from.
//!
//! One rule: a page of some other site must not reach a server that trusts whoever can reach it. Two ways in are closed: a
//! foreign site's script (`Origin`), and a foreign name that was made to resolve to this machine (`Host`, DNS rebinding).
//! Programs other than browsers send no `Origin` and are not concerned by the first.

use std::str::FromStr;

use http::HeaderMap;
use http::uri::Authority;
use svcfs_base::{Fault, Kind};
use svcfs_config::{Host, ServerSettings};

const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names this server answers to.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Names beside the local ones, in lower case.
    names: Vec<String>,
    /// Bound to every address of the machine: there is no telling which names lead here.
    any: bool,
}

impl Hosts {
    /// The names that follow from where the server listens and how it is known outside.
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        let mut names = Vec::new();
        let mut any = false;
        match &settings.host {
            Host::Address(address) if address.is_unspecified() => any = true,
            Host::Address(std::net::IpAddr::V6(address)) => names.push(format!("[{address}]")),
            Host::Address(address @ std::net::IpAddr::V4(_)) => names.push(address.to_string()),
            Host::Name(name) => names.push(name.to_ascii_lowercase()),
        }
        names.extend(settings.public_url.iter().map(|url| url.host().to_ascii_lowercase()));
        Self { names, any }
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

    /// The request's `Origin`, when it has one and it is allowed: local ones, our own public address, and whatever was served
    /// by the same host and port.
    ///
    /// # Errors
    /// `Forbidden` for every other origin (gaps.md 4.1, CORS).
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<Option<String>, Fault> {
        let Some(origin) = headers.get(http::header::ORIGIN) else {
            return Ok(None);
        };
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let same = || {
            let host = headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
            self.any && host.is_some() && authority == host
        };
        if authority.and_then(host_of).is_some_and(|host| self.knows(&host)) || same() {
            return Ok(Some(origin.to_owned()));
        }
        let text = origin.escape_default();
        Err(Fault::new(Kind::Forbidden, format!("origin `{text}` is not allowed to use this server")))
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
