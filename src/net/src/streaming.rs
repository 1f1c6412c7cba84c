//! Requests whose answers are read as they come, such as event streams.

use std::io::Read;
use std::time::Duration;

use ureq::Agent;
use ureq::http::{HeaderMap, StatusCode};

use crate::{NetError, USER_AGENT, tls_config};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_IDLE_CONNECTIONS: usize = 32;

/// Sends texts to a server that the user chose.
#[derive(Debug, Clone)]
pub struct StreamingClient(Agent);

/// An answer. Its status may be that of an error.
pub struct StreamingAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as it comes.
    pub body: Box<dyn Read>,
}

impl StreamingClient {
    /// A client that waits this long for the beginning of an answer, and for each part of it.
    #[must_use]
    pub fn new(answer_timeout: Duration, read_timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .tls_config(tls_config())
            .user_agent(USER_AGENT)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(MAX_IDLE_CONNECTIONS)
            .max_idle_connections_per_host(MAX_IDLE_CONNECTIONS)
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(answer_timeout))
            .timeout_per_read(Some(read_timeout))
            .build();
        Self(config.new_agent())
    }

    /// Posts a body.
    ///
    /// # Errors
    /// `Fetch` when the server cannot be reached or does not answer in time.
    pub fn post(&self, url: &str, headers: &HeaderMap, body: &[u8]) -> Result<StreamingAnswer, NetError> {
        let mut request = self.0.post(url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let to_error = |source: ureq::Error| NetError::Fetch { url: url.to_owned(), source: Box::new(source) };
        let (head, body) = request.send(body).map_err(to_error)?.into_parts();
        Ok(StreamingAnswer { status: head.status, headers: head.headers, body: Box::new(body.into_reader()) })
    }
}
