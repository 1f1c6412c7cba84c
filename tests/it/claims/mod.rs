//! Leases and tasks through every protocol, and after kill -9.

mod killed;

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};
use svcfs_base::{Actor, TreePath};
use svcfs_vfs::ClaimAttempt;

use crate::space::client::{Client, Reply};
use crate::space::{TestSpace, wait};

const TASK: &str = "---\ntype: task\nstatus: todo\n---\n\n# Task\n";
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Sends a JSON body as an actor.
pub fn post(client: &Client, actor: &str, target: &str, body: &Value) -> Reply {
    client.send("POST", &format!("/api/svc{target}"), &[("X-Actor", actor), JSON], body.to_string())
}

fn put(client: &Client, headers: &[(&str, &str)], path: &str, text: &str) -> Reply {
    client.send("PUT", &format!("/api/svc/file?path={path}"), headers, text.to_owned())
}

fn claim(client: &Client, actor: &str, path: &str) -> Value {
    let claimed = post(client, actor, "/claim", &json!({ "path": path }));
    assert_eq!(claimed.status, 200, "{}", claimed.text());
    claimed.json()
}

/// A claim whose lease ends at once: over HTTP the shortest is a minute.
fn lapsing_claim(space: &TestSpace, actor: &str, path: &str) -> u64 {
    let path = TreePath::parse(path).unwrap();
    match space.space().vfs.start_claim(&Actor::new(actor), &path, Duration::from_millis(50)).unwrap() {
        ClaimAttempt::Started(started) => started.confirm().unwrap().fence,
        ClaimAttempt::Active(claim) | ClaimAttempt::Lapsed(claim) => panic!("{claim:?}"),
    }
}

#[test]
fn a_worker_past_its_lease_is_refused_by_its_fence() {
    let space = TestSpace::with("", crate::space::can_mount());
    let client = space.client();
    assert_eq!(put(&client, &[("X-Actor", "setup")], "tasks/a.md", TASK).status, 200);
    let old = lapsing_claim(&space, "slow", "tasks/a.md");
    let page = TreePath::parse("tasks/a.md").unwrap();
    wait::until("the lease ends", || space.space().vfs.claim_at(&page).is_none());
    let fence = old.to_string();
    let slow = [("X-Actor", "slow"), ("X-Claim-Fence", fence.as_str())];
    let late = put(&client, &slow, "tasks/a.md", TASK);
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.json()["active_claim"].is_null(), "{}", late.text());

    let taken = post(&client, "fast", "/tasks/next", &json!({})).json();
    assert_eq!(taken["task"]["path"], "tasks/a.md", "{taken}");
    let claimed = &taken["claim"];
    assert!(claimed["fence"].as_u64().unwrap() > old);
    let refused = put(&client, &slow, "tasks/a.md", TASK);
    assert_eq!(refused.status, 409);
    assert!(refused.json()["error"].as_str().unwrap().starts_with("claim_lost: "), "{}", refused.text());
    assert_eq!(refused.json()["active_claim"], *claimed);
    for arguments in [json!({ "actor": "slow", "fence": old }), json!({ "actor": "slow" })] {
        let mut arguments = arguments;
        (arguments["path"], arguments["content"]) = (json!("tasks/a.md"), json!(TASK));
        let refused = client.tool("svc_write", arguments).unwrap_err();
        assert!(refused.contains("claim_lost: `tasks/a.md` is claimed by `fast`"), "{refused}");
    }
    let done = json!({ "path": "tasks/a.md", "fence": old });
    assert_eq!(post(&client, "slow", "/tasks/done", &done).status, 409);
    let dav = space.webdav_client().send("PUT", "/tasks/a.md", &[], TASK);
    assert_eq!(dav.status, 423, "{}", dav.text());
    if crate::space::can_mount() {
        let on_mount = space.mountpoint().join("tasks/a.md");
        let busy = [
            std::fs::write(&on_mount, "mine").unwrap_err(),
            std::fs::remove_file(&on_mount).unwrap_err(),
            std::fs::rename(&on_mount, space.mountpoint().join("b.md")).unwrap_err(),
            std::fs::rename(space.mountpoint().join("tasks"), space.mountpoint().join("jobs")).unwrap_err(),
        ];
        for error in busy {
            assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
        }
        let shown = space.shell("getfattr --only-values -n user.svc.claim tasks/a.md 2>/dev/null || true");
        if !shown.is_empty() {
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), *claimed);
        }
    }
    let fence = claimed["fence"].to_string();
    let fast = [("X-Actor", "fast"), ("X-Claim-Fence", fence.as_str())];
    assert_eq!(put(&client, &fast, "tasks/a.md", TASK).status, 200);
    assert_eq!(space.text("tasks/a.md"), TASK);
}

#[test]
fn claims_over_rest_and_mcp_are_the_same() {
    let space = TestSpace::new();
    let client = space.client();
    put(&client, &[], "a.md", "# A\n");
    let claimed = claim(&client, "ann", "a.md");
    let noted = put(&client, &[("X-Actor", "bob")], "a.md", "# B\n");
    assert_eq!(noted.status, 200);
    let note = noted.headers["x-svc-note"].to_str().unwrap();
    assert!(note.starts_with("`a.md` is claimed by `ann` until "), "{note}");
    let listed = client.tool("svc_claims_list", json!({})).unwrap();
    assert_eq!(listed, json!({ "claims": [claimed] }));
    let refused = client.tool("svc_claim", json!({ "path": "a.md", "actor": "bob" })).unwrap_err();
    assert!(refused.contains("already claimed"), "{refused}");
    let unnamed = client.tool("svc_claim", json!({ "path": "a.md" })).unwrap_err();
    assert!(unnamed.contains("actor is required"), "{unnamed}");
    let garbage = put(&client, &[("X-Claim-Fence", "x")], "a.md", "# C\n");
    assert_eq!((garbage.status, garbage.text().contains("X-Claim-Fence")), (400, true));
    let body = json!({ "path": "a.md" }).to_string();
    let release = |actor: &str| client.send("DELETE", "/api/svc/claim", &[("X-Actor", actor), JSON], body.clone());
    assert_eq!(release("bob").status, 403);
    assert_eq!(release("ann").json(), json!({ "status": "released" }));
    assert_eq!(client.get("/api/svc/claims").json(), json!({ "claims": [] }));
    claim(&client, "ann", "a.md");
    let by_query = client.send("DELETE", "/api/svc/claim?path=a.md", &[("X-Actor", "ann")], "");
    assert_eq!(by_query.json(), json!({ "status": "released" }));
}

#[test]
fn an_enforced_claim_binds_every_protocol() {
    let space = TestSpace::with("[claims]\nenforce = true\n", false);
    let client = space.client();
    put(&client, &[], "a.md", "# A\n");
    claim(&client, "ann", "a.md");
    assert_eq!(put(&client, &[("X-Actor", "bob")], "a.md", "# B\n").status, 409);
    assert_eq!(space.webdav_client().send("PUT", "/a.md", &[], "# B\n").status, 423);
    assert_eq!(space.webdav_client().send("DELETE", "/a.md", &[], "").status, 423);
    let moved = [("Destination", "/b.md")];
    assert_eq!(space.webdav_client().send("MOVE", "/a.md", &moved, "").status, 423);
    let renamed = post(&client, "ann", "/rename", &json!({ "from": "a.md", "to": "b.md" }));
    assert_eq!(renamed.status, 200, "{}", renamed.text());
    assert_eq!(client.get("/api/svc/claims").json()["claims"][0]["path"], "b.md");
}
