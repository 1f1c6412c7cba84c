//! Large objects of another server, at signed URLs: read, written and removed.

use std::io::{self, Write};
use std::time::Duration;

use ureq::{Agent, AsSendBody, Body};

use crate::{NetError, tls_config};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a response, after the request was sent.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// Timeout of an object that is sent or received.
const BODY_TIMEOUT: Duration = Duration::from_secs(3600);

/// HTTP client for objects. A URL is in errors without its query, which has the signature.
#[derive(Debug, Clone)]
pub struct ObjectClient(Agent);

impl Default for ObjectClient {
    fn default() -> Self {
        Self::new()
    }
}

impl ObjectClient {
    /// A client that follows no redirects: the URL is signed for one host.
    #[must_use]
    pub fn new() -> Self {
        let agent = Agent::config_builder()
            .tls_config(tls_config())
            .user_agent(crate::USER_AGENT)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(RESPONSE_TIMEOUT))
            .timeout_send_body(Some(BODY_TIMEOUT))
            .timeout_recv_body(Some(BODY_TIMEOUT))
            .http_status_as_error(false)
            .build()
            .new_agent();
        Self(agent)
    }

    /// Writes an object into `to`.
    ///
    /// # Errors
    /// [`NetError`], also when the object is incomplete or `to` cannot be written.
    pub fn get(&self, url: &str, to: &mut impl Write) -> Result<(), NetError> {
        let mut answer = checked(url, self.0.get(url).call())?;
        let copied = io::copy(&mut answer.body_mut().as_reader(), to);
        copied.map(drop).map_err(|error| failed(url, ureq::Error::Io(error)))
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// [`NetError`].
    pub fn put(&self, url: &str, content: impl AsSendBody) -> Result<(), NetError> {
        checked(url, self.0.put(url).send(content)).map(drop)
    }

    /// The size of an object.
    ///
    /// # Errors
    /// [`NetError`].
    pub fn size(&self, url: &str) -> Result<u64, NetError> {
        let answer = checked(url, self.0.head(url).call())?;
        let size = answer.headers().get("content-length").and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(size.unwrap_or_default())
    }

    /// Removes an object.
    ///
    /// # Errors
    /// [`NetError`].
    pub fn delete(&self, url: &str) -> Result<(), NetError> {
        checked(url, self.0.delete(url).call()).map(drop)
    }
}

fn checked(
    url: &str,
    answer: Result<ureq::http::Response<Body>, ureq::Error>,
) -> Result<ureq::http::Response<Body>, NetError> {
    let answer = answer.map_err(|error| failed(url, error))?;
    let status = answer.status();
    if status.is_success() { Ok(answer) } else { Err(failed(url, ureq::Error::StatusCode(status.as_u16()))) }
}

fn failed(url: &str, source: ureq::Error) -> NetError {
    let url = url.split('?').next().unwrap_or_default().to_owned();
    NetError::Fetch { url, source: Box::new(source) }
}
