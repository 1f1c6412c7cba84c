//! The first request of a mount: whether an svcfs server answers, and if not, why.
//!
//! Invariant: no retries. Whoever mounts waits for the answer, and most problems (a mistyped
//! address, scheme or port, a missing token) do not go away.

use std::io;
use std::time::Duration;

use svcfs_base::{Fault, Kind, TreePath};
use ureq::http::header::LOCATION;
use ureq::http::{StatusCode, Uri};
use ureq::{Agent, Error};

use super::client::{ApiClient, ApiResponse, RemoteEntry, busy_interval};
use super::request_errors::{protocol_error, rustls_error, tls_error};

/// Timeout of the request that finds out which of HTTP and TLS the port speaks.
const SCHEME_TIMEOUT: Duration = Duration::from_secs(2);

/// The only thing of this request that an svcfs server may not find.
const SPACE_NOT_FOUND: &str = "space not found";

impl ApiClient {
    /// Checks that an svcfs server answers and lets this client list the top of the tree.
    ///
    /// # Errors
    /// `Upstream`, with the cause, when no svcfs server answers; else the server's refusal.
    pub(super) fn check_server(&self) -> Result<(), Fault> {
        let root = TreePath::root();
        match self.send_once(&Self::list_request(&root)) {
            // svcfs itself: it is starting, or has much to do.
            Ok(response) if busy_interval(&response).is_some() && response.error_message().is_some() => {
                self.list(&root).map(drop)
            }
            Ok(response) => self.check_response(&response),
            Err(error) => Err(self.explain(&error)),
        }
    }

    fn check_response(&self, response: &ApiResponse) -> Result<(), Fault> {
        if response.status.is_success() {
            return response.json::<Vec<RemoteEntry>>().map(drop);
        }
        if let Some(message) = response.error_message() {
            let fault = response.fault();
            let is_elsewhere = fault.kind() == Kind::NotFound && !message.starts_with(SPACE_NOT_FOUND);
            let advice = "check the address: the API of an svcfs server is at /api/svc below it";
            return Err(if is_elsewhere { protocol_error(format_args!("{message}; {advice}")) } else { fault });
        }
        let status = response.status;
        if let Some(target) = response.headers.get(LOCATION).filter(|_| status.is_redirection()) {
            let target = String::from_utf8_lossy(target.as_bytes()).into_owned();
            let target = target.split("/api/svc").next().unwrap_or_default().to_owned();
            return Err(upstream(format!("the server redirects to {target}; mount that address")));
        }
        if status == StatusCode::BAD_REQUEST && self.speaks_other_scheme() {
            return Err(self.other_scheme());
        }
        let is_proxy = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
        Err(match is_proxy.contains(&status) {
            true => upstream(format!("a proxy answers with {status}: svcfs behind it does not run")),
            false => protocol_error(format_args!("it answers with {status}")),
        })
    }

    fn explain(&self, error: &Error) -> Fault {
        let address = self.authority();
        if let Some(problem) = rustls_error(error) {
            return match matches!(problem, rustls::Error::InvalidMessage(_)) {
                true if self.speaks_other_scheme() => self.other_scheme(),
                true => protocol_error(format_args!("{address} does not speak TLS")),
                false => tls_error(error),
            };
        }
        match error {
            Error::HostNotFound => unreachable(format!("the host name of {address} is not known; check its spelling")),
            Error::Timeout(_) => {
                let seconds = self.timeout.as_secs_f64();
                unreachable(format!("{address} does not answer within {seconds} s; check address and firewall"))
            }
            Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => unreachable(format!(
                "connection refused, nothing listens at {address}; check the port, and that the server runs"
            )),
            // The resolver's errors have no kind.
            Error::Io(error) if error.to_string().contains("lookup address") => {
                unreachable(format!("the host name of {address} cannot be resolved: {error}"))
            }
            // What was answered is no HTTP, or the connection was closed.
            Error::Io(_) | Error::Protocol(_) if self.speaks_other_scheme() => self.other_scheme(),
            Error::Protocol(error) => protocol_error(error),
            error => unreachable(format!("{address}: {error}")),
        }
    }

    /// Whether the port speaks HTTP although the address is `https`, or TLS although it is `http`.
    fn speaks_other_scheme(&self) -> bool {
        let (is_https, rest) = match self.base_url.split_once("://") {
            Some((scheme, rest)) => (scheme == "https", rest),
            None => return false,
        };
        let agent = Agent::config_builder()
            .tls_config(svcfs_net::tls_config())
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(SCHEME_TIMEOUT))
            .build()
            .new_agent();
        match agent.get(format!("{}://{rest}/tree", if is_https { "http" } else { "https" })).call() {
            Ok(_) => true,
            // A certificate that is not trusted is TLS, too.
            Err(error) => rustls_error(&error)
                .is_some_and(|problem| !is_https && !matches!(problem, rustls::Error::InvalidMessage(_))),
        }
    }

    fn other_scheme(&self) -> Fault {
        let authority = self.authority();
        upstream(match self.base_url.starts_with("https") {
            true => format!("the server speaks plain HTTP, without TLS: use http://{authority}"),
            false => format!("the server speaks HTTPS: use https://{authority}"),
        })
    }

    /// Host and port.
    fn authority(&self) -> String {
        let authority = |uri: Uri| uri.authority().map(ToString::to_string);
        self.base_url.parse().ok().and_then(authority).unwrap_or_default()
    }
}

fn upstream(message: String) -> Fault {
    Fault::new(Kind::Upstream, message)
}

fn unreachable(cause: String) -> Fault {
    upstream(format!("the server cannot be reached: {cause}"))
}
