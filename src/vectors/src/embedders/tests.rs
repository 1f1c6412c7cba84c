//! Each provider against a server that checks method, path, headers and body, as the documentation
//! of the service demands them.

#![expect(clippy::disallowed_methods, reason = "credentials files of the tests")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use super::*;
use crate::embedder::{EmbedError, TextKind};
use crate::remote::fake::{FakeRequest, FakeResponse, FakeServer};

const KEY: &str = "key-123456";
const PRIVATE_KEY: &str = include_str!("../../tests/service-account-key.pem");
const PUBLIC_KEY: &str = include_str!("../../tests/service-account-public.pem");

/// What a fake knows of a service: the URL that svcfs must use, how the key is sent, and the texts
/// of a request with the form of the response.
struct Service {
    provider: EmbedderProvider,
    path: &'static str,
    key_header: (&'static str, &'static str),
    texts: fn(&Value) -> Option<Vec<String>>,
    response: fn(Vec<Value>) -> Value,
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// The body with exactly these keys.
fn has_keys(body: &Value, required: &[&str], optional: &[&str]) -> bool {
    let Some(body) = body.as_object() else { return false };
    let is_known = |key: &String| required.contains(&key.as_str()) || optional.contains(&key.as_str());
    required.iter().all(|key| body.contains_key(*key)) && body.keys().all(is_known)
}

fn indexed(vectors: Vec<Value>) -> Value {
    // Not in order: the index counts.
    let data = vectors.into_iter().enumerate().rev();
    let data: Vec<Value> =
        data.map(|(at, vector)| json!({"object": "embedding", "index": at, "embedding": vector})).collect();
    json!({"object": "list", "data": data, "model": "m", "usage": {"total_tokens": 1}})
}

const BEARER: (&str, &str) = ("authorization", "Bearer key-123456");

fn services() -> Vec<Service> {
    use EmbedderProvider::{AzureOpenAi, Ollama, OpenAi};
    let openai_texts: fn(&Value) -> Option<Vec<String>> = |body| {
        let is_valid =
            has_keys(body, &["model", "input"], &["dimensions"]) && body["model"] == "text-embedding-3-small";
        strings(&body["input"]).filter(|texts| is_valid && texts.len() <= 2_048)
    };
    let mut services = vec![
        Service {
            provider: OpenAi,
            path: "/v1/embeddings",
            key_header: BEARER,
            texts: openai_texts,
            response: indexed,
        },
        Service {
            provider: AzureOpenAi,
            path: "/openai/v1/embeddings",
            key_header: ("api-key", KEY),
            texts: openai_texts,
            response: indexed,
        },
        Service {
            provider: Ollama,
            path: "/api/embed",
            key_header: BEARER,
            texts: |body| {
                let is_valid =
                    has_keys(body, &["model", "input"], &["dimensions"]) && body["model"] == "nomic-embed-text";
                let texts = strings(&body["input"]).filter(|_| is_valid)?;
                texts.iter().map(|text| text.strip_prefix("search_query: ").map(str::to_owned)).collect()
            },
            response: |vectors| json!({"model": "nomic-embed-text", "embeddings": vectors}),
        },
    ];
    services.extend(more_services());
    services
}

fn more_services() -> Vec<Service> {
    use EmbedderProvider::{Bedrock, Cohere, Http, Vertex, Voyage};
    vec![
        Service {
            provider: Cohere,
            path: "/v2/embed",
            key_header: BEARER,
            texts: |body| {
                let required = ["model", "texts", "input_type", "embedding_types"];
                let is_valid = has_keys(body, &required, &["output_dimension"])
                    && body["input_type"] == "search_query"
                    && body["embedding_types"] == json!(["float"])
                    && body["model"] == "embed-v4.0";
                strings(&body["texts"]).filter(|texts| is_valid && texts.len() <= 96)
            },
            response: |vectors| json!({"id": "x", "embeddings": {"float": vectors}, "texts": []}),
        },
        Service {
            provider: Voyage,
            path: "/v1/embeddings",
            key_header: BEARER,
            texts: |body| {
                let is_valid = has_keys(body, &["model", "input", "input_type"], &["output_dimension"])
                    && body["input_type"] == "query";
                strings(&body["input"]).filter(|texts| is_valid && texts.len() <= 1_000)
            },
            response: indexed,
        },
        Service {
            provider: Http,
            path: "/embed?mode=x",
            key_header: BEARER,
            texts: |body| strings(&body["texts"]).filter(|_| has_keys(body, &["texts"], &[])),
            response: |vectors| json!({"vectors": vectors}),
        },
        Service {
            provider: Bedrock,
            path: "/model/cohere.embed-v4%3A0/invoke",
            key_header: BEARER,
            texts: |body| {
                let required = ["texts", "input_type", "embedding_types"];
                strings(&body["texts"]).filter(|_| has_keys(body, &required, &["output_dimension"]))
            },
            response: |vectors| json!({"id": "x", "embeddings": {"float": vectors}}),
        },
        Service {
            provider: Vertex,
            path: "/v1/projects/my-project/locations/us-central1/publishers/google/models/text-embedding-004:predict",
            key_header: ("authorization", "Bearer ya29.token"),
            texts: |body| {
                let is_valid = has_keys(body, &["instances", "parameters"], &[])
                    && body["parameters"]["autoTruncate"] == json!(true);
                let instances = body["instances"].as_array().filter(|instances| is_valid && instances.len() <= 250)?;
                let text = |instance: &Value| {
                    let is_valid = has_keys(instance, &["content", "task_type"], &[]);
                    instance["content"].as_str().filter(|_| is_valid).map(str::to_owned)
                };
                instances.iter().map(text).collect()
            },
            response: |vectors| {
                let prediction = |vector| json!({"embeddings": {"values": vector, "statistics": {"truncated": false}}});
                json!({"predictions": vectors.into_iter().map(prediction).collect::<Vec<_>>()})
            },
        },
    ]
}

/// The vector of a text in all fakes.
fn vector_of(text: &str) -> Vec<f32> {
    let sum: u32 = text.bytes().map(u32::from).sum();
    vec![text.chars().count() as f32, (sum % 1_000) as f32, 0.5, -1.0]
}

impl Service {
    /// The response to a request that is as documented; otherwise an error as the service gives it.
    fn respond(&self, request: &FakeRequest) -> FakeResponse {
        if request.path == "/token" {
            return token_response(request);
        }
        if request.method != "POST" || request.path != self.path {
            return FakeResponse::status(404);
        }
        if request.header(self.key_header.0) != Some(self.key_header.1) {
            return FakeResponse::status(401);
        }
        if request.header("content-type") != Some("application/json") {
            return FakeResponse::status(415);
        }
        match (self.texts)(&request.json()) {
            Some(texts) if !texts.is_empty() && texts.iter().all(|text| !text.trim().is_empty()) => {
                FakeResponse::ok((self.response)(texts.iter().map(|text| json!(vector_of(text))).collect()))
            }
            _ => FakeResponse::status(400),
        }
    }

    /// A server of this service. `first` replaces the response to the first request for vectors.
    fn start(self, first: Option<FakeResponse>) -> (FakeServer, EmbedderOptions) {
        let provider = self.provider;
        let count = AtomicUsize::new(0);
        let server = FakeServer::start(move |_, request| {
            let is_first = request.path != "/token" && count.fetch_add(1, Ordering::Relaxed) == 0;
            first.clone().filter(|_| is_first).unwrap_or_else(|| self.respond(request))
        });
        let mut options = EmbedderOptions::new(provider);
        match provider {
            EmbedderProvider::Http => options.url = Some(format!("{}/embed?mode=x", server.url)),
            _ => options.base_url = Some(server.url.clone()),
        }
        match provider {
            EmbedderProvider::Vertex => options.credentials_file = Some(credentials_file(&server.url)),
            _ => options.api_key = Some(Secret::new(KEY)),
        }
        if provider == EmbedderProvider::Bedrock {
            (options.model, options.region) = (Some("cohere.embed-v4:0".to_owned()), Some("us-east-1".to_owned()));
        }
        (server, options)
    }
}

/// Google's token service: the signed statement must be right in all parts.
fn token_response(request: &FakeRequest) -> FakeResponse {
    let body = String::from_utf8(request.body.clone()).unwrap();
    let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant%2Dtype%3Ajwt%2Dbearer&assertion=";
    let Some(assertion) = body.strip_prefix(grant) else { return FakeResponse::status(400) };
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_audience(&[format!("http://{}/token", request.header("host").unwrap())]);
    validation.set_issuer(&["svcfs@my-project.iam.gserviceaccount.com"]);
    validation.set_required_spec_claims(&["iss", "aud", "exp"]);
    let key = DecodingKey::from_rsa_pem(PUBLIC_KEY.as_bytes()).unwrap();
    let claims = jsonwebtoken::decode::<Value>(assertion, &key, &validation);
    let is_valid = claims.is_ok_and(|token| {
        let is_hour = token.claims["exp"].as_u64() == token.claims["iat"].as_u64().map(|from| from + 3600);
        let scope = "https://www.googleapis.com/auth/cloud-platform";
        is_hour && token.claims["scope"] == scope && token.header.kid.as_deref() == Some("key-id")
    });
    let is_form = request.header("content-type") == Some("application/x-www-form-urlencoded");
    if !is_valid || !is_form {
        return FakeResponse::Json(400, json!({"error": "invalid_grant"}));
    }
    FakeResponse::ok(json!({"access_token": "ya29.token", "expires_in": 3599, "token_type": "Bearer"}))
}

fn account(server: &str) -> Value {
    json!({
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "key-id",
        "private_key": PRIVATE_KEY,
        "client_email": "svcfs@my-project.iam.gserviceaccount.com",
        "token_uri": format!("{server}/token"),
    })
}

/// A file that the process leaves in the temporary folder.
fn credentials_file(server: &str) -> PathBuf {
    let file = tempfile::Builder::new().prefix("svcfs-account").tempfile().unwrap();
    std::fs::write(file.path(), account(server).to_string()).unwrap();
    file.into_temp_path().keep().unwrap()
}

fn embed(options: &EmbedderOptions, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
    connect_embedder(options).unwrap().embed(texts, TextKind::Question)
}

#[test]
fn every_provider_answers_in_the_order_of_the_texts() {
    let long = "long text, ".repeat(100 << 7);
    let texts = ["hello", "", " \n", &long, "中文 данные 🙂 e\u{301} \0 \"quoted\"", "x"];
    for service in services() {
        let provider = service.provider;
        let (server, options) = service.start(None);
        let embedder = connect_embedder(&options).unwrap();
        assert_eq!(embedder.dimensions(), None);
        let vectors = embedder.embed(&texts, TextKind::Question).unwrap();
        assert_eq!(embedder.dimensions(), NonZeroUsize::new(4));
        for (at, (text, vector)) in texts.iter().zip(&vectors).enumerate() {
            let expected = (!text.trim().is_empty()).then(|| vector_of(text));
            // The long text is cut; all others arrive as they are.
            assert!(*vector == expected || (at == 3 && vector.is_some()), "{provider:?} {at} {vector:?}");
        }
        let bytes: usize = server.requests().iter().map(|request| request.body.len()).sum();
        assert!(long.len() > 100_000 && bytes < 40_000, "{provider:?} {bytes}");
        assert!(embedder.model().starts_with(provider.name()), "{}", embedder.model());
        assert!(embedder.embed(&["", " "], TextKind::Page).unwrap() == [None, None]);
    }
}

#[test]
fn many_texts_are_split_into_the_requests_that_a_service_accepts() {
    let texts: Vec<String> = (0..300).map(|number| format!("text {}", "a".repeat(number))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for service in services() {
        let provider = service.provider;
        let (server, options) = service.start(None);
        let vectors = embed(&options, &texts).unwrap();
        let expected: Vec<_> = texts.iter().map(|text| Some(vector_of(text))).collect();
        assert!(vectors == expected, "{provider:?}");
        assert!(server.requests().len() > 2, "{provider:?}");
    }
}

#[test]
fn errors_that_pass_are_repeated_by_every_provider() {
    let retry_after = FakeResponse::WithHeader(429, "Retry-After", "0".to_owned(), json!({"message": "slow down"}));
    for first in [retry_after, FakeResponse::status(500)] {
        for service in services() {
            let provider = service.provider;
            let (_server, options) = service.start(Some(first.clone()));
            assert_eq!(embed(&options, &["x"]).as_deref(), Ok(&[Some(vector_of("x"))][..]), "{provider:?} {first:?}");
        }
    }
}

#[test]
fn errors_that_stay_are_explained_by_every_provider() {
    let redirect = FakeResponse::WithHeader(302, "Location", "http://127.0.0.1:9/elsewhere".to_owned(), json!({}));
    let empty = FakeResponse::ok(json!({}));
    let with_vectors = |service: &Service, vectors: Vec<Value>| FakeResponse::ok((service.response)(vectors));
    for at in 0..services().len() {
        let service = || services().swap_remove(at);
        let provider = service().provider;
        let two = with_vectors(&service(), vec![json!([1.0, 2.0]), json!([3.0, 4.0])]);
        let none = with_vectors(&service(), vec![json!([])]);
        let null = with_vectors(&service(), vec![json!([1.0, null])]);
        let huge = with_vectors(&service(), vec![json!([1e300])]);
        for (first, expected) in [
            (FakeResponse::status(401), "answers 401"),
            (FakeResponse::status(403), "answers 403"),
            (FakeResponse::status(404), "answers 404"),
            (FakeResponse::status(400), "answers 400"),
            (redirect.clone(), "redirects are not followed"),
            (empty.clone(), "missing field"),
            (FakeResponse::ok(json!("text")), "unusable"),
            (two, "2 vectors for 1 texts"),
            (none, "empty vector"),
            (null, "invalid type: null"),
            (huge, "too large"),
        ] {
            // Titan and Cohere differ in their vectors only.
            let (server, options) = service().start(Some(first));
            let error = embed(&options, &["x"]).unwrap_err();
            let EmbedError::Refused { message, .. } = &error else { panic!("{provider:?}: {error:?}") };
            assert!(
                (message.contains(expected) || message.contains(&expected.replace("too large", "out of range")))
                    && !message.contains(KEY),
                "{provider:?}: {message}"
            );
            let concerns_service = ["answers 401", "answers 403", "answers 404", "redirects are not followed"];
            assert_eq!(error.may_concern_text(), !concerns_service.contains(&expected), "{provider:?}: {message}");
            let requests = server.requests().into_iter().filter(|request| request.path != "/token").count();
            assert_eq!(requests, 1, "{provider:?}: {message}");
        }
    }
}

#[test]
fn a_wrong_key_is_refused_by_every_provider() {
    for service in services().into_iter().filter(|service| service.provider != EmbedderProvider::Vertex) {
        let provider = service.provider;
        let (_server, mut options) = service.start(None);
        options.api_key = Some(Secret::new("another-key"));
        let error = embed(&options, &["x"]).unwrap_err().to_string();
        assert!(
            error.contains("answers 401") && error.contains("`search.vector.embedder.api_key`"),
            "{provider:?}: {error}"
        );
    }
}

#[test]
fn outages_are_unavailable_at_every_provider() {
    for first in [FakeResponse::Silence, FakeResponse::CloseEarly] {
        for service in services() {
            let provider = service.provider;
            let (_server, mut options) = service.start(Some(first.clone()));
            options.timeout = Duration::from_millis(100);
            match (&first, embed(&options, &["x"])) {
                // Repeated once.
                (FakeResponse::CloseEarly, Ok(_)) | (FakeResponse::Silence, Err(EmbedError::Unavailable { .. })) => {}
                (_, result) => panic!("{provider:?}: {result:?}"),
            }
        }
    }
    let mut options = EmbedderOptions::new(EmbedderProvider::Ollama);
    options.base_url = Some("http://127.0.0.1:1".to_owned());
    let error = embed(&options, &["x"]).unwrap_err();
    assert!(matches!(error, EmbedError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("Ollama") && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn another_server_or_deployment_is_another_model() {
    use EmbedderProvider::{AzureOpenAi, Http, OpenAi};
    let identity = |provider, base: Option<&str>, url: Option<&str>, model: &str| {
        let mut options = EmbedderOptions::new(provider);
        (options.base_url, options.url) = (base.map(str::to_owned), url.map(str::to_owned));
        (options.model, options.api_key) = (Some(model.to_owned()), Some(Secret::new(KEY)));
        connect_embedder(&options).unwrap().model().to_owned()
    };
    assert_eq!(identity(OpenAi, None, None, "m"), "openai:m");
    assert_eq!(identity(OpenAi, Some("https://api.openai.com/v1"), None, "m"), "openai:m");
    let azure = |base| identity(AzureOpenAi, Some(base), None, "m");
    assert_eq!(azure("https://n.openai.azure.com"), "azure-openai:m");
    assert_eq!(azure("https://n.openai.azure.com/openai/deployments/d"), "azure-openai:d");
    let with_query = "https://n.openai.azure.com/openai/deployments/e/embeddings?api-version=2";
    assert_eq!(identity(AzureOpenAi, None, Some(with_query), "m"), "azure-openai:e");
    let own = [
        identity(OpenAi, Some("http://a:8080"), None, "m"),
        identity(OpenAi, Some("http://b:8080"), None, "m"),
        identity(OpenAi, Some("https://api.openai.com.example.org"), None, "m"),
        identity(Http, None, Some("http://a:8080/embed"), "m"),
        identity(Http, None, Some("http://b:8080/embed"), "m"),
    ];
    assert_eq!(own.iter().collect::<std::collections::BTreeSet<_>>().len(), own.len(), "{own:?}");
    for name in &own {
        assert!(name.contains(":m#") && !name.contains("8080"), "{name}: no address is shown to readers");
    }
    assert_eq!(own[0], identity(OpenAi, Some("http://A:8080/v1"), None, "m"));
    assert_eq!(own[3], identity(Http, None, Some("http://a:8080/v2/embed"), "m"));
}

#[test]
fn dimensions_are_requested_and_checked() {
    for service in services() {
        let provider = service.provider;
        let (server, mut options) = service.start(None);
        options.dimensions = NonZeroUsize::new(8);
        let embedder = connect_embedder(&options).unwrap();
        assert_eq!(embedder.dimensions(), NonZeroUsize::new(8));
        assert!(embedder.model().ends_with("@8"), "{}", embedder.model());
        let error = embedder.embed(&["x"], TextKind::Question).unwrap_err().to_string();
        assert!(
            error.contains("`search.vector.embedder.dimensions` is 8") && error.contains("have 4 numbers"),
            "{error}"
        );
        let sent = String::from_utf8(server.requests().pop().unwrap().body).unwrap();
        assert_eq!(sent.contains(":8"), provider != EmbedderProvider::Http, "{provider:?}: {sent}");
    }
    // A server that is changed to another model.
    let server = FakeServer::start(|number, _| FakeResponse::ok(json!({"vectors": [vec![1.0; 3 + number]]})));
    let mut options = EmbedderOptions::new(EmbedderProvider::Http);
    options.url = Some(server.url.clone());
    let embedder = connect_embedder(&options).unwrap();
    embedder.embed(&["x"], TextKind::Page).unwrap();
    let error = embedder.embed(&["x"], TextKind::Page).unwrap_err().to_string();
    assert!(error.contains("of 3 and now of 4 numbers"), "{error}");
}

#[test]
fn urls_of_other_servers_are_completed() {
    use EmbedderProvider::{AzureOpenAi, OpenAi, Voyage};
    for (provider, base, path) in [
        (OpenAi, "", "/v1/embeddings"),
        (OpenAi, "/", "/v1/embeddings"),
        (OpenAi, "/v1", "/v1/embeddings"),
        (OpenAi, "/v1/", "/v1/embeddings"),
        (OpenAi, "/proxy", "/proxy/v1/embeddings"),
        (AzureOpenAi, "", "/openai/v1/embeddings"),
        (AzureOpenAi, "/openai/v1/", "/openai/v1/embeddings"),
        // The older form names the deployment, and the version in the query.
        (AzureOpenAi, "/openai/deployments/d", "/openai/deployments/d/embeddings?api-version=2024-10-21"),
        (
            AzureOpenAi,
            "/openai/deployments/d/embeddings?api-version=2",
            "/openai/deployments/d/embeddings?api-version=2",
        ),
        (Voyage, "/v1", "/v1/embeddings"),
    ] {
        let server = FakeServer::start(|_, _| FakeResponse::ok(indexed(vec![json!([1.0])])));
        let mut options = EmbedderOptions::new(provider);
        options.base_url = Some(format!("{}{base}", server.url));
        options.api_key = Some(Secret::new(KEY));
        options.headers = vec![("X-Team".to_owned(), Secret::new("search"))];
        embed(&options, &["x"]).unwrap();
        let request = server.requests().pop().unwrap();
        assert_eq!(request.path, path, "{provider:?} {base}");
        assert_eq!(request.header("x-team"), Some("search"));
    }
}

#[test]
fn settings_that_cannot_work_name_their_key() {
    use EmbedderProvider::{AzureOpenAi, Bedrock, Cohere, Http, Ollama, OpenAi, Vertex, Voyage};
    type Change = fn(&mut EmbedderOptions);
    let table: [(EmbedderProvider, Change, &str); 16] = [
        (OpenAi, |_| {}, "api_key"),
        (OpenAi, |options| options.api_key = Some(Secret::new("")), "api_key"),
        (OpenAi, |options| options.api_key = Some(Secret::new("a\r\nHost: b")), "api_key"),
        (AzureOpenAi, |options| options.api_key = Some(Secret::new("k")), "base_url"),
        (Cohere, |_| {}, "api_key"),
        (Voyage, |_| {}, "api_key"),
        (Http, |_| {}, "url"),
        (Http, |options| options.url = Some("localhost:8080".to_owned()), "url"),
        (Ollama, |options| options.base_url = Some("http://user:password@h".to_owned()), "base_url"),
        (Ollama, |options| options.region = Some("us-east-1".to_owned()), "region"),
        (Ollama, |options| options.model = Some(String::new()), "model"),
        (Ollama, |options| options.timeout = Duration::ZERO, "timeout"),
        (Ollama, |options| options.headers = vec![("A b".to_owned(), Secret::new("x"))], "headers"),
        (Bedrock, |options| options.region = Some("evil.example/".to_owned()), "region"),
        (Vertex, |options| options.credentials_file = Some(PathBuf::from("/nonexistent")), "credentials_file"),
        (Vertex, |options| options.api_key = Some(Secret::new("k")), "api_key"),
    ];
    for (provider, change, key) in table {
        let mut options = EmbedderOptions::new(provider);
        change(&mut options);
        let error = connect_embedder(&options).err().unwrap();
        assert_eq!(error.key, format!("search.vector.embedder.{key}"), "{provider:?} {error}");
    }
    for (provider, name) in EmbedderProvider::ALL {
        assert_eq!((EmbedderProvider::from_name(name), provider.name()), (Some(provider), name));
    }
}

#[test]
fn tokens_of_a_service_account_are_reused_and_renewed_after_a_refusal() {
    let service = services().pop().unwrap();
    assert_eq!(service.provider, EmbedderProvider::Vertex);
    let (server, options) = service.start(Some(FakeResponse::status(401)));
    let embedder = connect_embedder(&options).unwrap();
    let error = embedder.embed(&["x"], TextKind::Page).unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("roles/aiplatform.user"), "{error}");
    for _ in 0..3 {
        embedder.embed(&["x"], TextKind::Page).unwrap();
    }
    let tokens = server.requests().into_iter().filter(|request| request.path == "/token").count();
    assert_eq!((tokens, server.requests().len()), (2, 6));
}

#[test]
fn files_that_are_no_service_account_are_refused_without_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("account.json");
    let with = |key: &str, value: Value| {
        let mut account = account("http://127.0.0.1:1");
        account[key] = value;
        account.to_string()
    };
    let without = |key: &str| with(key, Value::Null);
    let large = "x".repeat(100_000);
    for (content, expected) in [
        ("", "no JSON file"),
        ("hunter2", "no JSON file"),
        (&with("type", json!("authorized_user")), "`authorized_user`"),
        (&with("private_key", json!("hunter2")), "no RSA key"),
        (&without("private_key"), "no `private_key`"),
        (&without("client_email"), "no `client_email`"),
        (&with("token_uri", json!("file:///etc/passwd")), "cannot be used"),
        (&large, "too large"),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = service_account::ServiceAccount::read(Path::new(&path), Duration::from_secs(1)).err().unwrap();
        assert_eq!(error.key, "search.vector.embedder.credentials_file");
        assert!(error.reason.contains(expected) && !error.reason.contains("hunter2"), "{error}");
    }
}
