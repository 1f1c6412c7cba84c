//! Which notifications follow from changes.

use serde_json::{Value, json};
use svcfs_base::{Caller, Protocol, Seq, Timestamp, WebhookEvent};
use svcfs_store::{HookPosition, StoredHook};

use crate::spaces::test_space::TestSpace;
use crate::webhooks::events::{EventReader, FrontmatterCache};
use crate::webhooks::hook::Hook;

fn hook(path_glob: &str, events: &[&str]) -> Hook {
    Hook::new(StoredHook {
        id: "h".to_owned(),
        url: String::new(),
        path_glob: path_glob.to_owned(),
        events: events.iter().flat_map(|name| WebhookEvent::choose(name)).collect(),
        secret: String::new(),
        is_static: false,
        created_at: Timestamp::UNIX_EPOCH,
        position: HookPosition { seq: Seq(0), part: 0 },
        failing_since: None,
        disabled: None,
    })
}

/// The notifications after a position: event and path, and the bodies.
fn notified(space: &TestSpace, hook: &Hook, after: Seq) -> (Vec<String>, Vec<Value>) {
    let (mut names, mut bodies, pages) = (Vec::new(), Vec::new(), FrontmatterCache::default());
    for event in space.space().vfs.feed().events_after(after, 1000).unwrap() {
        let reader = EventReader::new((space.space(), &pages), hook, &event);
        for notification in (0..event.changes.len()).flat_map(|index| reader.notifications(index)) {
            names.push(format!("{} {}", notification.event.name(), notification.path));
            bodies.push(serde_json::from_str(&notification.body).unwrap());
            assert!(notification.message.starts_with("msg_") && notification.message.len() == 36);
        }
    }
    (names, bodies)
}

#[test]
fn changes_lead_to_the_chosen_notifications() {
    let space = TestSpace::new();
    let caller = Caller::new(Protocol::Http);
    let ask = |name: &str, arguments: Value| space.ask_as(&caller, name, arguments).unwrap();
    let start = space.space().vfs.last_seq();
    ask("write", json!({ "path": "docs/a.md", "content": "# A\n" }));
    ask("write", json!({ "path": "docs/a.md", "content": "# A2\n" }));
    ask("write", json!({ "path": "other/b.md", "content": "# B\n" }));
    space.edit_behind("docs/.c.md", "# C\n");
    ask("publish", json!({ "path": "docs/a.md" }));
    ask("rename", json!({ "from": "docs/a.md", "to": "docs/b.md" }));
    ask("unpublish", json!({ "path": "docs/b.md" }));
    ask("comments_add", json!({ "path": "docs/b.md", "line": 1, "body": "Why?" }));
    ask("rename", json!({ "from": "docs/b.md", "to": "other/c.md" }));
    ask("delete", json!({ "path": "other/c.md" }));
    let (names, bodies) = notified(&space, &hook("docs/**", &[]), start);
    assert_eq!(
        names,
        [
            "file.created docs/a.md",
            "file.updated docs/a.md",
            "file.updated docs/a.md",
            "page.published docs/a.md",
            "file.renamed docs/b.md",
            "file.updated docs/b.md",
            "page.unpublished docs/b.md",
            "comment.added docs/b.md",
            "file.deleted docs/b.md",
        ]
    );
    assert_eq!(bodies[0]["type"], "write");
    assert_eq!(bodies[4]["from"], "docs/a.md");
    for key in ["type", "event", "path", "actor", "timestamp", "space", "seq"] {
        assert!(bodies[0].get(key).is_some(), "{key}: {}", bodies[0]);
    }
    let (names, _) = notified(&space, &hook("docs/**", &["file.created", "file.deleted"]), start);
    assert_eq!(
        names,
        ["file.created docs/a.md", "file.deleted docs/a.md", "file.created docs/b.md", "file.deleted docs/b.md"],
        "without file.renamed it is a deletion and a creation"
    );
    assert_eq!(notified(&space, &hook("*", &[]), start).0, [] as [&str; 0], "`*` does not cross folders");
}

#[test]
fn a_published_page_that_is_removed_is_unpublished() {
    let space = TestSpace::with("", &[("a.md", "---\npublished: true\n---\na\n"), ("b.md", "b\n")]);
    let start = space.space().vfs.last_seq();
    space.get("rename", json!({ "from": "a.md", "to": "d/a.md" }));
    space.get("delete", json!({ "path": "d/a.md" }));
    space.get("delete", json!({ "path": "b.md" }));
    let names = |glob: &str| notified(&space, &hook(glob, &[]), start).0;
    assert_eq!(
        names("**"),
        ["file.renamed d/a.md", "file.deleted d/a.md", "page.unpublished d/a.md", "file.deleted b.md"]
    );
    assert_eq!(names("*"), ["file.deleted a.md", "page.unpublished a.md", "file.deleted b.md"]);
    let chosen = notified(&space, &hook("**", &["page.unpublished"]), start).0;
    assert_eq!(chosen, ["page.unpublished a.md", "page.unpublished d/a.md"], "a removal and a creation");
}

#[test]
fn transitions_and_merges_have_their_details() {
    let space = TestSpace::new();
    let caller = Caller::new(Protocol::Http);
    let ask = |name: &str, arguments: Value| space.ask_as(&caller, name, arguments).unwrap();
    let page = |state: &str| format!("---\nworkflow: tasks\nstate: {state}\n---\n# T\n");
    ask("write", json!({ "path": "t.md", "content": page("todo") }));
    let start = space.space().vfs.last_seq();
    ask("write", json!({ "path": "t.md", "content": page("doing") }));
    let draft = ask("draft_create", json!({}));
    let id = draft["id"].as_str().unwrap().to_owned();
    ask("draft_write", json!({ "id": id, "path": "new.md", "content": "# New\n" }));
    ask("draft_merge", json!({ "id": id }));
    let (names, bodies) = notified(&space, &hook("**", &[]), start);
    assert_eq!(names, ["file.updated t.md", "page.transition t.md", "file.created new.md", "draft.merged new.md"]);
    assert_eq!(
        (&bodies[1]["type"], &bodies[1]["from_state"], &bodies[1]["to_state"], &bodies[1]["field"]),
        (&json!("transition"), &json!("todo"), &json!("doing"), &json!("state"))
    );
    assert_eq!((&bodies[3]["draft"], &bodies[3]["paths"]), (&json!(id), &json!(["new.md"])));
}
