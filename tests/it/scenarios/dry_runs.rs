//! Dry runs over REST and MCP: both show what would happen, and nothing does.

use serde_json::{Value, json};

use crate::space::TestSpace;
use crate::space::client::endpoint;

#[test]
fn dry_runs_over_rest_and_mcp_show_the_same_and_write_nothing() {
    let space = TestSpace::new();
    let client = space.client();
    let put = |path: &str, text: &str| {
        client.send("PUT", &endpoint("/file", &[("path", path)]), &[], text.to_owned()).success().unwrap();
    };
    put("a.md", "# A\n\nSee [[b]].\n");
    put("b.md", "# B\n");
    space.settle();
    let (story, events) = (space.story(), space.space().vfs.last_seq());
    let rest = |method: &str, target: String, body: &str| {
        let reply = client.send(method, &target, &[], body.to_owned()).success().unwrap();
        assert!(reply.headers.get("etag").is_none(), "the ETag of a dry run is that of no stored text");
        reply.json()["dry_run"].clone()
    };
    let dry = ("dry_run", "true");
    let shown: Vec<Value> = vec![
        rest("PUT", endpoint("/file", &[("path", "b.md"), dry]), "# B\n\nnew\n"),
        rest("DELETE", endpoint("/file", &[("path", "b.md"), dry]), ""),
        rest("POST", endpoint("/rename", &[]), r#"{"from": "b.md", "to": "c.md", "dry_run": true}"#),
        rest("POST", endpoint("/bulk", &[]), r##"{"files": [{"path": "d.md", "content": "# D\n"}], "dry_run": true}"##),
    ];
    let tools = [
        ("svc_write", json!({ "path": "b.md", "content": "# B\n\nnew\n", "dry_run": true })),
        ("svc_delete", json!({ "path": "b.md", "dry_run": true })),
        ("svc_rename", json!({ "from": "b.md", "to": "c.md", "dry_run": true })),
        ("svc_bulk_write", json!({ "files": [{ "path": "d.md", "content": "# D\n" }], "dry_run": true })),
    ];
    for ((name, arguments), shown) in tools.into_iter().zip(&shown) {
        assert_eq!(&client.tool(name, arguments).unwrap()["dry_run"], shown, "{name}");
    }
    assert!(shown[0]["diff"].as_str().unwrap().contains("+new\n"), "{shown:?}");
    assert_eq!(shown[1]["broken_links"], json!([{ "path": "a.md", "target": "b.md", "context": "See [[b]]." }]));
    assert_eq!(shown[2]["changes"].as_array().unwrap().len(), 2, "{shown:?}");
    assert_eq!(shown[3]["changes"], json!([{ "path": "d.md", "change": "added" }]));
    let stale = client.send(
        "PUT",
        &endpoint("/file", &[("path", "b.md"), dry]),
        &[("If-Match", "\"0123456789012345678901234567890123456789\"")],
        "x\n",
    );
    assert_eq!(stale.status, 409, "{}", stale.text());
    space.settle();
    assert_eq!((space.story(), space.space().vfs.last_seq()), (story, events));
}

#[test]
fn agents_remember_forget_and_edit() {
    let space = TestSpace::new();
    let client = space.client();
    let episode = json!({ "content": "The tide turns at noon.", "episode_id": "run-1", "actor": "bot" });
    let first = client.tool("svc_remember", episode.clone()).unwrap();
    let again = client.tool("svc_remember", episode).unwrap();
    assert_eq!((&again["path"], &again["existing"]), (&first["path"], &json!(true)));
    let better = json!({ "content": "The tide turns at one.", "supersedes": [first["path"]], "actor": "bot" });
    let better = client.tool("svc_remember", better).unwrap();
    assert_eq!(better["superseded"], json!([first["path"]]));
    let recalled = client.tool("svc_recall", json!({ "query": "when does the tide turn" })).unwrap();
    let excerpts = recalled["excerpts"].as_array().unwrap();
    assert_eq!((&excerpts[0]["path"], &excerpts[1]["outdated"]), (&better["path"], &json!("superseded")), "{recalled}");
    let edit =
        json!({ "path": better["path"], "edits": [{ "old": "at one", "new": "at two" }], "if_match": better["etag"] });
    client.tool("svc_edit", edit.clone()).unwrap();
    assert!(space.text(better["path"].as_str().unwrap()).ends_with("The tide turns at two.\n"));
    assert!(client.tool("svc_edit", edit).unwrap_err().contains("modified"), "the ETag is stale");
    let forgotten = json!({ "path": better["path"], "reason": "wrong", "actor": "bot" });
    client.tool("svc_forget", forgotten.clone()).unwrap();
    assert_eq!(client.tool("svc_forget", forgotten).unwrap()["noop"], true);
    let report = client.tool("svc_memory_report", json!({})).unwrap();
    assert_eq!(report["episodic_count"], 2, "{report}");
}
