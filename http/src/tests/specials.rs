//! Pages that are no operations.

use http::StatusCode;
use serde_json::json;

use super::server::TestServer;

#[tokio::test]
async fn health_uptime_and_readiness_are_reported() {
    let server = TestServer::new();
    assert_eq!(server.get("/health").await.json(), json!({ "status": "ok" }));
    let healthz = server.get("/healthz").await.json();
    assert_eq!((&healthz["status"], &healthz["version"]), (&json!("ok"), &json!(env!("CARGO_PKG_VERSION"))));
    assert!(healthz["uptime"].as_str().unwrap().ends_with('s'));
    assert_eq!(server.get("/readyz").await.json()["status"], "ready");
}

#[tokio::test]
async fn a_space_that_takes_no_writes_is_not_ready() {
    let server = TestServer::new();
    server.space().vfs.close().unwrap();
    let answer = server.get("/readyz").await;
    assert_eq!((answer.status, &answer.json()["status"]), (503, &json!("storage-unreachable")));
}

#[tokio::test]
async fn the_documentation_browser_is_complete_and_self_contained() {
    let server = TestServer::new();
    // Relative, so that a proxy can serve everything below a path.
    for (uri, location) in [("/api/docs", "docs/index.html"), ("/api/docs/", "index.html")] {
        let redirect = server.get(uri).await;
        assert!(redirect.is_empty(StatusCode::MOVED_PERMANENTLY));
        assert_eq!(redirect.header("location"), location);
    }
    let index = server.get("/api/docs/index.html").await;
    let policy = index.header("content-security-policy");
    assert!(policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!index.text().contains("<script>"), "a script within the page does not run: {}", index.text());
    assert!(index.header("content-type").starts_with("text/html"));
    let parts = index.text().split(['"', '\'']).filter_map(|part| part.strip_prefix("./"));
    let mut found = 0;
    for part in parts {
        assert_eq!(server.get(&format!("/api/docs/{part}")).await.status, 200, "{part}");
        found += 1;
    }
    assert!(found >= 3 && !index.text().contains("https://"), "{}", index.text());
    let initializer = server.get("/api/docs/swagger-initializer.js").await;
    assert!(initializer.text().contains("\"../openapi.json\""), "{}", initializer.text());
    assert_eq!(server.get("/api/docs/no/such.js").await.status, 404);
    assert_eq!(server.get("/api/openapi.json").await.json()["openapi"], "3.1.0");
}

/// What holds of files that cannot run.
const OWN: &str = "frame-ancestors 'self'";

#[tokio::test]
async fn raw_files_are_described_and_cannot_run() {
    let server = TestServer::new();
    for (path, mime, policy) in [
        ("a.md", "text/markdown; charset=utf-8", OWN),
        ("d/b.txt", "text/plain; charset=utf-8", OWN),
        ("c.svg", "image/svg+xml", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"),
        (
            "e.html",
            "text/html; charset=utf-8",
            "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; frame-ancestors 'self'",
        ),
        ("f", "text/plain; charset=utf-8", OWN),
        ("é ü.md", "text/markdown; charset=utf-8", OWN),
    ] {
        let encoded = path.replace(' ', "%20");
        server.put(&encoded, "text\n").await;
        let answer = server.get(&format!("/raw/{encoded}")).await;
        assert_eq!((answer.status, answer.text(), answer.header("content-type")), (200, "text\n", mime), "{path}");
        assert_eq!(answer.header("content-security-policy"), policy, "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "public, max-age=3600, must-revalidate");
        assert!(answer.header("etag").is_empty() && answer.header("last-modified").ends_with("GMT"));
    }
    for path in ["none.md", ".svc/config.toml", ".svc/state/index.db", ".git/HEAD", "d/.hidden"] {
        assert_eq!(server.get(&format!("/raw/{path}")).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_raw_file_too_large_for_memory_comes_piece_by_piece() {
    let server = TestServer::new();
    let (path, length) = (server.space().vfs.root().join("large.bin"), (64 << 20) + 5);
    let mut content = vec![7; length];
    content[length - 3..].copy_from_slice(b"end");
    write(&path, &content);
    let answer = server.get("/raw/large.bin").await;
    assert_eq!((answer.status, answer.header("content-length")), (200, length.to_string().as_str()));
    assert_eq!((answer.header("content-type"), answer.body == content), ("application/octet-stream", true));
    assert!(answer.header("last-modified").ends_with("GMT") && !answer.header("cache-control").is_empty());
}

#[tokio::test]
async fn a_raw_file_without_bytes_is_answered_as_one() {
    let server = TestServer::new();
    server.put("empty.txt", "").await;
    let whole = server.ask("GET /raw/empty.txt", &[], "").await;
    assert_eq!((whole.status, whole.text(), whole.header("content-length")), (200, "", "0"));
    let part = server.ask("GET /raw/empty.txt", &[("range", "bytes=0-")], "").await;
    assert_eq!((part.status, part.header("content-range")), (416, "bytes */0"));
}

#[tokio::test]
async fn a_part_of_a_raw_file_is_sent_to_whom_asks_for_one() {
    let server = TestServer::new();
    server.put("a.txt", "0123456789").await;
    let (path, length) = (server.space().vfs.root().join("large.bin"), (64 << 20) + 5);
    let mut content = vec![7; length];
    content[length - 3..].copy_from_slice(b"end");
    write(&path, &content);
    let ask = async |file: &str, headers: &[(&str, &str)]| server.ask(&format!("GET /raw/{file}"), headers, "").await;
    let parts = [
        ("bytes=2-4", "234", "2-4"),
        ("bytes=7-", "789", "7-9"),
        ("bytes=-3", "789", "7-9"),
        ("bytes=8-99", "89", "8-9"),
    ];
    for (range, text, told) in parts {
        let answer = ask("a.txt", &[("range", range)]).await;
        assert_eq!((answer.status, answer.text()), (206, text), "{range}");
        assert_eq!(answer.header("content-range"), format!("bytes {told}/10"));
        assert_eq!(answer.header("content-length"), text.len().to_string());
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    }
    // All of it, where no single part is asked for.
    for range in
        ["bytes=0-1,4-5", "bytes=100-,0-0", "bytes=0-1,", "bytes=4-2", "bytes=-", "bytes=x-y", "items=0-1", "bytes=-11"]
    {
        let answer = ask("a.txt", &[("range", range)]).await;
        assert_eq!(
            (answer.status, answer.text(), answer.header("accept-ranges")),
            (200, "0123456789", "bytes"),
            "{range}"
        );
    }
    let beyond = ask("a.txt", &[("range", "bytes=10-")]).await;
    assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */10"));
    let end = format!("bytes={}-", length - 3);
    let answer = ask("large.bin", &[("range", &end)]).await;
    assert_eq!((answer.status, answer.text(), answer.header("content-length")), (206, "end", "3"));
    assert_eq!(answer.header("content-range"), format!("bytes {}-{}/{length}", length - 3, length - 1));
    // A download goes on if it is still the same file, and that is certain.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    let modified = ask("large.bin", &[]).await.header("last-modified").to_owned();
    assert_eq!(ask("large.bin", &[("range", &end), ("if-range", &modified)]).await.status, 206);
    let other = "Mon, 01 Jan 2001 00:00:00 GMT";
    for condition in [other, "\"abc\"", "W/\"abc\"", "no date"] {
        let answer = ask("large.bin", &[("range", &end), ("if-range", condition)]).await;
        assert_eq!((answer.status, answer.body.len()), (200, length), "{condition}");
    }
    let file = std::fs::File::options().write(true).open(server.space().vfs.root().join("a.txt")).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
    let fresh = ask("a.txt", &[]).await.header("last-modified").to_owned();
    assert_eq!(
        ask("a.txt", &[("range", "bytes=1-"), ("if-range", &fresh)]).await.status,
        200,
        "it may change in this second"
    );
}

#[expect(clippy::disallowed_methods, reason = "put there behind the server")]
fn write(path: &std::path::Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
}

#[tokio::test]
async fn llms_txt_lists_every_page_by_folder() {
    let server = TestServer::new();
    let long = "word ".repeat(100);
    server.put("z.md", "---\ntitle: Last one\ndescription: About (it)\n---\n\ntext\n").await;
    server.put("notes/a%20b.md", &format!("# First\n\n{long}\n")).await;
    let answer = server.get("/llms.txt").await;
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    let lines: Vec<&str> = answer.text().lines().collect();
    assert!(lines.contains(&"## Root") && lines.contains(&"## notes"), "{}", answer.text());
    assert!(lines.contains(&"- [Last one](/raw/z.md): About (it)"), "{}", answer.text());
    let first = lines.iter().find(|line| line.starts_with("- [First](/raw/notes/a%20b.md): word")).unwrap();
    assert!(first.ends_with('…') && first.chars().count() < 250, "{first}");
}

#[tokio::test]
async fn llms_txt_lists_exactly_what_its_reader_may_read() {
    let keys = "\n[auth]\ntype = \"perspace\"\n\
        [[auth.api_keys]]\nkey = \"full\"\nactor = \"a\"\nscope = \"admin\"\n\
        [[auth.api_keys]]\nkey = \"part\"\nactor = \"b\"\nscope = \"read\"\nprefix = \"notes\"\n";
    for (visibility, is_told) in [("private", false), ("unlisted", false), ("public", true)] {
        let config = format!("[space]\nvisibility = \"{visibility}\"\n{keys}");
        let server = TestServer::of(svcfs_knowledge::CATALOGUE, &config);
        let full = [("Authorization", "Bearer full")];
        for path in ["notes/a.md", "other/b.md"] {
            let text = "---\nvisibility: public\n---\n\n# Page\n";
            assert_eq!(server.ask(&format!("PUT /api/svc/file?path={path}"), &full, text).await.status, 200);
        }
        for (key, listed) in [
            (Some("Bearer full"), &["notes/a.md", "other/b.md"][..]),
            (Some("Bearer part"), &["notes/a.md"]),
            (None, if is_told { &["notes/a.md", "other/b.md"] } else { &[] }),
            (Some("Bearer wrong"), &[]),
        ] {
            let headers: Vec<(&str, &str)> = key.map(|key| ("Authorization", key)).into_iter().collect();
            let told = server.ask("GET /llms.txt", &headers, "").await;
            assert_eq!(told.status, if listed.is_empty() { 401 } else { 200 }, "{visibility}, {key:?}");
            let links: Vec<&str> =
                told.text().split("](/raw/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
            assert_eq!(links, *listed, "{visibility}, {key:?}");
            for link in links {
                let page = server.ask(&format!("GET /raw/{link}"), &headers, "").await;
                assert_eq!(page.status, 200, "{link}");
                let caching = if key.is_some() { "private, no-cache" } else { "public, max-age=3600, must-revalidate" };
                assert_eq!(page.header("cache-control"), caching, "what a key opens is for no cache that others share");
            }
        }
        let unknown = server.ask("GET /llms.txt", &[("X-Svc-Space", "none")], "").await.status;
        assert_eq!(unknown, 401, "strangers do not learn which spaces there are");
    }
}

#[tokio::test]
async fn every_answer_tells_browsers_to_keep_to_it() {
    let server = TestServer::new();
    server.put("a.md", "# A\n").await;
    for uri in ["/health", "/api/svc/tree", "/api/svc/file?path=a.md", "/raw/a.md", "/api/docs/index.html", "/no/such"]
    {
        let answer = server.get(uri).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{uri}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{uri}");
        assert!(answer.header("content-security-policy").contains("frame-ancestors"), "{uri}");
    }
}
