//! Requests to the API of a service that the operator names in the settings.

use std::time::Duration;

use ureq::http::{StatusCode, header};
use ureq::{Agent, Body, RequestBuilder};

use crate::outgoing::{displayed, parse_url, to_net_error};
use crate::{NetError, USER_AGENT, tls_config};

/// Largest part of an error response that is read, in bytes.
const MAX_ERROR_BYTES: u64 = 64 << 10;

/// Method of a [`ServiceRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceMethod {
    /// Reads.
    Get,
    /// Sends a body.
    Post,
    /// Sends a body that replaces what is there.
    Put,
    /// Removes; may have a body.
    Delete,
}

/// A request to a service.
#[derive(Clone)]
pub struct ServiceRequest {
    /// Its method.
    pub method: ServiceMethod,
    /// Its complete URL.
    pub url: String,
    /// Its headers. Their values may be secrets.
    pub headers: Vec<(String, String)>,
    /// Its body; empty for [`ServiceMethod::Get`].
    pub body: Vec<u8>,
}

/// The response of a service, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceResponse {
    /// The status.
    pub status: u16,
    /// When the service accepts the next request (`Retry-After`, in seconds).
    pub retry_after: Option<Duration>,
    /// Where a redirect leads, without its query.
    pub location: Option<String>,
    /// The body; of an error, its beginning.
    pub body: Vec<u8>,
}

/// HTTP client for services that the operator names. It reaches private addresses, because services
/// often run beside svcfs, and follows no redirects: the credentials are for one host.
#[derive(Debug, Clone)]
pub struct ServiceClient {
    agent: Agent,
    max_bytes: u64,
}

impl ServiceClient {
    /// A client with a timeout and a limit for each response.
    #[must_use]
    pub fn new(timeout: Duration, max_bytes: u64) -> Self {
        let config = Agent::config_builder()
            .tls_config(tls_config())
            .user_agent(USER_AGENT)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(timeout))
            .build();
        Self { agent: config.new_agent(), max_bytes }
    }

    /// Checks the form of a URL: `http` or `https`, a host, no user name.
    ///
    /// # Errors
    /// [`NetError::InvalidUrl`].
    pub fn check_url(url: &str) -> Result<(), NetError> {
        parse_url(url).map(drop)
    }

    /// A URL as it may be shown: without its query, which may contain credentials.
    #[must_use]
    pub fn displayed_url(url: &str) -> String {
        displayed(url)
    }

    /// Sends a request and reads its response.
    ///
    /// # Errors
    /// [`NetError`] if there is no response, or if it is too large; a status is no error.
    pub fn send(&self, request: &ServiceRequest) -> Result<ServiceResponse, NetError> {
        let url = request.url.as_str();
        let uri = parse_url(url)?;
        let result = match request.method {
            ServiceMethod::Get => with_headers(self.agent.get(uri), &request.headers).call(),
            ServiceMethod::Post => with_headers(self.agent.post(uri), &request.headers).send(&request.body[..]),
            ServiceMethod::Put => with_headers(self.agent.put(uri), &request.headers).send(&request.body[..]),
            ServiceMethod::Delete => {
                with_headers(self.agent.delete(uri), &request.headers).force_send_body().send(&request.body[..])
            }
        };
        let mut response = result.map_err(|error| to_net_error(url, error))?;
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after = header(header::RETRY_AFTER).and_then(|value| value.trim().parse().ok());
        let location = header(header::LOCATION).map(displayed);
        let body = self.read_body(status, response.body_mut()).map_err(|error| to_net_error(url, error))?;
        Ok(ServiceResponse {
            status: status.as_u16(),
            retry_after: retry_after.map(Duration::from_secs),
            location,
            body,
        })
    }

    fn read_body(&self, status: StatusCode, body: &mut Body) -> Result<Vec<u8>, ureq::Error> {
        if status.is_success() {
            return body.with_config().limit(self.max_bytes).read_to_vec();
        }
        // The status says enough: a long or broken text of an error does not hide it.
        let mut text = Vec::new();
        let mut reader = std::io::Read::take(body.as_reader(), MAX_ERROR_BYTES);
        let _is_incomplete = std::io::Read::read_to_end(&mut reader, &mut text);
        Ok(text)
    }
}

fn with_headers<B>(request: RequestBuilder<B>, headers: &[(String, String)]) -> RequestBuilder<B> {
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

#[cfg(test)]
mod tests;
