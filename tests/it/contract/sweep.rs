//! Every operation through every network door with rubbish: a refusal that says why, never a
//! failure of ours, and nothing changed afterwards.

use std::collections::BTreeMap;

use schemars::generate::SchemaGenerator;
use serde_json::{Map, Value, json};
use svcfs_base::MAX_PAGE_BYTES;
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::{BodyKind, OperationEntry, Route};

use super::{hostile, served};
use crate::protocols::Kind;
use crate::space::client::{Client, PREFIX, Reply, check_result, encoded};
use crate::space::git::{self, Commit};
use crate::space::{TestSpace, tree};

/// An ETag no page has: under it every write of a sweep is refused at the latest when everything
/// else was found in order.
const STALE: &str = "0123456789012345678901234567890123456789";

/// Routes that need no input: one does something only to pages that ask for it, and there is none;
/// the other opens a draft, beside the tree.
const ASKS_NOTHING: &[&str] = &["/view/refresh", "/drafts"];
/// Routes of parts that are off unless the settings switch them on (contract 7: 501).
const OFF: &[&str] = &["/audit", "/backup"];

/// Routes of parts that are off as above, but answer 503 (contract 4.5, 4.6, 4.15).
const UNAVAILABLE: &[&str] = &["/webhooks", "/search/semantic", "/suggestions", "/embeddings"];

/// A space that must stay as it is.
struct Untouched {
    space: TestSpace,
    client: Client,
    tree: BTreeMap<String, String>,
    log: Vec<Commit>,
}

impl Untouched {
    fn new() -> Self {
        let space = TestSpace::new();
        let http = Kind::Http.of(&space);
        http.write("a.md", b"---\ntitle: A\n---\n\n# A\n\nSee [[b]].\n").unwrap();
        http.write("d/b.md", b"# B\n\nText.\n").unwrap();
        space.settle();
        Self { client: space.client(), tree: tree::files(&space.root()), log: git::log(&space.root()), space }
    }

    #[track_caller]
    fn is_untouched(&self, what: &str) {
        self.space.settle();
        assert_eq!(tree::files(&self.space.root()), self.tree, "{what} changed the tree");
        assert_eq!(git::log(&self.space.root()), self.log, "{what} made a version");
    }
}

/// The names and schemas of what an operation reads.
fn inputs(entry: &OperationEntry) -> Map<String, Value> {
    let schema = (entry.input)(&mut SchemaGenerator::default());
    schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// A value that is in order, so that only the one under test is not.
fn ordinary(name: &str, schema: &Value) -> Value {
    match (name, schema["type"].as_str()) {
        ("path" | "from", _) => json!("a.md"),
        ("to", _) => json!("moved.md"),
        ("theme", _) => json!({ "mode": "dark" }),
        ("files", _) => json!([{ "path": "a.md", "content": "# Other\n", "if_match": STALE }]),
        ("where", _) => json!("$.title = 'A'"),
        ("links", _) => json!(["b"]),
        (_, Some("integer" | "number")) => json!(1),
        (_, Some("boolean")) => json!(true),
        (_, Some("array")) => json!([]),
        _ => json!("text"),
    }
}

/// Values in order for all inputs that go together: `as_of` excludes some of the others.
fn ordinary_inputs(schemas: &Map<String, Value>) -> Map<String, Value> {
    let together = schemas.iter().filter(|(name, _)| *name != "as_of");
    together.map(|(name, schema)| (name.clone(), ordinary(name, schema))).collect()
}

/// Whether an input names a place in the tree.
fn is_path(name: &str) -> bool {
    matches!(name, "path" | "from" | "to")
}

/// A JSON value as it stands in a query or path.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Sends these inputs the way a route wants them.
fn ask(client: &Client, entry: &OperationEntry, route: &Route, inputs: &Map<String, Value>) -> Reply {
    let mut path = route.full_path();
    let (mut query, mut body, mut raw) = (Vec::new(), Map::new(), Vec::new());
    for (name, value) in inputs {
        let place = format!("{{{name}}}");
        if path.contains(&place) {
            path = path.replace(&place, &encoded(&as_text(value)));
            continue;
        }
        match route.body {
            BodyKind::Raw(field) if field == name => raw = as_text(value).into_bytes(),
            BodyKind::Object(field) if field == name => raw = value.to_string().into_bytes(),
            BodyKind::Json if !route.query_inputs.contains(&name.as_str()) => {
                drop(body.insert(name.clone(), value.clone()))
            }
            BodyKind::Form => drop(body.insert(name.clone(), value.clone())),
            BodyKind::Json | BodyKind::Raw(_) | BodyKind::Object(_) | BodyKind::Empty => {
                query.push(format!("{}={}", encoded(name), encoded(&as_text(value))));
            }
        }
    }
    let target = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
    let body = match route.body {
        BodyKind::Json | BodyKind::Form => Value::from(body).to_string().into_bytes(),
        BodyKind::Raw(_) | BodyKind::Object(_) => raw,
        BodyKind::Empty => Vec::new(),
    };
    let mut headers = Vec::new();
    // A bulk write has its condition in each file.
    if !route.is_read_only && entry.name != "bulk_write" {
        headers.push(("If-Match", STALE));
    }
    if route.body == BodyKind::Form {
        headers.push(("Content-Type", "application/json"));
    }
    client.send(route.method.name(), &target, &headers, body)
}

/// An answer to rubbish: for a reading route it may be an answer, else a refusal in the contract's
/// form.
#[track_caller]
fn check(what: &str, route: &Route, reply: &Reply) {
    let said = reply.text();
    if (200..300).contains(&reply.status) {
        assert!(route.is_read_only || ASKS_NOTHING.contains(&route.path), "{what} was accepted: {said}");
        return;
    }
    let is_disabled = reply.status == 503 && UNAVAILABLE.iter().any(|path| route.path.starts_with(path));
    let is_off = is_disabled || reply.status == 501 && OFF.contains(&route.path);
    assert!(is_off || (400..500).contains(&reply.status), "{what}: {} {said}", reply.status);
    let answer = reply.json();
    assert!(answer["error"].as_str().is_some_and(|text| !text.is_empty()), "{what}: {} {said}", reply.status);
}

fn routes() -> impl Iterator<Item = (&'static OperationEntry, &'static Route)> {
    let entries = CATALOGUE.iter().flat_map(|area| area.operations);
    entries.flat_map(|entry| entry.http.iter().map(move |route| (entry, route)))
}

#[test]
fn hostile_inputs_of_every_route_are_refused_without_effect() {
    let untouched = Untouched::new();
    let client = &untouched.client;
    for (entry, route) in routes() {
        let schemas = inputs(entry);
        let all = ordinary_inputs(&schemas);
        check(&format!("{entry:?} without anything"), route, &ask(client, entry, route, &Map::new()));
        let unknown = Map::from_iter([("no_such_input".to_owned(), json!("x"))]);
        let reply = ask(client, entry, route, &unknown);
        assert_eq!(reply.status, 400, "{entry:?} with an unknown input: {}", reply.text());
        for name in schemas.keys() {
            let mut others = all.clone();
            others.remove(name);
            check(&format!("{entry:?} without `{name}`"), route, &ask(client, entry, route, &others));
            let texts = hostile::texts().into_iter().map(Value::from);
            for value in texts.chain(hostile::values()) {
                let mut given = all.clone();
                given.insert(name.clone(), value.clone());
                let what: String = format!("{entry:?} with `{name}` = {value}").chars().take(300).collect();
                check(&what, route, &ask(client, entry, route, &given));
            }
        }
        untouched.is_untouched(entry.name);
    }
}

/// An answer that is about no place in the tree: there is no history of a place nobody can write,
/// nobody links to it, and the page from which links are looked at decides only which of several
/// namesakes is nearest.
fn tells_nothing(entry: &OperationEntry, reply: &Reply) -> bool {
    let answer = reply.json();
    match entry.name {
        "versions" | "backlinks" | "contradictions" => answer == json!([]),
        "analytics_views_v2" => answer["top_pages"] == json!([]),
        "resolve_links" => answer["resolved"]["b"]["path"] == "d/b.md",
        _ => false,
    }
}

#[test]
fn paths_that_lead_out_of_the_tree_are_refused_by_every_route() {
    let untouched = Untouched::new();
    let client = &untouched.client;
    let mut swept = 0;
    for (entry, route) in routes() {
        let schemas = inputs(entry);
        let all = ordinary_inputs(&schemas);
        for name in schemas.keys() {
            for path in hostile::paths() {
                let value = match name.as_str() {
                    "files" => json!([{ "path": path, "content": "# Evil\n" }]),
                    name if is_path(name) => json!(path),
                    _ => continue,
                };
                let mut given = all.clone();
                given.insert(name.clone(), value);
                if entry.name == "lint" {
                    // A text that is handed in is looked at instead of the page.
                    given.remove("content");
                }
                let reply = ask(client, entry, route, &given);
                let what: String = format!("{entry:?} with `{name}` = {path:?}").chars().take(300).collect();
                let said = reply.text();
                let is_empty = tells_nothing(entry, &reply);
                assert!((400..500).contains(&reply.status) || is_empty, "{what}: {} {said}", reply.status);
                assert!(is_empty || reply.json()["error"].is_string(), "{what}: {said}");
                assert!(!said.contains("root:x:") && !said.contains("[core]"), "{what}: {said}");
                swept += 1;
            }
        }
        untouched.is_untouched(entry.name);
    }
    assert!(swept > 300, "only {swept} were tried");
}

#[test]
fn paths_in_the_url_itself_lead_nowhere() {
    let untouched = Untouched::new();
    for form in hostile::targets() {
        for target in
            [format!("/raw/{form}"), format!("/api/svc/{form}/tree"), format!("/{form}"), format!("/api/docs/{form}")]
        {
            let reply = untouched.client.get(&target);
            assert!((400..500).contains(&reply.status), "{target}: {} {}", reply.status, reply.text());
            assert!(reply.json()["error"].is_string(), "{target}: {}", reply.text());
        }
    }
    untouched.is_untouched("a path in the URL");
}

#[test]
fn unparsable_bodies_and_queries_are_refused_by_every_route() {
    let untouched = Untouched::new();
    let client = &untouched.client;
    for (entry, route) in routes() {
        let target = route.full_path();
        if route.body == BodyKind::Json {
            for body in hostile::bodies() {
                let what: String =
                    format!("{entry:?} with {:?}", String::from_utf8_lossy(&body)).chars().take(200).collect();
                let json = ("Content-Type", "application/json");
                // A generated canvas needs no input: it must not replace another version.
                let headers = if entry.is_conditional { &[json, ("If-Match", STALE)][..] } else { &[json] };
                let reply = client.send(route.method.name(), &target, headers, body);
                check(&what, route, &reply);
            }
        }
        for query in ["path=a.md&path=b.md", "path=%ff", "=", "&&&&", "%", "path", "path=%zz", "a[]=1", "path=a.md;x=1"]
        {
            let reply = client.send(route.method.name(), &format!("{target}?{query}"), &[("If-Match", STALE)], "");
            check(&format!("{entry:?}?{query}"), route, &reply);
        }
        untouched.is_untouched(entry.name);
    }
}

#[test]
fn headers_that_make_no_sense_are_refused_or_harmless() {
    let untouched = Untouched::new();
    let client = &untouched.client;
    let put = |headers: &[(&str, &str)]| client.send("PUT", "/api/svc/file?path=a.md", headers, "# Other\n");
    for (headers, status) in [
        (&[("If-Match", STALE)][..], 409),
        (&[("If-Match", "rubbish")], 409),
        (&[("If-Match", "")], 409),
        (&[("If-None-Match", "*")], 412),
        (&[("If-None-Match", STALE)], 400),
        (&[("If-Match", STALE), ("If-None-Match", "*")], 412),
        (&[("X-Svc-Space", "nowhere")], 404),
        (&[("X-Svc-Space", "../default")], 404),
        (&[("Origin", "https://evil.example")], 403),
    ] {
        let reply = put(headers);
        assert_eq!(reply.status, status, "{headers:?}: {}", reply.text());
        assert!(reply.json()["error"].is_string(), "{headers:?}: {}", reply.text());
    }
    let reply = client.send("PUT", "/api/svc/file?path=none.md", &[("If-Match", STALE)], "# New\n");
    assert_eq!(reply.status, 409, "{}", reply.text());
    untouched.is_untouched("a header");
}

#[test]
fn a_page_that_is_too_large_broken_or_no_text_is_refused() {
    let untouched = Untouched::new();
    let put = |headers: &[(&str, &str)], body: Vec<u8>| {
        untouched.client.send("PUT", "/api/svc/file?path=new.md", headers, body)
    };
    for (what, headers, body, status) in [
        ("33 MiB", &[][..], vec![b'a'; 33 << 20], 413),
        ("one byte too much", &[], vec![b'a'; MAX_PAGE_BYTES + 1], 413),
        ("invalid UTF-8", &[], b"# Page\n\n\xff\xfe\n".to_vec(), 400),
        ("unclosed frontmatter", &[("X-Provenance", "run:1")], b"---\ntitle: A\n".to_vec(), 400),
        ("broken frontmatter", &[], b"---\ntitle: [\n---\n".to_vec(), 422),
    ] {
        let reply = put(headers, body);
        assert_eq!(reply.status, status, "{what}: {}", reply.text());
        assert!(reply.json()["error"].is_string(), "{what}: {}", reply.text());
    }
    untouched.is_untouched("a page that was refused");
}

#[test]
fn hostile_arguments_of_every_tool_are_refused_without_effect() {
    let untouched = Untouched::new();
    let client = &untouched.client;
    for entry in CATALOGUE.iter().flat_map(|area| area.operations).filter(|entry| entry.tool) {
        let tool = format!("svc_{}", entry.name);
        let schemas = inputs(entry);
        let mut all = ordinary_inputs(&schemas);
        if !entry.is_read_only() && entry.name != "bulk_write" {
            all.insert("if_match".to_owned(), STALE.into());
        }
        let mut tries = vec![Map::new(), Map::from_iter([("no_such_input".to_owned(), json!("x"))])];
        for name in schemas.keys() {
            let texts = hostile::texts().into_iter().chain(hostile::paths()).map(Value::from);
            for value in texts.chain(hostile::values()) {
                let mut given = all.clone();
                given.insert(name.clone(), value);
                tries.push(given);
            }
        }
        for arguments in tries {
            let parameters = json!({ "name": tool, "arguments": arguments });
            let what: String = parameters.to_string().chars().take(300).collect();
            let reply = client.agent("tools/call", parameters);
            let answer = reply.json();
            assert_eq!(reply.status, 200, "{what}: {}", reply.text());
            let is_refused = answer["result"]["isError"] == true || answer["error"]["code"] == -32602;
            let is_answered = answer["result"]["isError"] == false;
            if is_answered {
                check_result(&tool, &answer["result"]);
            }
            let asks_nothing = entry.http.iter().any(|route| ASKS_NOTHING.contains(&route.path));
            assert!(is_refused || (is_answered && (entry.is_read_only() || asks_nothing)), "{what}: {answer}");
        }
        untouched.is_untouched(&tool);
    }
}

#[test]
fn garbage_for_the_agent_protocol_is_no_internal_error() {
    let untouched = Untouched::new();
    for body in hostile::bodies() {
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
        let reply = untouched.client.send("POST", "/mcp", &headers, body.clone());
        let what: String = String::from_utf8_lossy(&body).chars().take(100).collect();
        assert!(reply.status < 500, "{what}: {} {}", reply.status, reply.text());
    }
    for uri in [
        "svc://file/../a.md",
        "svc://file/%2e%2e/a.md",
        "svc://file/.git/config",
        "svc://nothing",
        "file:///etc/passwd",
        "",
    ] {
        let reply = untouched.client.agent("resources/read", json!({ "uri": uri }));
        assert!(reply.json()["error"].is_object(), "{uri}: {}", reply.text());
    }
    untouched.is_untouched("rubbish at /mcp");
}

#[test]
fn every_special_page_takes_rubbish_calmly() {
    let untouched = Untouched::new();
    for (method, path) in served() {
        if path.starts_with(PREFIX) || path == "/mcp" {
            continue;
        }
        for query in ["", "?path=../a.md", "?%ff=%ff", "?x=1&x=2"] {
            let target = format!("{}{query}", path.replace(['{', '}'], ""));
            let reply =
                untouched.client.send(&method, &target, &[("Range", "bytes=9-1"), ("Accept", "no/thing")], "rubbish");
            assert!(reply.status < 500, "{method} {target}: {} {}", reply.status, reply.text());
        }
    }
    untouched.is_untouched("a special page");
}
