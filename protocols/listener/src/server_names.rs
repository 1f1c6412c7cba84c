//! Under which names a server answers.
//!
//! One rule: a page of some other site must not reach a server that trusts whoever can reach it. A browser is sent here by a foreign name that was
//! made to resolve to this machine (DNS rebinding): `Host` tells. Or by a script of a foreign site: `Origin` tells; no program that speaks these
//! protocols sends one.

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
    /// In lower case; beside them addresses, `localhost` and what lies below it.
    names: Vec<String>,
    /// Bound to every address of the machine: there is no telling which names lead here.
    any: bool,
}

impl ServerNames {
    /// The names that follow from where the server listens and how it is known outside.
    pub fn from_settings(settings: &ServerSettings) -> Self {
        let mut names = Vec::new();
        let mut any = false;
        match &settings.host {
            ListenAddress::Address(address) => any = address.is_unspecified(),
            ListenAddress::Name(name) => names.push(name.to_ascii_lowercase()),
        }
        names.extend(settings.public_url.iter().map(|url| url.host().to_ascii_lowercase()));
        Self { names, any }
    }

    /// The same, under one more name.
    #[must_use]
    pub fn with_name(mut self, name: Option<&str>) -> Self {
        self.names.extend(name.map(str::to_ascii_lowercase));
        self
    }

    /// Checks where a request was sent, and from where.
    ///
    /// # Errors
    /// `Forbidden` for a name that is not ours, and for a script of a browser.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if let Some(origin) = text(ORIGIN) {
            let told =
                format!("this server is not for scripts of browsers, and `{}` sent one", origin.escape_default());
            return Err(Fault::new(Kind::Forbidden, told));
        }
        match text(HOST) {
            Some(host) if !self.any && !self.knows(host) => {
                let host = host.escape_default();
                let told = format!("host `{host}` is not this server's; if it should be, set `server.public_url`");
                Err(Fault::new(Kind::Forbidden, told))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn knows(&self, authority: &str) -> bool {
        let Ok(authority) = Authority::from_str(authority) else { return false };
        let host = authority.host().to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_below = |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        bare.parse::<IpAddr>().is_ok() || is_below("localhost") || self.names.iter().any(|name| is_below(name))
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
    fn a_name_of_somebody_else_does_not_lead_here() {
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
