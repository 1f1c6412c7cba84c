//! The longest that a single writer waits, while the log is emptied and packs are merged.

use anyhow::Result;
use svcfs_measure::http::{self, ACTOR_COUNT, WriterCrowd};
use svcfs_measure::pages::RoundWork;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::RoundSeries;
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::MarkdownTable;
use svcfs_measure::writing::{expect_commits, wait_row, wait_table};
use svcfs_measure::{disk, git};

use crate::plan::Extent;

/// All that is measured of pauses.
pub struct Pauses {
    /// One client that writes large pages.
    pub writes: RoundSeries,
    /// One flush of as many bytes.
    pub flushes: RoundSeries,
}

/// Measures one client whose pages fill the log again and again.
///
/// # Errors
/// When a write is refused, when history does not hold exactly one commit for each, or when the run
/// is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Pauses> {
    let (pages, bound) = extent.heavy;
    run.report("large pages by one client");
    let root = run.path("heavy");
    pages.write_tree(run, &root)?;
    // For as long as the client writes: what the disk keeps waiting by itself takes time to happen,
    // too.
    let mut flushes = RoundSeries::default();
    flushes.add(disk::append(run, bound, |at| pages.text(at, at + 1))?);
    let log = run.path("heavy.log");
    let server = ServerProcess::start(
        run,
        ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time },
    )?;
    server.wait_until_idle(run)?;
    run.flush_disk()?;
    let before = git::count_commits(&root)?;
    let work = RoundWork { pages, bound, first_write: 0 };
    let crowded = http::write_all(run, &server, WriterCrowd { clients: 1, actors: ACTOR_COUNT, work })?;
    expect_commits(run, &root, Some(before + crowded.round.latencies.len()))?;
    let mut writes = RoundSeries::default();
    writes.add(crowded.round);
    server.stop()?;
    Ok(Pauses { writes, flushes })
}

impl Pauses {
    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let mut table = wait_table("pages of 55 KiB, which fill the log again and again");
        table.add_row(wait_row("svcfs, HTTP `PUT`, 1 client", &self.writes));
        table.add_row(wait_row("bare: one flush", &self.flushes));
        table
    }
}
