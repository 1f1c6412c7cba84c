//! The life of the file, and writes; questions have their tests beside them.
#![expect(clippy::disallowed_methods, reason = "tests damage the file on purpose")]

mod frontmatter;
mod metadata;
mod rebuild;

use std::path::PathBuf;

use svcfs_base::{ETag, Fault, Kind, Seq, Timestamp, TreePath};
use svcfs_text::links::LinkResolution;
use tempfile::TempDir;

use crate::{Index, IndexEntry, IndexError, SearchQuery};

/// An index in a directory of its own.
pub(crate) struct Space {
    pub(crate) index: Index,
    pub(crate) file: PathBuf,
    directory: TempDir,
}

impl Space {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("index.db");
        Self { index: Index::open(&file).unwrap(), file, directory }
    }
    /// An index of pages given as path and text.
    pub(crate) fn of(pages: &[(&str, &str)]) -> Self {
        let space = Self::new();
        space.put(pages);
        space
    }
    pub(crate) fn with_typed_links(self, keys: &[&str]) -> Self {
        let index = self.index.with_typed_links(keys.iter().map(|key| (*key).to_owned()).collect()).unwrap();
        Self { index, ..self }
    }
    pub(crate) fn with_link_resolution(self, resolution: LinkResolution) -> Self {
        Self { index: self.index.with_link_resolution(resolution), ..self }
    }
    pub(crate) fn put(&self, pages: &[(&str, &str)]) {
        self.put_entries(&pages.iter().map(|(path, text)| page(path, text)).collect::<Vec<_>>());
    }
    pub(crate) fn put_assets(&self, paths: &[&str]) {
        self.put_entries(&paths.iter().map(|path| IndexEntry::Asset(at(path))).collect::<Vec<_>>());
    }
    pub(crate) fn put_entries(&self, entries: &[IndexEntry]) {
        self.index.ingest(entries, self.index.cursor().unwrap().next()).unwrap();
    }
    pub(crate) fn remove(&self, path: &str) {
        self.index.ingest(&[IndexEntry::Deleted(at(path))], self.index.cursor().unwrap().next()).unwrap();
    }
    /// The paths that a search finds, best first.
    pub(crate) fn found(&self, q: &str) -> Vec<String> {
        let hits = self.index.search(&SearchQuery::new(q)).unwrap().hits;
        hits.into_iter().map(|hit| hit.path.to_string()).collect()
    }
    pub(crate) fn with_auto_indexes(self, at_most: usize) -> Self {
        let Self { index, file, directory } = self;
        Self { index: index.with_auto_indexes(at_most), file, directory }
    }
    pub(crate) fn reopen(self) -> Self {
        let Self { index, file, directory } = self;
        drop(index);
        Self { index: Index::open(&file).unwrap(), file, directory }
    }
}

pub(crate) fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

pub(crate) fn page(path: &str, text: &str) -> IndexEntry {
    IndexEntry::Page {
        path: at(path),
        etag: ETag::from_content(text.as_bytes()),
        text: text.to_owned(),
        modified: Timestamp::from_second(1_767_225_600).unwrap(),
    }
}

#[test]
fn a_new_index_is_empty_and_at_the_beginning_of_the_log() {
    let space = Space::new();
    assert_eq!(space.index.cursor().unwrap(), Seq(0));
    assert_eq!(space.index.page_count().unwrap(), 0);
    assert_eq!(space.found("anything"), [""; 0]);
}

#[test]
fn rows_and_cursor_survive_a_restart() {
    let space = Space::of(&[("a.md", "# Apples\n\nred")]);
    let before = space.index.fingerprint().unwrap();
    let space = space.reopen();
    assert_eq!(space.index.cursor().unwrap(), Seq(1));
    assert_eq!(space.index.fingerprint().unwrap(), before);
    assert_eq!(space.found("apple"), ["a.md"]);
}

#[test]
fn every_tag_is_listed_once_whatever_its_spelling() {
    let space = Space::of(&[
        ("a.md", "---\ntags: [sea, 2024, area/work]\n---\n"),
        ("b.md", "---\ntags: sea\n---\n"),
        ("c.md", "---\ntags: [[nested], null]\ntag: other\n---\n"),
        ("d.md", "no frontmatter"),
    ]);
    assert_eq!(space.index.tags().unwrap(), ["2024", "area/work", "sea"]);
    let by_page = space.index.tags_by_page().unwrap();
    let by_page: Vec<_> = by_page.iter().map(|(path, tags)| format!("{path}: {}", tags.join(" "))).collect();
    assert_eq!(by_page, ["a.md: sea 2024 area/work", "b.md: sea"]);
}

#[test]
fn a_file_of_another_version_gives_way_to_a_new_one() {
    let space = Space::of(&[("a.md", "apples")]);
    let connection = rusqlite::Connection::open(&space.file).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    let space = space.reopen();
    assert_eq!((space.index.cursor().unwrap(), space.index.page_count().unwrap()), (Seq(0), 0));
    space.put(&[("b.md", "pears")]);
    assert_eq!(space.found("pears"), ["b.md"]);
}

#[test]
fn an_incompletely_filled_index_is_replaced_by_a_new_one() {
    let Space { index, file, directory: _directory } = Space::new();
    let version = || -> i32 {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    let whole = version();
    let batches = [vec![page("a.md", "apples")], vec![page("b.md", "pears")]].into_iter().enumerate();
    let filled = index.ingest_all(
        batches.map(|(number, batch)| {
            if number == 1 {
                // What a process that ends here leaves behind.
                assert_ne!(version(), whole);
                std::fs::copy(&file, file.with_extension("left")).unwrap();
            }
            Ok::<_, std::convert::Infallible>(batch)
        }),
        Seq(3),
    );
    filled.unwrap();
    assert_eq!(version(), whole);
    let left = Index::open(&file.with_extension("left")).unwrap();
    assert_eq!((left.cursor().unwrap(), left.page_count().unwrap()), (Seq(0), 0));
    drop(index);
    let again = Index::open(&file).unwrap();
    assert_eq!((again.cursor().unwrap(), again.page_count().unwrap()), (Seq(3), 2));
}

/// What a question does that meets damage.
fn condemn(file: &std::path::Path) {
    let corrupt = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), None);
    crate::schema::mark_if_corrupt::<()>(file, Err(IndexError::Database(corrupt))).unwrap_err();
}

#[test]
fn an_index_condemned_while_it_was_filled_stays_condemned() {
    let space = Space::new();
    let batches = [vec![page("a.md", "apples")], vec![page("b.md", "pears")]].into_iter().enumerate();
    let filled = space.index.ingest_all(
        batches.map(|(number, batch)| {
            if number == 1 {
                condemn(&space.file);
            }
            Ok::<_, std::convert::Infallible>(batch)
        }),
        Seq(3),
    );
    filled.unwrap();
    let space = space.reopen();
    assert_eq!((space.index.cursor().unwrap(), space.index.page_count().unwrap()), (Seq(0), 0));
}

#[test]
fn an_index_condemned_before_it_is_filled_stays_condemned() {
    let space = Space::new();
    condemn(&space.file);
    let pages = [Ok::<_, std::convert::Infallible>(vec![page("a.md", "apples")])];
    space.index.ingest_all(pages.into_iter(), Seq(3)).unwrap();
    assert_eq!(space.found("apples"), ["a.md"]);
    let space = space.reopen();
    assert_eq!((space.index.cursor().unwrap(), space.index.page_count().unwrap()), (Seq(0), 0));
}

#[test]
fn pages_indexed_before_a_source_failure_stay_and_rest_is_added() {
    let space = Space::new();
    let failing = [Ok(vec![page("a.md", "apples")]), Err("the disk is gone")];
    assert!(matches!(space.index.ingest_all(failing.into_iter(), Seq(0)), Err(IndexError::Source(_))));
    let space = space.reopen();
    assert_eq!(space.found("apples"), ["a.md"]);
    let rest = [Ok::<_, std::convert::Infallible>(vec![page("b.md", "pears")])];
    space.index.ingest_all(rest.into_iter(), Seq(2)).unwrap();
    let space = space.reopen();
    assert_eq!((space.found("pears"), space.index.cursor().unwrap()), (vec!["b.md".to_owned()], Seq(2)));
}

#[test]
fn a_file_that_is_no_database_gives_way_to_a_new_one() {
    for damage in [&b"not a database at all, but long enough to be looked at as one".repeat(100)[..], b"short"] {
        let Space { index, file, directory: _directory } = Space::of(&[("a.md", "apples")]);
        drop(index);
        std::fs::write(&file, damage).unwrap();
        let index = Index::open(&file).unwrap();
        assert_eq!((index.cursor().unwrap(), index.page_count().unwrap()), (Seq(0), 0));
    }
}

#[test]
fn a_file_damaged_in_its_middle_gives_way_to_a_new_one() {
    let Space { index, file, directory: _directory } = Space::of(&[("a.md", "apples")]);
    drop(index);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4096..].fill(0xA5);
    std::fs::write(&file, bytes).unwrap();
    let index = Index::open(&file).unwrap();
    assert_eq!((index.cursor().unwrap(), index.page_count().unwrap()), (Seq(0), 0));
}

#[test]
fn a_directory_at_the_index_path_is_an_error_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let fault = Fault::from(Index::open(directory.path()).err().unwrap());
    assert_eq!((fault.kind(), fault.message()), (Kind::Unavailable, "search index not available"));
}

#[test]
fn caller_errors_are_distinguished_from_internal_errors() {
    let fault = Fault::from(IndexError::invalid("q", "is too long"));
    assert_eq!((fault.kind(), fault.message()), (Kind::Invalid, "`q`: is too long"));
    let fault = Fault::from(IndexError::Database(rusqlite::Error::QueryReturnedNoRows));
    assert_eq!((fault.kind(), fault.message()), (Kind::Unavailable, "search index not available"));
}

#[test]
fn only_pages_outside_dot_folders_are_indexed() {
    let space = Space::of(&[
        ("a.md", "word"),
        ("B.MD", "word"),
        ("a.txt", "word"),
        (".svc/rules.md", "word"),
        ("x/.hidden.md", "word"),
    ]);
    let paths: Vec<String> = space.index.paths(&TreePath::root()).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["B.MD", "a.md"]);
}

#[test]
fn paths_below_a_folder_do_not_take_in_its_namesakes() {
    let space = Space::of(&[("a/b.md", ""), ("a/c/d.md", ""), ("a-b.md", ""), ("a0.md", ""), ("ab/x.md", "")]);
    let below =
        |path| -> Vec<String> { space.index.paths(&at(path)).unwrap().iter().map(ToString::to_string).collect() };
    assert_eq!(below("a"), ["a/b.md", "a/c/d.md"]);
    assert_eq!(below("a/b.md"), ["a/b.md"]);
    assert_eq!(below("").len(), 5);
    assert_eq!(below("nowhere"), [""; 0]);
}

#[test]
fn a_page_is_stored_with_its_parsed_data() {
    let text = "---\nzeta: 1\nalpha: [x, {y: 2}]\n---\n# Héading One\n\nFirst words.\n\n## Two\n";
    let space = Space::of(&[("d/p.md", text)]);
    let row = space.index.page(&at("d/p.md")).unwrap().unwrap();
    assert_eq!((row.title.as_str(), row.excerpt.as_str()), ("Héading One", "First words."));
    assert_eq!(serde_json::to_string(&row.frontmatter).unwrap(), r#"{"zeta":1,"alpha":["x",{"y":2}]}"#);
    assert_eq!(row.headings.iter().map(|heading| heading.level).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(row.etag, ETag::from_content(text.as_bytes()));
    assert_eq!(row.modified.to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(space.index.page(&at("none.md")).unwrap(), None);
}

#[test]
fn words_removed_by_an_update_disappear_from_every_answer() {
    let space = Space::of(&[("a.md", "---\nstate: zirconium\n---\n# Xylophone\n\nquokka [[target]]\n")]);
    for word in ["zirconium", "xylophone", "quokka"] {
        assert_eq!(space.found(word), ["a.md"], "{word}");
    }
    space.put(&[("a.md", "nothing of it")]);
    for word in ["zirconium", "xylophone", "quokka", "xylo*", "title:xylophone"] {
        assert_eq!(space.found(word), [""; 0], "{word}");
    }
    assert!(space.index.suggest_spellings("quoka", None).unwrap().is_empty());
    assert!(space.index.links_out(&at("a.md")).unwrap().is_empty());
    assert_eq!(
        space.index.fingerprint().unwrap(),
        Space::of(&[("a.md", "nothing of it")]).index.fingerprint().unwrap()
    );
}

#[test]
fn a_removed_page_leaves_nothing_behind() {
    let space = Space::of(&[("a.md", "---\naliases: [other]\n---\n# Title\n\nquokka [[b]]\n")]);
    space.remove("a.md");
    space.remove("never.md");
    assert_eq!(space.found("quokka"), [""; 0]);
    assert_eq!(space.index.fingerprint().unwrap(), Space::new().index.fingerprint().unwrap());
}

#[test]
fn ingesting_again_changes_nothing() {
    let entries = [page("a.md", "one [[b]]"), page("b.md", "two"), IndexEntry::Deleted(at("c.md"))];
    let space = Space::new();
    space.index.ingest(&entries, Seq(3)).unwrap();
    let once = space.index.fingerprint().unwrap();
    space.index.ingest(&entries, Seq(3)).unwrap();
    assert_eq!(space.index.fingerprint().unwrap(), once);
    assert_eq!((space.index.cursor().unwrap(), space.index.page_count().unwrap()), (Seq(3), 2));
}

#[test]
fn a_page_written_and_removed_in_one_batch_is_absent() {
    let space = Space::new();
    let entries = [
        page("a.md", "one"),
        page("a.md", "two"),
        IndexEntry::Deleted(at("a.md")),
        page("b.md", "x"),
        page("b.md", "y"),
    ];
    space.index.ingest(&entries, Seq(9)).unwrap();
    assert_eq!((space.found("one"), space.found("two"), space.found("y")), (vec![], vec![], vec!["b.md".to_owned()]));
}

#[test]
fn the_file_does_not_grow_with_the_number_of_updates() {
    let text =
        |round: usize| (0..400).map(|word| format!("word{} ", (word * 7 + round * 131) % 5_000)).collect::<String>();
    let space = Space::new();
    let size = |space: &Space| {
        let connection = rusqlite::Connection::open(&space.file).unwrap();
        let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        pages * 4096
    };
    let update = |round: usize| {
        let texts: Vec<String> = (0..10).map(|page| text(round * 10 + page)).collect();
        let entries: Vec<IndexEntry> =
            texts.iter().enumerate().map(|(at, text)| page(&format!("p{at}.md"), text)).collect();
        space.index.ingest(&entries, Seq(round as u64)).unwrap();
    };
    (0..100).for_each(update);
    let after_100 = size(&space);
    (100..400).for_each(update);
    let after_400 = size(&space);
    assert!(after_400 < after_100 * 3 / 2, "{after_100} bytes after 100 rounds, {after_400} after 400");
    assert!(after_400 < 2 << 20, "{after_400} bytes for ten pages of 3 kB");
}

#[test]
fn hostile_pages_are_indexed_without_a_complaint() {
    let space = Space::of(&[
        ("nul.md", "before\0after"),
        ("marks.md", "\u{FDD0}fake\u{FDD1} mark"),
        ("yaml.md", "---\n: [}\n---\nbroken"),
        ("open.md", "---\nnever: closed\n"),
        ("brackets.md", &"[[".repeat(10_000)),
        ("long.md", &"x".repeat(1 << 20)),
        ("empty.md", ""),
        ("keys.md", "---\n\"a\\\"b\": 1\n\"\": 2\n\"\\u0000\": 3\n---\n"),
        ("'; DROP TABLE pages; --.md", "robert"),
    ]);
    assert_eq!(space.index.page_count().unwrap(), 9);
    assert_eq!(space.found("after"), ["nul.md"]);
    assert_eq!(space.found("robert"), ["'; DROP TABLE pages; --.md"]);
    let snippet = space.index.search(&SearchQuery::new("fake")).unwrap().hits.remove(0).snippet;
    assert_eq!(snippet, "\u{FDD0}<mark>fake</mark>\u{FDD1} mark");
    assert_eq!(space.index.fingerprint().unwrap().pages, 9);
}

#[test]
fn damage_met_by_a_question_is_healed_at_the_next_start() {
    let Space { index, file, directory } = Space::of(&[("a.md", "[[b]]"), ("b.md", "apples")]);
    drop(index);
    let connection = rusqlite::Connection::open(&file).unwrap();
    let root: usize = connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'links'", [], |row| row.get::<_, i64>(0))
        .unwrap()
        .try_into()
        .unwrap();
    drop(connection);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[(root - 1) * 4096..root * 4096].fill(0xA5);
    std::fs::write(&file, bytes).unwrap();
    let space = Space { index: Index::open(&file).unwrap(), file, directory };
    assert_eq!(space.found("apples"), ["b.md"]);
    let fault = Fault::from(space.index.backlinks(&at("b.md"), &TreePath::root(), 9).unwrap_err());
    assert_eq!((fault.kind(), fault.message()), (Kind::Unavailable, "search index not available"));
    let space = space.reopen();
    assert_eq!((space.index.cursor().unwrap(), space.index.page_count().unwrap()), (Seq(0), 0));
}

#[test]
fn pages_with_a_key_are_found_despite_large_frontmatter() {
    let many: String = (0..1_500).map(|at| format!("k{at}: some words of value {at}\n")).collect();
    let space = Space::of(&[
        ("all.md", &format!("---\n{many}contradicts: x\n---\n")),
        ("null.md", "---\ncontradicts:\n---\n"),
        ("other-case.md", "---\nContradicts: x\n---\n"),
        ("below.md", "---\na: {contradicts: x}\n---\n"),
        ("word.md", "---\ntitle: contradicts\n---\ncontradicts: x\n"),
        ("tagged.md", "---\ntags: x\n\"odd key!\": 1\n---\n"),
    ]);
    let having = |keys: &[&str]| -> Vec<String> {
        space.index.pages_with_keys(keys).unwrap().into_iter().map(|page| page.path.to_string()).collect()
    };
    assert_eq!(having(&["contradicts"]), ["all.md", "null.md"]);
    assert_eq!(having(&["contradicts", "k7"]), ["all.md", "null.md"]);
    assert_eq!(having(&["Contradicts"]), ["other-case.md"]);
    assert_eq!(having(&["tags"]), ["tagged.md"]);
    assert_eq!(having(&["odd key!", "k1"]), ["all.md", "tagged.md"]);
    assert_eq!(having(&["nothing"]), [""; 0]);
}
