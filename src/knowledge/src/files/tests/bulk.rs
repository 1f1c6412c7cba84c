use serde_json::json;
use svcfs_base::{ETag, Precondition};

use crate::spaces::test_space::{TestSpace, expecting, from_run, status_and_error};

#[test]
fn a_bulk_write_is_one_commit() {
    let space = TestSpace::new();
    let files = json!([{ "path": "b.md", "content": "* b" }, { "path": "/a.md", "content": "a\n" }]);
    let caller = from_run("header", "run:1");
    let written = space.ask_as(&caller, "bulk_write", json!({ "files": files, "actor": "body" })).unwrap();
    assert_eq!((&written["count"], &written["files"][0]["path"]), (&json!(2), &json!("b.md")));
    assert_eq!(written["files"][1]["path"], "a.md");
    assert_eq!(written["files"][1]["etag"], json!(ETag::from_content(space.text("a.md").as_bytes())));
    assert!(space.text("b.md").ends_with("- b\n") && space.text("b.md").contains("derived-from:"));
    let (commit, author, message) = space.newest("a.md");
    assert_eq!((author.as_str(), message.as_str()), ("body", "body: bulk write — 2 files"));
    assert_eq!(space.newest("b.md").0, commit);
    space.get("bulk_write", json!({ "files": [{ "path": "a.md", "content": "new\n" }], "message": "spring cleaning" }));
    assert_eq!(space.newest("a.md").2, "spring cleaning");
}

#[test]
fn one_stale_file_fails_the_entire_bulk() {
    let space = TestSpace::new();
    let etag = space.put("a.md", "one\n");
    space.put("a.md", "two\n");
    let files = |tag: &str| {
        json!({ "files": [
            { "path": "new.md", "content": "new\n" },
            { "path": "a.md", "content": "three\n", "if_match": tag },
        ] })
    };
    let (status, message) = space.refusal("bulk_write", files(&format!("\"{etag}\"")));
    assert_eq!(status, 409);
    assert!(message.starts_with("conflict: file was modified since your last read"), "{message}");
    assert_eq!(space.refusal("read", json!({ "path": "new.md" })).0, 404);
    assert_eq!(space.text("a.md"), "two\n");
    space.get("bulk_write", files("*"));
    assert_eq!(space.text("a.md"), "three\n");
}

#[test]
fn a_refused_bulk_names_the_entry() {
    let space = TestSpace::new();
    let good = json!({ "path": "a.md", "content": "a\n" });
    for (files, status, start) in [
        (json!([]), 400, "`files`: at least one file is required"),
        (json!([good, { "content": "x" }]), 400, "files[1].path is required"),
        (json!([good, { "path": "", "content": "x" }]), 400, "files[1].path is required"),
        (json!([good, { "path": "b.md" }]), 400, "files[1].content is required"),
        (json!([good, { "path": "../b.md", "content": "" }]), 400, "`files[1].path`: path denied"),
        (
            json!([good, { "path": "./a.md", "content": "b" }]),
            400,
            "`files[1].path`: `a.md` is already the path of files[0]",
        ),
        (
            json!([good, { "path": "b.md", "content": "", "if_match": "x" }]),
            400,
            "`files[1].if_match`: `x` is not an ETag",
        ),
        (
            json!([good, { "path": "b.md", "content": "---\na: [\n---\n" }]),
            422,
            "files[1] (b.md): frontmatter-yaml-invalid (line ",
        ),
        (
            json!([good, { "path": "b.md", "content": { "base64": "/w==" } }]),
            400,
            "files[1] (b.md): `content`: a page must be UTF-8",
        ),
    ] {
        let (found, message) = space.refusal("bulk_write", json!({ "files": files }));
        assert_eq!(found, status, "{message}");
        assert!(message.starts_with(start), "{message}");
    }
    let conditional = expecting(Precondition::Present);
    let (status, message) = status_and_error(space.ask_as(&conditional, "bulk_write", json!({ "files": [good] })));
    assert_eq!(status, 400);
    assert!(message.contains("use the `if_match` of each file"), "{message}");
    assert_eq!(space.get("tree", json!({})), json!([]));
}
