//! What a write costs in trees of different sizes and shapes, what it takes to open a large one,
//! and in how much memory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use svcfs_measure::git;
use svcfs_measure::http::{self, ACTOR_COUNT, BenchClient, WriterCrowd, percent_encode};
use svcfs_measure::machine::{self, ProcessMemory};
use svcfs_measure::pages::{PageTree, RoundWork};
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{RoundBound, RoundSeries, round_bound};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, quotient, text};
use svcfs_measure::writing::{CROWD_CLIENTS, expect_commits};
use svcfs_store::{Log, StatePaths};

use crate::plan::Extent;

/// What a million pages take on the disk, generously.
const ROOM_FOR_LARGE: u64 = 24 << 30;

/// All that is measured of size.
pub struct Scale {
    /// Trees that differ in size only, then others.
    pub trees: Vec<Measured>,
    /// How many of them differ in size only.
    pub sizes: usize,
    /// What it takes to open the largest of those.
    pub opening: Opening,
    /// The most memory while a crowd wrote in it.
    pub memory: ProcessMemory,
}

/// What was measured in one tree.
pub struct Measured {
    /// Which.
    pub pages: PageTree,
    /// The first start over it.
    pub adopted: Duration,
    /// One client.
    pub one: RoundSeries,
    /// A crowd.
    pub many: RoundSeries,
    /// What the server spent on the processors for one page of the crowd's, on average.
    pub processor: Duration,
    /// The most memory while the crowd wrote.
    pub memory: ProcessMemory,
}

/// From the start of the process until a page was read.
pub struct Opening {
    /// Pages in the tree.
    pub pages: usize,
    /// Nothing had changed.
    pub unchanged: Duration,
    /// Killed while a crowd wrote.
    pub killed: Duration,
    /// Records that were not settled then.
    pub unsettled: usize,
}

/// A tree and its server.
struct Tree {
    root: PathBuf,
    log: PathBuf,
    server: ServerProcess,
    measured: Measured,
    written: usize,
    processor: Duration,
    crowded: usize,
}

/// Measures trees of all sizes and shapes in turn.
///
/// # Errors
/// When a write is refused, when history does not hold exactly one commit for each, or when the run
/// is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Scale> {
    let rest = extent.plan.idle_time;
    let mut trees = Vec::new();
    for (number, pages) in extent.sizes.iter().chain(&extent.folders).enumerate() {
        trees.push(Tree::begin(run, *pages, number, rest)?);
    }
    for round in 0..extent.plan.rounds {
        run.report(&format!("trees of all sizes, round {} of {}", round + 1, extent.plan.rounds));
        for tree in &mut trees {
            tree.round(run, extent.in_each)?;
        }
    }
    let sizes = extent.sizes.len();
    let others = trees.split_off(sizes);
    let largest = trees.pop().context("there are no sizes to measure")?;
    let mut measured = Vec::new();
    for tree in trees {
        measured.push(tree.end()?);
    }
    let (largest, opening, memory) = reopen(run, largest, (extent.unsettled, rest))?;
    measured.push(largest);
    for tree in others {
        measured.push(tree.end()?);
    }
    Ok(Scale { trees: measured, sizes, opening, memory })
}

/// Measures a tree that takes minutes to begin with, once.
///
/// # Errors
/// When the disk has no room for it, and as [`measure`].
pub fn measure_large(run: &BenchRun, extent: &Extent, pages: PageTree) -> Result<Measured> {
    let free = machine::free_space(run.scratch())?;
    ensure!(free >= ROOM_FOR_LARGE, "it needs {} GiB of disk, {} are free", ROOM_FOR_LARGE >> 30, free >> 30);
    let mut tree = Tree::begin(run, pages, 0, extent.plan.idle_time)?;
    tree.round(run, extent.in_each)?;
    tree.end()
}

impl Tree {
    fn begin(run: &BenchRun, pages: PageTree, number: usize, rest: Duration) -> Result<Self> {
        run.report(&format!("a tree of {} pages in folders of {}", pages.count, pages.folder_size));
        let (root, log) = (run.path(&format!("tree-{number}")), run.path(&format!("tree-{number}.log")));
        pages.write_tree(run, &root)?;
        run.flush_disk()?;
        let server =
            ServerProcess::start(run, ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: rest })?;
        server.wait_until_idle(run)?;
        let measured = Measured {
            pages,
            adopted: server.ready_after,
            one: RoundSeries::default(),
            many: RoundSeries::default(),
            processor: Duration::ZERO,
            memory: server.memory()?,
        };
        Ok(Self { root, log, server, measured, written: 0, processor: Duration::ZERO, crowded: 0 })
    }

    fn round(&mut self, run: &BenchRun, (one, many): (RoundBound, RoundBound)) -> Result<()> {
        let written = self.write(run, 1, one)?;
        self.measured.one.add(written.round);
        let written = self.write(run, CROWD_CLIENTS, many)?;
        self.processor += written.cpu_time;
        self.crowded += written.round.latencies.len();
        if written.memory.resident > self.measured.memory.resident {
            self.measured.memory = written.memory;
        }
        self.measured.many.add(written.round);
        self.server.wait_until_idle(run)
    }

    fn write(&mut self, run: &BenchRun, clients: usize, bound: RoundBound) -> Result<http::CrowdResult> {
        run.flush_disk()?;
        let before = git::count_commits(&self.root)?;
        let work = RoundWork { pages: self.measured.pages, bound, first_write: self.written };
        let crowded = http::write_all(run, &self.server, WriterCrowd { clients, actors: ACTOR_COUNT, work })?;
        expect_commits(run, &self.root, Some(before + crowded.round.latencies.len()))?;
        // The numbers that a crowd took and did not write are passed over, too.
        self.written += crowded.round.latencies.len() + clients;
        Ok(crowded)
    }

    fn end(self) -> Result<Measured> {
        let Self { root, log: _, server, mut measured, written: _, processor, crowded } = self;
        measured.processor = processor.div_f64(crowded.max(1) as f64);
        server.stop()?;
        std::fs::remove_dir_all(root)?;
        Ok(measured)
    }
}

/// Opens a tree that did not change, and one whose server was killed.
fn reopen(
    run: &BenchRun,
    mut tree: Tree,
    (unsettled, rest): (usize, Duration),
) -> Result<(Measured, Opening, ProcessMemory)> {
    let (root, log, pages) = (tree.root.clone(), tree.log.clone(), tree.measured.pages);
    let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: rest };
    let open = |run: &BenchRun| -> Result<(ServerProcess, Duration)> {
        let server = ServerProcess::start(run, place)?;
        let target = format!("/api/svc/file?path={}", percent_encode(&pages.path(0)));
        ensure!(!BenchClient::connect(server.address())?.get(&target)?.is_empty(), "a page is empty after a start");
        let opened = server.started_at.elapsed();
        Ok((server, opened))
    };
    run.report("opening it again, nothing changed");
    tree.server.stop()?;
    run.flush_disk()?;
    let (server, unchanged) = open(run)?;
    server.wait_until_idle(run)?;
    run.report("killing its server");
    let before = git::count_commits(&root)?;
    tree.server = server;
    let crowded = tree.write(run, CROWD_CLIENTS, round_bound(unsettled, 60))?;
    tree.server.kill()?;
    let unsettled = Log::check(&StatePaths::new(&root))?.context("the killed server left no log")?.pending_records;
    let (server, killed) = open(run)?;
    expect_commits(run, &root, Some(before + crowded.round.latencies.len()))?;
    tree.server = server;
    let memory = std::cmp::max_by_key(crowded.memory, tree.measured.memory, |memory| memory.resident);
    Ok((tree.end()?, Opening { pages: pages.count, unchanged, killed, unsettled }, memory))
}

impl Scale {
    /// How many times a write in the largest of the trees that differ in size only costs what it
    /// costs in the smallest: for one client, by the latency in the middle, and for the crowd, by
    /// the rate.
    pub fn growth(&self) -> (Option<f64>, Option<f64>) {
        let (Some(smallest), Some(largest)) = (self.trees.first(), self.trees.get(self.sizes - 1)) else {
            return (None, None);
        };
        (
            quotient(smallest.one.typical_rate(), largest.one.typical_rate()),
            quotient(smallest.many.rate(), largest.many.rate()),
        )
    }

    /// Costs by size, with a tree that was measured later; and openings.
    pub fn tables(&self, large: Option<&Measured>) -> [MarkdownTable; 2] {
        let trees: Vec<&Measured> = self.trees.iter().chain(large).collect();
        [costs(&trees), self.openings()]
    }

    fn openings(&self) -> MarkdownTable {
        let Opening { pages, unchanged, killed, unsettled } = &self.opening;
        let columns = vec![column(format!("opening {pages} pages"), "when"), column("first page read", "read_us")];
        let mut table = MarkdownTable::new("opening", columns);
        table.add_row([text("nothing changed"), TableCell::Time(Some(*unchanged))]);
        table.add_row([
            text(format!("after `kill -9` with {unsettled} unsettled records")),
            TableCell::Time(Some(*killed)),
        ]);
        let ProcessMemory { resident, anonymous, .. } = self.memory;
        table.notes.push(format!(
            "Most memory of that server while {CROWD_CLIENTS} clients wrote: {}, of which {} are its own; the rest are windows into \
             packs, which the system can take back.",
            TableCell::Bytes(resident),
            TableCell::Bytes(anonymous)
        ));
        table
    }
}

/// What a write costs in each tree, and how many times what it costs in the first.
pub fn costs(trees: &[&Measured]) -> MarkdownTable {
    let columns = vec![
        column("what a write costs in a tree of", "tree"),
        column("1 client, p50", "one_p50_us"),
        column("× smallest", "one_times_smallest"),
        column(format!("{CROWD_CLIENTS} clients, a write each"), "many_each_us"),
        column("× smallest", "many_times_smallest"),
        column("processor", "processor_us"),
        column("most memory", "resident_bytes"),
        column("first start", "adopted_us"),
    ];
    let mut table = MarkdownTable::new("scale", columns);
    let smallest = trees.first().copied();
    for tree in trees {
        let beside = |rate: fn(&Measured) -> Option<f64>| quotient(smallest.and_then(rate), rate(tree));
        let Measured { pages: PageTree { count, folder_size: folder, .. }, adopted, one, many, processor, memory } =
            *tree;
        table.add_row([
            text(format!("{count} pages in folders of {folder}")),
            TableCell::Time(one.percentile(0.5)),
            TableCell::Factor(beside(|tree| tree.one.typical_rate())),
            TableCell::Time(many.rate().map(|rate| Duration::from_secs_f64(1.0 / rate))),
            TableCell::Factor(beside(|tree| tree.many.rate())),
            TableCell::Time(Some(*processor)),
            TableCell::Bytes(memory.resident),
            TableCell::Time(Some(*adopted)),
        ]);
    }
    table
}
