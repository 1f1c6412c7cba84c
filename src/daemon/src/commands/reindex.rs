//! `svcfs reindex`

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use svcfs_config::{CliOverrides, LogOutput};
use tracing::level_filters::LevelFilter;

use crate::failure::{CommandFailure, ExitStatus};
use crate::root::{OpenRoot, must_be_initialised, settings};
use crate::{control, indexing, logging, output, presence, progress};

const EXAMPLES: &str = "\
Examples:
  svcfs reindex --root notes
  svcfs reindex --root notes --check                  compares, and leaves the index as it is
  svcfs reindex --root notes --json | jq .differences

Exit codes: 0 when the old index was right, 1 when it was not (without --check the new one is in
place all the same).";

/// Make the search index anew, and prove that the old one was right
///
/// The index is derived from the pages and can be made again at any time. This brings the old one up to date, makes a new one
/// from the pages, compares the two word by word and link by link, and names the pages for which they differ. A server that has the
/// root does it itself, and answers questions from the old one meanwhile.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReindexArgs {
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Only compare: the old index stays, right or wrong
    #[arg(long)]
    check: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

impl ReindexArgs {
    /// Rebuilds and compares, or only compares.
    ///
    /// # Errors
    /// `Failed` when the two differ; `Refused` when a server has the root.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root: path, check, json } = self;
        must_be_initialised(&path)?;
        let watched = progress::spinner("the server makes the new index, and answers questions meanwhile");
        let told = control::index_anew(&path, check);
        watched.finish_and_clear();
        if let Some(report) = told? {
            return tell(&report, check, json);
        }
        let settings = settings(&path, None, CliOverrides::default())?;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::WARN)?;
        let advice = "stop it first, and start it again afterwards";
        let root = OpenRoot::open(&path, settings, false).map_err(|fault| presence::taken(&path, fault, advice))?;
        let report = made_anew(&root, check);
        root.close()?;
        tell(&report?, check, json)
    }
}

/// Lets the old index catch up, then makes a new one, and shows how far that is.
fn made_anew(root: &OpenRoot, check: bool) -> Result<Value, CommandFailure> {
    let watched = progress::spinner("bringing the old index up to date");
    let caught_up = root.index_to_cursor(indexing::PATIENCE, || watched.tick());
    watched.finish_and_clear();
    caught_up?;
    let watched = progress::pages("making the new index");
    let report = indexing::made_anew(root.space(), check, |done, total| {
        watched.set_length(total as u64);
        watched.set_position(done as u64);
    });
    watched.finish_and_clear();
    report
}

fn tell(report: &Value, is_check: bool, json: bool) -> Result<(), CommandFailure> {
    let equal = report["equal"] == true;
    let differences = report["differences"].as_array().map_or(&[][..], Vec::as_slice);
    if json {
        output::json(report)?;
    } else if equal {
        let (pages, links, words) = (&report["pages"], &report["after"]["links"], &report["after"]["words"]);
        output::say(&format!("{pages} pages, {links} links, {words} words: the new index equals the old one"))?;
    } else {
        let lines = differences.iter().map(|difference| {
            let text = |name: &str| difference[name].as_str().unwrap_or_default().to_owned();
            format!("  {:<8} {}\n", text("divergence"), text("path"))
        });
        output::say(&lines.collect::<String>())?;
    }
    if equal {
        return Ok(());
    }
    let damage = report["before"]["damage"].as_str();
    let damage = damage.map(|damage| format!(" (the old one was damaged: {damage})")).unwrap_or_default();
    let what = match differences.len() {
        0 => "in its word lists only".to_owned(),
        1 => "for 1 page".to_owned(),
        many => format!("for {many} pages"),
    };
    let outcome = if is_check {
        "nothing was replaced; without --check the new one takes its place"
    } else {
        "the new one is in place"
    };
    Err(CommandFailure::saying(
        ExitStatus::Failed,
        format!("the new index differs from the old one {what}{damage}; {outcome}"),
    ))
}
