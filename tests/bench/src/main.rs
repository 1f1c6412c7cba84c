//! The benchmark behind docs/benchmarks.md: what `svcfs bench` measures, and what takes longer,
//! beside what the issues ask for.
//!
//! One rule: every row measures and checks itself; a run in which history lacks one commit ends
//! without a table.
#![expect(clippy::disallowed_methods, reason = "it writes beside svcfs, and measures the disk without it")]

mod answers;
mod asked;
mod boards;
mod committer;
mod document;
mod drafts;
mod files;
mod goals;
mod large_trees;
mod links;
mod mounted;
mod passthrough;
mod past;
mod pauses;
mod plan;
mod protocols;
mod publishing;
mod questions;
mod ranking;
mod scale;
mod searching;
mod tasks;
mod vectors;
mod webhooks;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use svcfs_measure::machine;
use svcfs_measure::reading::{self, ReadingResults};
use svcfs_measure::run::{BenchRun, stop_on_signal};
use svcfs_measure::table::MarkdownTable;
use svcfs_measure::writing::{self, WritingResults};
use svcfs_work::StopToken;

use crate::answers::Answers;
use crate::boards::Boards;
use crate::committer::Committer;
use crate::drafts::Drafts;
use crate::files::Files;
use crate::large_trees::LargeTrees;
use crate::links::Links;
use crate::mounted::Mounted;
use crate::past::Past;
use crate::pauses::Pauses;
use crate::plan::Extent;
use crate::protocols::Doors;
use crate::publishing::Publishing;
use crate::questions::Questions;
use crate::ranking::Ranking;
use crate::scale::Scale;
use crate::searching::Searching;
use crate::tasks::Tasks;
use crate::vectors::Vectors;
use crate::webhooks::Webhooks;

/// Measure svcfs beside git and beside the bare filesystem; markdown tables on standard output
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Less than a minute with small trees, to see that it works; the figures are worth little
    #[arg(long)]
    quick: bool,
    /// Also a tree of a million pages, which takes minutes and 24 GiB
    #[arg(long, conflicts_with = "quick")]
    large: bool,
    /// Only these parts
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',', conflicts_with = "write")]
    only: Vec<Part>,
    /// Also replace the tables in this document
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// The program to measure [default: the `svcfs` beside this one]
    #[arg(long, value_name = "FILE")]
    svcfs: Option<PathBuf>,
    /// Directory on the disk to measure; nothing is left in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Directory with the corpora
    #[arg(long, value_name = "DIR", env = "SVCFS_CORPORA", default_value = "../shared/corpora")]
    corpora: PathBuf,
}

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Single pages and bulks, beside git and the bare disk; what is left of it
    Writing,
    /// Searching beside grep, and starting
    Reading,
    /// The write path by itself, and through HTTP
    Committer,
    /// Trees of different sizes; opening and memory
    Scale,
    /// A tree of a million pages, as with --large
    Large,
    /// Copies and renames through the mount
    Mounted,
    /// Files on the mount, beside the disk and a mount that passes everything on
    Files,
    /// Files over WebDAV and S3, beside rclone, WsgiDAV and nginx
    Doors,
    /// The longest waits of a single writer
    Pauses,
    /// Questions about history, beside git
    History,
    /// Questions about links, and renames
    Links,
    /// Queries over frontmatter, and how a tree is doing
    Questions,
    /// How often search finds the page that answers a question, beside plain full-text search and
    /// grep
    Ranking,
    /// What search and indexing cost in trees of different sizes, beside plain full-text search and
    /// `git grep`
    Searching,
    /// Search, queries and backlinks over a large tree, by several clients and while others write
    Answers,
    /// The board of a workflow
    Boards,
    /// Answers as long as the tree, and memory over a large one
    LargeTrees,
    /// Claims, and many workers that take tasks
    Tasks,
    /// Opening, writing and merging drafts
    Drafts,
    /// Rendering, and published pages beside nginx
    Publishing,
    /// Notifications to one receiver
    Webhooks,
    /// Search by meaning: embedding, recall, latency, memory
    Vectors,
}

/// What was measured.
#[derive(Default)]
struct Measured {
    writing: Option<WritingResults>,
    reading: Option<ReadingResults>,
    committer: Option<Committer>,
    scale: Option<Scale>,
    large: Option<scale::Measured>,
    mounted: Option<Mounted>,
    files: Option<Files>,
    protocols: Option<Doors>,
    pauses: Option<Pauses>,
    past: Option<Past>,
    links: Option<Links>,
    questions: Option<Questions>,
    ranking: Option<Ranking>,
    searching: Option<Searching>,
    answers: Option<Answers>,
    boards: Option<Boards>,
    large_trees: Option<LargeTrees>,
    tasks: Option<Tasks>,
    drafts: Option<Drafts>,
    publishing: Option<Publishing>,
    webhooks: Option<Webhooks>,
    vectors: Option<Vectors>,
}

fn main() -> Result<()> {
    let Arguments { quick, large, only, write, svcfs, dir, corpora } = Arguments::parse();
    let program = match svcfs {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("svcfs"),
    };
    ensure!(program.is_file(), "`{}` is missing; build it, or name another with --svcfs", program.display());
    ensure!(machine::is_installed("git"), "git is missing, which svcfs is measured beside and judged by");
    let extent =
        if quick { Extent::quick(&corpora) } else { Extent::full(&corpora, large || only.contains(&Part::Large)) };
    if !quick && extent.plan.corpus.is_none() {
        tell(&format!("`{}` has no tldr.tar.xz; the generated tree is searched instead", corpora.display()));
    }
    std::fs::create_dir_all(&dir)?;
    let stop = StopToken::new();
    stop_on_signal(stop.clone())?;
    let version = machine::run(Command::new("git").args(["describe", "--always", "--dirty"]));
    let version = version.map_or_else(|_| "unknown".to_owned(), |commit| format!("commit {}", commit.trim()));
    let facts = machine::describe_machine(&dir, &version);
    let mut measured = Measured::default();
    let mut failed = Vec::new();
    let is_asked = |part: &Part| {
        if *part == Part::Large { extent.large.is_some() } else { only.is_empty() || only.contains(part) }
    };
    for part in Part::value_variants().iter().copied().filter(is_asked) {
        let begin = || BenchRun::start(program.clone(), &dir, stop.clone(), tell);
        if let Err(error) = begin().and_then(|run| measured.add(part, run, &extent)) {
            ensure!(!stop.is_requested(), "ended before everything was measured; nothing is left behind");
            // The others are worth their time.
            tell(&format!("{part:?} failed: {error:#}"));
            failed.push(format!("{part:?}"));
        }
    }
    let text = told(&facts, &measured);
    std::io::stdout().write_all(text.as_bytes())?;
    ensure!(failed.is_empty(), "{} failed, as told above; no document is written", failed.join(", "));
    if let Some(document) = write {
        document::replace(&document, &text)?;
    }
    Ok(())
}

impl Measured {
    /// Measures a part, and removes what it made.
    fn add(&mut self, part: Part, run: BenchRun, extent: &Extent) -> Result<()> {
        let began = Instant::now();
        match part {
            Part::Writing => self.writing = Some(writing::measure(&run, &extent.plan)?),
            Part::Reading => self.reading = Some(reading::measure(&run, &extent.plan)?),
            Part::Committer => self.committer = Some(committer::measure(&run, extent)?),
            Part::Scale => self.scale = Some(scale::measure(&run, extent)?),
            Part::Large => {
                if let Some(pages) = extent.large {
                    self.large = Some(scale::measure_large(&run, extent, pages)?);
                }
            }
            Part::Mounted => self.mounted = Some(mounted::measure(&run, extent)?),
            Part::Files => self.files = Some(files::measure(&run, extent)?),
            Part::Doors => self.protocols = Some(protocols::measure(&run, extent)?),
            Part::Pauses => self.pauses = Some(pauses::measure(&run, extent)?),
            Part::History => self.past = Some(past::measure(&run, extent)?),
            Part::Links => self.links = Some(links::measure(&run, extent)?),
            Part::Questions => self.questions = Some(questions::measure(&run, extent)?),
            Part::Ranking => self.ranking = Some(ranking::measure(&run, extent)?),
            Part::Searching => self.searching = Some(searching::measure(&run, extent)?),
            Part::Answers => self.answers = Some(answers::measure(&run, extent)?),
            Part::Boards => self.boards = Some(boards::measure(&run, extent)?),
            Part::LargeTrees => self.large_trees = Some(large_trees::measure(&run, extent)?),
            Part::Tasks => self.tasks = Some(tasks::measure(&run, extent)?),
            Part::Drafts => self.drafts = Some(drafts::measure(&run, extent)?),
            Part::Publishing => self.publishing = Some(publishing::measure(&run, extent)?),
            Part::Webhooks => self.webhooks = Some(webhooks::measure(&run, extent)?),
            Part::Vectors => self.vectors = Some(vectors::measure(&run, extent)?),
        }
        run.finish()?;
        tell(&format!("{part:?} took {:.0} s", began.elapsed().as_secs_f64()));
        Ok(())
    }
}

/// Facts and tables: what was asked for first, then the figures by themselves.
fn told(facts: &[(&str, String)], measured: &Measured) -> String {
    let mut text: String = facts.iter().map(|(name, fact)| format!("- {name}: {fact}\n")).collect();
    text.push('\n');
    let Measured {
        writing,
        reading,
        committer,
        scale,
        large,
        mounted,
        files,
        protocols,
        pauses,
        past,
        links,
        questions,
        ranking,
        searching,
        answers,
        boards,
        large_trees,
        tasks,
        drafts,
        publishing,
        webhooks,
        vectors,
    } = measured;
    let mut tables = vec![goals::table(measured)];
    tables.extend(writing.iter().flat_map(WritingResults::tables));
    tables.extend(committer.iter().map(Committer::table));
    match (scale, large) {
        (Some(scale), large) => tables.extend(scale.tables(large.as_ref())),
        (None, Some(large)) => tables.push(scale::costs(&[large])),
        (None, None) => {}
    }
    tables.extend(mounted.iter().map(Mounted::table));
    tables.extend(files.iter().map(Files::table));
    tables.extend(protocols.iter().map(Doors::table));
    tables.extend(pauses.iter().map(Pauses::table));
    tables.extend(reading.iter().flat_map(ReadingResults::tables));
    tables.extend(past.iter().map(Past::table));
    tables.extend(links.iter().map(Links::table));
    tables.extend(questions.iter().map(Questions::table));
    tables.extend(ranking.iter().map(Ranking::table));
    tables.extend(searching.iter().flat_map(Searching::tables));
    tables.extend(answers.iter().map(Answers::table));
    tables.extend(boards.iter().map(Boards::table));
    tables.extend(large_trees.iter().map(LargeTrees::table));
    tables.extend(tasks.iter().map(Tasks::table));
    tables.extend(drafts.iter().map(Drafts::table));
    tables.extend(publishing.iter().map(Publishing::table));
    tables.extend(webhooks.iter().map(Webhooks::table));
    tables.extend(vectors.iter().map(Vectors::table));
    text.extend(tables.iter().filter(|table| !table.rows.is_empty()).map(MarkdownTable::to_markdown));
    text
}

/// Says what is going on.
fn tell(text: &str) {
    // Nobody is left to tell when that fails.
    let _ = writeln!(std::io::stderr(), "{text}");
}
