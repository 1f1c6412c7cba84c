//! Cohere.

use std::num::NonZeroUsize;

use serde::Deserialize;
use serde_json::json;
use svcfs_net::{ServiceMethod, ServiceRequest};

use super::EmbedderOptions;
use super::batches::RequestLimits;
use super::remote_embedder::{Connected, EmbeddingApi, parse};
use crate::embedder::{TextKind, Vector};
use crate::remote::{ApiClient, OptionError};

const PUBLIC_URL: &str = "https://api.cohere.com";
const DEFAULT_MODEL: &str = "embed-v4.0";

/// Limit of texts in a request.
pub(super) const MAX_TEXTS: usize = 96;

struct CohereApi {
    url: String,
    model: String,
    dimensions: Option<NonZeroUsize>,
}

/// The vectors in a response of the second version of the API.
#[derive(Deserialize)]
pub(super) struct CohereResponse {
    embeddings: CohereVectors,
}

#[derive(Deserialize)]
struct CohereVectors {
    float: Vec<Vector>,
}

impl CohereResponse {
    pub fn vectors(self) -> Vec<Vector> {
        self.embeddings.float
    }
}

/// What Cohere calls the use of a text.
pub(super) const fn input_type(kind: TextKind) -> &'static str {
    match kind {
        TextKind::Page => "search_document",
        TextKind::Question => "search_query",
    }
}

pub(super) fn connect(options: &EmbedderOptions) -> Result<Connected, OptionError> {
    let url = format!("{}/v2/embed", options.base_url_or(PUBLIC_URL)?);
    let model = options.model_or(DEFAULT_MODEL);
    // Models before version 4 have one length and refuse the parameter.
    let dimensions = options.dimensions.filter(|_| !model.contains("-v3") && !model.contains("-v2"));
    let client = options.client("Cohere").with_key("Authorization", "Bearer ", Some(options.required_key()?));
    Ok((model.clone(), Box::new(CohereApi { url, model, dimensions }), client))
}

impl EmbeddingApi for CohereApi {
    fn limits(&self) -> RequestLimits {
        RequestLimits::of_texts(MAX_TEXTS)
    }

    fn request(&self, client: &ApiClient, texts: &[&str], kind: TextKind) -> ServiceRequest {
        let mut body = json!({
            "model": self.model,
            "texts": texts,
            "input_type": input_type(kind),
            "embedding_types": ["float"],
        });
        if let Some(dimensions) = self.dimensions {
            body["output_dimension"] = json!(dimensions);
        }
        client.request(ServiceMethod::Post, &self.url, &body)
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vector>, String> {
        Ok(parse::<CohereResponse>(body)?.vectors())
    }
}
