use std::collections::BTreeSet;

use serde_json::json;
use svcfs_base::{ETag, Precondition};

use crate::spaces::test_space::{TestSpace, expecting, status_and_error};

#[test]
fn an_append_adds_a_separator_only_between_texts() {
    let space = TestSpace::new();
    let append = |content: &str, separator: Option<&str>| {
        let mut arguments = json!({ "path": "log.md", "content": content });
        if let Some(separator) = separator {
            arguments["separator"] = separator.into();
        }
        space.get("append", arguments)
    };
    append("* one", None);
    assert_eq!(space.text("log.md"), "* one");
    let answer = append("* two", None);
    assert_eq!(space.text("log.md"), "* one\n* two");
    assert_eq!(answer, json!({ "path": "log.md", "etag": ETag::from_content(b"* one\n* two") }));
    append("!", Some(""));
    append("end", Some("\n\n---\n\n"));
    assert_eq!(space.text("log.md"), "* one\n* two!\n\n---\n\nend");
}

#[test]
fn an_append_is_checked_like_any_write() {
    let space = TestSpace::new();
    let etag = space.put("a.md", "one\n");
    let (status, message) = space.refusal("append", json!({ "path": "a.md", "content": "```mermaid\n```\n" }));
    assert_eq!(status, 422, "{message}");
    space.put("a.md", "two\n");
    let stale = expecting(Precondition::OneOf(vec![etag]));
    assert_eq!(status_and_error(space.ask_as(&stale, "append", json!({ "path": "a.md", "content": "x" }))).0, 409);
    let absent = expecting(Precondition::Absent);
    assert_eq!(status_and_error(space.ask_as(&absent, "append", json!({ "path": "a.md", "content": "x" }))).0, 412);
    assert_eq!(space.text("a.md"), "two\n");
    assert_eq!(space.refusal("append", json!({ "path": "", "content": "x" })), (400, "path is required".to_owned()));
}

#[test]
fn appends_stop_at_their_limits() {
    let space = TestSpace::new();
    let piece = "x".repeat(32 << 20);
    let longer = format!("{piece}y");
    assert_eq!(space.refusal("append", json!({ "path": "a.txt", "content": longer })).0, 413);
    space.get("append", json!({ "path": "a.txt", "content": piece }));
    space.get("append", json!({ "path": "a.txt", "content": piece, "separator": "" }));
    let (status, message) = space.refusal("append", json!({ "path": "a.txt", "content": "y", "separator": "" }));
    assert_eq!(status, 413);
    assert!(message.contains("64 MB"), "{message}");
}

#[test]
fn concurrent_appends_are_all_preserved() {
    const WRITERS: usize = 8;
    const LINES: usize = 6;
    let space = TestSpace::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let space = &space;
            scope.spawn(move || {
                for line in 0..LINES {
                    space.get("append", json!({ "path": "log.txt", "content": format!("{writer}.{line}") }));
                }
            });
        }
    });
    let text = space.text("log.txt");
    let lines: BTreeSet<&str> = text.lines().collect();
    assert_eq!((text.lines().count(), lines.len()), (WRITERS * LINES, WRITERS * LINES));
    assert_eq!(space.get("versions", json!({ "path": "log.txt" })).as_array().unwrap().len(), WRITERS * LINES);
}
