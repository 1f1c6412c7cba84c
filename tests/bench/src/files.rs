//! What programs do with files, through the mount, through a mount that only passes everything on,
//! and on the disk itself.
//!
//! One rule: the same call on the same content, one way after the other in each round.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use svcfs_measure::http::BenchClient;
use svcfs_measure::machine;
use svcfs_measure::pages::{PageTree, RARE_WORD};
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{MeasuredRound, RoundBound, RoundSeries};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, quotient, text};
use svcfs_measure::writing::mount_error;

use crate::passthrough::Passthrough;
use crate::plan::Extent;

const MIB: usize = 1 << 20;
/// A large file, in MiB.
const ASSET: usize = 48;
const ASSET_NAME: &str = "asset.mp4";
/// A file too large to be recorded, in MiB.
const UNRECORDED: usize = 128;
/// What is read of a page when it is opened for that.
const PAGE_PART: usize = 2 << 10;
/// What is read of a large file at random.
const BLOCK: usize = 4 << 10;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Grep,
    Stat,
    List,
    Open,
    Find,
    Read,
    Random,
    Write,
    Pour,
}

impl Deed {
    const ALL: [Self; 9] =
        [Self::Grep, Self::Stat, Self::List, Self::Open, Self::Find, Self::Read, Self::Random, Self::Write, Self::Pour];

    const fn name(self) -> &'static str {
        match self {
            Self::Grep => "`grep -r`, warm: a page",
            Self::Stat => "`lstat`, warm: a page",
            Self::List => "listing a folder of 100, warm",
            Self::Open => "open, read 2 KiB, close: a page",
            Self::Find => "`find -type f`, nothing cached: a page",
            Self::Read => "reading a large file, nothing cached: 1 MiB",
            Self::Random => "reading 4 KiB of it anywhere, nothing cached",
            Self::Write => "writing and flushing a large file, one version: 1 MiB",
            Self::Pour => "the same of 128 MiB, which have no versions: 1 MiB",
        }
    }

    /// Whether nothing may be in memory when it begins.
    const fn is_cold(self) -> bool {
        matches!(self, Self::Find | Self::Read | Self::Random)
    }
}

/// One thing, each way.
#[derive(Debug, Default, Clone)]
struct Each {
    svcfs: RoundSeries,
    passed_on: RoundSeries,
    bare: RoundSeries,
}

/// All that is measured of it.
pub struct Files {
    done: Vec<(Deed, Each)>,
    /// From the acknowledgement of a write over HTTP until a reader of the mount has it.
    seen: RoundSeries,
    /// Why something was not measured.
    missing: Vec<String>,
}

/// Measures everything, in turn.
///
/// # Errors
/// When something is refused or read wrongly, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Files> {
    let mut files =
        Files { done: Vec::new(), seen: RoundSeries::default(), missing: mount_error().into_iter().collect() };
    if !files.missing.is_empty() {
        return Ok(files);
    }
    let pages = extent.plan.pages;
    let (root, mountpoint, bare) = (run.path("root"), run.path("mnt"), run.path("bare"));
    fs::create_dir(&mountpoint)?;
    for tree in [&root, &bare] {
        pages.write_tree(run, tree)?;
        fs::write(tree.join(ASSET_NAME), content(0, ASSET))?;
    }
    let passthrough = Passthrough::start(run, &bare)?;
    let log = run.path("files.log");
    let rest = extent.plan.idle_time;
    let server = ServerProcess::start(
        run,
        ServerPlace { root: &root, mountpoint: Some(&mountpoint), log: &log, idle_time: rest },
    )?;
    if passthrough.is_none() {
        files.missing.push("`bindfs` is not installed, which passes everything on".to_owned());
    }
    let can_forget = forget().is_ok();
    if !can_forget {
        files.missing.push("only root may empty the system's caches".to_owned());
    }
    for deed in Deed::ALL.into_iter().filter(|deed| can_forget || !deed.is_cold()) {
        run.report(deed.name());
        let mut each = Each::default();
        for round in 0..extent.plan.rounds {
            let passed_on = passthrough.as_ref().map(|passthrough| (&*passthrough.mountpoint, &mut each.passed_on));
            for (tree, series) in
                [(&*mountpoint, &mut each.svcfs), (&*bare, &mut each.bare)].into_iter().chain(passed_on)
            {
                run.flush_disk()?;
                server.wait_until_idle(run)?;
                let at = At { run, tree, pages, round };
                at.go(deed, extent.plan.search_round, series)
                    .with_context(|| format!("{}: {}", tree.display(), deed.name()))?;
            }
        }
        files.done.push((deed, each));
    }
    run.report("reading on the mount what was written over HTTP");
    files.seen.add(seen(run, &server, &mountpoint, (pages, extent.plan.search_round))?);
    drop(passthrough);
    server.stop()?;
    Ok(files)
}

/// Where something is done.
struct At<'a> {
    run: &'a BenchRun,
    tree: &'a Path,
    pages: PageTree,
    round: usize,
}

impl At<'_> {
    fn go(&self, deed: Deed, bound: RoundBound, series: &mut RoundSeries) -> Result<()> {
        if deed.is_cold() {
            forget()?;
        }
        let begun = Instant::now();
        match deed {
            Deed::Grep => {
                self.grep()?;
                let begun = Instant::now();
                self.grep()?;
                series.add_counted(self.pages.count, begun.elapsed());
            }
            Deed::Find => {
                let found = machine::run(Command::new("find").arg(self.tree).args(["-name", "*.md", "-type", "f"]))?;
                let elapsed = begun.elapsed();
                let count = found.lines().filter(|line| line.contains("/folder-")).count();
                ensure!(count >= self.pages.count, "`find` found {count} pages");
                series.add_counted(count, elapsed);
            }
            Deed::Stat => self.twice(bound, series, |path| {
                ensure!(fs::symlink_metadata(path)?.is_file(), "`{}` is no file", path.display());
                Ok(())
            })?,
            Deed::List => self.twice(bound, series, |path| {
                let folder = path.parent().context("a page stands in a folder")?;
                let count = fs::read_dir(folder)?.count();
                ensure!(
                    count >= self.pages.folder_size.min(self.pages.count),
                    "`{}` has {count} files",
                    folder.display()
                );
                Ok(())
            })?,
            Deed::Open => self.twice(bound, series, |path| {
                let mut part = Vec::with_capacity(PAGE_PART);
                File::open(path)?.take(PAGE_PART as u64).read_to_end(&mut part)?;
                ensure!(!part.is_empty(), "`{}` is empty", path.display());
                Ok(())
            })?,
            Deed::Read => {
                let (mut file, mut part) = (File::open(self.tree.join(ASSET_NAME))?, vec![0; MIB]);
                for _ in 0..ASSET {
                    file.read_exact(&mut part)?;
                }
                series.add_counted(ASSET, begun.elapsed());
            }
            Deed::Random => {
                let (file, mut part) = (File::open(self.tree.join(ASSET_NAME))?, [0; BLOCK]);
                let blocks = ASSET * MIB / BLOCK;
                let round = self.run.measure_round(bound, |at| {
                    // Without a factor in common with any power of two: no block comes twice, and
                    // none after its neighbour.
                    let block = at.wrapping_mul(7919) % blocks;
                    Ok(file.read_exact_at(&mut part, (block * BLOCK) as u64)?)
                })?;
                series.add(round);
            }
            Deed::Write => self.write(ASSET, series)?,
            Deed::Pour => self.write(UNRECORDED, series)?,
        }
        Ok(())
    }

    fn write(&self, size: usize, series: &mut RoundSeries) -> Result<()> {
        let content = content(self.round + 1, size);
        let begun = Instant::now();
        let mut file = File::create(self.tree.join(format!("written-{size}.mp4")))?;
        content.chunks(MIB).try_for_each(|part| file.write_all(part))?;
        file.sync_all()?;
        drop(file);
        series.add_counted(size, begun.elapsed());
        Ok(())
    }

    fn grep(&self) -> Result<()> {
        let mut command = Command::new("grep");
        command.args(["-rlF", "--include=*.md", RARE_WORD]).arg(self.tree).stdin(Stdio::null());
        ensure!(!machine::run(&mut command)?.is_empty(), "`grep` found nothing");
        Ok(())
    }

    /// Does something with page after page, and counts only the second time.
    fn twice(&self, bound: RoundBound, series: &mut RoundSeries, deed: impl Fn(&Path) -> Result<()>) -> Result<()> {
        let paths: Vec<PathBuf> = (0..self.pages.count)
            .map(|page| self.tree.join(self.pages.path(self.pages.scattered_page(page))))
            .collect();
        let paths = &paths[..bound.count.min(paths.len())];
        paths.iter().try_for_each(|path| deed(path))?;
        series.add(self.run.measure_round(RoundBound { count: paths.len(), ..bound }, |at| deed(&paths[at]))?);
        Ok(())
    }
}

/// Writes over HTTP and reads on the mount, until what is read is what was written.
fn seen(
    run: &BenchRun,
    server: &ServerProcess,
    mountpoint: &Path,
    (pages, bound): (PageTree, RoundBound),
) -> Result<MeasuredRound> {
    let mut client = BenchClient::connect(server.address())?;
    let (started, mut latencies) = (Instant::now(), Vec::new());
    while latencies.len() < bound.count && started.elapsed() < bound.time {
        let (path, text) = pages.rewrite(latencies.len());
        let file = mountpoint.join(&path);
        // So that the kernel has it.
        fs::read(&file)?;
        client.write(&path, text.clone())?;
        let acknowledged = Instant::now();
        let is_seen = || Ok(fs::read(&file)? == text.as_bytes());
        if !is_seen()? {
            run.wait_until("what was acknowledged is read on the mount", Duration::from_secs(10), is_seen)?;
        }
        latencies.push(acknowledged.elapsed());
    }
    Ok(MeasuredRound { latencies, elapsed: started.elapsed() })
}

/// Makes the system forget what it read of any disk.
fn forget() -> std::io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// A file of so many MiB without repetitions; another one for each seed.
fn content(seed: usize, size: usize) -> Vec<u8> {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let words = std::iter::repeat_with(|| {
        // Xorshift: what packs well would be another measurement.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(size * MIB / size_of::<u64>()).flatten().collect()
}

/// How long one takes: the latency in the middle where single ones were measured.
fn time(series: &RoundSeries) -> Option<Duration> {
    series.percentile(0.5).or_else(|| series.rate().map(|rate| Duration::from_secs_f64(1.0 / rate)))
}

fn ratio(one: &RoundSeries, other: &RoundSeries) -> Option<f64> {
    quotient(time(one).map(|time| time.as_secs_f64()), time(other).map(|time| time.as_secs_f64()))
}

/// What the mount is asked to be, beside what it is.
pub struct Goal {
    /// In words.
    pub what: &'static str,
    /// What it should be at most.
    pub most: f64,
    /// That as the issue says it.
    pub told: &'static str,
    /// What it is.
    pub measured: Option<f64>,
}

impl Files {
    fn each(&self, deed: Deed) -> Each {
        self.done.iter().find(|(done, _)| *done == deed).map(|(_, each)| each.clone()).unwrap_or_default()
    }

    /// Times of the mount as multiples of others.
    pub fn goals(&self) -> Vec<Goal> {
        let bare = |what, deed, most, told| {
            let each = self.each(deed);
            Goal { what, most, told, measured: ratio(&each.svcfs, &each.bare) }
        };
        let [find, grep] = [Deed::Find, Deed::Grep].map(|deed| self.each(deed));
        vec![
            bare("warm `grep -r` on the mount, time × the disk's", Deed::Grep, 1.3, "1.3"),
            Goal {
                what: "warm `grep -r` on the mount, time × that of `bindfs`",
                most: 1.0,
                told: "1",
                measured: ratio(&grep.svcfs, &grep.passed_on),
            },
            bare("warm `lstat`, time × the disk's", Deed::Stat, 1.2, "1.2"),
            bare("warm listing, time × the disk's", Deed::List, 1.2, "1.2"),
            bare("sequential read, time × the disk's", Deed::Read, 1.0 / 0.95, "1.05 (0.95 of its rate)"),
            bare(
                "sequential write of one version, time × the disk's",
                Deed::Write,
                1.0 / 0.7,
                "1.43 (0.7 of its rate)",
            ),
            bare("the same of a file over 64 MiB, which has none", Deed::Pour, 1.0 / 0.7, "1.43 (0.7 of its rate)"),
            bare("random reads of 4 KiB, time × the disk's", Deed::Random, 1.0 / 0.9, "1.11 (0.9 of its rate)"),
            Goal {
                what: "cold `find`, time × that of `bindfs`",
                most: 1.0 / 3.0,
                told: "0.33 (3 × as fast)",
                measured: ratio(&find.svcfs, &find.passed_on),
            },
        ]
    }

    /// What an open page costs beyond the disk.
    pub fn beyond_open(&self) -> Option<Duration> {
        let each = self.each(Deed::Open);
        time(&each.svcfs).zip(time(&each.bare)).map(|(svcfs, bare)| svcfs.saturating_sub(bare))
    }

    /// The longest until a write of another door was read on the mount.
    pub fn seen_after(&self) -> Option<Duration> {
        self.seen.longest()
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let columns = vec![
            column("on the mount", "what"),
            column("svcfs", "svcfs_seconds"),
            column("`bindfs`", "passed_on_seconds"),
            column("bare", "bare_seconds"),
            column("× bare", "times_bare"),
            column("× `bindfs`", "times_passed_on"),
        ];
        let mut table = MarkdownTable::new("files", columns);
        for (deed, Each { svcfs, passed_on, bare }) in &self.done {
            let [one, other, third] = [svcfs, passed_on, bare].map(|series| TableCell::Time(time(series)));
            let times = [bare, passed_on].map(|base| TableCell::Factor(ratio(svcfs, base)));
            table.add_row([text(deed.name()), one, other, third].into_iter().chain(times));
        }
        if let (Some(typical), Some(longest)) = (self.seen.percentile(0.5), self.seen.longest()) {
            let [typical, longest] = [typical, longest].map(|time| TableCell::Time(Some(time)));
            table.notes.push(format!(
                "A write over HTTP was read on the mount {typical} after its acknowledgement in the middle, {longest} at most, of {}.",
                self.seen.len()
            ));
        }
        table.notes.extend(self.missing.iter().map(|reason| format!("Not all was measured: {reason}.")));
        table
    }
}
