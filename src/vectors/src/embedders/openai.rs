//! `OpenAI`, servers with the same API, and Azure.

use std::num::NonZeroUsize;

use serde_json::json;
use svcfs_net::{ServiceMethod, ServiceRequest};

use super::batches::RequestLimits;
use super::remote_embedder::{Connected, EmbeddingApi, IndexedVectors, parse};
use super::{EmbedderOptions, EmbedderProvider, SETTINGS, model_at};
use crate::embedder::{TextKind, Vector};
use crate::remote::{ApiClient, OptionError, checked_url, option_error};

const PUBLIC_URL: &str = "https://api.openai.com";
/// The version of the older API of Azure, if the URL names none.
const AZURE_VERSION: &str = "api-version=2024-10-21";
const DEFAULT_MODEL: &str = "text-embedding-3-small";

struct OpenAiApi {
    url: String,
    model: String,
    dimensions: Option<NonZeroUsize>,
}

pub(super) fn connect(options: &EmbedderOptions) -> Result<Connected, OptionError> {
    let is_azure = options.provider == EmbedderProvider::AzureOpenAi;
    let url = match &options.url {
        Some(url) => checked_url(SETTINGS, "url", url)?,
        None if is_azure && options.base_url.is_none() => {
            let reason = "is missing; write for example \"https://NAME.openai.azure.com\"";
            return Err(option_error(SETTINGS, "base_url", reason));
        }
        None if is_azure => azure_url(&options.base_url_or("")?),
        None => {
            let base = options.base_url_or(PUBLIC_URL)?;
            let base = base.strip_suffix("/v1").unwrap_or(&base);
            format!("{base}/v1/embeddings")
        }
    };
    // Servers in one's own network often need no key.
    if is_azure || url.starts_with(PUBLIC_URL) {
        options.required_key()?;
    }
    let client = match is_azure {
        true => options.client("Azure OpenAI").with_key("api-key", "", options.api_key.as_ref()),
        false => options.client("OpenAI").with_key("Authorization", "Bearer ", options.api_key.as_ref()),
    };
    let model = options.model_or(DEFAULT_MODEL);
    // The only model of OpenAI that refuses the parameter.
    let dimensions = options.dimensions.filter(|_| !model.contains("ada-002"));
    let identity = match deployment(&url) {
        Some(deployment) if is_azure => deployment.to_owned(),
        _ if is_azure || url.starts_with(&format!("{PUBLIC_URL}/")) => model.clone(),
        _ => model_at(&model, &url),
    };
    Ok((identity, Box::new(OpenAiApi { url, model, dimensions }), client))
}

/// What chooses the model in the older form of Azure: there, the service ignores `model`.
fn deployment(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("/openai/deployments/")?;
    rest.split(['/', '?']).next().filter(|name| !name.is_empty())
}

/// The URL of a resource (`https://NAME.openai.azure.com`) or, in the older form, of a deployment.
fn azure_url(base: &str) -> String {
    let (path, query) = base.split_once('?').unwrap_or((base, AZURE_VERSION));
    if path.contains("/openai/deployments/") {
        return format!("{}/embeddings?{query}", path.trim_end_matches('/').trim_end_matches("/embeddings"));
    }
    let resource = path.strip_suffix("/v1").unwrap_or(path);
    format!("{}/openai/v1/embeddings", resource.strip_suffix("/openai").unwrap_or(resource))
}

impl EmbeddingApi for OpenAiApi {
    fn limits(&self) -> RequestLimits {
        RequestLimits { tokens: 250_000, ..RequestLimits::of_texts(128) }
    }

    fn request(&self, client: &ApiClient, texts: &[&str], _: TextKind) -> ServiceRequest {
        let mut body = json!({"model": self.model, "input": texts});
        if let Some(dimensions) = self.dimensions {
            body["dimensions"] = json!(dimensions);
        }
        client.request(ServiceMethod::Post, &self.url, &body)
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vector>, String> {
        parse::<IndexedVectors>(body)?.in_order()
    }
}
