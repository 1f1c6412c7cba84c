//! Models on a server of Ollama.

use std::num::NonZeroUsize;

use serde::Deserialize;
use serde_json::json;
use svcfs_net::{ServiceMethod, ServiceRequest};

use super::EmbedderOptions;
use super::batches::RequestLimits;
use super::remote_embedder::{Connected, EmbeddingApi, parse};
use crate::embedder::{TextKind, Vector};
use crate::remote::{ApiClient, OptionError};

const LOCAL_URL: &str = "http://localhost:11434";
const DEFAULT_MODEL: &str = "nomic-embed-text";

/// Models that were trained with an instruction before each text, which Ollama does not add.
const INSTRUCTIONS: [(&str, &str, &str); 2] = [
    ("nomic-embed-text", "search_document: ", "search_query: "),
    ("mxbai-embed-large", "", "Represent this sentence for searching relevant passages: "),
];

struct OllamaApi {
    url: String,
    model: String,
    dimensions: Option<NonZeroUsize>,
}

#[derive(Deserialize)]
struct OllamaResponse {
    embeddings: Vec<Vector>,
}

pub(super) fn connect(options: &EmbedderOptions) -> Result<Connected, OptionError> {
    let url = format!("{}/api/embed", options.base_url_or(LOCAL_URL)?);
    let (model, dimensions) = (options.model_or(DEFAULT_MODEL), options.dimensions);
    // A proxy before Ollama may demand a key.
    let client = options.client("Ollama").with_key("Authorization", "Bearer ", options.api_key.as_ref());
    Ok((model.clone(), Box::new(OllamaApi { url, model, dimensions }), client))
}

impl EmbeddingApi for OllamaApi {
    fn limits(&self) -> RequestLimits {
        RequestLimits::of_texts(32)
    }

    fn request(&self, client: &ApiClient, texts: &[&str], kind: TextKind) -> ServiceRequest {
        let instruction = INSTRUCTIONS.iter().find(|(model, ..)| self.model.starts_with(model));
        let prefix = match (instruction, kind) {
            (Some((_, page, _)), TextKind::Page) => page,
            (Some((_, _, question)), TextKind::Question) => question,
            (None, _) => "",
        };
        let input: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let mut body = json!({"model": self.model, "input": input});
        if let Some(dimensions) = self.dimensions {
            body["dimensions"] = json!(dimensions);
        }
        client.request(ServiceMethod::Post, &self.url, &body)
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vector>, String> {
        Ok(parse::<OllamaResponse>(body)?.embeddings)
    }

    fn advice(&self, status: u16) -> Option<String> {
        (status == 404).then(|| format!("if the model is missing, run `ollama pull {}`", self.model))
    }
}
