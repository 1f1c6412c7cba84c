use serde_json::{Value, json};

use crate::spaces::test_space::TestSpace;

#[test]
fn the_context_is_read_from_the_config_folder_or_the_root() {
    let space = TestSpace::with(
        "",
        &[(".svc/playbook.md", "Be kind.\n"), ("playbook.md", "Not this.\n"), ("index.md", "# Home\n")],
    );
    assert_eq!(space.get("context", json!({})), json!({ "playbook": "Be kind.\n", "schema": "", "index": "# Home\n" }));
}

/// Four episodes, of which one is named by its id, one by its path, and two by nobody.
fn remembering() -> TestSpace {
    TestSpace::with(
        "",
        &[
            ("episodes/one.md", "---\nepisode_id: run-1\n---\nFirst.\n"),
            ("episodes/two.md", "Nothing said.\n"),
            ("episodes/three.md", "---\nid: 3\n---\nThird.\n"),
            ("episodes/summary.md", "---\nmemory_kind: semantic\n---\nNo episode.\n"),
            ("elsewhere.md", "---\nmemory_kind: episodic\nepisode_id: run-4\n---\nFourth.\n"),
            (
                "learned.md",
                "---\nmerged-from:\n  - {type: run, id: run-1}\n  - {path: /episodes/two.md}\n  - {type: page, id: run-4}\n---\nText.\n",
            ),
        ],
    )
}

#[test]
fn consolidated_episodes_are_distinguished_from_open_ones() {
    let found = remembering().get("memory_report", json!({}));
    let paths = |list: &str| -> Vec<Value> {
        found[list].as_array().unwrap().iter().map(|episode| episode["path"].clone()).collect()
    };
    assert_eq!((&found["episodic_count"], &found["merged_from_refs"]), (&json!(4), &json!(3)));
    assert_eq!(paths("episodic_files"), ["elsewhere.md", "episodes/one.md", "episodes/three.md", "episodes/two.md"]);
    assert_eq!(paths("unmerged"), ["elsewhere.md", "episodes/three.md"], "a page's id is no episode's");
    assert_eq!(found["unmerged"][1]["episode_id"], "3", "a number is an id as well");
    assert_eq!(
        found["warnings"],
        json!(["episodes/two.md: no `episode_id` in the frontmatter; `merged-from` can reference it by path only"])
    );
}

#[test]
fn the_folder_of_episodes_is_a_setting_and_a_parameter() {
    let found = remembering().get("memory_report", json!({ "episodes_prefix": "nowhere" }));
    assert_eq!(found["episodic_count"], 1, "one says so itself");
    let space = TestSpace::with(
        "[memory]\nepisodes_path_prefix = \"diary/\"\n",
        &[("diary/a.md", "A.\n"), ("diary.md", "No.\n"), ("episodes/b.md", "No.\n")],
    );
    assert_eq!(space.get("memory_report", json!({}))["episodic_files"], json!([{ "path": "diary/a.md" }]));
    let (status, why) = space.refusal("memory_report", json!({ "episodes_prefix": "/" }));
    assert_eq!(status, 400);
    assert!(why.contains("`episodes_prefix`"), "{why}");
}
