//! System calls, one promise each.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};
use rustix::io::Errno;
use svcfs_base::{Caller, Change, ChangeSet, MAX_FILE_BYTES, Protocol, TreePath};

use crate::mounted::Mounted;

fn errno<T>(outcome: std::io::Result<T>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

#[test]
fn rename_obeys_its_flags() {
    let Some(space) = Mounted::new() else { return };
    let (a, b, c) = (space.at("a.md"), space.at("b.md"), space.at("c.md"));
    fs::write(&a, "a").unwrap();
    fs::write(&b, "b").unwrap();
    let rename = |from, to, flags| renameat_with(CWD, from, CWD, to, flags);
    assert_eq!(rename(&a, &b, RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(rename(&a, &b, RenameFlags::WHITEOUT), Err(Errno::INVAL));
    assert_eq!(rename(&a, &c, RenameFlags::EXCHANGE), Err(Errno::NOENT));
    rename(&a, &b, RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"b".to_vec(), b"a".to_vec()));
    rename(&a, &c, RenameFlags::NOREPLACE).unwrap();
    rename(&b, &c, RenameFlags::empty()).unwrap();
    assert_eq!(fs::read(&c).unwrap(), b"a");
    assert!(!a.exists() && !b.exists());
}

#[test]
fn a_file_removed_while_open_goes_on_working() {
    let Some(space) = Mounted::new() else { return };
    fs::write(space.at("a.md"), "text").unwrap();
    let mut file = File::options().read(true).write(true).open(space.at("a.md")).unwrap();
    fs::remove_file(space.at("a.md")).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b" and more").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), file.metadata().unwrap().size()), ("text and more", 13));
    drop(file);
    assert!(!space.at("a.md").exists());
    assert_eq!(fs::read_dir(space.at("")).unwrap().filter(|e| e.as_ref().unwrap().file_name() == "a.md").count(), 0);
}

/// Shows: MNT-4
#[test]
fn a_process_started_during_a_save_does_not_end_the_save() {
    let Some(space) = Mounted::new() else { return };
    let mut file = File::create(space.at("a.md")).unwrap();
    file.write_all(b"first half, ").unwrap();
    // The child's copy of the descriptor is closed when it becomes another program.
    assert!(std::process::Command::new("true").status().unwrap().success());
    file.write_all(b"second half").unwrap();
    drop(file);
    let path = TreePath::parse("a.md").unwrap();
    assert_eq!(space.vfs.versions(&path).unwrap().len(), 1);
    assert_eq!(space.vfs.read(Protocol::Http, &path).unwrap().content, "first half, second half");
}

#[test]
fn a_hole_reads_as_zeros_and_truncation_cuts_and_grows() {
    let Some(space) = Mounted::new() else { return };
    let file = File::options().read(true).write(true).create_new(true).open(space.at("a.md")).unwrap();
    file.write_all_at(b"end", 10_000).unwrap();
    let mut bytes = vec![1; 10_003];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes[..10_000].iter().all(|byte| *byte == 0) && bytes.ends_with(b"end"));
    file.set_len(4).unwrap();
    assert_eq!(file.metadata().unwrap().size(), 4);
    file.set_len(6).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, 8).unwrap();
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 100).unwrap();
    assert_eq!(file.metadata().unwrap().size(), 8, "room was asked for, not length");
    assert_eq!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096), Err(Errno::OPNOTSUPP));
    drop(file);
    assert_eq!(fs::read(space.at("a.md")).unwrap(), [0; 8]);
    assert_eq!(space.shell("truncate -s 3 a.md; wc -c < a.md"), "3\n");
}

/// Shows: MNT-32
#[test]
fn parts_of_a_file_are_made_zeros_by_fallocate() {
    let Some(space) = Mounted::new() else { return };
    fs::write(space.at("a.bin"), "x".repeat(10)).unwrap();
    let file = File::options().read(true).write(true).open(space.at("a.bin")).unwrap();
    let content = || fs::read(space.at("a.bin")).unwrap();
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 2, 3).unwrap();
    assert_eq!(content(), b"xx\0\0\0xxxxx");
    fallocate(&file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 8, 100).unwrap();
    assert_eq!(content(), b"xx\0\0\0xxx\0\0");
    fallocate(&file, FallocateFlags::ZERO_RANGE, 7, 5).unwrap();
    assert_eq!(content(), b"xx\0\0\0xx\0\0\0\0\0");
    let far = i64::MAX as u64 / 2;
    assert_eq!(fallocate(&file, FallocateFlags::KEEP_SIZE, 0, far), Err(Errno::NOSPC));
    drop(file);
    let path = TreePath::parse("a.bin").unwrap();
    assert_eq!(space.vfs.read(Protocol::Http, &path).unwrap().content, b"xx\0\0\0xx\0\0\0\0\0"[..]);
}

/// Shows: MNT-24
#[test]
fn a_video_can_be_copied_read_seeked_and_removed() {
    let Some(space) = Mounted::new() else { return };
    let size = 2 * MAX_FILE_BYTES as u64 + 12_345;
    let outside = space.folder().join("video.mp4");
    space.shell(&format!("head -c {size} /dev/urandom > '{}'", outside.display()));
    space.shell(&format!("cp '{0}' video.mp4 && cmp '{0}' video.mp4", outside.display()));
    let middle = MAX_FILE_BYTES as u64 + 7;
    let read = |at: &std::path::Path| {
        let mut bytes = vec![0; 4096];
        File::open(at).unwrap().read_exact_at(&mut bytes, middle).unwrap();
        bytes
    };
    assert_eq!(read(&space.at("video.mp4")), read(&outside));
    assert_eq!(fs::metadata(space.folder().join("root/video.mp4")).unwrap().size(), size, "on the disk as it is");
    space
        .shell("mv video.mp4 'a film.mp4' && printf tail >> 'a film.mp4' && rm 'a film.mp4' && test ! -e 'a film.mp4'");
    assert_eq!(space.vfs.last_seq(), svcfs_base::Seq(0), "history has not heard of it");
}

/// Shows: MNT-26
#[test]
fn holes_are_found_where_the_disk_has_them() {
    use rustix::fs::{SeekFrom, seek};
    let Some(space) = Mounted::new() else { return };
    let size = MAX_FILE_BYTES as u64 * 2;
    let file = File::options().read(true).write(true).create_new(true).open(space.at("sparse.img")).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(b"data", size / 2).unwrap();
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(0));
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(size / 2));
    assert_eq!(seek(&file, SeekFrom::Data(size)), Err(Errno::NXIO));
    let blocks = || fs::metadata(space.at("sparse.img")).unwrap().blocks();
    assert!((1..100).contains(&blocks()), "{} blocks before it is saved", blocks());
    drop(file);
    assert!((1..100).contains(&blocks()), "{} blocks", blocks());
    fs::remove_file(space.at("sparse.img")).unwrap();
    fs::write(space.at("a.md"), "no holes").unwrap();
    let file = File::open(space.at("a.md")).unwrap();
    assert_eq!((seek(&file, SeekFrom::Data(3)), seek(&file, SeekFrom::Hole(3))), (Ok(3), Ok(8)));
}

#[test]
fn appends_of_two_processes_all_arrive_complete() {
    let Some(space) = Mounted::new() else { return };
    let script =
        "for p in a b; do (exec >> log.md; n=0; while [ $n -lt 300 ]; do echo $p$n; n=$((n+1)); done) & done; wait";
    space.shell(script);
    let text = fs::read_to_string(space.at("log.md")).unwrap();
    let lines: BTreeSet<&str> = text.lines().collect();
    assert_eq!((lines.len(), text.lines().count()), (600, 600));
}

#[test]
fn a_listing_is_complete_while_files_are_added() {
    let Some(space) = Mounted::new() else { return };
    let page = |number| TreePath::parse(&format!("many/f{number:04}")).unwrap();
    let pages: Vec<Change> = (0..5000).map(|number| Change::put(page(number), "")).collect();
    space.vfs.apply(&Caller::new(Protocol::Http), ChangeSet::new(pages)).unwrap();
    let mut seen = Vec::new();
    for entry in fs::read_dir(space.at("many")).unwrap() {
        seen.push(entry.unwrap().file_name().into_string().unwrap());
        if seen.len() % 500 == 0 {
            fs::write(space.at(&format!("many/a{}", seen.len())), "").unwrap();
        }
    }
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "no name comes twice");
    assert_eq!(seen.iter().filter(|name| name.starts_with('f')).count(), 5000);
}

#[test]
fn times_and_permissions_are_preserved_by_the_mount() {
    let Some(space) = Mounted::new() else { return };
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::create(space.at("a.md")).unwrap();
    (&file).write_all(b"text").unwrap();
    file.set_modified(past).unwrap();
    drop(file);
    fs::set_permissions(space.at("a.md"), PermissionsExt::from_mode(0o755)).unwrap();
    let found = fs::metadata(space.at("a.md")).unwrap();
    assert_eq!((found.mtime(), found.mode() & 0o7777), (1_000_000_000, 0o755));
    let before = SystemTime::now() - Duration::from_secs(1);
    space.shell("touch -a a.md");
    let found = fs::metadata(space.at("a.md")).unwrap();
    assert_eq!(found.mtime(), 1_000_000_000, "only the other time was to change");
    space.shell("touch a.md");
    assert!(fs::metadata(space.at("a.md")).unwrap().modified().unwrap() >= before);
}

#[test]
fn a_symbolic_link_is_followed_and_read() {
    let Some(space) = Mounted::new() else { return };
    fs::create_dir(space.at("d")).unwrap();
    fs::write(space.at("d/a.md"), "text").unwrap();
    symlink("d/a.md", space.at("link")).unwrap();
    assert_eq!(fs::read_link(space.at("link")).unwrap().as_os_str(), "d/a.md");
    assert_eq!(fs::read_to_string(space.at("link")).unwrap(), "text");
    assert_eq!(fs::symlink_metadata(space.at("link")).unwrap().size(), 6);
    assert_eq!(fs::read_to_string(space.at("d/../link")).unwrap(), "text", "`..` is the kernel's work");
}

#[test]
fn names_the_tree_cannot_hold_are_refused_with_the_right_number() {
    let Some(space) = Mounted::new() else { return };
    let longest = "é".repeat(127) + "x";
    fs::write(space.at(&longest), "").unwrap();
    assert_eq!(fs::read_dir(space.at("")).unwrap().filter(|e| *e.as_ref().unwrap().file_name() == *longest).count(), 1);
    let made = |name: &[u8]| errno(File::create(space.at("").join(std::ffi::OsStr::from_bytes(name))));
    assert_eq!(made(&[b'x'; 256]), Some(Errno::NAMETOOLONG.raw_os_error()));
    for name in [&b"a\nb"[..], b"\xff\xfe", b"%2e%2e"] {
        assert_eq!(made(name), Some(Errno::INVAL.raw_os_error()), "{name:?}");
    }
}

#[test]
fn directories_are_made_and_removed_when_empty() {
    let Some(space) = Mounted::new() else { return };
    fs::create_dir_all(space.at("a/b")).unwrap();
    assert_eq!(fs::create_dir(space.at("a")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::remove_dir(space.at("a")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_dir(space.at("a/b")).unwrap();
    fs::remove_dir(space.at("a")).unwrap();
    assert_eq!(fs::metadata(space.at("a")).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Shows: EDIT-10
#[test]
fn special_files_are_passed_through_without_versions() {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    let Some(space) = Mounted::new() else { return };
    let modes = Mode::from_bits_truncate(0o600);
    let kind = |name: &str| fs::symlink_metadata(space.at(name)).unwrap().mode() & SFlag::S_IFMT.bits();
    mknod(&space.at("pipe"), SFlag::S_IFIFO, modes, 0).unwrap();
    drop(std::os::unix::net::UnixListener::bind(space.at("socket")).unwrap());
    assert_eq!((kind("pipe"), kind("socket")), (SFlag::S_IFIFO.bits(), SFlag::S_IFSOCK.bits()));
    if rustix::process::geteuid().is_root() {
        mknod(&space.at("null"), SFlag::S_IFCHR, modes, makedev(1, 3)).unwrap();
        assert_eq!(fs::symlink_metadata(space.at("null")).unwrap().rdev(), makedev(1, 3));
    }
    let reader = std::thread::spawn({
        let pipe = space.at("pipe");
        move || fs::read_to_string(pipe).unwrap()
    });
    fs::write(space.at("pipe"), "through the kernel").unwrap();
    assert_eq!(reader.join().unwrap(), "through the kernel");
    let taken = mknod(&space.at("pipe"), SFlag::S_IFIFO, modes, 0);
    assert_eq!(taken, Err(nix::errno::Errno::EEXIST));
    fs::rename(space.at("pipe"), space.at("other")).unwrap();
    let mut names: Vec<_> = fs::read_dir(space.at("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| !name.to_string_lossy().starts_with('.'));
    names.sort();
    assert!(names.contains(&"other".into()) && !names.contains(&"pipe".into()), "{names:?}");
    // Pages and special files take each other's place.
    fs::write(space.at("a.md"), "text").unwrap();
    fs::rename(space.at("a.md"), space.at("other")).unwrap();
    assert_eq!(fs::read_to_string(space.at("other")).unwrap(), "text");
    fs::rename(space.at("socket"), space.at("other")).unwrap();
    assert_eq!(kind("other"), SFlag::S_IFSOCK.bits());
    fs::remove_file(space.at("other")).unwrap();
    assert_eq!(fs::symlink_metadata(space.at("other")).unwrap_err().kind(), ErrorKind::NotFound);
    space.vfs.wait_applied().unwrap();
    let told: Vec<_> = space.vfs.versions(&TreePath::parse("other").unwrap()).unwrap();
    assert_eq!(told.len(), 2, "the page under that name came and went: {told:?}");
}

/// Shows: MNT-22
#[test]
fn a_directory_changes_immediately_with_its_names() {
    let Some(space) = Mounted::new() else { return };
    fs::create_dir(space.at("d")).unwrap();
    let changed = || fs::metadata(space.at("d")).unwrap().modified().unwrap();
    let mut last = changed();
    let mut later = |what: &str| {
        assert!(changed() > last, "{what}");
        last = changed();
    };
    fs::write(space.at("d/a.md"), "text").unwrap();
    later("a file came");
    symlink("a.md", space.at("d/link")).unwrap();
    later("a link came");
    fs::remove_file(space.at("d/a.md")).unwrap();
    later("a file went");
}

/// Shows: MNT-21
#[test]
fn groups_and_setuid_bits_are_inherited_and_cleared_as_on_disk() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let Some(space) = Mounted::new() else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    fs::create_dir(space.at("shared")).unwrap();
    chown(space.at("shared"), None, Some(12345)).unwrap();
    fs::set_permissions(space.at("shared"), fs::Permissions::from_mode(0o2775)).unwrap();
    fs::create_dir(space.at("shared/below")).unwrap();
    fs::write(space.at("shared/below/a"), "text").unwrap();
    let (below, file) =
        (fs::metadata(space.at("shared/below")).unwrap(), fs::metadata(space.at("shared/below/a")).unwrap());
    assert_eq!((below.gid(), below.mode() & 0o2000, file.gid()), (12345, 0o2000, 12345));
    fs::set_permissions(space.at("shared/below/a"), fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(fs::metadata(space.at("shared/below/a")).unwrap().mode() & 0o7777, 0o4755);
    fs::write(space.at("shared/below/a"), "other").unwrap();
    assert_eq!(fs::metadata(space.at("shared/below/a")).unwrap().mode() & 0o7777, 0o755);
}

/// Shows: MNT-28
#[test]
fn what_is_not_offered_says_so() {
    let Some(space) = Mounted::new() else { return };
    fs::write(space.at("a.md"), "text").unwrap();
    assert_eq!(errno(fs::hard_link(space.at("a.md"), space.at("b.md"))), Some(Errno::PERM.raw_os_error()));
    assert!(!space.at("b.md").exists());
    let set = rustix::fs::setxattr(space.at("a.md"), "security.x", b"1", rustix::fs::XattrFlags::empty());
    assert_eq!(set, Err(Errno::OPNOTSUPP));
    let mut room = [0; 64];
    assert_eq!(rustix::fs::getxattr(space.at("a.md"), "security.x", &mut room), Err(Errno::NODATA));
}

#[test]
fn a_refused_save_fails_at_close_and_says_why() {
    let Some(space) = Mounted::new() else { return };
    fs::write(space.at("a.md"), "good").unwrap();
    assert_eq!(space.authors("a.md", 1).len(), 1);
    let mut file = File::create(space.at("a.md")).unwrap();
    file.write_all(b"this is FORBIDDEN").unwrap();
    assert_eq!(nix::unistd::close(file), Err(nix::errno::Errno::EINVAL));
    let mut room = [0; 256];
    let length = rustix::fs::getxattr(space.at("a.md"), "user.svc.lint", &mut room).unwrap();
    assert_eq!(std::str::from_utf8(&room[..length]).unwrap(), "line 1: FORBIDDEN is not allowed");
    let length = rustix::fs::listxattr(space.at("a.md"), &mut room).unwrap();
    assert!(std::str::from_utf8(&room[..length]).unwrap().split('\0').any(|name| name == "user.svc.lint"));
    assert_eq!(space.authors("a.md", 1).len(), 1, "history has the last good version only");
    fs::write(space.at("a.md"), "good again").unwrap();
    assert_eq!(rustix::fs::getxattr(space.at("a.md"), "user.svc.lint", &mut room), Err(Errno::NODATA));
    assert_eq!(space.authors("a.md", 2).len(), 2);
}

/// The kernel tells of a closed handle a moment later, and the name of a new file whose save was
/// refused goes in that moment.
#[test]
fn a_name_whose_first_save_was_rejected_can_be_recreated() {
    let Some(space) = Mounted::new() else { return };
    let at = space.at("a.md");
    for round in 0..2000 {
        let mut file = File::create(&at).unwrap_or_else(|error| panic!("round {round}: {error}"));
        file.write_all(b"this is FORBIDDEN").unwrap();
        assert_eq!(nix::unistd::close(file), Err(nix::errno::Errno::EINVAL), "round {round}");
    }
}

#[test]
fn fsync_returns_with_the_version_made() {
    let Some(space) = Mounted::new() else { return };
    let mut file = File::create(space.at("a.md")).unwrap();
    file.write_all(b"text").unwrap();
    file.sync_all().unwrap();
    let path = TreePath::parse("a.md").unwrap();
    assert_eq!(space.vfs.versions(&path).unwrap().len(), 1);
    drop(file);
    assert_eq!(space.vfs.versions(&path).unwrap().len(), 1, "closing adds nothing");
}

#[test]
fn statfs_reports_the_free_disk_space() {
    let Some(space) = Mounted::new() else { return };
    let (mount, root) = (rustix::fs::statvfs(space.at("")).unwrap(), rustix::fs::statvfs(space.folder()).unwrap());
    assert_eq!((mount.f_blocks * mount.f_frsize, mount.f_namemax), (root.f_blocks * root.f_frsize, 255));
}
