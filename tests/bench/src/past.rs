//! Questions about a long history, beside the git commands that answer them.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use svcfs_measure::git;
use svcfs_measure::http::{ACTOR_COUNT, BenchClient, percent_encode};
use svcfs_measure::machine;
use svcfs_measure::pages::PageTree;
use svcfs_measure::plan::RunPlan;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{RoundSeries, round_bound};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, factor, format_duration, text};

use crate::plan::Extent;

/// One commit in so many touches the busy page.
const BUSY_EVERY: usize = 100;
/// Days over which the commits are spread: all of them are in the default period of `/velocity`.
const DAYS: usize = 28;
const SECONDS_A_DAY: usize = 86_400;
const BLAME: &str = "`/blame`";
/// Commits that are undone at once.
const UNDONE: usize = 1_000;

/// All that is measured of questions about history.
pub struct Past {
    /// Commits in it.
    pub commits: usize,
    /// Pages in its tree.
    pub pages: usize,
    /// Versions of the page that is asked about.
    pub versions: usize,
    /// From the start of the process until `/readyz`, reading all of git's history.
    pub first_start: Duration,
    /// The same again, with the log that was made then.
    pub next_start: Duration,
    /// One for each question.
    pub questions: Vec<Asked>,
    /// How many of the newest commits were undone at once, and how long it took.
    pub undo: (usize, Duration),
    /// Most memory of the server.
    pub memory: u64,
}

/// One question, as measured.
pub struct Asked {
    /// For people.
    pub name: &'static str,
    /// The first time after a start.
    pub first: Duration,
    /// svcfs, from the second time on.
    pub svcfs: RoundSeries,
    /// The git command that answers it.
    pub command: String,
    /// How long that takes.
    pub git: RoundSeries,
}

/// Measures questions about a history that a person made with git and svcfs adopted.
///
/// # Errors
/// When git or the server fails, when they disagree, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Past> {
    let root = run.path("past");
    std::fs::create_dir(&root)?;
    let (plan, commits) = (&extent.plan, extent.commits);
    run.report(&format!("a history of {commits} commits"));
    import(&root, plan.pages, commits)?;
    run.flush_disk()?;
    run.report("first start over it");
    let place = ServerPlace { root: &root, mountpoint: None, log: &run.path("past.log"), idle_time: plan.idle_time };
    let server = ServerProcess::start(run, place)?;
    let first_start = server.ready_after;
    server.wait_until_idle(run)?;
    server.stop()?;
    run.flush_disk()?;
    let server = ServerProcess::start(run, place)?;
    let next_start = server.ready_after;
    server.wait_until_idle(run)?;
    let page = plan.pages.path(0);
    let mut client = BenchClient::connect(server.address())?;
    let versions = check(&mut client, &root, &page, commits)?;
    // Its first answers were those of the check.
    server.stop()?;
    let server = ServerProcess::start(run, place)?;
    server.wait_until_idle(run)?;
    let mut client = BenchClient::connect(server.address())?;
    let mut questions = Vec::new();
    for question in questions_about(&root, &page, commits)? {
        questions.push(ask(run, &mut client, (&root, plan), question)?);
    }
    run.report("history: undo");
    let undo = undo(&mut client, &root)?;
    let memory = server.memory()?.peak;
    server.stop()?;
    Ok(Past { commits, pages: plan.pages.count, versions, first_start, next_start, questions, undo, memory })
}

/// What is asked: for people, of svcfs, of git.
struct Question {
    name: &'static str,
    target: String,
    git: Vec<String>,
}

fn questions_about(root: &Path, page: &str, commits: usize) -> Result<Vec<Question>> {
    let middle =
        machine::run(git::git_command(root).args(["rev-parse", &format!("HEAD~{}", commits / 2)]))?.trim().to_owned();
    let encoded = percent_encode(page);
    let question = |name, target: String, git: &str| Question {
        name,
        target: format!("/api/svc/{target}"),
        git: git.split(' ').map(str::to_owned).collect(),
    };
    let all = "log --since=30.days --format=%H%x09%an%x09%at --name-only";
    Ok(vec![
        question(
            "`/versions`",
            format!("versions?path={encoded}"),
            &format!("log --follow --format=%H%x09%an%x09%at%x09%s -- {page}"),
        ),
        question(
            "`/changes`, the newest 50",
            "changes".to_owned(),
            "log -n 50 --name-status --format=%H%x09%an%x09%at",
        ),
        question(
            "`/changes`, 500 from the middle on",
            format!("changes?limit=500&since={middle}"),
            &format!("log --reverse --name-status --format=%H%x09%an%x09%at {middle}..HEAD"),
        ),
        question("`/timeline`", "timeline".to_owned(), "log -n 50 --name-status --format=%H%x09%an%x09%at%x09%s"),
        question(
            "`/timeline`, one actor, one folder, at 500",
            "timeline?actor=agent-3&path_prefix=folder-000&offset=100&limit=500".to_owned(),
            "log --author=agent-3 --skip=100 -n 500 --name-status --format=%H%x09%an%x09%at%x09%s -- folder-000",
        ),
        question("`/velocity`", "velocity".to_owned(), all),
        question("`/feed.xml`", "feed.xml".to_owned(), "log -n 50 --name-status --format=%H%x09%an%x09%at%x09%B"),
        question(BLAME, format!("blame?path={encoded}"), &format!("blame --line-porcelain HEAD -- {page}")),
    ])
}

fn ask(run: &BenchRun, client: &mut BenchClient, (root, plan): (&Path, &RunPlan), question: Question) -> Result<Asked> {
    let Question { name, target, git } = question;
    run.report(&format!("history: {name}"));
    let once = run.measure_round(round_bound(1, 60), |_| client.get(&target).map(drop))?;
    let (mut svcfs, mut of_git) = (RoundSeries::default(), RoundSeries::default());
    svcfs.add(run.measure_round(plan.search_round, |_| client.get(&target).map(drop))?);
    of_git.add(run.measure_round(plan.grep_round, |_| machine::run(git::git_command(root).args(&git)).map(drop))?);
    Ok(Asked { name, first: once.elapsed, svcfs, command: format!("git {}", git[0]), git: of_git })
}

impl Past {
    /// The slowest of the questions that are answered from the log, and blame: at their p99.
    pub fn slowest(&self) -> (Option<Duration>, Option<Duration>) {
        let p99 = |is_blame: bool| {
            let asked = self.questions.iter().filter(|asked| (asked.name == BLAME) == is_blame);
            asked.filter_map(|asked| asked.svcfs.percentile(0.99)).max()
        };
        (p99(false), p99(true))
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let Self { commits, pages, versions, .. } = self;
        let columns = vec![
            column(
                format!("history: {commits} commits on {pages} pages, {versions} versions of the page asked for"),
                "question",
            ),
            column("first", "first_us"),
            column("p50", "p50_us"),
            column("p99", "p99_us"),
            column("in git", "command"),
            column("p50", "git_p50_us"),
            column("× git", "times_git"),
        ];
        let mut table = MarkdownTable::new("history", columns);
        for Asked { name, first, svcfs, command, git } in &self.questions {
            table.add_row([
                text(*name),
                TableCell::Time(Some(*first)),
                TableCell::Time(svcfs.percentile(0.5)),
                TableCell::Time(svcfs.percentile(0.99)),
                text(format!("`{command}`")),
                TableCell::Time(git.percentile(0.5)),
                factor(svcfs.typical_rate(), git.typical_rate()),
            ]);
        }
        let asked: Vec<String> = self.questions.iter().map(|asked| asked.svcfs.len().to_string()).collect();
        table.notes.push(format!(
            "Questions per row: {}. Before that, the first start over this history, which a person made with git, took {}, \
             the next {}; the server had at most {}. After them, the newest {} commits were undone in one commit in {}.",
            asked.join(", "),
            format_duration(self.first_start),
            format_duration(self.next_start),
            TableCell::Bytes(self.memory),
            self.undo.0,
            format_duration(self.undo.1),
        ));
        table
    }
}

/// Undoes the newest [`UNDONE`] commits.
fn undo(client: &mut BenchClient, root: &Path) -> Result<(usize, Duration)> {
    let newest = machine::run(git::git_command(root).args(["log", "--format=%H", "-n", &UNDONE.to_string()]))?;
    let commits: Vec<&str> = newest.lines().collect();
    let before = machine::run(git::git_command(root).args(["rev-parse", &format!("HEAD~{}^{{tree}}", commits.len())]))?;
    let started = Instant::now();
    let answer: Value = serde_json::from_slice(&client.post("/api/svc/revert", &json!({ "commits": commits }))?)?;
    let elapsed = started.elapsed();
    ensure!(answer["conflicts"] == json!([]), "`/revert` found conflicts");
    let after = machine::run(git::git_command(root).args(["rev-parse", "HEAD^{tree}"]))?;
    ensure!(before == after, "`/revert` did not undo everything");
    Ok((commits.len(), elapsed))
}

/// Makes sure that svcfs and git tell the same; how many versions the page has.
fn check(client: &mut BenchClient, root: &Path, page: &str, commits: usize) -> Result<usize> {
    let encoded = percent_encode(page);
    let mut get = |target: &str| -> Result<Value> { Ok(serde_json::from_slice(&client.get(target)?)?) };
    let hashes = |answer: &Value| -> Vec<String> {
        let lines = answer.as_array().into_iter().flatten();
        lines.map(|line| line["hash"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let versions = hashes(&get(&format!("/api/svc/versions?path={encoded}"))?);
    let told = machine::run(git::git_command(root).args(["log", "--format=%H", "--", page]))?;
    ensure!(versions == told.lines().collect::<Vec<_>>(), "`/versions` and `git log` tell different versions");
    let blamed = hashes(&get(&format!("/api/svc/blame?path={encoded}"))?);
    let told = machine::run(git::git_command(root).args(["blame", "-l", "--root", "HEAD", "--", page]))?;
    let of_git: Vec<&str> = told.lines().filter_map(|line| line.get(..40)).collect();
    ensure!(blamed == of_git, "`/blame` and `git blame` tell different commits");
    let total = get("/api/svc/timeline")?["total"].as_u64().context("`/timeline` tells no total")?;
    // The first commit plants the tree.
    ensure!(total as usize >= commits, "`/timeline` counts {total} events of {commits} commits");
    let velocity = get("/api/svc/velocity")?;
    ensure!(velocity["total_changes"] == total, "`/velocity` counts {}, not {total}", velocity["total_changes"]);
    Ok(versions.len())
}

/// Makes the repository: one commit of all pages, then commits of one page each, by [`ACTOR_COUNT`]
/// in turn.
fn import(root: &Path, pages: PageTree, commits: usize) -> Result<()> {
    git::init(root)?;
    let mut importer = git::git_command(root);
    let mut importer =
        importer.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().context("cannot run git")?;
    let written = importer.stdin.take().context("`git fast-import` takes nothing").and_then(|input| {
        let mut input = BufWriter::new(input);
        write_history(&mut input, pages, commits)?;
        Ok(input.flush()?)
    });
    let status = importer.wait()?;
    written?;
    ensure!(status.success(), "`git fast-import`: {status}");
    machine::run(git::git_command(root).args(["reset", "--quiet", "--hard"])).map(drop)
}

fn write_history(input: &mut impl Write, pages: PageTree, commits: usize) -> Result<()> {
    let end = usize::try_from(jiff::Timestamp::now().as_second())?;
    let began = end - DAYS * SECONDS_A_DAY;
    for number in 0..commits {
        let second = began + number * DAYS * SECONDS_A_DAY / commits;
        let (actor, message) =
            (format!("agent-{}", number % ACTOR_COUNT), format!("agent-{}: {number}", number % ACTOR_COUNT));
        writeln!(input, "commit refs/heads/main\ncommitter {actor} <agent@localhost> {second} +0000")?;
        writeln!(input, "data {}\n{message}", message.len())?;
        let mut put = |page: usize, text: &str| {
            writeln!(input, "M 100644 inline {}\ndata {}\n{text}", pages.path(page), text.len())
        };
        if number == 0 {
            for page in 0..pages.count {
                put(page, &pages.text(page, 0))?;
            }
        } else if number % BUSY_EVERY == 0 {
            put(0, &busy(pages, number / BUSY_EVERY))?;
        } else {
            put(
                1 + pages.scattered_page(number) % (pages.count - 1),
                &pages.text(pages.scattered_page(number), number),
            )?;
        }
    }
    Ok(writeln!(input, "done")?)
}

/// The busy page in one of its versions: each rewrites another line, and the lines of its head stay
/// as they were at first, so that who wrote them is only found at the very beginning.
fn busy(pages: PageTree, version: usize) -> String {
    let mut text = pages.text(0, 0);
    for line in 0..40 {
        let written = (version + 40 - line) / 40;
        text.push_str(&format!("\nLine {line}, written for the {written}. time.\n"));
    }
    text
}
