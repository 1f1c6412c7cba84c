//! `pjdfstest`: what POSIX says of system calls, some four hundred tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Grounds, run, tool};

/// Which optional parts are tested, and on whose behalf: users that every Debian has.
const SETTINGS: &str = include_str!("pjdfstest.toml");
/// Tests that fail on the mount and pass on the disk, with the reason why.
const EXCLUSIONS: &str = include_str!("exclusions.toml");

/// How each test ended: `ok`, `FAILED` or `skipped`.
type Outcomes = BTreeMap<String, String>;

/// Runs all tests in a directory; how they ended, and all that was said.
fn outcomes(program: &Path, settings: &Path, directory: &Path) -> (Outcomes, String) {
    let arguments = ["-c", settings.to_str().unwrap(), "-p", directory.to_str().unwrap()];
    let output = run(program, &arguments, directory);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, outcome @ ("ok" | "FAILED" | "skipped")] => Some((name.to_owned(), outcome.to_owned())),
        _ => None,
    };
    let outcomes: Outcomes = text.lines().filter_map(line).collect();
    assert!(outcomes.len() > 300, "{}", String::from_utf8_lossy(&output.stderr));
    (outcomes, text)
}

fn failed(outcomes: &Outcomes) -> BTreeSet<&str> {
    outcomes.iter().filter(|(_, outcome)| *outcome == "FAILED").map(|(name, _)| name.as_str()).collect()
}

/// Shows: MNT-9
#[test]
fn what_passes_of_pjdfstest_on_the_disk_passes_on_the_mount() {
    let Some(program) = tool("pjdfstest") else { return };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: pjdfstest acts for several users, which takes root");
        return;
    }
    let Some(grounds) = Grounds::new() else { return };
    let settings = grounds.aside("pjdfstest.toml", SETTINGS);
    let (on_disk, _) = outcomes(&program, &settings, &grounds.disk());
    let (on_mount, said) = outcomes(&program, &settings, &grounds.mount());
    assert!(on_disk.keys().eq(on_mount.keys()), "not the same tests were run");
    let excluded: BTreeMap<String, String> = toml::from_str(EXCLUSIONS).unwrap();
    let excluded: BTreeSet<&str> = excluded.keys().map(String::as_str).collect();
    let worse: BTreeSet<&str> = failed(&on_mount).difference(&failed(&on_disk)).copied().collect();
    let unexcused: Vec<_> = worse.difference(&excluded).collect();
    assert!(unexcused.is_empty(), "these pass on the disk and fail on the mount: {unexcused:#?}\n{said}");
    let better: Vec<_> = excluded.difference(&worse).collect();
    assert!(better.is_empty(), "these do not fail on the mount; take them out of exclusions.toml: {better:#?}");
}
