//! What stands in the way of a start is told, and changes nothing.

use std::net::TcpListener;
use std::process::Command;

use crate::harness::{Place, can_mount, refusal, svcfs};

#[test]
fn a_root_that_is_a_file_is_refused_by_every_command() {
    let place = Place::new();
    place.write("kb", "not a directory");
    let root = place.at("kb");
    for command in [
        &["init"][..],
        &["serve", "--port", "0"],
        &["reindex"],
        &["doctor"],
        &["call", "tree"],
        &["mcp"],
        &["mount", "/mnt"],
    ] {
        let told = refusal(&[command, &["--root", &root]].concat(), 3);
        assert!(told.contains(&format!("root `{root}` is a file")), "{command:?}: {told}");
    }
    assert_eq!(place.read("kb"), "not a directory");
}

#[test]
fn a_directory_that_is_no_knowledge_root_is_not_initialised() {
    let place = Place::new();
    place.write("photos/cat.txt", "meow");
    for command in
        [&["reindex"][..], &["doctor"], &["doctor", "--fix"], &["call", "tree"], &["mcp"], &["mount", "/mnt"]]
    {
        let told = refusal(&[command, &["--root", &place.at("photos")]].concat(), 3);
        assert!(told.contains("svcfs init"), "{command:?}: {told}");
        let told = refusal(&[command, &["--root", &place.at("nowhere")]].concat(), 3);
        assert!(told.contains("does not exist"), "{command:?}: {told}");
    }
    assert!(!place.has("photos/.git") && !place.has("photos/.svc") && !place.has("nowhere"));
}

#[test]
fn an_unknown_setting_is_refused_with_the_nearest_known_name() {
    let place = Place::new();
    place.write("kb/.svc/config.toml", "[server]\nprot = 4000\n");
    let told = refusal(&["serve", "--root", &place.at("kb")], 2);
    assert!(told.contains("line 2: `server.prot` is not a known setting; did you mean `server.port`?"), "{told}");
    assert!(!place.has("kb/.svc/state") && !place.has("kb/.git"), "the root is not touched");
}

#[test]
fn a_setting_that_has_no_effect_yet_is_refused_as_such() {
    let place = Place::new();
    place.write("kb/.svc/config.toml", "[import]\nprefer_external = true\n");
    let told = refusal(&["serve", "--root", &place.at("kb")], 2);
    assert!(told.contains("`import.prefer_external`") && told.contains("not supported in this version"), "{told}");
}

#[test]
fn all_configuration_errors_are_reported_together() {
    let place = Place::new();
    place.write("mine.toml", "[servr]\n[import]\nprefer_external = true\n[server]\nport = \"x\"\n");
    let (root, config) = (place.at("kb"), place.at("mine.toml"));
    let told = refusal(&["serve", "--root", &root, "--create", "--config", &config, "--host", "256.1.1.1"], 2);
    for key in ["`servr`", "`import.prefer_external`", "`server.port`", "`--host`"] {
        assert!(told.contains(key), "{key}: {told}");
    }
    assert!(!place.has("kb"), "a root is not made for a server that does not start");
}

#[test]
fn a_settings_file_that_was_named_must_be_there() {
    let place = Place::new();
    let told = refusal(&["serve", "--create", "--root", &place.at("kb"), "--config", &place.at("no.toml")], 2);
    assert!(told.contains("no.toml"), "{told}");
}

#[test]
fn a_port_in_use_is_named_before_the_root_is_touched() {
    let place = Place::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let told = refusal(&["serve", "--create", "--root", &place.at("kb"), "--port", &port], 1);
    assert!(told.contains(&format!("port {port} is in use")) && told.contains("--port"), "{told}");
    assert!(!place.has("kb"));
}

#[test]
fn a_log_filter_that_cannot_be_read_is_refused() {
    let place = Place::new();
    let mut command = svcfs(&["serve", "--create", "--root", &place.at("kb"), "--port", "0"]);
    let told = command.env("SVC_LOG", "svcfs=loud=1").assert().code(2).get_output().stderr.clone();
    assert!(String::from_utf8(told).unwrap().contains("`SVC_LOG`"));
}

#[test]
fn a_failing_mountpoint_is_refused_and_everything_is_released() {
    if !can_mount() {
        return;
    }
    let place = Place::with_root();
    place.write("full/precious.md", "do not hide me");
    for (mountpoint, why) in [("full", "is not empty"), ("nowhere", "does not exist"), ("kb/.svc", "overlaps the root")]
    {
        let told = refusal(&["serve", "--root", &place.at("kb"), "--port", "0", "--mount", &place.at(mountpoint)], 1);
        assert!(told.contains(why), "{mountpoint}: {told}");
    }
    assert_eq!(place.read("full/precious.md"), "do not hide me");
    assert!(!place.has("kb/.svc/state/server.json"));
    svcfs(&["reindex", "--root", &place.at("kb")]).assert().success();
}

#[test]
fn a_root_that_is_new_is_not_begun_when_the_mountpoint_is_wrong() {
    if !can_mount() {
        return;
    }
    let place = Place::with_root();
    place.write("full/precious.md", "do not hide me");
    let new = place.at("new");
    let told = refusal(&["serve", "--create", "--root", &new, "--port", "0", "--mount", &place.at("full")], 1);
    assert!(told.contains("is not empty"), "{told}");
    assert!(!place.has("new"));
}

#[test]
fn a_read_only_root_is_refused() {
    let place = Place::with_root();
    let root = place.at("kb");
    let mounted =
        |arguments: &[&str]| Command::new("mount").args(arguments).status().is_ok_and(|status| status.success());
    if !mounted(&["--bind", &root, &root]) {
        println!("skipped: mounting needs privileges");
        return;
    }
    let is_read_only = mounted(&["-o", "remount,bind,ro", &root]);
    let outcome = std::panic::catch_unwind(|| {
        assert!(is_read_only);
        for command in [&["serve", "--port", "0"][..], &["init"], &["reindex"], &["mcp"]] {
            let told = refusal(&[command, &["--root", &root]].concat(), 3);
            assert!(told.contains("read-only"), "{command:?}: {told}");
        }
    });
    assert!(Command::new("umount").arg(&root).status().unwrap().success());
    outcome.unwrap();
}
