use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use svcfs_base::Seq;
use svcfs_index::{Index, IndexEntry, MergeStep};
use svcfs_store::{StatePaths, UsageCounts};
use svcfs_work::{NextStep, StopToken, Task};

use super::{Indexer, check_index, reindex};
use crate::kernel::Space;
use crate::shares::ShareRegistry;
use crate::spaces::test_space::{TestSpace, path};

mod indexing;
mod model;
mod semantic;

fn paths(answer: &Value) -> Vec<&str> {
    answer.as_array().unwrap().iter().map(|found| found["path"].as_str().unwrap()).collect()
}

/// The same tree with an index of its own, so that a test makes the indexer's steps itself.
fn beside(space: &TestSpace, index: Index) -> Arc<Space> {
    let usage = UsageCounts::open(&space.root().join(".svc/state/beside.db")).unwrap();
    let settings = space.space().settings.clone();
    let vfs = Arc::clone(&space.space().vfs);
    let paths = StatePaths::new(&space.root().join("beside"));
    let shares = ShareRegistry::open(&paths, Arc::clone(&vfs)).unwrap();
    let views = crate::publishing::ViewCounts::open(&paths, Arc::clone(&vfs)).unwrap();
    Arc::new(Space::new("beside", vfs, (Arc::new(index), Seq(0)), (usage, shares, views), settings))
}

#[test]
fn written_text_is_found_immediately_and_removed_text_is_not() {
    let space = TestSpace::new();
    space.put("a.md", "# Alpha\n\nThe quick brown fox <b>.\n");
    let found = space.get("search", json!({ "q": "fox" }));
    assert_eq!(found[0]["title"], "Alpha");
    assert_eq!(found[0]["snippet"], "# Alpha The quick brown <mark>fox</mark> &lt;b&gt;.");
    assert!(found[0]["score"].as_f64().unwrap() > 0.0 && found[0].get("did_you_mean").is_none());
    space.put("a.md", "# Alpha\n\nA slow dog.\n");
    assert_eq!(space.get("search", json!({ "q": "fox" })), json!([]));
    assert_eq!(paths(&space.get("search", json!({ "q": "slow AND dogs" }))), ["a.md"]);
    space.get("rename", json!({ "from": "a.md", "to": "b/c.md" }));
    assert_eq!(paths(&space.get("search", json!({ "q": "dog" }))), ["b/c.md"]);
    assert_eq!(space.get("search", json!({ "q": "dog", "path_prefix": "a" })), json!([]));
    space.get("delete", json!({ "path": "b/c.md" }));
    assert_eq!(space.get("search", json!({ "q": "dog" })), json!([]));
}

#[test]
fn a_question_is_required_and_a_blank_one_finds_nothing() {
    let space = TestSpace::new();
    space.put("a.md", "a\n");
    for name in ["search", "search_verified"] {
        assert_eq!(space.refusal(name, json!({})), (400, "q is required".to_owned()));
        assert_eq!(space.refusal(name, json!({ "q": "" })), (400, "q is required".to_owned()));
        assert_eq!(space.get(name, json!({ "q": " * " })), json!([]));
    }
    // Also where something is found without it.
    for q in ["zzz", "a"] {
        let (status, message) = space.refusal("search", json!({ "q": q, "suggest_threshold": 2 }));
        assert!(status == 400 && message.starts_with("`suggest_threshold`: "), "{message}");
    }
}

#[test]
fn a_question_is_taken_under_either_of_its_names() {
    let space = TestSpace::new();
    space.put("a.md", "---\ntitle: A\n---\n\nfox\n");
    for name in ["search", "search_verified"] {
        assert_eq!(space.get(name, json!({ "query": "fox" })), space.get(name, json!({ "q": "fox" })), "{name}");
    }
    assert_eq!(paths(&space.get("query_meta", json!({ "filters": ["$.title=A"] }))), ["a.md"]);
    assert_eq!(space.refusal("search", json!({ "q": "fox", "query": "fox" })).0, 400);
}

#[test]
fn standing_matters_to_a_search_unless_it_is_switched_off() {
    let space = TestSpace::new();
    space.put("a.md", "---\nstatus: outdated\n---\n\ntoken token token\n");
    space.put("b.md", "---\nstatus: verified\n---\n\ntoken and other words\n");
    assert_eq!(paths(&space.get("search", json!({ "q": "token" }))), ["b.md", "a.md"]);
    for boost in ["none", "off"] {
        assert_eq!(paths(&space.get("search", json!({ "q": "token", "boost": boost }))), ["a.md", "b.md"], "{boost}");
    }
}

#[test]
fn search_results_are_returned_as_a_numbered_list() {
    let space = TestSpace::new();
    space.put("d/a.md", "---\ntitle: The fox\n---\n\nA quick fox.\n");
    let caller = svcfs_base::Caller::new(svcfs_base::Protocol::Mcp);
    let told = |arguments| {
        let entry = crate::kernel::OperationEntry::new::<super::operations::SearchPages>();
        (entry.call_for_agent)(arguments, &space.cx(&caller)).unwrap().text.unwrap()
    };
    let text = told(json!({ "query": "fox" }));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("1. d/a.md (score: ") && lines[1] == "   The fox", "{text}");
    assert!(lines[2].contains("fox") && !text.contains("<mark>"), "{text}");
    assert!(
        told(json!({ "query": "quik", "suggest_threshold": 0.5 }))
            .starts_with("No pages match; these pages match `quick`")
    );
    assert!(told(json!({ "query": "zebra" })).starts_with("No pages found"));
}

#[test]
fn pages_found_with_other_words_say_so() {
    let space = TestSpace::new();
    space.put("a.md", "How authentication works.\n");
    assert_eq!(space.get("search", json!({ "q": "autentication" })), json!([]));
    let some = space.get("search", json!({ "q": "autentication works" }));
    assert_eq!(some[0]["note"], "no page has all of the words; these have some of them");
    let found = space.get("search", json!({ "q": "autentication works", "suggest_threshold": 0.7 }));
    assert_eq!((paths(&found), &found[0]["did_you_mean"]), (vec!["a.md"], &json!("authentication works")));
    assert_eq!(space.get("search", json!({ "q": "qqqqqq", "suggest_threshold": 0.7 })), json!([]));
}

#[test]
fn a_malformed_query_is_answered_with_its_interpretation() {
    let space = TestSpace::new();
    space.put("a.md", "a quick fox\n");
    for name in ["search", "search_verified"] {
        let found = space.get(name, json!({ "q": "quick (fox" }));
        let note = found[0]["note"].as_str().unwrap();
        assert!(note.starts_with("the query was read as plain words: "), "{note}");
        assert!(space.get(name, json!({ "q": "quick fox" }))[0].get("note").is_none());
    }
    // Where nothing is found, no page carries the note.
    for name in ["search", "search_verified"] {
        let (found, remarks) = told(&space, name, json!({ "q": "(zebra" }));
        assert_eq!(found, json!([]));
        assert!(remarks.notes[0].starts_with("the query was read as plain words: "), "{remarks:?}");
    }
}

/// An answer, and what is said beside it.
fn told(space: &TestSpace, name: &str, arguments: Value) -> (Value, crate::kernel::ResponseMeta) {
    let caller = svcfs_base::Caller::new(svcfs_base::Protocol::Http);
    let cx = space.cx(&caller);
    let mut entries = crate::CATALOGUE.iter().flat_map(|area| area.operations);
    let answer = (entries.find(|entry| entry.name == name).unwrap().call)(arguments, &cx).unwrap();
    (answer, cx.response_meta())
}

/// Shows: IDX-2
#[test]
fn an_answer_of_an_index_that_is_behind_says_so() {
    let space = TestSpace::new();
    space.put("a.md", "fox\n");
    let told = |name: &str, arguments: Value| told(&space, name, arguments);
    assert_eq!(told("search", json!({ "q": "fox" })).1, crate::kernel::ResponseMeta::default());
    space.stop_indexing();
    space.put("b.md", "fox\n");
    // How old the answer is, is said between these.
    let is_note = |note: &str| {
        note.starts_with("the search index is ") && note.ends_with(" old and lacks one change, which is not included")
    };
    let (found, remarks) = told("search", json!({ "q": "fox" }));
    assert_eq!((paths(&found), found[0]["note"].as_str()), (vec!["a.md"], Some(&*remarks.notes[0])));
    assert!(remarks.notes.len() == 1 && is_note(&remarks.notes[0]), "{remarks:?}");
    let lines: Vec<String> = told("query", json!({ "q": "LIST" })).1.lines().collect();
    assert!(lines.len() == 1 && is_note(&lines[0]), "{lines:?}");
    assert!(is_note(&told("backlinks", json!({ "path": "a.md" })).1.notes[0]));
    assert!(space.space().index_lag().is_some_and(|note| is_note(&note)));
}

/// A client over HTTP with a connection of its own.
fn client(connection: u64) -> svcfs_base::Caller {
    let client = svcfs_base::Client { key: None, connection: Some(connection) };
    svcfs_base::Caller { client, ..crate::spaces::test_space::caller() }
}

/// Shows: IDX-1
#[test]
fn a_client_finds_its_own_writes_while_others_write() {
    let space = &TestSpace::new();
    let (mine, other) = (client(1), client(2));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut written = 0_u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let page =
                    json!({ "path": format!("flood/{}.md", written % 500), "content": format!("flood {written}\n") });
                space.ask_as(&other, "write", page).unwrap();
                written += 1;
            }
        });
        for number in 0..20 {
            let word = format!("unique{number}");
            space.ask_as(&mine, "write", json!({ "path": "mine.md", "content": word })).unwrap();
            let found = space.ask_as(&mine, "search", json!({ "q": word })).unwrap();
            assert_eq!(paths(&found), ["mine.md"], "{number}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        flood.join().unwrap();
    });
}

/// Shows: IDX-3
#[test]
fn with_async_index_off_a_write_is_answered_once_it_is_found() {
    let space = TestSpace::with("[search]\nasync_index = false\n", &[]);
    for number in 0..10 {
        let word = format!("unique{number}");
        let page = json!({ "path": format!("{number}.md"), "content": word });
        space.ask_as(&client(number), "write", page).unwrap();
        // Not asked through an operation, which would wait.
        let found = space.space().index.search(&svcfs_index::SearchQuery::new(word)).unwrap();
        assert_eq!(found.hits.len(), 1, "{number}");
    }
    space.stop_indexing();
    let caller = client(99);
    let cx = space.cx(&caller);
    let mut entries = crate::CATALOGUE.iter().flat_map(|area| area.operations);
    let entry = entries.find(|entry| entry.name == "write").unwrap();
    (entry.call)(json!({ "path": "late.md", "content": "late" }), &cx).unwrap();
    assert_eq!(cx.response_meta().notes, ["the change is stored, but not indexed yet"]);
}

#[test]
fn changes_that_keep_coming_are_taken_in_together() {
    let config = "[search]\nindex_window_ms = 60000\nindex_batch_max = 5\n";
    let space = TestSpace::with(config, &[]);
    let read = || space.space().index_watermark.level();
    space.put("first.md", "first\n");
    space.settle();
    let last = space.space().vfs.last_seq();
    for number in 0..4 {
        space.ask_as(&client(1), "write", json!({ "path": format!("{number}.md"), "content": "more" })).unwrap();
    }
    // Four wait for a fifth, or for the window to end.
    assert_eq!(read(), last.0);
    space.ask_as(&client(1), "write", json!({ "path": "fifth.md", "content": "more" })).unwrap();
    let full = space.space().vfs.last_seq();
    assert!(space.space().index_watermark.wait(full.0, Duration::from_secs(20)), "a full batch is taken in");
    // A search of the client that wrote does not wait for the window.
    space.ask_as(&client(1), "write", json!({ "path": "sixth.md", "content": "sixth" })).unwrap();
    assert_eq!(paths(&space.ask_as(&client(1), "search", json!({ "q": "sixth" })).unwrap()), ["sixth.md"]);
}

#[test]
fn a_page_named_by_dots_alone_is_counted_and_found() {
    let files = [
        ("common/..md", "# .\n\nsource a script\n"),
        ("...md", "script\n"),
        (".hidden.md", "script\n"),
        (".md", "script\n"),
    ];
    let space = TestSpace::with("", &files);
    space.put("later/..md", "another script\n");
    let found = space.get("search", json!({ "q": "script" }));
    let mut found = paths(&found);
    found.sort_unstable();
    assert_eq!(found, ["...md", "common/..md", "later/..md"]);
    assert_eq!(space.get("query", json!({ "q": "COUNT" }))["count"], 3);
    let tree = space.get("tree", json!({})).to_string();
    assert!(tree.contains("\"common/..md\"") && tree.contains("\"...md\"") && !tree.contains("hidden"), "{tree}");
    let progress = space.space().index_progress();
    assert_eq!((progress.complete, progress.behind), (true, 0));
    space.stop_indexing();
    space.put("a.md", "a\n");
    let progress = space.space().index_progress();
    assert_eq!((progress.complete, progress.behind), (false, 1));
}

#[test]
fn a_question_may_ask_for_an_index_that_has_read_a_change() {
    let space = TestSpace::new();
    space.put("a.md", "fox\n");
    let last = space.space().vfs.last_seq().0;
    for name in ["search", "search_verified"] {
        assert_eq!(paths(&space.get(name, json!({ "q": "fox", "at_least": last }))), ["a.md"]);
        let (status, message) = space.refusal(name, json!({ "q": "fox", "at_least": last + 1_000 }));
        assert!(
            status == 400 && message.starts_with("`at_least`: ") && message.contains("is not reached yet"),
            "{message}"
        );
        assert_eq!(space.refusal(name, json!({ "q": "fox", "at_least": -1 })).0, 400);
    }
    for (name, mut question) in [
        ("query", json!({ "q": "LIST" })),
        ("query_meta", json!({ "where": "$.title!=x" })),
        ("backlinks", json!({ "path": "a.md" })),
    ] {
        question["at_least"] = last.into();
        space.get(name, question.clone());
        question["at_least"] = (last + 1_000).into();
        let (status, message) = space.refusal(name, question);
        assert!(status == 400 && message.contains("is not reached yet"), "{name}: {message}");
    }
}

#[test]
fn an_index_that_does_not_get_there_is_no_answer() {
    let space = TestSpace::new();
    space.put("a.md", "fox\n");
    let folder = tempfile::tempdir().unwrap();
    // Nobody fills this one.
    let beside = beside(&space, Index::open(&folder.path().join("index.db")).unwrap());
    let caller = crate::spaces::test_space::caller();
    let cx = space.cx_of(&beside, &caller);
    let fault = cx.index_at_seq_within(Some(1), std::time::Duration::ZERO).map(drop).unwrap_err();
    assert_eq!((fault.kind(), fault.detail().get("retry_after")), (svcfs_base::Kind::Unavailable, Some(&json!(2))));
}

#[test]
fn a_space_without_a_full_text_index_searches_its_tree() {
    let space = TestSpace::with("[search]\nengine = \"grep\"\n", &[("a.md", "# A\n\nthe fox\n")]);
    space.put("b.md", "fox and fox\nfox\n");
    let found = space.get("search", json!({ "q": "fo[xy]" }));
    assert_eq!(paths(&found), ["a.md", "b.md"]);
    assert_eq!(
        found[1],
        json!({ "path": "b.md", "title": "b", "snippet": "<mark>fox</mark> and <mark>fox</mark>", "score": 2.0 })
    );
    for (name, arguments, what) in [
        ("search", json!({ "q": "fox", "suggest_threshold": 0.5 }), "`suggest_threshold`"),
        ("search_verified", json!({ "q": "fox" }), "search by trust"),
        ("eval", json!({ "queries": [{ "question": "fox", "expected_paths": ["a.md"] }] }), "an evaluation"),
    ] {
        let (status, message) = space.refusal(name, arguments);
        assert!(status == 501 && message.starts_with(what) && message.contains("search.engine"), "{message}");
    }
}

#[test]
fn search_is_measured_with_questions_of_ones_own() {
    let space = TestSpace::new();
    space.put("fox.md", "# Fox\n\nquick and brown\n");
    space.put("dog.md", "# Dog\n\nlazy, unlike a fox\n");
    let ask = |queries: Value| space.get("eval", json!({ "queries": queries }));
    let answer = ask(json!([
        { "question": "quick fox", "expected_paths": ["fox.md"] },
        { "question": "fox", "expected_paths": ["dog.md", "nowhere.md"] },
        { "question": "zebra", "expected_paths": ["fox.md"] },
    ]));
    let ranks: Vec<&Value> = answer["per_query"].as_array().unwrap().iter().map(|one| &one["fts_rank"]).collect();
    assert_eq!(ranks, [1, 2, 0]);
    assert_eq!(answer["fts"]["mrr"], 0.5);
    assert!((answer["fts"]["hit_rate"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9);
    assert!((answer["fts"]["precision_at_5"].as_f64().unwrap() - 2.0 / 15.0).abs() < 1e-9);
    let none = json!({ "hit_rate": null, "mrr": null, "precision_at_5": null, "ndcg": null, "p50_ms": null });
    assert_eq!((&answer["semantic"], &answer["hybrid"], &answer["k"]), (&none, &none, &json!(5)));
    assert_eq!(answer["per_query"][0]["semantic_rank"], Value::Null);
    let best = 1.0 + 1.0 / 3_f64.log2();
    let ndcg = (1.0 + 1.0 / 3_f64.log2() / best) / 3.0;
    assert!((answer["fts"]["ndcg"].as_f64().unwrap() - ndcg).abs() < 1e-9, "{answer}");
    assert!(answer["fts"]["p50_ms"].as_f64().unwrap() > 0.0);
    for (arguments, start) in [
        (json!({}), "queries is required"),
        (json!({ "queries": [] }), "`queries`: has 0 questions"),
        (
            json!({ "queries": vec![json!({ "question": "x", "expected_paths": ["a.md"] }); 1_001] }),
            "`queries`: has 1001",
        ),
        (json!({ "queries": [{ "question": " ", "expected_paths": ["a.md"] }] }), "`queries[0].question`: "),
        (json!({ "queries": [{ "question": "x", "expected_paths": [] }] }), "`queries[0].expected_paths`: "),
        (json!({ "queries": [{ "question": "x", "expected_paths": ["../a"] }] }), "`queries"),
        (
            json!({ "queries": [{ "question": "x".repeat(1 << 20), "expected_paths": ["a.md"] }] }),
            "`q`: is 1048576 bytes",
        ),
    ] {
        let (status, message) = space.refusal("eval", arguments);
        assert!(status == 400 && message.starts_with(start), "{message}");
    }
}

#[test]
fn verified_pages_rank_first_and_none_is_omitted() {
    let space = TestSpace::new();
    space.put("a.md", "---\nstatus: deprecated\n---\n\ntoken token token\n");
    space.put("b.md", "token\n");
    space.put("c.md", "---\nstatus: verified\nsource-of-truth: true\n---\n\ntoken and many other words around it\n");
    let found = space.get("search_verified", json!({ "q": "token" }));
    assert_eq!(paths(&found), ["c.md", "b.md", "a.md"]);
    assert_eq!(found[0]["trust"], json!({ "status": "verified", "source-of-truth": true }));
    assert_eq!(found[1]["trust"], json!({ "status": null, "source-of-truth": false }));
}

#[test]
fn frontmatter_is_compared_as_what_it_is() {
    let space = TestSpace::new();
    space.put("a.md", "---\ntitle: A\npriority: 10\ntags: [x, \"y, z\"]\n---\n");
    space.put("b.md", "---\ntitle: B\npriority: 9\nflag: true\n---\n");
    let ask = |arguments| space.get("query_meta", arguments);
    let found = ask(json!({ "where": "$.priority>=9", "sort": "$.priority" }));
    assert_eq!(paths(&found), ["b.md", "a.md"]);
    assert_eq!(
        found[0],
        json!({ "path": "b.md", "title": "B", "metadata": { "title": "B", "priority": 9, "flag": true } })
    );
    assert_eq!(
        paths(&ask(json!({ "where": "$.priority>=9", "sort": "$.priority", "order": "desc" }))),
        ["a.md", "b.md"]
    );
    assert_eq!(paths(&ask(json!({ "where": "$.tags[*]=y, z" }))), ["a.md"]);
    assert_eq!(paths(&ask(json!({ "where": ["$.priority<20", "$.flag=true"] }))), ["b.md"]);
    assert_eq!(paths(&ask(json!({ "where": "$.priority>0", "or": ["$.title=A", "$.title=C"] }))), ["a.md"]);
    assert_eq!(space.refusal("query_meta", json!({})), (400, "where is required".to_owned()));
    for (arguments, start) in [
        (json!({ "where": "priority=1" }), "`where`: "),
        (json!({ "where": "$.a=1", "sort": "a" }), "`sort`: "),
        (json!({ "where": "$.a=1", "order": "up" }), "`order`: "),
        (json!({ "where": 1 }), "`where`: "),
    ] {
        let (status, message) = space.refusal("query_meta", arguments);
        assert!(status == 400 && message.starts_with(start), "{message}");
    }
}
