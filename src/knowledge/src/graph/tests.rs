use serde_json::json;

use crate::spaces::test_space::TestSpace;

#[test]
fn backlinks_come_with_the_line_they_stand_in() {
    let space = TestSpace::new();
    space.put("b.md", "# B\n");
    space.put("a.md", "---\ntitle: First\n---\n\nSee [[b]] for more, and [[b]] again.\n");
    space.put("d/c.md", "[up](../b.md)\n");
    space.put("e.md", "`[[b]]`\n");
    assert_eq!(
        space.get("backlinks", json!({ "path": "b.md" })),
        json!([
            { "path": "a.md", "title": "First", "context": "See [[b]] for more, and [[b]] again." },
            { "path": "d/c.md", "title": "c", "context": "[up](../b.md)" },
        ])
    );
    space.get("delete", json!({ "path": "a.md" }));
    assert_eq!(space.get("backlinks", json!({ "path": "b.md" })).as_array().unwrap().len(), 1);
    assert_eq!(space.get("backlinks", json!({ "path": "nowhere.md" })), json!([]));
    assert_eq!(space.refusal("backlinks", json!({})), (400, "path is required".to_owned()));
}
