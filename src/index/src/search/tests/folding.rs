//! Words of thirty scripts, compared with what Python's `unicodedata` says of them.

use std::collections::BTreeMap;

use super::*;
use crate::AnswerLimit;

/// Script, text of a page, query, and 1 if it finds the page; written by `folding/pairs.py`.
const PAIRS: &str = include_str!("folding/pairs.tsv");

#[test]
fn words_are_found_in_the_forms_that_unicode_data_calls_equal() {
    let rows: Vec<[&str; 4]> =
        PAIRS.lines().map(|line| line.split('\t').collect::<Vec<_>>().try_into().unwrap()).collect();
    let mut paths: BTreeMap<&str, String> = BTreeMap::new();
    for (number, [_, text, ..]) in rows.iter().enumerate() {
        paths.entry(text).or_insert_with(|| format!("page{number}.md"));
    }
    let pages: Vec<(&str, &str)> = paths.iter().map(|(text, path)| (path.as_str(), *text)).collect();
    let space = Space::of(&pages);
    let mut differences = Vec::new();
    for [script, text, q, expected] in &rows {
        let query =
            SearchQuery { folder: Some(at(&paths[text])), limit: AnswerLimit::default(), ..SearchQuery::new(*q) };
        let hits = space.index.search(&query).unwrap().hits;
        if hits.is_empty() == (*expected == "1") {
            differences.push(format!("{script}: `{q}` in `{text}` should be {expected}"));
        } else if hits.iter().any(|hit| !hit.snippet.contains("<mark>")) {
            differences.push(format!("{script}: `{q}` is not marked in {}", hits[0].snippet));
        }
    }
    assert!(
        rows.len() >= 500 && differences.is_empty(),
        "{} of {}:\n{}",
        differences.len(),
        rows.len(),
        differences.join("\n")
    );
}

#[test]
fn a_version_is_found_by_its_number_and_by_its_beginning() {
    let space = Space::of(&[
        ("a.md", "released v1.2.3 today"),
        ("b.md", "needs Python3.12 and foo-v2.0"),
        ("c.md", "version 1.2.3 of it"),
        ("d.md", "sha256 of v1 and 3v2版"),
    ]);
    for (q, found) in [
        ("1.2.3", "a.md c.md"),
        ("v1.2.3", "a.md"),
        ("V1.2", "a.md"),
        ("v1", "a.md d.md"),
        ("v1*", "a.md d.md"),
        ("python", "b.md"),
        ("python3", "b.md"),
        ("3.12", "b.md"),
        ("foo-v2", "b.md"),
        ("foov2", "b.md"),
        ("2.0", "b.md"),
        ("sha256", "d.md"),
        ("2.3", "a.md c.md"),
    ] {
        let mut pages = space.found(q);
        pages.sort();
        assert_eq!(pages.join(" "), found, "{q}");
    }
}

#[test]
fn names_of_folders_and_fields_are_found_in_either_encoding() {
    let space = Space::of(&[("Re\u{301}union/か\u{3099}.md", "---\nprépa re\u{301}: Ｅｔe\u{301}\n---\nx")]);
    for q in ["path:Réunion/", "path:RÉUNION/が", "prépa-ré:été", "path:reunion"] {
        assert_eq!(space.found(q).len(), 1, "{q}");
    }
    assert!(space.found("path:reunion/か").is_empty());
}

#[test]
fn joined_and_separate_words_of_persian_find_each_other() {
    let space = Space::of(&[("a.md", "می\u{200C}خواهم"), ("b.md", "می خواهم"), ("c.md", "میخواهم")]);
    for (q, count) in [("می\u{200C}خواهم", 3), ("می خواهم", 2), ("میخواهم", 2)] {
        assert_eq!(space.found(q).len(), count, "{q}");
    }
}
