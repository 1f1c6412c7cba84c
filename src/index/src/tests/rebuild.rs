//! Rebuilds, and the fingerprints that prove them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use svcfs_base::{Seq, TreePath};

use super::{Space, at, page};
use crate::{IndexDivergence, IndexEntry, IndexError, PageDifference, SearchQuery};

fn handed(pages: &[(&str, &str)]) -> impl Iterator<Item = Result<IndexEntry, Infallible>> {
    pages.iter().map(|(path, text)| Ok(page(path, text)))
}

#[test]
fn a_rebuild_equals_what_grew_page_by_page() {
    let pages = [("a.md", "# A\n\nsee [[b]] and [c](d/c.md)"), ("b.md", "bees"), ("d/c.md", "---\nn: 1\n---\nsea")];
    let space = Space::of(&[("b.md", "other"), ("gone.md", "x"), ("a.md", "older")]);
    pages.iter().rev().for_each(|page| space.put(&[*page]));
    space.remove("gone.md");
    let grown = space.index.fingerprint().unwrap();
    let mut told = Vec::new();
    space.index.rebuild(handed(&pages), Seq(7), |done| told.push(done)).unwrap();
    let rebuilt = space.index.fingerprint().unwrap();
    assert_eq!(rebuilt.differences(&grown), []);
    assert_eq!(rebuilt, grown);
    assert_eq!((space.index.cursor().unwrap(), told), (Seq(7), vec![3]));
    assert_eq!((rebuilt.pages, rebuilt.links), (3, 2));
}

#[test]
fn a_fingerprint_says_which_pages_differ() {
    let before = Space::of(&[("a.md", "1"), ("b.md", "2"), ("c.md", "3")]).index.fingerprint().unwrap();
    let after = Space::of(&[("a.md", "1"), ("b.md", "two"), ("d.md", "4")]).index.fingerprint().unwrap();
    let expected =
        [("b.md", IndexDivergence::Changed), ("c.md", IndexDivergence::Missing), ("d.md", IndexDivergence::Added)]
            .map(|(path, divergence)| PageDifference { path: at(path), divergence });
    assert_eq!(before.differences(&after), expected);
    assert_ne!(before, after);
}

#[test]
fn a_fingerprint_notices_rows_changed_behind_our_back() {
    let space = Space::of(&[("a.md", "apples [[b]]"), ("b.md", "pears")]);
    let before = space.index.fingerprint().unwrap();
    let connection = rusqlite::Connection::open(&space.file).unwrap();
    connection.execute("UPDATE links SET target = 'c'", []).unwrap();
    let after = space.index.fingerprint().unwrap();
    assert_eq!(before.differences(&after).len(), 1);
    connection.execute("UPDATE bodies SET body = 'plums' WHERE page = 2", []).unwrap();
    let after = space.index.fingerprint().unwrap();
    assert_eq!((before.differences(&after).len(), before.postings == after.postings), (2, true));
    connection.execute("DELETE FROM texts WHERE rowid = 1", []).unwrap();
    let damaged = space.index.fingerprint().unwrap();
    assert!(before.damage.is_none() && damaged.postings != after.postings && damaged.digest != after.digest);
}

#[test]
fn an_index_missing_suggestion_words_differs_from_a_fresh_one() {
    let space = Space::of(&[("a.md", "apples pears"), ("b.md", "plums")]);
    let whole = space.index.fingerprint().unwrap();
    let fresh = Space::of(&[("a.md", "apples pears")]).index.fingerprint().unwrap();
    assert!(whole.is_equivalent_to(&whole) && !whole.is_equivalent_to(&fresh), "another page");
    let connection = rusqlite::Connection::open(&space.file).unwrap();
    connection.execute("INSERT INTO spellings VALUES ('zebras')", []).unwrap();
    assert!(space.index.fingerprint().unwrap().is_equivalent_to(&whole), "what left its last page is not offered");
    connection.execute("DELETE FROM spellings WHERE word LIKE 'pear%'", []).unwrap();
    assert!(!space.index.fingerprint().unwrap().is_equivalent_to(&whole));
}

#[test]
fn a_rebuild_that_cannot_read_a_page_leaves_the_old_index() {
    let space = Space::of(&[("a.md", "apples")]);
    let before = space.index.fingerprint().unwrap();
    let pages = [Ok(page("b.md", "pears")), Err("the disk said no")];
    let error = space.index.rebuild(pages.into_iter(), Seq(5), |_| {}).unwrap_err();
    assert!(matches!(error, IndexError::Source(_)), "{error}");
    assert_eq!((space.index.fingerprint().unwrap(), space.index.cursor().unwrap()), (before, Seq(1)));
    space.put(&[("c.md", "plums")]);
    assert_eq!(space.found("plums"), ["c.md"]);
}

#[test]
fn a_rebuild_cut_off_by_a_crash_is_removed_at_the_next_start() {
    let space = Space::of(&[("a.md", "apples")]);
    let connection = rusqlite::Connection::open(&space.file).unwrap();
    crate::schema::create(&connection, crate::schema::TableSet::Next).unwrap();
    drop(connection);
    let space = space.reopen();
    let connection = rusqlite::Connection::open(&space.file).unwrap();
    let left: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name LIKE '%\\_next%' ESCAPE '\\'", [], |row| row.get(0))
        .unwrap();
    assert_eq!((left, space.found("apples")), (0, vec!["a.md".to_owned()]));
}

#[test]
fn pages_ingested_during_a_rebuild_are_found_during_and_after() {
    let space = Space::of(&[("old.md", "apples"), ("late.md", "stale"), ("gone.md", "ghost")]);
    let pages = [page("old.md", "apples"), page("late.md", "stale"), page("gone.md", "ghost")];
    let handed = pages.into_iter().enumerate().map(|(at, entry)| {
        if at == 1 {
            space.put(&[("late.md", "fresh"), ("new.md", "pears")]);
            space.remove("gone.md");
            assert_eq!((space.found("fresh"), space.found("ghost")), (vec!["late.md".to_owned()], vec![]));
        }
        Ok::<_, Infallible>(entry)
    });
    space.index.rebuild(handed, Seq(1), |_| {}).unwrap();
    assert_eq!((space.found("fresh"), space.found("pears")), (vec!["late.md".to_owned()], vec!["new.md".to_owned()]));
    assert_eq!((space.found("stale"), space.found("ghost")), (vec![], vec![]));
    assert_eq!((space.index.cursor().unwrap(), space.index.page_count().unwrap()), (Seq(3), 3));
}

#[test]
fn questions_are_answered_throughout_a_rebuild() {
    let texts: Vec<(String, String)> = (0..2_000)
        .map(|at| (format!("d{}/p{at}.md", at % 20), format!("# Page {at}\n\ncommon word [[p{}]]", at / 2)))
        .collect();
    let entries = || texts.iter().map(|(path, text)| page(path, text));
    let space = Space::new();
    space.index.ingest(&entries().collect::<Vec<_>>(), Seq(1)).unwrap();
    let done = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !done.load(Ordering::Acquire) {
                let hits = space.index.search(&SearchQuery::new("common word")).unwrap().hits;
                assert_eq!((hits.len(), space.index.page_count().unwrap()), (50, 2_000));
                assert_eq!(space.index.backlinks(&at("d3/p3.md"), &TreePath::root(), 9).unwrap().1, 2);
                asked += 1;
            }
            asked
        });
        for round in 0..3 {
            space.index.rebuild(entries().map(Ok::<_, Infallible>), Seq(1 + round), |_| {}).unwrap();
        }
        done.store(true, Ordering::Release);
        asking.join().unwrap()
    });
    assert!(asked > 0);
    assert_eq!(space.index.cursor().unwrap(), Seq(3));
}

#[test]
fn rebuilds_do_not_make_the_file_grow() {
    let texts: Vec<String> =
        (0..500).map(|at| format!("# Page {at}\n\n{}", format!("word{at} ").repeat(100))).collect();
    let entries: Vec<IndexEntry> =
        texts.iter().enumerate().map(|(at, text)| page(&format!("p{at}.md"), text)).collect();
    let space = Space::new();
    let rebuild = || {
        space.index.rebuild(entries.iter().cloned().map(Ok::<_, Infallible>), Seq(1), |_| {}).unwrap();
        std::fs::metadata(&space.file).unwrap().len()
    };
    let once = rebuild();
    (0..4).for_each(|_| _ = rebuild());
    let often = rebuild();
    assert!(often <= once * 11 / 10, "{once} bytes after one rebuild, {often} after six");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn after_any_changes_the_index_equals_one_built_in_one_pass(
        steps in prop::collection::vec((0..6_usize, prop::option::weighted(0.8, "(---\\n[ab]: [12]\\n---\\n)?(# [xyz]\\n)?([a-e\u{e9}]{1,3} |\\[\\[[p0-5/]{1,4}\\]\\] ){0,8}")), 0..40),
    ) {
        let space = Space::new();
        let mut tree = std::collections::BTreeMap::new();
        for (number, text) in steps {
            let path = format!("{}p{number}.md", "d/".repeat(number % 3));
            match text {
                Some(text) => {
                    space.put(&[(&path, &text)]);
                    tree.insert(path, text);
                }
                None => {
                    space.remove(&path);
                    tree.remove(&path);
                }
            }
        }
        let grown = space.index.fingerprint().unwrap();
        let pages: Vec<(&str, &str)> = tree.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        space.index.rebuild(handed(&pages), Seq(1), |_| {}).unwrap();
        let rebuilt = space.index.fingerprint().unwrap();
        prop_assert_eq!(grown.differences(&rebuilt), []);
        prop_assert_eq!(grown, rebuilt);
    }
}

#[test]
fn a_tree_indexed_by_two_threads_equals_sequential_indexing() {
    let texts: Vec<(String, String)> = (0..50)
        .map(|n| (format!("{}/{n}.md", n % 7), format!("# Page {n}\n\nsee [[{}]] in words_{n}\n", n / 2)))
        .collect();
    let pages: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (one, many) = (Space::new(), Space::new());
    pages.iter().for_each(|page| one.put(&[*page]));
    let batches = pages.chunks(9).map(|batch| handed(batch).collect::<Result<Vec<_>, _>>());
    many.index.ingest_all(batches, Seq(50)).unwrap();
    assert_eq!(many.index.fingerprint().unwrap(), one.index.fingerprint().unwrap());
    assert_eq!(many.index.cursor().unwrap(), Seq(50));
}

#[test]
fn what_was_taken_in_before_a_tree_could_not_be_read_stays() {
    let space = Space::new();
    let batches = [Ok(vec![page("a.md", "word")]), Err(std::io::Error::other("gone")), Ok(vec![page("b.md", "word")])];
    let error = space.index.ingest_all(batches.into_iter(), Seq(3)).unwrap_err();
    assert!(matches!(error, IndexError::Source(_)), "{error}");
    assert_eq!(space.found("word"), ["a.md"]);
}
