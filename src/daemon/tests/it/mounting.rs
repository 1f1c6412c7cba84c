//! `svcfs mount`, `svcfs unmount` and `svcfs serve --mount`

use std::io::Write;

use rustix::process::Signal;

use crate::harness::{Place, Running, can_mount, program, refusal, request, svcfs};

fn mounted(place: &Place) -> bool {
    let at = place.path("mnt").canonicalize().unwrap();
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.contains(&format!(" {} ", at.display()))
}

fn place() -> Place {
    let place = Place::with_root();
    std::fs::create_dir(place.path("mnt")).unwrap();
    place
}

#[test]
fn a_save_in_the_folder_is_served_and_versioned_and_the_folder_goes_with_the_server() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    assert!(mounted(&place));
    place.write("mnt/saved.md", "# Saved\n");
    assert_eq!(request(server.url(), "GET", "/raw/saved.md", ""), (200, "# Saved\n".to_owned()));
    server.stop();
    assert!(!mounted(&place));
    assert_eq!(place.git("kb", &["show", "HEAD:saved.md"]), "# Saved");
}

#[test]
fn what_a_program_holds_open_is_saved_at_the_end() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    let mut open = std::fs::File::create(place.path("mnt/open.md")).unwrap();
    open.write_all(b"# Open\n").unwrap();
    let log = server.stop();
    assert!(log.contains("still open for writing"), "{log}");
    assert_eq!(place.git("kb", &["show", "HEAD:open.md"]), "# Open");
}

#[test]
fn mount_serves_the_folder_alone() {
    if !can_mount() {
        return;
    }
    let place = place();
    let mut command = program();
    command.args(["mount", &place.at("mnt"), "--root", &place.at("kb")]);
    let server = Running::start(command, "svcfs mounts");
    place.write("mnt/alone.md", "# Alone\n");
    let told = refusal(&["call", "tree", "--root", &place.at("kb")], 3);
    assert!(told.contains(&format!("process {}", server.pid())), "{told}");
    server.stop();
    assert!(!mounted(&place));
    assert_eq!(place.git("kb", &["show", "HEAD:alone.md"]), "# Alone");
}

#[test]
fn unmount_takes_a_live_mount_away_and_the_server_goes_on() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    svcfs(&["unmount", &place.at("mnt")]).assert().success();
    assert!(!mounted(&place));
    assert_eq!(request(server.url(), "GET", "/readyz", "").0, 200);
    server.stop();
}

#[test]
fn unmount_takes_the_mount_of_a_dead_server_away() {
    if !can_mount() {
        return;
    }
    let place = place();
    let mut server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    server.signal(Signal::KILL);
    server.ended();
    assert!(std::fs::read_dir(place.path("mnt")).is_err(), "a dead mount");
    svcfs(&["unmount", &place.at("mnt")]).assert().success();
    assert_eq!(std::fs::read_dir(place.path("mnt")).unwrap().count(), 0);
    svcfs(&["reindex", "--root", &place.at("kb")]).assert().success();
}

#[test]
fn unmount_leaves_everything_else_alone() {
    let place = place();
    let told = refusal(&["unmount", &place.at("mnt")], 3);
    assert!(told.contains("nothing of svcfs is mounted"), "{told}");
    refusal(&["unmount", "/proc"], 3);
    let told = refusal(&["unmount", &place.at("nowhere")], 3);
    assert!(told.contains("nothing is mounted there"), "{told}");
}
