//! What is published is what is served.

use std::collections::BTreeSet;

use serde_json::Value;

use super::served;
use crate::space::TestSpace;

/// Every method and path of the OpenAPI document a server gives out.
fn documented(space: &TestSpace) -> BTreeSet<(String, String)> {
    let document: Value = space.client().get("/api/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
    });
    each.collect()
}

#[test]
fn served_routes_and_documented_routes_are_identical() {
    let space = TestSpace::new();
    let (documented, served) = (documented(&space), served());
    assert_eq!(documented, served.iter().cloned().collect());
    let client = space.client();
    for (method, path) in &documented {
        let target = path.replace(['{', '}'], "");
        // An unreadable position makes the event stream, which never ends, answer at once.
        let reply = client.send(method, &target, &[("Last-Event-ID", "rubbish")], "");
        let said = reply.json()["error"].as_str().unwrap_or_default().to_owned();
        assert_ne!(reply.status, 405, "{method} {target}");
        assert!(
            !said.contains("lists every endpoint"),
            "{method} {target} is documented, and the dispatcher says {said}"
        );
    }
}

#[test]
fn another_method_is_refused_with_those_that_are_allowed() {
    let space = TestSpace::new();
    let client = space.client();
    let paths: BTreeSet<String> = served().into_iter().map(|(_, path)| path).filter(|path| path != "/mcp").collect();
    for path in paths {
        let target = path.replace(['{', '}'], "");
        let reply = client.send("TRACE", &target, &[], "");
        assert_eq!(reply.status, 405, "TRACE {target}: {}", reply.text());
        assert!(reply.headers.contains_key("allow"), "TRACE {target}");
        assert!(reply.json()["error"].is_string(), "TRACE {target}: {}", reply.text());
    }
}

#[test]
fn the_published_tool_list_is_the_one_agents_get() {
    let space = TestSpace::new();
    let answer = space.client().agent("tools/list", serde_json::json!({})).json();
    let published: Value = serde_json::from_str(&svcfs_http::mcp::tools()).unwrap();
    assert_eq!(answer["result"]["tools"], published);
}
