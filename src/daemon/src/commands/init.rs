//! `svcfs init`

use std::path::Path;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use svcfs_config::templates::{self, TEMPLATES, Template};
use svcfs_config::{CliOverrides, LogOutput};
use tracing::level_filters::LevelFilter;

use crate::adoption::AdoptFlag;
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::{OpenRoot, cli_caller, is_new, settings};
use crate::root_flag::RootFlag;
use crate::{logging, output, presence};
use svcfs_knowledge::spaces::{InstalledTemplate, write_template};

const EXAMPLES: &str = "\
Examples:
  svcfs init -r notes               a new directory, with the template `knowledge`
  svcfs init -r runbooks -t runbook
  svcfs init -r ~/my-notes          sets up existing pages and their git repository
  svcfs init                        in the current directory, if it is empty or a git repository
  svcfs init -r ~/my-notes --adopt  also commits what git has not committed there
  svcfs init -r notes --json        print the written and existing files as JSON";

/// Create a knowledge base, or set one up in an existing folder
///
/// A new or empty directory gets the pages of a template. A directory with files gets only settings
/// and page templates, unless --template is given; an existing git repository is used with its
/// history. Existing files are never changed. Repeating the command does nothing.
///
/// With uncommitted changes in a repository, the command first lists what it would commit, and asks
/// at a terminal; elsewhere it ends with 3 and changes nothing, unless --adopt is given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{}\n\n{EXAMPLES}", template_help()))]
pub struct InitArgs {
    #[command(flatten)]
    root: RootFlag,
    /// Template [default: knowledge; blank for a directory that is not empty]
    #[arg(short, long, value_parser = PossibleValuesParser::new(TEMPLATES.iter().map(|template| template.id)))]
    template: Option<String>,
    /// Author of the first commit [default: the login name]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    #[command(flatten)]
    adopt: AdoptFlag,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn template_help() -> String {
    let lines = TEMPLATES.iter().map(|template| format!("  {:<10} {}", template.id, template.description));
    format!("Templates:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

impl InitArgs {
    /// Initialises the root.
    ///
    /// # Errors
    /// `Refused` when a server uses the root, or the root cannot be written.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, template, actor, adopt, json } = self;
        let path = root.find_or_current()?;
        let settings = settings(&path, None, CliOverrides::default())?;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::WARN)?;
        let id = template.as_deref().unwrap_or_else(|| if is_new(&path) { templates::DEFAULT } else { "blank" });
        let template = Template::find(id).ok_or_else(|| {
            CommandFailure::saying(
                ExitStatus::Usage,
                format!("there is no template `{id}`; `svcfs init --help` lists them"),
            )
        })?;
        adopt.prepare(&path, &settings, !json)?;
        let advice = "it is initialised already";
        let root =
            OpenRoot::open(&path, settings, false).map_err(|fault| presence::root_in_use(&path, fault, advice))?;
        let installed = write_template(root.space(), template, &cli_caller(actor.as_deref()));
        let absolute = root.space().vfs.root().to_owned();
        root.close()?;
        print_result(&path, &absolute, template, &installed?, json)
    }
}

fn print_result(
    root: &Path,
    absolute: &Path,
    template: &Template,
    installed: &InstalledTemplate,
    json: bool,
) -> Result<(), CommandFailure> {
    if json {
        let InstalledTemplate { written, existing } = installed;
        return output::json(
            &json!({ "root": absolute, "template": template.id, "written": written, "existing": existing }),
        );
    }
    let mut text = String::new();
    for path in &installed.written {
        text.push_str(&format!("  written  {path}\n"));
    }
    for path in &installed.existing {
        text.push_str(&format!("  existing {path}\n"));
    }
    let root = root.display();
    let head = match installed.written.len() {
        0 => format!("{} has all files of the template `{}` already\n", absolute.display(), template.id),
        _ => format!("{} is a knowledge base, with the template `{}`\n", absolute.display(), template.id),
    };
    output::say(&format!("{head}{text}\nNext: svcfs serve --root {root}\n"))
}
