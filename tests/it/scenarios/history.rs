//! What became of a page is known under its new name too.

use super::played;
use crate::space::git;

#[test]
fn a_rename_keeps_history() {
    played("rename", |door, space| {
        door.write("a.md", b"# Page\n\none\ntwo\nthree\nfour\n").unwrap();
        door.write("a.md", b"# Page\n\none\ntwo\nthree\nfour\nfive\n").unwrap();
        door.rename("a.md", "b/c.md").unwrap();
        door.read("a.md").unwrap_err();
        door.write("b/c.md", b"# Page\n\none\ntwo\nthree\nfour\nfive\nsix\n").unwrap();
        space.settle();
        let followed = git::git(&space.root(), &["log", "--follow", "--format=%h", "--", "b/c.md"]);
        assert_eq!(followed.lines().count(), 4);
        assert_eq!(space.client().found("three"), ["b/c.md"]);
    });
}

#[test]
fn a_rename_there_and_back_leaves_the_page_as_it_was() {
    played("rename_and_back", |door, _| {
        door.write("a.md", b"# There\n").unwrap();
        door.rename("a.md", "b.md").unwrap();
        door.rename("b.md", "a.md").unwrap();
        assert_eq!(door.read("a.md").unwrap(), b"# There\n");
        assert_eq!(door.list("").unwrap(), ["a.md"]);
    });
}

#[test]
fn renaming_what_is_not_there_changes_nothing() {
    played("rename_nothing", |door, _| {
        door.write("here.md", b"# Here\n").unwrap();
        door.rename("nowhere.md", "somewhere.md").unwrap_err();
        assert_eq!(door.list("").unwrap(), ["here.md"]);
    });
}
