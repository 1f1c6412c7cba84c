use serde_json::json;

use super::test_space::TestSpace;

#[test]
fn a_space_keeps_its_state_out_of_its_history() {
    let space = TestSpace::new();
    space.put("a.md", "a\n");
    assert!(space.root().join(super::INDEX_FILE).is_file());
    let changes = space.get("changes", json!({}));
    assert!(!changes.to_string().contains("index.db"), "{changes}");
}
