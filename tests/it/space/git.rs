//! What plain git says of a repository.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::wait;

/// One commit, as `git log` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub author: String,
    pub subject: String,
    /// What was done to which path: `A`dded, `M`odified, `D`eleted; a change of the kind of file is
    /// `T`.
    pub files: Vec<(String, String)>,
}

/// Runs git in a folder; the standard output of a command that must succeed.
#[track_caller]
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    match asked(folder, arguments) {
        Ok(told) => told,
        Err(told) => panic!("git {arguments:?}: {told}"),
    }
}

/// Waits until git's index is up to date, which the server sees to at the end of a checkpoint.
/// Looks without locking it.
pub fn wait_for_index(folder: &Path) {
    let status = ["--no-optional-locks", "status", "--porcelain"];
    wait::until("git's index is up to date", || git(folder, &status).is_empty());
}

/// Runs git in a folder; its standard output, or all it told when it failed.
pub fn asked(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        // Neither the settings of who runs the tests nor the ownership of a temporary folder decide
        // what is seen.
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null"), ("LC_ALL", "C")])
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout)))
}

/// Every commit, oldest first.
pub fn log(folder: &Path) -> Vec<Commit> {
    let format = "--format=%x01%an%x02%s%x02";
    let text = git(folder, &["log", "--reverse", "--topo-order", "--no-renames", "--name-status", "-z", format]);
    text.split('\u{1}').skip(1).map(commit).collect()
}

fn commit(text: &str) -> Commit {
    let mut parts = text.split('\u{2}');
    let mut next = || parts.next().unwrap().to_owned();
    let (author, subject, files) = (next(), next(), next());
    let words: Vec<&str> = files.split('\0').map(str::trim_start).filter(|word| !word.is_empty()).collect();
    let files = words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
    Commit { author, subject, files }
}

/// What a path held after each commit, oldest first.
pub fn contents(folder: &Path, path: &str) -> Vec<String> {
    let commits = git(folder, &["log", "--reverse", "--format=%H"]);
    commits.lines().map(|commit| git(folder, &["show", &format!("{commit}:{path}")])).collect()
}

/// Every file of the newest commit with its blob hash.
pub fn head(folder: &Path) -> BTreeMap<String, String> {
    let text = git(folder, &["ls-tree", "-r", "-z", "HEAD"]);
    let entries = text.split('\0').filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let (about, path) = entry.split_once('\t').unwrap();
            (path.to_owned(), about.rsplit(' ').next().unwrap().to_owned())
        })
        .collect()
}

/// Whether there is any commit.
pub fn has_commits(folder: &Path) -> bool {
    !git(folder, &["for-each-ref", "--count=1", "refs/heads"]).is_empty()
}
