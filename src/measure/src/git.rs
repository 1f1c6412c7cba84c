//! git on the command line: the alternative to svcfs, and a check of the history that svcfs wrote.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::http::ACTOR_COUNT;
use crate::machine::{run as execute, size_on_disk};
use crate::pages::{PageTree, RoundWork};
use crate::run::BenchRun;
use crate::series::{MeasuredRound, RoundBound, RoundSeries, round_bound};

/// Repetitions of each git command on a history.
const GIT_ROUND: RoundBound = round_bound(3, 10);

/// Whether git flushes what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitFlush {
    /// The default of git: new objects are not flushed; a power failure may lose acknowledged
    /// commits.
    Default,
    /// All objects and references, as svcfs guarantees.
    All,
}

impl GitFlush {
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[],
            Self::All => &["-c", "core.fsync=all"],
        }
    }
}

/// git in a repository, independent of the user's settings and without automatic garbage
/// collection.
pub fn git_command(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository).args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

/// Creates an empty repository on the branch `main`.
pub fn init(root: &Path) -> Result<()> {
    execute(git_command(root).args(["init", "--quiet", "--initial-branch=main"])).map(drop)
}

/// Converts a tree to a repository with one packed commit.
pub fn import_tree(tree: &Path) -> Result<()> {
    init(tree)?;
    execute(git_command(tree).args(["add", "--all"]))?;
    execute(git_command(tree).args(["commit", "--quiet", "--message=begin"]))?;
    execute(git_command(tree).args(["gc", "--quiet"])).map(drop)
}

/// Rewrites pages, each followed by `git add` and `git commit` under its author.
///
/// # Errors
/// When git fails, or when the run is stopped.
pub fn commit_each(run: &BenchRun, tree: &Path, work: RoundWork, flush: GitFlush) -> Result<MeasuredRound> {
    let RoundWork { pages, bound, first_write: first } = work;
    run.measure_round(bound, |at| {
        let write = first + at;
        let (path, text) = pages.rewrite(write);
        std::fs::write(tree.join(&path), text)?;
        execute(git_command(tree).args(flush.settings()).args(["add", "--", &path]))?;
        let author = format!("--author=agent-{} <agent@localhost>", write % ACTOR_COUNT);
        execute(git_command(tree).args(flush.settings()).args(["commit", "--quiet", &author, "--message", &path]))
            .map(drop)
    })
}

/// Rewrites `pages` pages per commit.
///
/// # Errors
/// When git fails, or when the run is stopped.
pub fn commit_many(
    run: &BenchRun,
    tree: &Path,
    (work, pages): (RoundWork, usize),
    flush: GitFlush,
) -> Result<MeasuredRound> {
    let tree_of = work.pages;
    run.measure_round(work.bound, |at| {
        for write in (work.first_write + at * pages..).take(pages) {
            let (path, text) = tree_of.rewrite(write);
            std::fs::write(tree.join(path), text)?;
        }
        execute(git_command(tree).args(flush.settings()).args(["add", "--all"]))?;
        execute(git_command(tree).args(flush.settings()).args(["commit", "--quiet", "--message=many"])).map(drop)
    })
}

/// How many commits lead to HEAD.
pub fn count_commits(repository: &Path) -> Result<usize> {
    Ok(execute(git_command(repository).args(["rev-list", "--count", "HEAD"]))?.trim().parse()?)
}

/// Makes sure that every writer over HTTP stands as an author in history.
///
/// # Errors
/// When one is missing, or git fails.
pub fn check_authors(repository: &Path) -> Result<()> {
    let output = execute(git_command(repository).args(["log", "--format=%an"]))?;
    let authors: BTreeSet<&str> = output.lines().collect();
    for actor in 0..ACTOR_COUNT {
        let actor = format!("agent-{actor}");
        ensure!(authors.contains(&*actor), "no commit in `{}` is by `{actor}`", repository.display());
    }
    Ok(())
}

/// A history as svcfs wrote it, compared with the same history after `git gc`.
#[derive(Debug)]
pub struct HistorySizes {
    /// Number of commits.
    pub commits: usize,
    /// Bytes on disk as svcfs wrote them, and after `git gc`.
    pub size: (u64, u64),
    /// Number of packs.
    pub packs: usize,
    /// Number of loose objects.
    pub loose_objects: usize,
    /// Duration of git commands.
    pub queries: Vec<GitQuestion>,
}

/// One git command on a history.
#[derive(Debug)]
pub struct GitQuestion {
    /// The command, for display.
    pub name: &'static str,
    /// Durations as svcfs wrote the history.
    pub before_gc: RoundSeries,
    /// Durations after `git gc`.
    pub after_gc: RoundSeries,
}

/// Weighs the repository of a stopped server, and asks it what git is asked every day.
///
/// # Errors
/// When git fails or finds the repository damaged, or when the run is to end.
pub fn measure_history(run: &BenchRun, repository: &Path, pages: PageTree) -> Result<HistorySizes> {
    execute(git_command(repository).args(["fsck", "--strict", "--no-dangling"]))?;
    let history = repository.join(".git");
    let copy = run.path("collected");
    execute(Command::new("cp").arg("-a").arg(&history).arg(&copy))?;
    run.check_stop()?;
    execute(git_command(&copy).args(["gc", "--quiet"]))?;
    let page = pages.path(pages.scattered_page(0));
    let mut queries = Vec::new();
    for (name, arguments) in [
        ("`git log`", &["log", "--format=%H%x09%an%x09%at%x09%s"][..]),
        ("`git log` of one page", &["log", "--format=%H", "--", &page]),
        ("`git blame` of one page", &["blame", "--line-porcelain", "HEAD", "--", &page]),
    ] {
        let mut of = GitQuestion { name, before_gc: RoundSeries::default(), after_gc: RoundSeries::default() };
        of.before_gc.add(run.measure_round(GIT_ROUND, |_| execute(git_command(&history).args(arguments)).map(drop))?);
        of.after_gc.add(run.measure_round(GIT_ROUND, |_| execute(git_command(&copy).args(arguments)).map(drop))?);
        queries.push(of);
    }
    queries.push(GitQuestion {
        name: "`git clone --bare --no-local`",
        before_gc: cloned(run, &history)?,
        after_gc: cloned(run, &copy)?,
    });
    let output = execute(git_command(&history).args(["count-objects", "-v"]))?;
    let count = |what: &str| -> Result<usize> {
        let value = output.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
        Ok(value.with_context(|| format!("`git count-objects` reports no `{what}`"))?.trim().parse()?)
    };
    let sizes = HistorySizes {
        commits: count_commits(repository)?,
        size: (size_on_disk(&history)?, size_on_disk(&copy)?),
        packs: count("packs")?,
        loose_objects: count("count")?,
        queries,
    };
    std::fs::remove_dir_all(copy)?;
    Ok(sizes)
}

fn cloned(run: &BenchRun, history: &Path) -> Result<RoundSeries> {
    let (mut series, to) = (RoundSeries::default(), run.path("cloned"));
    let clone = |_| {
        let arguments = ["clone", "--quiet", "--bare", "--no-local", "."];
        execute(git_command(history).args(arguments).arg(&to)).map(drop)
    };
    series.add(run.measure_round(round_bound(1, 1), clone)?);
    let (original, copied) = (count_commits(history)?, count_commits(&to)?);
    ensure!(original == copied, "a clone of `{}` has {copied} commits instead of {original}", history.display());
    std::fs::remove_dir_all(to)?;
    Ok(series)
}
