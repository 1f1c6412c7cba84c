//! The write path without a door, beside the same through HTTP; and many authors beside one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use svcfs_base::{Actor, Caller, Change, Protocol, SystemClock, TreePath};
use svcfs_measure::git;
use svcfs_measure::http::{self, ACTOR_COUNT, WriterCrowd};
use svcfs_measure::pages::RoundWork;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{MeasuredRound, RoundSeries};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, quotient, text};
use svcfs_measure::writing::{CROWD_CLIENTS, expect_commits};
use svcfs_vfs::{Vfs, VfsOptions};

use crate::plan::Extent;

/// All that is measured of the committer.
#[derive(Default)]
pub struct Committer {
    /// [`CROWD_CLIENTS`] threads that call the write path in this process.
    pub driven: RoundSeries,
    /// As many clients over HTTP, under [`ACTOR_COUNT`] names.
    pub taking_turns: RoundSeries,
    /// As many under one name.
    pub alone: RoundSeries,
}

/// Measures the committer by itself and through HTTP, in turn.
///
/// # Errors
/// When a write is refused, when history does not hold exactly one commit for each, or when the run
/// is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Committer> {
    let plan = &extent.plan;
    let (driven, served) = (run.path("driven"), run.path("served"));
    for root in [&driven, &served] {
        plan.pages.write_tree(run, root)?;
    }
    let vfs = open(&driven)?;
    let log = run.path("served.log");
    let server = ServerProcess::start(
        run,
        ServerPlace { root: &served, mountpoint: None, log: &log, idle_time: plan.idle_time },
    )?;
    server.wait_until_idle(run)?;
    let mut committer = Committer::default();
    let mut first = 0;
    for round in 0..plan.rounds {
        run.report(&format!("the committer by itself and through HTTP, round {} of {}", round + 1, plan.rounds));
        let mut work = || {
            first += 1_000_000;
            RoundWork { pages: plan.pages, bound: extent.crowd, first_write: first }
        };
        run.flush_disk()?;
        let before = git::count_commits(&driven)?;
        let written = drive(run, &vfs, work())?;
        expect_commits(run, &driven, Some(before + written.latencies.len()))?;
        committer.driven.add(written);
        // What the committer puts off comes when nothing was written for a while.
        run.stop_token().wait(plan.idle_time);
        for (series, actors) in [(&mut committer.taking_turns, ACTOR_COUNT), (&mut committer.alone, 1)] {
            run.flush_disk()?;
            let before = git::count_commits(&served)?;
            let crowded = http::write_all(run, &server, WriterCrowd { clients: CROWD_CLIENTS, actors, work: work() })?;
            expect_commits(run, &served, Some(before + crowded.round.latencies.len()))?;
            series.add(crowded.round);
            server.wait_until_idle(run)?;
        }
    }
    server.stop()?;
    vfs.close()?;
    Ok(committer)
}

fn open(root: &Path) -> Result<Arc<Vfs>> {
    let options = VfsOptions {
        root: root.to_owned(),
        clock: Arc::new(SystemClock),
        gates: Vec::new(),
        scratch_patterns: Vec::new(),
        hidden_files: svcfs_base::HiddenFiles::default(),
        commit_policy: svcfs_vfs::CommitPolicy::PerSet,
        strategy: svcfs_vfs::VersionStrategy::Git,
        watch: true,
        progress: None,
    };
    Vfs::open(options).with_context(|| format!("`{}` cannot be opened", root.display()))
}

/// Durable writes by [`CROWD_CLIENTS`] threads.
fn drive(run: &BenchRun, vfs: &Vfs, work: RoundWork) -> Result<MeasuredRound> {
    let RoundWork { pages, bound, first_write: first } = work;
    let (next, started, stop) = (AtomicUsize::new(0), Instant::now(), run.stop_token());
    let write_until_done = || -> Result<Vec<_>> {
        let mut latencies = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= bound.count || started.elapsed() >= bound.time || stop.is_requested() {
                return Ok(latencies);
            }
            let write = first + number;
            let (path, text) = pages.rewrite(write);
            let (path, mut caller) = (TreePath::parse(&path)?, Caller::new(Protocol::Internal));
            caller.actor = Some(Actor::new(&format!("agent-{}", write % ACTOR_COUNT)));
            let begun = Instant::now();
            vfs.apply(&caller, Change::put(path, text))?;
            latencies.push(begun.elapsed());
        }
    };
    let latencies = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..CROWD_CLIENTS).map(|_| scope.spawn(write_until_done)).collect();
        let mut all = Vec::new();
        for writer in writers {
            all.extend(writer.join().map_err(|_| anyhow!("a writer panicked"))??);
        }
        anyhow::Ok(all)
    })?;
    let elapsed = started.elapsed();
    run.check_stop()?;
    Ok(MeasuredRound { latencies, elapsed })
}

impl Committer {
    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let columns = vec![
            column(format!("{CROWD_CLIENTS} writers at once"), "way"),
            column("pages/s", "pages_per_second"),
            column("p50", "p50_us"),
            column("p99", "p99_us"),
            column("of the committer by itself", "share"),
        ];
        let mut table = MarkdownTable::new("committer", columns);
        for (name, series) in [
            ("the committer by itself: threads in its process".to_owned(), &self.driven),
            (format!("HTTP, {ACTOR_COUNT} actors in turn"), &self.taking_turns),
            ("HTTP, one actor".to_owned(), &self.alone),
        ] {
            table.add_row([
                text(name),
                TableCell::Rate(series.rate()),
                TableCell::Time(series.percentile(0.5)),
                TableCell::Time(series.percentile(0.99)),
                TableCell::Share(quotient(series.rate(), self.driven.rate())),
            ]);
        }
        table
    }
}
