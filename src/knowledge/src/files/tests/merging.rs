use serde_json::{Value, json};
use svcfs_base::{Caller, ETag, Fault, Precondition};

use crate::spaces::test_space::{TestSpace, caller, expecting, status_and_error};

const BASE: &str = "---\nstatus: draft\ntags: [a]\n---\n\n# Title\n\none\n\ntwo\n\nthree\n";

fn based_on(etag: &Value) -> Caller {
    expecting(Precondition::OneOf(vec![etag_of(etag)]))
}

fn etag_of(etag: &Value) -> ETag {
    ETag::parse("etag", etag.as_str().unwrap()).unwrap()
}

fn merge_as(space: &TestSpace, caller: &Caller, operation: &str, content: &str) -> Result<Value, Fault> {
    space.ask_as(caller, operation, json!({ "path": "a.md", "content": content, "on_conflict": "merge" }))
}

/// A space in which another writer changed `one` and the tags of [`BASE`], and the ETag of that.
fn changed_space() -> (TestSpace, Value) {
    let space = TestSpace::new();
    let etag = space.put("a.md", BASE);
    space.put("a.md", &BASE.replace("one", "ONE").replace("[a]", "[a, b]"));
    (space, json!(etag))
}

#[test]
fn writes_of_different_places_are_merged() {
    let (space, base) = changed_space();
    let ours = BASE.replace("three", "THREE").replace("draft", "final # soon");
    let written = merge_as(&space, &based_on(&base), "write", &ours).unwrap();
    let expected = ours.replace("one", "ONE").replace("[a]", "[a, b]");
    assert_eq!(space.text("a.md"), expected);
    assert_eq!(written, json!({ "path": "a.md", "etag": ETag::from_content(expected.as_bytes()), "merged": true }));
    // sent again, because the response was lost
    let again = merge_as(&space, &based_on(&base), "write", &ours).unwrap();
    assert_eq!(again["etag"], written["etag"]);
    assert_eq!(space.get("versions", json!({ "path": "a.md" })).as_array().unwrap().len(), 3);
    // the present version: nothing to merge
    let caller = based_on(&written["etag"]);
    let written = merge_as(&space, &caller, "write", "# New\n").unwrap();
    assert_eq!((written.get("merged"), space.text("a.md").as_str()), (None, "# New\n"));
}

#[test]
fn appends_are_merged_with_changes_above() {
    let (space, base) = changed_space();
    let written = merge_as(&space, &based_on(&base), "append", "four\n").unwrap();
    assert_eq!(written["merged"], true);
    let expected = BASE.replace("one", "ONE").replace("[a]", "[a, b]") + "\nfour\n";
    assert_eq!(space.text("a.md"), expected);
    // both at the end
    let fault = merge_as(&space, &based_on(&base), "append", "five\n").unwrap_err();
    assert_eq!((fault.kind().http(), space.text("a.md")), (409, expected));
}

#[test]
fn overlapping_changes_are_refused_with_both_texts() {
    let (space, base) = changed_space();
    let stored = space.text("a.md");
    let ours = BASE.replace("one", "uno").replace("[a]", "[c]");
    let fault = merge_as(&space, &based_on(&base), "write", &ours).unwrap_err();
    assert_eq!(fault.kind().http(), 409);
    let message = fault.message();
    assert!(message.starts_with("conflict: file was modified since your last read"), "{message}");
    assert!(message.contains("key `tags` (line 3), line 8"), "{message}");
    let detail = fault.detail();
    assert_eq!(detail["current_etag"], json!(ETag::from_content(stored.as_bytes())));
    assert_eq!((&detail["base"], &detail["theirs"]), (&json!(BASE), &json!(stored)));
    assert_eq!(
        detail["conflicts"],
        json!([
            { "key": "tags", "start": 3, "end": 3, "base": "tags: [a]\n", "ours": "tags: [c]\n", "theirs": "tags: [a, b]\n" },
            { "start": 8, "end": 8, "base": "one\n", "ours": "uno\n", "theirs": "ONE\n" },
        ])
    );
    assert_eq!(space.text("a.md"), stored, "nothing is written");
    // a conflict fails as before unless a merge is requested
    let fault = space.ask_as(&based_on(&base), "write", json!({ "path": "a.md", "content": "x" })).unwrap_err();
    assert_eq!((fault.kind().http(), fault.detail().get("conflicts")), (409, None));
}

#[test]
fn a_merge_needs_a_version_that_is_stored() {
    let (space, base) = changed_space();
    let unknown = json!(ETag::from_content(b"never stored"));
    let several = expecting(Precondition::OneOf(vec![etag_of(&unknown), etag_of(&base)]));
    let none = expecting(Precondition::OneOf(Vec::new()));
    let ours = BASE.replace("two", "TWO");
    for (caller, status, word) in [
        (caller(), 400, "`If-Match`"),
        (expecting(Precondition::Present), 400, "`If-Match`"),
        (expecting(Precondition::Absent), 400, "`If-Match`"),
        (based_on(&unknown), 409, "no stored version with the ETag"),
        (none, 409, "no valid ETag"),
    ] {
        for operation in ["write", "append"] {
            let (found, message) = status_and_error(merge_as(&space, &caller, operation, &ours));
            assert_eq!(found, status, "{message}");
            assert!(message.contains(word), "{message}");
        }
    }
    // the contents of other pages are no versions of this one
    let other = space.put("other.md", "# Other\n");
    let fault = merge_as(&space, &based_on(&json!(other)), "write", &ours).unwrap_err();
    assert!(fault.detail().get("base").is_none() && fault.message().contains("no stored version"));
    assert!(merge_as(&space, &several, "write", &ours).is_ok());
    assert_eq!(space.refusal("write", json!({ "path": "a.md", "content": "", "on_conflict": "win" })).0, 400);
    let link = json!({ "path": "l.md", "content": "a.md", "symlink": true, "on_conflict": "merge" });
    assert_eq!(status_and_error(space.ask_as(&based_on(&base), "write", link)).0, 400);
    // a removed page is not written again
    space.get("delete", json!({ "path": "a.md" }));
    assert_eq!(status_and_error(merge_as(&space, &based_on(&base), "write", &ours)).0, 409);
}

#[test]
fn merged_text_is_checked_like_any_write() {
    let space = TestSpace::new();
    let page = |first: &str, last: &str| format!("# A\n\n```mermaid\n{first}\n{last}```\n");
    let base = json!(space.put("a.md", &page("graph\n", "graph\n")));
    space.put("a.md", &page("graph\n", ""));
    // each is complete alone, and both together are an empty diagram
    let (status, message) = status_and_error(merge_as(&space, &based_on(&base), "write", &page("", "graph\n")));
    assert_eq!(status, 422, "{message}");
    assert_eq!(space.text("a.md"), page("graph\n", ""));
}

#[test]
fn a_renamed_page_is_merged_with_its_older_versions() {
    let (space, base) = changed_space();
    space.get("rename", json!({ "from": "a.md", "to": "b.md" }));
    let content = BASE.replace("three", "THREE");
    let arguments = json!({ "path": "b.md", "content": content, "on_conflict": "merge" });
    assert_eq!(space.ask_as(&based_on(&base), "write", arguments).unwrap()["merged"], true);
    assert!(space.text("b.md").contains("ONE") && space.text("b.md").contains("THREE"));
}

#[test]
fn bytes_are_not_merged() {
    let space = TestSpace::new();
    let write = |caller: &Caller, bytes: &str| {
        space.ask_as(
            caller,
            "write",
            json!({ "path": "a.bin", "content": { "base64": bytes }, "on_conflict": "merge" }),
        )
    };
    let stored = space.get("write", json!({ "path": "a.bin", "content": { "base64": "/w==" } }));
    space.get("write", json!({ "path": "a.bin", "content": "text\n" }));
    let (status, message) = status_and_error(write(&based_on(&stored["etag"]), "/v8="));
    assert_eq!(status, 409);
    assert!(message.contains("is not text"), "{message}");
}

#[test]
fn concurrent_merges_preserve_every_change() {
    const WRITERS: usize = 6;
    let space = TestSpace::new();
    let lines = |changed: Option<usize>| -> String {
        let line = |at| format!("{} {at}\nand its\ntext {at}\n", if changed == Some(at) { "changed" } else { "line" });
        (0..WRITERS).map(line).collect()
    };
    let base = json!(space.put("a.md", &lines(None)));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (space, base) = (&space, &base);
            scope.spawn(move || merge_as(space, &based_on(base), "write", &lines(Some(writer))).unwrap());
        }
    });
    assert_eq!(space.text("a.md").matches("changed").count(), WRITERS);
}
