//! `--log-level`, `--log-format`, `SVC_LOG` and `RUST_LOG`.

use std::process::Stdio;

use serde_json::Value;

use crate::harness::{Place, Running, can_mount, program, request};

/// What `svcfs serve` logs while it serves a few requests, with these flags and variables.
fn served(place: &Place, flags: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = program();
    command.args(["serve", "--root", &place.at("kb"), "--port", "0"]).args(flags);
    let last = if can_mount() {
        std::fs::create_dir_all(place.path("mnt")).unwrap();
        command.args(["--mount", &place.at("mnt")]);
        "folder"
    } else {
        "agents"
    };
    command.envs(variables.iter().copied());
    let server = Running::start(command, last);
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=a.md", "# A\n").0, 200);
    assert_eq!(request(server.url(), "GET", "/api/svc/search?q=a", "").0, 200);
    assert_eq!(request(server.url(), "GET", "/api/svc/file?path=nowhere.md", "").0, 404);
    place.write("kb/edit.md", "# Edit\n");
    server.stop()
}

/// Fails for an entry of a dependency below a warning.
#[track_caller]
fn assert_own_targets(lines: &[Value]) {
    for line in lines {
        let (level, target) = (line["level"].as_str().unwrap(), line["target"].as_str().unwrap());
        assert!(target.starts_with("svcfs") || target == "access" || matches!(level, "WARN" | "ERROR"), "{line}");
    }
}

fn parsed(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn item_12_json_lines_have_the_five_fields_and_debug_is_only_svcfs() {
    let place = Place::with_root();
    let lines = parsed(&served(&place, &["--log-format", "json", "--log-level", "trace"], &[]));
    assert!(lines.iter().any(|line| line["level"] == "DEBUG" || line["level"] == "TRACE"), "{lines:?}");
    for line in &lines {
        let names: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["timestamp", "level", "target", "message", "fields"], "{line}");
        assert!(line["fields"].is_object() && line["message"].is_string(), "{line}");
    }
    assert_own_targets(&lines);
}

#[test]
fn item_12_the_flag_overrides_svc_log_which_overrides_rust_log() {
    let place = Place::with_root();
    let json = ["--log-format", "json"];
    for (flags, variables, has_debug, has_info) in [
        (&[][..], &[][..], false, true),
        (&[], &[("RUST_LOG", "debug")], true, true),
        (&[], &[("SVC_LOG", "error"), ("RUST_LOG", "debug")], false, false),
        (&["--log-level", "debug"], &[("SVC_LOG", "error")], true, true),
        (&["--log-level", "error"], &[("SVC_LOG", "debug")], false, false),
        (&["--log-level", "off"], &[], false, false),
    ] {
        let lines = parsed(&served(&place, &[&json[..], flags].concat(), variables));
        let has = |level: &str| lines.iter().any(|line| line["level"] == level);
        assert_eq!((has("DEBUG"), has("INFO")), (has_debug, has_info), "{flags:?} {variables:?}: {lines:?}");
        assert_own_targets(&lines);
    }
}

#[test]
fn item_12_a_bad_filter_names_where_it_was_given() {
    let place = Place::with_root();
    for (flags, variable, name) in [
        (&["--log-level", "debgu"][..], None, "--log-level"),
        (&["--log-level", "svcfs_vfs=loud"], None, "--log-level"),
        (&["--log-format", "xml"], None, "--log-format"),
        (&[], Some(("SVC_LOG", "debgu")), "SVC_LOG"),
        (&[], Some(("RUST_LOG", "svcfs=loud")), "RUST_LOG"),
    ] {
        let mut command = program();
        command.args(["serve", "--root", &place.at("kb"), "--port", "0"]).args(flags).envs(variable);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {errors}");
        assert!(errors.starts_with("svcfs: ") && errors.contains(name), "{name}: {errors}");
    }
}

#[test]
fn item_12_why_a_command_failed_is_a_log_line_in_json() {
    let place = Place::with_root();
    let output = program()
        .args(["serve", "--root", &place.at("kb"), "--host", "192.0.2.1", "--port", "1", "--log-format", "json"])
        .output()
        .unwrap();
    let lines = parsed(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{lines:?}");
    assert_eq!(lines.last().unwrap()["level"], "ERROR", "{lines:?}");
}
