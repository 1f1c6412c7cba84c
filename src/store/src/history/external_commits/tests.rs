#![expect(clippy::disallowed_methods, reason = "a person works in the tree")]

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::tests::{Fixture, at, fixture};
use super::*;

/// A commit by hand of everything that stands in the tree.
fn commit_all(fixture: &Fixture, message: &str) -> CommitId {
    fixture.git(&["add", "--all"]);
    fixture.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-qm", message]);
    fixture.history.head().unwrap().unwrap()
}

/// What stock git says that a commit changed: a letter and a path for each file.
fn of_git(fixture: &Fixture, commit: CommitId) -> Vec<String> {
    let hash = commit.to_string();
    let told =
        fixture.git(&["diff-tree", "-r", "--root", "--no-commit-id", "--no-renames", "--name-status", "-z", &hash]);
    let mut parts = told.split('\0').filter(|part| !part.is_empty());
    let mut lines = Vec::new();
    while let (Some(letter), Some(path)) = (parts.next(), parts.next()) {
        lines.push(format!("{} {path}", letter.replace('T', "M")));
    }
    lines.sort();
    lines
}

fn told(commit: &ForeignCommit) -> Vec<String> {
    let letter = |entry: &ForeignEntry| match (entry.old, entry.new) {
        (None, _) => "A",
        (Some(_), Some(_)) => "M",
        (Some(_), None) => "D",
    };
    let mut lines: Vec<_> = commit.entries.iter().map(|entry| format!("{} {}", letter(entry), entry.path)).collect();
    lines.sort();
    lines
}

#[test]
fn every_commit_changed_what_stock_git_says_it_changed() {
    let fixture = fixture();
    let root = fixture.directory.path();
    let put = |path: &str, text: &str| {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), text).unwrap();
    };
    let mut commits = Vec::new();
    for path in ["a", "b/c/d.md", "b/c.md", "b-c/e.md", "b.md", "z/z/z.md", "ä/ö.md"] {
        put(path, path);
    }
    commits.push(commit_all(&fixture, "a tree"));
    // A file gives way to a directory, a directory to a file, a name to one that sorts beside it.
    std::fs::remove_file(root.join("a")).unwrap();
    put("a/x.md", "x");
    put("a-b", "beside");
    std::fs::remove_dir_all(root.join("b/c")).unwrap();
    put("b/c", "was a directory");
    commits.push(commit_all(&fixture, "shapes"));
    std::fs::set_permissions(root.join("b.md"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::remove_file(root.join("b/c.md")).unwrap();
    symlink("../b.md", root.join("b/c.md")).unwrap();
    std::fs::remove_dir_all(root.join("z")).unwrap();
    commits.push(commit_all(&fixture, "kinds"));
    std::fs::rename(root.join("b-c"), root.join("c-b")).unwrap();
    put("ä/ö.md", "changed");
    commits.push(commit_all(&fixture, "\n names \n\nand a body\n\n"));
    assert_eq!(
        fixture.history.head_move(None, *commits.last().unwrap()).unwrap(),
        HeadMove::FastForward(commits.clone())
    );
    let between = fixture.history.external_commits(&commits).unwrap();
    for (foreign, commit) in between.iter().zip(commits) {
        assert_eq!(told(foreign), of_git(&fixture, commit), "{}", foreign.message);
        let order: Vec<_> = foreign.entries.iter().map(|entry| (entry.new.is_some(), entry.path.clone())).collect();
        assert!(order.is_sorted(), "{order:?}");
    }
    let kind = |path: &str| between[2].entries.iter().find(|entry| entry.path == at(path)).unwrap().kind;
    assert_eq!(
        (kind("b.md"), kind("b/c.md"), kind("z/z/z.md")),
        (FileKind::Executable, FileKind::Symlink, FileKind::Regular)
    );
    assert_eq!(between[3].message, "names\n\nand a body");
}

#[test]
fn submodules_and_non_utf8_names_are_omitted() {
    let fixture = fixture();
    std::fs::write(fixture.directory.path().join("a.md"), "a").unwrap();
    let first = commit_all(&fixture, "first");
    fixture.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{first},module")]);
    let blob = ETag::from_content(b"a").to_string();
    let name = std::ffi::OsStr::from_bytes(b"latin-\xe9.md");
    std::fs::write(fixture.directory.path().join(name), "a").unwrap();
    fixture.git(&["add", "--", "*.md"]);
    fixture.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},b.md")]);
    fixture.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-qm", "second"]);
    let second = fixture.history.head().unwrap().unwrap();
    assert_eq!(fixture.history.head_move(Some(first), second).unwrap(), HeadMove::FastForward(vec![second]));
    let between = fixture.history.external_commits(&[second]).unwrap();
    assert_eq!(told(&between[0]), ["A b.md"]);
}
