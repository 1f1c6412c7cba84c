//! `svcfs bench`

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::{Map, Value};
use svcfs_measure::pages::PageTree;
use svcfs_measure::plan::RunPlan;
use svcfs_measure::run::{BenchRun, stop_on_signal};
use svcfs_measure::series::round_bound;
use svcfs_measure::table::MarkdownTable;
use svcfs_measure::{machine, reading, writing};
use svcfs_work::StopToken;

use crate::failure::{CommandFailure, ExitStatus};
use crate::{output, progress};

const EXAMPLES: &str = "\
Examples:
  svcfs bench                                   the disk of the current directory, a minute
  svcfs bench --dir /mnt/nas                    another disk
  svcfs bench --files 500 --search-files 10000  longer, for more reliable figures
  svcfs bench --json > bench.json               print JSON

The table of starts shows how long the first build of the index and a later start take.
docs/benchmarks.md explains the rows and has results of another machine. Leave the machine idle
during the run. Rows of git need git, and rows of the mount need /dev/fuse; others are skipped.";

/// Measure svcfs on a disk, compared with git and the bare filesystem
///
/// Starts a server on generated pages in a temporary directory and measures it over HTTP and
/// through its mount, interleaved with git and the bare filesystem. It also checks the results: one
/// commit for each write, and searches that find what grep finds. The directory is removed at the
/// end, also after Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Directory on the disk to measure, outside any knowledge base; it is empty again afterwards
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Pages that each client writes in sequence
    #[arg(long, value_name = "PAGES", default_value_t = 50, value_parser = bounded_count(100_000))]
    files: usize,
    /// Pages of one bulk write
    #[arg(long, value_name = "PAGES", default_value_t = 100, value_parser = bounded_count(10_000))]
    bulk: usize,
    /// Pages of the generated tree
    #[arg(long, value_name = "PAGES", default_value_t = 1_000, value_parser = bounded_count(100_000))]
    search_files: usize,
    /// Searches for each query
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = bounded_count(100_000))]
    search_queries: usize,
    /// Rounds of each write row
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = bounded_count(100))]
    rounds: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A count between 1 and `limit`.
fn bounded_count(limit: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=limit)
}

impl BenchArgs {
    /// Measures and prints the tables.
    ///
    /// # Errors
    /// `Refused` for a directory in a knowledge base or without free space; `Failed` when a
    /// measurement fails; `Interrupted` when it is ended early.
    pub fn run(self) -> Result<(), CommandFailure> {
        let directory = require_outside_root(&self.dir)?;
        self.check_free_space(&directory)?;
        let stop = StopToken::new();
        stop_on_signal(stop.clone())?;
        let program = std::env::current_exe().context("the path of this program is unknown")?;
        let spinner = progress::spinner("measuring");
        let progress_spinner = spinner.clone();
        let run = BenchRun::start(program, &directory, stop.clone(), move |text| {
            progress_spinner.set_message(text.to_owned())
        })?;
        let facts = machine::describe_machine(run.scratch(), env!("CARGO_PKG_VERSION"));
        let outcome = measure(&run, &self.plan());
        spinner.set_message("removing temporary files");
        let cleanup = run.finish();
        spinner.finish_and_clear();
        cleanup?;
        let tables = match outcome {
            Err(_) if stop.is_requested() => {
                let message = "interrupted; all temporary files were removed";
                return Err(CommandFailure::saying(ExitStatus::Interrupted, message));
            }
            outcome => outcome?,
        };
        if self.json { output::json(&as_json(&facts, &tables)) } else { output::say(&as_text(&facts, &tables)) }
    }

    fn plan(&self) -> RunPlan {
        RunPlan {
            pages: PageTree::new(self.search_files),
            rounds: self.rounds,
            short_round: round_bound(self.files, 3),
            creation_round: round_bound(self.files, 3),
            long_round: round_bound(self.files * writing::CROWD_CLIENTS, 10),
            min_commits: 0,
            bulk_pages: self.bulk,
            bulk_round: round_bound(3, 3),
            copy_pages: self.files.min(MAX_COPIED_PAGES),
            // Long enough for work that the server defers until a second after the last write; few
            // writes leave little of it.
            idle_time: Duration::from_millis(24 * self.files as u64).clamp(MIN_IDLE_TIME, MAX_IDLE_TIME),
            search_round: round_bound(self.search_queries, 10),
            grep_round: round_bound(10, 3),
            corpus: None,
        }
    }

    /// A generous estimate of the needed space.
    fn check_free_space(&self, directory: &Path) -> Result<(), CommandFailure> {
        const PAGE_BYTES: usize = 48 << 10;
        const BASE_BYTES: usize = 256 << 20;
        let written = self.rounds * (self.bulk * 12 + self.files * (writing::CROWD_CLIENTS + 8));
        let needed = (BASE_BYTES + PAGE_BYTES * (self.search_files + written.min(MAX_WRITTEN_PAGES))) as u64;
        let free = machine::free_space(directory)?;
        if free < needed {
            let (free, needed) = (free >> 20, needed >> 20);
            let message = format!(
                "the disk of `{}` has {free} MiB free, and this needs up to {needed} MiB; give another with --dir, or reduce \
                 --search-files, --files, --rounds",
                directory.display()
            );
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        }
        Ok(())
    }
}

const MIN_IDLE_TIME: Duration = Duration::from_millis(100);
const MAX_IDLE_TIME: Duration = Duration::from_millis(1_200);

/// Pages of `cp -r`, which has no time limit.
const MAX_COPIED_PAGES: usize = 1_000;
/// Upper bound of pages written within the time limit.
const MAX_WRITTEN_PAGES: usize = 500_000;

/// Requires a directory outside any knowledge base.
fn require_outside_root(directory: &Path) -> Result<PathBuf, CommandFailure> {
    let name = directory.display();
    let canonical = directory.canonicalize().map_err(|error| {
        CommandFailure::new(
            ExitStatus::Refused,
            anyhow::Error::new(error)
                .context(format!("`{name}` cannot be used; give an existing directory with --dir")),
        )
    })?;
    if !canonical.is_dir() {
        return Err(CommandFailure::saying(
            ExitStatus::Refused,
            format!("`{name}` is not a directory; give one with --dir"),
        ));
    }
    if let Some(root) = canonical.ancestors().find(|above| above.join(".svc").is_dir()) {
        let root = root.display();
        let message = format!("`{name}` is inside the knowledge base `{root}`; give a directory outside it with --dir");
        return Err(CommandFailure::saying(ExitStatus::Refused, message));
    }
    Ok(canonical)
}

fn measure(run: &BenchRun, plan: &RunPlan) -> anyhow::Result<Vec<MarkdownTable>> {
    let mut tables = writing::measure(run, plan)?.tables();
    tables.extend(reading::measure(run, plan)?.tables());
    Ok(tables)
}

fn as_text(facts: &[(&str, String)], tables: &[MarkdownTable]) -> String {
    let facts: String = facts.iter().map(|(name, fact)| format!("- {name}: {fact}\n")).collect();
    let tables: String = tables.iter().map(MarkdownTable::to_markdown).collect();
    format!("{facts}\n{}\n", tables.trim_end())
}

fn as_json(facts: &[(&str, String)], tables: &[MarkdownTable]) -> Value {
    let machine = facts.iter().map(|(name, fact)| (name.to_lowercase().replace(' ', "_"), fact.clone().into()));
    let mut answer = Map::from_iter([("machine".to_owned(), Value::Object(machine.collect()))]);
    answer.extend(tables.iter().map(|table| (table.name.to_owned(), table.to_json())));
    answer.into()
}
