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
  svcfs bench                                   the disk of the current directory, about a minute
  svcfs bench --dir /mnt/nas                    another disk
  svcfs bench --files 500 --search-files 10000  longer, for figures that mean more
  svcfs bench --json > bench.json               for a script

What the rows mean, and what they are on another machine: docs/benchmarks.md. Let the machine
do nothing else meanwhile. Rows of git need git, those of the mount /dev/fuse; what is missing
is left out.";

/// Measure how fast svcfs is on a disk, beside git and beside the bare filesystem
///
/// Starts this very program on pages it generates, in a temporary directory on that disk, and measures it over HTTP and
/// through its mount in the same minutes as git and the disk without either. While it measures it checks: one commit for
/// every write, searches that find what grep finds. The directory is removed at the end, after Ctrl-C, too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Directory on the disk to measure, outside any knowledge base; nothing is left in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Pages that each client writes, one after the other
    #[arg(long, value_name = "PAGES", default_value_t = 50, value_parser = at_most(100_000))]
    files: usize,
    /// Pages that a bulk write puts into one commit
    #[arg(long, value_name = "PAGES", default_value_t = 100, value_parser = at_most(10_000))]
    bulk: usize,
    /// Pages of the tree that is written and searched
    #[arg(long, value_name = "PAGES", default_value_t = 1_000, value_parser = at_most(100_000))]
    search_files: usize,
    /// Searches for each question
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_most(100_000))]
    search_queries: usize,
    /// How often every row of writing is measured
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = at_most(100))]
    rounds: usize,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// Counts that make sense: something, and no more than ends today.
fn at_most(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

impl BenchArgs {
    /// Measures, and prints the tables.
    ///
    /// # Errors
    /// `Refused` for a directory that belongs to a knowledge base or has no room; `Failed` when something cannot be measured;
    /// `Interrupted` when it is ended early.
    pub fn run(self) -> Result<(), CommandFailure> {
        let directory = outside(&self.dir)?;
        self.must_have_room(&directory)?;
        let stop = StopToken::new();
        stop_on_signal(stop.clone())?;
        let program = std::env::current_exe().context("the path of this program is not known")?;
        let spinner = progress::spinner("measuring");
        let drawn = spinner.clone();
        let run = BenchRun::start(program, &directory, stop.clone(), move |text| drawn.set_message(text.to_owned()))?;
        let facts = machine::describe_machine(run.scratch(), env!("CARGO_PKG_VERSION"));
        let measured = measure(&run, &self.plan());
        spinner.set_message("removing what was made");
        let removed = run.finish();
        spinner.finish_and_clear();
        removed?;
        let tables = match measured {
            Err(_) if stop.is_requested() => {
                let told = "ended before everything was measured; nothing is left behind";
                return Err(CommandFailure::saying(ExitStatus::Interrupted, told));
            }
            measured => measured?,
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
            copy_pages: self.files.min(MOST_COPIED),
            // Long enough for what the server puts off until a second after the last write; few writes leave little of that.
            idle_time: Duration::from_millis(24 * self.files as u64).clamp(SHORTEST_REST, LONGEST_REST),
            search_round: round_bound(self.search_queries, 10),
            grep_round: round_bound(10, 3),
            corpus: None,
        }
    }

    /// About what is needed at once, with much to spare.
    fn must_have_room(&self, directory: &Path) -> Result<(), CommandFailure> {
        const A_PAGE: usize = 48 << 10;
        const ALWAYS: usize = 256 << 20;
        let written = self.rounds * (self.bulk * 12 + self.files * (writing::CROWD_CLIENTS + 8));
        let needed = (ALWAYS + A_PAGE * (self.search_files + written.min(MOST_WRITTEN))) as u64;
        let free = machine::free_space(directory)?;
        if free < needed {
            let (free, needed) = (free >> 20, needed >> 20);
            let told = format!(
                "the disk of `{}` has {free} MiB free, and this takes up to {needed} MiB; name another with --dir, or less with \
                 --search-files, --files, --rounds",
                directory.display()
            );
            return Err(CommandFailure::saying(ExitStatus::Refused, told));
        }
        Ok(())
    }
}

const SHORTEST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_millis(1_200);

/// Pages of a `cp -r`, which has no other end.
const MOST_COPIED: usize = 1_000;
/// Pages that are written before time is up, at most.
const MOST_WRITTEN: usize = 500_000;

/// A directory in which nobody takes what is measured for knowledge.
fn outside(directory: &Path) -> Result<PathBuf, CommandFailure> {
    let name = directory.display();
    let whole = directory.canonicalize().map_err(|error| {
        CommandFailure::new(
            ExitStatus::Refused,
            anyhow::Error::new(error)
                .context(format!("`{name}` cannot be measured in; name a directory that exists with --dir")),
        )
    })?;
    if !whole.is_dir() {
        return Err(CommandFailure::saying(
            ExitStatus::Refused,
            format!("`{name}` is no directory; name one with --dir"),
        ));
    }
    if let Some(root) = whole.ancestors().find(|above| above.join(".svc").is_dir()) {
        let root = root.display();
        let told = format!("`{name}` lies in the knowledge base `{root}`; name a directory outside of it with --dir");
        return Err(CommandFailure::saying(ExitStatus::Refused, told));
    }
    Ok(whole)
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
