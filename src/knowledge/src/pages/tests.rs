use serde_json::json;

use crate::spaces::test_space::TestSpace;

const PAGE: &str = "---
title: Signing in
tags: [auth]
---

Users sign in with *OAuth*.

# Tokens

See [[sessions]] and [[sessions|again]], [x](gone.md), [[nowhere]].

## Refresh

Text.

# Keys & co
";

fn space() -> TestSpace {
    let space = TestSpace::new();
    space.put("notes/auth.md", PAGE);
    space.put("notes/sessions.md", "---\naliases: [Sitting]\n---\n\n# Sessions\n\n[[auth]]\n");
    space
}

#[test]
fn the_headings_are_a_bare_list() {
    assert_eq!(
        space().get("toc", json!({ "path": "notes/auth.md" })),
        json!([
            { "level": 1, "text": "Tokens", "slug": "tokens" },
            { "level": 2, "text": "Refresh", "slug": "refresh" },
            { "level": 1, "text": "Keys & co", "slug": "keys--co" },
        ])
    );
    assert_eq!(space().refusal("toc", json!({ "path": "x.md" })), (404, "file not found: x.md".to_owned()));
}

#[test]
fn links_are_resolved_by_every_name_a_page_has() {
    let links =
        json!(["sessions", "notes/sessions.md#x", "[[Sitting|there]]", "Signing in", "nowhere", "nowhere", "", "a\nb"]);
    let answer = space().get("resolve_links", json!({ "links": links }));
    let sessions = json!({ "path": "notes/sessions.md", "title": "Sessions" });
    assert_eq!(
        answer,
        json!({
            "resolved": {
                "Signing in": { "path": "notes/auth.md", "title": "Signing in" },
                "[[Sitting|there]]": sessions,
                "notes/sessions.md#x": sessions,
                "sessions": sessions,
            },
            "unresolved": ["nowhere", "", "a\nb"],
        })
    );
    let many = vec!["x"; 1001];
    assert_eq!(space().refusal("resolve_links", json!({ "links": many })).0, 400);
}

#[test]
fn a_peek_tells_what_a_page_is_about() {
    let space = space();
    let read = space.get("read", json!({ "path": "notes/auth.md" }));
    assert_eq!(
        space.get("peek", json!({ "path": "notes/auth.md" })),
        json!({
            "path": "notes/auth.md",
            "title": "Signing in",
            "snippet": "Users sign in with OAuth.",
            "frontmatter": { "title": "Signing in", "tags": ["auth"] },
            "links_out": ["notes/sessions.md"],
            "links_broken": ["gone.md", "nowhere"],
            "links_in": ["notes/sessions.md"],
            "headings": ["Tokens", "Refresh", "Keys & co"],
            "open_comments": 0,
            "word_count": 16,
            "etag": read["etag"],
            "size": read["size"],
            "modified": read["modified"],
        })
    );
}

#[test]
fn a_section_ends_at_the_next_heading_of_its_level() {
    let space = space();
    let section = space.get("section", json!({ "path": "notes/auth.md", "heading": "tokens" }));
    assert_eq!((&section["heading"], &section["level"]), (&json!("Tokens"), &json!(1)));
    assert_eq!((&section["line_start"], &section["line_end"]), (&json!(8), &json!(15)));
    assert!(section["content"].as_str().unwrap().ends_with("## Refresh\n\nText."));
    let second = space.get("section", json!({ "path": "notes/auth.md", "index": 1 }));
    assert_eq!((&second["heading"], &second["content"]), (&json!("Refresh"), &json!("Text.")));
    for (arguments, status, message) in [
        (json!({ "path": "notes/auth.md", "heading": "x" }), 404, "section \"x\" not found"),
        (json!({ "path": "notes/auth.md" }), 400, "heading or index is required"),
        (
            json!({ "path": "notes/auth.md", "heading": "x", "index": 1 }),
            400,
            "use either `heading` or `index`, not both",
        ),
        (
            json!({ "path": "notes/auth.md", "index": 3 }),
            400,
            "`index`: 3 is past the last section; `notes/auth.md` has 3",
        ),
        (json!({ "heading": "x" }), 400, "path is required"),
    ] {
        assert_eq!(space.refusal("section", arguments), (status, message.to_owned()));
    }
}

#[test]
fn lint_answers_with_a_list_and_content_wins_over_path() {
    let space = space();
    assert_eq!(space.get("lint", json!({ "path": "notes/auth.md" })), json!({ "issues": [] }));
    let answer = space.get("lint", json!({ "path": "x.md", "content": "---\ntitle: x\n---\n\n![a]()\n" }));
    let issue = &answer["issues"][0];
    assert_eq!((&issue["rule"], &issue["severity"]), (&json!("link-image-broken"), &json!("warning")));
    assert_eq!((&issue["line"], answer["issues"].as_array().unwrap().len()), (&json!(5), 1));
    assert_eq!(space.refusal("lint", json!({ "path": "x.md" })), (404, "file not found: x.md".to_owned()));
    assert_eq!(space.refusal("lint", json!({})), (400, "path or content is required".to_owned()));
    let empty = json!({ "path": "", "content": "" });
    assert_eq!(space.refusal("lint", empty), (400, "path is required".to_owned()), "as everywhere");
}

#[test]
fn templates_are_the_pages_of_their_folder() {
    let space = TestSpace::with(
        "",
        &[
            (".svc/templates/meeting.md", "---\ntitle: Meeting\n---\n"),
            (".svc/templates/decision.md", "# Decision\n"),
            (".svc/templates/notes.txt", "no page"),
            (".svc/templates/deep/inside.md", "not listed"),
        ],
    );
    assert_eq!(space.get("templates", json!({})), json!(["decision", "meeting"]));
    let meeting = json!({ "name": "meeting", "content": "---\ntitle: Meeting\n---\n" });
    assert_eq!(space.get("templates", json!({ "name": "meeting" })), meeting);
    assert_eq!(space.get("template", json!({ "name": "meeting.md" })), meeting);
    assert_eq!(TestSpace::new().get("templates", json!({})), json!([]));
    let unknown = space.refusal("template", json!({ "name": "party" }));
    assert_eq!(unknown, (404, "template not found: party; available: decision, meeting".to_owned()));
    for name in ["", ".md", "../../index", "deep/inside", "..", ".hidden", "a\\b", "a\0b"] {
        let (status, why) = space.refusal("template", json!({ "name": name }));
        assert_eq!(status, 400, "{name:?}: {why}");
    }
    assert_eq!(space.refusal("template", json!({})).0, 400);
}
