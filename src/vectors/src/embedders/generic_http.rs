//! Any server that answers `{"texts": [...]}` with `{"vectors": [[...]]}`.

use serde::Deserialize;
use serde_json::json;
use svcfs_net::{ServiceClient, ServiceMethod, ServiceRequest};

use super::batches::RequestLimits;
use super::remote_embedder::{Connected, EmbeddingApi, parse};
use super::{EmbedderOptions, SETTINGS, model_at, short_hash};
use crate::embedder::{TextKind, Vector};
use crate::remote::{ApiClient, OptionError, checked_url, option_error};

struct HttpApi {
    url: String,
}

#[derive(Deserialize)]
struct HttpResponse {
    vectors: Vec<Vector>,
}

pub(super) fn connect(options: &EmbedderOptions) -> Result<Connected, OptionError> {
    if options.base_url.is_some() {
        let reason = "has no effect with the provider `http`; write the complete URL as `url`";
        return Err(option_error(SETTINGS, "base_url", reason));
    }
    let Some(url) = &options.url else {
        let reason = "is missing; write for example \"http://localhost:8080/embed\"";
        return Err(option_error(SETTINGS, "url", reason));
    };
    let url = checked_url(SETTINGS, "url", url)?;
    // Without a name, the path may choose the model.
    let identity = match &options.model {
        Some(model) => model_at(model, &url),
        None => format!("model#{}", short_hash(&ServiceClient::displayed_url(&url))),
    };
    let client = options.client("The embedding server").with_key("Authorization", "Bearer ", options.api_key.as_ref());
    Ok((identity, Box::new(HttpApi { url }), client))
}

impl EmbeddingApi for HttpApi {
    fn limits(&self) -> RequestLimits {
        RequestLimits::of_texts(64)
    }

    fn request(&self, client: &ApiClient, texts: &[&str], _: TextKind) -> ServiceRequest {
        client.request(ServiceMethod::Post, &self.url, &json!({"texts": texts}))
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vector>, String> {
        Ok(parse::<HttpResponse>(body)?.vectors)
    }
}
