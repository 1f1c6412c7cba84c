//! Requests for operations: what goes in, what comes out, what is refused.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{Fault, Kind};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::{BodyKind, Operation, OperationArea, OperationContext, OperationEntry, Route};

use super::server::TestServer;

#[tokio::test]
async fn a_page_is_written_read_and_cached() {
    let server = TestServer::new();
    let written = server.ask("PUT /api/svc/file?path=a.md", &[("X-Actor", "agent:1")], "# A\n").await;
    assert_eq!(written.status, 200);
    let etag = written.json()["etag"].as_str().unwrap().to_owned();
    assert_eq!(written.header("etag"), format!("\"{etag}\""));

    let read = server.get("/api/svc/file?path=/a.md").await;
    assert_eq!((read.status, read.text()), (200, "# A\n"));
    assert_eq!(read.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(read.header("etag"), format!("\"{etag}\""));
    assert!(read.header("last-modified").ends_with(" GMT"), "{:?}", read.headers);

    for tags in [format!("\"{etag}\""), etag.clone(), format!("\"x\", W/\"{etag}\""), "*".to_owned()] {
        let cached = server.ask("GET /api/svc/file?path=a.md", &[("If-None-Match", &tags)], "").await;
        assert!(cached.is_empty(StatusCode::NOT_MODIFIED), "{tags}");
        assert_eq!(cached.header("etag"), format!("\"{etag}\""));
    }
    let other = server.ask("GET /api/svc/file?path=a.md", &[("If-None-Match", "\"x\"")], "").await;
    assert_eq!(other.status, 200);

    let head = server.ask("HEAD /api/svc/file?path=a.md", &[], "").await;
    assert!(head.is_empty(StatusCode::OK));
    assert_eq!((head.header("content-length"), head.header("etag")), ("4", read.header("etag")));

    let versions = server.get("/api/svc/versions?path=a.md").await.json();
    assert_eq!(versions[0]["author"], "agent:1");
}

#[tokio::test]
async fn a_copy_with_a_date_is_right_until_the_file_changes() {
    let server = TestServer::new();
    let etag = server.put("a.md", "# A\n").await;
    let modified = server.get("/api/svc/file?path=a.md").await.header("last-modified").to_owned();
    let ask = async |headers: &[(&str, &str)]| server.ask("GET /api/svc/file?path=a.md", headers, "").await;
    for date in [&*modified, "Tue, 31 Dec 2999 23:59:59 GMT"] {
        let cached = ask(&[("If-Modified-Since", date)]).await;
        assert!(cached.is_empty(StatusCode::NOT_MODIFIED), "{date}: {}", cached.status);
        assert_eq!((cached.header("last-modified"), cached.header("etag")), (&*modified, &*format!("\"{etag}\"")));
    }
    for date in ["Thu, 01 Jan 1970 00:00:01 GMT", "yesterday", ""] {
        assert_eq!(ask(&[("If-Modified-Since", date)]).await.status, 200, "{date}");
    }
    let both = ask(&[("If-Modified-Since", &modified), ("If-None-Match", "\"another\"")]).await;
    assert_eq!(both.status, 200, "an ETag knows better than a date");
}

#[tokio::test]
async fn a_link_follows_its_body_type_and_is_announced_in_a_header() {
    let server = TestServer::of(CATALOGUE, "[server]\npublic_url = \"https://notes.example\"\n");
    server.put("a.md", "# A\n").await;
    let link = [("Content-Type", "application/x-symlink")];
    let made = server.ask("PUT /api/svc/file?path=l.md", &link, "a.md").await;
    assert_eq!((made.status, &made.json()["type"]), (200, &json!("symlink")), "{}", made.text());
    assert_eq!(server.get("/api/svc/readlink?path=l.md").await.text(), "a.md");
    let read = server.get("/api/svc/file?path=l.md").await;
    assert_eq!((read.text(), read.header("x-file-type")), ("# A\n", "symlink"));
    assert_eq!(read.header("x-permalink"), "https://notes.example/page/l.md");
    let page = server.get("/api/svc/file?path=a.md").await;
    assert!(page.headers.get("x-file-type").is_none() && page.header("x-permalink").ends_with("/page/a.md"));
    for target in ["/etc/passwd", "../../x", ""] {
        let refused = server.ask("PUT /api/svc/file?path=m.md", &link, target).await;
        assert!(refused.error(400).starts_with("invalid link target: "), "{}", refused.text());
    }
    let twice = server.ask("PUT /api/svc/file?path=l.md&symlink=false", &link, "a.md").await;
    assert_eq!(twice.error(400), "`symlink`: is given twice");
}

#[tokio::test]
async fn the_frontmatter_alone_is_an_object_with_the_pages_etag() {
    let server = TestServer::new();
    let etag = server.put("a.md", "---\ntitle: A\ntags: [x]\n---\n\ntext\n").await;
    let answer = server.get("/api/svc/file?path=a.md&metadata_only=true").await;
    assert_eq!(answer.json(), json!({ "title": "A", "tags": ["x"] }));
    assert_eq!(answer.header("etag"), format!("\"{etag}\""));
}

#[tokio::test]
async fn conditions_on_frontmatter_are_given_in_one_parameter_each() {
    let server = TestServer::new();
    server.put("a.md", "---\nkind: x\nn: 1\n---\n").await;
    server.put("b.md", "---\nkind: x\nn: 2\n---\n").await;
    let found = server.get("/api/svc/meta?where=$.kind=x&where=$.n%3E1").await.json();
    assert_eq!((found.as_array().unwrap().len(), &found[0]["path"]), (1, &json!("b.md")), "{found}");
    let either = server.get("/api/svc/meta?where=$.kind=x&or=$.n=1&or=$.n=2").await.json();
    assert_eq!(either.as_array().unwrap().len(), 2, "{either}");
    assert_eq!(server.get("/api/svc/meta").await.error(400), "where is required");
}

#[tokio::test]
async fn a_file_without_a_known_extension_is_text_when_it_is_text() {
    let server = TestServer::new();
    for (path, bytes, mime) in [
        ("LICENSE", &b"text\n"[..], "text/plain; charset=utf-8"),
        ("blob", b"\xff\x00", "application/octet-stream"),
        ("x.unknownextension", b"\xff\x00", "application/octet-stream"),
    ] {
        assert_eq!(server.ask(&format!("PUT /api/svc/file?path={path}"), &[], bytes).await.status, 200);
        for uri in [format!("/api/svc/file?path={path}"), format!("/raw/{path}")] {
            let read = server.get(&uri).await;
            assert_eq!((&*read.body, read.header("content-type")), (bytes, mime), "{uri}");
        }
    }
    server.put("d/a.md", "a\n").await;
    assert_eq!(server.get("/raw/d").await.error(404), "file not found: d");
}

/// Shows: HTTP-4
#[tokio::test]
async fn bytes_that_are_no_text_travel_unharmed() {
    let server = TestServer::new();
    let bytes = b"\x89PNG\r\n\x1a\n\x00\xff".as_slice();
    let written = server.ask("PUT /api/svc/file?path=i/x.png", &[], bytes).await;
    assert_eq!(written.status, 200, "{}", written.text());
    for uri in ["/api/svc/file?path=i/x.png", "/raw/i/x.png"] {
        let read = server.get(uri).await;
        assert_eq!((read.status, &*read.body, read.header("content-type")), (200, bytes, "image/png"), "{uri}");
    }
    let page = server.ask("PUT /api/svc/file?path=x.md", &[], bytes).await;
    assert!(page.error(400).contains("UTF-8"), "{}", page.text());
}

#[tokio::test]
async fn http_preconditions_are_enforced_on_pages() {
    let server = TestServer::new();
    let etag = server.put("a.md", "one\n").await;
    let put = async |path: &str, name: &str, value: &str| {
        server.ask(&format!("PUT /api/svc/file?path={path}"), &[(name, value)], "two\n").await
    };
    let stale = "0000000000000000000000000000000000000000";
    let refused = put("a.md", "If-Match", stale).await;
    assert!(refused.error(409).starts_with("conflict: file was modified since your last read"));
    assert_eq!(refused.json()["etag"], etag);
    assert_eq!(put("missing.md", "If-Match", &etag).await.status, 409);
    assert_eq!(put("missing.md", "If-Match", "*").await.status, 409);
    assert_eq!(put("a.md", "If-None-Match", "*").await.status, 412);
    for malformed in ["", "\"\"", "abc", "W/"] {
        let refused = put("a.md", "If-Match", malformed).await;
        assert!(refused.error(409).starts_with("conflict: file was modified since your last read"));
    }
    assert_eq!(server.get("/api/svc/file?path=a.md").await.text(), "one\n");
    assert_eq!(put("a.md", "If-Match", &format!("\"{etag}\"")).await.status, 200);
    assert_eq!(put("new.md", "If-None-Match", "*").await.status, 200);
    // Clients send invented values (Joplin): they match nothing (gaps.md D46).
    for invented in ["JoplinIgnore-7141", "", "W/", "\"abc\""] {
        assert_eq!(put("new.md", "If-None-Match", invented).await.status, 200, "{invented}");
        let headers = [("if-none-match", invented)];
        assert_eq!(server.ask("GET /api/svc/file?path=new.md", &headers, "").await.status, 200, "{invented}");
        assert_eq!(server.ask("GET /raw/new.md", &headers, "").await.status, 200, "{invented}");
        assert_eq!(server.ask("DELETE /api/svc/file?path=new.md", &headers, "").await.status, 200, "{invented}");
    }
}

#[tokio::test]
async fn a_caller_finds_its_new_text_and_not_the_replaced_text() {
    let server = TestServer::new();
    for round in 0..20 {
        server.put("a.md", &format!("# A\n\nword{round}\n")).await;
        let found = async |word: usize| server.get(&format!("/api/svc/search?q=word{word}")).await.json();
        assert_eq!(found(round).await[0]["path"], "a.md", "round {round}");
        if round > 0 {
            assert_eq!(found(round - 1).await, json!([]), "round {round}");
        }
    }
}

/// Every way to write a path that leads out of the tree, or is none.
const HOSTILE: [&str; 9] = [
    "../a.md",
    "a/../../b.md",
    "%2e%2e%2fa.md",
    "%252e%252e%252fa.md",
    "a%5c..%5cb.md",
    "a%00b.md",
    "a%0Ab.md",
    "%ff%fe.md",
    "%c3%28.md",
];

#[tokio::test]
async fn a_hostile_path_is_refused_by_every_operation_that_takes_one() {
    let server = TestServer::new();
    let long = "x".repeat(300);
    let mut asked = 0;
    for entry in CATALOGUE.iter().flat_map(|area| area.operations) {
        for route in entry.http {
            let takes_path = {
                let schema = (entry.input)(&mut schemars::SchemaGenerator::default());
                schema.pointer("/properties/path").is_some()
            };
            if !takes_path || route.body == BodyKind::Json {
                continue;
            }
            for path in HOSTILE.into_iter().chain([&*long]) {
                let line = format!("{} {}?path={path}", route.method.name(), route.full_path());
                let answer = server.ask(&line, &[], "x").await;
                assert_eq!(answer.status, 400, "{line}: {}", answer.text());
                assert!(!answer.error(400).is_empty());
                asked += 1;
            }
        }
    }
    assert!(asked > 100, "only {asked} requests: the catalogue or this test has changed");
    for path in HOSTILE.into_iter().chain([&*long]) {
        let status = server.get(&format!("/raw/{path}")).await.status;
        assert_eq!(status, 400, "/raw/{path}");
    }
    assert_eq!(server.get("/api/svc/tree").await.json(), json!([]));
}

#[tokio::test]
async fn a_json_path_is_checked_like_any_other() {
    let server = TestServer::new();
    for path in ["../a.md", "a\u{0}b.md", "%2e%2e/a.md", ""] {
        let body = json!({ "files": [{ "path": path, "content": "x" }] }).to_string();
        let answer = server.ask("POST /api/svc/bulk", &[], body).await;
        assert!(answer.error(400).contains("files[0].path"), "{path:?}: {}", answer.text());
    }
    assert_eq!(server.get("/api/svc/tree").await.json(), json!([]));
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named() {
    let server = TestServer::new();
    for (line, body, message) in [
        ("GET /api/svc/file", "", "path is required"),
        ("PUT /api/svc/file", "x", "path is required"),
        ("GET /api/svc/search", "", "q is required"),
        ("POST /api/svc/rename", "{\"from\": \"a.md\"}", "to is required"),
        ("POST /api/svc/bulk", "{\"files\": [{\"path\": \"a.md\"}]}", "files[0].content is required"),
        ("GET /api/svc/changes?limit=x", "", "`limit`: `x` is not an integer"),
        ("GET /api/svc/file?path=a.md&pat=b.md", "", "unknown parameter `pat`; did you mean `path`?"),
        ("GET /api/svc/file?path=a.md&path=b.md", "", "`path`: is given twice"),
        ("POST /api/svc/rename", "[]", "the body must be a JSON object"),
    ] {
        let answer = server.ask(line, &[], body).await;
        assert_eq!(answer.error(400), message, "{line}");
    }
    let missing = server.get("/api/svc/file?path=a.md").await;
    assert_eq!(missing.error(404), "file not found: a.md");
}

#[tokio::test]
async fn a_space_is_named_by_header_or_path_and_the_header_wins() {
    let server = TestServer::new();
    server.put("a.md", "default\n").await;
    let other = [("X-Svc-Space", "other")];
    assert_eq!(server.ask("PUT /api/svc/file?path=a.md", &other, "other\n").await.status, 200);
    for (line, headers, content) in [
        ("GET /api/svc/file?path=a.md", &[][..], "default\n"),
        ("GET /api/svc/default/file?path=a.md", &[], "default\n"),
        ("GET /api/svc/other/file?path=a.md", &[], "other\n"),
        ("GET /api/svc/%6fther/file?path=a.md", &[], "other\n"),
        ("GET /api/svc/file?path=a.md", &other, "other\n"),
        ("GET /api/svc/default/file?path=a.md", &other, "other\n"),
        ("GET /raw/a.md", &other, "other\n"),
    ] {
        assert_eq!(server.ask(line, headers, "").await.text(), content, "{line}");
    }
    let unknown = server.ask("GET /api/svc/file?path=a.md", &[("X-Svc-Space", "nobody")], "").await;
    assert_eq!(unknown.error(404), "space not found: nobody");
    assert_eq!(server.get("/api/svc/nobody/file?path=a.md").await.error(404), "space not found: nobody");
    // An endpoint's name beats a space's.
    assert_eq!(server.get("/api/svc/search/verified?q=x").await.status, 200);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_in_json() {
    let server = TestServer::new();
    for uri in ["/", "/nothing", "/api/svc", "/api/svc/", "/api/svc/nothing", "/api/svc//file", "/health/"] {
        assert!(server.get(uri).await.error(404).starts_with("not found: "), "{uri}");
    }
    let wrong = server.ask("PATCH /api/svc/file?path=a.md", &[], "").await;
    assert_eq!(wrong.error(405), "method not allowed here; allowed are GET, PUT, DELETE, HEAD, OPTIONS");
    assert_eq!(wrong.header("allow"), "GET, PUT, DELETE, HEAD, OPTIONS");
}

#[tokio::test]
async fn a_refused_page_tells_its_issues_and_changes_nothing() {
    let server = TestServer::new();
    let answer = server.ask("PUT /api/svc/file?path=a.md", &[], "---\ntitle: [\n---\n\ntext\n").await;
    assert!(!answer.error(422).is_empty());
    assert!(answer.json()["issues"].is_array(), "{}", answer.text());
    assert_eq!(server.get("/api/svc/file?path=a.md").await.status, 404);
}

/// Fail in the way that is asked
#[derive(Deserialize, JsonSchema)]
struct Fail {
    how: String,
}

#[derive(Serialize, JsonSchema)]
struct Done {}

impl Operation for Fail {
    const NAME: &'static str = "fail";
    const HTTP: &'static [Route] = &[Route::get("/fail/{how}"), Route::delete("/fail/{how}").no_content()];
    const TOOL: bool = true;
    type Output = Done;
    fn run(self, _: &OperationContext<'_>) -> Result<Done, Fault> {
        match self.how.as_str() {
            "panic" => panic!("secret /home/owner"),
            "internal" => Err(Fault::internal("secret /home/owner")),
            "upstream" => Err(Fault::new(Kind::Upstream, "secret host")),
            "disabled" => Err(Fault::new(Kind::Disabled, "drafts are off")),
            "unavailable" => Err(Fault::unavailable("claims not enabled").with_detail("retry_after", 7)),
            _ => Ok(Done {}),
        }
    }
}

pub(super) const FAILING: &[OperationArea] =
    &[OperationArea { title: "Failures", operations: &[OperationEntry::new::<Fail>()] }];

#[tokio::test]
async fn internal_faults_are_answered_without_internal_details() {
    let server = TestServer::of(FAILING, "");
    for (how, status) in [("panic", 500), ("internal", 500), ("upstream", 502)] {
        let answer = server.get(&format!("/api/svc/fail/{how}")).await;
        let (message, id) = (answer.error(status), answer.header("x-request-id"));
        assert_eq!(message, format!("internal error; the server's log has the details under request {id}"));
        assert!(!answer.text().contains("secret"), "{}", answer.text());
    }
    let disabled = server.get("/api/svc/fail/disabled").await;
    assert_eq!(disabled.error(501), "drafts are off");
    let unavailable = server.get("/api/svc/fail/unavailable").await;
    assert_eq!((&*unavailable.error(503), unavailable.header("retry-after")), ("claims not enabled", "7"));
    assert!(server.ask("DELETE /api/svc/fail/not", &[], "").await.is_empty(StatusCode::NO_CONTENT));
}

#[tokio::test]
async fn a_view_read_from_the_api_can_be_put_back_under_any_name() {
    let server = TestServer::new();
    let body = r#"{"query": "LIST", "layout": "table"}"#;
    assert_eq!(server.ask("PUT /api/svc/views/one", &[], body).await.status, 200);
    let got = String::from_utf8(server.get("/api/svc/views/one").await.body.to_vec()).unwrap();
    assert!(got.contains(r#""name":"one""#), "{got}");
    for name in ["one", "two"] {
        let put = server.ask(&format!("PUT /api/svc/views/{name}"), &[], got.clone()).await;
        let put: serde_json::Value = serde_json::from_slice(&put.body).unwrap();
        assert_eq!(put["name"], name);
    }
}

#[tokio::test]
async fn feeds_have_the_media_types_that_feed_readers_look_for() {
    let server = TestServer::new();
    assert_eq!(server.ask("PUT /api/svc/file?path=a.md", &[("X-Actor", "Zoë & Co")], "# A\n").await.status, 200);
    let json = server.get("/api/svc/feed.json").await;
    assert_eq!((json.status, json.header("content-type")), (200, "application/feed+json; charset=utf-8"));
    let feed: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
    assert_eq!(
        (&feed["items"][0]["title"], &feed["items"][0]["authors"][0]["name"]),
        (&"Updated: a.md".into(), &"Zoë & Co".into())
    );
    let xml = server.get("/api/svc/default/feed.xml").await;
    assert_eq!((xml.status, xml.header("content-type")), (200, "application/atom+xml; charset=utf-8"));
    let text = String::from_utf8(xml.body.to_vec()).unwrap();
    assert!(text.contains("<title>Updated: a.md</title>") && text.contains("Zoë &amp; Co"), "{text}");
    for (target, field) in [
        ("timeline?limit=none", "limit"),
        ("timeline?type=rename", "type"),
        ("timeline?offset=-1", "offset"),
        ("velocity?period=soon", "period"),
        ("feed.json?limit=0", "limit"),
    ] {
        let refused = server.get(&format!("/api/svc/{target}")).await.error(400);
        assert!(refused.contains(&format!("`{field}`")), "{target}: {refused}");
    }
}
