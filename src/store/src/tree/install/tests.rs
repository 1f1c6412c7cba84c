#![expect(clippy::disallowed_methods, reason = "edits behind the server are made as a person makes them")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::*;

fn tree() -> (tempfile::TempDir, WorkTree, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let tree = WorkTree::open(directory.path()).unwrap();
    let file = directory.path().join("a.md");
    fs::write(&file, "one").unwrap();
    (directory, tree, file)
}

fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn put(tree: &WorkTree, known: &[&str]) -> InstallResult {
    let path = at("a.md");
    let known: Vec<_> = known.iter().map(|text| ETag::from_content(text.as_bytes())).collect();
    let disk = DiskAttributes::default();
    tree.replace(
        &FileInstall { path: &path, content: b"two", kind: FileKind::Regular, attributes: disk },
        known[..].into(),
    )
    .unwrap()
}

/// What was replaced is let go of a moment later.
fn assert_nothing_left(directory: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while crate::preflight::leftover_temp_files(directory) != [] as [PathBuf; 0] {
        assert!(Instant::now() < deadline, "left over: {:?}", crate::preflight::leftover_temp_files(directory));
        std::thread::yield_now();
    }
}

#[test]
fn files_replaced_or_removed_by_thousands_are_deleted_on_close() {
    let (directory, tree, _) = tree();
    let paths: Vec<TreePath> = (0..1_000).map(|number| at(&format!("{number}.md"))).collect();
    let (kind, disk) = (FileKind::Regular, DiskAttributes::default());
    for (before, content) in [("", "one"), ("one", "two"), ("two", "three")] {
        for path in &paths {
            let install = FileInstall { path, content: content.as_bytes(), kind, attributes: disk };
            assert_eq!(
                tree.replace(&install, [ETag::from_content(before.as_bytes())][..].into()).unwrap(),
                InstallResult::Done
            );
        }
    }
    for path in &paths {
        assert_eq!(tree.remove_expected(path, [ETag::from_content(b"three")][..].into()).unwrap(), InstallResult::Done);
    }
    drop(tree);
    assert_eq!(crate::preflight::leftover_temp_files(directory.path()), [] as [PathBuf; 0]);
}

#[test]
fn a_known_file_is_replaced_and_any_other_stays() {
    let (directory, tree, file) = tree();
    assert_eq!(put(&tree, &["none", "three"]), InstallResult::ConflictingEdit);
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    assert_eq!(put(&tree, &["none", "one"]), InstallResult::Done);
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    assert_eq!(
        tree.remove_expected(&at("a.md"), [ETag::from_content(b"one")][..].into()).unwrap(),
        InstallResult::ConflictingEdit
    );
    assert_eq!(
        tree.remove_expected(&at("a.md"), [ETag::from_content(b"two")][..].into()).unwrap(),
        InstallResult::Done
    );
    assert!(!file.exists());
    assert!(tree.remove_expected(&at("a.md"), [][..].into()).is_err());
    assert_eq!(put(&tree, &[]), InstallResult::Done, "nothing is lost over nothing");
    assert_nothing_left(directory.path());
}

/// A program that has the file open goes on writing into the file that has the name.
#[test]
fn a_program_in_the_middle_of_writing_finds_its_file_in_place() {
    let (directory, tree, file) = tree();
    let mut open = fs::OpenOptions::new().write(true).truncate(true).open(&file).unwrap();
    assert_eq!(put(&tree, &["one"]), InstallResult::ConflictingEdit);
    open.write_all(b"by hand").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "by hand");
    assert_nothing_left(directory.path());
}

#[test]
fn two_constant_writers_of_one_file_never_lose_the_last_text() {
    let (directory, tree, file) = tree();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..400 {
                // Whatever became of it, nobody is kept from writing.
                let _ = put(&tree, &["one", "two"]);
            }
            is_over.store(true, Ordering::SeqCst);
        });
        let mut saves = 0;
        while !is_over.load(Ordering::SeqCst) {
            saves += 1;
            let text = format!("by hand {saves}");
            let beside = file.with_extension("new");
            fs::write(&beside, &text).unwrap();
            fs::rename(beside, &file).unwrap();
            // Not one of the contents that may be covered. What was looked at before it came has
            // its place for a moment, until it is given back.
            let deadline = Instant::now() + Duration::from_secs(20);
            while fs::read_to_string(&file).unwrap() != text {
                assert!(Instant::now() < deadline, "`{text}` is lost");
                std::thread::yield_now();
            }
            fs::write(&file, "one").unwrap();
        }
    });
    assert_nothing_left(directory.path());
}
