//! git on the command line: what a person would use instead, and what looks at the history that svcfs wrote.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::http::ACTORS;
use crate::machine::{run as execute, size_on_disk};
use crate::pages::{PageTree, RoundWork};
use crate::run::BenchRun;
use crate::series::{MeasuredRound, RoundBound, RoundSeries, bound};

/// How often git is asked what it tells of a history.
const ASKED: RoundBound = bound(3, 10);

/// Whether git flushes what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitFlush {
    /// As git comes: new objects are not flushed, a power cut may take acknowledged commits.
    AsGitComes,
    /// Every object and reference, as svcfs promises it.
    Everything,
}

impl GitFlush {
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::AsGitComes => &[],
            Self::Everything => &["-c", "core.fsync=all"],
        }
    }
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
    execute(git(root).args(["init", "--quiet", "--initial-branch=main"])).map(drop)
}

/// Makes a repository of a tree: one commit, packed.
///
/// # Errors
/// When git fails.
pub fn begin(tree: &Path) -> Result<()> {
    init(tree)?;
    execute(git(tree).args(["add", "--all"]))?;
    execute(git(tree).args(["commit", "--quiet", "--message=begin"]))?;
    execute(git(tree).args(["gc", "--quiet"])).map(drop)
}

/// Rewrites pages, each followed by `git add` and `git commit` under its author.
///
/// # Errors
/// When git fails, or when the run is to end.
pub fn commit_each(run: &BenchRun, tree: &Path, work: RoundWork, flush: GitFlush) -> Result<MeasuredRound> {
    let RoundWork { pages, bound, first } = work;
    run.timed(bound, |at| {
        let write = first + at;
        let (path, text) = pages.rewrite(write);
        std::fs::write(tree.join(&path), text)?;
        execute(git(tree).args(flush.settings()).args(["add", "--", &path]))?;
        let author = format!("--author=agent-{} <agent@localhost>", write % ACTORS);
        execute(git(tree).args(flush.settings()).args(["commit", "--quiet", &author, "--message", &path])).map(drop)
    })
}

/// Rewrites `pages` pages at a time, all of them one commit.
///
/// # Errors
/// When git fails, or when the run is to end.
pub fn commit_many(
    run: &BenchRun,
    tree: &Path,
    (work, pages): (RoundWork, usize),
    flush: GitFlush,
) -> Result<MeasuredRound> {
    let tree_of = work.pages;
    run.timed(work.bound, |at| {
        for write in (work.first + at * pages..).take(pages) {
            let (path, text) = tree_of.rewrite(write);
            std::fs::write(tree.join(path), text)?;
        }
        execute(git(tree).args(flush.settings()).args(["add", "--all"]))?;
        execute(git(tree).args(flush.settings()).args(["commit", "--quiet", "--message=many"])).map(drop)
    })
}

/// How many commits lead to HEAD.
///
/// # Errors
/// When git fails.
pub fn commits(repository: &Path) -> Result<usize> {
    Ok(execute(git(repository).args(["rev-list", "--count", "HEAD"]))?.trim().parse()?)
}

/// Makes sure that every writer over HTTP stands as an author in history.
///
/// # Errors
/// When one is missing, or git fails.
pub fn check_authors(repository: &Path) -> Result<()> {
    let told = execute(git(repository).args(["log", "--format=%an"]))?;
    let authors: BTreeSet<&str> = told.lines().collect();
    for actor in 0..ACTORS {
        let actor = format!("agent-{actor}");
        ensure!(authors.contains(&*actor), "no commit in `{}` is by `{actor}`", repository.display());
    }
    Ok(())
}

/// A history as svcfs left it, beside the same history after `git gc`.
#[derive(Debug)]
pub struct HistorySizes {
    /// Commits in it.
    pub commits: usize,
    /// Bytes on the disk as svcfs left them, and after `git gc`.
    pub size: (u64, u64),
    /// Packs.
    pub packs: usize,
    /// Objects with a file each.
    pub loose: usize,
    /// What git does with it.
    pub asked: Vec<GitQuestion>,
}

/// What git does with a history.
#[derive(Debug)]
pub struct GitQuestion {
    /// The command, for people.
    pub name: &'static str,
    /// How long it takes as svcfs left it.
    pub as_left: RoundSeries,
    /// How long it takes after `git gc`.
    pub collected: RoundSeries,
}

/// Weighs the repository of a stopped server, and asks it what git is asked every day.
///
/// # Errors
/// When git fails or finds the repository damaged, or when the run is to end.
pub fn look_at(run: &BenchRun, repository: &Path, pages: PageTree) -> Result<HistorySizes> {
    execute(git(repository).args(["fsck", "--strict", "--no-dangling"]))?;
    let history = repository.join(".git");
    let copy = run.at("collected");
    execute(Command::new("cp").arg("-a").arg(&history).arg(&copy))?;
    run.check()?;
    execute(git(&copy).args(["gc", "--quiet"]))?;
    let page = pages.path(pages.scattered(0));
    let mut asked = Vec::new();
    for (name, arguments) in [
        ("`git log`", &["log", "--format=%H%x09%an%x09%at%x09%s"][..]),
        ("`git log` of one page", &["log", "--format=%H", "--", &page]),
        ("`git blame` of one page", &["blame", "--line-porcelain", "HEAD", "--", &page]),
    ] {
        let mut of = GitQuestion { name, as_left: RoundSeries::default(), collected: RoundSeries::default() };
        of.as_left.add(run.timed(ASKED, |_| execute(git(&history).args(arguments)).map(drop))?);
        of.collected.add(run.timed(ASKED, |_| execute(git(&copy).args(arguments)).map(drop))?);
        asked.push(of);
    }
    asked.push(GitQuestion {
        name: "`git clone --bare --no-local`",
        as_left: cloned(run, &history)?,
        collected: cloned(run, &copy)?,
    });
    let told = execute(git(&history).args(["count-objects", "-v"]))?;
    let count = |what: &str| -> Result<usize> {
        let found = told.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
        Ok(found.with_context(|| format!("`git count-objects` tells no `{what}`"))?.trim().parse()?)
    };
    let left = HistorySizes {
        commits: commits(repository)?,
        size: (size_on_disk(&history)?, size_on_disk(&copy)?),
        packs: count("packs")?,
        loose: count("count")?,
        asked,
    };
    std::fs::remove_dir_all(copy)?;
    Ok(left)
}

fn cloned(run: &BenchRun, history: &Path) -> Result<RoundSeries> {
    let (mut series, to) = (RoundSeries::default(), run.at("cloned"));
    let clone = |_| {
        let arguments = ["clone", "--quiet", "--bare", "--no-local", "."];
        execute(git(history).args(arguments).arg(&to)).map(drop)
    };
    series.add(run.timed(bound(1, 1), clone)?);
    let (original, copied) = (commits(history)?, commits(&to)?);
    ensure!(original == copied, "a clone of `{}` has {copied} commits instead of {original}", history.display());
    std::fs::remove_dir_all(to)?;
    Ok(series)
}
