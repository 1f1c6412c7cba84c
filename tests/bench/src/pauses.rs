//! The longest that a single writer waits, while the log is emptied and packs are merged.

use anyhow::Result;
use svcfs_measure::http::{self, ACTORS, WriterCrowd};
use svcfs_measure::pages::RoundWork;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::RoundSeries;
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::MarkdownTable;
use svcfs_measure::writing::{expect_commits, waited, waits};
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
/// When a write is refused, when history does not hold exactly one commit for each, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Pauses> {
    let (pages, bound) = extent.heavy;
    run.tell("large pages by one client");
    let root = run.at("heavy");
    pages.plant(run, &root)?;
    // For as long as the client writes: what the disk keeps waiting by itself takes time to happen, too.
    let mut flushes = RoundSeries::default();
    flushes.add(disk::append(run, bound, |at| pages.text(at, at + 1))?);
    let log = run.at("heavy.log");
    let server =
        ServerProcess::start(run, ServerPlace { root: &root, mountpoint: None, log: &log, rest: extent.plan.rest })?;
    server.until_quiet(run)?;
    run.flush_disk()?;
    let before = git::commits(&root)?;
    let work = RoundWork { pages, bound, first: 0 };
    let crowded = http::write_all(run, &server, WriterCrowd { clients: 1, actors: ACTORS, work })?;
    expect_commits(run, &root, Some(before + crowded.round.latencies.len()))?;
    let mut writes = RoundSeries::default();
    writes.add(crowded.round);
    server.stop()?;
    Ok(Pauses { writes, flushes })
}

impl Pauses {
    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let mut table = waits("pages of 55 KiB, which fill the log again and again");
        table.row(waited("svcfs, HTTP `PUT`, 1 client", &self.writes));
        table.row(waited("bare: one flush", &self.flushes));
        table
    }
}
