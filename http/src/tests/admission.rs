//! Where browsers may come from.

use http::StatusCode;

use super::server::TestServer;
use crate::hosts::Hosts;

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
async fn the_public_address_is_ours() {
    let server =
        TestServer::of(svcfs_knowledge::CATALOGUE, "[server]\npublic_url = \"https://Notes.example.org/kb\"\n");
    let headers = [("Host", "notes.example.org"), ("Origin", "https://notes.example.org")];
    assert_eq!(server.ask("GET /health", &headers, "").await.status, 200);
}

#[test]
fn a_server_on_every_address_takes_every_host_and_its_own_origin() {
    use svcfs_config::{Host, ServerSettings};
    let host = Host::parse("0.0.0.0").unwrap();
    let settings = ServerSettings { host, port: 3333, public_url: None, space_parents: Vec::new() };
    let hosts = Hosts::new(&settings);
    let headers = |host: &str, origin: &str| {
        let mut headers = http::HeaderMap::new();
        headers.insert("Host", host.parse().unwrap());
        headers.insert("Origin", origin.parse().unwrap());
        headers
    };
    let own = headers("kb.lan:3333", "http://kb.lan:3333");
    assert!(hosts.check_host(&own).is_ok() && hosts.check_origin(&own).is_ok());
    assert!(hosts.check_origin(&headers("kb.lan:3333", "http://evil.example:3333")).is_err());
}
