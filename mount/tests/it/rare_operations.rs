//! What few programs do and a disk offers.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::Barrier;

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps, copy_file_range,
    fcntl_lock, flock, inotify, mkdirat, openat, renameat_with, seek, utimensat,
};
use rustix::io::Errno;
use svcfs_base::{Caller, Change, Protocol, TreePath};

use crate::mounted::{Mounted, has, wait_for};

/// Shows: MNT-31
#[test]
fn bytes_are_copied_from_file_to_file_in_the_kernel() {
    let Some(space) = Mounted::new() else { return };
    fs::write(space.at("a.md"), "one two three").unwrap();
    let (from, to) = (File::open(space.at("a.md")).unwrap(), File::create(space.at("b.md")).unwrap());
    assert_eq!(copy_file_range(&from, Some(&mut 4), &to, None, 3), Ok(3));
    drop(to);
    assert_eq!(fs::read_to_string(space.at("b.md")).unwrap(), "two");
    // Longer than one request, beside what is there, from what is not saved yet, and past the end.
    let large: Vec<u8> = (0..20_000_000_u32).map(|at| (at / 251) as u8).collect();
    fs::write(space.at("large.bin"), &large).unwrap();
    space.shell("cp large.bin copy.bin; cmp large.bin copy.bin");
    let from = File::open(space.at("large.bin")).unwrap();
    let mut to = File::create(space.at("c.md")).unwrap();
    to.write_all(b"begin").unwrap();
    let (mut at, mut to_at) = (19_999_990, 5);
    assert_eq!(copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), 100), Ok(10));
    assert_eq!(copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), 100), Ok(0));
    let own = File::options().read(true).write(true).open(space.at("c.md")).unwrap();
    assert_eq!(copy_file_range(&own, Some(&mut 0), &own, Some(&mut 15), 5), Ok(5));
    drop((to, own));
    let expected = [b"begin", &large[19_999_990..], b"begin"].concat();
    assert_eq!(fs::read(space.at("c.md")).unwrap(), expected);
    let view = File::open(space.at(".svc/VIEWS.txt")).unwrap();
    let to = File::create(space.at("d.md")).unwrap();
    assert!(copy_file_range(&view, Some(&mut 0), &to, None, 4).unwrap() > 0);
}

/// Shows: MNT-16
#[test]
fn locks_of_one_program_are_respected_by_another() {
    let Some(space) = Mounted::new() else { return };
    if !has("flock") || !has("python3") {
        return;
    }
    fs::write(space.at("a.md"), "text").unwrap();
    let file = File::options().read(true).write(true).open(space.at("a.md")).unwrap();
    let try_flock = "flock -n a.md true && echo free || echo taken";
    let try_posix = "python3 -c 'import fcntl; fcntl.lockf(open(\"a.md\", \"r+\"), fcntl.LOCK_EX | fcntl.LOCK_NB)' 2> /dev/null \
                     && echo free || echo taken";
    flock(&file, FlockOperation::LockExclusive).unwrap();
    assert_eq!(space.shell(try_flock), "taken\n");
    flock(&file, FlockOperation::Unlock).unwrap();
    assert_eq!(space.shell(try_flock), "free\n");
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(space.shell(try_posix), "taken\n");
    fcntl_lock(&file, FlockOperation::Unlock).unwrap();
    assert_eq!(space.shell(try_posix), "free\n");
}

/// Shows: MNT-28
#[test]
fn o_tmpfile_fails_with_the_errno_that_triggers_a_fallback() {
    let Some(space) = Mounted::new() else { return };
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    assert_eq!(openat(CWD, space.at(""), flags, Mode::RUSR).unwrap_err(), Errno::OPNOTSUPP);
}

/// Shows: MNT-14
#[test]
fn a_removed_working_directory_is_empty_and_accepts_nothing() {
    let Some(space) = Mounted::new() else { return };
    let told = space.shell(
        "mkdir -m 750 gone && exec 9< gone && cd gone && rmdir ../gone && stat -c '%F %h %a' . && ls -la && \
         chmod 700 . && stat -L -c '%h %a' /dev/fd/9 && (echo x > new) 2> /dev/null || echo refused",
    );
    assert_eq!(told, "directory 0 750\ntotal 0\n0 700\nrefused\n");
    let opened = {
        fs::create_dir(space.at("other")).unwrap();
        let opened = File::open(space.at("other")).unwrap();
        let path = TreePath::parse("other").unwrap();
        space.vfs.apply(&Caller::new(Protocol::Http), Change::RemoveDir { path }).unwrap();
        opened
    };
    wait_for(|| opened.metadata().unwrap().nlink() == 0);
    let names = Dir::read_from(&opened).unwrap().map(|entry| entry.unwrap().file_name().to_owned());
    assert_eq!(names.filter(|name| !name.to_bytes().starts_with(b".")).count(), 0);
    assert_eq!(mkdirat(opened.as_fd(), "d", Mode::RWXU).unwrap_err(), Errno::NOENT);
}

#[test]
fn a_pipe_may_have_a_second_name_and_a_page_may_not() {
    let Some(space) = Mounted::new() else { return };
    assert_eq!(
        space.shell("mkfifo -m 640 one && ln one two && chmod 600 one && stat -c '%F %h %a' two"),
        "fifo 2 600\n"
    );
    assert_eq!(space.shell("rm one && stat -c '%F %h %a' two"), "fifo 1 600\n");
    fs::write(space.at("a.md"), "text").unwrap();
    let refused = fs::hard_link(space.at("a.md"), space.at("b.md")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::PERM.raw_os_error()));
    assert!(!space.at("b.md").exists());
}

/// Shows: MNT-16
#[test]
fn what_is_written_into_a_shared_mapping_is_read_and_saved() {
    let Some(space) = Mounted::new() else { return };
    if !has("python3") {
        return;
    }
    fs::write(space.at("a.md"), "one two").unwrap();
    space.shell(
        "python3 -c 'import mmap, os\nf = os.open(\"a.md\", os.O_RDWR)\nm = mmap.mmap(f, 0)\nm[0:3] = b\"ONE\"\n\
         assert os.pread(f, 7, 0) == b\"ONE two\"\nassert open(\"a.md\").read() == \"ONE two\"\n\
         os.pwrite(f, b\"TWO\", 4)\nassert m[:] == b\"ONE TWO\"\nm.flush()\nm.close()\nos.close(f)'",
    );
    let path = TreePath::parse("a.md").unwrap();
    assert_eq!(space.vfs.read(Protocol::Http, &path).unwrap().content, "ONE TWO");
}

/// Shows: MNT-29
#[test]
fn names_with_control_characters_are_refused() {
    let Some(space) = Mounted::new() else { return };
    for name in ["a\nb", "a\tb", "\u{1}", "a\u{7f}"] {
        let refused = fs::write(space.at(name), "text").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::INVAL.raw_os_error()), "{name:?}");
        assert_eq!(mkdirat(CWD, space.at(name), Mode::RWXU), Err(Errno::INVAL), "{name:?}");
    }
}

/// Shows: MNT-30
#[test]
fn devices_and_privileges_have_no_effect() {
    let Some(space) = Mounted::new() else { return };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let at = fs::canonicalize(space.at("")).unwrap();
    let line = mounts.lines().find(|line| line.split(' ').nth(1) == at.to_str()).unwrap();
    let options: BTreeSet<&str> = line.split(' ').nth(3).unwrap().split(',').collect();
    assert!(options.contains("nosuid") && options.contains("nodev"), "{line}");
}

/// Shows: MNT-26
#[test]
fn holes_of_files_that_have_versions_are_filled() {
    let Some(space) = Mounted::new() else { return };
    let file = File::create(space.at("a.bin")).unwrap();
    file.set_len(3 << 20).unwrap();
    file.write_all_at(b"end", (3 << 20) - 3).unwrap();
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(3 << 20));
    assert_eq!(seek(&file, SeekFrom::Data(4096)), Ok(4096));
}

/// Shows: MNT-17
#[test]
fn inotify_reports_changes_of_the_mount_and_not_other_protocols() {
    let Some(space) = Mounted::new() else { return };
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, space.at(""), inotify::WatchFlags::CREATE | inotify::WatchFlags::MODIFY).unwrap();
    let path = TreePath::parse("theirs.md").unwrap();
    space.vfs.apply(&Caller::new(Protocol::Http), Change::put(path, "theirs")).unwrap();
    wait_for(|| fs::read_to_string(space.at("theirs.md")).is_ok_and(|text| text == "theirs"));
    fs::write(space.at("ours.md"), "ours").unwrap();
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut room);
    assert_eq!(events.next().unwrap().file_name(), Some(c"ours.md"));
}

/// Shows: MNT-29
#[test]
fn paths_up_to_the_git_limit_work_and_longer_ones_are_refused() {
    let Some(space) = Mounted::new() else { return };
    // Each step is a call of its own, so that only the tree decides what is too long.
    let name = "d".repeat(99);
    let mut at = File::open(space.at("")).unwrap();
    let mut depth = 0;
    let refused = loop {
        match mkdirat(at.as_fd(), &*name, Mode::RWXU) {
            Ok(()) => at = openat(at.as_fd(), &*name, OFlags::DIRECTORY, Mode::empty()).unwrap().into(),
            Err(error) => break error,
        }
        depth += 1;
    };
    assert_eq!((refused, depth), (Errno::NAMETOOLONG, 40), "4,096 bytes are the longest path of a call (PATH_MAX)");
    let missing = openat(at.as_fd(), &*name, OFlags::DIRECTORY, Mode::empty());
    assert!(matches!(missing, Err(Errno::NAMETOOLONG | Errno::NOENT)), "{missing:?}");
}

/// Shows: MNT-16
#[test]
fn a_large_listing_resumes_at_its_offset_despite_changes() {
    const FILES: usize = 100_000;
    let Some(space) = Mounted::new() else { return };
    // Behind the server, because no version of them is of interest.
    let behind = space.folder().join("root/many");
    fs::create_dir(&behind).unwrap();
    for number in 0..FILES {
        File::create(behind.join(format!("f{number:06}"))).unwrap();
    }
    let directory = File::open(space.at("many")).unwrap();
    let mut listing = Dir::read_from(&directory).unwrap();
    let mut seen = BTreeSet::new();
    let mut middle = None;
    while let Some(entry) = listing.read() {
        let entry = entry.unwrap();
        assert!(seen.insert(entry.file_name().to_owned()), "{:?} comes twice", entry.file_name());
        if seen.len() == FILES / 2 {
            middle = Some((entry.offset(), entry.file_name().to_owned()));
            for number in 0..100 {
                fs::remove_file(behind.join(format!("f{number:06}"))).unwrap();
                File::create(behind.join(format!("a{number:06}"))).unwrap();
            }
        }
    }
    assert_eq!(seen.len(), FILES + 2);
    let (offset, name) = middle.unwrap();
    listing.seek(offset).unwrap();
    let next = listing.read().unwrap().unwrap();
    let expected = seen.range(name..).nth(1).unwrap();
    assert_eq!(next.file_name(), &**expected, "the entry after the one in the middle");
}

/// Shows: MNT-13
#[test]
fn one_of_eight_racing_writers_of_a_name_wins_completely() {
    let Some(space) = Mounted::new() else { return };
    let (start, mount) = (&Barrier::new(8), &space.at(""));
    std::thread::scope(|threads| {
        for writer in 0..8_u8 {
            threads.spawn(move || {
                start.wait();
                for round in 0..25 {
                    let text = vec![b'a' + writer; 10_000];
                    let beside = mount.join(format!("{writer}-{round}.tmp"));
                    fs::write(&beside, text).unwrap();
                    fs::rename(&beside, mount.join("page.md")).unwrap();
                    let found = fs::read(mount.join("page.md")).unwrap();
                    assert_eq!(found.len(), 10_000);
                    assert!(found.iter().all(|byte| *byte == found[0]), "two writers in one file");
                }
            });
        }
    });
    // And one creates, seven are told.
    let created = std::thread::scope(|threads| {
        let writers: Vec<_> = (0..8)
            .map(|_| {
                threads.spawn(move || {
                    start.wait();
                    let mut options = File::options();
                    options.write(true).create_new(true).mode(0o600).open(mount.join("only.md")).is_ok()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).filter(|created| *created).count()
    });
    assert_eq!(created, 1);
}

#[test]
fn a_file_is_written_under_its_renamed_directory() {
    let Some(space) = Mounted::new() else { return };
    fs::create_dir(space.at("d")).unwrap();
    let file = File::options().read(true).write(true).create_new(true).open(space.at("d/a.md")).unwrap();
    file.write_all_at(b"one", 0).unwrap();
    fs::rename(space.at("d"), space.at("e")).unwrap();
    fs::rename(space.at("e/a.md"), space.at("b.md")).unwrap();
    file.write_all_at(b" two", 3).unwrap();
    assert_eq!(seek(&file, SeekFrom::End(0)), Ok(7));
    drop(file);
    assert_eq!(fs::read_to_string(space.at("b.md")).unwrap(), "one two");
}

#[test]
fn the_mountpoint_itself_has_times_owner_and_permission_bits() {
    let Some(space) = Mounted::new() else { return };
    space.shell("chmod 750 . && touch -d @1000000000 . && chown $(id -u) .");
    let found = fs::metadata(space.at("")).unwrap();
    assert_eq!((found.mtime(), found.mode() & 0o777), (1_000_000_000, 0o750));
}

/// Shows: MNT-22
#[test]
fn times_before_1970_survive_to_the_nanosecond() {
    let Some(space) = Mounted::new() else { return };
    fs::write(space.at("a.md"), "text").unwrap();
    for (seconds, nanoseconds) in [(-2, 500_000_000), (-1, 750_000_000), (-1, 1), (-3, 0), (0, 250_000_000), (7, 5)] {
        let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, space.at("a.md"), &times, AtFlags::empty()).unwrap();
        for path in [space.at("a.md"), space.folder().join("root/a.md")] {
            let there = fs::metadata(path).unwrap();
            assert_eq!((there.mtime(), there.mtime_nsec()), (seconds, nanoseconds));
            assert_eq!((there.atime(), there.atime_nsec()), (seconds, nanoseconds));
        }
    }
}

/// Shows: MNT-28
#[test]
fn a_length_that_the_disk_has_not_is_refused_as_too_large() {
    let Some(space) = Mounted::new() else { return };
    fs::write(space.at("a.md"), "text").unwrap();
    let file = File::options().write(true).open(space.at("a.md")).unwrap();
    // More than files of any disk that we know of may have.
    let refused = rustix::fs::ftruncate(&file, i64::MAX as u64 - 4096);
    // Some disks say that it is no length at all.
    assert!(matches!(refused, Err(Errno::FBIG | Errno::INVAL)), "{refused:?}");
    drop(file);
    assert_eq!(fs::read_to_string(space.at("a.md")).unwrap(), "text");
}

/// Shows: MNT-31
#[test]
fn only_files_and_links_are_exchanged() {
    let Some(space) = Mounted::new() else { return };
    space.shell("echo a > a.md; mkdir d; mkfifo pipe");
    let exchange =
        |one: &str, other: &str| renameat_with(CWD, space.at(one), CWD, space.at(other), RenameFlags::EXCHANGE);
    for (one, other) in [("a.md", "d"), ("d", "a.md"), ("a.md", "pipe"), ("pipe", "a.md")] {
        assert_eq!(exchange(one, other), Err(Errno::INVAL), "{one} and {other}");
    }
    assert_eq!(exchange("a.md", "nothing.md"), Err(Errno::NOENT));
    assert_eq!(fs::read_to_string(space.at("a.md")).unwrap(), "a\n");
}
