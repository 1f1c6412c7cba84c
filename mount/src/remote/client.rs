//! The server's HTTP API, one function a request.
//!
//! One rule: every request comes back, with the server's answer or within the patience the mount was given. What did not arrive is asked
//! again within that time: a server that is started anew is not noticed by programs. Asking twice is safe, because every change names the
//! version that it is made from; where the first answer was lost, the second refusal is looked into.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;
use svcfs_base::{Actor, ETag, Fault, Kind, MAX_FILE_BYTES, PathComponent, Timestamp, TreePath};
use ureq::http::header::{
    AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, RETRY_AFTER,
};
use ureq::http::{HeaderMap, Method, Request, Response, StatusCode};
use ureq::{Agent, Body, BodyReader};

use super::connectivity::{RetryMode, ServerConnectivity};

/// Where the operations are, below the server's address.
const PREFIX: &str = "/api/svc";
/// Connections kept open between requests; as many as requests are served at once.
const MAX_CONNECTIONS: usize = 32;
/// Longest listing taken, in bytes: a directory of a million names.
const MAX_LISTING_BYTES: u64 = 256 << 20;
/// Longest answer of any other kind.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
/// How long to wait before asking again, at least; less when the server is heard of meanwhile.
const PAUSE: Duration = Duration::from_millis(200);
/// The event stream says something at least every 15 s; longer silence is a broken line.
pub(super) const SILENCE: Duration = Duration::from_secs(20);

const ACTOR: HeaderName = HeaderName::from_static("x-actor");
const SPACE: HeaderName = HeaderName::from_static("x-svc-space");

/// What an entry of a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EntryType {
    Directory,
    File,
    Executable,
    Symlink,
    Special,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RemoteEntry {
    pub(super) name: Box<str>,
    /// In bytes; of a link the length of its target.
    pub(super) size: u64,
    pub(super) modified: Timestamp,
    #[serde(rename = "type")]
    pub(super) kind: EntryType,
}

/// Content with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionedContent {
    pub(super) etag: ETag,
    pub(super) bytes: Bytes,
}

/// What must be true of a file before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedVersion {
    /// Nothing is there.
    Absent,
    /// It is this version.
    Version(ETag),
}

/// A request about to be sent.
struct ApiRequest<'a> {
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
        Self { method, route, path: None, query: "", headers: HeaderMap::new(), body: None, limit: MAX_ANSWER_BYTES }
    }
    fn about(self, path: &'a TreePath) -> Self {
        Self { path: Some(path), ..self }
    }
    fn by(self, actor: &Actor) -> Self {
        match HeaderValue::from_bytes(actor.as_str().as_bytes()) {
            Ok(name) => self.with(ACTOR, name),
            // An actor has no control characters, which is all that a header refuses.
            Err(_) => self,
        }
    }
    fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
    fn tagged(self, name: HeaderName, etag: &ETag) -> Self {
        match HeaderValue::from_str(&format!("\"{etag}\"")) {
            Ok(value) => self.with(name, value),
            Err(_) => self,
        }
    }
    fn under(self, condition: ExpectedVersion) -> Self {
        match condition {
            ExpectedVersion::Absent => self.with(IF_NONE_MATCH, HeaderValue::from_static("*")),
            ExpectedVersion::Version(etag) => self.tagged(IF_MATCH, &etag),
        }
    }
}

/// What the server said.
struct ApiResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// An earlier sending of the same request may have been heard, and its answer lost.
    is_again: bool,
}

impl ApiResponse {
    fn etag(&self) -> Result<ETag, Fault> {
        let text = self.headers.get(ETAG).and_then(|value| value.to_str().ok());
        ETag::parse("ETag", text.unwrap_or_default()).map_err(|_| odd("it answered without an ETag"))
    }

    fn json<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Fault> {
        serde_json::from_slice(&self.body).map_err(|error| odd(format_args!("its answer cannot be read: {error}")))
    }

    /// The answer when it is a success.
    fn granted(self) -> Result<Self, Fault> {
        if self.status.is_success() || self.status == StatusCode::NOT_MODIFIED { Ok(self) } else { Err(self.fault()) }
    }

    fn fault(&self) -> Fault {
        #[derive(Deserialize)]
        struct ErrorBody {
            error: String,
        }
        let told = serde_json::from_slice::<ErrorBody>(&self.body).map(|told| told.error);
        let told = told.unwrap_or_else(|_| self.status.to_string());
        let kind = match self.status.as_u16() {
            400 => Kind::Invalid,
            401 => Kind::Unauthenticated,
            403 => Kind::Forbidden,
            404 => Kind::NotFound,
            409 => Kind::Conflict,
            412 => Kind::PreconditionFailed,
            413 => Kind::TooLarge,
            422 => Kind::Rejected,
            423 => Kind::Locked,
            _ => Kind::Upstream,
        };
        Fault::new(kind, told)
    }
}

/// Where the server is, and who asks.
#[derive(Clone)]
pub(super) struct ClientOptions {
    /// Its address, such as `https://notes.example.org`, without a slash at the end.
    pub(super) url: String,
    /// One of its spaces; the first when none is named.
    pub(super) space: Option<String>,
    /// What proves that the mount may.
    pub(super) token: Option<String>,
    /// How long a request may take to make progress, and a program to wait for a server that is away.
    pub(super) patience: Duration,
}

/// A connection to a server.
pub(super) struct ApiClient {
    agent: Agent,
    /// For the event stream, which is silent for longer.
    stream: Agent,
    base: String,
    headers: HeaderMap,
    patience: Duration,
    pub(super) reach: ServerConnectivity,
}

impl ApiClient {
    /// Speaks to nobody yet.
    ///
    /// # Errors
    /// `Invalid` for a name or token that no header can carry.
    pub(super) fn new(server: &ClientOptions) -> Result<Self, Fault> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &server.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Fault::invalid("--token-file", "the token has characters that no header can carry"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(space) = &server.space {
            let value = HeaderValue::from_bytes(space.as_bytes());
            headers.insert(SPACE, value.map_err(|_| Fault::invalid("--space", "no space has such a name"))?);
        }
        let agent = |silence| {
            Agent::config_builder()
                .tls_config(svcfs_net::tls_config())
                .user_agent(concat!("svcfs-mount/", env!("CARGO_PKG_VERSION")))
                .http_status_as_error(false)
                .max_redirects(0)
                .max_idle_connections(MAX_CONNECTIONS)
                .max_idle_connections_per_host(MAX_CONNECTIONS)
                .timeout_resolve(Some(server.patience))
                .timeout_connect(Some(server.patience))
                .timeout_recv_response(Some(server.patience))
                .timeout_per_read(Some(silence))
                .timeout_per_write(Some(server.patience))
                .build()
                .new_agent()
        };
        Ok(Self {
            agent: agent(server.patience),
            stream: agent(SILENCE),
            base: format!("{}{PREFIX}", server.url),
            headers,
            patience: server.patience,
            reach: ServerConnectivity::default(),
        })
    }

    /// The entries of a directory.
    pub(super) fn list(&self, directory: &TreePath) -> Result<Vec<RemoteEntry>, Fault> {
        let ask = ApiRequest {
            query: "depth=1&details=true",
            limit: MAX_LISTING_BYTES,
            ..ApiRequest::new(Method::GET, "/tree")
        };
        let entries: Vec<RemoteEntry> = self.ask(&ask.about(directory))?.granted()?.json()?;
        Ok(entries
            .into_iter()
            .filter(|entry| entry.kind != EntryType::Special && PathComponent::parse(&entry.name).is_ok())
            .collect())
    }

    /// What is at the path of a file or link; none when nothing is, or a directory.
    pub(super) fn look(&self, file: &TreePath) -> Result<Option<RemoteEntry>, Fault> {
        match self.list(file) {
            Ok(entries) => Ok(entries.into_iter().next().filter(|entry| *entry.name == *file.name())),
            Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// A file's content; none when it is still the version that is known already.
    pub(super) fn read(&self, file: &TreePath, known: Option<ETag>) -> Result<Option<VersionedContent>, Fault> {
        let mut ask = ApiRequest::new(Method::GET, "/file").about(file);
        ask.limit = MAX_FILE_BYTES as u64;
        if let Some(etag) = &known {
            ask = ask.tagged(IF_NONE_MATCH, etag);
        }
        let answer = self.ask(&ask)?.granted()?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        Ok(Some(VersionedContent { etag: answer.etag()?, bytes: answer.body.into() }))
    }

    /// A file's version.
    pub(super) fn version(&self, file: &TreePath) -> Result<ETag, Fault> {
        self.ask(&ApiRequest::new(Method::HEAD, "/file").about(file))?.granted()?.etag()
    }

    /// Writes a file, exactly so; the version that is there then.
    pub(super) fn write(
        &self,
        actor: &Actor,
        file: &TreePath,
        bytes: &[u8],
        condition: ExpectedVersion,
    ) -> Result<ETag, Fault> {
        let ask = ApiRequest { body: Some(bytes), query: "exact=true", ..ApiRequest::new(Method::PUT, "/file") };
        let ask = ask.about(file).by(actor).under(condition);
        let answer = self.ask(&ask.with(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")))?;
        let is_refused = matches!(answer.status, StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED);
        if is_refused && answer.is_again && self.version(file)? == ETag::from_content(bytes) {
            return Ok(ETag::from_content(bytes));
        }
        answer.granted()?.etag()
    }

    /// Makes a symbolic link where nothing is.
    pub(super) fn link(&self, actor: &Actor, link: &TreePath, target: &str) -> Result<(), Fault> {
        let ask = ApiRequest { body: Some(target.as_bytes()), ..ApiRequest::new(Method::PUT, "/file") };
        let ask = ask.about(link).by(actor).under(ExpectedVersion::Absent);
        self.ask(&ask.with(CONTENT_TYPE, HeaderValue::from_static("application/x-symlink")))?.granted()?;
        Ok(())
    }

    /// Where a symbolic link points.
    pub(super) fn target(&self, link: &TreePath) -> Result<Bytes, Fault> {
        Ok(self.ask(&ApiRequest::new(Method::GET, "/readlink").about(link))?.granted()?.body.into())
    }

    /// Removes a file or link of a version, or whatever is there, such as an empty directory. False when something else is there by now:
    /// the answer to the first try was lost, and the second one is refused.
    pub(super) fn remove(&self, actor: &Actor, path: &TreePath, version: Option<ETag>) -> Result<bool, Fault> {
        let mut ask = ApiRequest::new(Method::DELETE, "/file").about(path).by(actor);
        if let Some(etag) = version {
            ask = ask.under(ExpectedVersion::Version(etag));
        }
        let answer = self.ask(&ask)?;
        match answer.status {
            StatusCode::NOT_FOUND if answer.is_again => Ok(true),
            StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED if answer.is_again && version.is_some() => Ok(false),
            _ => answer.granted().map(|_| true),
        }
    }

    /// Gives a file another name; `replaced` is the version it may replace there. The answer is its version then, which is another one where its
    /// links were led on, and whether other pages may have been changed with it; none when that is not known.
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
        let ask = ApiRequest { body: Some(body.as_bytes()), ..ApiRequest::new(Method::POST, "/rename") };
        let answer = self.ask(&ask.by(actor).with(CONTENT_TYPE, HeaderValue::from_static("application/json")))?;
        // Gone from the old name, and something is at the new one: that was we.
        if answer.is_again && answer.status == StatusCode::NOT_FOUND && self.look(to)?.is_some() {
            return Ok(None);
        }
        let answer = answer.granted()?;
        // It is done, whatever else the answer says.
        let (told, etag) = (answer.json::<RenameResponse>(), answer.etag());
        Ok(told.and_then(|told| Ok((etag?, told.updated_links > 0))).ok())
    }

    /// Opens the event stream, from now on. Not asked again: who follows it decides when.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn events(&self) -> Result<BodyReader<'static>, Fault> {
        let response =
            self.send(&self.stream, &ApiRequest::new(Method::GET, "/events")).map_err(|error| away(&error))?;
        self.reach.connected();
        if response.status() != StatusCode::OK {
            return Err(Fault::new(Kind::Upstream, format!("no event stream: {}", response.status())));
        }
        Ok(response.into_body().into_reader())
    }

    /// Asks until there is an answer, or patience is at its end.
    fn ask(&self, ask: &ApiRequest<'_>) -> Result<ApiResponse, Fault> {
        let patience = match self.reach.enter(self.patience)? {
            RetryMode::Patient => self.patience,
            RetryMode::Once => Duration::ZERO,
        };
        let deadline = Instant::now() + patience;
        let mut is_again = false;
        loop {
            let (fault, pause, is_answered) =
                match self.send(&self.agent, ask).and_then(|response| taken(response, ask, is_again)) {
                    Ok(answer) => {
                        self.reach.heard();
                        let Some(pause) = busy(&answer) else { return Ok(answer) };
                        (answer.fault(), pause, true)
                    }
                    Err(ureq::Error::BodyExceedsLimit(limit)) => {
                        self.reach.heard();
                        return Err(Fault::too_large("file", usize::try_from(limit).unwrap_or(usize::MAX)));
                    }
                    Err(error) if is_distrust(&error) => return Err(distrusted(&error)),
                    Err(error) => {
                        is_again |= !is_unheard(&error);
                        (away(&error), PAUSE, false)
                    }
                };
            if Instant::now() + pause > deadline {
                if !is_answered {
                    self.reach.lost(&fault);
                }
                return Err(fault);
            }
            self.reach.wait(pause);
        }
    }

    fn send(&self, agent: &Agent, ask: &ApiRequest<'_>) -> Result<Response<Body>, ureq::Error> {
        let mut address = format!("{}{}?{}", self.base, ask.route, ask.query);
        if let Some(path) = ask.path {
            address.push_str("&path=");
            address.extend(percent_encoding::utf8_percent_encode(path.as_str(), percent_encoding::NON_ALPHANUMERIC));
        }
        let mut request = Request::builder().method(ask.method.clone()).uri(address);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
            headers.extend(ask.headers.clone());
        }
        match ask.body {
            Some(body) => agent.run(request.body(body)?),
            None => agent.run(request.body(())?),
        }
    }
}

fn taken(response: Response<Body>, ask: &ApiRequest<'_>, is_again: bool) -> Result<ApiResponse, ureq::Error> {
    let (head, body) = response.into_parts();
    let body = body.into_with_config().limit(ask.limit).read_to_vec()?;
    Ok(ApiResponse { status: head.status, headers: head.headers, body, is_again })
}

/// How long a server that is busy asks to be left alone.
fn busy(answer: &ApiResponse) -> Option<Duration> {
    if !matches!(answer.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let asked = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Some(asked.map_or(PAUSE, Duration::from_secs))
}

/// Whether a request that failed so was certainly not heard.
fn is_unheard(error: &ureq::Error) -> bool {
    use ureq::Timeout::{Connect, Resolve};
    matches!(error, ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Timeout(Connect | Resolve))
        || matches!(error, ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Whether the server's certificate is the trouble, which waiting does not mend.
fn is_distrust(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Rustls(_) => true,
        ureq::Error::Io(error) => error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()),
        _ => false,
    }
}

fn distrusted(error: &ureq::Error) -> Fault {
    let help =
        "make the authority that signed it one of this machine's, or name its file in the variable SSL_CERT_FILE";
    Fault::new(Kind::Upstream, format!("no secure connection: {error}; {help}"))
}

fn away(error: &ureq::Error) -> Fault {
    Fault::new(Kind::Upstream, format!("the server cannot be reached: {error}"))
}

fn odd(what: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Upstream, format!("this is no svcfs server, or one of another version: {what}"))
}
