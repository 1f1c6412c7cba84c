//! A flush that fails: what was written before it may be in memory only, although every later flush
//! succeeds.

use std::os::unix::fs::MetadataExt;

use svcfs_store::StatePaths;

use super::story::is_settled;
use super::*;

/// Files of the tree and packs of git, each by its inode: whoever writes one anew gives it another.
fn inodes(root: &Path) -> BTreeMap<String, u64> {
    let packs = fs::read_dir(root.join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let pages = ["a.md", "run", "link", "d/b.md"].into_iter().map(|path| root.join(path));
    let name = |file: &Path| file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    packs.chain(pages).map(|file| (name(&file), fs::symlink_metadata(&file).unwrap().ino())).collect()
}

/// A space whose disk refused a flush after some writes, and refuses still.
fn doubted() -> (TestSpace, FailPoints) {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    points.inject_error(FailPoint::CheckpointFlush, 5);
    space.put("a.md", "one");
    space.put("run", "#!/bin/sh\n");
    space.vfs.apply(&eve(), Change::symlink(at("link"), "a.md")).unwrap();
    space.put("c/b.md", "b");
    space.vfs.apply(&eve(), Change::rename(at("c"), at("d"))).unwrap();
    space.wait_until("a flush is refused", |space| space.vfs.health().is_err());
    (space, points)
}

fn assert_whole_and_settled(space: &TestSpace) {
    let mark = StatePaths::new(space.directory.path()).sync_failed_marker();
    space.wait_until("a flush is to be trusted", |space| is_settled(space) && !mark.exists());
    assert_eq!((space.text("a.md").as_str(), space.text("d/b.md").as_str()), ("one", "b"));
    space.git(&["fsck", "--strict"]);
}

/// Shows: FAIL-8
#[test]
fn data_before_a_failed_flush_is_rewritten_before_log_release() {
    let (space, points) = doubted();
    let root = space.directory.path();
    assert!(StatePaths::new(root).sync_failed_marker().exists(), "the next process would trust it");
    let before = inodes(root);
    // A person's edit is not covered by what the log has.
    fs::write(root.join("run"), "by hand").unwrap();
    points.clear(FailPoint::CheckpointFlush);
    assert_whole_and_settled(&space);
    let after = inodes(root);
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    let kept: Vec<_> = before.iter().filter(|(name, inode)| after[*name] == **inode).map(|(name, _)| name).collect();
    assert_eq!(kept, ["run"], "not written anew");
    assert_eq!(fs::read_to_string(root.join("run")).unwrap(), "by hand");
    assert_eq!(space.vfs.rescan().unwrap(), 1);
}

/// Shows: FAIL-8
#[test]
fn a_pack_that_a_failed_flush_lost_is_made_again_from_the_log() {
    let (space, points) = doubted();
    let files = fs::read_dir(space.directory.path().join(".git/objects/pack")).unwrap();
    for pack in files.map(|entry| entry.unwrap().path()).filter(|file| file.extension().unwrap() == "pack") {
        let bytes = fs::read(&pack).unwrap();
        fs::remove_file(&pack).unwrap();
        // What the disk has where the memory was let go of.
        fs::write(&pack, vec![0; bytes.len()]).unwrap();
    }
    points.clear(FailPoint::CheckpointFlush);
    assert_whole_and_settled(&space);
    assert_eq!((space.log().len(), space.vfs.rescan().unwrap()), (5, 0));
}

/// Shows: FAIL-8
#[test]
fn an_opening_after_a_failed_flush_trusts_no_unflushed_data() {
    let (space, points) = doubted();
    let copy = crashed(&space);
    points.clear(FailPoint::CheckpointFlush);
    let before = inodes(copy.path());
    let again = reopened(copy);
    let after = inodes(again.directory.path());
    let kept: Vec<_> = before.iter().filter(|(name, inode)| after.get(*name) == Some(inode)).collect();
    assert!(kept.is_empty(), "taken for flushed: {kept:?}");
    assert_whole_and_settled(&again);
}
