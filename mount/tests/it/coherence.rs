//! What other doors change is seen through the mount, and the other way round.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use svcfs_base::{Caller, Change, Protocol, TreePath};

use crate::mounted::{LIMIT, Mounted, options, put, remove, wait_for};

#[test]
fn an_open_after_an_acked_write_elsewhere_reads_the_new_bytes() {
    let Some(space) = Mounted::new() else { return };
    for length in 0..200 {
        let text = format!("{length} {}", "x".repeat(length));
        space.put("page.md", &text);
        assert_eq!(fs::read_to_string(space.at("page.md")).unwrap(), text);
    }
}

#[test]
fn a_listing_after_an_acked_change_elsewhere_has_the_new_names() {
    let Some(space) = Mounted::new() else { return };
    fs::create_dir(space.at("dir")).unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(space.at("dir")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for n in 0..100 {
        let name = format!("dir/{n:03}.md");
        space.put(&name, "text");
        assert_eq!(names().len(), 1 + n / 2, "after `{name}` came");
        // Once more, from what the kernel kept.
        assert_eq!(names().len(), 1 + n / 2);
        if n % 2 == 0 {
            space.remove(&name);
            assert_eq!(names().len(), n / 2, "after `{name}` went");
        }
        // Its own changes the kernel knows itself.
        fs::write(space.at("dir/own.txt"), "own").unwrap();
        assert_eq!(names().last().unwrap(), "own.txt");
        fs::remove_file(space.at("dir/own.txt")).unwrap();
        assert!(names().iter().all(|name| name != "own.txt"));
    }
}

#[test]
fn an_open_cached_file_shows_bytes_and_size_written_elsewhere() {
    let Some(space) = Mounted::new() else { return };
    space.put("page.md", "first");
    let mut file = File::open(space.at("page.md")).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    space.put("page.md", "second, and longer");
    wait_for(|| {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        text == "second, and longer" && file.metadata().unwrap().size() == 18
    });
}

#[test]
fn a_missing_name_is_found_once_another_protocol_creates_it() {
    let Some(space) = Mounted::new() else { return };
    fs::create_dir(space.at("dir")).unwrap();
    assert!(!space.at("dir/new.md").exists() && !space.at("fresh").exists());
    space.put("dir/new.md", "text");
    space.put("fresh/deep/new.md", "text");
    wait_for(|| space.at("dir/new.md").exists() && space.at("fresh/deep/new.md").exists());
    assert_eq!(fs::read_dir(space.at("fresh/deep")).unwrap().count(), 1);
}

#[test]
fn a_name_removed_by_another_protocol_disappears() {
    let Some(space) = Mounted::new() else { return };
    space.put("page.md", "text");
    assert!(space.at("page.md").exists());
    space.remove("page.md");
    wait_for(|| !space.at("page.md").exists());
    assert_eq!(fs::read_to_string(space.at("page.md")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn attributes_are_correct_immediately_after_own_writes() {
    let Some(space) = Mounted::new() else { return };
    for length in [3, 7, 1, 0, 5000] {
        fs::write(space.at("page.md"), "x".repeat(length)).unwrap();
        let found = fs::metadata(space.at("page.md")).unwrap();
        assert_eq!((found.size(), found.mode() & 0o7777, found.nlink()), (length as u64, 0o644, 1));
    }
}

#[test]
fn unsaved_bytes_are_visible_only_within_the_mount() {
    let Some(space) = Mounted::new() else { return };
    fs::write(space.at("page.md"), "saved").unwrap();
    let path = TreePath::parse("page.md").unwrap();
    let read = || space.vfs.read(Protocol::Http, &path).unwrap().content;
    wait_for(|| read() == "saved");
    let file = File::options().append(true).open(space.at("page.md")).unwrap();
    rustix::io::write(&file, b" and unsaved").unwrap();
    // Read in this process: a child would close its copy of the descriptor, and each close of a
    // copy publishes.
    assert_eq!(fs::read_to_string(space.at("page.md")).unwrap(), "saved and unsaved");
    assert_eq!(read(), "saved");
    drop(file);
    wait_for(|| read() == "saved and unsaved");
}

#[test]
fn appends_land_after_the_latest_write_of_another_protocol() {
    let Some(space) = Mounted::new() else { return };
    let mut expected = String::new();
    for round in 0..50 {
        expected += &format!("door {round}\n");
        space.put("log.md", &expected);
        space.shell(&format!("echo mount {round} >> log.md"));
        expected += &format!("mount {round}\n");
        assert_eq!(fs::read_to_string(space.at("log.md")).unwrap(), expected);
    }
}

#[test]
fn two_protocols_in_one_directory_do_not_block_each_other() {
    let Some(space) = Mounted::new() else { return };
    let (vfs, directory) = (&space.vfs, &space.at("d"));
    fs::create_dir(directory).unwrap();
    // Of one length: whoever reads in the moment of a change may find the end of one text after the
    // beginning of another.
    let text = |round: u32| format!("{round:03}");
    put(vfs, "d/shared.md", &text(0));
    std::thread::scope(|threads| {
        for worker in 0..4 {
            threads.spawn(move || {
                for round in 0..40 {
                    save_and_move(directory, worker, round);
                }
            });
        }
        threads.spawn(|| {
            for round in 1..=40 {
                put(vfs, "d/shared.md", &text(round));
                put(vfs, "d/other.md", "there");
                assert_eq!(fs::read_to_string(directory.join("shared.md")).unwrap(), text(round));
                remove(vfs, "d/other.md");
            }
        });
    });
    wait_for(|| !directory.join("other.md").exists());
    let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["moved0.md", "moved1.md", "moved2.md", "moved3.md", "shared.md"]);
}

fn save_and_move(directory: &Path, worker: u32, round: u32) {
    let (page, moved) = (directory.join(format!("{worker}.md")), directory.join(format!("moved{worker}.md")));
    let text = format!("{worker} {round}");
    fs::write(&page, &text).unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), text);
    fs::rename(&page, &moved).unwrap();
    assert_eq!(fs::read_to_string(&moved).unwrap(), text);
    assert!(fs::read_dir(directory).unwrap().any(|entry| entry.unwrap().path() == moved));
    let shared: u32 = fs::read_to_string(directory.join("shared.md")).unwrap().parse().unwrap();
    assert!(shared <= 40);
}

/// Shows: MNT-36
#[test]
fn a_save_through_one_mount_is_visible_through_another() {
    let Some(space) = Mounted::new() else { return };
    let (other, at) = space.another(&options());
    fs::create_dir(space.at("d")).unwrap();
    for round in 0..50 {
        // Of one length: neither size nor, on a coarse clock, time gives a change away.
        let (here, there) = (format!("here  {round:3}"), format!("there {round:3}"));
        fs::write(space.at("d/page.md"), &here).unwrap();
        assert_eq!(fs::read_to_string(at.join("d/page.md")).unwrap(), here);
        fs::write(at.join("d/page.md"), &there).unwrap();
        assert_eq!(fs::read_to_string(space.at("d/page.md")).unwrap(), there);
    }
    fs::rename(space.at("d/page.md"), space.at("d/moved.md")).unwrap();
    wait_for(|| !at.join("d/page.md").exists() && at.join("d/moved.md").exists());
    fs::remove_file(at.join("d/moved.md")).unwrap();
    wait_for(|| !space.at("d/moved.md").exists());
    other.stop(LIMIT).unwrap();
}

/// Shows: MNT-36
#[test]
fn a_working_directory_survives_its_own_mount_filling_it() {
    let Some(space) = Mounted::new() else { return };
    let (other, _) = space.another(&options());
    // A name taken back would be a directory that is gone.
    let printed = space
        .shell("mkdir fresh; cd fresh; for n in 1 2 3 4 5; do echo $n > $n.md; sync .; pwd -P; done | uniq | wc -l");
    assert_eq!(printed, "1\n");
    other.stop(LIMIT).unwrap();
}

/// Shows: MNT-12
#[test]
fn a_process_continues_with_a_page_renamed_elsewhere() {
    let Some(space) = Mounted::new() else { return };
    let rename = |from: &str, to: &str| {
        let path = |text| TreePath::parse(text).unwrap();
        space.vfs.apply(&Caller::new(Protocol::Http), Change::rename(path(from), path(to))).unwrap();
    };
    fs::create_dir(space.at("d")).unwrap();
    for (from, to, moved) in [("a.md", "b.md", ("a.md", "b.md")), ("d/a.md", "e/a.md", ("d", "e"))] {
        fs::write(space.at(from), "one two\n").unwrap();
        let mut file = File::options().read(true).write(true).open(space.at(from)).unwrap();
        rename(moved.0, moved.1);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two\n");
        file.write_at(b"ONE", 0).unwrap();
        file.sync_all().unwrap();
        rename(moved.1, "later");
        file.write_at(b"TWO", 4).unwrap();
        nix::unistd::close(file).unwrap();
        let now = if moved.1 == to { "later".to_owned() } else { to.replace(moved.1, "later") };
        wait_for(|| fs::read_to_string(space.at(&now)).is_ok_and(|text| text == "ONE TWO\n"));
        wait_for(|| !space.at(from).exists() && !space.at(to).exists());
        assert!(!space.at(".svc/rejected").exists());
        rename("later", &format!("over-{}", moved.1));
    }
}
