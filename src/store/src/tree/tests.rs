#![expect(clippy::disallowed_methods, reason = "the disk is prepared as a person would")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use svcfs_base::{DiskAttributes, FileKind};

use super::*;

fn tree() -> (tempfile::TempDir, WorkTree) {
    let directory = tempfile::tempdir().unwrap();
    let tree = WorkTree::open(directory.path()).unwrap();
    (directory, tree)
}

fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn install(tree: &WorkTree, path: &str, content: &str, kind: FileKind, disk: DiskAttributes) -> TreeResult<()> {
    tree.install(&FileInstall { path: &at(path), content: content.as_bytes(), kind, attributes: disk })
}

fn plain(tree: &WorkTree, path: &str, content: &str) {
    install(tree, path, content, FileKind::Regular, DiskAttributes::default()).unwrap();
}

fn wait_until(mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_true() {
        assert!(Instant::now() < deadline, "waited 20 s");
        std::thread::yield_now();
    }
}

#[test]
fn a_replaced_file_keeps_its_permission_bits_and_owner() {
    let (directory, tree) = tree();
    plain(&tree, "a/b.md", "one");
    let file = directory.path().join("a/b.md");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let owner = if rustix::process::geteuid().is_root() { 12345 } else { rustix::process::geteuid().as_raw() };
    std::os::unix::fs::chown(&file, Some(owner), None).unwrap();
    plain(&tree, "a/b.md", "two");
    let stat = fs::metadata(&file).unwrap();
    assert_eq!((stat.mode() & 0o7777, stat.uid()), (0o640, owner));
    assert_eq!(fs::read(&file).unwrap(), b"two");
}

#[test]
fn a_setuid_file_loses_the_bit_when_its_content_changes() {
    let (directory, tree) = tree();
    let file = directory.path().join("run");
    install(&tree, "run", "one", FileKind::Executable, DiskAttributes::default()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
    install(&tree, "run", "two", FileKind::Executable, DiskAttributes::default()).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn an_unreadable_file_has_permission_bits_to_set() {
    let (directory, tree) = tree();
    plain(&tree, "a.md", "x");
    tree.set_mode(&at("a.md"), 0).unwrap();
    tree.set_mode(&at("a.md"), 0o640).unwrap();
    assert_eq!(fs::metadata(directory.path().join("a.md")).unwrap().mode() & 0o7777, 0o640);
    symlink("a.md", directory.path().join("link")).unwrap();
    assert!(tree.set_mode(&at("link"), 0o777).is_err(), "a link has none, and what it leads to is not meant");
    assert_eq!(fs::metadata(directory.path().join("a.md")).unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn special_files_are_seen_only_where_requested() {
    let (directory, tree) = tree();
    plain(&tree, "d/a.md", "x");
    let fifo = SpecialFile { kind: SpecialKind::Fifo, device: 0 };
    tree.make_special(&at("d/pipe"), fifo, 0o640).unwrap();
    let stat = tree.stat_special(&at("d/pipe")).unwrap().unwrap();
    assert_eq!((stat.kind, stat.mode), (StatKind::Special(fifo), 0o640));
    assert!(tree.stat_special(&at("d/a.md")).unwrap().is_none() && tree.stat_special(&at("d/none")).unwrap().is_none());
    let listed: Vec<_> = tree.list_special(&at("d")).unwrap().into_iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(listed, ["pipe"]);
    assert!(tree.stat(&at("d/pipe")).is_err());
    let taken = tree.make_special(&at("d/pipe"), fifo, 0o640).unwrap_err();
    assert!(matches!(taken, StoreError::Disk { source, .. } if source.kind() == io::ErrorKind::AlreadyExists));
    assert!(directory.path().join("d/pipe").exists());
}

#[test]
fn looking_into_a_directory_is_no_access_of_anybody() {
    let (directory, tree) = tree();
    plain(&tree, "d/a.md", "x");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    tree.set_times(&at("d"), Some(long_ago), None).unwrap();
    assert_eq!(tree.list(&at("d")).unwrap().len(), 1);
    assert_eq!(fs::metadata(directory.path().join("d")).unwrap().accessed().unwrap(), long_ago);
}

#[test]
fn a_file_gets_the_requested_kind_mode_and_time() {
    let (directory, tree) = tree();
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let disk = DiskAttributes { mode: Some(0o600), modified: Some(then), accessed: Some(then), owner: None };
    install(&tree, "run", "x", FileKind::Executable, disk).unwrap();
    let stat = tree.stat(&at("run")).unwrap();
    assert_eq!((stat.mode, stat.modified, stat.file_kind()), (0o700, then, Some(FileKind::Executable)));
    assert_eq!(stat.accessed, then);
    install(&tree, "link", "run", FileKind::Symlink, DiskAttributes::default()).unwrap();
    assert_eq!(fs::read_link(directory.path().join("link")).unwrap().to_str(), Some("run"));
    assert!(matches!(tree.read(&at("link")), Err(StoreError::SymlinkInPath(_))));
    assert_eq!(tree.read_leaf(&at("link")).unwrap().0, "run");
}

#[test]
fn times_before_1970_survive() {
    let (_directory, tree) = tree();
    plain(&tree, "old", "x");
    let then = SystemTime::UNIX_EPOCH - Duration::new(5, 250_000_000);
    tree.set_times(&at("old"), None, Some(then)).unwrap();
    assert_eq!(tree.stat(&at("old")).unwrap().modified, then);
}

#[test]
fn nothing_is_read_or_written_through_a_link() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    let (directory, tree) = tree();
    symlink(outside.path(), directory.path().join("out")).unwrap();
    symlink(outside.path().join("secret"), directory.path().join("file")).unwrap();
    assert!(matches!(tree.read(&at("out/secret")), Err(StoreError::SymlinkInPath(_))));
    assert!(matches!(tree.read(&at("file")), Err(StoreError::SymlinkInPath(_))));
    let put = |path| install(&tree, path, "x", FileKind::Regular, DiskAttributes::default());
    assert!(put("out/new").is_err());
    // The link itself is replaced, not what it points at.
    put("file").unwrap();
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"s");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

/// Shows: EDIT-10
#[test]
fn a_listing_leaves_out_what_no_tree_can_hold() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (directory, tree) = tree();
    plain(&tree, "d/a.md", "x");
    fs::write(directory.path().join("d").join(OsStr::from_bytes(b"\xff")), "x").unwrap();
    tree.make_special(&at("d/pipe"), SpecialFile { kind: SpecialKind::Fifo, device: 0 }, 0o400).unwrap();
    let names: Vec<_> = tree.list(&at("d")).unwrap().into_iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["a.md"]);
    assert!(tree.read(&at("d/pipe")).is_err());
}

#[test]
fn a_file_over_the_limit_is_not_read_into_memory() {
    let (directory, tree) = tree();
    let file = fs::File::create(directory.path().join("huge")).unwrap();
    file.set_len(MAX_FILE_BYTES as u64 + 1).unwrap();
    let Err(StoreError::Disk { source, .. }) = tree.read(&at("huge")) else { panic!("read it") };
    assert_eq!(source.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(tree.read_range(&at("huge"), MAX_FILE_BYTES as u64, 10).unwrap(), vec![0]);
}

#[test]
fn partial_files_of_a_crash_are_swept_at_opening() {
    let (directory, tree) = tree();
    plain(&tree, "a.md", "x");
    drop(tree);
    let leftover = StatePaths::new(directory.path()).temp_directory().join("1f");
    fs::write(&leftover, "half").unwrap();
    WorkTree::open(directory.path()).unwrap();
    assert!(!leftover.exists());
}

#[test]
fn a_rename_that_must_not_replace_does_not() {
    let (_directory, tree) = tree();
    plain(&tree, "a", "a");
    plain(&tree, "b", "b");
    assert!(tree.rename(&at("a"), &at("b"), false).is_err());
    assert_eq!(tree.read(&at("b")).unwrap().0, "b");
    tree.rename(&at("a"), &at("b"), true).unwrap();
    assert_eq!(tree.read(&at("b")).unwrap().0, "a");
}

/// What is in the directory of files that are on their way into the tree.
fn rooms(temporary: &Path) -> Vec<PathBuf> {
    fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn spare_files_are_created_on_first_write_and_removed_on_close() {
    let (directory, tree) = tree();
    let temporary = StatePaths::new(directory.path()).temp_directory();
    let blanks = || rooms(&temporary).iter().map(|room| fs::read_dir(room).unwrap().count()).sum::<usize>();
    assert_eq!(rooms(&temporary), Vec::<PathBuf>::new());
    plain(&tree, "first.md", "x");
    wait_until(|| blanks() > 16);
    for number in 0..1000 {
        plain(&tree, &format!("{}.md", number % 100), &number.to_string());
    }
    for number in 0..100 {
        assert_eq!(tree.read(&at(&format!("{number}.md"))).unwrap().0, (900 + number).to_string());
    }
    drop(tree);
    assert_eq!(rooms(&temporary), Vec::<PathBuf>::new());
}

#[test]
fn emptied_temporary_directories_are_removed() {
    let (directory, tree) = tree();
    let temporary = StatePaths::new(directory.path()).temp_directory();
    for number in 0..5000 {
        plain(&tree, "page.md", &number.to_string());
    }
    wait_until(|| rooms(&temporary).len() < 5);
    assert_eq!(tree.read(&at("page.md")).unwrap().0, "4999");
}

#[test]
fn temporary_files_of_a_killed_server_are_swept() {
    let (directory, tree) = tree();
    plain(&tree, "page.md", "x");
    drop(tree);
    let temporary = StatePaths::new(directory.path()).temp_directory();
    fs::create_dir(temporary.join("room-3")).unwrap();
    fs::write(temporary.join("room-3/blank-1"), "old").unwrap();
    fs::write(temporary.join("7"), "half").unwrap();
    let tree = WorkTree::open(directory.path()).unwrap();
    assert_eq!(rooms(&temporary), Vec::<PathBuf>::new());
    assert_eq!(tree.read(&at("page.md")).unwrap().0, "x");
}

#[test]
fn externally_removed_spare_files_are_recreated() {
    let (directory, tree) = tree();
    let temporary = StatePaths::new(directory.path()).temp_directory();
    plain(&tree, "first.md", "x");
    wait_until(|| rooms(&temporary).iter().any(|room| fs::read_dir(room).unwrap().count() == 32));
    rooms(&temporary).iter().for_each(|room| fs::remove_dir_all(room).unwrap());
    for number in 0..100 {
        plain(&tree, &format!("{number}.md"), "x");
        assert_eq!(tree.read(&at(&format!("{number}.md"))).unwrap().0, "x");
    }
}

#[test]
fn a_cached_small_file_is_read_inline_and_a_slow_one_is_not() {
    let (directory, tree) = tree();
    let on_disk = |path: &str| directory.path().join(path);
    plain(&tree, "a/b.md", "one");
    assert!(tree.set_xattr(&at("a/b.md"), b"user.x", b"y", SetXattrMode::CreateOrReplace).unwrap());
    plain(&tree, "empty", "");
    plain(&tree, "much", &"x".repeat((64 << 10) + 1));
    symlink("a/b.md", on_disk("link.md")).unwrap();
    symlink("a", on_disk("linked")).unwrap();
    for none in ["a", "none.md", "a/b.md/c", "link.md", "linked/b.md", "much"] {
        assert!(tree.try_read_cached(&at(none), None).is_none(), "{none}");
    }
    let file = fs::File::open(on_disk("a/b.md")).unwrap();
    let mut room = [0; 3];
    if rustix::io::preadv2(&file, &mut [io::IoSliceMut::new(&mut room)], 0, rustix::io::ReadWriteFlags::NOWAIT).is_err()
    {
        eprintln!("this disk does not tell what is in memory: nothing is read at once");
        return;
    }
    let read = tree.try_read_cached(&at("a/b.md"), Some(b"user.x")).unwrap();
    let (content, stat) = tree.read(&at("a/b.md")).unwrap();
    assert_eq!((read.content, read.stat.inode, read.stat.size), (content, stat.inode, stat.size));
    assert_eq!(read.xattr.as_deref(), Some(&b"y"[..]));
    assert_eq!(tree.try_read_cached(&at("a/b.md"), Some(b"user.z")).unwrap().xattr, None);
    assert_eq!(tree.try_read_cached(&at("empty"), None).unwrap().content, Bytes::new());
    assert_eq!(tree.try_read_range(&at("a/b.md"), (1, 100)).unwrap().1, "ne");
    assert_eq!(tree.try_read_range(&at("much"), (64 << 10, 100)).unwrap().1, "x");
    assert_eq!(tree.try_read_range(&at("a/b.md"), (1 << 40, 100)).unwrap().1, Bytes::new());
    assert_eq!(tree.try_stat_cached(&at("a")).unwrap().kind, StatKind::Directory);
    assert_eq!(tree.try_stat_cached(&at("link.md")).unwrap().kind, StatKind::Symlink);
    for none in ["a", "none.md", "link.md", "linked/b.md"] {
        assert!(tree.try_read_range(&at(none), (0, 1)).is_none(), "{none}");
    }
    file.sync_all().unwrap();
    sys::fadvise(&file, 0, None, sys::Advice::DontNeed).unwrap();
    // Filesystems in memory forget nothing; on others the next who reads waits, and then it is
    // there again.
    let forgotten = tree.try_read_cached(&at("a/b.md"), None).is_none();
    tree.read(&at("a/b.md")).unwrap();
    assert!(tree.try_read_cached(&at("a/b.md"), None).is_some(), "read before; forgotten: {forgotten}");
}

#[test]
fn an_unreadable_sync_failed_marker_means_nothing_was_flushed() {
    let (directory, tree) = tree();
    assert!(!tree.has_sync_failed());
    drop(tree);
    let mark = StatePaths::new(directory.path()).sync_failed_marker();
    symlink(&mark, &mark).unwrap();
    assert!(WorkTree::open(directory.path()).unwrap().has_sync_failed());
}
