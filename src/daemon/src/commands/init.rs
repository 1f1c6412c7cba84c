//! `svcfs init`

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use svcfs_config::templates::{self, TEMPLATES, Template};
use svcfs_config::{CliOverrides, LogOutput};
use tracing::level_filters::LevelFilter;

use crate::failure::{CommandFailure, ExitStatus};
use crate::root::{OpenRoot, is_new, settings, whoever};
use crate::{logging, output, presence};
use svcfs_knowledge::spaces::{InstalledTemplate, write_template};

const EXAMPLES: &str = "\
Examples:
  svcfs init                        ./knowledge, with the template `knowledge`
  svcfs init -r runbooks -t runbook
  svcfs init -r ~/my-notes          adopts the pages and the git repository that are there
  svcfs init -r notes --json        what was written and what was kept, for a script";

/// Begin a knowledge base, or adopt a folder as it is
///
/// A new or empty directory gets the pages of a template. One that has something in it keeps all of it and gets settings and
/// page templates only, unless --template says otherwise; a git repository that is there goes on, with its history. Existing
/// files are never changed. Doing it again does nothing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{}\n\n{EXAMPLES}", templates_told()))]
pub struct InitArgs {
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// What to begin with [default: knowledge; blank for a directory that is not empty]
    #[arg(short, long, value_parser = PossibleValuesParser::new(TEMPLATES.iter().map(|template| template.id)))]
    template: Option<String>,
    /// Author of the first commit [default: the login name]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

fn templates_told() -> String {
    let lines = TEMPLATES.iter().map(|template| format!("  {:<10} {}", template.id, template.description));
    format!("Templates:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

impl InitArgs {
    /// Initialises the root.
    ///
    /// # Errors
    /// `Refused` when a server has the root or it cannot be written.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root: path, template, actor, json } = self;
        let settings = settings(&path, None, CliOverrides::default())?;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::WARN)?;
        let id = template.as_deref().unwrap_or_else(|| if is_new(&path) { templates::DEFAULT } else { "blank" });
        let template = Template::find(id).ok_or_else(|| {
            CommandFailure::saying(
                ExitStatus::Usage,
                format!("there is no template `{id}`; `svcfs init --help` lists them"),
            )
        })?;
        let advice = "it is initialised already";
        let root = OpenRoot::open(&path, settings, false).map_err(|fault| presence::taken(&path, fault, advice))?;
        let planted = write_template(root.space(), template, &whoever(actor.as_deref()));
        let absolute = root.space().vfs.root().to_owned();
        root.close()?;
        tell(&path, &absolute, template, &planted?, json)
    }
}

fn tell(
    given: &Path,
    absolute: &Path,
    template: &Template,
    planted: &InstalledTemplate,
    json: bool,
) -> Result<(), CommandFailure> {
    if json {
        let InstalledTemplate { written, kept } = planted;
        return output::json(&json!({ "root": absolute, "template": template.id, "written": written, "kept": kept }));
    }
    let mut text = String::new();
    for path in &planted.written {
        text.push_str(&format!("  written  {path}\n"));
    }
    for path in &planted.kept {
        text.push_str(&format!("  kept     {path}\n"));
    }
    let given = given.display();
    let head = match planted.written.len() {
        0 => format!("{} has everything of the template `{}` already\n", absolute.display(), template.id),
        _ => format!("{} is a knowledge base, with the template `{}`\n", absolute.display(), template.id),
    };
    output::say(&format!("{head}{text}\nNext: svcfs serve --root {given}\n"))
}
