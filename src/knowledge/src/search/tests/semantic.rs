//! Search by meaning and words, and the questions with known answers.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svcfs_base::{Caller, Permissions, Protocol, Scope};

use super::super::semantic::SearchSemantic;
use super::paths;
use crate::kernel::OperationEntry;
use crate::spaces::test_space::{TestSpace, caller, path};
use crate::vectors::PageVectors;

const ENABLED: &str = "[search.vector]\nenabled = true\n";

const FILES: [(&str, &str); 5] = [
    ("sea/tides.md", "# Tides\n\nThe sea rises and falls twice a day because the moon pulls at the water.\n"),
    ("sea/waves.md", "# Waves\n\nWind makes waves on the water of the sea.\n"),
    ("it/backups.md", "# Backups\n\nA copy of all files is stored on another disk every night.\n"),
    ("it/keys.md", "---\nscope: team\n---\n# Keys\n\nRotate the signing keys twice a year & tell all.\n"),
    ("kitchen/bread.md", "# Bread\n\nKnead flour, water and salt, and bake the dough in a hot oven.\n"),
];

/// A space with these pages, all of them with vectors.
fn with_vectors(files: &[(&str, &str)]) -> TestSpace {
    let space = TestSpace::with(ENABLED, files);
    space.settle();
    let (vectors, started) = (PageVectors::of_space(space.space()).unwrap(), Instant::now());
    let pages = space.space().index.page_count().unwrap();
    while vectors.index.status().pages < pages || vectors.index.status().pending > 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", vectors.index.status());
        std::thread::yield_now();
    }
    space
}

#[test]
fn pages_are_found_by_meaning_and_by_words() {
    let space = with_vectors(&FILES);
    let found = space.get("search_semantic", json!({ "query": "recipe of a loaf" }));
    assert_eq!(found[0]["path"], "kitchen/bread.md");
    assert_eq!(found[0]["title"], "Bread");
    assert!(found[0]["snippet"].as_str().unwrap().contains("bake the dough"), "{found}");
    assert!((0.1..=1.0).contains(&found[0]["similarity"].as_f64().unwrap()), "{found}");
    let both = space.get("search_semantic", json!({ "query": "who rotates the signing keys" }));
    assert_eq!((&both[0]["path"], &both[0]["sources"]), (&json!("it/keys.md"), &json!(["fts", "vector"])));
    assert!(both[0]["snippet"].as_str().unwrap().contains("&amp; tell all"), "{both}");
    let meaning = space.get("search_semantic", json!({ "query": "who rotates the signing keys", "mode": "vector" }));
    assert!(meaning.as_array().unwrap().iter().all(|page| page["sources"] == json!(["vector"])), "{meaning}");
    // Both names, and pages one after the other.
    assert_eq!(space.get("search_semantic", json!({ "q": "recipe of a loaf" })), found);
    let two = space.get("search_semantic", json!({ "query": "recipe of a loaf", "topK": 2 }));
    assert_eq!(two.as_array().unwrap()[..], found.as_array().unwrap()[..2]);
    let second = space.get("search_semantic", json!({ "query": "recipe of a loaf", "limit": 1, "offset": 1 }));
    assert_eq!(second[0]["path"], found[1]["path"]);
}

#[test]
fn quotes_and_operators_search_words_only() {
    let space = with_vectors(&FILES);
    for query in ["\"signing keys\"", "keys OR zebra", "title:keys"] {
        let found = space.get("search_semantic", json!({ "query": query }));
        assert_eq!(paths(&found), ["it/keys.md"], "{query}");
        assert_eq!((&found[0]["sources"], &found[0]["similarity"]), (&json!(["fts"]), &json!(0.0)), "{query}");
    }
}

#[test]
fn results_are_limited_by_folder_scope_and_similarity() {
    let space = with_vectors(&FILES);
    let found = |mut arguments: Value| {
        arguments["query"] = json!("water of the sea");
        space.get("search_semantic", arguments)
    };
    assert_eq!(paths(&found(json!({ "path_prefix": "kitchen" }))), ["kitchen/bread.md"]);
    assert_eq!(paths(&found(json!({ "scope": "team" }))), ["it/keys.md"]);
    let similar = found(json!({ "threshold": 0.4 }));
    assert!(!paths(&similar).is_empty() && paths(&similar).len() < 5, "{similar}");
    assert!(similar.as_array().unwrap().iter().all(|page| page["similarity"].as_f64().unwrap() >= 0.4), "{similar}");
    let quoted = space.get("search_semantic", json!({ "query": "\"copy of all files\"", "threshold": 0.9 }));
    assert_eq!(paths(&quoted), ["it/backups.md"], "a threshold needs vectors, and quotes ask for words");
    let permissions = Permissions { scope: Scope::Read, folder: Some(path("it")) };
    let limited = Caller { permissions, ..caller() };
    let entry = OperationEntry::new::<SearchSemantic>();
    let answer = (entry.call)(json!({ "query": "water of the sea" }), &space.cx(&limited)).unwrap();
    assert!(paths(&answer).iter().all(|path| path.starts_with("it/")) && !paths(&answer).is_empty(), "{answer}");
    for (arguments, start) in [
        (json!({}), "query is required"),
        (json!({ "query": "" }), "query is required"),
        (json!({ "query": "a", "threshold": 2 }), "`threshold`: "),
        (json!({ "query": "a", "mode": "words" }), "`mode`: "),
        (json!({ "query": "x".repeat(5_000) }), "`query`: is 5000 bytes"),
    ] {
        let (status, message) = space.refusal("search_semantic", arguments.clone());
        assert!(status == 400 && message.starts_with(start), "{arguments}: {message}");
    }
}

#[test]
fn without_vectors_it_is_refused_and_recall_uses_words() {
    let space = TestSpace::with("", &FILES);
    space.settle();
    let (status, message) = space.refusal("search_semantic", json!({ "query": "tides" }));
    assert!(status == 503 && message.contains("search.vector.enabled = true"), "{message}");
    let answer = space.get("recall", json!({ "query": "signing keys" }));
    assert_eq!(answer["excerpts"][0]["path"], "it/keys.md");
    assert_eq!(answer["excerpts"][0]["sources"], json!(["fts"]));
}

#[test]
fn pages_by_meaning_follow_few_results_with_a_note() {
    let space = with_vectors(&FILES);
    let found = space.get("search", json!({ "q": "moon" }));
    assert_eq!(found[0]["path"], "sea/tides.md");
    assert!(found[0].get("note").is_none() && found.as_array().unwrap().len() <= 6, "{found}");
    let found = space.get("search", json!({ "q": "loaf" }));
    assert_eq!(found[0]["path"], "kitchen/bread.md", "{found}");
    assert!(found[0]["note"].as_str().unwrap().starts_with("found by meaning"), "{found}");
    for q in ["\"loaf\"", "loaf OR zebra", "zzzqqq"] {
        assert_eq!(space.get("search", json!({ "q": q })), json!([]), "{q}");
    }
    assert_eq!(paths(&space.get("search", json!({ "q": "sea", "path_prefix": "it" }))), [] as [&str; 0]);
}

#[test]
fn results_are_shown_to_agents_as_a_numbered_list() {
    let space = with_vectors(&FILES);
    let entry = OperationEntry::new::<SearchSemantic>();
    let caller = Caller::new(Protocol::Mcp);
    let answer = (entry.call_for_agent)(json!({ "query": "signing keys" }), &space.cx(&caller)).unwrap();
    let text = answer.text.unwrap();
    assert!(text.starts_with("1. it/keys.md (similarity: ") && text.contains("& tell all"), "{text}");
    let all = json!({ "query": "keys bread tides waves backups" });
    let answer = (entry.call_for_agent)(all, &space.cx(&caller)).unwrap();
    assert_eq!(answer.output.as_array().unwrap().len(), 5);
}

#[test]
fn recall_cites_the_passage_that_means_the_same() {
    let space = with_vectors(&FILES);
    let answer = space.get("recall", json!({ "query": "recipe of a loaf", "legs": ["vector"] }));
    assert_eq!(answer["excerpts"][0]["path"], "kitchen/bread.md");
    assert_eq!(
        (&answer["excerpts"][0]["heading"], &answer["excerpts"][0]["sources"]),
        (&json!("bread"), &json!(["vector"]))
    );
}

/// Mean reciprocal rank of words and of both for the questions of a file about the trees of the
/// repository, and the number of questions.
fn measure(file: &str) -> (f64, f64, usize) {
    let (mut fts, mut hybrid, mut count) = (0.0, 0.0, 0);
    for tree in ["handbook", "vault"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpora").join(tree);
        let mut files = Vec::new();
        read_pages(&folder, &folder, &mut files);
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let space = with_vectors(&files);
        let of_tree = file.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
        let asked = of_tree.filter(|columns| columns[0] == tree && !columns[2].is_empty());
        let queries: Vec<Value> = asked
            .map(|columns| json!({ "question": columns[1], "expected_paths": columns[2].split('|').collect::<Vec<_>>() }))
            .collect();
        let answer = space.get("eval", json!({ "queries": queries }));
        fts += answer["fts"]["mrr"].as_f64().unwrap() * queries.len() as f64;
        hybrid += answer["hybrid"]["mrr"].as_f64().unwrap() * queries.len() as f64;
        count += queries.len();
    }
    (fts / count as f64, hybrid / count as f64, count)
}

fn read_pages(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.is_dir() {
            read_pages(root, &file, files);
        } else if file.extension().is_some_and(|extension| extension == "md") {
            let name = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push((name, String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned()));
        }
    }
}

/// Mean reciprocal rank of both together, measured when this was written. An improvement of the
/// ranking records the new figure here.
const MEASURED: f64 = 0.704;

#[test]
fn both_together_answer_questions_as_well_as_measured() {
    let (fts, hybrid, count) = measure(include_str!("../../../../../tests/bench/src/quality/questions/test.tsv"));
    println!("{count} questions: words {fts:.3}, both {hybrid:.3}");
    assert!(hybrid > MEASURED - 0.02, "{hybrid:.3} is below {MEASURED} by 0.02 or more");
    assert!(hybrid >= fts + 0.02, "words alone: {fts:.3}, both: {hybrid:.3}");
}

#[test]
fn a_long_question_is_cut_and_a_huge_one_names_its_field() {
    let space = with_vectors(&FILES);
    let long = format!("who rotates the signing keys {}", "and so on ".repeat(60));
    for operation in ["search_semantic", "recall"] {
        let found = space.get(operation, json!({ "query": long }));
        assert!(found.to_string().contains("it/keys.md"), "{operation}: {found}");
        let (status, message) = space.refusal(operation, json!({ "query": "x".repeat(5_000) }));
        assert!(status == 400 && message.starts_with("`query`: is 5000 bytes long"), "{operation}: {message}");
        assert_eq!(space.refusal(operation, json!({ "query": " " })).0, 400);
    }
}
