//! Authors of external edits, and files that were left untracked.

use std::path::Path;

use svcfs_store::{StatePaths, UntrackedFiles};

use super::*;
use crate::recovery::tests::crashed;

fn edit(root: &Path, path: &str, text: &str) {
    fs::write(root.join(path), text).unwrap();
}

fn name_person(root: &Path, name: &str) {
    for (key, value) in [("user.name", name), ("user.email", "ann@example.org")] {
        let status = Command::new("git").arg("-C").arg(root).args(["config", key, value]).status().unwrap();
        assert!(status.success());
    }
    // The settings of git are read again after a moment.
    std::thread::park_timeout(Duration::from_millis(50));
}

fn authors(space: &TestSpace) -> Vec<String> {
    let format = "--format=%an <%ae> %cn <%ce> %(trailers:key=Svc-Source,valueonly,separator=)";
    space.git(&["log", format]).lines().map(|line| line.trim().to_owned()).collect()
}

/// Shows: EDIT-1
#[test]
fn external_edits_have_the_author_that_git_names() {
    let space = TestSpace::new();
    edit(space.directory.path(), "a.md", "1");
    space.vfs.rescan().unwrap();
    name_person(space.directory.path(), "Ann Lee");
    edit(space.directory.path(), "a.md", "2");
    space.vfs.rescan().unwrap();
    edit(space.directory.path(), "a.md", "3");
    space.put("a.md", "4");
    let ann = "Ann Lee <ann@example.org> Ann Lee <svc@internal> direct-edit";
    let nameless = "fswatch <svc@internal> fswatch <svc@internal> direct-edit";
    assert_eq!(authors(&space), ["eve <svc@internal> eve <svc@internal>", ann, ann, nameless]);
    assert_eq!(space.log()[1], "Ann Lee|Ann Lee: a.md");
    let versions = space.vfs.versions(&at("a.md")).unwrap();
    assert_eq!(
        versions.iter().map(|version| version.author.as_str()).collect::<Vec<_>>(),
        ["eve", "Ann Lee", "Ann Lee", "fswatch"]
    );
}

/// Shows: EDIT-1
#[test]
fn recovery_rebuilds_an_edit_with_the_author_it_had() {
    let space = TestSpace::new();
    name_person(space.directory.path(), "Ann Lee");
    space.put("a.md", "1");
    let parent = space.git(&["rev-parse", "HEAD"]);
    edit(space.directory.path(), "a.md", "2");
    space.vfs.rescan().unwrap();
    let (head, branch) = (space.git(&["rev-parse", "HEAD"]), space.git(&["symbolic-ref", "HEAD"]));
    let copy = crashed(&space);
    name_person(copy.path(), "Bob");
    // As if the power had failed before the branch was written.
    edit(&copy.path().join(".git"), branch.trim(), &parent);
    fs::remove_dir_all(copy.path().join(".git/logs")).unwrap();
    let vfs = Vfs::open(options(copy.path(), false)).unwrap();
    let recovered = TestSpace { directory: copy, vfs };
    assert_eq!(recovered.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(authors(&recovered)[0], authors(&space)[0]);
}

/// Shows: ASYNC-4
#[test]
fn edits_and_writes_of_one_name_are_not_one_commit() {
    let space = TestSpace::gathering(Duration::from_secs(3600), 50);
    name_person(space.directory.path(), "eve");
    edit(space.directory.path(), "a.md", "edited");
    space.put("b.md", "1");
    space.put("a.md", "2");
    space.put("c.md", "3");
    space.vfs.wait_committed().unwrap();
    let (ours, theirs) =
        ("eve <svc@internal> eve <svc@internal>", "eve <ann@example.org> eve <svc@internal> direct-edit");
    let mut told = authors(&space);
    told.dedup();
    assert_eq!(told, [ours, theirs, ours]);
}

#[test]
fn a_file_left_untracked_is_versioned_when_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["edited.md", "written.md", "removed.md", "alone.md"];
    for name in names {
        edit(directory.path(), name, "before");
    }
    let paths = names.map(at);
    let stat = |path: &TreePath| fs::metadata(directory.path().join(path.as_str())).unwrap();
    let files = paths.iter().map(|path| (path, stat(path).len(), stat(path).modified().unwrap()));
    UntrackedFiles::record(&StatePaths::new(directory.path()), files).unwrap();
    edit(directory.path(), "other.md", "not listed");
    let vfs = Vfs::open(options(directory.path(), false)).unwrap();
    let mut space = TestSpace { directory, vfs };
    let walked = |space: &TestSpace| {
        let files = space.vfs.walk(Protocol::Internal, &TreePath::root()).unwrap();
        files.into_iter().map(|file| file.path.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (space.log(), walked(&space)),
        (vec!["fswatch|adopt 1 file found at setup".to_owned()], vec!["other.md".to_owned()])
    );
    space.reopen();
    assert_eq!((space.log().len(), walked(&space).len()), (1, 1));
    assert_eq!(space.text("alone.md"), "before");
    edit(space.directory.path(), "edited.md", "edited");
    assert_eq!(space.vfs.rescan().unwrap(), 1);
    space.put("written.md", "written");
    space.vfs.apply(&eve(), Change::remove(at("removed.md"))).unwrap();
    assert_eq!(
        space.log()[..5],
        [
            "eve|delete: removed.md",
            "fswatch|fswatch: removed.md",
            "eve|eve: written.md",
            "fswatch|fswatch: written.md",
            "fswatch|fswatch: edited.md"
        ]
    );
    assert_eq!(walked(&space), ["edited.md", "other.md", "written.md"]);
    space.wait_until("the index follows", |space| {
        space.git(&["status", "--porcelain", "--untracked-files=all"]).lines().last() == Some("?? alone.md")
    });
    // A person commits it.
    space.git(&["add", "alone.md"]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "mine"]);
    space.vfs.rescan().unwrap();
    assert_eq!(walked(&space), ["alone.md", "edited.md", "other.md", "written.md"]);
}
