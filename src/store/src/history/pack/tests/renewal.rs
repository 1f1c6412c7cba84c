//! Packs written anew after a flush that failed.

use std::collections::BTreeMap;

use svcfs_base::Timestamp;

use super::*;

fn inodes(fixture: &Fixture) -> BTreeMap<PathBuf, u64> {
    fixture.packs().into_iter().map(|file| (file.clone(), fs::metadata(file).unwrap().ino())).collect()
}

/// What was kept of damaged files.
fn kept(fixture: &Fixture) -> usize {
    fs::read_dir(fixture.directory.path().join(".git/damaged")).map_or(0, Iterator::count)
}

/// What is done with a file in the place of which the disk says something else than its bytes.
fn while_unreadable(fixture: &Fixture, file: &Path, deed: impl Fn()) {
    let beside = fixture.directory.path().join("beside");
    fs::rename(file, &beside).unwrap();
    // EISDIR and ELOOP, for want of a disk that says EIO.
    fs::create_dir(file).unwrap();
    deed();
    fs::remove_dir(file).unwrap();
    std::os::unix::fs::symlink(file, file).unwrap();
    deed();
    fs::remove_file(file).unwrap();
    fs::rename(&beside, file).unwrap();
}

#[test]
fn a_pack_that_cannot_be_read_in_the_moment_stays_where_it_is() {
    let fixture = fixture();
    fixture.pages(None, 0, 2);
    let all = fixture.packs();
    for file in &all {
        while_unreadable(&fixture, file, || {
            let renewed = fixture.history.rewrite_unsynced_packs(Timestamp::UNIX_EPOCH);
            assert!(matches!(renewed, Err(StoreError::State(_))), "{}: {renewed:?}", file.display());
            let swept = fixture.history.remove_torn_packs(Some(Timestamp::UNIX_EPOCH));
            assert!(matches!(swept, Err(StoreError::State(_))), "{}: {swept:?}", file.display());
        });
    }
    assert_eq!((fixture.packs(), kept(&fixture)), (all, 0));
    fixture.git(&["fsck", "--strict", "--full"]);
}

#[test]
fn a_damaged_pack_is_preserved_and_the_others_are_rewritten() {
    let fixture = fixture();
    fixture.pages(None, 0, 2);
    let before = inodes(&fixture);
    let [damaged, whole] = &fixture.data_files()[..] else { panic!("two packs") };
    let mut bytes = fs::read(damaged).unwrap();
    bytes[20] ^= 1;
    fs::remove_file(damaged).unwrap();
    fs::write(damaged, &bytes).unwrap();
    assert_eq!(fixture.history.rewrite_unsynced_packs(Timestamp::UNIX_EPOCH).unwrap(), 1);
    let after = inodes(&fixture);
    assert_eq!(after.keys().collect::<Vec<_>>(), [&whole.with_extension("idx"), whole]);
    assert!(after.iter().all(|(file, inode)| before[file] != *inode), "not written anew");
    let name = format!("objects-pack-{}.damaged-1", damaged.file_name().unwrap().to_str().unwrap());
    assert_eq!(fs::read(fixture.directory.path().join(".git/damaged").join(name)).unwrap(), bytes);
    assert_eq!(kept(&fixture), 2);
}

#[test]
fn objects_of_a_damaged_pack_are_missing_until_marked_restored() {
    let fixture = fixture();
    fixture.pages(None, 0, 2);
    let damaged = fixture.data_files().remove(0);
    fs::remove_file(&damaged).unwrap();
    fs::write(&damaged, "damaged").unwrap();
    // Whoever asked first may not have come to make them.
    for _ in 0..2 {
        assert_eq!(fixture.history.rewrite_unsynced_packs(Timestamp::UNIX_EPOCH).unwrap(), 1);
    }
    fixture.history.mark_rebuilt();
    assert_eq!(fixture.history.rewrite_unsynced_packs(Timestamp::UNIX_EPOCH).unwrap(), 0);
}

#[test]
fn a_pack_stays_as_it_is_until_its_copy_is_flushed() {
    let fixture = fixture();
    fixture.pages(None, 0, 2);
    let before = inodes(&fixture);
    let points = crate::FailPoints::new(fixture.directory.path());
    points.inject_error(FailPoint::PackFlush, 5);
    assert!(fixture.history.rewrite_unsynced_packs(Timestamp::UNIX_EPOCH).is_err());
    assert_eq!(inodes(&fixture), before);
    points.clear(FailPoint::PackFlush);
    assert_eq!(fixture.history.rewrite_unsynced_packs(Timestamp::UNIX_EPOCH).unwrap(), 0);
    assert!(inodes(&fixture).iter().all(|(file, inode)| before[file] != *inode));
}

#[test]
fn flushed_packs_are_not_touched_by_the_next_failed_flush() {
    let fixture = fixture();
    let mut head = fixture.pages(None, 0, 2);
    fixture.checkpoint();
    let flushed = inodes(&fixture);
    fixture.history.start_flush();
    head = fixture.pages(head, 2, 3);
    let renewed = || {
        assert_eq!(fixture.history.rewrite_unsynced_packs(Timestamp::UNIX_EPOCH).unwrap(), 0);
        inodes(&fixture)
    };
    let before = inodes(&fixture);
    let after = renewed();
    for (file, inode) in &before {
        assert_eq!(after[file] == *inode, flushed.contains_key(file), "{}", file.display());
    }
    // A disk that fails for long is not written to again and again.
    assert_eq!(renewed(), after);
    // What was merged was flushed when it was.
    fixture.pages(head, 3, MERGE_FACTOR * 3);
    fixture.checkpoint();
    let merged = inodes(&fixture);
    assert_eq!(renewed(), merged);
}

#[test]
fn a_pack_that_takes_the_place_of_a_flushed_one_is_not_flushed() {
    let fixture = fixture();
    let page = at("page.md");
    let commit = fixture.commit(None, &[write(&page, "1")]);
    fixture.checkpoint();
    // The same objects again, as an opening makes them.
    assert_eq!(fixture.stage(None, &[write(&page, "1")]).unwrap(), commit);
    fixture.history.publish().unwrap();
    fixture.history.unpin_packs();
    let before = inodes(&fixture);
    fixture.history.rewrite_unsynced_packs(Timestamp::UNIX_EPOCH).unwrap();
    assert!(inodes(&fixture).iter().all(|(file, inode)| before[file] != *inode));
}
