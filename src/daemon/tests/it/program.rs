//! The program's own face: help, version, completions.

use std::io::Write;
use std::process::{Command, Stdio};

use predicates::prelude::*;
use predicates::str::contains;

use crate::harness::{refusal, svcfs};

const COMMANDS: [&str; 10] =
    ["init", "serve", "mount", "unmount", "reindex", "doctor", "bench", "call", "mcp", "completions"];

#[test]
fn the_help_names_every_command_and_every_exit_code() {
    let mut told = svcfs(&["--help"]).assert().success();
    for command in COMMANDS {
        told = told.stdout(contains(format!("\n  {command} ")));
    }
    for code in ["0  ", "1  ", "2  ", "3  ", "130"] {
        told = told.stdout(contains(format!("\n  {code}  ")));
    }
    told.stderr("");
}

#[test]
fn every_command_explains_itself_with_examples() {
    for command in COMMANDS {
        let is_whole = contains("Examples:\n  ").and(contains(format!("Usage: svcfs {command}")));
        svcfs(&[command, "--help"]).assert().success().stdout(is_whole);
    }
}

#[test]
fn no_line_of_the_help_is_too_long_for_a_page() {
    for command in COMMANDS {
        let help = svcfs(&[command, "--help"]).assert().success().get_output().stdout.clone();
        for line in String::from_utf8(help).unwrap().lines() {
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    svcfs(&["--version"]).assert().success().stdout(format!("svcfs {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_manual_describes_the_options_of_the_log() {
    let described = contains("Minimum level of log entries").and(contains("Format of log entries"));
    svcfs(&["man", "serve"]).assert().success().stdout(described);
}

#[test]
fn a_slip_on_the_command_line_ends_with_2_and_a_hint() {
    svcfs(&[]).assert().code(2).stdout("").stderr(contains("Commands:"));
    assert!(refusal(&["serv"], 2).contains("serve"));
    assert!(refusal(&["serve", "--rot", "x"], 2).contains("--root"));
    assert!(refusal(&["init", "--template", "wki"], 2).contains("wiki"));
    assert!(refusal(&["serve", "--port", "99999"], 2).contains("99999"));
}

#[test]
fn bash_can_read_its_completions() {
    let script = svcfs(&["completions", "bash"]).assert().success().get_output().stdout.clone();
    assert!(String::from_utf8(script.clone()).unwrap().contains("search_verified"), "operations complete, too");
    let mut bash = Command::new("bash").args(["-n", "/dev/stdin"]).stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(&script).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        svcfs(&["completions", shell]).assert().success().stdout(contains("reindex")).stderr("");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = crate::harness::program()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
