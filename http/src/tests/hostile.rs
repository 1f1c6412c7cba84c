//! Requests nobody would write: whatever comes in, the answer is a refusal the sender can read.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::server::{Answer, TestServer};
use crate::bind;

/// Asks one server with every case: what `case` makes of it must be answered well.
fn every<S: Strategy>(strategy: S, case: impl Fn(&S::Value) -> (String, Vec<(&'static str, String)>, Vec<u8>)) {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(async { TestServer::new() });
    let mut runner = TestRunner::new(ProptestConfig::with_cases(256));
    let outcome = runner.run(&strategy, |value| {
        let (line, headers, body) = case(&value);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = runtime.block_on(server.ask(&line, &headers, body));
        prop_assert!(answer.status < 500, "{line} {headers:?}: {:?}", answer.body);
        prop_assert!(line.starts_with("HEAD") || is_readable(&answer), "{line} {headers:?}: {:?}", answer.body);
        Ok(())
    });
    outcome.unwrap();
}

/// Paths that begin well.
fn path() -> impl Strategy<Value = String> {
    let start = prop_oneof![Just("/"), Just("/raw/"), Just("/api/"), Just("/api/svc/"), Just("/api/svc/file")];
    (start, "[ -~]{0,40}").prop_map(|(start, rest)| format!("{start}{}", rest.replace([' ', '?'], "%20")))
}

/// Queries with known names, in any disorder.
fn query() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("path"), Just("limit"), Just("q"), Just("update-links"), Just("since"), Just("")];
    prop::collection::vec((name, "[!-~]{0,30}"), 0..4).prop_map(|pairs| {
        let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("&")
    })
}

fn is_readable(answer: &Answer) -> bool {
    answer.status < 400 || serde_json::from_slice::<Value>(&answer.body).is_ok_and(|body| body["error"].is_string())
}

#[test]
fn no_address_makes_the_server_fail() {
    let method = "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|BREW";
    every((method, path(), query()), |(method, path, query)| {
        (format!("{method} {path}?{query}"), Vec::new(), Vec::new())
    });
}

#[test]
fn no_header_makes_the_server_fail() {
    let name = prop_oneof![
        Just("If-Match"),
        Just("If-None-Match"),
        Just("X-Actor"),
        Just("X-Provenance"),
        Just("X-Svc-Space"),
        Just("Host"),
        Just("Origin"),
    ];
    every((name, "[ -~é]{0,60}", "GET|PUT"), |(name, value, method)| {
        let line = format!("{method} /api/svc/file?path=p.md");
        (line, vec![(name, value.clone())], b"text\n".to_vec())
    });
}

#[test]
fn no_body_makes_the_server_fail() {
    let uri = prop_oneof![Just("bulk"), Just("rename"), Just("lint"), Just("resolve-links")];
    let body = prop_oneof![
        any::<Vec<u8>>(),
        "[\\[\\]{}\",:a-z0-9]{0,60}".prop_map(String::into_bytes),
        "\\{\"(path|from|files|content|links)\":[\\[\\]{}\",:a-z0-9]{0,40}\\}".prop_map(String::into_bytes),
    ];
    every((uri, body), |(uri, body)| (format!("POST /api/svc/{uri}"), Vec::new(), body.clone()));
}

proptest! {
    #[test]
    fn a_query_is_split_or_refused(text in "\\PC{0,80}") {
        let pairs = bind::parse_query(&text);
        prop_assert!(pairs.is_ok() || pairs.is_err_and(|fault| fault.kind().http() == 400));
    }
}
