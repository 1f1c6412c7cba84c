//! `svcfs bench`

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Place, eventually, program, refusal, svcfs};

const SMALL: [&str; 10] =
    ["--files", "5", "--bulk", "20", "--search-files", "100", "--search-queries", "5", "--rounds", "1"];

/// A small benchmark in a directory: it runs three servers one after the other, on a machine that
/// may be busy.
fn small(directory: &str, more: &[&str]) -> assert_cmd::Command {
    let mut command = svcfs(&[&["bench", "--dir", directory][..], &SMALL, more].concat());
    command.timeout(Duration::from_secs(300));
    command
}

#[test]
fn a_small_benchmark_prints_the_tables_and_leaves_nothing() {
    let place = Place::new();
    let told = small(&place.at(""), &[]).assert().success().stderr("").get_output().stdout.clone();
    let told = String::from_utf8(told).unwrap();
    let row = |name: &str| -> Vec<String> {
        let row = told.lines().find(|line| line.starts_with(&format!("| {name}")));
        let row = row.unwrap_or_else(|| panic!("no row `{name}`: {told}"));
        row.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    for name in ["svcfs, HTTP `PUT`, 1 client", "svcfs, HTTP `PUT`, 64 clients", "bare: one flush"] {
        assert!(row(name)[3].parse::<u32>().unwrap() > 0, "{name}: {told}");
    }
    assert_eq!(row("`git add && git commit` ")[6], "1.00", "git is what is compared with: {told}");
    assert!(row("svcfs, HTTP `POST /bulk`")[3].ends_with('s'), "{told}");
    assert_eq!(row("rare word: `isthmus`")[2], "1", "{told}");
    assert!(told.contains(&format!("- svcfs: {}\n", env!("CARGO_PKG_VERSION"))), "{told}");
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0);
}

#[test]
fn a_benchmark_as_json_has_the_rows_of_every_table_with_units() {
    let place = Place::new();
    let told = small(&place.at(""), &["--json"]).assert().success().get_output().stdout.clone();
    let told: Value = serde_json::from_slice(&told).unwrap();
    let rows = |table: &str| told[table]["rows"].as_array().unwrap_or_else(|| panic!("no `{table}`: {told}")).clone();
    assert_eq!(told["machine"]["svcfs"], env!("CARGO_PKG_VERSION"));
    let writing = rows("writing");
    assert_eq!(writing.len(), 12);
    let one = writing.iter().find(|row| row["way"] == "svcfs, HTTP PUT, 1 client").unwrap();
    for key in ["pages_per_second", "p50_us", "p99_us", "times_git", "times_git_flushed", "times_one_flush"] {
        assert!(one[key].as_f64().unwrap() > 0.0, "{key}: {one}");
    }
    assert_eq!(rows("bulk").len(), 4);
    assert_eq!(rows("waits")[0]["writes"], 5);
    assert!(rows("history_size")[0]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(rows("searching").len(), 4);
    assert!(rows("starting").iter().all(|start| start["ready_us"].as_f64().unwrap() > 0.0));
}

#[test]
fn without_git_the_rest_is_measured_all_the_same() {
    let place = Place::new();
    let nothing_but_tools = place.path("bin");
    std::fs::create_dir(&nothing_but_tools).unwrap();
    for tool in ["cp", "df", "du", "find", "grep", "uname", "fusermount3"] {
        let folders = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&folders).map(|folder| folder.join(tool)).find(|path| path.exists());
        if let Some(found) = found {
            std::os::unix::fs::symlink(found, nothing_but_tools.join(tool)).unwrap();
        }
    }
    let mut command = small(&place.at(""), &["--json"]);
    let told = command.env("PATH", &nothing_but_tools).assert().success().get_output().stdout.clone();
    let told: Value = serde_json::from_slice(&told).unwrap();
    let writing = told["writing"]["rows"].as_array().unwrap();
    assert!(writing[0]["pages_per_second"].as_f64().unwrap() > 0.0 && writing[0]["times_git"].is_null(), "{told}");
    assert!(told["writing"]["notes"].to_string().contains("git is not installed"), "{told}");
    assert!(told.get("history_size").is_none());
}

#[test]
fn ctrl_c_ends_a_benchmark_with_130_and_removes_its_server() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let mut child = program()
            .args(["bench", "--files", "1000", "--rounds", "1", "--search-files", "400", "--dir", &place.at("")])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let root = || std::fs::read_dir(place.path("")).unwrap().next().map(|found| found.unwrap().path().join("root"));
        eventually("its server answers", || root().is_some_and(|root| root.join(".svc/state/server.json").exists()));
        // Somebody impatient presses it twice.
        for _ in 0..2 {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0);
        assert!(!is_used(&place.path("")), "a process works on it");
    }
}

#[test]
fn a_killed_benchmark_is_cleaned_up_by_the_next_one() {
    let place = Place::new();
    let start = || {
        let mut command = program();
        command.args(["bench", "--files", "1000", "--rounds", "1", "--search-files", "400", "--dir", &place.at("")]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    let directories =
        || std::fs::read_dir(place.path("")).unwrap().map(|found| found.unwrap().path()).collect::<Vec<_>>();
    let is_served = || directories().iter().any(|found| found.join("root/.svc/state/server.json").exists());
    let mut killed = start();
    eventually("its server answers", is_served);
    let left = directories();
    killed.kill().unwrap();
    killed.wait().unwrap();
    eventually("its server ends, too", || !is_used(&place.path("")));
    assert_eq!(directories(), left);
    let mut next = start();
    eventually("the next one begins", || directories().iter().any(|found| !left.contains(found)));
    assert!(!left[0].exists());
    kill_process(Pid::from_child(&next), Signal::INT).unwrap();
    assert_eq!(next.wait().unwrap().code(), Some(130));
    assert_eq!(directories().len(), 0);
}

/// Whether the command line of any process names a directory.
fn is_used(directory: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line.contains(directory.to_str().unwrap()))
}

#[test]
fn an_unmeasurable_benchmark_is_refused_before_any_write() {
    for (flags, told) in [
        (["--files", "0"], "0 is not in 1..=100000"),
        (["--bulk", "10001"], "10001 is not in 1..=10000"),
        (["--search-files", "a lot"], "invalid digit"),
        (["--search-queries", "99999999999999999999"], "--search-queries"),
        (["--rounds", ""], "--rounds"),
    ] {
        assert!(refusal(&["bench", flags[0], flags[1]], 2).contains(told), "{flags:?}");
    }
    let place = Place::with_root();
    place.write("file", "not a directory");
    let before = place.git("kb", &["status", "--porcelain"]);
    std::fs::create_dir(place.path("kb/notes")).unwrap();
    for (directory, told) in [
        ("nowhere", "an existing directory"),
        ("file", "is not a directory"),
        ("kb", "is inside the knowledge base"),
        ("kb/notes", "is inside the knowledge base"),
    ] {
        assert!(refusal(&["bench", "--dir", &place.at(directory)], 3).contains(told), "{directory}");
    }
    assert_eq!(place.git("kb", &["status", "--porcelain"]), before);
    // No disk at all.
    let told = refusal(&["bench", "--dir", "/proc"], 3);
    assert!(told.contains("has 0 MiB free") && told.contains("--search-files"), "{told}");
}
