//! A person with plain git in the root.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::space::git::git;
use crate::space::wait;

/// Their name in history.
pub const NAME: &str = "Pat";

/// What git says when somebody else is at work in the same repository: the person then tries again.
const TRY_AGAIN: [&str; 10] = [
    // Another git has the index, or a branch.
    "index.lock': File exists",
    "cannot lock ref",
    "could not update HEAD",
    "could not lock",
    // What agents wrote since git looked, or what is not in `.git/index` yet.
    "You have unstaged changes",
    "Your index contains uncommitted changes",
    "would be overwritten by",
    "would be removed by",
    "not uptodate. Cannot merge",
    "local changes",
];

/// Nobody types faster.
fn breathe() {
    std::thread::park_timeout(Duration::from_millis(50));
}

fn is_about_others(said: &str) -> bool {
    TRY_AGAIN.iter().any(|known| said.contains(known))
}

/// Somebody who works in a clone, or in the root itself.
pub struct Person(PathBuf);

impl Person {
    /// Who works in a folder.
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Their clone of a repository.
    pub fn with_clone(of: &Path, folder: &Path) -> Self {
        git(of, &["clone", "--quiet", ".", folder.to_str().unwrap()]);
        Self::at(folder)
    }

    /// Runs git once; what it printed, or how it refused.
    pub fn tries(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new("git")
            .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null"), ("LC_ALL", "C")])
            .envs([("GIT_EDITOR", "true"), ("GIT_MERGE_AUTOEDIT", "no")])
            .args(["-c", "safe.directory=*", "-c", "user.email=pat@example.org", "-c"])
            .arg(format!("user.name={NAME}"))
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(said(&output.stdout))
        } else {
            Err(format!("{}{}", said(&output.stderr), said(&output.stdout)))
        }
    }

    /// Runs git until it succeeds; it may only be refused for what others do at the same moment.
    /// How often it was.
    #[track_caller]
    pub fn insists(&self, arguments: &[&str]) -> usize {
        let mut refusals = Vec::new();
        let deadline = Instant::now() + wait::LIMIT;
        while let Err(said) = self.tries(arguments) {
            let is_known = is_about_others(&said);
            refusals.push(said);
            assert!(is_known && Instant::now() < deadline, "git {arguments:?}, refused {refusals:#?}");
            breathe();
        }
        refusals.len()
    }

    /// Pulls and merges; a merge that could not be committed because somebody else had committed,
    /// they commit themselves.
    #[track_caller]
    pub fn merges(&self, arguments: &[&str]) {
        self.until_through(arguments, || {
            if self.0.join(".git/MERGE_HEAD").exists() {
                self.insists(&["commit", "--quiet", "--no-edit"]);
                return true;
            }
            false
        });
    }

    /// Rebases, or pulls with a rebase, and goes on until it is done, as git says one should. Who
    /// is refused at its end gives up and begins anew.
    #[track_caller]
    pub fn rebases(&self, arguments: &[&str]) {
        self.until_through(arguments, || {
            if self.0.join(".git/rebase-merge").exists() {
                self.insists(&["rebase", "--abort"]);
            }
            false
        });
    }

    /// Runs git until it succeeds, or until what is done after a refusal says that this was it.
    #[track_caller]
    fn until_through(&self, arguments: &[&str], mut refused: impl FnMut() -> bool) {
        let mut refusals = Vec::new();
        let deadline = Instant::now() + wait::LIMIT;
        while let Err(said) = self.tries(arguments) {
            assert!(is_about_others(&said), "git {arguments:?}: {said}");
            refusals.push(said);
            if refused() {
                return;
            }
            breathe();
            let last = || &refusals[refusals.len().saturating_sub(3)..];
            let seen =
                || (self.tries(&["status"]), self.tries(&["log", "-5", "--stat"]), self.tries(&["diff", "HEAD"]));
            let count = refusals.len();
            assert!(
                Instant::now() < deadline,
                "git {arguments:?}, refused {count} times, at last {:#?}, {:#?}",
                last(),
                seen()
            );
        }
    }

    /// Writes a page, and commits it and nothing else; which commit.
    #[track_caller]
    pub fn commits(&self, path: &str, text: &str) -> String {
        let file = self.0.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        self.insists(&["add", "--", path]);
        self.insists(&["commit", "--quiet", "--allow-empty", "-m", &format!("by hand: {path}")]);
        self.newest(&format!("by hand: {path}"))
    }

    /// The newest commit of theirs with a subject.
    #[track_caller]
    pub fn newest(&self, subject: &str) -> String {
        let pattern = format!("--grep=^{subject}$");
        let author = format!("--author={NAME}");
        let found = git(&self.0, &["log", "--all", "--format=%H", "--max-count=1", &author, &pattern]);
        assert!(!found.is_empty(), "no commit `{subject}`");
        found.trim().to_owned()
    }
}
