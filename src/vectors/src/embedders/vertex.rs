//! Models on Google Vertex AI.

use std::num::NonZeroUsize;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use svcfs_net::{ServiceMethod, ServiceRequest};

use super::batches::RequestLimits;
use super::remote_embedder::{Connected, EmbeddingApi, parse};
use super::service_account::ServiceAccount;
use super::{EmbedderOptions, SETTINGS};
use crate::embedder::{TextKind, Vector};
use crate::remote::{ApiClient, ApiError, OptionError, option_error};

const DEFAULT_MODEL: &str = "text-embedding-004";
const DEFAULT_LOCATION: &str = "us-central1";

struct VertexApi {
    url: String,
    model: String,
    dimensions: Option<NonZeroUsize>,
    account: ServiceAccount,
}

#[derive(Deserialize)]
struct VertexResponse {
    predictions: Vec<Prediction>,
}

#[derive(Deserialize)]
struct Prediction {
    embeddings: PredictedVector,
}

#[derive(Deserialize)]
struct PredictedVector {
    values: Vector,
}

pub(super) fn connect(options: &EmbedderOptions) -> Result<Connected, OptionError> {
    if options.api_key.is_some() {
        let reason = "has no effect with the provider `vertex`; name a service account as `credentials_file`";
        return Err(option_error(SETTINGS, "api_key", reason));
    }
    let file = options.credentials_file.as_ref().ok_or_else(|| {
        option_error(SETTINGS, "credentials_file", "is missing; name the JSON file with the key of a service account")
    })?;
    let account = ServiceAccount::read(file, options.timeout)?;
    let project = options.project.clone().or_else(|| account.project.clone());
    let project = project
        .filter(|project| !project.is_empty())
        .ok_or_else(|| option_error(SETTINGS, "project", "is missing; write the id of the Google Cloud project"))?;
    let location = options.location.as_deref().unwrap_or(DEFAULT_LOCATION);
    if !location.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(option_error(SETTINGS, "location", "is no location; write for example \"europe-west1\""));
    }
    let host = match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        _ => format!("https://{location}-aiplatform.googleapis.com"),
    };
    let (base, model) = (options.base_url_or(&host)?, options.model_or(DEFAULT_MODEL));
    // Projects of some organisations are named `example.com:project`.
    let encoded = |text: &str| utf8_percent_encode(text, &PATH_ENCODED).to_string();
    let (project, path_model) = (encoded(&project), encoded(&model));
    let url =
        format!("{base}/v1/projects/{project}/locations/{location}/publishers/google/models/{path_model}:predict");
    let dimensions = options.dimensions;
    Ok((model.clone(), Box::new(VertexApi { url, model, dimensions, account }), options.client("Vertex")))
}

/// The characters that a name in the path must not contain as they are.
const PATH_ENCODED: percent_encoding::AsciiSet =
    NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_').remove(b'~').remove(b':');

impl EmbeddingApi for VertexApi {
    fn limits(&self) -> RequestLimits {
        // The newer models answer one text in a request.
        let texts = if self.model.starts_with("gemini-") { 1 } else { 100 };
        RequestLimits { tokens: 20_000, text_tokens: 4_000, ..RequestLimits::of_texts(texts) }
    }

    fn request(&self, client: &ApiClient, texts: &[&str], kind: TextKind) -> ServiceRequest {
        let task_type = match kind {
            TextKind::Page => "RETRIEVAL_DOCUMENT",
            TextKind::Question => "RETRIEVAL_QUERY",
        };
        let instances: Vec<Value> = texts.iter().map(|text| json!({"content": text, "task_type": task_type})).collect();
        let mut body = json!({"instances": instances, "parameters": {"autoTruncate": true}});
        if let Some(dimensions) = self.dimensions {
            body["parameters"]["outputDimensionality"] = json!(dimensions);
        }
        client.request(ServiceMethod::Post, &self.url, &body)
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vector>, String> {
        let predictions = parse::<VertexResponse>(body)?.predictions;
        Ok(predictions.into_iter().map(|prediction| prediction.embeddings.values).collect())
    }

    fn sign(&self, request: &mut ServiceRequest) -> Result<(), ApiError> {
        self.account.sign(request)
    }

    fn discard_credentials(&self) {
        self.account.discard_token();
    }

    fn advice(&self, status: u16) -> Option<String> {
        let advice = "the service account needs the role `roles/aiplatform.user`, and the project the Vertex AI API";
        matches!(status, 401 | 403).then(|| advice.to_owned())
    }
}
