use super::super::tests::{Fixture, fixture, record};
use super::*;

fn at(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

/// A set that removes files, then writes others, each `path=content`.
fn set(seq: u64, removed: &[&str], written: &[&str]) -> LogRecord {
    let entry = |text: &&str| {
        let (path, content) = text.split_once('=').unwrap();
        record(seq, path, content.as_bytes()).entries.remove(0)
    };
    let removed = removed.iter().map(entry).map(|entry| LogEntry { old: entry.new, new: None, content: None, ..entry });
    let written = written.iter().map(entry).map(|entry| LogEntry { old: None, ..entry });
    LogRecord {
        diff_base: DiffBase::Parent,
        moves: Vec::new(),
        entries: removed.chain(written).collect(),
        ..record(seq, "-", b"")
    }
}

fn sources(log: &Log, path: &str, max: usize) -> (Option<String>, Vec<String>) {
    let creation = log.newest_creation(&at(path), Seq(u64::MAX)).unwrap().unwrap();
    let RenameSources { exact, others } = log.rename_sources(&at(path), creation, max).unwrap();
    (exact.map(|(path, _)| path.to_string()), others.into_iter().map(|(path, _)| path.to_string()).collect())
}

/// The same from the journal and from rows.
#[track_caller]
fn assert_sources(record: LogRecord, path: &str, (exact, others): (Option<&str>, &[&str])) {
    let Fixture { directory: _directory, log } = fixture();
    log.append(&[record]).unwrap();
    let expected = (exact.map(str::to_owned), others.iter().map(|path| (*path).to_owned()).collect());
    assert_eq!(sources(&log, path, 2), expected, "from the journal");
    log.first_times().unwrap();
    assert_eq!(sources(&log, path, 2), expected, "from rows");
}

#[test]
fn the_former_name_is_among_the_removed_files_of_the_set() {
    assert_sources(set(1, &["a.md=one"], &["b.md=one"]), "b.md", (Some("a.md"), &[]));
    assert_sources(set(1, &["a.md=one", "d/b.md=one"], &["b.md=one"]), "b.md", (Some("d/b.md"), &[]));
    assert_sources(set(1, &["a.md=1", "b/x.md=2", "c.md=3"], &["n/x.md=4"]), "n/x.md", (None, &["b/x.md", "a.md"]));
    assert_sources(set(1, &[], &["a.md=1", "b.md=1"]), "b.md", (None, &[]));
    let removed: Vec<_> = (0..100).map(|number| format!("old/{number}.md={number}")).collect();
    let removed: Vec<_> = removed.iter().map(String::as_str).collect();
    let many = set(1, &removed, &["new/99.md=99"]);
    assert_sources(many, "new/99.md", (Some("old/99.md"), &["old/0.md", "old/1.md"]));
    let moved = LogRecord { moves: vec![(at("old"), at("new"))], ..set(1, &["old/a.md=1", "z.md=2"], &["new/a.md=2"]) };
    assert_sources(moved, "new/a.md", (Some("old/a.md"), &[]));
}

#[test]
fn the_newest_creation_is_neither_an_edit_nor_a_merge() {
    let Fixture { directory: _directory, log } = fixture();
    let merge = LogRecord { diff_base: DiffBase::FirstParent, ..set(4, &[], &["a.md=four"]) };
    let edit = LogRecord {
        entries: vec![LogEntry {
            old: Some(ETag::from_content(b"one")),
            ..set(2, &[], &["a.md=two"]).entries.remove(0)
        }],
        ..set(2, &[], &["a.md=two"])
    };
    log.append(&[set(1, &[], &["a.md=one"]), edit, set(3, &[], &["b.md=b"]), merge]).unwrap();
    for _ in 0..2 {
        let creation =
            |path: &str, before| log.newest_creation(&at(path), Seq(before)).unwrap().map(|creation| creation.seq);
        assert_eq!(creation("a.md", 9), Some(Seq(1)));
        assert_eq!(creation("a.md", 1), None);
        assert_eq!(creation("none.md", 9), None);
        // The second round reads rows.
        log.first_times().unwrap();
    }
}

#[test]
fn a_directory_is_known_by_its_former_name_and_by_that_of_the_ones_above() {
    let Fixture { directory: _directory, log } = fixture();
    let moved = |seq, from: &str, to: &str| LogRecord { moves: vec![(at(from), at(to))], ..set(seq, &[], &["x.md=1"]) };
    log.append(&[moved(1, "a", "b"), moved(2, "b/sub", "b/under"), moved(3, "A_", "b_"), moved(4, "z", "%")]).unwrap();
    for _ in 0..2 {
        let former = |path: &str, before| {
            let rename = log.newest_directory_rename(&at(path), Seq(before)).unwrap();
            rename.map(|(seq, former)| format!("{seq} {former}"))
        };
        assert_eq!(former("b", 9).as_deref(), Some("1 a"));
        assert_eq!(former("b/under/deep", 9).as_deref(), Some("2 b/sub/deep"));
        assert_eq!(former("b/under/deep", 2).as_deref(), Some("1 a/under/deep"));
        assert_eq!(former("B", 9), None);
        assert_eq!(former("bx", 9), None);
        assert_eq!(former("b", 1), None);
        log.first_times().unwrap();
    }
}
