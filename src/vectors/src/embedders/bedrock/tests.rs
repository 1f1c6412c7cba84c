#![expect(clippy::disallowed_methods, reason = "credentials files of the tests")]

use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;

use super::super::EmbedderProvider;
use super::*;
use crate::remote::RetryPolicy;
use crate::remote::fake::{FakeResponse, FakeServer};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn signer(token: Option<&str>) -> Signer {
    let token = token.map(str::to_owned);
    let credentials = Credentials::new("AKIDEXAMPLE", SECRET, token, None, "test");
    Signer { keys: KeySource::Environment(credentials), region: "us-east-1".to_owned() }
}

fn header<'r>(request: &'r ServiceRequest, name: &str) -> Option<&'r str> {
    let found = request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// The expected signatures were computed by `SigV4Auth` of botocore 1.44.8 at the same moment, with
/// the headers `Content-Type` and `Accept`.
#[test]
fn signatures_equal_those_of_botocore() {
    let time = UNIX_EPOCH + Duration::from_secs(1_767_323_045);
    for (url, body, token, expected) in [
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.titan-embed-text-v2%3A0/invoke",
            r#"{"inputText":"hello"}"#,
            None,
            "50eaf8c4adbb8c1b85900d8c203d074488f528e51810599f2ec905fe8b1fac08",
        ),
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.cohere.embed-v4%3A0/invoke",
            r#"{"texts":["Grüße, 世界"]}"#,
            Some("SESSION/token+=="),
            "f639e1c9351c3ede653f4b91cf1df76e06f8cfd2dbc5ae296fb06d689a82f349",
        ),
        (
            "http://localhost:4567/model/cohere.embed-english-v3/invoke",
            "",
            None,
            "2ecb10de4717f80f85c609380307abd5ff219bda623a01a32ba3522c1c7d5259",
        ),
    ] {
        let client = ApiClient::new("Bedrock", SETTINGS, Duration::from_secs(1));
        let mut request = client.request(ServiceMethod::Post, url, &json!(null));
        request.body = body.as_bytes().to_vec();
        signer(token).sign(&mut request, time).unwrap();
        let authorization = header(&request, "authorization").unwrap();
        assert!(authorization.ends_with(&format!("Signature={expected}")), "{url}: {authorization}");
        assert!(authorization.contains("20260102/us-east-1/bedrock/aws4_request"), "{authorization}");
        assert_eq!(header(&request, "x-amz-date"), Some("20260102T030405Z"));
        assert_eq!(header(&request, "x-amz-security-token"), token);
    }
}

#[test]
fn each_attempt_is_signed_and_no_secret_is_sent() {
    let server = FakeServer::start(|number, request| match number {
        0 => FakeResponse::status(503),
        _ => FakeResponse::ok(json!({"embedding": [request.body.len(), 1.0], "inputTextTokenCount": 1})),
    });
    let mut options = EmbedderOptions::new(EmbedderProvider::Bedrock);
    options.base_url = Some(server.url.clone());
    options.dimensions = std::num::NonZeroUsize::new(2);
    let api = BedrockApi::new(&options, "us-east-1".to_owned(), Some(signer(Some("session")).keys)).ok().unwrap();
    let client = options.client("Bedrock");
    let request = api.request(&client, &["a text"], TextKind::Page);
    let body = client.send_signed(&request, RetryPolicy::INTERACTIVE, |request| api.sign(request)).unwrap();
    assert_eq!(api.vectors(&body).unwrap().len(), 1);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/model/amazon.titan-embed-text-v2%3A0/invoke")
        );
        assert_eq!(request.json(), json!({"inputText": "a text", "dimensions": 2}));
        assert!(request.header("authorization").unwrap().starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"));
        assert!(!format!("{:?}", request.headers).contains(SECRET));
    }
}

#[test]
fn model_families_have_their_own_requests_and_responses() {
    let ask = |model: &str| {
        let mut options = EmbedderOptions::new(EmbedderProvider::Bedrock);
        (options.model, options.dimensions) = (Some(model.to_owned()), std::num::NonZeroUsize::new(256));
        let api = BedrockApi::new(&options, "eu-west-1".to_owned(), None)?;
        let request = api.request(&options.client("Bedrock"), &["a"], TextKind::Question);
        Ok::<_, OptionError>((serde_json::from_slice::<serde_json::Value>(&request.body).unwrap(), request.url, api))
    };
    let (body, url, api) = ask("amazon.titan-embed-text-v1").ok().unwrap();
    assert_eq!(body, json!({"inputText": "a"}));
    assert_eq!(url, "https://bedrock-runtime.eu-west-1.amazonaws.com/model/amazon.titan-embed-text-v1/invoke");
    assert_eq!(api.vectors(br#"{"embedding": [1, 2]}"#).unwrap(), [[1.0, 2.0]]);
    let (body, _, api) = ask("cohere.embed-multilingual-v3").ok().unwrap();
    assert_eq!(body, json!({"texts": ["a"], "input_type": "search_query", "truncate": "END"}));
    assert_eq!(api.vectors(br#"{"embeddings": [[1, 2]], "id": "x"}"#).unwrap(), [[1.0, 2.0]]);
    let (body, url, api) = ask("us.cohere.embed-v4:0").ok().unwrap();
    assert_eq!(body["output_dimension"], 256);
    assert!(url.ends_with("/model/us.cohere.embed-v4%3A0/invoke"));
    assert_eq!(api.vectors(br#"{"embeddings": {"float": [[1, 2]]}}"#).unwrap(), [[1.0, 2.0]]);
    for model in ["anthropic.claude", "amazon.nova-2-multimodal-embeddings-v1:0"] {
        assert_eq!(ask(model).err().unwrap().key, "search.vector.embedder.model");
    }
}

#[test]
fn keys_of_a_file_are_read_for_each_request() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |content: &str| std::fs::write(file.path(), content).unwrap();
    let id =
        || file_credentials(file.path()).map(|keys| format!("{} {:?}", keys.access_key_id(), keys.session_token()));
    write(
        "# comment\n[other]\naws_access_key_id = O\n\n[default]\naws_access_key_id=A\n aws_secret_access_key = s=1 \n[x]\n",
    );
    assert_eq!(id(), Ok("A None".to_owned()));
    write("[default]\r\naws_access_key_id = B\r\naws_secret_access_key = s\r\naws_session_token = T\r\n");
    assert_eq!(id(), Ok("B Some(\"T\")".to_owned()));
    for (content, expected) in [
        ("", "no `aws_access_key_id` in the profile `default`"),
        ("[default]\naws_access_key_id = hunter2", "no `aws_secret_access_key`"),
        ("[default]\n[other]\naws_access_key_id = hunter2\naws_secret_access_key = s", "no `aws_access_key_id`"),
        (&"x".repeat(100_000), "too large"),
    ] {
        write(content);
        let mut options = EmbedderOptions::new(EmbedderProvider::Bedrock);
        (options.region, options.credentials_file) = (Some("us-east-1".to_owned()), Some(file.path().to_owned()));
        let error = connect(&options).err().unwrap();
        assert_eq!(error.key, "search.vector.embedder.credentials_file");
        assert!(error.reason.contains(expected) && !error.reason.contains("hunter2"), "{error}");
    }
}
