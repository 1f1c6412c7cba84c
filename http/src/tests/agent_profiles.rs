//! Which tools agents see, and how they reach the others.

use serde_json::{Value, json};
use svcfs_knowledge::CATALOGUE;

use super::agents::{HEADERS, call};
use super::authorization::KEYS;
use super::connections::Listening;
use super::server::TestServer;
use crate::mcp;

async fn post(protocol: &Listening, path: &str, token: Option<&str>, (method, params): (&str, Value)) -> Value {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> =
        HEADERS.into_iter().chain(bearer.as_deref().map(|bearer| ("Authorization", bearer))).collect();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (status, answer) = protocol.post(path, &headers, &body).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

async fn list(protocol: &Listening, path: &str, token: Option<&str>) -> Value {
    post(protocol, path, token, ("tools/list", json!({}))).await["result"].clone()
}

async fn run(protocol: &Listening, path: &str, name: &str, arguments: Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    post(protocol, path, None, ("tools/call", params)).await
}

fn names(list: &Value) -> Vec<&str> {
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_small_ordered_lists_of_the_same_tools() {
    let protocol = Listening::on(TestServer::new()).await;
    let full = list(&protocol, "/mcp", None).await;
    assert_eq!(full["tools"], serde_json::from_str::<Value>(&mcp::tools()).unwrap(), "the published list");
    assert_eq!((&full["ttlMs"], &full["cacheScope"]), (&json!(300_000), &json!("public")));
    let core = list(&protocol, "/mcp/x/core", None).await;
    // The others of the profile come with the operations they are of.
    let expected = [
        "context",
        "recall",
        "search",
        "read",
        "peek",
        "section",
        "tree",
        "write",
        "edit",
        "append",
        "rename",
        "delete",
        "query",
        "backlinks",
        "changes",
        "remember",
        "task_next",
        "tool_search",
        "tool_call",
    ];
    let expected = expected.map(|name| format!("svc_{name}"));
    let known: Vec<&str> = expected
        .iter()
        .map(String::as_str)
        .filter(|name| names(&full).contains(name) || *name == "svc_tool_call")
        .collect();
    assert_eq!(names(&core), known);
    assert_eq!(core, list(&protocol, "/mcp/x/core", None).await, "the order is fixed");
    for profile in ["core", "read", "memory", "tasks", "full"] {
        let list = list(&protocol, &format!("/mcp/x/{profile}"), None).await;
        let bytes = list["tools"].to_string().len();
        println!("{profile}: {} tools, {bytes} bytes", names(&list).len());
        for tool in list["tools"].as_array().unwrap() {
            let has_output = tool.get("outputSchema").is_some();
            assert!(!has_output || profile == "full", "{profile}: {}", tool["name"]);
            let same = full["tools"].as_array().unwrap().iter().find(|other| other["name"] == tool["name"]);
            let is_same = same.is_none_or(|same| same["inputSchema"] == tool["inputSchema"]);
            assert!(is_same && (same.is_some() || tool["name"] == "svc_tool_call"), "{profile}: {tool}");
        }
        assert!(names(&list).contains(&"svc_tool_search"), "{profile}");
        assert!(profile != "core" || bytes <= 20_000, "core has {bytes} bytes");
        assert!(profile == "full" || bytes <= 30_000, "{profile} has {bytes} bytes");
    }
    let mut without = full["tools"].clone();
    for tool in without.as_array_mut().unwrap() {
        tool.as_object_mut().unwrap().remove("outputSchema");
    }
    let (bytes, small) = (full["tools"].to_string().len(), without.to_string().len());
    println!("full: {bytes} bytes, {small} without output schemas");
    assert!(bytes <= 160_000 && small <= 75_000, "{bytes}, {small} without output schemas");
    let more = list(&protocol, "/mcp/x/core?tools=svc_diff,blame", None).await;
    assert_eq!(names(&more).len(), names(&core).len() + 2);
    assert!(names(&more).contains(&"svc_diff") && names(&more).contains(&"svc_blame"));
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_profiles_are_refused_with_a_list() {
    let protocol = Listening::on(TestServer::new()).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    for path in ["/mcp/x/all", "/mcp/x", "/mcp/", "/mcp/x/core/writeonly"] {
        let (status, answer) = protocol.post(path, &HEADERS, &body).await;
        let error = answer["error"].as_str().unwrap();
        assert!(status == 404 && error.contains("/mcp/x/core, /mcp/x/read, /mcp/x/memory"), "{path}: {answer}");
    }
    let (status, answer) = protocol.post("/mcp?tools=svc_raed", &HEADERS, &body).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("`svc_read`"), "{answer}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_choose_the_profile_of_the_endpoint() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, "mcp.profile = \"tasks\"")).await;
    let tasks = list(&protocol, "/mcp", None).await;
    assert_eq!(tasks, list(&protocol, "/mcp/x/tasks", None).await);
    assert!(names(&tasks).contains(&"svc_task_done") && !names(&tasks).contains(&"svc_diff"));
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_only_what_the_key_may_use() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, KEYS)).await;
    for path in ["/mcp", "/mcp/x/core", "/mcp/x/tasks"] {
        let full = list(&protocol, path, Some("full")).await;
        assert_eq!(full["cacheScope"], "public");
        let reader = list(&protocol, path, Some("reader")).await;
        assert_eq!(reader["cacheScope"], "private");
        for tool in reader["tools"].as_array().unwrap().iter().filter(|tool| tool["name"] != "svc_tool_call") {
            assert_eq!(tool["annotations"]["readOnlyHint"], true, "{path}: {}", tool["name"]);
        }
        assert!(names(&reader).len() < names(&full).len());
        let proposer = list(&protocol, path, Some("proposer")).await;
        assert_eq!(proposer["cacheScope"], "private");
        assert!(names(&proposer).contains(&"svc_write"), "{path}");
        assert!(!names(&proposer).contains(&"svc_draft_merge"), "{path}");
        let folder = list(&protocol, path, Some("folder")).await;
        assert!(names(&folder).contains(&"svc_write"), "{path}");
    }
    let found = json!({ "name": "svc_tool_search", "arguments": { "query": "svc_draft_merge" } });
    let found = post(&protocol, "/mcp", Some("reader"), ("tools/call", found)).await;
    assert!(!text(&found).starts_with("svc_draft_merge: "), "{found}");
    let inner = json!({ "name": "svc_write", "arguments": { "path": "a.md", "content": "x" } });
    let params = json!({ "name": "svc_tool_call", "arguments": inner });
    let refused = post(&protocol, "/mcp/x/core", Some("reader"), ("tools/call", params)).await;
    assert!(refused["result"]["isError"] == true && text(&refused).contains("\nNext call: "), "{refused}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_connection_lists_and_runs_no_writing_tool() {
    let protocol = Listening::on(TestServer::new()).await;
    protocol.server.put("a.md", "# A\n").await;
    let listed = list(&protocol, "/mcp/x/full/readonly", None).await;
    for tool in listed["tools"].as_array().unwrap() {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{}", tool["name"]);
    }
    for (name, arguments) in [
        ("svc_write", json!({ "path": "a.md", "content": "x" })),
        ("svc_tool_call", json!({ "name": "svc_delete", "arguments": { "path": "a.md" } })),
    ] {
        let refused = run(&protocol, "/mcp/x/core/readonly", name, arguments).await;
        assert!(refused["result"]["isError"] == true && text(&refused).contains("only reads"), "{refused}");
    }
    let read = run(&protocol, "/mcp/x/core/readonly", "svc_read", json!({ "path": "a.md" })).await;
    assert!(text(&read).ends_with("# A\n"), "{read}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_tools_are_found_and_run() {
    let protocol = Listening::on(TestServer::new()).await;
    protocol.server.put("a.md", "# A\n\nfox\n").await;
    for (query, first) in [
        ("versions of a page", "svc_versions"),
        ("who changed a line", "svc_blame"),
        ("svc_graph_path", "svc_graph_path"),
        ("save a web page", "svc_clip"),
        ("merge a draft", "svc_draft_merge"),
        ("claim page", "svc_claim"),
    ] {
        let answer = run(&protocol, "/mcp/x/core", "svc_tool_search", json!({ "query": query })).await;
        let found = answer["result"]["structuredContent"]["tools"].as_array().unwrap().clone();
        let found_names: Vec<_> = found.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert!(found_names.iter().take(3).any(|name| *name == first) && found.len() <= 8, "{query}: {found_names:?}");
        assert!(found[0]["inputSchema"]["properties"].is_object(), "{answer}");
        assert!(text(&answer).contains(&found[0]["inputSchema"].to_string()), "the text is complete: {answer}");
    }
    let all = run(&protocol, "/mcp/x/core", "tool_search", json!({ "query": "zzz" })).await;
    assert!(text(&all).contains("svc_blame: ") && text(&all).contains("svc_task_done: "), "{all}");
    for (name, arguments) in [
        ("svc_versions", json!({ "path": "a.md" })),
        ("svc_read", json!({ "path": "a.md" })),
        ("svc_read", json!({ "path": "b.md" })),
        ("svc_graph_walk", json!({ "path": "a.md" })),
        ("svc_search", json!({ "query": "fox", "limit": 0 })),
    ] {
        let direct = run(&protocol, "/mcp", name, arguments.clone()).await;
        let through = json!({ "name": name, "arguments": arguments });
        assert_eq!(run(&protocol, "/mcp", "svc_tool_call", through.clone()).await, direct, "{name}");
        let as_text = json!({ "name": name, "arguments": arguments.to_string() });
        assert_eq!(run(&protocol, "/mcp", "tool_call", as_text).await, direct, "{name}");
        assert_eq!(run(&protocol, "/mcp/x/full", name, arguments).await, direct, "{name}");
    }
    for (arguments, message) in [
        (json!({}), "name is required"),
        (json!({ "name": 5.5 }), "`name`: must be a text"),
        (json!({ "name": "svc_tool_call", "arguments": {} }), "`name`: "),
        (json!({ "name": "svc_read", "path": "a.md" }), "unknown parameter `path`; "),
        (json!({ "name": "svc_read", "arguments": [] }), "`arguments`: "),
    ] {
        let refused = run(&protocol, "/mcp/x/core", "svc_tool_call", arguments).await;
        assert!(refused["result"]["isError"] == true && text(&refused).starts_with(message), "{refused}");
    }
    let unlisted = run(&protocol, "/mcp/x/core", "svc_blame", json!({ "path": "a.md" })).await;
    assert_eq!(unlisted["result"]["isError"], false, "tools run by name whether they are listed or not: {unlisted}");
    assert!(protocol.stopped().await);
}

#[test]
fn annotations_say_what_a_tool_may_do() {
    let tools: Value = serde_json::from_str(&mcp::tools()).unwrap();
    let hints = |name: &str| {
        let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        let hints = &tool["annotations"];
        let of = |hint: &str| hints[format!("{hint}Hint")].as_bool().unwrap();
        assert!(hints["title"].as_str().is_some_and(|title| title.starts_with(char::is_uppercase)), "{tool}");
        [of("readOnly"), of("destructive"), of("idempotent"), of("openWorld")]
    };
    for (name, expected) in [
        ("svc_read", [true, false, true, false]),
        ("svc_lint", [true, false, true, false]),
        ("svc_recall", [true, false, true, false]),
        ("svc_write", [false, false, true, false]),
        ("svc_delete", [false, true, true, false]),
        ("svc_bulk_write", [false, false, false, false]),
        ("svc_append", [false, false, false, false]),
        ("svc_task_create", [false, false, false, false]),
        ("svc_claim", [false, false, false, false]),
        ("svc_release", [false, false, true, false]),
        ("svc_undo", [false, true, false, false]),
        ("svc_draft_discard", [false, true, true, false]),
        ("svc_clip", [false, false, false, true]),
        ("svc_tool_search", [true, false, true, false]),
    ] {
        assert_eq!(hints(name), expected, "{name}");
    }
    for tool in tools.as_array().unwrap() {
        let [reads, destroys, ..] = hints(tool["name"].as_str().unwrap());
        assert!(!(reads && destroys), "{}", tool["name"]);
        let has_text = tool.get("outputSchema").is_none();
        let limit = &tool["_meta"]["anthropic/maxResultSizeChars"];
        assert_eq!(limit.as_u64(), has_text.then_some(500_000), "{}", tool["name"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_another_type_are_read_where_nothing_is_lost() {
    let protocol = Listening::on(TestServer::new()).await;
    protocol.server.put("a.md", "---\npriority: 2\ntags: [x]\n---\n\n# 2024\n\nfox\n").await;
    for (name, arguments) in [
        ("svc_read", json!({ "path": "a.md", "offset": "1", "limit": 2.0 })),
        ("svc_read", json!({ "path": "a.md", "metadata_only": "true" })),
        ("svc_search", json!({ "query": 2024, "limit": "5" })),
        ("svc_query_meta", json!({ "filters": "$.tags[*]=x" })),
        ("svc_query_meta", json!({ "filters": "[\"$.tags[*]=x\", \"$.priority=2\"]" })),
        ("svc_aggregate", json!({ "group_by": "priority", "calculate": "count,avg:priority" })),
        ("svc_bulk_write", json!({ "files": { "path": "b.md", "content": "# B\n" } })),
        ("svc_bulk_write", json!({ "files": "[{\"path\": \"c.md\", \"content\": \"# C\\n\"}]" })),
        ("svc_task_create", json!({ "title": "T", "labels": "x", "priority": "1", "claim": "false" })),
        ("svc_recall", json!({ "query": "fox", "legs": "fts", "budget_tokens": "500" })),
    ] {
        let answer = call(&protocol, name, arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], false, "{name} {arguments}: {answer}");
    }
    for (name, arguments, message) in [
        ("svc_read", json!({ "path": "a.md", "limit": "two" }), "`limit`: "),
        ("svc_read", json!({ "path": "a.md", "limit": 1.5 }), "`limit`: "),
        ("svc_read", json!({ "path": "a.md", "metadata_only": 1 }), "`metadata_only`: "),
        ("svc_read", json!({ "path": { "name": "a.md" } }), "`path`: "),
        ("svc_bulk_write", json!({ "files": "b.md" }), "`files"),
        ("svc_write", json!({ "path": "a.md", "content": "x", "actor": { "name": "x" } }), "`actor`: "),
    ] {
        let answer = call(&protocol, name, arguments.clone()).await;
        assert!(answer["result"]["isError"] == true && text(&answer).starts_with(message), "{arguments}: {answer}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_no_client_shows_is_read_in_parts() {
    let protocol = Listening::on(TestServer::new()).await;
    let line = format!("{}\n", "word ".repeat(40));
    protocol.server.put("long.md", &line.repeat(5_000)).await;
    let refused = call(&protocol, "svc_read", json!({ "path": "long.md" })).await;
    let told = text(&refused);
    assert!(refused["result"]["isError"] == true && told.starts_with("the result is too large: 10"), "{told}");
    let next = told.split_once("\nNext call: svc_read ").unwrap().1;
    let part = call(&protocol, "svc_read", serde_json::from_str(next).unwrap()).await;
    assert!(part["result"]["isError"] == false && text(&part).contains("; continue with offset "), "{next}");
    assert!(protocol.stopped().await);
}
