//! `svcfs reindex`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use svcfs_base::Fault;
use svcfs_config::{LogOutput, Overrides};
use svcfs_knowledge::search::{Report, check, reindex};
use tracing::level_filters::LevelFilter;

use crate::failure::{Exit, Failure};
use crate::root::{Root, must_be_initialised, settings};
use crate::{logging, output, presence, progress};

/// How long the old index may take to catch up before it is compared; a tree of a million pages takes minutes.
const PATIENCE: Duration = Duration::from_secs(3600);

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
/// from the pages, compares the two word by word and link by link, and names the pages for which they differ.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Reindex {
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

impl Reindex {
    /// Rebuilds and compares, or only compares.
    ///
    /// # Errors
    /// `Failed` when the two differ; `Refused` when a server has the root.
    pub fn run(self) -> Result<(), Failure> {
        let Self { root: path, check, json } = self;
        must_be_initialised(&path)?;
        let settings = settings(&path, None, Overrides::default())?;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::WARN)?;
        let advice = "stop it first, and start it again afterwards";
        let root = Root::open(&path, settings, false).map_err(|fault| presence::taken(&path, fault, advice))?;
        let report = if check { checked(&root) } else { rebuilt(&root) };
        root.close()?;
        tell(&report?, check, json)
    }
}

fn rebuilt(root: &Root) -> Result<Report, Failure> {
    made_anew(root, |reach| reindex(root.space(), reach))
}

fn checked(root: &Root) -> Result<Report, Failure> {
    let scratch = tempfile::tempdir().context("no place for temporary files")?;
    made_anew(root, |reach| check(root.space(), scratch.path(), reach))
}

/// Lets the old index catch up, then makes a new one, and shows how far that is.
fn made_anew(
    root: &Root,
    make: impl FnOnce(&mut dyn FnMut(usize, usize)) -> Result<Report, Fault>,
) -> Result<Report, Failure> {
    let watched = progress::spinner("bringing the old index up to date");
    let caught_up = root.index_to_cursor(PATIENCE, || watched.tick());
    watched.finish_and_clear();
    caught_up?;
    let watched = progress::pages("making the new index");
    let report = make(&mut |done, total| {
        watched.set_length(total as u64);
        watched.set_position(done as u64);
    });
    watched.finish_and_clear();
    Ok(report?)
}

fn tell(report: &Report, is_check: bool, json: bool) -> Result<(), Failure> {
    let Report { pages, before, after, differences } = report;
    let equal = before.is_as_good_as(after);
    if json {
        output::json(&json!({
            "equal": equal, "pages": pages, "before": before, "after": after, "differences": differences,
        }))?;
    } else if equal {
        let (links, words) = (after.links, after.words);
        output::say(&format!("{pages} pages, {links} links, {words} words: the new index equals the old one"))?;
    } else {
        let lines = differences.iter().map(|difference| {
            let how = serde_json::to_value(difference.divergence).unwrap_or_default();
            format!("  {:<8} {}\n", how.as_str().unwrap_or_default(), difference.path)
        });
        output::say(&lines.collect::<String>())?;
    }
    if equal {
        return Ok(());
    }
    let damage =
        before.damage.as_ref().map(|damage| format!(" (the old one was damaged: {damage})")).unwrap_or_default();
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
    Err(Failure::saying(Exit::Failed, format!("the new index differs from the old one {what}{damage}; {outcome}")))
}
