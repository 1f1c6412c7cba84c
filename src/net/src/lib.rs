//! HTTP requests to other servers, bounded in time and size. The clients are blocking, like the
//! core that uses them.
//!
//! [`NetClient`] and [`ServiceClient`] reach URLs that the operator names in the settings. URLs of
//! callers go through [`OutgoingClient`], which does not reach private addresses.

mod address_policy;
mod outgoing;

mod objects;
mod services;
mod streaming;

pub use objects::ObjectClient;

use std::sync::Arc;
use std::time::Duration;

use rustls_platform_verifier::BuilderVerifierExt;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

pub use address_policy::{AddressPolicy, AddressRefused};
pub use outgoing::{FetchedDocument, OutgoingClient, OutgoingLimits, PostAnswer, with_ascii_host};
pub use services::{ServiceClient, ServiceMethod, ServiceRequest, ServiceResponse};
pub use streaming::{StreamingAnswer, StreamingClient};

/// Largest response that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// `User-Agent` of all requests.
pub(crate) const USER_AGENT: &str = concat!("svcfs/", env!("CARGO_PKG_VERSION"));

/// TLS settings of all clients of the program: the certificates of the operating system.
#[must_use]
pub fn tls_config() -> TlsConfig {
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

/// TLS settings of connections that are not HTTP, with the same certificates.
///
/// # Errors
/// If the certificates of the operating system cannot be used.
pub fn rustls_config() -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_platform_verifier()?.with_no_client_auth())
}

/// HTTP client for other servers.
#[derive(Debug, Clone)]
pub struct NetClient(Agent);

/// Why a response cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The request failed, timed out, or got a redirect or an error status.
    #[error("`{url}` could not be fetched: {source}; check the URL and the network")]
    Fetch {
        /// The requested URL.
        url: String,
        /// The cause.
        source: Box<ureq::Error>,
    },
    /// The body is not the expected JSON.
    #[error("the response of `{url}` is not the expected JSON: {source}")]
    Decode {
        /// The requested URL.
        url: String,
        /// The parse error.
        source: serde_json::Error,
    },
    /// The URL has no usable form.
    #[error("the URL `{url}` {reason}")]
    InvalidUrl {
        /// The URL.
        url: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The address may not be reached.
    #[error(transparent)]
    Refused(#[from] AddressRefused),
    /// The response is too large.
    #[error("the response of `{url}` is larger than {limit} bytes")]
    TooLarge {
        /// The requested URL.
        url: String,
        /// The limit.
        limit: u64,
    },
}

impl NetError {
    /// Whether a later attempt may succeed: the request timed out, or the network failed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Fetch { source, .. } => !matches!(**source, ureq::Error::BadUri(_) | ureq::Error::Http(_)),
            Self::Decode { .. } | Self::InvalidUrl { .. } | Self::Refused(_) | Self::TooLarge { .. } => false,
        }
    }

    /// Whether the time for the request was over before the response was complete.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Fetch { source, .. } if matches!(**source, ureq::Error::Timeout(_)))
    }

    /// The status with which the server answered; none without an answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Fetch { source, .. } => match **source {
                ureq::Error::StatusCode(status) => Some(status),
                _ => None,
            },
            Self::Decode { .. } | Self::InvalidUrl { .. } | Self::Refused(_) | Self::TooLarge { .. } => None,
        }
    }
}

impl NetClient {
    /// A client with a timeout for the whole response.
    #[must_use]
    pub fn with_timeout(timeout: Duration) -> Self {
        let agent = Agent::config_builder()
            .tls_config(tls_config())
            .user_agent(USER_AGENT)
            .max_redirects(0)
            .timeout_global(Some(timeout))
            .build()
            .new_agent();
        Self(agent)
    }

    /// The JSON at `url`, at most 1 MiB.
    ///
    /// # Errors
    /// [`NetError`], which names the URL.
    pub fn get_json<T: DeserializeOwned>(&self, url: &str) -> Result<T, NetError> {
        let failed = |source: ureq::Error| NetError::Fetch { url: url.to_owned(), source: Box::new(source) };
        let mut answer = self.0.get(url).header("Accept", "application/json").call().map_err(failed)?;
        if !answer.status().is_success() {
            return Err(failed(ureq::Error::StatusCode(answer.status().as_u16())));
        }
        let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec().map_err(failed)?;
        serde_json::from_slice(&body).map_err(|source| NetError::Decode { url: url.to_owned(), source })
    }
}
