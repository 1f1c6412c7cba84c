//! Files of packs and of the branch that are used again.

use std::collections::BTreeSet;

use super::*;

/// How many files wait to be used again; beside them there is a lock.
fn waiting(directory: &Path) -> usize {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name != "server.lock").count()
}

/// Writes until some files wait. A file is removed instead when another test starts a program in
/// the moment in which it is looked at.
fn pages_until_some_wait(fixture: &Fixture) {
    let (mut head, mut written) = (None, 0);
    while waiting(&fixture.directory.path().join(".git/svcfs")) < 2 {
        assert!(written < 200, "no file waits to be used again");
        head = fixture.pages(head, written, written + 1);
        written += 1;
    }
}

fn inode(file: &Path) -> u64 {
    fs::metadata(file).unwrap().ino()
}

#[test]
fn files_of_merged_packs_are_recycled_and_the_branch_alternates() {
    let fixture = fixture();
    let branch = fixture.directory.path().join(".git/refs/heads/main");
    let (mut head, mut packs, mut branches) = (None, BTreeSet::new(), BTreeSet::new());
    for n in 0..120 {
        head = fixture.pages(head, n, n + 1);
        packs.extend(fixture.packs().iter().map(|file| inode(file)));
        branches.insert(inode(&branch));
    }
    assert!(packs.len() < 60, "{} files for 120 packs of two each", packs.len());
    assert_eq!(branches.len(), 2);
    fixture.git(&["fsck", "--strict"]);
    assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]).trim(), "120");
}

/// Shows: GIT-10
#[test]
fn a_clone_on_the_same_disk_and_a_reader_keep_what_they_have() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, 3);
    let clone = tempfile::tempdir().unwrap();
    let root = fixture.directory.path().to_str().unwrap();
    let output = Command::new("git").args(["clone", "-q", "--local", root]).arg(clone.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let reader = git2::Repository::open(fixture.directory.path()).unwrap();
    let seen = reader.head().unwrap().peel_to_tree().unwrap();
    fixture.pages(head, 3, 60);
    let fsck = Command::new("git").arg("-C").arg(clone.path()).args(["fsck", "--strict"]).output().unwrap();
    assert!(fsck.status.success(), "{fsck:?}");
    let blob = seen.get_name("2.md").unwrap().to_object(&reader).unwrap();
    assert_eq!(blob.as_blob().unwrap().content(), b"page 2");
}

#[test]
fn a_pack_beside_the_index_of_another_is_torn() {
    let fixture = fixture();
    fixture.pages(None, 0, 2);
    let [one, two] = &fixture.data_files()[..] else { panic!("two packs") };
    // As a power cut may leave a file that was used again: whole, under its old name.
    fs::rename(two, one).unwrap();
    assert_eq!(fixture.history.remove_torn_packs(Some(svcfs_base::Timestamp::now())).unwrap(), 2);
    assert_eq!(fixture.data_files(), Vec::<PathBuf>::new());
}

#[test]
fn recycled_files_are_removed_on_close_and_after_a_crash() {
    let fixture = fixture();
    let directory = fixture.directory.path().join(".git/svcfs");
    let count = || waiting(&directory);
    pages_until_some_wait(&fixture);
    let fixture = fixture.again();
    assert_eq!(count(), 0);
    fs::write(directory.join("pack-7"), "left over").unwrap();
    let _fixture = fixture.again();
    assert_eq!(count(), 0);
}

#[test]
fn files_that_wait_are_not_written_over_after_a_flush_failed() {
    let fixture = fixture();
    let waiting = || waiting(&fixture.directory.path().join(".git/svcfs"));
    pages_until_some_wait(&fixture);
    fixture.history.rewrite_unsynced_packs(svcfs_base::Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(waiting(), 0);
    fixture.git(&["fsck", "--strict"]);
}
