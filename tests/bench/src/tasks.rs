//! Claims, and workers that take tasks from a queue.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};
use svcfs_measure::disk;
use svcfs_measure::http::BenchClient;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{MeasuredRound, RoundSeries};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, text};

use crate::answers::Judged;
use crate::plan::Extent;

const WORKERS: usize = 64;
/// What a claim may take beside one flush.
const BESIDE_FLUSH: Duration = Duration::from_millis(1);

/// All that is measured of claims and tasks.
pub struct Tasks {
    tasks: usize,
    claims: RoundSeries,
    releases: RoundSeries,
    flushes: RoundSeries,
    /// Every task is taken once by one of the workers.
    taken: RoundSeries,
}

/// Measures claims by one client, and the queue emptied by many workers.
///
/// # Errors
/// When the server refuses something or a task is handed out twice; when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Tasks> {
    let tasks = extent.plan.pages.count;
    let bound = extent.plan.search_round;
    let root = run.path("tasks");
    std::fs::create_dir_all(root.join("tasks"))?;
    let page = |n: usize| format!("---\ntype: task\nstatus: todo\npriority: {}\n---\n\n# Task {n}\n", n % 5 + 1);
    for n in 0..tasks {
        std::fs::write(root.join(path_of(n)), page(n))?;
    }
    run.flush_disk()?;
    let log = run.path("tasks.log");
    let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
    let server = ServerProcess::start_with_args(run, place, &["--adopt"])?;
    crate::answers::until_complete(run, &server, (tasks, Duration::from_secs(300)))?;
    server.wait_until_idle(run)?;
    run.report("claims by one client");
    let mut flushes = RoundSeries::default();
    flushes.add(disk::append(run, bound, page)?);
    let mut client = BenchClient::connect(server.address())?;
    let path = |n: usize| json!({ "path": path_of(n % tasks) });
    let claimed =
        run.measure_round(bound, |n| client.send_as("bench", "POST", "/api/svc/claim", &path(n)).map(drop))?;
    let count = claimed.latencies.len().min(tasks);
    let released = run.measure_round(svcfs_measure::series::RoundBound { count, ..bound }, |n| {
        client.send_as("bench", "DELETE", "/api/svc/claim", &path(n)).map(drop)
    })?;
    for n in released.latencies.len()..count {
        client.send_as("bench", "DELETE", "/api/svc/claim", &path(n))?;
    }
    let (mut claims, mut releases) = (RoundSeries::default(), RoundSeries::default());
    claims.add(claimed);
    releases.add(released);
    run.report("workers that take every task");
    let mut taken = RoundSeries::default();
    taken.add(take_all(&server, tasks)?);
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(Tasks { tasks, claims, releases, flushes, taken })
}

fn path_of(n: usize) -> String {
    format!("tasks/{n}.md")
}

/// Takes every task once.
fn take_all(server: &ServerProcess, tasks: usize) -> Result<MeasuredRound> {
    let started = Instant::now();
    let work = |worker: usize| -> Result<Vec<(String, Duration)>> {
        let mut client = BenchClient::connect(server.address())?;
        let (actor, mut taken) = (format!("worker-{worker}"), Vec::new());
        loop {
            let asked = Instant::now();
            let body = client.send_as(&actor, "POST", "/api/svc/tasks/next", &json!({}))?;
            let answer: Value = serde_json::from_slice(&body)?;
            let Some(path) = answer["task"]["path"].as_str() else { return Ok(taken) };
            taken.push((path.to_owned(), asked.elapsed()));
        }
    };
    let taken = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<Vec<_>>>| {
            worker.join().map_err(|_| anyhow!("a worker panicked"))?
        };
        workers.into_iter().map(join).collect::<Result<Vec<Vec<_>>>>()
    })?;
    let elapsed = started.elapsed();
    let taken: Vec<(String, Duration)> = taken.into_iter().flatten().collect();
    let distinct: HashSet<&String> = taken.iter().map(|(path, _)| path).collect();
    ensure!(
        distinct.len() == tasks && taken.len() == tasks,
        "{} of {tasks} tasks were handed out, {} times",
        distinct.len(),
        taken.len()
    );
    Ok(MeasuredRound { latencies: taken.into_iter().map(|(_, latency)| latency).collect(), elapsed })
}

impl Tasks {
    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let columns = vec![
            column("claims and tasks", "what"),
            column("per second", "rate"),
            column("p50", "p50_us"),
            column("p99", "p99_us"),
        ];
        let mut table = MarkdownTable::new("tasks", columns);
        let tasks = self.tasks;
        for (name, series) in [
            ("`POST /claim`, 1 client".to_owned(), &self.claims),
            ("`DELETE /claim`, 1 client".to_owned(), &self.releases),
            ("bare: one flush".to_owned(), &self.flushes),
            (format!("`POST /tasks/next`, {WORKERS} workers, {tasks} tasks"), &self.taken),
        ] {
            let percentile = |share| TableCell::Time(series.percentile(share));
            table.add_row([text(name), TableCell::Rate(series.rate()), percentile(0.5), percentile(0.99)]);
        }
        table
    }

    /// Claims and releases, beside one flush.
    pub fn judged(&self) -> impl Iterator<Item = Judged> {
        let wanted = self.flushes.percentile(0.5).unwrap_or_default() + BESIDE_FLUSH;
        [("a claim, p50: one flush and 1 ms", &self.claims), ("the release of a claim, p50", &self.releases)]
            .map(|(what, series)| Judged { what: what.to_owned(), wanted, measured: series.percentile(0.5) })
            .into_iter()
    }

    /// Tasks per second, and how many there were.
    pub fn rate(&self) -> (usize, Option<f64>) {
        (self.tasks, self.taken.rate())
    }
}
