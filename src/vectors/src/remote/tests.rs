use std::time::Instant;

use serde_json::json;

use super::fake::{FakeResponse, FakeServer};
use super::*;

fn client(timeout: Duration) -> ApiClient {
    ApiClient::new("Example", "search.vector.embedder", timeout).with_key(
        "Authorization",
        "Bearer ",
        Some(&Secret::new("sk-123456")),
    )
}

fn send(server: &FakeServer, policy: RetryPolicy) -> Result<Vec<u8>, ApiError> {
    let client = client(Duration::from_millis(300));
    client.send(&client.request(ServiceMethod::Post, &format!("{}/x?key=hidden", server.url), &json!({})), policy)
}

#[test]
fn errors_that_pass_are_retried_and_others_are_not() {
    for (first, expected) in [
        (FakeResponse::status(500), 2),
        (FakeResponse::status(503), 2),
        (FakeResponse::status(429), 2),
        (FakeResponse::status(408), 2),
        (FakeResponse::CloseEarly, 2),
        (FakeResponse::Silence, 2),
        (FakeResponse::status(400), 1),
        (FakeResponse::status(401), 1),
        (FakeResponse::status(404), 1),
        (FakeResponse::WithHeader(307, "Location", "http://127.0.0.1:1/y".to_owned(), json!({})), 1),
    ] {
        let answer = first.clone();
        let server =
            FakeServer::start(move |number, _| if number == 0 { answer.clone() } else { FakeResponse::ok(json!(1)) });
        let result = send(&server, RetryPolicy { min_delay: Duration::from_millis(5), ..RetryPolicy::BACKGROUND });
        assert_eq!((result.is_ok(), server.requests().len()), (expected == 2, expected), "{first:?} {result:?}");
    }
}

#[test]
fn retries_end_and_honour_the_wait_that_the_service_asks_for() {
    let server = FakeServer::start(|_, _| FakeResponse::WithHeader(429, "Retry-After", "1".to_owned(), json!({})));
    let start = Instant::now();
    let error = send(&server, RetryPolicy { max_retries: 1, ..RetryPolicy::BACKGROUND }).unwrap_err();
    assert!(error.is_transient && error.retry_after == Some(Duration::from_secs(1)), "{error:?}");
    assert_eq!(server.requests().len(), 2);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());

    // A long wait is the caller's to plan.
    let server = FakeServer::start(|_, _| FakeResponse::WithHeader(429, "Retry-After", "3600".to_owned(), json!({})));
    let error = send(&server, RetryPolicy::BACKGROUND).unwrap_err();
    assert_eq!((server.requests().len(), error.retry_after), (1, Some(Duration::from_secs(3600))));
}

#[test]
fn a_person_waits_for_one_timeout_only() {
    let server = FakeServer::start(|_, _| FakeResponse::Silence);
    let start = Instant::now();
    let error = send(&server, RetryPolicy::INTERACTIVE).unwrap_err();
    assert!(error.is_transient && server.requests().len() == 1, "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn messages_name_service_url_status_and_advice_without_secrets() {
    for (response, parts) in [
        (
            FakeResponse::Json(401, json!({"error": {"message": "Incorrect API key: sk-123456\n\u{7}now"}})),
            ["Example answers 401", "(Incorrect API key: *** now)", "`search.vector.embedder.api_key`"],
        ),
        (
            FakeResponse::WithHeader(301, "Location", "https://new.example/x?t=1".to_owned(), json!({})),
            ["301", "redirects are not followed", "`https://new.example/x`"],
        ),
        (FakeResponse::Json(404, json!({"error": "model not found"})), ["404", "(model not found)", "check the URL"]),
        (
            FakeResponse::Json(400, json!({"detail": "too long"})),
            ["400", "(too long)", "check `search.vector.embedder`"],
        ),
        (FakeResponse::Json(422, json!("x".repeat(2000))), ["422", "xxx…", "check `search.vector.embedder`"]),
    ] {
        let server = FakeServer::start(move |_, _| response.clone());
        let message = send(&server, RetryPolicy::BACKGROUND).unwrap_err().message;
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(message.contains(&format!("{}/x`", server.url)), "{message}");
        assert!(!message.contains("sk-123456") && !message.contains("hidden"), "{message}");
    }
    assert_eq!(format!("{:?}", Secret::new("sk-123456")), "***");
}
