//! The benchmark behind docs/benchmarks.md: the real `svcfs serve`, beside git and beside the bare filesystem, in one run.
//!
//! One rule: a figure is worth something only beside another one of the same minutes on the same disk. Why no harness of micro
//! benchmarks? Because what people wait for is a flush, a process and a socket, and those are measured from outside.
//!
//! Nothing but 127.0.0.1 is reached, every loop has a limit in count and time, and what was measured was also checked: one
//! commit for every write under the right name, search answers that are those of `grep`, a history that `git fsck` accepts.
#![expect(clippy::disallowed_methods, reason = "it writes beside svcfs, and measures the disk without it")]

mod disk;
mod git;
mod http;
mod machine;
mod measure;
mod pages;
mod past;
mod plan;
mod reading;
mod report;
mod server;
mod writing;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use plan::Plan;

/// Measure svcfs beside git and beside the bare filesystem; a markdown table on standard output
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// A third of a minute with small trees, to see that it works; the figures are worth little
    #[arg(long)]
    quick: bool,
    /// Only the table of history
    #[arg(long, conflicts_with = "write")]
    history: bool,
    /// Also replace the table in this document
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

fn main() -> Result<()> {
    let Arguments { quick, history, write, svcfs, dir, corpora } = Arguments::parse();
    let program = match svcfs {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("svcfs"),
    };
    ensure!(program.is_file(), "`{}` is missing; build it, or name another with --svcfs", program.display());
    let plan = if quick { Plan::quick() } else { Plan::full(&corpora) };
    if !quick && plan.corpus.is_none() {
        tell(&format!("`{}` has no tldr.tar.xz; the generated tree is searched instead", corpora.display()));
    }
    std::fs::create_dir_all(&dir)?;
    let scratch = tempfile::Builder::new().prefix("svcfs-bench-").tempdir_in(&dir);
    let scratch = scratch.with_context(|| format!("`{}` cannot be written", dir.display()))?;
    let facts = machine::facts(scratch.path());
    if history {
        let past = past::measure(&program, &plan, scratch.path())?;
        return Ok(std::io::stdout().write_all(report::history(&past).as_bytes())?);
    }
    let writing = writing::measure(&program, &plan, scratch.path())?;
    let reading = reading::measure(&program, &plan, scratch.path())?;
    let past = past::measure(&program, &plan, scratch.path())?;
    let table = report::markdown(&facts, (&writing, &reading, &past));
    std::io::stdout().write_all(table.as_bytes())?;
    if let Some(document) = write {
        report::replace(&document, &table)?;
    }
    Ok(())
}

/// Says what is going on.
fn tell(text: &str) {
    // Nobody is left to tell when that fails.
    let _ = writeln!(std::io::stderr(), "{text}");
}
