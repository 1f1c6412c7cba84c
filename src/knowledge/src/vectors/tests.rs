mod remote;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svcfs_base::{Caller, ETag, Permissions, Scope, TreePath};
use svcfs_vectors::VectorFilter;

use super::PageVectors;
use crate::spaces::test_space::{TestSpace, caller, path, status_and_error};

const ENABLED: &str = "[search.vector]\nenabled = true\n";

const TIDES: &str = "# Tides\n\nThe sea rises and falls twice a day because the moon pulls at the water.\n";
const WAVES: &str = "# Waves\n\nWind makes waves on the water of the sea, and the moon makes the tides.\n";
const BACKUPS: &str = "# Backups\n\nA copy of all files is stored on another disk every night.\n";
const BREAD: &str = "# Bread\n\nKnead flour, water and salt, and bake the dough in a hot oven.\n";

const FILES: [(&str, &str); 4] =
    [("sea/tides.md", TIDES), ("sea/waves.md", WAVES), ("it/backups.md", BACKUPS), ("kitchen/bread.md", BREAD)];

fn vectors(space: &TestSpace) -> &PageVectors {
    PageVectors::of_space(space.space()).unwrap()
}

/// Waits until every page is embedded.
fn settle(space: &TestSpace) {
    let accepted = space.space().vfs.last_seq();
    space.settle();
    assert!(vectors(space).wait(accepted, Duration::from_secs(20)));
    let started = Instant::now();
    // Pages that changed while the server was stopped are pending only after the comparison.
    let indexed: BTreeMap<TreePath, ETag> = space.space().index.etags().unwrap().into_iter().collect();
    while vectors(space).index.etags().unwrap() != indexed || vectors(space).index.pending() > 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", vectors(space).index.status());
        std::thread::yield_now();
    }
}

fn first(space: &TestSpace, question: &str) -> Option<String> {
    let near = vectors(space).index.search(question, 1, &VectorFilter::default()).unwrap();
    near.first().map(|near| near.path.to_string())
}

fn targets(answer: &Value) -> Vec<&str> {
    answer["suggestions"].as_array().unwrap().iter().map(|page| page["target"].as_str().unwrap()).collect()
}

fn limited_to(folder: &str) -> Caller {
    let permissions = Permissions { scope: Scope::Read, folder: Some(path(folder)) };
    Caller { permissions, ..caller() }
}

#[test]
fn without_the_setting_there_are_no_vectors() {
    let space = TestSpace::with("", &FILES);
    space.settle();
    for name in ["suggestions", "embeddings"] {
        let (status, message) = space.refusal(name, json!({ "path": "sea/tides.md" }));
        assert_eq!(status, 503);
        assert!(message.contains("set `search.vector.enabled = true`"), "{message}");
    }
    assert!(!space.root().join(".svc/state/vectors.db").exists());
}

#[test]
fn existing_and_changed_pages_are_found_by_meaning() {
    let space = TestSpace::with(ENABLED, &FILES);
    settle(&space);
    assert_eq!(first(&space, "duplicates of documents in another place").unwrap(), "it/backups.md");
    assert_eq!(first(&space, "recipe of a loaf").unwrap(), "kitchen/bread.md");
    let started = Instant::now();
    space.put("it/sky.md", "# Sky\n\nThe telescope shows planets, stars and galaxies far away.\n");
    assert!(vectors(&space).wait(space.space().vfs.last_seq(), Duration::from_secs(5)));
    assert_eq!(first(&space, "astronomy").unwrap(), "it/sky.md");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    space.get("rename", json!({ "from": "it/sky.md", "to": "night.md" }));
    settle(&space);
    assert_eq!(first(&space, "astronomy").unwrap(), "night.md");
    space.edit_behind("night.md", "# Night\n\nNothing to see.\n");
    space.get("delete", json!({ "path": "kitchen/bread.md" }));
    settle(&space);
    assert_ne!(first(&space, "astronomy planets telescope").unwrap(), "night.md");
    assert_ne!(first(&space, "recipe of a loaf").unwrap(), "kitchen/bread.md");
    assert_eq!(vectors(&space).index.status().pages, 4);
}

#[test]
fn changes_while_the_server_was_stopped_are_found() {
    let space = TestSpace::with(ENABLED, &FILES);
    settle(&space);
    #[expect(clippy::disallowed_methods, reason = "edits while the server is stopped")]
    let space = space.again_with(ENABLED, |root| {
        let text = "# Sky\n\nThe telescope shows planets, stars and galaxies far away.\n";
        std::fs::write(root.join("kitchen/bread.md"), text).unwrap();
        std::fs::remove_file(root.join("it/backups.md")).unwrap();
        std::fs::write(root.join("new.md"), BREAD).unwrap();
    });
    settle(&space);
    assert_eq!(first(&space, "astronomy").unwrap(), "kitchen/bread.md");
    assert_eq!(first(&space, "recipe of a loaf").unwrap(), "new.md");
    assert_eq!(vectors(&space).index.status().pages, 4);
    // The file is a cache.
    #[expect(clippy::disallowed_methods, reason = "vectors.db may be deleted")]
    let space = space.again_with(ENABLED, |root| std::fs::remove_file(root.join(".svc/state/vectors.db")).unwrap());
    settle(&space);
    assert_eq!(first(&space, "recipe of a loaf").unwrap(), "new.md");
}

#[test]
fn suggestions_are_similar_pages_without_links() {
    let space = TestSpace::with(ENABLED, &FILES);
    settle(&space);
    let answer = space.get("suggestions", json!({ "path": "sea/tides.md" }));
    assert_eq!(targets(&answer)[0], "sea/waves.md");
    assert!(answer["suggestions"][0]["snippet"].as_str().unwrap().contains("moon makes the tides"), "{answer}");
    assert!(answer["suggestions"][0]["similarity"].as_f64().unwrap() > 0.4, "{answer}");
    assert_eq!(targets(&space.get("suggestions", json!({ "path": "sea/tides.md", "limit": 1 }))).len(), 1);
    // Linked in one direction or the other.
    for (page, text) in
        [("sea/tides.md", format!("{TIDES}\nSee [[waves]].\n")), ("sea/waves.md", format!("{WAVES}\n[t](tides.md)\n"))]
    {
        space.put("sea/tides.md", TIDES);
        space.put("sea/waves.md", WAVES);
        space.put(page, &text);
        settle(&space);
        let answer = space.get("suggestions", json!({ "path": "sea/tides.md" }));
        assert!(!targets(&answer).contains(&"sea/waves.md"), "{page}: {answer}");
    }
    assert_eq!(space.refusal("suggestions", json!({ "path": "no.md" })).0, 404);
    assert_eq!(space.refusal("suggestions", json!({})).0, 400);
}

#[test]
fn a_key_of_a_folder_sees_vectors_of_its_folder_only() {
    let space = TestSpace::with(ENABLED, &FILES);
    space.put("sea/swell.md", "# Swell\n\nLong waves of the ocean come from storms far away on the sea.\n");
    space.put("sea.md", "# Sea\n\nWaves and tides of the sea.\n");
    settle(&space);
    let all = space.get("suggestions", json!({ "path": "sea/tides.md" }));
    assert!(targets(&all).contains(&"sea.md") && targets(&all).contains(&"it/backups.md"), "{all}");
    let limited = space.ask_as(&limited_to("sea"), "suggestions", json!({ "path": "sea/tides.md" })).unwrap();
    assert!(targets(&limited).iter().all(|target| target.starts_with("sea/")), "{limited}");
    assert_eq!(targets(&limited).len(), 2, "{limited}");
    for name in ["suggestions", "embeddings"] {
        let refused = status_and_error(space.ask_as(&limited_to("sea"), name, json!({ "path": "it/backups.md" })));
        assert_eq!(refused.0, 403, "{refused:?}");
        let missing = status_and_error(space.ask_as(&limited_to("sea"), name, json!({ "path": "sea/no.md" })));
        assert_eq!(missing.0, 404, "{missing:?}");
    }
}

#[test]
fn hidden_files_and_other_files_have_no_vectors() {
    let files = [(".hidden/a.md", TIDES), ("a.txt", TIDES), ("b.md", BREAD), (".svc/templates/x.md", TIDES)];
    let space = TestSpace::with(ENABLED, &files);
    settle(&space);
    space.edit_behind(".hidden/a.md", "The moon pulls at the water of the sea.\n");
    space.put("c.md", BACKUPS);
    settle(&space);
    let paths: Vec<String> = vectors(&space).index.paths().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["b.md", "c.md"]);
    assert_eq!(space.refusal("embeddings", json!({ "path": ".hidden/a.md" })).0, 404);
}

#[test]
fn embeddings_are_the_vectors_of_the_current_text() {
    let space = TestSpace::with(ENABLED, &FILES);
    settle(&space);
    let answer = space.get("embeddings", json!({ "path": "sea/tides.md" }));
    assert_eq!((&answer["path"], &answer["dimensions"]), (&json!("sea/tides.md"), &json!(256)));
    let chunks = answer["chunks"].as_array().unwrap();
    let texts: Vec<&str> = chunks.iter().map(|chunk| chunk["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Tides", "The sea rises and falls twice a day because the moon pulls at the water."]);
    let place = |name: &str| &chunks[1][name];
    assert_eq!((place("chunk_idx"), place("line_start"), place("line_end")), (&json!(1), &json!(3), &json!(3)));
    assert_eq!(place("heading"), "tides");
    let length: f64 = chunks[1]["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap().powi(2)).sum();
    assert!((length - 1.0).abs() < 0.02 && chunks[1]["vector"].as_array().unwrap().len() == 256);
    let (status, message) = space.refusal("embeddings", json!({ "path": "no.md" }));
    assert_eq!((status, message.as_str()), (404, "no embeddings found for path: no.md"));
    space.put("sea/tides.md", "# Tides\n\nAnother text.\n");
    let answer = space.get("embeddings", json!({ "path": "sea/tides.md" }));
    assert_eq!(answer["chunks"][1]["text"], "Tides: Another text.");
}

#[test]
fn hostile_pages_are_embedded_and_do_not_stop_the_others() {
    let big = "Some words of a sentence about the sea. ".repeat(250_000);
    let table = format!("| a | b |\n|---|---|\n{}", "| a cell | another cell |\n".repeat(5_000));
    let links = "- [[a link]]\n".repeat(5_000);
    let cjk = "海水每天两次上升和下降".repeat(2_000);
    let pages = [
        ("big.md", big.as_str()),
        ("table.md", &table),
        ("links.md", &links),
        ("cjk.md", &cjk),
        ("nul.md", "a\0b\0\n\nThe moon\0 pulls at the water of the sea."),
        ("crlf.md", "# A\r\n\r\nThe moon pulls at the water.\r\n"),
        ("empty.md", ""),
        ("frontmatter.md", "---\ntitle: [\n---\ntext\n"),
        ("z.md", BREAD),
    ];
    let space = TestSpace::with(ENABLED, &pages);
    settle(&space);
    assert_eq!(first(&space, "recipe of a loaf").unwrap(), "z.md");
    assert_eq!(vectors(&space).index.status().pages, 9);
}
