//! Drafts over REST and MCP, and kill -9 while they are written and merged.

mod killed;
mod proposed;

use serde_json::{Value, json};

use crate::space::TestSpace;
use crate::space::client::{Client, Reply};

const API: &str = "/api/svc";

fn ask(client: &Client, method: &str, target: &str, actor: &str, body: &str) -> Reply {
    let headers = [("X-Actor", actor), ("Content-Type", "application/json")];
    client.send(method, &format!("{API}{target}"), &headers, body.to_owned())
}

fn open(client: &Client) -> String {
    let reply = ask(client, "POST", "/drafts", "agent", "{}");
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["id"].as_str().unwrap().to_owned()
}

/// What a draft changes is no event, no page of the index and no version until it is merged; the
/// merge is one event.
#[test]
fn a_draft_is_neither_indexed_nor_announced_until_it_is_merged() {
    let space = TestSpace::new();
    let client = space.client();
    ask(&client, "PUT", "/file?path=a.md", "ann", "# Walrus\n");
    client.until_found("walrus", &["a.md"]);
    let seq = || client.get("/api/svc/changes?limit=1").json()["last_seq"].clone();
    let before = seq();
    let id = open(&client);
    for (name, text) in [("a.md", "# Penguin\n"), ("b.md", "# Penguin too\n")] {
        let written = client.tool("svc_draft_write", json!({ "draft_id": id, "path": name, "content": text })).unwrap();
        assert_eq!(written["path"], name);
    }
    assert_eq!((seq(), client.found("penguin").len()), (before, 0));
    let stale = client.tool("svc_draft_diff", json!({ "draft_id": id, "stat": true })).unwrap();
    assert_eq!(stale["stat"].as_array().unwrap().len(), 2);
    let merged = client.tool("svc_draft_merge", json!({ "draft_id": id, "actor": "reviewer" })).unwrap();
    assert_eq!(merged["paths"], json!(["a.md", "b.md"]));
    client.until_found("penguin", &["a.md", "b.md"]);
    let changes: Value = client.get("/api/svc/changes?limit=2").json();
    assert_ne!(changes["last_seq"], Value::Null);
    let refused = client.tool("svc_draft_read", json!({ "draft_id": id, "path": "a.md" })).unwrap_err();
    assert!(refused.contains("draft not found"), "{refused}");
}

/// Two people merge and write at the same time: no change of either is lost.
#[test]
fn writers_beside_merges_lose_nothing() {
    const PAGES: usize = 4;
    let space = TestSpace::new();
    let client = space.client();
    let page = |n: usize| format!("/file?path={n}.md");
    let text = |first: usize, last: usize| format!("first {first}\n\nmiddle\n\nlast {last}\n");
    for n in 0..PAGES {
        ask(&client, "PUT", &page(n), "setup", &text(0, 0));
    }
    let address = client.address();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let client = Client::new(address);
            for round in 1..=20 {
                for n in 0..PAGES {
                    // Retried with what is there now, as a person would.
                    loop {
                        let read = client.get(&format!("{API}{}", page(n)));
                        let last = read.text().lines().last().unwrap().to_owned();
                        let etag = read.headers["etag"].to_str().unwrap().to_owned();
                        let body = format!("first {round}\n\nmiddle\n\n{last}\n");
                        let sent = client.send("PUT", &format!("{API}{}", page(n)), &[("If-Match", &etag)], body);
                        if sent.status == 200 {
                            break;
                        }
                        assert_eq!(sent.status, 409, "{}", sent.text());
                    }
                }
            }
        });
        for round in 1..=10 {
            let id = open(&client);
            for n in 0..PAGES {
                let target = format!("{API}/drafts/{id}{}", page(n));
                loop {
                    let read = client.get(&target);
                    let first = read.text().lines().next().unwrap().to_owned();
                    let etag = read.headers["etag"].to_str().unwrap().to_owned();
                    let body = format!("{first}\n\nmiddle\n\nlast {round}\n");
                    let sent = client.send("PUT", &target, &[("If-Match", &etag)], body);
                    if sent.status == 200 {
                        break;
                    }
                    assert_eq!(sent.status, 409, "{}", sent.text());
                }
            }
            let merged = ask(&client, "POST", &format!("/drafts/{id}/merge"), "reviewer", "{}");
            assert_eq!(merged.status, 200, "{}", merged.text());
        }
    });
    for n in 0..PAGES {
        assert_eq!(client.get(&format!("{API}{}", page(n))).text(), text(20, 10));
    }
}
