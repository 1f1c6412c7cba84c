//! What remote embedders and remote vector stores have in common: requests with retries, and errors
//! that say what to do.

#[cfg(test)]
pub(crate) mod fake;
mod options;

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use serde::de::DeserializeOwned;
use svcfs_net::{NetError, ServiceClient, ServiceMethod, ServiceRequest, ServiceResponse};

pub use options::{OptionError, Secret};
pub(crate) use options::{checked_headers, checked_url, option_error};

/// Largest response that is read: 2,048 vectors of 1,536 numbers, written with 12 digits.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;
/// The same for one vector, or for the result of a search: many may run at a time.
const MAX_INTERACTIVE_BYTES: u64 = 4 << 20;
/// Part of a service's own error message that is shown.
const MAX_EXCERPT_CHARS: usize = 300;

/// Longest wait for a response while a person waits for the result of a search: each search has one
/// of the places of the server until then.
pub(crate) const MAX_INTERACTIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a request is repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryPolicy {
    max_retries: usize,
    /// Wait before the first retry; the next ones double it, with jitter.
    min_delay: Duration,
    /// A service that asks for a longer wait gets no retry; the caller learns the wait.
    max_delay: Duration,
    /// Whether a request without a response is repeated, too. It may have waited for the timeout.
    retries_timeouts: bool,
}

impl RetryPolicy {
    /// For work in the background.
    pub const BACKGROUND: Self = Self {
        max_retries: 3,
        min_delay: Duration::from_millis(500),
        max_delay: Duration::from_secs(20),
        retries_timeouts: true,
    };
    /// While a person waits for the result of a search.
    pub const INTERACTIVE: Self = Self {
        max_retries: 1,
        min_delay: Duration::from_millis(100),
        max_delay: Duration::from_secs(1),
        retries_timeouts: false,
    };

    /// The waits before the retries.
    fn delays(self) -> impl Iterator<Item = Duration> {
        let exponential = ExponentialBuilder::default().with_min_delay(self.min_delay).with_max_delay(self.max_delay);
        exponential.with_max_times(self.max_retries).with_jitter().build()
    }

    /// The wait before a retry, if the error permits one.
    fn delay_after(self, error: &ApiError, delay: Duration) -> Option<Duration> {
        if !error.is_transient || (error.is_timeout && !self.retries_timeouts) {
            return None;
        }
        let delay = error.retry_after.map_or(delay, |requested| requested.max(delay));
        (delay <= self.max_delay).then_some(delay)
    }
}

/// Why a request to a service failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    /// The service, the URL, what failed, and what to do.
    pub message: String,
    /// The status of the response; none without one.
    pub status: Option<u16>,
    /// Whether the same request may succeed later.
    pub is_transient: bool,
    /// Whether there was no response in time.
    pub is_timeout: bool,
    /// How long the service asked to wait.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// An error that stays until the settings or the service change.
    pub fn permanent(message: String) -> Self {
        Self { message, status: None, is_transient: false, is_timeout: false, retry_after: None }
    }
}

/// The outcome of a request for something that may be missing: none after 404.
pub(crate) fn if_exists<T>(outcome: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match outcome {
        Err(error) if error.status == Some(404) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Sends requests to one service.
pub(crate) struct ApiClient {
    /// The name of the service in messages.
    service: &'static str,
    /// The table of the service in the settings.
    settings: &'static str,
    client: ServiceClient,
    /// With a timeout for requests while a person waits.
    interactive: ServiceClient,
    headers: Vec<(String, String)>,
    /// Removed from messages: a service may repeat the key that it refuses.
    secrets: Vec<Secret>,
}

impl ApiClient {
    pub fn new(service: &'static str, settings: &'static str, timeout: Duration) -> Self {
        let client = ServiceClient::new(timeout, MAX_RESPONSE_BYTES);
        let interactive = ServiceClient::new(timeout.min(MAX_INTERACTIVE_TIMEOUT), MAX_INTERACTIVE_BYTES);
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { service, settings, client, interactive, headers, secrets: Vec::new() }
    }

    /// Adds a header with a secret value; `prefix` comes before the secret.
    #[must_use]
    pub fn with_key(mut self, name: &str, prefix: &str, key: Option<&Secret>) -> Self {
        if let Some(key) = key {
            self.headers.push((name.to_owned(), format!("{prefix}{}", key.expose())));
            self.secrets.push(key.clone());
        }
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds headers of the settings.
    #[must_use]
    pub fn with_headers(mut self, headers: &[(String, Secret)]) -> Self {
        for (name, value) in headers {
            self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            self.headers.push((name.clone(), value.expose().to_owned()));
            self.secrets.push(value.clone());
        }
        self
    }

    /// A request with a JSON body.
    pub fn request(&self, method: ServiceMethod, url: &str, body: &impl serde::Serialize) -> ServiceRequest {
        // Only maps with keys that are no texts cannot be written as JSON.
        let body = serde_json::to_vec(body).unwrap_or_default();
        ServiceRequest { method, url: url.to_owned(), headers: self.headers.clone(), body }
    }

    /// A request without a body.
    pub fn empty_request(&self, method: ServiceMethod, url: &str) -> ServiceRequest {
        ServiceRequest { method, url: url.to_owned(), headers: self.headers.clone(), body: Vec::new() }
    }

    /// Sends a request, with retries. `sign` changes each attempt, for credentials that expire.
    pub fn send_signed(
        &self,
        request: &ServiceRequest,
        policy: RetryPolicy,
        sign: impl Fn(&mut ServiceRequest) -> Result<(), ApiError>,
    ) -> Result<Vec<u8>, ApiError> {
        let mut delays = policy.delays();
        loop {
            let mut signed = request.clone();
            let error = match sign(&mut signed).and_then(|()| self.attempt(&signed, policy)) {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            match delays.next().and_then(|delay| policy.delay_after(&error, delay)) {
                Some(delay) => wait(delay),
                None => return Err(error),
            }
        }
    }

    /// Sends a request, with retries.
    pub fn send(&self, request: &ServiceRequest, policy: RetryPolicy) -> Result<Vec<u8>, ApiError> {
        self.send_signed(request, policy, |_| Ok(()))
    }

    /// Sends a request, with retries, and reads the JSON of its response.
    pub fn call<T: DeserializeOwned>(&self, request: &ServiceRequest, policy: RetryPolicy) -> Result<T, ApiError> {
        let body = self.send(request, policy)?;
        serde_json::from_slice(&body).map_err(|error| self.unexpected(&request.url, &error.to_string()))
    }

    /// The error for a response that is not what the service documents.
    pub fn unexpected(&self, url: &str, reason: &str) -> ApiError {
        let (service, settings, url) = (self.service, self.settings, ServiceClient::displayed_url(url));
        ApiError::permanent(format!(
            "{service}: the response of `{url}` is unusable: {}; check `{settings}.provider` and the URL",
            self.excerpt(reason)
        ))
    }

    fn attempt(&self, request: &ServiceRequest, policy: RetryPolicy) -> Result<Vec<u8>, ApiError> {
        let client = if policy.retries_timeouts { &self.client } else { &self.interactive };
        match client.send(request) {
            Ok(response) if (200..300).contains(&response.status) => Ok(response.body),
            Ok(response) => Err(self.refusal(&request.url, &response)),
            Err(error) => Err(self.failure(&error)),
        }
    }

    fn failure(&self, error: &NetError) -> ApiError {
        ApiError {
            message: format!("{}: {}", self.service, self.excerpt(&error.to_string())),
            status: None,
            is_transient: error.is_transient(),
            is_timeout: error.is_timeout(),
            retry_after: None,
        }
    }

    fn refusal(&self, url: &str, response: &ServiceResponse) -> ApiError {
        let (service, settings, status) = (self.service, self.settings, response.status);
        let advice = match status {
            300..=399 => match &response.location {
                Some(location) => format!("redirects are not followed; set the URL in `{settings}` to `{location}`"),
                None => format!("redirects are not followed; correct the URL in `{settings}`"),
            },
            401 | 403 => format!("check `{settings}.api_key` or the credentials, and their rights"),
            404 | 405 => format!("check the URL and the names in `{settings}`"),
            408 | 429 => "svcfs tries again later; a lower `search.vector.worker_count` sends less".to_owned(),
            413 => "the request is too large for the service; lower `search.vector.chunk.size`".to_owned(),
            500..=599 => "svcfs tries again later".to_owned(),
            _ => format!("check `{settings}`"),
        };
        let reason = self.excerpt(&error_text(&response.body));
        let reason = if reason.is_empty() { reason } else { format!(" ({reason})") };
        let url = ServiceClient::displayed_url(url);
        ApiError {
            message: format!("{service} answers {status} at `{url}`{reason}; {advice}"),
            status: Some(status),
            is_transient: matches!(status, 408 | 425 | 429 | 500..=599),
            is_timeout: false,
            retry_after: response.retry_after,
        }
    }

    /// A text of the service in one line, shortened and without the secrets of the request.
    fn excerpt(&self, text: &str) -> String {
        let text = self.secrets.iter().fold(text.to_owned(), |text, secret| secret.remove_from(&text));
        let words: Vec<&str> =
            text.split(|character: char| character.is_whitespace() || character.is_control()).collect();
        let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(MAX_EXCERPT_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

/// The message in the body of an error: services agree on JSON, and not on its form.
fn error_text(body: &[u8]) -> String {
    const POINTERS: [&str; 8] = [
        "/error/message",
        "/error/0/message",
        "/status/error",
        "/error",
        "/message",
        "/Message",
        "/detail",
        "/errors/0",
    ];
    let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = json.and_then(|json| POINTERS.iter().find_map(|at| Some(json.pointer(at)?.as_str()?.to_owned())));
    message.unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(4 * MAX_EXCERPT_CHARS)]).into_owned())
}

#[expect(clippy::disallowed_methods, reason = "the wait is for a service elsewhere, and bounded by the policy")]
fn wait(delay: Duration) {
    std::thread::sleep(delay);
}

#[cfg(test)]
mod tests;
