//! Thirty tasks as a language model would plausibly do them, mistakes included.
//!
//! Invariant: the text of every failure names a call, and this call succeeds when it is sent
//! unchanged.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};
use svcfs_base::{Actor, TreePath};
use svcfs_vfs::ClaimAttempt;

use crate::space::client::Client;
use crate::space::{TestSpace, wait};

/// What a call returned.
struct Answer {
    text: String,
    structure: Value,
    is_error: bool,
}

/// An agent with a list of tools.
struct Agent<'s> {
    client: &'s Client,
    endpoint: &'static str,
    problems: &'s RefCell<Vec<String>>,
}

impl Agent<'_> {
    fn call(&self, name: &str, arguments: &Value) -> Answer {
        let params = json!({ "name": name, "arguments": arguments });
        let reply = self.client.agent_at(self.endpoint, "tools/call", params);
        assert_eq!(reply.status, 200, "{name}: {}", reply.text());
        let answer = reply.json();
        if let Some(error) = answer.get("error") {
            let text = error["message"].as_str().unwrap().to_owned();
            return Answer { text, structure: Value::Null, is_error: true };
        }
        let result = &answer["result"];
        let blocks = result["content"].as_array().unwrap();
        let text: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let structure = result.get("structuredContent").cloned().unwrap_or_default();
        Answer { text: text.join("\n"), structure, is_error: result["isError"] == true }
    }

    /// A step that works.
    fn works(&self, name: &str, arguments: Value) -> Answer {
        let answer = self.call(name, &arguments);
        if answer.is_error {
            self.problems.borrow_mut().push(format!("{name} {arguments}: {}", answer.text));
        }
        answer
    }

    fn says(&self, answer: &Answer, part: &str) {
        if !answer.text.contains(part) {
            self.problems.borrow_mut().push(format!("`{part}` is missing: {}", answer.text));
        }
    }

    /// A mistake: its text says what is wrong and what to call, and that call works.
    fn fails(&self, name: &str, arguments: Value, says: &str, next: &str) -> Answer {
        let failure = self.call(name, &arguments);
        let shown = failure.text.get(..2_000).unwrap_or(&failure.text);
        let check = |is_right: bool, what: &str| {
            if !is_right {
                self.problems.borrow_mut().push(format!("{name} {arguments}: {what}: {shown}"));
            }
        };
        check(failure.is_error, "worked");
        check(failure.text.contains(says), &format!("`{says}` is missing"));
        let Some((tool, suggested)) = next_call(&failure.text) else {
            check(false, "no next call");
            return failure;
        };
        check(tool == next, &format!("`{next}` is expected"));
        let answer = self.call(&tool, &Value::Object(suggested));
        check(!answer.is_error, &format!("the suggested call failed: {}", answer.text));
        answer
    }
}

/// The call in the last line of a failure.
fn next_call(text: &str) -> Option<(String, Map<String, Value>)> {
    let (tool, arguments) = text.lines().last()?.strip_prefix("Next call: ")?.split_once(' ')?;
    Some((tool.to_owned(), serde_json::from_str(arguments).ok()?))
}

/// The ETag in the first line of a text.
fn etag(text: &str) -> String {
    let rest = text.strip_prefix("[etag: ").unwrap_or_default();
    rest.chars().take(40).collect()
}

fn prepare(agent: &Agent<'_>) {
    let page = |title: &str, body: &str| format!("---\ntitle: {title}\nstatus: draft\n---\n\n# {title}\n\n{body}\n");
    for (path, text) in [
        ("index.md", page("Home", "See [[notes/today]] and [[notes/deploy]].")),
        ("notes/today.md", page("Today", "We rotate the signing keys.\n\n## Plan\n\nShip it.\n\n## Risks\n\nNone.")),
        ("notes/deploy.md", page("Deploy", "Steps to deploy.")),
        ("notes/meeting notes.md", page("Meeting notes", "Minutes.")),
        ("guides/oauth.md", page("OAuth", "Refresh tokens expire.")),
        ("log.md", "# Log\n".to_owned()),
        ("tasks/a.md", "---\ntype: task\nstatus: todo\n---\n\n# A\n".to_owned()),
        ("tasks/b.md", "---\ntype: task\nstatus: todo\n---\n\n# B\n".to_owned()),
        ("w.md", "---\nworkflow: ship\nstate: open\n---\n\n# W\n".to_owned()),
    ] {
        agent.works("svc_write", json!({ "path": path, "content": text }));
    }
    let states = json!([{ "name": "open" }, { "name": "review" }, { "name": "closed", "terminal": true }]);
    let transitions = json!([{ "from": "open", "to": "review" }, { "from": "review", "to": "closed" }]);
    agent.works("svc_workflow_save", json!({ "name": "ship", "states": states, "transitions": transitions }));
    let mut long = String::from("# Long\n\n");
    for line in 0..12_000 {
        writeln!(long, "{line}: a line of about fifty characters in a long page").unwrap();
    }
    agent.works("svc_write", json!({ "path": "long.md", "content": long }));
}

/// Tasks 1 to 8: names of tools, arguments and pages.
fn names(agent: &Agent<'_>) {
    // 1. A page whose name is mistyped.
    let read =
        agent.fails("svc_read", json!({ "path": "notes/todya.md" }), "did you mean `notes/today.md`?", "svc_read");
    agent.says(&read, "signing keys");
    // 2. A page without its folder and suffix.
    agent.fails("svc_peek", json!({ "path": "deploy" }), "file not found", "svc_peek");
    // 3. A page that does not exist at all: it is searched for.
    agent.fails("svc_read", json!({ "path": "notes/kubernetes-runbook.md" }), "file not found", "svc_search");
    // 4. Wrong names of arguments.
    agent.fails("svc_read", json!({ "file_path": "index.md" }), "unknown parameter `file_path`", "svc_read");
    agent.fails(
        "svc_search",
        json!({ "q": "keys", "max_results": 3 }),
        "unknown parameter `max_results`",
        "svc_search",
    );
    let written = agent.fails(
        "svc_write",
        json!({ "filename": "new/one.md", "text": "# One\n" }),
        "unknown parameter `filename`",
        "svc_write",
    );
    agent.says(&written, "new/one.md");
    // 5. Tools by names of other servers.
    agent.fails("read_file", json!({ "path": "index.md" }), "did you mean `svc_read`?", "svc_read");
    agent.fails("svc_serach", json!({ "query": "keys" }), "did you mean `svc_search`?", "svc_search");
    agent.fails("bash", json!({ "command": "ls" }), "there is no tool `bash`", "svc_tool_search");
    // 6. A heading that is not there, and none at all.
    let peek =
        agent.fails("svc_section", json!({ "path": "notes/today.md", "heading": "Budget" }), "not found", "svc_peek");
    agent.says(&peek, "Risks");
    agent.fails("svc_section", json!({ "path": "notes/today.md" }), "heading or index is required", "svc_peek");
    // 7. A folder in place of a page, and a page in place of a folder.
    agent.fails("svc_read", json!({ "path": "notes" }), "It is a folder", "svc_tree");
    agent.fails("svc_tree", json!({ "path": "index.md" }), "index.md", "svc_read");
    // 8. Paths that leave the tree.
    agent.fails("svc_read", json!({ "path": "../secrets.md" }), "path denied", "svc_tree");
    agent.fails("svc_write", json!({ "path": "a/../../b.md", "content": "x" }), "path denied", "svc_tree");
}

/// Tasks 9 to 15: values of arguments.
fn values(agent: &Agent<'_>) {
    // 9. Nothing given.
    agent.fails("svc_read", json!({}), "path is required", "svc_tree");
    agent.fails("svc_search", json!({}), "query is required", "svc_tool_search");
    // 10. Numbers out of range, and no numbers.
    agent.fails("svc_read", json!({ "path": "index.md", "limit": 0 }), "`limit`", "svc_read");
    agent.fails("svc_search", json!({ "query": "keys", "limit": "five" }), "`limit`", "svc_search");
    agent.fails("svc_recall", json!({ "query": "keys", "budget_tokens": 50 }), "budget_tokens", "svc_recall");
    // 11. Choices that do not exist.
    agent.fails("svc_timeline", json!({ "type": "writes" }), "`write`", "svc_timeline");
    agent.fails("svc_query", json!({ "query": "LIST", "format": "tables" }), "`table`", "svc_query");
    // 12. An invalid query.
    agent.fails("svc_query", json!({ "query": "SELECT * FROM pages" }), "SELECT", "svc_query");
    agent.fails("svc_query_meta", json!({ "filters": ["status is draft"] }), "status is draft", "svc_tool_search");
    // 13. A time that does not exist.
    agent.fails("svc_read", json!({ "path": "index.md", "as_of": "last week" }), "as_of", "svc_timeline");
    agent.fails("svc_velocity", json!({ "period": "30 days" }), "period", "svc_velocity");
    // 14. A commit that does not exist, or a page that it does not have.
    let version = json!({ "path": "index.md", "version": "deadbeef" });
    agent.fails("svc_version", version, "deadbeef", "svc_versions");
    agent.fails("svc_diff", json!({ "path": "index.md" }), "from", "svc_versions");
    // 15. An undo of nothing.
    agent.fails("svc_undo", json!({}), "since", "svc_timeline");
}

/// Tasks 16 to 21: changes beside those of others.
fn changes(agent: &Agent<'_>) {
    // 16. A page that changed since it was read: read again, then written with the new ETag.
    let first = etag(&agent.works("svc_read", json!({ "path": "notes/deploy.md" })).text);
    agent.works("svc_append", json!({ "path": "notes/deploy.md", "content": "By another.\n" }));
    let mine = |etag: &str| json!({ "path": "notes/deploy.md", "content": "# Deploy\n\nMine.\n", "if_match": etag });
    let read = agent.fails("svc_write", mine(&first), "\"current_etag\":\"", "svc_read");
    agent.says(&read, "By another.");
    agent.works("svc_write", mine(&etag(&read.text)));
    // 16a. A text that the page does not have.
    let edit = json!({ "path": "notes/deploy.md", "edits": [{ "old": "Yours.", "new": "x" }] });
    agent.fails("svc_edit", edit, "does not occur", "svc_read");
    // 16b. A condition that there is not: the page is not overwritten instead, and nothing is
    // guessed.
    let create = json!({ "path": "notes/deploy.md", "content": "x\n", "if_none_match": "*" });
    agent.fails("svc_write", create, "unknown parameter `if_none_match`", "svc_tool_search");
    let without = json!({ "path": "notes/deploy.md", "overwrite": "no" });
    agent.fails("svc_write", without, "unknown parameter `overwrite`", "svc_tool_search");
    // 17. The same with a deletion.
    let gone = json!({ "path": "notes/deploy.md", "if_match": first });
    agent.fails("svc_delete", gone, "current_etag", "svc_read");
    // 18. A page that is gone: without the precondition it is created.
    agent.works("svc_write", json!({ "path": "gone.md", "content": "x\n" }));
    agent.works("svc_delete", json!({ "path": "gone.md" }));
    let again = json!({ "path": "gone.md", "content": "again\n", "if_match": "*" });
    agent.fails("svc_write", again, "gone.md", "svc_write");
    // 19. Several files, of which one changed.
    let files = json!([
        { "path": "bulk/a.md", "content": "a\n" },
        { "path": "notes/deploy.md", "content": "b\n", "if_match": first },
    ]);
    let read = agent.fails("svc_bulk_write", json!({ "files": files }), "notes/deploy.md", "svc_read");
    agent.says(&read, "Mine.");
    // 20. A name that is taken.
    agent.fails("svc_rename", json!({ "from": "notes/deploy.md", "to": "index.md" }), "exists", "svc_read");
    agent.fails("svc_rename", json!({ "from": "notes/deplyo.md", "to": "notes/ship.md" }), "did you mean", "svc_read");
    agent.fails("svc_delete", json!({ "path": "notes" }), "not empty", "svc_tree");
    // 21. An ETag that is none.
    agent.fails(
        "svc_append",
        json!({ "path": "log.md", "content": "x", "if_match": "latest" }),
        "if_match",
        "svc_read",
    );
}

/// Tasks 22 to 26: claims, tasks and workflows.
fn work(agent: &Agent<'_>, space: &TestSpace) {
    // 22. A claim without a name.
    agent.fails("svc_claim", json!({ "path": "log.md" }), "actor is required", "svc_claim");
    // 23. A page that another actor has claimed.
    agent.works("svc_claim", json!({ "path": "tasks/a.md", "actor": "other" }));
    let list =
        agent.fails("svc_claim", json!({ "path": "tasks/a.md", "actor": "me" }), "already claimed", "svc_claims_list");
    agent.says(&list, "other");
    let write = json!({ "path": "tasks/a.md", "content": "x\n", "actor": "me" });
    agent.fails("svc_write", write, "claim_lost", "svc_claims_list");
    agent.fails("svc_release", json!({ "path": "tasks/a.md", "actor": "me" }), "claimed by `other`", "svc_claims_list");
    // 24. A lease that has ended.
    let page = TreePath::parse("tasks/b.md").unwrap();
    let lapsing = space.space().vfs.start_claim(&Actor::new("me"), &page, Duration::from_millis(50)).unwrap();
    let ClaimAttempt::Started(started) = lapsing else { panic!("it is claimed") };
    let fence = started.confirm().unwrap().fence;
    wait::until("the lease ends", || space.space().vfs.claim_at(&page).is_none());
    let note = json!({ "path": "tasks/b.md", "message": "half", "actor": "me", "fence": fence });
    let claim = agent.fails("svc_task_progress", note, "claim_lost", "svc_claim");
    let fence = claim.structure["fence"].as_u64();
    let done = json!({ "path": "tasks/b.md", "fence": fence, "actor": "me", "result": "Done." });
    agent.works("svc_task_done", done);
    // 25. A state that does not exist, and a move that is not allowed.
    let advance = |state: &str| json!({ "path": "w.md", "target_state": state });
    agent.fails("svc_workflow_advance", advance("finished"), "finished", "svc_workflow_get");
    agent.fails("svc_workflow_advance", advance("closed"), "review", "svc_workflow_get");
    agent.works("svc_workflow_advance", advance("review"));
    // 26. Workflows, views and drafts that do not exist.
    agent.fails("svc_workflow_board", json!({ "name": "none" }), "none", "svc_workflow_list");
    agent.fails("svc_views_execute", json!({ "name": "none" }), "none", "svc_views_list");
    agent.fails("svc_draft_merge", json!({ "draft_id": "00000000" }), "draft not found", "svc_draft_list");
    agent.fails("svc_draft_read", json!({ "path": "index.md" }), "draft_id is required", "svc_draft_list");
}

/// Tasks 27 to 30: long results, components that are off, and lists with few tools.
fn limits(agent: &Agent<'_>) {
    // 27. A page that no client shows.
    let part = agent.fails("svc_read", json!({ "path": "long.md" }), "the result is too large", "svc_read");
    agent.says(&part, "; continue with offset ");
    // 28. Search by meaning, which is off.
    agent.fails("svc_search_semantic", json!({ "query": "signing keys" }), "search.vector.enabled", "svc_search");
    agent.fails("svc_suggestions", json!({ "path": "index.md" }), "search.vector.enabled", "svc_graph_walk");
    // 29. The same through a list with few tools.
    let core = Agent { endpoint: "/mcp/x/core", ..*agent };
    core.fails("svc_blame", json!({ "path": "notes/todya.md" }), "did you mean", "svc_tool_call");
    let inner = json!({ "name": "svc_versoins", "arguments": { "path": "index.md" } });
    core.fails("svc_tool_call", inner, "did you mean `svc_versions`?", "svc_tool_call");
    core.fails("svc_tool_call", json!({ "path": "index.md" }), "unknown parameter `path`", "svc_tool_search");
    core.fails("svc_tool_search", json!({}), "query is required", "svc_tool_search");
    // 30. A connection that only reads.
    let reader = Agent { endpoint: "/mcp/x/core/readonly", ..*agent };
    reader.fails("svc_write", json!({ "path": "index.md", "content": "x" }), "only reads", "svc_read");
    reader.fails("svc_delete", json!({ "path": "none.md" }), "only reads", "svc_tree");
}

#[test]
fn every_failure_names_a_call_that_succeeds() {
    let space = TestSpace::new();
    let client = space.client();
    let problems = RefCell::default();
    let agent = Agent { client: &client, endpoint: "/mcp", problems: &problems };
    prepare(&agent);
    space.settle();
    names(&agent);
    values(&agent);
    changes(&agent);
    work(&agent, &space);
    limits(&agent);
    assert!(problems.borrow().is_empty(), "{:#?}", problems.borrow());
}
