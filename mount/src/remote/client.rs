//! Client of the server's HTTP API, one function per request.
//!
//! Invariant: every request returns within the configured timeout. Failed requests are retried
//! until then, so that programs do not notice a restart of the server. Retries are safe, because
//! every change names the version it is based on. When the response of the first attempt was lost,
//! a conflict on the retry is checked for being our own change.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;
use svcfs_base::{Actor, DISK_FULL, ETag, Fault, Kind, MAX_FILE_BYTES, PathComponent, Timestamp, TreePath};
use ureq::http::header::{
    AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, RETRY_AFTER,
};
use ureq::http::{HeaderMap, Method, Request, Response, StatusCode};
use ureq::{Agent, Body, BodyReader};

use super::connectivity::{RetryMode, ServerConnectivity};
use super::request_errors::{is_tls_error, is_undelivered, protocol_error, tls_error, unreachable};

const API_PREFIX: &str = "/api/svc";
/// Idle connections; as many as concurrent FUSE requests.
const MAX_CONNECTIONS: usize = 32;
/// Longest listing, in bytes: a directory of a million names.
const MAX_LISTING_BYTES: u64 = 256 << 20;
/// Longest response of any other kind.
const MAX_RESPONSE_BYTES: u64 = 1 << 20;
/// Pause before a retry; ends early when the server is reachable again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The event stream sends something at least every 15 s; longer silence is a broken connection.
pub(super) const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

const ACTOR: HeaderName = HeaderName::from_static("x-actor");
const SPACE: HeaderName = HeaderName::from_static("x-svc-space");
/// Asks for the files that a mount of the server shows: also hidden files, and those that git
/// ignores.
const MOUNT: HeaderName = HeaderName::from_static("x-svc-mount");
/// Distinguishes what a rule of the space refuses from conflicts with other writers.
const ERROR_KIND: HeaderName = HeaderName::from_static("x-svc-error");

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EntryType {
    Directory,
    File,
    Executable,
    Symlink,
    Special,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RemoteEntry {
    pub(super) name: Box<str>,
    /// In bytes; of a link the length of its target.
    pub(super) size: u64,
    pub(super) modified: Timestamp,
    #[serde(rename = "type")]
    pub(super) kind: EntryType,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionedContent {
    pub(super) etag: ETag,
    pub(super) bytes: Bytes,
}

/// Precondition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedVersion {
    /// The file must not exist.
    Absent,
    Version(ETag),
}

pub(super) struct ApiRequest<'a> {
    method: Method,
    route: &'static str,
    path: Option<&'a TreePath>,
    query: &'static str,
    headers: HeaderMap,
    body: Option<&'a [u8]>,
    limit: u64,
}

impl<'a> ApiRequest<'a> {
    fn new(method: Method, route: &'static str) -> Self {
        Self { method, route, path: None, query: "", headers: HeaderMap::new(), body: None, limit: MAX_RESPONSE_BYTES }
    }
    fn for_path(self, path: &'a TreePath) -> Self {
        Self { path: Some(path), ..self }
    }
    fn by_actor(self, actor: &Actor) -> Self {
        match HeaderValue::from_bytes(actor.as_str().as_bytes()) {
            Ok(name) => self.with_header(ACTOR, name),
            // An actor has no control characters, the only ones a header refuses.
            Err(_) => self,
        }
    }
    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
    fn with_etag(self, name: HeaderName, etag: &ETag) -> Self {
        match HeaderValue::from_str(&format!("\"{etag}\"")) {
            Ok(value) => self.with_header(name, value),
            Err(_) => self,
        }
    }
    fn with_condition(self, condition: ExpectedVersion) -> Self {
        match condition {
            ExpectedVersion::Absent => self.with_header(IF_NONE_MATCH, HeaderValue::from_static("*")),
            ExpectedVersion::Version(etag) => self.with_etag(IF_MATCH, &etag),
        }
    }
}

pub(super) struct ApiResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
    /// The server may have executed an earlier attempt whose response was lost.
    is_retry: bool,
}

impl ApiResponse {
    fn etag(&self) -> Result<ETag, Fault> {
        let text = self.headers.get(ETAG).and_then(|value| value.to_str().ok());
        ETag::parse("ETag", text.unwrap_or_default()).map_err(|_| protocol_error("its response has no ETag"))
    }

    pub(super) fn json<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Fault> {
        serde_json::from_slice(&self.body)
            .map_err(|error| protocol_error(format_args!("its response cannot be parsed: {error}")))
    }

    /// The response if it is a success, else its fault.
    fn into_success(self) -> Result<Self, Fault> {
        if self.status.is_success() || self.status == StatusCode::NOT_MODIFIED { Ok(self) } else { Err(self.fault()) }
    }

    /// The message of an error of svcfs.
    pub(super) fn error_message(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct ErrorBody {
            error: String,
        }
        serde_json::from_slice::<ErrorBody>(&self.body).ok().map(|body| body.error)
    }

    /// Whether the server's disk is full. Unlike a busy server it stays so: a retry is useless.
    fn is_disk_full(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
            && self.error_message().is_some_and(|message| message.starts_with(DISK_FULL))
    }

    pub(super) fn fault(&self) -> Fault {
        let message = self.error_message().unwrap_or_else(|| self.status.to_string());
        let kind = match self.status.as_u16() {
            400 => Kind::Invalid,
            401 => Kind::Unauthenticated,
            403 => Kind::Forbidden,
            404 => Kind::NotFound,
            409 if self.headers.get(ERROR_KIND).is_some_and(|kind| kind == Kind::NotAllowed.name()) => Kind::NotAllowed,
            409 => Kind::Conflict,
            412 => Kind::PreconditionFailed,
            413 => Kind::TooLarge,
            422 => Kind::Rejected,
            423 => Kind::Locked,
            _ if self.is_disk_full() => Kind::NoSpace,
            _ => Kind::Upstream,
        };
        Fault::new(kind, message)
    }
}

#[derive(Clone)]
pub(super) struct ClientOptions {
    /// Such as `https://notes.example.org`, without a trailing slash.
    pub(super) url: String,
    /// A space of the server; its first if none.
    pub(super) space: Option<String>,
    pub(super) token: Option<String>,
    /// Limit for a step of a request, and for all its retries.
    pub(super) timeout: Duration,
}

pub(super) struct ApiClient {
    agent: Agent,
    /// For the event stream, with a longer read timeout.
    event_agent: Agent,
    pub(super) base_url: String,
    headers: HeaderMap,
    pub(super) timeout: Duration,
    pub(super) connectivity: ServerConnectivity,
}

impl ApiClient {
    /// Does not connect yet.
    ///
    /// # Errors
    /// `Invalid` for a space or token that no header can carry.
    pub(super) fn new(server: &ClientOptions) -> Result<Self, Fault> {
        let mut headers = HeaderMap::from_iter([(MOUNT, HeaderValue::from_static("1"))]);
        if let Some(token) = &server.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
                Fault::invalid("--token-file", "the token has characters that are not allowed in an HTTP header")
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(space) = &server.space {
            let value = HeaderValue::from_bytes(space.as_bytes());
            headers.insert(SPACE, value.map_err(|_| Fault::invalid("--space", "not a valid space name"))?);
        }
        let agent = |read_timeout| {
            Agent::config_builder()
                .tls_config(svcfs_net::tls_config())
                .user_agent(concat!("svcfs-mount/", env!("CARGO_PKG_VERSION")))
                .http_status_as_error(false)
                .max_redirects(0)
                .max_idle_connections(MAX_CONNECTIONS)
                .max_idle_connections_per_host(MAX_CONNECTIONS)
                .timeout_resolve(Some(server.timeout))
                .timeout_connect(Some(server.timeout))
                .timeout_recv_response(Some(server.timeout))
                .timeout_per_read(Some(read_timeout))
                .timeout_per_write(Some(server.timeout))
                .build()
                .new_agent()
        };
        Ok(Self {
            agent: agent(server.timeout),
            event_agent: agent(EVENT_TIMEOUT),
            base_url: format!("{}{API_PREFIX}", server.url),
            headers,
            timeout: server.timeout,
            connectivity: ServerConnectivity::default(),
        })
    }

    pub(super) fn list_request(directory: &TreePath) -> ApiRequest<'_> {
        let request = ApiRequest::new(Method::GET, "/tree").for_path(directory);
        ApiRequest { query: "depth=1&details=true", limit: MAX_LISTING_BYTES, ..request }
    }

    pub(super) fn list(&self, directory: &TreePath) -> Result<Vec<RemoteEntry>, Fault> {
        let response = self.send_with_retry(&Self::list_request(directory))?;
        let entries: Vec<RemoteEntry> = response.into_success()?.json()?;
        Ok(entries
            .into_iter()
            .filter(|entry| entry.kind != EntryType::Special && PathComponent::parse(&entry.name).is_ok())
            .collect())
    }

    /// The entry of a file or link; none when nothing or a directory is there.
    pub(super) fn stat(&self, file: &TreePath) -> Result<Option<RemoteEntry>, Fault> {
        match self.list(file) {
            Ok(entries) => Ok(entries.into_iter().next().filter(|entry| *entry.name == *file.name())),
            Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// A file's content; none when it still has the known version.
    pub(super) fn read(&self, file: &TreePath, known: Option<ETag>) -> Result<Option<VersionedContent>, Fault> {
        let mut request = ApiRequest::new(Method::GET, "/file").for_path(file);
        request.limit = MAX_FILE_BYTES as u64;
        if let Some(etag) = &known {
            request = request.with_etag(IF_NONE_MATCH, etag);
        }
        let response = self.send_with_retry(&request)?.into_success()?;
        if response.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        Ok(Some(VersionedContent { etag: response.etag()?, bytes: response.body.into() }))
    }

    pub(super) fn version(&self, file: &TreePath) -> Result<ETag, Fault> {
        self.send_with_retry(&ApiRequest::new(Method::HEAD, "/file").for_path(file))?.into_success()?.etag()
    }

    /// Writes a file without formatting; returns its new version.
    pub(super) fn write(
        &self,
        actor: &Actor,
        file: &TreePath,
        bytes: &[u8],
        condition: ExpectedVersion,
    ) -> Result<ETag, Fault> {
        let response = self.put(actor, file, (bytes, "exact=true"), condition)?;
        let is_refused = matches!(response.status, StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED);
        if is_refused && response.is_retry && self.version(file)? == ETag::from_content(bytes) {
            return Ok(ETag::from_content(bytes));
        }
        response.into_success()?.etag()
    }

    /// Writes a text that is based on an older version, merged with the current one; returns the
    /// version of the merged text.
    ///
    /// # Errors
    /// `Conflict` when both changed the same lines; `Invalid` from a server that cannot merge.
    pub(super) fn write_merged(&self, actor: &Actor, file: &TreePath, text: &[u8], base: ETag) -> Result<ETag, Fault> {
        let condition = ExpectedVersion::Version(base);
        self.put(actor, file, (text, "exact=true&on_conflict=merge"), condition)?.into_success()?.etag()
    }

    fn put(
        &self,
        actor: &Actor,
        file: &TreePath,
        (bytes, query): (&[u8], &'static str),
        condition: ExpectedVersion,
    ) -> Result<ApiResponse, Fault> {
        let request = ApiRequest { body: Some(bytes), query, ..ApiRequest::new(Method::PUT, "/file") };
        // A conflict may come with the texts of both versions.
        let request = ApiRequest { limit: 4 * MAX_FILE_BYTES as u64, ..request };
        let request = request.for_path(file).by_actor(actor).with_condition(condition);
        self.send_with_retry(&request.with_header(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")))
    }

    /// Creates a symbolic link at a free path.
    pub(super) fn link(&self, actor: &Actor, link: &TreePath, target: &str) -> Result<(), Fault> {
        let request = ApiRequest { body: Some(target.as_bytes()), ..ApiRequest::new(Method::PUT, "/file") };
        let request = request.for_path(link).by_actor(actor).with_condition(ExpectedVersion::Absent);
        self.send_with_retry(&request.with_header(CONTENT_TYPE, HeaderValue::from_static("application/x-symlink")))?
            .into_success()?;
        Ok(())
    }

    pub(super) fn target(&self, link: &TreePath) -> Result<Bytes, Fault> {
        Ok(self.send_with_retry(&ApiRequest::new(Method::GET, "/readlink").for_path(link))?.into_success()?.body.into())
    }

    /// Removes a file or link of a version, or (none) whatever is there, such as an empty
    /// directory. False when something else is there now: the first response was lost, and the
    /// retry conflicts.
    pub(super) fn remove(&self, actor: &Actor, path: &TreePath, version: Option<ETag>) -> Result<bool, Fault> {
        let mut request = ApiRequest::new(Method::DELETE, "/file").for_path(path).by_actor(actor);
        if let Some(etag) = version {
            request = request.with_condition(ExpectedVersion::Version(etag));
        }
        let response = self.send_with_retry(&request)?;
        match response.status {
            StatusCode::NOT_FOUND if response.is_retry => Ok(true),
            StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED if response.is_retry && version.is_some() => {
                Ok(false)
            }
            _ => response.into_success().map(|_| true),
        }
    }

    /// Renames a file; `replaced` is the version it may replace. Returns its new version (other
    /// than before if its links were updated), and whether other pages may have changed; none if
    /// unknown.
    pub(super) fn rename(
        &self,
        actor: &Actor,
        (from, to): (&TreePath, &TreePath),
        replaced: Option<ETag>,
    ) -> Result<Option<(ETag, bool)>, Fault> {
        #[derive(Deserialize)]
        struct RenameResponse {
            #[serde(default)]
            updated_links: usize,
        }
        let mut body = serde_json::json!({ "from": from, "to": to, "as_mount": true, "update_links": false });
        if let Some(etag) = replaced {
            body["replacing"] = etag.to_string().into();
        }
        let body = body.to_string();
        let request = ApiRequest { body: Some(body.as_bytes()), ..ApiRequest::new(Method::POST, "/rename") };
        let response = self.send_with_retry(
            &request.by_actor(actor).with_header(CONTENT_TYPE, HeaderValue::from_static("application/json")),
        )?;
        // The lost attempt succeeded.
        if response.is_retry && response.status == StatusCode::NOT_FOUND && self.stat(to)?.is_some() {
            return Ok(None);
        }
        let response = response.into_success()?;
        // The rename succeeded, even if the body cannot be parsed.
        let (body, etag) = (response.json::<RenameResponse>(), response.etag());
        Ok(body.and_then(|body| Ok((etag?, body.updated_links > 0))).ok())
    }

    /// Opens the event stream at its current end, without retries.
    ///
    /// # Errors
    /// `Upstream` when there is none.
    pub(super) fn events(&self) -> Result<BodyReader<'static>, Fault> {
        let response = self
            .send(&self.event_agent, &ApiRequest::new(Method::GET, "/events"))
            .map_err(|error| unreachable(&error))?;
        self.connectivity.stream_connected();
        if response.status() != StatusCode::OK {
            return Err(Fault::new(Kind::Upstream, format!("no event stream: {}", response.status())));
        }
        Ok(response.into_body().into_reader())
    }

    /// Sends a request without retries.
    pub(super) fn send_once(&self, request: &ApiRequest<'_>) -> Result<ApiResponse, ureq::Error> {
        self.send(&self.agent, request).and_then(|response| read_response(response, request, false))
    }

    /// Sends a request, and retries it until the timeout.
    fn send_with_retry(&self, request: &ApiRequest<'_>) -> Result<ApiResponse, Fault> {
        let timeout = match self.connectivity.admit(self.timeout)? {
            RetryMode::UntilTimeout => self.timeout,
            RetryMode::Once => Duration::ZERO,
        };
        let deadline = Instant::now() + timeout;
        let mut is_retry = false;
        loop {
            let (fault, interval, has_response) =
                match self.send(&self.agent, request).and_then(|response| read_response(response, request, is_retry)) {
                    Ok(response) => {
                        self.connectivity.report_success();
                        let Some(interval) = busy_interval(&response) else { return Ok(response) };
                        (response.fault(), interval, true)
                    }
                    Err(ureq::Error::BodyExceedsLimit(limit)) => {
                        self.connectivity.report_success();
                        return Err(Fault::too_large("file", usize::try_from(limit).unwrap_or(usize::MAX)));
                    }
                    Err(error) if is_tls_error(&error) => return Err(tls_error(&error)),
                    Err(error) => {
                        is_retry |= !is_undelivered(&error);
                        (unreachable(&error), RETRY_INTERVAL, false)
                    }
                };
            if Instant::now() + interval > deadline {
                if !has_response {
                    self.connectivity.report_failure(&fault);
                }
                return Err(fault);
            }
            self.connectivity.wait(interval);
        }
    }

    fn send(&self, agent: &Agent, request: &ApiRequest<'_>) -> Result<Response<Body>, ureq::Error> {
        let mut address = format!("{}{}?{}", self.base_url, request.route, request.query);
        if let Some(path) = request.path {
            address.push_str("&path=");
            address.extend(percent_encoding::utf8_percent_encode(path.as_str(), percent_encoding::NON_ALPHANUMERIC));
        }
        let mut builder = Request::builder().method(request.method.clone()).uri(address);
        if let Some(headers) = builder.headers_mut() {
            headers.extend(self.headers.clone());
            headers.extend(request.headers.clone());
        }
        match request.body {
            Some(body) => agent.run(builder.body(body)?),
            None => agent.run(builder.body(())?),
        }
    }
}

fn read_response(
    response: Response<Body>,
    request: &ApiRequest<'_>,
    is_retry: bool,
) -> Result<ApiResponse, ureq::Error> {
    let (head, body) = response.into_parts();
    let body = body.into_with_config().limit(request.limit).read_to_vec()?;
    Ok(ApiResponse { status: head.status, headers: head.headers, body, is_retry })
}

/// The pause requested by a busy server.
pub(super) fn busy_interval(response: &ApiResponse) -> Option<Duration> {
    let is_busy = matches!(response.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
    if !is_busy || response.is_disk_full() {
        return None;
    }
    let retry_after = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Some(retry_after.map_or(RETRY_INTERVAL, Duration::from_secs))
}
