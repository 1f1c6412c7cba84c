//! The host names under which a server answers.
//!
//! Invariant: a page of another site cannot reach a server that trusts every client that connects.
//! DNS rebinding, where a foreign name resolves to this machine, shows in `Host`; a script of a
//! foreign site shows in `Origin`, which no client program of these protocols sends.

use std::net::IpAddr;
use std::str::FromStr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName};
use svcfs_base::{Fault, Kind};
use svcfs_config::{ListenAddress, ServerSettings};

/// The names of a server.
#[derive(Debug)]
pub struct ServerNames {
    /// In lower case. IP addresses and `localhost` with its subdomains are always accepted.
    names: Vec<String>,
    /// Bound to every address of the machine, so any name may lead here.
    accepts_any: bool,
}

impl ServerNames {
    /// The names that follow from the listen address and the public URL.
    pub fn from_settings(settings: &ServerSettings) -> Self {
        let mut names = Vec::new();
        let mut accepts_any = false;
        match &settings.host {
            ListenAddress::Address(address) => accepts_any = address.is_unspecified(),
            ListenAddress::Name(name) => names.push(name.to_ascii_lowercase()),
        }
        names.extend(settings.public_url.iter().map(|url| url.host().to_ascii_lowercase()));
        Self { names, accepts_any }
    }

    /// Adds one more name.
    #[must_use]
    pub fn with_name(mut self, name: Option<&str>) -> Self {
        self.names.extend(name.map(str::to_ascii_lowercase));
        self
    }

    /// Checks `Host` and `Origin` of a request.
    ///
    /// # Errors
    /// `Forbidden` for a foreign host name, and for every request with an `Origin`.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if let Some(origin) = text(ORIGIN) {
            let message = format!(
                "scripts in browsers may not use this server; the request has `Origin: {}`",
                origin.escape_default()
            );
            return Err(Fault::new(Kind::Forbidden, message));
        }
        match text(HOST) {
            Some(host) if !self.accepts_any && !self.is_known(host) => {
                let host = host.escape_default();
                let message =
                    format!("`{host}` is not a name of this server; if it should be, set `server.public_url`");
                Err(Fault::new(Kind::Forbidden, message))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn is_known(&self, authority: &str) -> bool {
        let Ok(authority) = Authority::from_str(authority) else { return false };
        let host = authority.host().to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_same_or_subdomain =
            |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        bare.parse::<IpAddr>().is_ok()
            || is_same_or_subdomain("localhost")
            || self.names.iter().any(|name| is_same_or_subdomain(name))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use svcfs_config::{CliOverrides, Config, PublicUrl, Settings};

    use super::*;

    fn names(host: &str) -> ServerNames {
        let public_url = Some(PublicUrl::parse("https://notes.example.org").unwrap());
        let plain = Settings::resolve(Config::default(), CliOverrides::default()).unwrap().server;
        ServerNames::from_settings(&ServerSettings { host: ListenAddress::parse(host).unwrap(), public_url, ..plain })
    }

    #[test]
    fn a_foreign_host_name_is_not_accepted() {
        let asked = |names: &ServerNames, host: &'static str| {
            names.check(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))])).is_ok()
        };
        let local = names("127.0.0.1");
        for host in ["127.0.0.1:3335", "[::1]:3335", "localhost", "team.localhost:1", "NOTES.example.org"] {
            assert!(asked(&local, host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "evilnotes.example.org", "127.0.0.1.evil.example", "", "a b"]
        {
            assert!(!asked(&local, host), "{host:?}");
        }
        assert!(asked(&names("0.0.0.0"), "any.example"));
        assert!(local.check(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn a_script_of_a_browser_is_refused() {
        let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("http://127.0.0.1:3335"))]);
        assert_eq!(names("0.0.0.0").check(&headers).unwrap_err().kind(), Kind::Forbidden);
    }
}
