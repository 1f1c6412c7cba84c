//! Where browsers may come from.

use http::{Method, StatusCode};
use serde_json::json;
use svcfs_knowledge::CATALOGUE;

use super::connections::Listening;
use super::server::TestServer;
use crate::hosts::AllowedHosts;

#[tokio::test]
async fn a_local_origin_may_ask_and_read_the_headers() {
    let server = TestServer::new();
    for origin in ["http://localhost:5173", "https://127.0.0.1", "http://[::1]:80", "http://LOCALHOST"] {
        let answer = server.ask("GET /health", &[("Origin", origin)], "").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("access-control-allow-origin"), origin);
        assert!(answer.header("access-control-expose-headers").contains("ETag"));
        let preflight = server.ask("OPTIONS /api/svc/file", &[("Origin", origin)], "").await;
        assert!(preflight.is_empty(StatusCode::NO_CONTENT));
        assert_eq!(preflight.header("access-control-allow-methods"), "GET, PUT, DELETE, HEAD, OPTIONS");
        assert!(preflight.header("access-control-allow-headers").contains("X-Actor"));
    }
}

#[tokio::test]
async fn every_other_origin_is_refused_before_anything_happens() {
    let server = TestServer::new();
    for origin in
        ["https://evil.example", "null", "", "http://localhost.evil.example", "http://evil@x", "ftp://localhost"]
    {
        let answer = server.ask("PUT /api/svc/file?path=a.md", &[("Origin", origin)], "x").await;
        assert!(answer.error(403).contains("origin"), "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    assert_eq!(server.get("/api/svc/file?path=a.md").await.status, 404);
}

#[tokio::test]
async fn a_name_that_was_made_to_lead_here_is_refused() {
    let server = TestServer::new();
    for host in ["evil.example:3333", "127.0.0.1.evil.example", "a b"] {
        let answer = server.ask("GET /api/svc/tree", &[("Host", host)], "").await;
        assert!(answer.error(403).contains("server.public_url"), "{host}");
    }
    for host in ["localhost:3333", "127.0.0.1", "[::1]:3333"] {
        assert_eq!(server.ask("GET /api/svc/tree", &[("Host", host)], "").await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn the_public_address_is_accepted_as_own_host() {
    let server =
        TestServer::of(svcfs_knowledge::CATALOGUE, "[server]\npublic_url = \"https://Notes.example.org/kb\"\n");
    let headers = [("Host", "notes.example.org"), ("Origin", "https://notes.example.org")];
    assert_eq!(server.ask("GET /health", &headers, "").await.status, 200);
}

#[test]
fn a_wildcard_bind_accepts_every_host_and_its_own_origin() {
    use svcfs_config::{CliOverrides, Config, ListenAddress, ServerSettings, Settings};
    let plain = || Settings::resolve(Config::default(), CliOverrides::default()).unwrap().server;
    let host = ListenAddress::parse("0.0.0.0").unwrap();
    let settings = ServerSettings { host, port: 3333, public_url: None, ..plain() };
    let hosts = AllowedHosts::new(&settings);
    let headers = |host: &str, origin: &str| {
        let mut headers = http::HeaderMap::new();
        headers.insert("Host", host.parse().unwrap());
        headers.insert("Origin", origin.parse().unwrap());
        headers
    };
    let own = headers("kb.lan:3333", "http://kb.lan:3333");
    assert!(hosts.check_host(&own).is_ok() && hosts.check_origin(&own, &Method::GET).is_ok());
    assert!(hosts.check_origin(&headers("kb.lan:3333", "http://evil.example:3333"), &Method::GET).is_err());
}

const LISTED: &str = "[server.cors]\nallowed_origins = [\"https://Wiki.example.org\"]\nallowed_methods = [\"GET\", \"OPTIONS\", \"PUT\"]\n\
    allow_credentials = true\nmax_age = 60\n[auth]\ntype = \"apikey\"\napi_key = \"full\"\n";

#[tokio::test]
async fn listed_origins_may_use_listed_methods_with_their_key() {
    let server = TestServer::of(CATALOGUE, LISTED);
    let origin = ("Origin", "https://wiki.example.org");
    let preflight = server.ask("OPTIONS /api/svc/file", &[origin], "").await;
    assert!(preflight.is_empty(StatusCode::NO_CONTENT));
    for (name, value) in [
        ("allow", "GET, PUT, DELETE, HEAD, OPTIONS"),
        ("access-control-allow-methods", "GET, PUT, OPTIONS"),
        ("access-control-allow-origin", origin.1),
        ("access-control-allow-credentials", "true"),
        ("access-control-max-age", "60"),
    ] {
        assert_eq!(preflight.header(name), value, "{name}");
    }
    let key = ("Authorization", "Bearer full");
    assert_eq!(server.ask("PUT /api/svc/file?path=a.md", &[origin, key], "# A\n").await.status, 200);
    let refused = server.ask("PUT /api/svc/file?path=b.md", &[origin], "# B\n").await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, origin.1), "the page reads why");
    let denied = server.ask("DELETE /api/svc/file?path=a.md", &[origin, key], "").await;
    assert!(denied.error(403).contains("server.cors.allowed_methods"));
    for other in ["https://wiki.example.org.evil.example", "http://wiki.example.org", "null"] {
        assert_eq!(server.ask("GET /health", &[("Origin", other)], "").await.status, 403, "{other}");
    }
    let local = server.ask("DELETE /api/svc/file?path=a.md", &[("Origin", "http://localhost:5173"), key], "").await;
    assert_eq!(local.status, 200, "pages of this machine may do everything");
}

#[tokio::test]
async fn every_origin_may_be_let_in_but_none_without_a_name() {
    let config = "[server]\ncors_origins = [\"*\"]\n[auth]\ntype = \"apikey\"\napi_key = \"full\"\n";
    let server = TestServer::of(CATALOGUE, config);
    let answer = server.ask("GET /health", &[("Origin", "https://any.example")], "").await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, "https://any.example"));
    assert_eq!(answer.header("access-control-allow-credentials"), "");
    assert_eq!(server.ask("GET /health", &[("Origin", "null")], "").await.status, 403);
}

const LIMITED: &str = "[server.rate_limit]\nrequests_per_minute = 1\nburst_size = 3\n\
    [auth]\ntype = \"apikey\"\napi_key = \"full\"\n";

/// Shows: AUTH-9
#[tokio::test]
async fn a_rate_limited_caller_must_wait_and_others_need_not() {
    let server = TestServer::of(CATALOGUE, LIMITED);
    let key = [("Authorization", "Bearer full")];
    for _ in 0..3 {
        assert_eq!(server.ask("GET /api/svc/tree", &key, "").await.status, 200);
    }
    let refused = server.ask("GET /api/svc/tree", &key, "").await;
    assert_eq!(refused.error(429), "rate limit exceeded");
    assert_eq!(refused.header("retry-after"), "60");
    assert!(!refused.header("x-request-id").is_empty());
    // Made-up keys are one caller with all others of the address.
    let statuses = async |token: &str| server.ask("GET /api/svc/tree", &[("Authorization", token)], "").await.status;
    let made_up = [statuses("Bearer a").await, statuses("Bearer b").await, statuses("Bearer c").await];
    assert_eq!((made_up, statuses("Bearer d").await), ([401; 3], 429));
    for path in ["/health", "/healthz", "/readyz", "/metrics"] {
        for _ in 0..5 {
            assert_eq!(server.get(path).await.status, 200, "{path} is asked by machines that watch");
        }
    }
    assert_eq!(server.get("/api/openapi.json").await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_counted_and_their_pages_let_in_as_everybody_else() {
    let protocol =
        Listening::on(TestServer::of(CATALOGUE, &format!("{LISTED}{}", LIMITED.split("[auth]").next().unwrap()))).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Authorization", "Bearer full"),
    ];
    for _ in 0..3 {
        assert_eq!(protocol.post("/mcp", &headers, &body).await.0, 200);
    }
    let (status, told) = protocol.post("/mcp", &headers, &body).await;
    assert_eq!((status, told), (429, json!({ "error": "rate limit exceeded", "retry_after": 60 })));
    let page = [headers[0], headers[1], ("Origin", "https://wiki.example.org")];
    assert_eq!(protocol.post("/mcp", &page, &body).await.0, 403, "POST is not among the methods");
    assert!(protocol.stopped().await);
}
