//! Writing: svcfs over HTTP and over its mount, beside git and beside the bare filesystem.
//!
//! One rule: what is compared is measured in the same round, one after the other, with the disk
//! flushed and the server at rest in between. A machine that is busy with something else then slows
//! all of them alike.

mod tables;

pub use tables::{wait_row, wait_table};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::disk::{self, CloseMode};
use crate::git::{self, GitFlush, HistorySizes};
use crate::http::{self, ACTOR_COUNT, BenchClient, WriterCrowd};
use crate::machine;
use crate::pages::{PageTree, RoundWork};
use crate::plan::RunPlan;
use crate::run::BenchRun;
use crate::series::{MeasuredRound, RoundBound, RoundSeries, round_bound};
use crate::server::{ServerPlace, ServerProcess};

/// Number of concurrent clients.
pub const CROWD_CLIENTS: usize = 64;
/// Time limit for the commits that the rounds did not write.
const REST_OF_COMMITS: u64 = 120;

/// Results of writing.
#[derive(Default)]
pub struct WritingResults {
    /// HTTP, one client.
    pub http_one: RoundSeries,
    /// HTTP, [`CROWD_CLIENTS`].
    pub http_many: RoundSeries,
    /// Creating pages on the mount.
    pub mount_close: RoundSeries,
    /// The same with `fsync`.
    pub mount_fsync: RoundSeries,
    /// `cp -r` into the mount.
    pub mount_copy: RoundSeries,
    /// Why the mount was not measured.
    pub mount_error: Option<String>,
    /// `git add` and `git commit`.
    pub git: RoundSeries,
    /// The same with everything flushed.
    pub git_flushed: RoundSeries,
    /// Write and rename on the bare filesystem.
    pub bare_replace: RoundSeries,
    /// Creating pages on the bare filesystem.
    pub bare_close: RoundSeries,
    /// The same with `fsync`.
    pub bare_fsync: RoundSeries,
    /// `cp -r` on the bare filesystem.
    pub bare_copy: RoundSeries,
    /// One append and `fdatasync`.
    pub bare_append: RoundSeries,
    /// Many pages in one request, one commit.
    pub bulk: RoundSeries,
    /// Bulk writes without a pause, while search still indexes the previous ones.
    pub bulk_consecutive: RoundSeries,
    /// The same pages with `git add --all` and one `git commit`.
    pub git_bulk: RoundSeries,
    /// The same with everything flushed.
    pub git_bulk_flushed: RoundSeries,
    /// Pages per bulk write.
    pub bulk_pages: usize,
    /// Pages per `cp -r`.
    pub copy_pages: usize,
    /// Maximum time from the acknowledgement of a write after concurrent ones until search finds
    /// it.
    pub search_delay: Duration,
    /// Memory of the idle server before the first write.
    pub idle_memory: u64,
    /// Peak memory while [`CROWD_CLIENTS`] wrote.
    pub peak_memory: u64,
    /// Duration of the stop.
    pub stop_time: Duration,
    /// Size of the history; none without git.
    pub history: Option<HistorySizes>,
}

/// Paths of the measurements.
struct BenchField<'a> {
    run: &'a BenchRun,
    plan: &'a RunPlan,
    root: PathBuf,
    mountpoint: PathBuf,
    git: PathBuf,
    bare: PathBuf,
    /// Source of `cp -r`.
    small: PathBuf,
}

/// Measures everything about writing.
///
/// # Errors
/// When anything is refused, when history does not hold exactly one commit for every write, or when
/// the run is to end.
pub fn measure(run: &BenchRun, plan: &RunPlan) -> Result<WritingResults> {
    let field = BenchField {
        run,
        plan,
        root: run.path("root"),
        mountpoint: run.path("mnt"),
        git: run.path("git"),
        bare: run.path("bare"),
        small: run.path("small"),
    };
    run.report("planting the trees");
    for tree in [&field.root, &field.bare] {
        plan.pages.write_tree(run, tree)?;
    }
    PageTree::new(plan.copy_pages).write_tree(run, &field.small)?;
    std::fs::create_dir(&field.mountpoint)?;
    if run.has_git() {
        plan.pages.write_tree(run, &field.git)?;
        git::import_tree(&field.git)?;
    }
    let mut writing = WritingResults {
        mount_error: mount_error(),
        bulk_pages: plan.bulk_pages,
        copy_pages: plan.copy_pages,
        ..WritingResults::default()
    };
    let mountpoint = writing.mount_error.is_none().then_some(&*field.mountpoint);
    let log = run.path("server.log");
    let server =
        ServerProcess::start(run, ServerPlace { root: &field.root, mountpoint, log: &log, idle_time: plan.idle_time })?;
    server.wait_until_idle(run)?;
    writing.idle_memory = server.memory()?.resident;
    for round in 0..plan.rounds {
        run.report(&format!("writing, round {} of {}", round + 1, plan.rounds));
        field.round(&mut writing, &server, round).with_context(|| format!("in round {}", round + 1))?;
    }
    if run.has_git() {
        let missing = plan.min_commits.saturating_sub(git::count_commits(&field.root)?);
        if missing > 0 {
            let first = WriteNumbers::of(plan.rounds).take();
            let work =
                RoundWork { pages: plan.pages, bound: round_bound(missing, REST_OF_COMMITS), first_write: first };
            http::write_all(run, &server, WriterCrowd { clients: CROWD_CLIENTS, actors: ACTOR_COUNT, work })?;
        }
    }
    writing.stop_time = server.stop()?;
    if run.has_git() {
        run.report("git gc on a copy of what svcfs left");
        git::check_authors(&field.root)?;
        writing.history = Some(git::measure_history(run, &field.root, plan.pages)?);
    }
    Ok(writing)
}

/// Why a mount is impossible here, if so.
pub fn mount_error() -> Option<String> {
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse cannot be opened: {error}"));
    }
    let can_mount = rustix::process::geteuid().is_root() || machine::is_installed("fusermount3");
    (!can_mount).then(|| "`fusermount3` (package fuse3) is not installed".to_owned())
}

impl BenchField<'_> {
    fn round(&self, writing: &mut WritingResults, server: &ServerProcess, round: usize) -> Result<()> {
        let Self { run, plan, .. } = *self;
        let pages = plan.pages;
        let mut next = WriteNumbers::of(round);
        let mut work = |bound: RoundBound| RoundWork { pages, bound, first_write: next.take() };

        run.flush_disk()?;
        writing.bare_append.add(disk::append(run, plan.short_round, |at| pages.text(at, at + 1))?);
        writing.http_one.add(self.http(server, 1, work(plan.short_round))?.0);
        run.flush_disk()?;
        writing.bare_replace.add(disk::replace(run, &self.bare, work(plan.short_round))?);
        run.flush_disk()?;
        self.git(&mut writing.git, |tree| git::commit_each(run, tree, work(plan.short_round), GitFlush::Default))?;
        let (many, memory) = self.http(server, CROWD_CLIENTS, work(plan.long_round))?;
        writing.http_many.add(many);
        writing.peak_memory = writing.peak_memory.max(memory);
        writing.search_delay = writing.search_delay.max(found_after(server, round)?);
        server.wait_until_idle(run)?;
        run.flush_disk()?;
        self.git(&mut writing.git_flushed, |tree| git::commit_each(run, tree, work(plan.short_round), GitFlush::All))?;
        writing.bulk.add(self.bulk(server, work(plan.bulk_round), BulkLoad::Rested)?);
        writing.bulk_consecutive.add(self.bulk(server, work(plan.bulk_round), BulkLoad::AtWork)?);
        run.flush_disk()?;
        let many = (work(plan.bulk_round), plan.bulk_pages);
        self.git(&mut writing.git_bulk, |tree| git::commit_many(run, tree, many, GitFlush::Default))?;
        let many = (work(plan.bulk_round), plan.bulk_pages);
        self.git(&mut writing.git_bulk_flushed, |tree| git::commit_many(run, tree, many, GitFlush::All))?;
        writing.bare_close.add(disk::create(run, &self.bare, work(plan.creation_round), CloseMode::NoFsync)?);
        run.flush_disk()?;
        writing.bare_fsync.add(disk::create(run, &self.bare, work(plan.creation_round), CloseMode::Fsync)?);
        run.flush_disk()?;
        let name = format!("copied-{round}");
        writing.bare_copy.add_counted(plan.copy_pages, disk::copy(&self.small, &self.bare.join(&name))?);
        if writing.mount_error.is_some() {
            return Ok(());
        }
        run.flush_disk()?;
        writing.mount_close.add(self.mount(server, work(plan.creation_round), CloseMode::NoFsync)?);
        run.flush_disk()?;
        writing.mount_fsync.add(self.mount(server, work(plan.creation_round), CloseMode::Fsync)?);
        run.flush_disk()?;
        let before = count_commits(run, &self.root)?;
        let copied = disk::copy(&self.small, &self.mountpoint.join(&name))?;
        writing.mount_copy.add_counted(plan.copy_pages, copied + measure_drain(server)?);
        self.expect(before, plan.copy_pages + 1)?;
        server.wait_until_idle(run)
    }

    /// The same work with git, if installed.
    fn git(&self, series: &mut RoundSeries, work: impl FnOnce(&Path) -> Result<MeasuredRound>) -> Result<()> {
        if self.run.has_git() {
            series.add(work(&self.git)?);
            self.run.flush_disk()?;
        }
        Ok(())
    }

    /// Durable writes, each with its own request and commit.
    fn http(&self, server: &ServerProcess, clients: usize, work: RoundWork) -> Result<(MeasuredRound, u64)> {
        let before = count_commits(self.run, &self.root)?;
        let crowded = http::write_all(self.run, server, WriterCrowd { clients, actors: ACTOR_COUNT, work })?;
        self.expect(before, crowded.round.latencies.len())?;
        if clients == 1 {
            server.wait_until_idle(self.run)?;
        }
        self.run.flush_disk()?;
        Ok((crowded.round, crowded.memory.resident))
    }

    /// Bulk writes: one request and one commit each.
    fn bulk(&self, server: &ServerProcess, work: RoundWork, meanwhile: BulkLoad) -> Result<MeasuredRound> {
        let before = count_commits(self.run, &self.root)?;
        let (RoundWork { pages, bound, first_write: first }, count) = (work, self.plan.bulk_pages);
        let mut client = BenchClient::connect(server.address())?;
        let files = |at: usize| (first + at * count..).take(count).map(move |write| pages.rewrite(write));
        let mut round = MeasuredRound { latencies: Vec::new(), elapsed: Duration::ZERO };
        while round.latencies.len() < bound.count && round.elapsed < bound.time {
            if meanwhile == BulkLoad::Rested {
                server.wait_until_idle(self.run)?;
            }
            let at = round.latencies.len();
            let one = self.run.measure_round(RoundBound { count: 1, ..bound }, |_| client.write_many(files(at)))?;
            round.latencies.extend(one.latencies);
            round.elapsed += one.elapsed;
        }
        self.expect(before, round.latencies.len())?;
        server.wait_until_idle(self.run)?;
        Ok(round)
    }

    /// Creates pages on the mount. The time of pages that were only closed includes their commit.
    fn mount(&self, server: &ServerProcess, work: RoundWork, close: CloseMode) -> Result<MeasuredRound> {
        let before = count_commits(self.run, &self.root)?;
        let MeasuredRound { latencies, elapsed } = disk::create(self.run, &self.mountpoint, work, close)?;
        let elapsed = elapsed + measure_drain(server)?;
        self.expect(before, latencies.len() + 1)?;
        server.wait_until_idle(self.run)?;
        Ok(MeasuredRound { latencies, elapsed })
    }

    /// Verifies the number of new commits.
    fn expect(&self, before: Option<usize>, more: usize) -> Result<()> {
        expect_commits(self.run, &self.root, before.map(|before| before + more))
    }
}

/// Number of commits of a root; none without git.
///
/// # Errors
/// When git fails.
pub fn count_commits(run: &BenchRun, root: &Path) -> Result<Option<usize>> {
    run.has_git().then(|| git::count_commits(root)).transpose()
}

/// Verifies that there is exactly one commit per write.
///
/// # Errors
/// When there are more or fewer.
pub fn expect_commits(run: &BenchRun, root: &Path, expected: Option<usize>) -> Result<()> {
    let counted = count_commits(run, root)?;
    if let (Some(counted), Some(expected)) = (counted, expected) {
        ensure!(counted == expected, "{counted} commits in history instead of {expected}: not one for every write");
    }
    Ok(())
}

/// Time until all accepted writes are durable and committed: one more durable write is queued
/// behind them.
///
/// # Errors
/// When the write fails.
pub fn measure_drain(server: &ServerProcess) -> Result<Duration> {
    let mut client = BenchClient::connect(server.address())?;
    let begun = Instant::now();
    client.write("settled.md", format!("# Settled\n\n{begun:?}\n"))?;
    Ok(begun.elapsed())
}

/// Time from the acknowledgement of a write until search finds it, while the indexer processes
/// earlier ones.
fn found_after(server: &ServerProcess, round: usize) -> Result<Duration> {
    let mut client = BenchClient::connect(server.address())?;
    let word = format!("needle{round}stack");
    client.write("needle.md", format!("# Needle\n\nThe word is {word}.\n"))?;
    let acknowledged = Instant::now();
    while client.search(&word, 1)?.is_empty() {
        ensure!(acknowledged.elapsed() < Duration::from_secs(60), "search does not find `{word}`");
    }
    Ok(acknowledged.elapsed())
}

/// State of the server at the start of a bulk write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BulkLoad {
    /// Idle; everything is indexed.
    Rested,
    /// Still indexes the previous one.
    AtWork,
}

/// Numbers of writes, distinct for each row, so that no content is written twice.
struct WriteNumbers(usize);

impl WriteNumbers {
    const fn of(round: usize) -> Self {
        Self(round * 20_000_000)
    }

    const fn take(&mut self) -> usize {
        let number = self.0;
        self.0 += 1_000_000;
        number
    }
}
