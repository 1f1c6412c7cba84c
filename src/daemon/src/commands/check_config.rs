//! `svcfs check-config`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use svcfs_config::LogOutput;
use tracing::level_filters::LevelFilter;

use super::doctor::text;
use crate::doctor::{CheckLevel, could_start, counted};
use crate::failure::{CommandFailure, ExitStatus};
use crate::root_flag::RootFlag;
use crate::{logging, output};

const EXAMPLES: &str = "\
Examples:
  svcfs check-config --root notes       the settings that `svcfs serve --root notes` reads
  svcfs check-config ./notes.toml       this file only, as with `svcfs serve --config ./notes.toml`
  svcfs check-config --root notes && kill -HUP $(pidof svcfs)

Lists every error of the file with its line. Then checks that the root, the log file and the roots
of other spaces exist and can be written, that the port is free, and that key files are private.
Nothing is opened, created or changed. A space that cannot be opened is a warning, except the first:
the others are served.

Exit codes: 0 when the server could start (warnings are listed), 2 when the settings are invalid,
1 when they are valid and a file, folder or port that they name cannot be used.";

/// Validate the configuration
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckConfig {
    /// Settings from this file instead of `.svc/config.toml` in the root
    file: Option<PathBuf>,
    #[command(flatten)]
    root: RootFlag,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CheckConfig {
    /// Checks and prints the findings.
    ///
    /// # Errors
    /// `Usage` when the settings are invalid, `Failed` when something else prevents the start.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { file, root, json } = self;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::ERROR)?;
        // A file alone needs no root.
        let root = if root.is_given() || file.is_none() { Some(root.find()?) } else { None };
        let findings = could_start(root.as_deref(), file.as_deref());
        let problems: Vec<_> = findings.iter().filter(|finding| finding.level == CheckLevel::Problem).collect();
        if json {
            output::json(&json!({ "valid": problems.is_empty(), "findings": findings }))?;
        } else {
            output::say(&text(&[], &findings))?;
        }
        let of_settings = problems.iter().filter(|finding| finding.check == "settings").count();
        match (of_settings, problems.len() - of_settings) {
            (0, 0) => Ok(()),
            (0, count) => {
                let message = format!("a server would not start: {}", counted(count, "problem"));
                Err(CommandFailure::saying(ExitStatus::Failed, message))
            }
            (errors, _) => {
                let message = format!("the configuration is invalid: {}", counted(errors, "error"));
                Err(CommandFailure::saying(ExitStatus::Usage, message))
            }
        }
    }
}
