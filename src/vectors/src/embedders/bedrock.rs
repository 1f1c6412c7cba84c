//! Models on Amazon Bedrock: Titan and Cohere. Requests are signed (Signature Version 4), or carry
//! an API key of Bedrock.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;
use svcfs_net::{ServiceMethod, ServiceRequest};

use super::batches::RequestLimits;
use super::cohere::{self, CohereResponse};
use super::remote_embedder::{Connected, EmbeddingApi, parse};
use super::{EmbedderOptions, MAX_FILE_BYTES, SETTINGS};
use crate::embedder::{TextKind, Vector};
use crate::remote::{ApiClient, ApiError, OptionError, option_error};

const DEFAULT_MODEL: &str = "amazon.titan-embed-text-v2:0";

/// How a model is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelFamily {
    /// One text in a request; version 1 has no parameter for the length.
    Titan {
        has_dimensions: bool,
    },
    /// Cohere's version 3: texts of 2,048 characters at most.
    CohereV3,
    CohereV4,
}

pub(super) struct BedrockApi {
    url: String,
    family: ModelFamily,
    dimensions: Option<NonZeroUsize>,
    signer: Option<Signer>,
}

struct Signer {
    keys: KeySource,
    region: String,
}

#[derive(Deserialize)]
struct TitanResponse {
    embedding: Vector,
}

#[derive(Deserialize)]
struct CohereV3Response {
    embeddings: Vec<Vector>,
}

/// The first of these environment variables that has a value.
fn environment(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Where the keys of AWS come from.
enum KeySource {
    /// The environment, read at the start.
    Environment(Credentials),
    /// A file as the command line of AWS writes it, read for each request: tools renew its keys.
    File(PathBuf),
}

impl KeySource {
    fn of(options: &EmbedderOptions) -> Result<Self, OptionError> {
        if let Some(file) = &options.credentials_file {
            file_credentials(file).map_err(|reason| option_error(SETTINGS, "credentials_file", reason))?;
            return Ok(Self::File(file.clone()));
        }
        // The names that all AWS tools read.
        let (id, secret) = (environment(&["AWS_ACCESS_KEY_ID"]), environment(&["AWS_SECRET_ACCESS_KEY"]));
        let (Some(id), Some(secret)) = (id, secret) else {
            let reason = "is missing; set it to an API key of Bedrock, name a file as `credentials_file`, or set \
                          AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of svcfs";
            return Err(option_error(SETTINGS, "api_key", reason));
        };
        let token = environment(&["AWS_SESSION_TOKEN"]);
        Ok(Self::Environment(Credentials::new(id, secret, token, None, "environment")))
    }

    fn credentials(&self) -> Result<Credentials, String> {
        match self {
            Self::Environment(credentials) => Ok(credentials.clone()),
            Self::File(file) => file_credentials(file),
        }
    }
}

/// The keys of the profile `AWS_PROFILE`, or `default`, in a file. Errors do not quote the file.
fn file_credentials(file: &Path) -> Result<Credentials, String> {
    let place = file.display();
    let is_large = std::fs::metadata(file).is_ok_and(|metadata| metadata.len() > MAX_FILE_BYTES);
    if is_large {
        return Err(format!("(`{place}`) is too large for a file of AWS credentials"));
    }
    let content = std::fs::read_to_string(file).map_err(|error| format!("(`{place}`) cannot be read: {error}"))?;
    let profile = environment(&["AWS_PROFILE"]).unwrap_or_else(|| "default".to_owned());
    let lines = content.lines().map(str::trim).skip_while(|line| *line != format!("[{profile}]")).skip(1);
    let pairs = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once('='));
    let values: Vec<(&str, &str)> = pairs.map(|(key, value)| (key.trim(), value.trim())).collect();
    let value =
        |name: &str| values.iter().find(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| *value);
    let missing = |key| format!("(`{place}`) has no `{key}` in the profile `{profile}`; run `aws configure`");
    let id = value("aws_access_key_id").ok_or_else(|| missing("aws_access_key_id"))?;
    let secret = value("aws_secret_access_key").ok_or_else(|| missing("aws_secret_access_key"))?;
    Ok(Credentials::new(id, secret, value("aws_session_token").map(str::to_owned), None, "file"))
}

pub(super) fn connect(options: &EmbedderOptions) -> Result<Connected, OptionError> {
    let region = options.region.clone().or_else(|| environment(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
    let region =
        region.ok_or_else(|| option_error(SETTINGS, "region", "is missing; write for example \"us-east-1\""))?;
    if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(option_error(SETTINGS, "region", "is no region; write for example \"us-east-1\""));
    }
    let keys = match options.api_key {
        Some(_) => None,
        None => Some(KeySource::of(options)?),
    };
    let api = BedrockApi::new(options, region, keys)?;
    let client = options.client("Bedrock").with_key("Authorization", "Bearer ", options.api_key.as_ref());
    Ok((options.model_or(DEFAULT_MODEL), Box::new(api), client))
}

impl BedrockApi {
    fn new(options: &EmbedderOptions, region: String, keys: Option<KeySource>) -> Result<Self, OptionError> {
        let model = options.model_or(DEFAULT_MODEL);
        // A profile for several regions has a prefix: `us.cohere.embed-v4:0`.
        let family = if model.contains("cohere.embed-v4") {
            ModelFamily::CohereV4
        } else if model.contains("cohere.embed-") {
            ModelFamily::CohereV3
        } else if model.contains("amazon.titan-embed-text-") || model.contains("amazon.titan-embed-g1-text-") {
            ModelFamily::Titan { has_dimensions: model.contains("text-v2") }
        } else {
            let reason = "is no model that svcfs can ask; use one of `amazon.titan-embed-text-*` or `cohere.embed-*`";
            return Err(option_error(SETTINGS, "model", reason));
        };
        let base = options.base_url_or(&format!("https://bedrock-runtime.{region}.amazonaws.com"))?;
        let url = format!("{base}/model/{}/invoke", utf8_percent_encode(&model, &PATH_ENCODED));
        let signer = keys.map(|keys| Signer { keys, region });
        Ok(Self { url, family, dimensions: options.dimensions, signer })
    }
}

/// The characters of a model that a path must not contain as they are.
const PATH_ENCODED: percent_encoding::AsciiSet = NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_').remove(b'~');

impl EmbeddingApi for BedrockApi {
    fn limits(&self) -> RequestLimits {
        match self.family {
            ModelFamily::Titan { .. } => RequestLimits { text_chars: 50_000, ..RequestLimits::of_texts(1) },
            ModelFamily::CohereV3 => RequestLimits { text_chars: 2_048, ..RequestLimits::of_texts(cohere::MAX_TEXTS) },
            ModelFamily::CohereV4 => RequestLimits::of_texts(cohere::MAX_TEXTS),
        }
    }

    fn request(&self, client: &ApiClient, texts: &[&str], kind: TextKind) -> ServiceRequest {
        let (mut body, parameter) = match self.family {
            ModelFamily::Titan { has_dimensions } => {
                (json!({"inputText": texts.first()}), has_dimensions.then_some("dimensions"))
            }
            ModelFamily::CohereV3 => {
                (json!({"texts": texts, "input_type": cohere::input_type(kind), "truncate": "END"}), None)
            }
            ModelFamily::CohereV4 => {
                let input_type = cohere::input_type(kind);
                (
                    json!({"texts": texts, "input_type": input_type, "embedding_types": ["float"]}),
                    Some("output_dimension"),
                )
            }
        };
        if let (Some(parameter), Some(dimensions)) = (parameter, self.dimensions) {
            body[parameter] = json!(dimensions);
        }
        client.request(ServiceMethod::Post, &self.url, &body)
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vector>, String> {
        match self.family {
            ModelFamily::Titan { .. } => Ok(vec![parse::<TitanResponse>(body)?.embedding]),
            ModelFamily::CohereV3 => Ok(parse::<CohereV3Response>(body)?.embeddings),
            ModelFamily::CohereV4 => Ok(parse::<CohereResponse>(body)?.vectors()),
        }
    }

    fn sign(&self, request: &mut ServiceRequest) -> Result<(), ApiError> {
        self.signer.as_ref().map_or(Ok(()), |signer| signer.sign(request, SystemTime::now()))
    }

    fn advice(&self, status: u16) -> Option<String> {
        let advice = "the identity needs the right `bedrock:InvokeModel`, and the account access to the model";
        matches!(status, 403 | 404).then(|| advice.to_owned())
    }
}

impl Signer {
    /// Adds the signature of a request; it is valid for minutes.
    fn sign(&self, request: &mut ServiceRequest, time: SystemTime) -> Result<(), ApiError> {
        let failed = |error: &dyn std::error::Error| {
            ApiError::permanent(format!("Bedrock: the request cannot be signed: {error}; check `{SETTINGS}`"))
        };
        let credentials = self.keys.credentials();
        let credentials =
            credentials.map_err(|reason| ApiError::permanent(format!("`{SETTINGS}.credentials_file` {reason}")))?;
        let identity = credentials.into();
        let parameters = v4::SigningParams::builder().identity(&identity).region(&self.region).name("bedrock");
        let parameters = parameters.time(time).settings(SigningSettings::default()).build();
        let parameters = parameters.map_err(|error| failed(&error))?.into();
        let signed_headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let body = SignableBody::Bytes(&request.body);
        let signable = SignableRequest::new("POST", request.url.as_str(), signed_headers, body);
        let output = sign(signable.map_err(|error| failed(&error))?, &parameters).map_err(|error| failed(&error))?;
        let (instructions, _) = output.into_parts();
        let added: Vec<_> = instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        request.headers.extend(added);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
