//! `svcfs check-config`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use svcfs_config::LogOutput;
use tracing::level_filters::LevelFilter;

use super::doctor::text;
use crate::doctor::{CheckLevel, could_start};
use crate::failure::{CommandFailure, ExitStatus};
use crate::{logging, output};

const EXAMPLES: &str = "\
Examples:
  svcfs check-config --root notes       as `svcfs serve --root notes` would read it
  svcfs check-config ./notes.toml       only this file, as `svcfs serve --config ./notes.toml`
  svcfs check-config --root notes && kill -HUP $(pidof svcfs)

Every fault of the file is told at once, with its line. Then: whether the root, the log file and the
roots of other spaces are there and can be written, whether the port is free, and whether keys are kept well.
Nothing is opened, made or changed. A space beside the first that could not be opened is warned of: the others are served.

Exit codes: 0 when the server could start (warnings are told), 2 when the settings cannot be followed,
1 when they can, and something they name is in the way.";

/// Say whether the settings can be followed, without starting anything
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckConfig {
    /// Settings from this file instead of `.svc/config.toml` in the root
    file: Option<PathBuf>,
    /// Directory of the knowledge base [default: ./knowledge, unless a file is named]
    #[arg(short, long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

impl CheckConfig {
    /// Looks, and tells.
    ///
    /// # Errors
    /// `Usage` when the settings cannot be followed, `Failed` when something is in the way.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { file, root, json } = self;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::ERROR)?;
        let root = root.or_else(|| file.is_none().then(|| PathBuf::from("./knowledge")));
        let found = could_start(root.as_deref(), file.as_deref());
        let problems: Vec<_> = found.iter().filter(|finding| finding.level == CheckLevel::Problem).collect();
        if json {
            output::json(&json!({ "valid": problems.is_empty(), "findings": found }))?;
        } else {
            output::say(&text(&[], &found))?;
        }
        let of_settings = problems.iter().filter(|finding| finding.check == "settings").count();
        match (of_settings, problems.len() - of_settings) {
            (0, 0) => Ok(()),
            (0, in_the_way) => {
                let told = format!("a server would not start; in its way: {in_the_way}");
                Err(CommandFailure::saying(ExitStatus::Failed, told))
            }
            (wrong, _) => Err(CommandFailure::saying(
                ExitStatus::Usage,
                format!("the settings are refused; wrong in them: {wrong}"),
            )),
        }
    }
}
