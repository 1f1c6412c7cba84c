use serde_json::{Value, json};
use svcfs_base::{Caller, Protocol};

use crate::spaces::test_space::{TestSpace, from_run, status_and_error};

/// Events as `type path actor`.
fn events(answer: &Value) -> Vec<String> {
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    let events = answer["events"].as_array().unwrap().iter();
    events.map(|event| format!("{} {} {}", text(event, "type"), text(event, "path"), text(event, "actor"))).collect()
}

/// Three pages, one of them renamed and one removed by somebody else.
fn lively() -> TestSpace {
    let space = TestSpace::with("", &[(".svc/rules.md", "# Rules\n")]);
    space.put("a.md", "one\n");
    space.put("notes/b.md", "two\n");
    space.get("rename", json!({ "from": "a.md", "to": "c.md" }));
    space.ask_as(&from_run("Zoë", ""), "delete", json!({ "path": "notes/b.md" })).unwrap();
    space
}

#[test]
fn events_are_newest_first_with_a_rename_as_delete_and_write() {
    let space = lively();
    let answer = space.get("timeline", json!({}));
    let told = [
        "delete notes/b.md Zoë",
        "write c.md anonymous",
        "delete a.md anonymous",
        "write notes/b.md anonymous",
        "write a.md anonymous",
    ];
    assert_eq!((events(&answer), &answer["total"]), (told.map(str::to_owned).to_vec(), &json!(5)));
    let newest = &answer["events"][0];
    assert_eq!(newest["message"], "delete: notes/b.md");
    assert_eq!(newest["hash"], space.get("versions", json!({ "path": "notes/b.md" }))[0]["hash"]);
    assert!(newest["timestamp"].as_str().unwrap().starts_with("2026-01-01T00:0"), "{newest}");
    assert!(!answer.to_string().contains(".svc"), "{answer}");
}

#[test]
fn events_are_filtered_and_paged_and_all_that_fit_are_counted() {
    let space = lively();
    for (question, told, total) in [
        (json!({ "type": "delete" }), &["delete notes/b.md Zoë", "delete a.md anonymous"][..], 2),
        (json!({ "type": "write", "limit": 1, "offset": 1 }), &["write notes/b.md anonymous"], 3),
        (json!({ "actor": "Zoë" }), &["delete notes/b.md Zoë"], 1),
        (json!({ "actor": "Zo" }), &[], 0),
        (json!({ "path_prefix": "notes" }), &["delete notes/b.md Zoë", "write notes/b.md anonymous"], 2),
        (json!({ "path_prefix": "/notes/", "type": "write" }), &["write notes/b.md anonymous"], 1),
        (json!({ "offset": 5 }), &[], 5),
        (json!({ "limit": 100_000, "offset": 4 }), &["write a.md anonymous"], 5),
    ] {
        let answer = space.get("timeline", question.clone());
        assert_eq!(
            (events(&answer), &answer["total"]),
            (told.iter().map(|text| (*text).to_owned()).collect(), &json!(total)),
            "{question}"
        );
    }
}

#[test]
fn a_bulk_write_is_an_event_for_each_file_under_its_subject() {
    let space = TestSpace::new();
    let files: Vec<Value> = (0..3).map(|number| json!({ "path": format!("{number}.md"), "content": "x\n" })).collect();
    space.get("bulk_write", json!({ "files": files, "message": "three at once\n\nand a body" }));
    let answer = space.get("timeline", json!({}));
    assert_eq!(events(&answer), ["write 2.md anonymous", "write 1.md anonymous", "write 0.md anonymous"]);
    assert_eq!(answer["events"][0]["message"], "three at once");
}

#[test]
fn invalid_queries_are_refused_with_the_field_name() {
    let space = lively();
    for (question, field) in [
        (json!({ "limit": 0 }), "limit"),
        (json!({ "limit": "many" }), "limit"),
        (json!({ "offset": -1 }), "offset"),
        (json!({ "type": "rename" }), "type"),
        (json!({ "type": "" }), "type"),
        (json!({ "path_prefix": "../x" }), "path"),
        (json!({ "actor": 7 }), "actor"),
    ] {
        let (status, message) = status_and_error(space.ask("timeline", question.clone()));
        assert!(status == 400 && message.contains(field), "{question}: {status} {message}");
    }
    assert_eq!(space.refusal("feed", json!({ "limit": 0 })).0, 400);
}

#[test]
fn a_feed_lists_what_happened_to_which_page_with_its_address() {
    let space = TestSpace::with("[server]\npublic_url = \"https://notes.example/\"\n", &[]);
    space.put("a b/ä.md", "one\n");
    space.get("delete", json!({ "path": "a b/ä.md" }));
    let feed = space.get("feed", json!({}));
    assert_eq!(feed["version"], "https://jsonfeed.org/version/1.1");
    assert_eq!(feed["title"], "svcfs Activity Feed");
    assert_eq!(feed["home_page_url"], "https://notes.example");
    assert_eq!(feed["feed_url"], "https://notes.example/api/svc/default/feed.json");
    let [deleted, updated] = &feed["items"].as_array().unwrap()[..] else { panic!("{feed}") };
    assert_eq!((&deleted["title"], deleted.get("url")), (&json!("Deleted: a b/ä.md"), None));
    assert_eq!(updated["title"], "Updated: a b/ä.md");
    assert_eq!(updated["url"], "https://notes.example/page/a%20b/%C3%A4.md");
    assert_eq!(updated["content_text"], "anonymous: a b/ä.md");
    assert_eq!(updated["authors"], json!([{ "name": "anonymous" }]));
    assert_ne!(updated["id"], deleted["id"]);
    assert!(space.get("feed", json!({})) == feed, "the same events are the same document");
}

#[test]
fn agents_get_shorter_feeds() {
    let space = TestSpace::new();
    for number in 0..60 {
        space.put(&format!("{number}.md"), "x\n");
    }
    let count = |feed: &Value| feed["items"].as_array().unwrap().len();
    assert_eq!(count(&space.get("feed", json!({}))), 50);
    assert_eq!(count(&space.get("feed", json!({ "limit": 55 }))), 55);
    assert_eq!(count(&space.ask_as(&Caller::new(Protocol::Mcp), "feed", json!({})).unwrap()), 20);
}

#[test]
fn an_atom_feed_is_well_formed_for_any_names_and_messages() {
    let space = TestSpace::with("[server]\npublic_url = \"https://notes.example\"\n", &[]);
    let hostile = "</title><script>alert(1)</script> & \"]]>\u{1}\u{ffff}\u{1f}";
    let files = json!([{ "path": "<a> & 'b'.md", "content": "x\n" }]);
    space
        .ask_as(&from_run("Eve & \"Co\" Sons", ""), "bulk_write", json!({ "files": files, "message": hostile }))
        .unwrap();
    let xml = space.get("feed_xml", json!({}))["xml"].as_str().unwrap().to_owned();
    assert!(!xml.contains("<script>") && !xml.contains('\u{1}') && !xml.contains('\u{ffff}'), "{xml}");
    let feed: atom_syndication::Feed = xml.parse().unwrap();
    assert_eq!(feed.title().as_str(), "svcfs Activity Feed");
    assert_eq!(feed.subtitle().map(|text| text.as_str()), Some("Recent changes to the knowledge base"));
    let [entry] = feed.entries() else { panic!("{xml}") };
    assert_eq!(entry.title().as_str(), "Updated: <a> & 'b'.md");
    assert_eq!(entry.authors()[0].name(), "Eve & \"Co\" Sons");
    assert_eq!(entry.summary().unwrap().as_str(), "</title><script>alert(1)</script> & \"]]>");
    assert_eq!(entry.content().and_then(|content| content.value()), Some("</title><script>alert(1)</script> & \"]]>"));
    assert_eq!(entry.links()[0].href(), "https://notes.example/page/%3Ca%3E%20%26%20%27b%27.md");
    assert_eq!(entry.updated(), feed.updated());
    assert_eq!(feed.links().iter().map(|link| link.rel()).collect::<Vec<_>>(), ["alternate", "self"]);
}

#[test]
fn a_feed_of_nothing_is_a_feed() {
    let space = TestSpace::new();
    assert_eq!(space.get("feed", json!({}))["items"], json!([]));
    let xml = space.get("feed_xml", json!({}))["xml"].as_str().unwrap().to_owned();
    let feed: atom_syndication::Feed = xml.parse().unwrap();
    assert!(feed.entries().is_empty() && !feed.id().is_empty());
    assert_eq!(space.get("timeline", json!({})), json!({ "events": [], "total": 0 }));
}
