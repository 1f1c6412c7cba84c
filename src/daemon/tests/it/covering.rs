//! A mount over the root itself.

use std::io::Write;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::{Place, Running, can_mount, eventually, refusal, request, svcfs};

fn covers(place: &Place) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|line| line.contains(&format!(" {} ", place.canonical("kb"))) && line.contains("fuse.svcfs"))
}

/// False, with the reason printed, where a root cannot be covered.
fn can_cover() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: covering a root needs root");
    }
    is_root && can_mount()
}

fn serve(place: &Place) -> Running {
    Running::serve(&place.at("kb"), &["--mount", &place.at("kb")])
}

/// Shows: MNT-39
#[test]
fn a_mount_over_the_root_lets_nothing_write_behind_the_server() {
    if !can_cover() {
        return;
    }
    let place = Place::with_root();
    place.write("kb/before.md", "# Before\n");
    let server = serve(&place);
    assert!(covers(&place));
    assert_eq!(place.read("kb/before.md"), "# Before\n", "adopted, and shown");
    assert!(!place.has("kb/.git") && !place.has("kb/.svc/state/log.db"), "what is the server's is out of reach");
    std::thread::scope(|threads| {
        for writer in 0..4 {
            let place = &place;
            threads.spawn(move || {
                for page in 0..25 {
                    place.write(&format!("kb/d{writer}/{page}.md"), &format!("# Page {page} of {writer}\n"));
                }
            });
        }
    });
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=d0/0.md", "# Put\n").0, 200);
    assert_eq!(place.read("kb/d0/0.md"), "# Put\n");
    assert_eq!(request(server.url(), "GET", "/raw/d3/24.md", "").1, "# Page 24 of 3\n");
    // The root is a mount to everybody else.
    let told = refusal(&["serve", "--root", &place.at("kb"), "--port", "0"], 3);
    assert!(told.contains("is a mount of svcfs, not a root"), "{told}");
    let told = refusal(&["serve", "--root", &place.at("kb"), "--port", "0", "--mount", &place.at("kb")], 1);
    assert!(told.contains("is already mounted by svcfs"), "{told}");
    let log = server.stop();
    assert!(!log.contains("ERROR") && !covers(&place), "{log}");
    assert_eq!(place.read("kb/d0/0.md"), "# Put\n", "on the disk");
    assert_eq!(place.git("kb", &["status", "--porcelain"]), "");
    let authors = place.git("kb", &["log", "--format=%an", "--", "d0", "d1", "d2", "d3"]);
    assert_eq!(authors.lines().filter(|author| *author == "root").count(), 100, "{authors}");
    assert_eq!(authors.lines().filter(|author| *author == "ann").count(), 1, "{authors}");
    svcfs(&["doctor", "--root", &place.at("kb")]).assert().success();
}

/// Shows: MNT-39
#[test]
fn a_root_covered_by_a_killed_server_is_recovered_by_the_next() {
    if !can_cover() {
        return;
    }
    let place = Place::with_root();
    let mut server = serve(&place);
    let mut page = std::fs::File::create(place.path("kb/saved.md")).unwrap();
    page.write_all(b"# Saved\n").unwrap();
    page.sync_all().unwrap();
    drop(page);
    server.signal(Signal::KILL);
    server.ended();
    assert!(std::fs::read_dir(place.path("kb")).is_err(), "a dead mount");
    let told = refusal(&["reindex", "--root", &place.at("kb")], 3);
    assert!(told.contains("`svcfs unmount"), "{told}");
    let mut server = serve(&place);
    assert_eq!(place.read("kb/saved.md"), "# Saved\n");
    server.signal(Signal::KILL);
    server.ended();
    // Uncovered also where it is not to be covered again.
    let server = Running::serve(&place.at("kb"), &[]);
    assert!(!covers(&place));
    assert_eq!(request(server.url(), "GET", "/raw/saved.md", "").1, "# Saved\n");
    server.stop();
}

#[test]
fn a_root_is_covered_by_a_path_relative_to_the_current_dir() {
    if !can_cover() {
        return;
    }
    let place = Place::with_root();
    place.write("kb/before.md", "# Before\n");
    let mut mount = svcfs(&["mount", "--background", "--root", "kb", "kb"]);
    mount.current_dir(place.path("")).assert().success();
    assert!(covers(&place));
    assert_eq!(place.read("kb/before.md"), "# Before\n");
    svcfs(&["unmount", &place.at("kb")]).assert().success();
    assert!(!covers(&place));
}

/// Shows: MNT-39
#[test]
fn unmounting_a_covered_root_makes_external_edits_visible_again() {
    if !can_cover() {
        return;
    }
    let place = Place::with_root();
    let server = serve(&place);
    place.write("kb/through.md", "# Through\n");
    svcfs(&["unmount", &place.at("kb")]).assert().success();
    assert!(!covers(&place));
    place.write("kb/behind.md", "# Behind\n");
    let author = |page| place.git("kb", &["log", "-1", "--format=%an", "--", page]);
    eventually("the edit is recorded", || author("behind.md") == "fswatch");
    assert_eq!(author("through.md"), "root");
    server.stop();
}

/// Shows: MNT-39
#[test]
fn a_covering_server_releases_an_externally_unmounted_disk() {
    if !can_cover() {
        return;
    }
    let place = Place::with_root();
    std::fs::create_dir(place.path("disk")).unwrap();
    let command = |program: &str, arguments: &[&str]| {
        assert!(std::process::Command::new(program).args(arguments).arg(place.at("disk")).status().unwrap().success());
    };
    // As on most machines: what is mounted in one namespace is told to the others.
    command("mount", &["--bind", &place.at("disk")]);
    command("mount", &["--make-shared"]);
    let server = serve(&place);
    let seen =
        |name: &str| Path::new(&format!("/proc/{}/root{}", server.pid(), place.canonical(name))).join("f").exists();
    command("mount", &["-t", "tmpfs", "tmpfs"]);
    place.write("disk/f", "");
    assert!(seen("disk"));
    command("umount", &[]);
    assert!(!seen("disk"));
    server.stop();
    command("umount", &[]);
}
