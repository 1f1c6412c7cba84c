use serde_json::json;
use svcfs_base::{ETag, Precondition};

use crate::spaces::test_space::{TestSpace, expecting, status_and_error};

fn link(path: &str, target: &str) -> serde_json::Value {
    json!({ "path": path, "content": target, "symlink": true })
}

#[test]
fn a_link_is_made_read_through_and_is_a_version() {
    let space = TestSpace::new();
    space.put("a.md", "a\n");
    let made = space.get("write", link("d/l.md", "../a.md\n"));
    assert_eq!(made["type"], "symlink");
    assert_eq!(made["etag"], ETag::from_content(b"../a.md").to_string());
    assert_eq!(space.get("readlink", json!({ "path": "d/l.md" }))["target"], "../a.md");
    let read = space.get("read", json!({ "path": "d/l.md" }));
    assert_eq!((&read["content"], &read["type"]), (&json!("a\n"), &json!("symlink")));
    assert_eq!(space.newest("d/l.md").2, "anonymous: link d/l.md");
    assert_eq!(space.get("read", json!({ "path": "a.md" })).get("type"), None);
    assert_eq!(space.get("search", json!({ "q": "a" })).as_array().unwrap().len(), 1, "a link is no page of its own");
}

#[test]
fn a_link_takes_the_place_of_a_file_under_its_condition() {
    let space = TestSpace::new();
    let etag = space.put("l.md", "text\n");
    let stale = expecting(Precondition::OneOf(vec![ETag::from_content(b"x")]));
    assert_eq!(status_and_error(space.ask_as(&stale, "write", link("l.md", "a.md"))).0, 409);
    let fresh = expecting(Precondition::OneOf(vec![etag]));
    space.ask_as(&fresh, "write", link("l.md", "not/yet.md")).unwrap();
    assert_eq!(space.get("readlink", json!({ "path": "l.md" }))["target"], "not/yet.md");
    space.put("l.md", "a page\n");
    assert_eq!(space.text("not/yet.md"), "a page\n", "text goes to where the link leads");
    space.get("write", link("l.md", "elsewhere.md"));
    assert_eq!(space.get("readlink", json!({ "path": "l.md" }))["target"], "elsewhere.md");
}

#[test]
fn a_target_outside_the_tree_or_of_the_server_is_refused() {
    let space = TestSpace::with("", &[("a.md", "a\n"), (".svc/config.toml", "# secret\n")]);
    let long = "x/".repeat(3000);
    for (path, target) in [
        ("l.md", ""),
        ("l.md", "\n"),
        ("l.md", "/etc/passwd"),
        ("l.md", "../a.md"),
        ("d/l.md", "../../a.md"),
        ("d/l.md", "x/../../../a.md"),
        ("l.md", "%2e%2e/x"),
        ("l.md", "a\u{0}b"),
        ("l.md", "a\nb"),
        ("l.md", ".git/config"),
        ("l.md", ".svc/config.toml"),
        ("d/l.md", "../.svc/state/log.db"),
        ("l.md", &long),
    ] {
        let (status, message) = space.refusal("write", link(path, target));
        assert!(status == 400 && message.starts_with("invalid link target: "), "{target}: {message}");
        assert_eq!(space.refusal("readlink", json!({ "path": path })).0, 404, "{target}");
    }
    let bytes = json!({ "path": "l.md", "content": { "base64": "/w==" }, "symlink": true });
    assert_eq!(space.refusal("write", bytes).0, 400);
}
