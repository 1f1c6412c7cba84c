//! Closed doors: every route, with every kind of credentials.

use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::json;
use svcfs_base::Scope;
use svcfs_config::SpaceVisibility;
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::access::RequestGuard;
use svcfs_knowledge::kernel::{FolderScope, OperationEntry, Route};

use super::connections::Listening;
use super::issuer::Issuer;
use super::server::{Answer, TestServer};
use crate::specials::{RoutePrefix, SPECIAL_ROUTES};

const ONE_KEY: &str = "[auth]\ntype = \"apikey\"\napi_key = \"full\"\n";

pub(super) const KEYS: &str = r#"
[auth]
type = "perspace"
[[auth.api_keys]]
key = "full"
[[auth.api_keys]]
key = "reader"
scope = "read"
[[auth.api_keys]]
key = "writer"
actor = "agent:scribe"
scope = "write"
space = "default"
[[auth.api_keys]]
key = "proposer"
actor = "agent"
scope = "propose"
[[auth.api_keys]]
key = "elsewhere"
space = "other"
[[auth.api_keys]]
key = "folder"
prefix = "docs/"
scope = "write"
"#;

/// A request that reaches whatever stands behind the door, with the statuses of a closed one.
async fn status(server: &TestServer, line: &str, token: Option<&str>) -> u16 {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    server.send(line, &headers, "{}").await.status().as_u16()
}

fn lines() -> impl Iterator<Item = (&'static OperationEntry, String)> {
    let entries = CATALOGUE.iter().flat_map(|area| area.operations);
    entries.flat_map(|entry| entry.http.iter().map(move |route| (entry, line(route))))
}

fn line(route: &Route) -> String {
    let path: String = route
        .full_path()
        .split(['{', '}'])
        .enumerate()
        .map(|(at, part)| if at % 2 == 0 { part } else { "x" })
        .collect();
    format!("{} {path}", route.method.name())
}

/// Shows: AUTH-1
#[tokio::test]
async fn every_operation_requires_the_scope_of_the_table() {
    let open = TestServer::new();
    let one_key = TestServer::of(CATALOGUE, ONE_KEY);
    let keys = TestServer::of(CATALOGUE, KEYS);
    let issuer = Issuer::new();
    let provided = TestServer::of(CATALOGUE, &issuer.config());
    let good = issuer.token(json!({}));
    let bad = [issuer.forged(), issuer.token(json!({ "aud": "another" })), issuer.token(json!({ "exp": 1 }))];
    for (entry, line) in lines() {
        for token in [None, Some("wrong"), Some("")].into_iter().chain(bad.iter().map(|token| Some(token.as_str()))) {
            assert_eq!(status(&provided, &line, token).await, 401, "{line} with {token:?} where a provider is trusted");
        }
        let status_of_good = status(&provided, &line, Some(&good)).await;
        assert!(!matches!(status_of_good, 401 | 403), "{line} with the provider's token: {status_of_good}");
        for token in [None, Some("anything")] {
            let status = status(&open, &line, token).await;
            assert!(!matches!(status, 401 | 403), "{line} without authentication: {status}");
        }
        for closed in [&one_key, &keys] {
            for token in [None, Some("wrong"), Some("")] {
                assert_eq!(status(closed, &line, token).await, 401, "{line} with {token:?}");
            }
            let status = status(closed, &line, Some("full")).await;
            assert!(!matches!(status, 401 | 403), "{line} with the right key: {status}");
        }
        assert_eq!(status(&keys, &line, Some("elsewhere")).await, 401, "{line} with a key of another space");
        for (token, scope) in [("reader", Scope::Read), ("writer", Scope::Write)] {
            let is_refused = status(&keys, &line, Some(token)).await == 403;
            assert_eq!(is_refused, entry.required_scope() > scope, "{line} with {token}");
        }
        let answer = keys.send(&line, &[("Authorization", "Bearer proposer")], "{}").await;
        let is_refused = answer.status() == 403;
        assert_eq!(is_refused, entry.required_scope() > Scope::Propose && !entry.is_proposable, "{line} with propose");
        if is_refused && !line.starts_with("HEAD") {
            assert!(text(answer).await.contains("`propose`"), "{line} names no scope");
        }
        if entry.folder_scope == FolderScope::WholeTree {
            let status = status(&keys, &line, Some("folder")).await;
            assert_eq!(status, 403, "{line} with the key of a folder");
        }
    }
}

async fn text(answer: warp::reply::Response) -> String {
    String::from_utf8_lossy(&answer.into_body().collect().await.unwrap().to_bytes()).into_owned()
}

/// Every write that a key of scope `propose` may make goes into its draft.
#[tokio::test]
async fn writes_of_a_proposing_key_reach_its_draft_only() {
    let server = TestServer::of(CATALOGUE, KEYS);
    let with = |key: &'static str| [("Authorization", key)];
    let (full, agent) = (with("Bearer full"), with("Bearer proposer"));
    for name in ["a", "b", "c", "d"] {
        server.send(&format!("PUT /api/svc/file?path=docs/{name}.md"), &full, "# Page\n").await;
    }
    let before = text(server.send("GET /api/svc/tree?depth=5&details=true", &full, "").await).await;
    let writes = [
        ("PUT /api/svc/file?path=docs/a.md", "# Changed\n"),
        ("PUT /api/svc/file?path=new/page.md", "# New\n"),
        ("POST /api/svc/file/append?path=docs/b.md", "more\n"),
        ("POST /api/svc/bulk", r##"{"files":[{"path":"x.md","content":"# X\n"}]}"##),
        ("POST /api/svc/rename", r#"{"from":"docs/c.md","to":"docs/e.md"}"#),
        ("DELETE /api/svc/file?path=docs/d.md", ""),
        ("POST /api/svc/rename-dir", r#"{"from":"docs","to":"texts"}"#),
    ];
    let mut drafts = std::collections::BTreeSet::new();
    for (line, body) in writes {
        let answer = server.send(line, &agent, body).await;
        assert!(answer.status().is_success(), "{line}: {}", text(answer).await);
        let draft = answer.headers().get("x-svc-draft").unwrap_or_else(|| panic!("{line} names no draft"));
        drafts.insert(draft.to_str().unwrap().to_owned());
    }
    assert_eq!(drafts.len(), 1, "{drafts:?}");
    assert_eq!(text(server.send("GET /api/svc/tree?depth=5&details=true", &full, "").await).await, before);
    for (path, status) in
        [("texts/a.md", 200), ("texts/e.md", 200), ("texts/d.md", 404), ("docs/a.md", 404), ("x.md", 200)]
    {
        for (key, status) in [(&agent, status), (&full, if path == "docs/a.md" { 200 } else { 404 })] {
            let answer = server.send(&format!("GET /api/svc/file?path={path}"), key, "").await;
            assert_eq!(answer.status(), status, "{path}");
        }
    }
    for line in ["PUT /api/svc/file?path=.svc/schemas/x.json", "DELETE /api/svc/file?path=.svc/config.toml"] {
        let answer = server.send(line, &agent, "{}").await;
        assert!(matches!(answer.status().as_u16(), 400 | 403 | 404), "{line}: {}", answer.status());
    }
}

/// Each read of a stored page shows the draft of a proposing key, or says that it shows the tree.
#[tokio::test]
async fn reads_of_a_proposing_key_show_its_draft_or_say_main() {
    let server = TestServer::of(CATALOGUE, KEYS);
    let (full, agent) = ([("Authorization", "Bearer full")], [("Authorization", "Bearer proposer")]);
    server.send("PUT /api/svc/file?path=a.md", &full, "# Old\n\nold text\n").await;
    let draft = "# Penguin\n\npenguin [[b]] and [new](new.md)\n\n#### Skipped levels\n";
    for (path, text) in [("a.md", draft), ("new.md", "# Penguin\n")] {
        let line = format!("PUT /api/svc/file?path={path}");
        assert!(server.send(&line, &agent, text).await.status().is_success(), "{path}");
    }
    let lines = [
        ("GET /api/svc/file?path=a.md", "", "penguin"),
        ("GET /api/svc/file?path=new.md", "", "Penguin"),
        ("GET /api/svc/tree", "", "new.md"),
        ("GET /api/svc/peek?path=a.md", "", "Skipped levels"),
        ("GET /api/svc/peek?path=new.md", "", "Penguin"),
        ("GET /api/svc/toc?path=a.md", "", "Penguin"),
        ("GET /api/svc/section?path=a.md&index=0", "", "penguin"),
        ("POST /api/svc/lint", r#"{"path":"a.md"}"#, "\"issues\":[{"),
        ("GET /api/svc/comments?path=new.md", "", "[]"),
        ("GET /raw/new.md", "", "Penguin"),
    ];
    for (line, body, expected) in lines {
        let shown = text(server.send(line, &agent, body).await).await;
        assert!(shown.contains(expected), "{line}: {shown}");
        let of_tree = text(server.send(line, &full, body).await).await;
        assert!(expected == "[]" || !of_tree.contains(expected), "{line}: {of_tree}");
    }
    for line in ["GET /api/svc/backlinks?path=new.md", "GET /api/svc/search?q=penguin", "GET /api/svc/graph"] {
        let answer = server.send(line, &agent, "").await;
        let note = answer.headers().get("x-svc-note").map_or("", |note| note.to_str().unwrap());
        assert!(note.contains("a draft is not indexed"), "{line}: {note}");
        let of_tree = server.send(line, &full, "").await;
        let note = of_tree.headers().get("x-svc-note").map_or("", |note| note.to_str().unwrap());
        assert!(!note.contains("a draft is not indexed"), "{line}: {note}");
    }
}

/// Shows: AUTH-1
#[tokio::test]
async fn every_special_page_asks_for_what_the_table_says() {
    let keys = TestServer::of(CATALOGUE, KEYS);
    let issuer = Issuer::new();
    let provided = TestServer::of(CATALOGUE, &issuer.config());
    let good = issuer.token(json!({}));
    let (open, one_key) = (TestServer::new(), TestServer::of(CATALOGUE, ONE_KEY));
    for special in SPECIAL_ROUTES.iter().filter(|special| special.prefix != RoutePrefix::Unrouted) {
        let prefix = if special.prefix == RoutePrefix::Space { "/api/svc" } else { "" };
        let path = special.path.replace("{*file}", "index.html").replace("{*path}", "a.md");
        let line = format!("GET {prefix}{path}");
        let (none, reader) = (status(&keys, &line, None).await, status(&keys, &line, Some("reader")).await);
        assert_eq!(none == 401, special.guard() != RequestGuard::Open, "{line} without credentials: {none}");
        assert!(!matches!(reader, 401 | 403), "{line} with a reading key: {reader}");
        for (closed, right) in [(&one_key, "full"), (&provided, good.as_str())] {
            for wrong in [None, Some("wrong")] {
                let refused = status(closed, &line, wrong).await == 401;
                assert_eq!(refused, special.guard() != RequestGuard::Open, "{line} with {wrong:?}");
            }
            let let_in = status(closed, &line, Some(right)).await;
            assert!(!matches!(let_in, 401 | 403), "{line} with the right key: {let_in}");
        }
        let anybody = status(&open, &line, None).await;
        assert!(!matches!(anybody, 401 | 403), "{line} without authentication: {anybody}");
        let elsewhere = status(&keys, &line, Some("elsewhere")).await;
        assert_eq!(
            elsewhere == 401,
            special.guard() != RequestGuard::Open,
            "{line} with a key of another space: {elsewhere}"
        );
        let folder = status(&keys, &line, Some("folder")).await;
        assert_eq!(
            folder == 403,
            special.folder_effect().contains("must be in the folder"),
            "{line} with the key of a folder: {folder}"
        );
    }
}

/// Shows: AUTH-3
#[tokio::test(flavor = "multi_thread")]
async fn special_pages_tell_the_key_of_a_folder_of_nothing_else() {
    let server = TestServer::of(CATALOGUE, KEYS);
    for (path, text) in [("docs/a.md", "# Open\n"), ("secret/hidden.md", "# Xylophone\n")] {
        assert_eq!(with(&server, "full", &format!("PUT /api/svc/file?path={path}"), text).await.status, 200);
    }
    let ask = async |line: &'static str| with(&server, "folder", line, "").await;
    let llms = ask("GET /llms.txt").await;
    assert!(llms.text().contains("docs/a.md") && !llms.text().contains("ylophone") && !llms.text().contains("secret"));
    assert_eq!(ask("GET /raw/docs/a.md").await.text(), "# Open\n");
    for line in ["GET /raw/secret/hidden.md", "GET /raw/secret/none.md"] {
        assert_eq!(ask(line).await.status, 403, "{line}");
    }
    for line in ["GET /metrics", "GET /readyz"] {
        let told = ask(line).await;
        assert!(!told.text().contains("default") && !told.text().contains("other\""), "{line}: {}", told.text());
    }
    let mut stream =
        server.send("GET /api/svc/events", &[("Authorization", "Bearer folder"), ("Last-Event-ID", "0")], "").await;
    with(&server, "full", "PUT /api/svc/file?path=secret/more.md", "x\n").await;
    with(&server, "full", "PUT /api/svc/file?path=docs/last.md", "x\n").await;
    let mut told = String::new();
    while !told.contains("docs/last.md") {
        let frame = tokio::time::timeout(std::time::Duration::from_secs(20), stream.body_mut().frame()).await;
        let frame = frame.expect("no event came").unwrap().unwrap();
        told.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
    assert!(told.contains("docs/a.md") && !told.contains("secret"), "{told}");
}

/// What an agent with this token is told: the status, and what it is refused with, if it is.
async fn agent(
    protocol: &Listening,
    (method, params): (&str, serde_json::Value),
    token: Option<&str>,
) -> (u16, String) {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let plain = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let headers: Vec<_> =
        plain.into_iter().chain(bearer.iter().map(|bearer| ("Authorization", bearer.as_str()))).collect();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (status, answer) = protocol.post("/mcp", &headers, &body).await;
    let failed = answer["result"]["isError"] == true;
    let told = if failed { &answer["result"]["content"][0]["text"] } else { &answer["error"]["message"] };
    (status, told.as_str().unwrap_or_default().to_owned())
}

/// Whether it is the credentials that somebody is refused for.
fn is_kept_out(told: &str) -> bool {
    ["token cannot perform", "a token of scope", "key scope", "API key", "bearer"]
        .iter()
        .any(|words| told.contains(words))
}

/// Shows: AUTH-1
#[tokio::test(flavor = "multi_thread")]
async fn every_tool_and_resource_requires_the_scope_of_the_table() {
    let issuer = Issuer::new();
    let good = issuer.token(json!({}));
    let bad = issuer.forged();
    let open = Listening::on(TestServer::new()).await;
    let one_key = Listening::on(TestServer::of(CATALOGUE, ONE_KEY)).await;
    let keys = Listening::on(TestServer::of(CATALOGUE, KEYS)).await;
    let provided = Listening::on(TestServer::of(CATALOGUE, &issuer.config())).await;
    let tools = CATALOGUE.iter().flat_map(|area| area.operations).filter(|entry| entry.tool);
    let tool =
        |entry: &OperationEntry| ("tools/call", json!({ "name": format!("svc_{}", entry.name), "arguments": {} }));
    let read = |uri: &str| ("resources/read", json!({ "uri": uri }));
    let asked: Vec<_> = tools
        .map(|entry| (tool(entry), entry.required_scope(), entry.folder_scope == FolderScope::WholeTree))
        .chain(["svc://file/a.md", "svc://tree/"].map(|uri| (read(uri), Scope::Read, true)))
        .chain(["svc://file/docs/a.md", "svc://tree/docs", "svc://schema"].map(|uri| (read(uri), Scope::Read, false)))
        .collect();
    assert!(asked.len() > 20);
    for (question, needs, is_of_the_tree) in asked {
        let ask = async |protocol: &Listening, token: Option<&str>| agent(protocol, question.clone(), token).await;
        for (protocol, wrong) in [(&one_key, "wrong"), (&keys, "wrong"), (&provided, bad.as_str())] {
            for token in [None, Some(wrong), Some("")] {
                assert_eq!(ask(protocol, token).await.0, 401, "{question:?} with {token:?}");
            }
        }
        for (protocol, right) in
            [(&open, None), (&one_key, Some("full")), (&keys, Some("full")), (&provided, Some(good.as_str()))]
        {
            let (status, told) = ask(protocol, right).await;
            assert!(status == 200 && !is_kept_out(&told), "{question:?} with {right:?}: {status} {told}");
        }
        let (_, told) = ask(&keys, Some("elsewhere")).await;
        assert!(told.contains("another space"), "{question:?} with a key of another space: {told}");
        for (token, scope) in [("reader", Scope::Read), ("writer", Scope::Write)] {
            let (_, told) = ask(&keys, Some(token)).await;
            assert_eq!(is_kept_out(&told), needs > scope, "{question:?} with {token}: {told}");
        }
        let (_, told) = ask(&keys, Some("folder")).await;
        let is_beyond = is_of_the_tree || needs > Scope::Write;
        assert_eq!(is_kept_out(&told), is_beyond, "{question:?} with the key of a folder: {told}");
    }
    for protocol in [open, one_key, keys, provided] {
        assert!(protocol.stopped().await);
    }
}

/// Shows: AUTH-1
#[tokio::test(flavor = "multi_thread")]
async fn agents_need_credentials_like_every_caller() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, KEYS)).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "svc_write", "arguments": { "path": "a.md", "content": "# A\n", "actor": "somebody" } } });
    let plain = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    assert_eq!(protocol.post("/mcp", &plain, &body).await.0, 401);
    let with = |token: &'static str| [plain[0], plain[1], ("Authorization", token)];
    assert_eq!(protocol.post("/mcp", &with("Bearer wrong"), &body).await.0, 401);
    assert_eq!(protocol.post("/mcp", &with("Basic cmVhZGVyOg=="), &body).await.0, 401);
    let (_, refused) = protocol.post("/mcp", &with("Bearer reader"), &body).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let (_, elsewhere) = protocol.post("/mcp", &with("Bearer elsewhere"), &body).await;
    assert_eq!(elsewhere["result"]["isError"], true, "{elsewhere}");
    let (_, written) = protocol.post("/mcp", &with("Bearer writer"), &body).await;
    assert_eq!(written["result"]["isError"], false, "{written}");
    let read = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": "svc://file/a.md" } });
    let (_, kept) = protocol.post("/mcp", &with("Bearer folder"), &read).await;
    assert!(kept["error"]["message"].as_str().is_some_and(|told| told.contains("key scope")), "{kept}");
    assert!(protocol.stopped().await);
}

/// Shows: AUTH-3
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_key_reads_only_the_conventions_of_that_folder() {
    let server = TestServer::of(CATALOGUE, KEYS);
    let put = async |path: &str, text: &str| {
        let line = format!("PUT /api/svc/file?path={path}");
        assert_eq!(with(&server, "full", &line, text).await.status, 200, "{path}");
    };
    put("SCHEMA.md", "# Of the root\n").await;
    put(".svc/SCHEMA.md", "# Of the configuration\n").await;
    put("docs/a.md", "# A\n").await;
    let protocol = Listening::on(server).await;
    let plain = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let ask = async |token: &'static str, uri: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": uri } });
        protocol.post("/mcp", &[plain[0], plain[1], ("Authorization", token)], &body).await.1
    };
    let missing = ask("Bearer folder", "svc://schema").await;
    let overview = missing["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{missing}"));
    assert!(overview.contains("The folder `docs` has no page `docs/SCHEMA.md`"), "{overview}");
    assert!(overview.contains("Pages: 1\n"), "what lies elsewhere is not counted: {overview}");
    let write = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "svc_write", "arguments": { "path": "docs/SCHEMA.md", "content": "# Of docs\n" } } });
    let headers = [plain[0], plain[1], ("Authorization", "Bearer folder")];
    assert_eq!(protocol.post("/mcp", &headers, &write).await.1["result"]["isError"], false);
    let text = |answer: &serde_json::Value| answer["result"]["contents"][0]["text"].as_str().map(str::to_owned);
    assert_eq!(text(&ask("Bearer folder", "svc://schema").await).as_deref(), Some("# Of docs\n"));
    assert_eq!(text(&ask("Bearer reader", "svc://schema").await).as_deref(), Some("# Of the configuration\n"));
    for elsewhere in ["svc://file/SCHEMA.md", "svc://file/.svc/SCHEMA.md", "svc://tree/", "svc://tree/.svc"] {
        let refused = ask("Bearer folder", elsewhere).await;
        assert!(refused["error"]["message"].as_str().is_some_and(|told| told.contains("key scope")), "{refused}");
    }
    assert!(protocol.stopped().await);
}

async fn with(server: &TestServer, token: &str, line: &str, body: &str) -> Answer {
    server.ask(line, &[("Authorization", &format!("bearer  {token}"))], body.to_owned()).await
}

/// Shows: AUTH-2
#[tokio::test]
async fn a_change_is_signed_by_the_owner_of_the_key() {
    let server = TestServer::of(CATALOGUE, KEYS);
    let headers = [("Authorization", "Bearer writer"), ("X-Actor", "mallory")];
    let written = server.ask("PUT /api/svc/file?path=docs/a.md", &headers, "# A\n").await;
    assert_eq!(written.status, 200, "{}", written.text());
    let versions = with(&server, "reader", "GET /api/svc/versions?path=docs/a.md", "").await;
    assert_eq!(versions.json()[0]["author"], "agent:scribe");
    let denied = server.ask("PUT /api/svc/file?path=docs/b.md", &[("Authorization", "Bearer reader")], "# B\n").await;
    assert_eq!(denied.error(403), "read-only token cannot perform `write`, which needs the scope `write`");
}

/// Shows: AUTH-1
#[tokio::test]
async fn a_denied_caller_learns_only_how_to_authenticate() {
    let server = TestServer::of(CATALOGUE, ONE_KEY);
    let refused = server.get("/api/svc/tree").await;
    assert_eq!(refused.error(401), "missing bearer token");
    assert_eq!(refused.header("www-authenticate"), "Bearer realm=\"svcfs\"");
    let answer = |space: &'static str| {
        let server = &server;
        async move { server.ask("GET /api/svc/tree", &[("X-Svc-Space", space)], "").await.error(401) }
    };
    assert_eq!(answer("other").await, answer("no-such-space").await, "a stranger learns which spaces there are");
    let twice = [("Authorization", "Bearer wrong"), ("Authorization", "Bearer full")];
    assert_eq!(server.ask("GET /api/svc/tree", &twice, "").await.status, 401);
    assert!(server.ask("OPTIONS /api/svc/tree", &[], "").await.is_empty(StatusCode::NO_CONTENT));
}

/// Shows: SPACE-5
#[tokio::test]
async fn public_and_unlisted_spaces_are_readable_but_never_writable() {
    let server = TestServer::of(CATALOGUE, KEYS);
    let put = server.ask("PUT /api/svc/file?path=a.md", &[("Authorization", "Bearer full")], "# A\n").await;
    assert_eq!(put.status, 200);
    let see = |visibility: &'static str| {
        let server = &server;
        let body = json!({ "visibility": visibility }).to_string();
        async move {
            let answer = server.ask("PUT /api/svc/space/visibility", &[("Authorization", "Bearer full")], body).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    };
    let lines = [
        "GET /api/svc/file?path=a.md",
        "GET /api/svc/tree",
        "GET /raw/a.md",
        "GET /api/spaces",
        "DELETE /api/svc/file?path=a.md",
    ];
    for (visibility, allowed) in [("public", 3), ("unlisted", 1), ("private", 0)] {
        see(visibility).await;
        for (at, line) in lines.iter().enumerate() {
            let status = status(&server, line, None).await;
            assert_eq!(status, if at < allowed { 200 } else { 401 }, "{line} of a {visibility} space");
            assert_eq!(self::status(&server, line, Some("wrong")).await, 401, "{line} with a wrong key");
        }
        assert_eq!(status(&server, "GET /api/svc/other/file?path=a.md", None).await, 401, "the other space is private");
    }
}

/// Shows: SPACE-5
#[tokio::test]
async fn anonymous_callers_see_no_usage_data_and_no_disk_path() {
    let server = TestServer::of(CATALOGUE, KEYS);
    server.space().set_visibility(SpaceVisibility::Public);
    let of_readers = svcfs_knowledge::usage::AREA.operations;
    for (entry, line) in lines().filter(|(entry, _)| of_readers.iter().any(|other| other.name == entry.name)) {
        assert_eq!(status(&server, &line, None).await, 401, "{line}");
        assert!(!matches!(status(&server, &line, Some("full")).await, 401 | 403), "{line}: {}", entry.name);
    }
    assert_eq!(server.get("/api/svc/space/info").await.json(), json!({ "visibility": "public" }));
}

#[tokio::test]
async fn space_administration_needs_an_admin_key_without_space_scope() {
    let server = TestServer::of(
        CATALOGUE,
        &format!("{KEYS}[[auth.api_keys]]\nkey = \"local admin\"\nspace = \"default\"\n")
            .replace("local admin", "local-admin"),
    );
    for (token, expected) in [("full", 200), ("local-admin", 403), ("writer", 403), ("reader", 403), ("elsewhere", 401)]
    {
        assert_eq!(status(&server, "GET /api/spaces", Some(token)).await, expected, "{token}");
    }
    assert_eq!(status(&server, "PUT /api/svc/space/visibility", Some("local-admin")).await, 400);
}

#[tokio::test]
async fn a_refused_link_does_not_tell_where_it_leads() {
    let server = TestServer::of(CATALOGUE, KEYS);
    let put = |line: &'static str, mime: &'static str, content: &'static str| {
        let headers = [("Authorization", "Bearer full"), ("Content-Type", mime)];
        let server = &server;
        async move { assert_eq!(server.ask(line, &headers, content).await.status, 200, "{line}") }
    };
    put("PUT /api/svc/file?path=hidden.md", "text/markdown", "# Hidden\n").await;
    put("PUT /api/svc/file?path=docs/way", "application/x-symlink", "../hidden.md").await;
    for line in ["GET /raw/docs/way", "GET /api/svc/file?path=docs/way"] {
        let told = with(&server, "folder", line, "").await.error(403);
        assert_eq!(told, "path outside key scope: `docs/way` is a link to a path outside", "{line}");
    }
}
