//! Embedders of remote services. `remote_embedder.rs` has what they share: batches, retries and
//! checks; each service has a file that writes its requests and reads its responses.

mod batches;
mod bedrock;
mod cohere;
mod generic_http;
mod ollama;
mod openai;
mod remote_embedder;
mod service_account;
#[cfg(test)]
mod tests;
mod vertex;
mod voyage;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::embedder::Embedder;
use crate::remote::{ApiClient, OptionError, Secret, checked_headers, checked_url, option_error};
use remote_embedder::RemoteEmbedder;

/// The table of the embedder in the settings, for messages.
const SETTINGS: &str = "search.vector.embedder";
/// Timeout of a request without `search.vector.embedder.timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Larger files are no credentials.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A service that computes vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedderProvider {
    /// The API of `OpenAI`, which many servers speak.
    OpenAi,
    /// The same API as Azure serves it.
    AzureOpenAi,
    /// A server of Ollama.
    Ollama,
    /// Cohere.
    Cohere,
    /// Voyage AI.
    Voyage,
    /// Any server that answers `{texts}` with `{vectors}`.
    Http,
    /// Amazon Bedrock.
    Bedrock,
    /// Google Vertex AI.
    Vertex,
}

impl EmbedderProvider {
    /// All providers and their names in the settings.
    pub const ALL: [(Self, &str); 8] = [
        (Self::OpenAi, "openai"),
        (Self::AzureOpenAi, "azure-openai"),
        (Self::Ollama, "ollama"),
        (Self::Cohere, "cohere"),
        (Self::Voyage, "voyage"),
        (Self::Http, "http"),
        (Self::Bedrock, "bedrock"),
        (Self::Vertex, "vertex"),
    ];

    /// The provider with a name of the settings.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(provider, _)| *provider)
    }

    /// Its name in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(provider, _)| *provider == self).map_or("", |(_, name)| name)
    }
}

/// The settings `search.vector.embedder.*`. Keys that the provider does not use must be absent.
#[derive(Debug, Clone)]
pub struct EmbedderOptions {
    /// The service.
    pub provider: EmbedderProvider,
    /// The model; each service has a default.
    pub model: Option<String>,
    /// The key of the service.
    pub api_key: Option<Secret>,
    /// The length of the vectors, which is checked and, where the service can, requested.
    pub dimensions: Option<NonZeroUsize>,
    /// Timeout of a request.
    pub timeout: Duration,
    /// The service, where it is not the public one.
    pub base_url: Option<String>,
    /// The complete URL of the requests.
    pub url: Option<String>,
    /// The region of Bedrock.
    pub region: Option<String>,
    /// The project of Vertex.
    pub project: Option<String>,
    /// The location of Vertex.
    pub location: Option<String>,
    /// More headers.
    pub headers: Vec<(String, Secret)>,
    /// The keys of Bedrock, as `aws configure` writes them, or the service account of Vertex.
    pub credentials_file: Option<PathBuf>,
}

impl EmbedderOptions {
    /// Options with the defaults of a provider.
    #[must_use]
    pub fn new(provider: EmbedderProvider) -> Self {
        Self {
            provider,
            model: None,
            api_key: None,
            dimensions: None,
            timeout: DEFAULT_TIMEOUT,
            base_url: None,
            url: None,
            region: None,
            project: None,
            location: None,
            headers: Vec::new(),
            credentials_file: None,
        }
    }

    fn model_or(&self, default: &str) -> String {
        self.model.clone().unwrap_or_else(|| default.to_owned())
    }

    fn base_url_or(&self, default: &str) -> Result<String, OptionError> {
        self.base_url.as_deref().map_or_else(|| Ok(default.to_owned()), |url| checked_url(SETTINGS, "base_url", url))
    }

    /// The key, where the service demands one.
    fn required_key(&self) -> Result<&Secret, OptionError> {
        self.api_key.as_ref().ok_or_else(|| {
            let name = self.provider.name().to_uppercase().replace('-', "_");
            option_error(SETTINGS, "api_key", format!("is missing; write for example \"${{{name}_API_KEY}}\""))
        })
    }

    fn client(&self, service: &'static str) -> ApiClient {
        ApiClient::new(service, SETTINGS, self.timeout)
    }

    /// Refuses what is empty, malformed or without effect.
    fn check(&self) -> Result<(), OptionError> {
        use EmbedderProvider::{AzureOpenAi, Bedrock, Http, OpenAi, Vertex};
        let uses: [(&str, bool, &[EmbedderProvider]); 5] = [
            ("url", self.url.is_some(), &[Http, OpenAi, AzureOpenAi]),
            ("region", self.region.is_some(), &[Bedrock]),
            ("project", self.project.is_some(), &[Vertex]),
            ("location", self.location.is_some(), &[Vertex]),
            ("credentials_file", self.credentials_file.is_some(), &[Bedrock, Vertex]),
        ];
        for (key, is_set, providers) in uses {
            if is_set && !providers.contains(&self.provider) {
                let reason = format!("has no effect with the provider `{}`; remove it", self.provider.name());
                return Err(option_error(SETTINGS, key, reason));
            }
        }
        for (key, value) in [("model", &self.model), ("region", &self.region), ("location", &self.location)] {
            let is_valid = |text: &String| !text.is_empty() && !text.contains(char::is_whitespace);
            if value.as_ref().is_some_and(|text| !is_valid(text)) {
                return Err(option_error(SETTINGS, key, "is empty or contains a space"));
            }
        }
        if self.timeout.is_zero() {
            return Err(option_error(SETTINGS, "timeout", "is 0; write for example \"30s\""));
        }
        if let Some(key) = &self.api_key {
            if key.expose().is_empty() {
                return Err(option_error(SETTINGS, "api_key", "is empty; set the environment variable that it names"));
            }
            checked_headers(SETTINGS, "api_key", &[("Authorization".to_owned(), key.clone())])?;
        }
        checked_headers(SETTINGS, "headers", &self.headers)
    }
}

/// A model on a server of one's own: another server may have another model of the same name. The
/// name is shown to readers, so the address is a hash.
fn model_at(model: &str, url: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{model}#{}", short_hash(&authority.to_ascii_lowercase()))
}

fn short_hash(text: &str) -> String {
    svcfs_base::to_hex(&Sha256::digest(text.as_bytes())[..4])
}

/// The embedder that settings describe. Nothing is sent before the first text.
///
/// # Errors
/// [`OptionError`], which names the key.
pub fn connect_embedder(options: &EmbedderOptions) -> Result<Arc<dyn Embedder>, OptionError> {
    options.check()?;
    let connected = match options.provider {
        EmbedderProvider::OpenAi | EmbedderProvider::AzureOpenAi => openai::connect(options)?,
        EmbedderProvider::Ollama => ollama::connect(options)?,
        EmbedderProvider::Cohere => cohere::connect(options)?,
        EmbedderProvider::Voyage => voyage::connect(options)?,
        EmbedderProvider::Http => generic_http::connect(options)?,
        EmbedderProvider::Bedrock => bedrock::connect(options)?,
        EmbedderProvider::Vertex => vertex::connect(options)?,
    };
    Ok(Arc::new(RemoteEmbedder::new(options, connected)))
}
