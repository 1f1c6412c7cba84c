//! Requests that svcfs sends to others: bounded in time and size, never led elsewhere by the answer.
//!
//! Blocking, like the core that asks. What it is for so far is what the operator names in the settings; addresses that callers name will need
//! the rule of gaps.md D24 (nothing private unless `net.allow` says so) before they may come here.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

/// Longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// How https is spoken, by everything here that speaks it: with the machine's own certificates.
#[must_use]
pub fn tls_config() -> TlsConfig {
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

/// Asks other servers.
#[derive(Debug, Clone)]
pub struct NetClient(Agent);

/// Why another server's answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// It did not come, or not whole, or too late, or it was a redirect or an error.
    #[error("`{url}` could not be fetched: {source}")]
    Fetch {
        /// What was asked for.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// It is not what was expected.
    #[error("the answer of `{url}` is not what it should be: {source}")]
    Decode {
        /// What was asked for.
        url: String,
        /// Where it is different.
        source: serde_json::Error,
    },
}

impl NetClient {
    /// One that waits at most so long for a whole answer.
    #[must_use]
    pub fn with_timeout(patience: Duration) -> Self {
        let agent = Agent::config_builder()
            .tls_config(tls_config())
            .user_agent(concat!("svcfs/", env!("CARGO_PKG_VERSION")))
            .max_redirects(0)
            .timeout_global(Some(patience))
            .build()
            .new_agent();
        Self(agent)
    }

    /// The JSON that lies at `url`, a mebibyte at most.
    ///
    /// # Errors
    /// [`Error`], which names the URL.
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
