//! `svcfs reindex`

use clap::Args;
use serde_json::Value;
use svcfs_config::{CliOverrides, LogOutput};
use tracing::level_filters::LevelFilter;

use crate::failure::{CommandFailure, ExitStatus};
use crate::root::{OpenRoot, require_initialised, settings};
use crate::root_flag::RootFlag;
use crate::{adoption, control, indexing, logging, output, presence, progress};

const EXAMPLES: &str = "\
Examples:
  svcfs reindex --root notes
  svcfs reindex --root notes --check                  compare only, do not replace the index
  svcfs reindex --root notes --json | jq .differences

Exit codes: 0 when the old index was correct, 1 when it was not (without --check it has been
replaced).";

/// Rebuild and verify the search index
///
/// The index is derived from the pages and can be rebuilt at any time. This updates the old index,
/// builds a new one from the pages, compares the two word by word and link by link, and lists the
/// pages that differ. A running server does this itself and answers from the old index meanwhile.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReindexArgs {
    #[command(flatten)]
    root: RootFlag,
    /// Compare only; the old index is not replaced
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ReindexArgs {
    /// Rebuilds and compares, or only compares.
    ///
    /// # Errors
    /// `Failed` when the two differ; `Refused` when a server has the root.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, check, json } = self;
        let path = root.find()?;
        require_initialised(&path)?;
        let spinner = progress::spinner("the server builds the new index");
        let report = control::reindex(&path, check);
        spinner.finish_and_clear();
        if let Some(report) = report? {
            return print_report(&report, check, json);
        }
        let settings = settings(&path, None, CliOverrides::default())?;
        adoption::refuse_uncommitted(&path, &settings)?;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::WARN)?;
        let advice = "stop it first, and start it again afterwards";
        let root =
            OpenRoot::open(&path, settings, false).map_err(|fault| presence::root_in_use(&path, fault, advice))?;
        let report = rebuild(&root, check);
        root.close()?;
        print_report(&report?, check, json)
    }
}

/// Updates the old index, then builds a new one, with progress.
fn rebuild(root: &OpenRoot, check: bool) -> Result<Value, CommandFailure> {
    let spinner = progress::spinner("updating the old index");
    let caught_up = root.index_to_cursor(indexing::INDEX_TIMEOUT, || spinner.tick());
    spinner.finish_and_clear();
    caught_up?;
    let bar = progress::pages("building the new index");
    let report = indexing::rebuild(root.space(), check, |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    report
}

fn print_report(report: &Value, is_check: bool, json: bool) -> Result<(), CommandFailure> {
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
    let outcome = if is_check { "nothing was replaced; run without --check to replace it" } else { "it was replaced" };
    Err(CommandFailure::saying(
        ExitStatus::Failed,
        format!("the new index differs from the old one {what}{damage}; {outcome}"),
    ))
}
