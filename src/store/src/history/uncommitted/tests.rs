use std::fs;

use svcfs_base::Actor;

use super::super::tests::{Fixture, at, author, fixture, write};
use super::*;

/// A repository with one commit of `a.md`, and an index that git wrote.
fn committed() -> Fixture {
    let fixture = fixture();
    fixture.commit(None, &[write(&at("a.md"), "head\n")]);
    fixture.git(&["reset", "-q", "--hard"]);
    fixture
}

fn run(fixture: &Fixture, steps: &[&str]) {
    for step in steps {
        let words: Vec<_> = step.split(' ').collect();
        match words[..] {
            ["write", path, text] => fs::write(fixture.directory.path().join(path), format!("{text}\n")).unwrap(),
            ["delete", path] => fs::remove_file(fixture.directory.path().join(path)).unwrap(),
            _ => drop(fixture.git(&words)),
        }
    }
}

#[test]
fn each_state_of_a_file_is_told_apart() {
    use UncommittedKind::{Deleted, Modified, New};
    // Steps, and the kind with: staged, staged only, untracked.
    let cases: [(&[&str], &str, UncommittedKind, [bool; 3]); 11] = [
        (&["write b.md x"], "b.md", New, [false, false, true]),
        (&["write b.md x", "add b.md"], "b.md", New, [true, false, false]),
        (&["write b.md x", "add b.md", "write b.md y"], "b.md", New, [true, true, false]),
        (&["write b.md x", "add b.md", "delete b.md"], "b.md", Deleted, [true, true, false]),
        (&["write a.md x"], "a.md", Modified, [false, false, false]),
        (&["write a.md x", "add a.md"], "a.md", Modified, [true, false, false]),
        (&["write a.md x", "add a.md", "write a.md yy"], "a.md", Modified, [true, true, false]),
        (&["write a.md x", "add a.md", "write a.md head"], "a.md", Modified, [true, true, false]),
        (&["delete a.md"], "a.md", Deleted, [false, false, false]),
        (&["rm -q a.md"], "a.md", Deleted, [true, false, true]),
        (&["rm -q --cached a.md"], "a.md", Deleted, [true, true, true]),
    ];
    for (steps, path, kind, flags) in cases {
        let fixture = committed();
        run(&fixture, steps);
        let changes = UncommittedChanges::read(fixture.directory.path()).unwrap();
        let [file] = &changes.files[..] else { panic!("{steps:?}: {changes:?}") };
        assert_eq!((file.path.as_str(), file.kind), (path, kind), "{steps:?}");
        assert_eq!([file.is_staged, file.is_staged_only, file.is_untracked], flags, "{steps:?}");
        assert!(changes.has_repository && changes.branch.is_some() && changes.operation.is_none());
    }
}

#[test]
fn a_clean_tree_and_ignored_files_are_no_changes() {
    let fixture = committed();
    fs::write(fixture.directory.path().join(".git/info/exclude"), "*.log\n").unwrap();
    run(&fixture, &["write x.log x"]);
    assert_eq!(UncommittedChanges::read(fixture.directory.path()).unwrap().files.len(), 0);
}

#[test]
fn what_is_staged_is_committed_and_nothing_else() {
    let fixture = committed();
    run(
        &fixture,
        &["write a.md staged", "write b.md new", "add .", "write a.md later", "write c.md untracked", "add -N c.md"],
    );
    let before = fixture.git(&["ls-files", "--stage"]);
    let commit = fixture.history.commit_staged(&author(&Actor::new("eve"))).unwrap().unwrap();
    assert_eq!(fixture.git(&["rev-parse", "HEAD"]).trim(), commit.to_string());
    assert_eq!(fixture.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "a.md\nb.md\n");
    assert_eq!(fixture.git(&["show", "HEAD:a.md"]), "staged\n");
    assert_eq!(fixture.git(&["ls-files", "--stage"]), before);
    assert_eq!(fixture.git(&["diff", "--cached", "--name-only"]), "");
    assert_eq!(fixture.history.commit_staged(&author(&Actor::new("eve"))).unwrap(), None);
}

#[test]
fn a_directory_without_a_repository_has_new_files_only() {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("a.md", "a"),
        ("d/b.md", "bb"),
        (".gitignore", "*.log\n"),
        ("x.log", "x"),
        ("clone/.git/HEAD", "x"),
        ("clone/c.md", "c"),
    ] {
        let file = directory.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let changes = UncommittedChanges::read(directory.path()).unwrap();
    let paths: Vec<_> = changes.files.iter().map(|file| (file.path.as_str(), file.size, file.is_untracked)).collect();
    assert_eq!(paths, [(".gitignore", 6, true), ("a.md", 1, true), ("d/b.md", 2, true)]);
    assert!(!changes.has_repository && !directory.path().join(".git").exists());
}
