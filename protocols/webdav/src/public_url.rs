//! URLs as clients see them behind a proxy that strips a prefix from the path (`/dav` of
//! `https://notes.example.org/dav`).
//!
//! Invariant: URLs in responses, and URLs in requests other than the request path (`Destination`,
//! `If`), have the prefix.

use std::net::IpAddr;

use http::{HeaderMap, Uri};
use svcfs_base::Fault;

/// The header with the prefix that a proxy stripped.
const FORWARDED_PREFIX: &str = "x-forwarded-prefix";

/// The stripped prefix: from the configuration, else from a proxy on this machine; empty if there
/// is none.
pub(crate) fn prefix(public: Option<&str>, headers: &HeaderMap, peer: IpAddr) -> String {
    let forwarded = || {
        let value = headers.get(FORWARDED_PREFIX).filter(|_| peer.to_canonical().is_loopback())?.to_str().ok()?;
        // Each of several proxies adds its own prefix.
        let joined: String = value.split(',').map(|part| part.trim().trim_end_matches('/')).collect();
        svcfs_config::is_plain_prefix(&joined).then_some(joined)
    };
    public.map(str::to_owned).or_else(forwarded).unwrap_or_default()
}

/// Strips the prefix from a path that a client sent.
pub(crate) fn without_prefix<'a>(path: &'a str, prefix: &str) -> &'a str {
    match path.strip_prefix(prefix) {
        Some("") => "/",
        Some(rest) if rest.starts_with('/') => rest,
        // The proxy also rewrites this header.
        Some(_) | None => path,
    }
}

/// Replaces the path of a URL. Errors: `Invalid` for an invalid path.
pub(crate) fn with_path(uri: &Uri, path: &str) -> Result<Uri, Fault> {
    let target = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().map_err(|error| Fault::invalid("path", error))?);
    Uri::from_parts(parts).map_err(|error| Fault::invalid("path", error))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_prefix_is_of_the_settings_or_of_a_proxy_on_this_machine() {
        let (here, elsewhere) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 1]));
        let read = |public, value: &'static str, peer| {
            prefix(
                public,
                &HeaderMap::from_iter([("x-forwarded-prefix".parse().unwrap(), HeaderValue::from_static(value))]),
                peer,
            )
        };
        assert_eq!(read(None, "/dav/", here), "/dav");
        assert_eq!(read(None, "/a, /b", here), "/a/b");
        assert_eq!(read(None, "/dav", elsewhere), "");
        assert_eq!(read(Some("/wiki"), "/dav", elsewhere), "/wiki");
        for other in ["dav", "/../x", "//evil", "/a?b", "/a b", "/<x>", "/", ""] {
            assert_eq!(read(None, other, here), "", "{other}");
        }
        assert_eq!(without_prefix("/dav/a", "/dav"), "/a");
        assert_eq!(without_prefix("/dav", "/dav"), "/");
        assert_eq!(without_prefix("/davos/a", "/dav"), "/davos/a");
        assert_eq!(without_prefix("/a", ""), "/a");
    }
}
