//! Many pages at once through the mount, beside a mount that only passes everything on.

use anyhow::Result;
use svcfs_measure::pages::PageTree;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::RoundSeries;
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, quotient, text};
use svcfs_measure::writing::{expect_commits, measure_drain, mount_error};
use svcfs_measure::{disk, git};

use crate::passthrough::Passthrough;
use crate::plan::Extent;

/// All that is measured of it.
#[derive(Default)]
pub struct Mounted {
    /// Pages of a copy.
    pub copied: usize,
    /// Until `cp` ends.
    pub returned: RoundSeries,
    /// Until everything copied is flushed and committed, too.
    pub settled: RoundSeries,
    /// Through a mount that passes everything on.
    pub passed_on: RoundSeries,
    /// On the disk itself.
    pub bare: RoundSeries,
    /// The folder of all those pages under another name, committed.
    pub renamed: RoundSeries,
    /// Why something was not measured.
    pub missing: Option<String>,
}

/// Measures copies and renames, in turn with the others.
///
/// # Errors
/// When something is refused, when there is not exactly one commit for every page and for every
/// rename, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Mounted> {
    let mut mounted = Mounted { copied: extent.copied, missing: mount_error(), ..Mounted::default() };
    if mounted.missing.is_some() {
        return Ok(mounted);
    }
    let (small, root, mountpoint, bare) = (run.path("small"), run.path("root"), run.path("mnt"), run.path("bare"));
    PageTree::new(extent.copied).write_tree(run, &small)?;
    for folder in [&root, &mountpoint, &bare] {
        std::fs::create_dir(folder)?;
    }
    let passthrough = Passthrough::start(run, &bare)?;
    if passthrough.is_none() {
        mounted.missing = Some("`bindfs` is not installed, which passes everything on".to_owned());
    }
    let rest = extent.plan.idle_time;
    let log = run.path("mounted.log");
    let server = ServerProcess::start(
        run,
        ServerPlace { root: &root, mountpoint: Some(&mountpoint), log: &log, idle_time: rest },
    )?;
    server.wait_until_idle(run)?;
    for round in 0..extent.plan.rounds {
        run.report(&format!("copying {} pages, round {} of {}", extent.copied, round + 1, extent.plan.rounds));
        let name = format!("copied-{round}");
        run.flush_disk()?;
        mounted.bare.add_counted(extent.copied, disk::copy(&small, &bare.join(format!("bare-{round}")))?);
        if let Some(Passthrough { mountpoint, .. }) = &passthrough {
            run.flush_disk()?;
            mounted.passed_on.add_counted(extent.copied, disk::copy(&small, &mountpoint.join(&name))?);
        }
        run.flush_disk()?;
        let before = git::count_commits(&root)?;
        let returned = disk::copy(&small, &mountpoint.join(&name))?;
        mounted.returned.add_counted(extent.copied, returned);
        mounted.settled.add_counted(extent.copied, returned + measure_drain(&server)?);
        expect_commits(run, &root, Some(before + extent.copied + 1))?;
        server.wait_until_idle(run)?;
    }
    run.report("renaming the folder of them");
    let before = git::count_commits(&root)?;
    let name = |at: usize| mountpoint.join(if at == 0 { "copied-0".to_owned() } else { format!("renamed-{at}") });
    mounted.renamed.add(run.measure_round(extent.renames, |at| Ok(std::fs::rename(name(at), name(at + 1))?))?);
    expect_commits(run, &root, Some(before + mounted.renamed.len()))?;
    server.stop()?;
    Ok(mounted)
}

impl Mounted {
    /// How much of the rate of the mount that passes everything on is left when every page is a
    /// version.
    pub fn share(&self) -> Option<f64> {
        quotient(self.settled.rate(), self.passed_on.rate())
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let columns = vec![
            column(format!("`cp -r` of {} pages", self.copied), "way"),
            column("pages/s", "pages_per_second"),
            column("of a mount that passes on", "share"),
        ];
        let mut table = MarkdownTable::new("mounted", columns);
        for (name, series) in [
            ("svcfs, until `cp` ends", &self.returned),
            ("svcfs, until every page is flushed and a version", &self.settled),
            ("`bindfs`: a mount that only passes on", &self.passed_on),
            ("bare", &self.bare),
        ] {
            let share = TableCell::Share(quotient(series.rate(), self.passed_on.rate()));
            table.add_row([text(name), TableCell::Rate(series.rate()), share]);
        }
        if let Some(longest) = self.renamed.longest() {
            let (count, longest) = (self.renamed.len(), TableCell::Time(Some(longest)));
            table.notes.push(format!(
                "The folder of all {} got another name {count} times, each one commit: {longest} at most.",
                self.copied
            ));
        }
        table.notes.extend(self.missing.iter().map(|reason| format!("Not all was measured: {reason}.")));
        table
    }
}
