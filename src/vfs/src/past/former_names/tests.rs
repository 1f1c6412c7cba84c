#![expect(clippy::disallowed_methods, reason = "a person renames files in the root")]

use svcfs_base::{Change, ChangeSet, TreePath};

use crate::tests::{TestSpace, at, eve};
use crate::{ChangeFilter, NamePeriod};

const TEXT: &str = "one\ntwo\nthree\nfour\n";

fn names(space: &TestSpace, path: &str) -> Vec<NamePeriod> {
    space.vfs.names_of_page(&at(path), |_| true).unwrap()
}

fn rename(space: &TestSpace, from: &str, to: &str) {
    space.vfs.apply(&eve(), Change::rename(at(from), at(to))).unwrap();
}

/// The versions of a page, newest first: its text then, and its former path.
fn versions(space: &TestSpace, path: &str) -> Vec<(String, Option<String>)> {
    let names = names(space, path);
    let read = |version: crate::PageVersion| {
        let content = space.vfs.read_version_under(&names, &version.hash.to_string()).unwrap();
        (String::from_utf8(content.to_vec()).unwrap(), version.path.map(|path| path.to_string()))
    };
    space.vfs.versions_under(&names).unwrap().into_iter().map(read).collect()
}

fn version(text: &str, path: Option<&str>) -> (String, Option<String>) {
    (text.to_owned(), path.map(str::to_owned))
}

fn timeline(space: &TestSpace, path: &str) -> Vec<String> {
    let below = space.vfs.names_at_or_below(&at(path), |_| true).unwrap();
    let events = space.vfs.timeline(&ChangeFilter { below, ..ChangeFilter::default() }, 0, 100).unwrap().events;
    events.into_iter().map(|event| format!("{:?} {}", event.action, event.path)).collect()
}

/// Shows: HIST-3
#[test]
fn versions_are_followed_through_page_and_directory_renames() {
    let space = TestSpace::new();
    space.put("a.md", TEXT);
    rename(&space, "a.md", "dir/b.md");
    space.put("dir/b.md", "one\ntwo\nthree\n4\n");
    rename(&space, "dir", "moved");
    space.put("moved/b.md", "one\ntwo\n3\n4\n");
    // A new page under a former name is another page.
    space.put("a.md", "another\n");
    let expected = [
        version("one\ntwo\n3\n4\n", None),
        version("one\ntwo\nthree\n4\n", None),
        version("one\ntwo\nthree\n4\n", Some("dir/b.md")),
        version(TEXT, Some("dir/b.md")),
        version(TEXT, Some("a.md")),
    ];
    assert_eq!(versions(&space, "moved/b.md"), expected);
    let stored = space.vfs.stored_versions_under(&names(&space, "moved/b.md")).unwrap();
    let stored: Vec<_> = stored.iter().map(|version| (version.number, version.path.as_str())).collect();
    assert_eq!(stored, [(1, "a.md"), (2, "dir/b.md"), (3, "dir/b.md"), (4, "moved/b.md"), (5, "moved/b.md")]);
    assert_eq!(names(&space, "a.md"), [NamePeriod::always(at("a.md"))]);
    let below = ["Write moved/b.md", "Write moved/b.md", "Write dir/b.md", "Write dir/b.md", "Write a.md"];
    assert_eq!(timeline(&space, "moved/b.md"), below);
    assert_eq!(timeline(&space, "moved"), below[..4]);
    let hashes: Vec<_> = space.vfs.versions_under(&names(&space, "moved/b.md")).unwrap();
    let (newest, oldest) = (hashes[0].hash.to_string(), hashes[4].hash.to_string());
    let diff = space.vfs.diff(&names(&space, "moved/b.md"), &oldest, &newest).unwrap();
    assert!(diff.contains("-three\n-four\n+3\n+4\n"), "{diff}");
}

#[test]
fn a_page_of_a_large_directory_is_followed_whoever_renames_it() {
    let space = TestSpace::new();
    let page = |number: usize| format!("old/{number:03}.md");
    let changes = (0..150).map(|number| Change::put(at(&page(number)), format!("# Page {number}\n"))).collect();
    space.vfs.apply(&eve(), ChangeSet { changes, ..ChangeSet::from(Change::remove(at("x"))) }).unwrap();
    space.vfs.wait_applied().unwrap();
    rename(&space, "old", "new");
    space.vfs.wait_applied().unwrap();
    space.git(&["reset", "-q"]);
    space.git(&["mv", "new", "newer"]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=ann@x", "commit", "-qm", "moved"]);
    space.put("other.md", "after it\n");
    let text = "# Page 140\n";
    let expected = [version(text, None), version(text, Some("new/140.md")), version(text, Some("old/140.md"))];
    assert_eq!(versions(&space, "newer/140.md"), expected);
}

#[test]
fn the_changes_of_a_directory_are_followed_through_renames_by_others() {
    let space = TestSpace::new();
    for page in ["old/a.md", "old/sub/b.md", "other/a.md", "other/c.md"] {
        space.put(page, &format!("# {page}\n"));
    }
    space.vfs.wait_applied().unwrap();
    // A direct edit, then git, then svcfs.
    std::fs::rename(space.directory.path().join("old"), space.directory.path().join("edited")).unwrap();
    space.vfs.rescan().unwrap();
    space.put("edited/d.md", "new\n");
    space.vfs.wait_applied().unwrap();
    space.git(&["reset", "-q"]);
    space.git(&["mv", "edited", "git"]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=ann@x", "commit", "-qm", "moved"]);
    space.vfs.rescan().unwrap();
    space.put("git/a.md", "changed\n");
    rename(&space, "git", "new");
    let names = |path: &str| {
        let names = space.vfs.names_at_or_below(&at(path), |_| true).unwrap();
        names.into_iter().map(|name| name.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("new"), ["new", "git", "edited", "old"]);
    assert_eq!(names("new/sub"), ["new/sub", "git/sub", "edited/sub", "old/sub"]);
    assert!(timeline(&space, "new").ends_with(&["Write old/sub/b.md".to_owned(), "Write old/a.md".to_owned()]));
    // A page that leaves others behind does not bring the history of its directory.
    std::fs::create_dir(space.directory.path().join("one")).unwrap();
    std::fs::rename(space.directory.path().join("other/a.md"), space.directory.path().join("one/a.md")).unwrap();
    space.vfs.rescan().unwrap();
    assert_eq!(names("one"), ["one"]);
    assert_eq!(names("one/a.md"), ["one/a.md", "other/a.md"]);
}

#[test]
fn a_name_that_may_not_be_read_ends_the_history() {
    let space = TestSpace::new();
    space.put("secret/a.md", TEXT);
    rename(&space, "secret/a.md", "b.md");
    rename(&space, "b.md", "c.md");
    let is_open = |path: &TreePath| !path.as_str().starts_with("secret");
    let names = space.vfs.names_of_page(&at("c.md"), is_open).unwrap();
    assert_eq!(names.iter().map(|name| name.path.as_str()).collect::<Vec<_>>(), ["c.md", "b.md"]);
    assert_eq!(space.vfs.versions_under(&names).unwrap().len(), 2);
}

#[test]
fn a_page_created_again_keeps_its_earlier_versions_and_ends_elsewhere() {
    let space = TestSpace::new();
    space.put("a.md", "first\n");
    space.vfs.apply(&eve(), Change::remove(at("a.md"))).unwrap();
    space.put("b.md", TEXT);
    rename(&space, "b.md", "a.md");
    let expected = [version(TEXT, None), version(TEXT, Some("b.md"))];
    assert_eq!(versions(&space, "a.md"), expected, "what was renamed to the name has its own past");
    // The page that was renamed away has what it had, and its removal.
    assert_eq!(space.vfs.versions(&at("b.md")).unwrap().len(), 2);
    // There and back, twice.
    for _ in 0..2 {
        rename(&space, "a.md", "b.md");
        rename(&space, "b.md", "a.md");
    }
    assert_eq!(names(&space, "a.md").len(), 6);
    assert_eq!(versions(&space, "a.md").len(), 6);
}
