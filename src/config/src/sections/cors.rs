//! `[server.cors]`, and its older form `server.cors_origins`.

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AuthSettings;

/// Cross-origin requests of web pages. Pages from this machine and from `server.public_url` are
/// always allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CorsConfig {
    /// Allowed origins, such as `https://wiki.example.org`, or `*` for all. Requires
    /// authentication: otherwise any web page that a user opens could read and change everything.
    pub allowed_origins: Vec<String>,
    /// Allowed methods.
    pub allowed_methods: Vec<CorsMethod>,
    /// Allow browsers to send stored credentials, such as the password of a proxy in front of the
    /// server. Not with `*`.
    pub allow_credentials: bool,
    /// Seconds for which browsers cache the answer to a preflight request.
    #[schemars(range(min = 0, max = 86_400))]
    pub max_age: u32,
}

/// A method for cross-origin requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the methods of HTTP")]
pub enum CorsMethod {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl CorsMethod {
    const ALL: [Self; 7] = [Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete, Self::Options];

    /// Name in HTTP.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}

impl Default for CorsConfig {
    fn default() -> Self {
        Self {
            allowed_origins: Vec::new(),
            allowed_methods: CorsMethod::ALL.to_vec(),
            allow_credentials: false,
            max_age: 3600,
        }
    }
}

/// Validated settings for cross-origin requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsSettings {
    /// Allowed origins.
    pub origins: AllowedOrigins,
    /// Allowed methods.
    pub methods: Vec<CorsMethod>,
    /// Whether browsers may send stored credentials.
    pub allow_credentials: bool,
    /// Seconds for which browsers cache the answer to a preflight request.
    pub max_age: u32,
}

/// Allowed origins, besides this machine and the public URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// These origins, as browsers write them; may be empty.
    List(Vec<String>),
    /// All origins.
    All,
}

impl Default for CorsSettings {
    fn default() -> Self {
        let CorsConfig { allowed_origins: _, allowed_methods: methods, allow_credentials, max_age } =
            CorsConfig::default();
        Self { origins: AllowedOrigins::List(Vec::new()), methods, allow_credentials, max_age }
    }
}

const ORIGINS_KEY: &str = "server.cors.allowed_origins";
const LEGACY_ORIGINS_KEY: &str = "server.cors_origins";

impl CorsConfig {
    /// Validates the settings. `legacy_origins` is `server.cors_origins`: empty, or equal to
    /// `allowed_origins`.
    pub(crate) fn resolve(
        self,
        legacy_origins: Vec<String>,
        auth: Option<&AuthSettings>,
        report: &mut dyn FnMut(&str, &str),
    ) -> CorsSettings {
        let Self { allowed_origins, allowed_methods, allow_credentials, max_age } = self;
        let (key, texts) = if allowed_origins.is_empty() {
            (LEGACY_ORIGINS_KEY, &legacy_origins)
        } else {
            (ORIGINS_KEY, &allowed_origins)
        };
        if !legacy_origins.is_empty() && !allowed_origins.is_empty() && !same_origins(&legacy_origins, &allowed_origins)
        {
            report(
                LEGACY_ORIGINS_KEY,
                "differs from `server.cors.allowed_origins`, the new name of the same setting; remove one of them",
            );
        }
        if !texts.is_empty() && auth == Some(&AuthSettings::None) {
            report(
                key,
                "requires authentication (`auth.type`): otherwise any web page that a user opens could read and change everything",
            );
        }
        let origins = if texts.iter().any(|origin| origin == "*") {
            if allow_credentials {
                report("server.cors.allow_credentials", "cannot be used with the origin `*`; list the origins");
            }
            AllowedOrigins::All
        } else {
            let mut origins = Vec::with_capacity(texts.len());
            for (index, text) in texts.iter().enumerate() {
                match origin(text) {
                    Some(origin) => origins.push(origin),
                    None => report(
                        &format!("{key}[{index}]"),
                        "is not an origin; write it like `https://wiki.example.org`, without a path",
                    ),
                }
            }
            AllowedOrigins::List(origins)
        };
        CorsSettings { origins, methods: allowed_methods, allow_credentials, max_age }
    }
}

/// Whether two lists name the same origins, whatever their order.
fn same_origins(a: &[String], b: &[String]) -> bool {
    let sorted = |list: &[String]| {
        let mut list: Vec<String> = list.iter().map(|text| origin(text).unwrap_or_else(|| text.clone())).collect();
        list.sort();
        list.dedup();
        list
    };
    sorted(a) == sorted(b)
}

/// An origin as browsers send it (RFC 6454 6.2): scheme, host, port unless it is the default.
pub(crate) fn origin(text: &str) -> Option<String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (scheme, host) = text.split_once("://")?;
    if host.is_empty() || host.contains(['/', '?', '#', '@']) {
        return None;
    }
    let uri: Uri = format!("{}://{}/", scheme.to_ascii_lowercase(), host.to_ascii_lowercase()).parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let port = match (scheme, authority.port_u16()) {
        (_, None) if authority.as_str() != authority.host() => return None,
        ("http", Some(80)) | ("https", Some(443)) | (_, None) => String::new(),
        (_, Some(port)) => format!(":{port}"),
    };
    Some(format!("{scheme}://{}{port}", authority.host()))
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn an_origin_is_read_as_browsers_write_it() {
        for (text, expected) in [
            ("https://wiki.example.org", "https://wiki.example.org"),
            ("HTTPS://Wiki.Example.org:443/", "https://wiki.example.org"),
            ("http://10.0.0.1:8080", "http://10.0.0.1:8080"),
            ("http://[::1]:80", "http://[::1]"),
            ("app://obsidian.md", "app://obsidian.md"),
        ] {
            assert_eq!(origin(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "null",
            "example.org",
            "https://",
            "https://a/b",
            "https://a?b",
            "https://u@a",
            "https://a b",
            "https://a:x",
        ] {
            assert_eq!(origin(text), None, "{text}");
        }
    }
}
