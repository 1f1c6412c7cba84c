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

/// Address and limits of the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerConfig {
    /// Address or host name to listen on. With another address than the loopback, other machines
    /// can connect.
    pub host: String,
    /// TCP port; 0 lets the system choose a free one.
    pub port: u16,
    /// URL under which clients reach the server, `http://` or `https://`, for links in responses. A
    /// trailing `/` is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub public_url: Option<String>,
    /// Directories (absolute paths) in which `POST /api/spaces` may create spaces. If empty: the
    /// directory next to the root, with its name and `.spaces`.
    pub space_parents: Vec<String>,
    /// Older name of `server.cors.allowed_origins`.
    pub cors_origins: Vec<String>,
    pub cors: CorsConfig,
    pub rate_limit: RateLimit,
}

/// Request rate limit per key, or per network address for requests without a key. Health, readiness
/// and metrics do not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RateLimit {
    /// Average number of requests per minute; 0 means no limit.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub requests_per_minute: u32,
    /// Maximum number of requests in a burst.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst_size: NonZeroU32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { requests_per_minute: 0, burst_size: NonZeroU32::MIN.saturating_add(49) }
    }
}

/// Validated request rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// Average number of requests per minute.
    pub requests_per_minute: NonZeroU32,
    /// Maximum number of requests in a burst.
    pub burst_size: NonZeroU32,
}

impl RateLimit {
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

/// Validated address and limits of the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Address to listen on.
    pub host: ListenAddress,
    /// TCP port; 0 lets the system choose a free one.
    pub port: u16,
    /// URL under which clients reach the server; none when not configured.
    pub public_url: Option<PublicUrl>,
    /// Directories for new spaces; empty for the default.
    pub space_parents: Vec<PathBuf>,
    /// Cross-origin requests of web pages.
    pub cors: CorsSettings,
    /// Request rate limit; none when there is no limit.
    pub rate_limit: Option<RateLimitSettings>,
}

impl ServerSettings {
    /// `host:port` as in a URL, IPv6 addresses in brackets.
    #[must_use]
    pub fn authority(&self) -> String {
        match &self.host {
            ListenAddress::Address(IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
            host @ (ListenAddress::Address(IpAddr::V4(_)) | ListenAddress::Name(_)) => format!("{host}:{}", self.port),
        }
    }
}

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// An IP address.
    Address(IpAddr),
    /// A host name, resolved when the server binds.
    Name(String),
}

impl ListenAddress {
    /// Parses an address (IPv6 with or without brackets) or a host name.
    ///
    /// # Errors
    /// The error in `text`; continues a sentence that begins with the key.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse() {
            return Ok(Self::Address(address));
        }
        if text.is_empty() {
            return Err("is empty; give an address such as `127.0.0.1`");
        }
        // A name that ends in a digit is a mistyped address; resolvers interpret it differently.
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
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=63).contains(&label.len()) && label.chars().all(is_valid) && !label.starts_with('-') && !label.ends_with('-')
}

/// The URL under which clients reach the server, without a trailing `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    text: String,
    host: String,
}

impl PublicUrl {
    /// Parses an `http://` or `https://` URL; removes trailing `/`.
    ///
    /// # Errors
    /// The error in `text`; continues a sentence that begins with the key.
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

    /// The URL; a path that begins with `/` can be appended.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its path, without a trailing `/`; empty if it has none.
    #[must_use]
    pub fn path(&self) -> &str {
        let after_scheme = self.text.split_once("://").map_or("", |(_, after_scheme)| after_scheme);
        after_scheme.find('/').map_or("", |slash| &after_scheme[slash..])
    }

    /// Its host without port, IPv6 in brackets, as browsers send it in `Host`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }
}
