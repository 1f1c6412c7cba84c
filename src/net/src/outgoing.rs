//! Requests to URLs of callers: clip, webhooks, imports.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::http::{StatusCode, Uri, header};
use ureq::unversioned::resolver::{DefaultResolver, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body, ResponseExt, Timeout};

use crate::address_policy::{AddressPolicy, AddressRefused, CheckedResolver};
use crate::{NetError, USER_AGENT, tls_config};

const MAX_URL_BYTES: usize = 2048;

/// How long registration waits for the address of a host.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// What one request may cost.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingLimits {
    /// For the whole request: name, connection, redirects and body.
    pub timeout: Duration,
    /// Size of the response body.
    pub max_bytes: u64,
    /// Number of redirects that are followed.
    pub max_redirects: u32,
    /// Whether `http://` is for listed hosts only; others need TLS.
    pub requires_tls: bool,
    /// Connections to one host that stay open for later requests.
    pub max_idle_connections: usize,
}

/// Client for URLs that come from callers. It reaches public addresses, and those that the operator
/// permits; uses no proxy, cookies or credentials.
#[derive(Debug, Clone)]
pub struct OutgoingClient {
    agent: Agent,
    resolver: Arc<CheckedResolver>,
    limits: OutgoingLimits,
}

/// A fetched document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedDocument {
    /// Its URL after redirects.
    pub url: String,
    /// Its `Content-Type`.
    pub content_type: Option<String>,
    /// Its content.
    pub body: Vec<u8>,
}

/// The answer to a [`post`](OutgoingClient::post).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostAnswer {
    /// Status after redirects.
    pub status: u16,
    /// When the receiver wants the next attempt (`Retry-After` in seconds).
    pub retry_after: Option<Duration>,
}

impl OutgoingClient {
    /// A client with a connection pool of its own.
    #[must_use]
    pub fn new(policy: AddressPolicy, limits: OutgoingLimits) -> Self {
        let config = Agent::config_builder()
            .tls_config(tls_config())
            .user_agent(USER_AGENT)
            // A proxy would resolve the names itself.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(limits.max_redirects)
            .max_idle_connections(limits.max_idle_connections.saturating_mul(4))
            .max_idle_connections_per_host(limits.max_idle_connections)
            .timeout_global(Some(limits.timeout))
            .build();
        let checked =
            |policy| CheckedResolver { policy, requires_tls: limits.requires_tls, inner: DefaultResolver::default() };
        let policy = Arc::new(policy);
        let agent = Agent::with_parts(config, DefaultConnector::default(), checked(Arc::clone(&policy)));
        Self { agent, resolver: Arc::new(checked(policy)), limits }
    }

    /// Checks a URL before it is stored: its form, and its address if the name can be resolved.
    ///
    /// # Errors
    /// [`NetError::InvalidUrl`], [`NetError::Refused`].
    pub fn check_url(&self, url: &str) -> Result<(), NetError> {
        let uri = parse_url(url)?;
        let timeout = NextTimeout { after: RESOLVE_TIMEOUT.into(), reason: Timeout::Resolve, ..NextTimeout::default() };
        match self.resolver.resolve(&uri, self.agent.config(), timeout) {
            Err(error @ ureq::Error::Other(_)) => Err(to_net_error(url, error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The document at a URL, after redirects.
    ///
    /// # Errors
    /// [`NetError`], also for an error status and for a document that is too large.
    pub fn get(&self, url: &str) -> Result<FetchedDocument, NetError> {
        self.get_as(url, "*/*")
    }

    /// As [`get`](Self::get), in the format of a media type, if the server has that.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_as(&self, url: &str, media_type: &str) -> Result<FetchedDocument, NetError> {
        let request = self.agent.get(parse_url(url)?).header(header::ACCEPT, media_type);
        let mut answer = request.call().map_err(|error| to_net_error(url, error))?;
        if !answer.status().is_success() {
            return Err(to_net_error(url, ureq::Error::StatusCode(answer.status().as_u16())));
        }
        let content_type = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.map(str::to_owned);
        let final_url = answer.get_uri().to_string();
        let body = answer.body_mut().with_config().limit(self.limits.max_bytes).read_to_vec();
        Ok(FetchedDocument { url: final_url, content_type, body: body.map_err(|error| to_net_error(url, error))? })
    }

    /// Sends a body. Redirects are followed only if they repeat the request (307, 308).
    ///
    /// # Errors
    /// [`NetError`] if there is no answer; a status is none.
    pub fn post(&self, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<PostAnswer, NetError> {
        let deadline = Instant::now() + self.limits.timeout;
        let mut target = parse_url(url)?;
        let mut redirects = 0;
        loop {
            let timeout = deadline.saturating_duration_since(Instant::now());
            let request = self.agent.post(&target).config().max_redirects(0).timeout_global(Some(timeout)).build();
            let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let mut answer = request.send(body).map_err(|error| to_net_error(url, error))?;
            let status = answer.status();
            let headers = answer.headers();
            let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let retry_after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            discard_body(answer.body_mut(), self.limits.max_bytes);
            let repeats = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            match location {
                Some(location) if repeats && redirects < self.limits.max_redirects => {
                    target = parse_url(&redirect_target(&target, &location))?;
                    redirects += 1;
                }
                _ => {
                    return Ok(PostAnswer {
                        status: status.as_u16(),
                        retry_after: retry_after.map(Duration::from_secs),
                    });
                }
            }
        }
    }
}

/// Reads the body, so that the connection can be used again; one that is too large closes it.
fn discard_body(body: &mut Body, max_bytes: u64) {
    let mut reader = body.with_config().limit(max_bytes).reader();
    let _closes_the_connection = std::io::copy(&mut reader, &mut std::io::sink());
}

/// The URL of a `Location`: a URL, or a path on the same host.
fn redirect_target(from: &Uri, location: &str) -> String {
    let scheme = from.scheme_str().unwrap_or("https");
    let origin = format!("{scheme}://{}", from.authority().map_or("", |authority| authority.as_str()));
    match location {
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{origin}{location}"),
        _ if location.contains("://") => location.to_owned(),
        _ if location.starts_with('?') => format!("{origin}{}{location}", from.path()),
        _ => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{origin}{folder}/{location}")
        }
    }
}

/// The URL with its host in ASCII: that of `https://bücher.example/` is `xn--bcher-kva.example`.
///
/// # Errors
/// [`NetError::InvalidUrl`] for a name that is none.
pub fn with_ascii_host(url: &str) -> Result<Cow<'_, str>, NetError> {
    let Some(start) = url.find("://").map(|at| at + 3).filter(|_| !url.is_ascii()) else { return Ok(url.into()) };
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let authority = &url[start..end];
    if authority.is_ascii() {
        return Ok(url.into());
    }
    let port = authority.rfind(':').unwrap_or(authority.len());
    let invalid = |_| NetError::InvalidUrl { url: displayed(url), reason: "has an invalid host" };
    let host = url::Host::parse(&authority[..port]).map_err(invalid)?;
    Ok(format!("{}{host}{}{}", &url[..start], &authority[port..], &url[end..]).into())
}

pub(crate) fn parse_url(url: &str) -> Result<Uri, NetError> {
    let invalid = |reason| NetError::InvalidUrl { url: displayed(url), reason };
    if url.len() > MAX_URL_BYTES {
        return Err(invalid("is longer than 2048 bytes"));
    }
    let uri: Uri = url.parse().map_err(|_| invalid("is not a URL such as `https://example.org/path`"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(invalid("must begin with `https://` or `http://`"));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(invalid("has no host"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(invalid("contains a user name or password; remove it"));
    }
    // A port that is no number would be ignored, and that of the scheme used.
    let has_port = uri.authority().is_some_and(|authority| authority.as_str().len() > authority.host().len());
    if has_port && uri.port_u16().is_none_or(|port| port == 0) {
        return Err(invalid("has an invalid port"));
    }
    Ok(uri)
}

/// A URL in an error: shortened, without control characters, and without user name and query, which
/// may contain credentials.
pub(crate) fn displayed(url: &str) -> String {
    let address = url.split(['?', '#']).next().unwrap_or_default();
    let start = address.find("://").map_or(0, |at| at + 3);
    let end = address[start..].find('/').map_or(address.len(), |at| start + at);
    let host = address[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let shown = format!("{}{}", &address[..start], &address[host..]);
    shown.chars().take(200).flat_map(char::escape_debug).collect()
}

pub(crate) fn to_net_error(url: &str, error: ureq::Error) -> NetError {
    let url = displayed(url);
    match error {
        ureq::Error::Other(cause) => match cause.downcast::<AddressRefused>() {
            Ok(refusal) => NetError::Refused(*refusal),
            Err(cause) => NetError::Fetch { url, source: Box::new(ureq::Error::Other(cause)) },
        },
        ureq::Error::BodyExceedsLimit(limit) => NetError::TooLarge { url, limit },
        source => NetError::Fetch { url, source: Box::new(source) },
    }
}

#[cfg(test)]
mod tests;
