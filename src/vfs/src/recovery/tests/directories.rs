//! Crashes after directories were renamed, or replaced by files and the reverse.

use super::*;

#[test]
fn a_file_that_gave_way_to_a_directory_survives_a_crash() {
    let space = settled_space();
    space.put("x", "file");
    space.vfs.apply(&eve(), Change::remove(at("x"))).unwrap();
    space.put("x/y.md", "below");
    let again = reopened(crashed(&space));
    assert_eq!(again.text("x/y.md"), "below");
    assert_eq!(again.log(), space.log());
    let copy = crashed(&space);
    remove_tree(copy.path());
    fs::write(copy.path().join("x"), "file").unwrap();
    fs::write(copy.path().join("first.md"), "first").unwrap();
    let again = reopened(copy);
    assert_eq!(again.text("x/y.md"), "below");
    assert_eq!(again.log(), space.log());
}

#[test]
fn a_directory_that_gave_way_to_a_file_survives_a_crash() {
    let space = settled_space();
    space.put("x/y.md", "below");
    space.vfs.apply(&eve(), Change::remove(at("x/y.md"))).unwrap();
    space.vfs.apply(&eve(), Change::RemoveDir { path: at("x") }).unwrap();
    space.put("x", "file");
    let copy = crashed(&space);
    fs::remove_file(copy.path().join("x")).unwrap();
    fs::create_dir(copy.path().join("x")).unwrap();
    fs::write(copy.path().join("x/y.md"), "below").unwrap();
    let again = reopened(copy);
    assert_eq!(again.text("x"), "file");
    assert_eq!(again.log(), space.log());
}

#[test]
fn renames_of_directories_are_not_done_twice_after_a_crash() {
    let space = settled_space();
    space.put("d/a.md", "one");
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    space.vfs.apply(&eve(), Change::rename(at("e"), at("f"))).unwrap();
    space.put("d/new.md", "another");
    let again = reopened(crashed(&space));
    assert_eq!(again.log(), space.log());
    assert_eq!(again.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "d/new.md\nf/a.md\nfirst.md\n");
    assert!(!again.directory.path().join("e").exists());
}

#[test]
fn a_file_with_the_old_name_of_a_directory_survives_a_crash() {
    let space = settled_space();
    space.put("d/a.md", "one");
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    space.put("d", "a file now");
    let again = reopened(crashed(&space));
    assert_eq!((again.text("d").as_str(), again.text("e/a.md").as_str()), ("a file now", "one"));
    assert_eq!(again.log(), space.log());
}

#[test]
fn an_unflushed_directory_rename_is_replayed() {
    let space = settled_space();
    space.put("d/a.md", "one");
    space.put("d/a.md~", "scratch");
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    let copy = crashed(&space);
    fs::rename(copy.path().join("e"), copy.path().join("d")).unwrap();
    let again = reopened(copy);
    assert_eq!((again.text("e/a.md").as_str(), again.text("e/a.md~").as_str()), ("one", "scratch"));
    assert!(!again.directory.path().join("d").exists());
    assert_eq!(again.log(), space.log());
}
