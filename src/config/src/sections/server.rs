//! `[server]`

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CorsSettings;
use crate::sections::cors::CorsConfig;

/// Where the HTTP server listens and how it is known outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerConfig {
    /// Address or host name to listen on. Beyond the loopback address everybody who can reach it is a caller.
    pub host: String,
    /// TCP port to listen on; 0 lets the system pick a free one.
    pub port: u16,
    /// `http://` or `https://` address under which clients reach this server, for links in answers; a trailing `/` does
    /// not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub public_url: Option<String>,
    /// Directories (absolute paths) below which `POST /api/spaces` may make new spaces; the directory beside the root that has the root's
    /// name and `.spaces` when there is none.
    pub space_parents: Vec<String>,
    /// An older name of `server.cors.allowed_origins`.
    pub cors_origins: Vec<String>,
    pub cors: CorsConfig,
    pub rate_limit: RateLimit,
}

/// How often one caller may ask: whoever has credentials by these, everybody else by address. Health, readiness and metrics do not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RateLimit {
    /// Requests in a minute, in the long run; 0 for as many as they like.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub requests_per_minute: u32,
    /// Requests that may come at once after a pause.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst_size: NonZeroU32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { requests_per_minute: 0, burst_size: NonZeroU32::MIN.saturating_add(49) }
    }
}

/// How often one caller may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// Requests in a minute, in the long run.
    pub requests_per_minute: NonZeroU32,
    /// Requests that may come at once after a pause.
    pub burst_size: NonZeroU32,
}

impl RateLimit {
    /// What holds; none when there is no limit.
    pub(crate) fn resolve(&self) -> Option<RateLimitSettings> {
        let requests_per_minute = NonZeroU32::new(self.requests_per_minute)?;
        Some(RateLimitSettings { requests_per_minute, burst_size: self.burst_size })
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 3333,
            public_url: None,
            space_parents: Vec::new(),
            cors_origins: Vec::new(),
            cors: CorsConfig::default(),
            rate_limit: RateLimit::default(),
        }
    }
}

/// Where the HTTP server listens and how it is known outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// What to listen on.
    pub host: ListenAddress,
    /// TCP port; 0 lets the system pick a free one.
    pub port: u16,
    /// How clients reach this server; `None` when it was not said.
    pub public_url: Option<PublicUrl>,
    /// Where new spaces may be made; empty for the default place.
    pub space_parents: Vec<PathBuf>,
    /// What web pages of other origins may do.
    pub cors: CorsSettings,
    /// How often one caller may ask; none for as often as they like.
    pub rate_limit: Option<RateLimitSettings>,
}

impl ServerSettings {
    /// `host:port` as it stands in a URL, IPv6 addresses in brackets.
    #[must_use]
    pub fn authority(&self) -> String {
        match &self.host {
            ListenAddress::Address(IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
            host @ (ListenAddress::Address(IpAddr::V4(_)) | ListenAddress::Name(_)) => format!("{host}:{}", self.port),
        }
    }
}

/// A place to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// An IP address.
    Address(IpAddr),
    /// A host name, looked up when the server binds.
    Name(String),
}

impl ListenAddress {
    /// Understand an address (IPv6 with or without brackets) or a host name.
    ///
    /// # Errors
    /// What is wrong with `text`, to be read after the key it came from.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse() {
            return Ok(Self::Address(address));
        }
        if text.is_empty() {
            return Err("is empty; give an address such as `127.0.0.1`");
        }
        // A name of digits and dots is an address with a slip in it, which a resolver would read in its own way.
        let is_name =
            text.len() <= 253 && text.split('.').all(is_label) && !text.ends_with(|c: char| c.is_ascii_digit());
        if is_name { Ok(Self::Name(text.to_owned())) } else { Err("is neither an IP address nor a host name") }
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.to_canonical().is_loopback(),
            Self::Name(name) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(formatter),
            Self::Name(name) => formatter.write_str(name),
        }
    }
}

/// One dot-separated part of a host name.
fn is_label(label: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=63).contains(&label.len()) && label.chars().all(sound) && !label.starts_with('-') && !label.ends_with('-')
}

/// The address under which clients reach the server, without a trailing `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    text: String,
    host: String,
}

impl PublicUrl {
    /// Understand an `http://` or `https://` address; trailing `/` are dropped.
    ///
    /// # Errors
    /// What is wrong with `text`, to be read after the key it came from.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim_end_matches('/');
        let uri: Uri = text.parse().map_err(|_| "is not a URL; write it like `https://notes.example.org`")?;
        match uri.scheme_str() {
            Some("http" | "https") => {}
            _ => return Err("must begin with `http://` or `https://`"),
        }
        if uri.query().is_some() || text.contains('#') {
            return Err("must not have a `?` or `#` part; paths are appended to it");
        }
        match uri.authority() {
            Some(authority) if authority.as_str().contains('@') => Err("must not contain a user name or password"),
            Some(authority) if !authority.host().is_empty() => {
                Ok(Self { text: text.to_owned(), host: authority.host().to_owned() })
            }
            Some(_) | None => Err("has no host name"),
        }
    }

    /// The address, ready for a path that begins with `/` to be appended.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its path, without a `/` at the end; empty for that of a whole host.
    #[must_use]
    pub fn path(&self) -> &str {
        let behind = self.text.split_once("://").map_or("", |(_, behind)| behind);
        behind.find('/').map_or("", |slash| &behind[slash..])
    }

    /// Its host without port, IPv6 in brackets; what a browser sends as `Host`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }
}
