//! `[server.cors]`, and its older form `server.cors_origins`

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AuthSettings;

/// What web pages of other origins may do. Pages that were loaded from this machine, and those of `server.public_url`, may do everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CorsConfig {
    /// Origins whose pages may ask, such as `https://wiki.example.org`, or `*` for all. Needs authentication: without it whatever page
    /// somebody opens could read and change everything.
    pub allowed_origins: Vec<String>,
    /// Methods they may use.
    pub allowed_methods: Vec<CorsMethod>,
    /// Whether browsers may send along what they keep for this server, such as the password of a proxy in front of it. Not for `*`.
    pub allow_credentials: bool,
    /// Seconds for which a browser need not ask again what is allowed.
    #[schemars(range(min = 0, max = 86_400))]
    pub max_age: u32,
}

/// A method that a page of another origin may use.
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

    /// As it stands in a request.
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

/// What web pages of other origins may do, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsSettings {
    /// Whose pages may ask beside our own.
    pub origins: AllowedOrigins,
    /// Which methods they may use.
    pub methods: Vec<CorsMethod>,
    /// Whether what browsers keep for this server may come along.
    pub allow_credentials: bool,
    /// Seconds for which a browser need not ask again.
    pub max_age: u32,
}

/// Whose pages may ask beside our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// Those of these origins, as browsers write them; none when empty.
    List(Vec<String>),
    /// All.
    All,
}

impl Default for CorsSettings {
    fn default() -> Self {
        let CorsConfig { allowed_origins: _, allowed_methods: methods, allow_credentials, max_age } =
            CorsConfig::default();
        Self { origins: AllowedOrigins::List(Vec::new()), methods, allow_credentials, max_age }
    }
}

/// Where the origins stand.
const ORIGINS: &str = "server.cors.allowed_origins";
/// Where they stood before.
const OLDER: &str = "server.cors_origins";

impl CorsConfig {
    /// What holds. `older` is `server.cors_origins`, which says the same as `allowed_origins` or nothing.
    pub(crate) fn resolve(
        self,
        older: Vec<String>,
        auth: Option<&AuthSettings>,
        complain: &mut dyn FnMut(&str, &str),
    ) -> CorsSettings {
        let Self { allowed_origins, allowed_methods, allow_credentials, max_age } = self;
        let (key, written) = if allowed_origins.is_empty() { (OLDER, &older) } else { (ORIGINS, &allowed_origins) };
        if !older.is_empty() && !allowed_origins.is_empty() && !same(&older, &allowed_origins) {
            complain(
                OLDER,
                "names other origins than `server.cors.allowed_origins`, whose older name it is; keep one of them",
            );
        }
        if !written.is_empty() && auth == Some(&AuthSettings::None) {
            complain(
                key,
                "needs authentication (`auth.type`): without it whatever page somebody opens could read and change everything",
            );
        }
        let origins = if written.iter().any(|origin| origin == "*") {
            if allow_credentials {
                complain("server.cors.allow_credentials", "is not for every origin; name the origins instead of `*`");
            }
            AllowedOrigins::All
        } else {
            let mut origins = Vec::with_capacity(written.len());
            for (index, text) in written.iter().enumerate() {
                match origin(text) {
                    Some(origin) => origins.push(origin),
                    None => complain(
                        &format!("{key}[{index}]"),
                        "is no origin; write it like `https://wiki.example.org`, without a path",
                    ),
                }
            }
            AllowedOrigins::List(origins)
        };
        CorsSettings { origins, methods: allowed_methods, allow_credentials, max_age }
    }
}

/// Whether two lists name the same origins, whatever their order.
fn same(one: &[String], other: &[String]) -> bool {
    let sorted = |list: &[String]| {
        let mut list: Vec<String> = list.iter().map(|text| origin(text).unwrap_or_else(|| text.clone())).collect();
        list.sort();
        list.dedup();
        list
    };
    sorted(one) == sorted(other)
}

/// An origin as browsers send it (RFC 6454 6.2): scheme, host, and the port unless it is the scheme's own.
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
