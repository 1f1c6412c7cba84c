//! Voyage AI.

use std::num::NonZeroUsize;

use serde_json::json;
use svcfs_net::{ServiceMethod, ServiceRequest};

use super::EmbedderOptions;
use super::batches::RequestLimits;
use super::remote_embedder::{Connected, EmbeddingApi, IndexedVectors, parse};
use crate::embedder::{TextKind, Vector};
use crate::remote::{ApiClient, OptionError};

const PUBLIC_URL: &str = "https://api.voyageai.com";
const DEFAULT_MODEL: &str = "voyage-3.5";

struct VoyageApi {
    url: String,
    model: String,
    dimensions: Option<NonZeroUsize>,
}

pub(super) fn connect(options: &EmbedderOptions) -> Result<Connected, OptionError> {
    let base = options.base_url_or(PUBLIC_URL)?;
    let url = format!("{}/v1/embeddings", base.strip_suffix("/v1").unwrap_or(&base));
    let (model, dimensions) = (options.model_or(DEFAULT_MODEL), options.dimensions);
    let client = options.client("Voyage").with_key("Authorization", "Bearer ", Some(options.required_key()?));
    Ok((model.clone(), Box::new(VoyageApi { url, model, dimensions }), client))
}

impl EmbeddingApi for VoyageApi {
    fn limits(&self) -> RequestLimits {
        RequestLimits::of_texts(128)
    }

    fn request(&self, client: &ApiClient, texts: &[&str], kind: TextKind) -> ServiceRequest {
        let input_type = match kind {
            TextKind::Page => "document",
            TextKind::Question => "query",
        };
        let mut body = json!({"model": self.model, "input": texts, "input_type": input_type});
        if let Some(dimensions) = self.dimensions {
            body["output_dimension"] = json!(dimensions);
        }
        client.request(ServiceMethod::Post, &self.url, &body)
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vector>, String> {
        parse::<IndexedVectors>(body)?.in_order()
    }
}
