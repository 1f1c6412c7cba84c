use serde_json::{Value, json};
use svcfs_base::Precondition;

use crate::spaces::test_space::{TestSpace, expecting};

#[test]
fn parts_of_a_page_are_edited() {
    let space = TestSpace::with("", &[("a.md", "# A\n\nold text\n\n## Log\n\n- one\n"), ("x.bin", "text")]);
    let edits = json!([
        { "old": "old", "new": "new" },
        { "heading": "Log", "mode": "append", "text": "- two" },
    ]);
    let edited = space.get("edit", json!({ "path": "a.md", "edits": edits }));
    assert_eq!(space.text("a.md"), "# A\n\nnew text\n\n## Log\n\n- one\n- two\n");
    assert_eq!(edited["version"], json!(space.newest("a.md").0), "{edited}");
    let etag = edited["etag"].clone();
    let same = space.get("edit", json!({ "path": "a.md", "edits": [{ "old": "new", "new": "new" }] }));
    assert_eq!((&same["etag"], same.get("version")), (&etag, None));
    let stale = expecting(Precondition::OneOf(vec![svcfs_base::ETag::from_content(b"other")]));
    let refused = space.ask_as(&stale, "edit", json!({ "path": "a.md", "edits": [{ "old": "no", "new": "" }] }));
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind().http(), &refused.detail()["etag"]), (409, &etag), "{refused:?}");
    let edit = |edits: Value| space.refusal("edit", json!({ "path": "a.md", "edits": edits }));
    for (edits, status, start) in [
        (json!([]), 400, "`edits`: must be 1 to 100 edits"),
        (json!([{ "old": "", "new": "x" }]), 400, "`edits[0].old`: is empty"),
        (json!([{ "old": "new" }]), 400, "edits[0].new is required"),
        (json!([{ "heading": "Log" }]), 400, "edits[0].text is required"),
        (json!([{ "heading": "Log", "old": "x" }]), 400, "`edits[0]`: must have either"),
        (json!([{}]), 400, "`edits[0]`: must have either"),
        (json!([{ "search": "x" }]), 400, "`edits[0].search`: unknown field"),
        (json!([{ "old": "new", "new": "x" }, { "old": "none", "new": "x" }]), 400, "`edits[1].old`: does not occur"),
        (json!([{ "old": "# A", "new": "---\ntitle: [\n---" }]), 422, ""),
    ] {
        let (actual, message) = edit(edits.clone());
        assert!(actual == status && message.starts_with(start), "{edits}: {actual} {message}");
    }
    assert_eq!(space.text("a.md"), "# A\n\nnew text\n\n## Log\n\n- one\n- two\n", "all edits or none");
    assert_eq!(space.refusal("edit", json!({ "path": "none.md", "edits": [{ "old": "a", "new": "b" }] })).0, 404);
}

#[test]
fn concurrent_edits_are_all_made() {
    let words: String = (0..16).map(|number| format!("word{number}x ")).collect();
    let space = TestSpace::with("", &[("a.md", &format!("{words}\n"))]);
    std::thread::scope(|scope| {
        for number in 0..16 {
            let space = &space;
            scope.spawn(move || {
                let edit = json!({ "old": format!("word{number}x"), "new": format!("done{number}x") });
                space.get("edit", json!({ "path": "a.md", "edits": [edit] }));
            });
        }
    });
    assert!(!space.text("a.md").contains("word"), "{}", space.text("a.md"));
}
