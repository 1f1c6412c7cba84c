//! git on the command line: what a person would use instead, and what looks at the history that svcfs wrote.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::http::ACTORS;
use crate::machine::{run, size_on_disk};
use crate::measure::{Bound, Round, timed};
use crate::pages::Pages;

/// Whether git flushes what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// As git comes: new objects are not flushed, a power cut may take acknowledged commits.
    AsGitComes,
    /// Every object and reference, as svcfs promises it.
    Everything,
}

/// git in a repository, whatever the user's own settings say. It does not begin to collect garbage in the middle of a run.
pub fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository).args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

/// Makes an empty repository on the branch `main`.
///
/// # Errors
/// When git fails.
pub fn init(root: &Path) -> Result<()> {
    run(git(root).args(["init", "--quiet", "--initial-branch=main"])).map(drop)
}

/// Makes a repository of a tree: one commit, packed.
///
/// # Errors
/// When git fails.
pub fn begin(tree: &Path) -> Result<()> {
    run(git(tree).args(["init", "--quiet"]))?;
    run(git(tree).args(["add", "--all"]))?;
    run(git(tree).args(["commit", "--quiet", "--message=begin"]))?;
    run(git(tree).args(["gc", "--quiet"])).map(drop)
}

/// Rewrites pages, each followed by `git add` and `git commit` under its author.
///
/// # Errors
/// When git fails.
pub fn commit_each(tree: &Path, pages: Pages, (flush, bound): (Flush, Bound), first: usize) -> Result<Round> {
    let flushing: &[&str] = match flush {
        Flush::AsGitComes => &[],
        Flush::Everything => &["-c", "core.fsync=all"],
    };
    timed(bound, |at| {
        let write = first + at;
        let page = pages.scattered(write);
        let path = pages.path(page);
        std::fs::write(tree.join(&path), pages.text(page, write + 1))?;
        run(git(tree).args(flushing).args(["add", "--", &path]))?;
        let author = format!("--author=agent-{} <agent@localhost>", write % ACTORS);
        run(git(tree).args(flushing).args(["commit", "--quiet", &author, "--message", &path])).map(drop)
    })
}

/// How many commits lead to HEAD.
///
/// # Errors
/// When git fails.
pub fn commits(repository: &Path) -> Result<usize> {
    Ok(run(git(repository).args(["rev-list", "--count", "HEAD"]))?.trim().parse()?)
}

/// Makes sure that every writer over HTTP stands as an author in history.
///
/// # Errors
/// When one is missing, or git fails.
pub fn check_authors(repository: &Path) -> Result<()> {
    let told = run(git(repository).args(["log", "--format=%an"]))?;
    let authors: BTreeSet<&str> = told.lines().collect();
    for actor in 0..ACTORS {
        let actor = format!("agent-{actor}");
        ensure!(authors.contains(&*actor), "no commit in `{}` is by `{actor}`", repository.display());
    }
    Ok(())
}

/// What history takes up.
#[derive(Debug)]
pub struct Size {
    /// Commits in it.
    pub commits: usize,
    /// Bytes on the disk as svcfs left them.
    pub as_left: u64,
    /// Packs in it.
    pub packs: usize,
    /// Bytes on the disk after `git gc` on a copy.
    pub collected: u64,
}

/// Weighs the repository of a stopped server.
///
/// # Errors
/// When git fails, or finds the repository damaged.
pub fn size(repository: &Path, scratch: &Path) -> Result<Size> {
    run(git(repository).args(["fsck", "--strict", "--no-dangling"]))?;
    let history = repository.join(".git");
    let copy = scratch.join("collected");
    run(Command::new("cp").arg("-a").arg(&history).arg(&copy))?;
    run(git(&copy).args(["gc", "--quiet"]))?;
    let packs = std::fs::read_dir(history.join("objects/pack"))?;
    let packs =
        packs.filter_map(Result::ok).filter(|entry| entry.path().extension().is_some_and(|kind| kind == "pack"));
    let size = Size {
        commits: commits(repository)?,
        as_left: size_on_disk(&history)?,
        packs: packs.count(),
        collected: size_on_disk(&copy)?,
    };
    std::fs::remove_dir_all(copy)?;
    Ok(size)
}
