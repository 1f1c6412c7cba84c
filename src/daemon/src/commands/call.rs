//! `svcfs call`

use std::io::Read;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory};
use serde_json::{Map, Value};
use svcfs_base::{Caller, ETag, Precondition};
use svcfs_knowledge::kernel::{OperationEntry, OperationInputs};

use crate::asking::RootTarget;
use crate::cli::Cli;
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::whoever;
use crate::table::table;
use crate::{arguments, client, manual, output};

/// Longest `--input`, in bytes (gaps.md 4.1: bodies).
const MAX_INPUT_BYTES: u64 = 110 << 20;

const EXAMPLES: &str = "\
Examples:
  svcfs call                                         every operation, in one line each
  svcfs call search --help                           what one takes
  svcfs call search q='refresh token' limit=5
  svcfs call search q=oauth --json | jq -r '.[].path'
  svcfs call read path=index.md                      prints the page as it is
  svcfs call write path=a.md content=\"$(cat a.md)\" --actor me
  echo '{\"path\": \"a.md\", \"content\": \"# A\"}' | svcfs call write --input -
  svcfs call tree --url http://notes.local:3333";

/// Ask or change a knowledge base: every operation, by name
///
/// Arguments are read as the operation's schema says: numbers, true and false, lists with commas. The answer of an operation
/// that gives a text is that text; --json gives the exact answer of the interface instead.
///
/// When a server has the root, it is asked over HTTP; else the root is opened for this one call, which also records what was
/// edited in it meanwhile. With --url a server is asked wherever it is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct CallArgs {
    /// Which operation; all of them are listed when absent
    #[arg(value_parser = PossibleValuesParser::new(manual::names()), hide_possible_values = true)]
    operation: Option<String>,
    /// Its arguments
    #[arg(value_name = "NAME=VALUE")]
    arguments: Vec<String>,
    /// Print the exact answer as JSON
    #[arg(long)]
    json: bool,
    /// All arguments as one JSON object, `-` for standard input; NAME=VALUE adds to it
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    #[command(flatten)]
    whom: RootTarget,
    /// Author of the commit, when something is changed [default: the login name]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Refuse the change unless the page still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    /// Print help, of the operation when one is named
    #[arg(short, long)]
    help: bool,
}

impl CallArgs {
    /// Calls the operation, or explains.
    ///
    /// # Errors
    /// `Usage` for arguments the operation does not take; the operation's own refusal.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Some(name) = &self.operation else {
            return self.explain();
        };
        let entry = manual::find(name)?;
        if self.help {
            return output::say(&manual::of(entry));
        }
        let inputs = OperationInputs::from_entry(entry);
        let given = self.input.as_deref().map(input).transpose()?.unwrap_or_default();
        let arguments = arguments::read(&inputs, given, &self.arguments)?;
        if let Some(missing) = inputs.first_missing(&arguments) {
            let (missing, name) = (&missing.name, entry.name);
            let told = format!("`{missing}` is required; `svcfs call {name} --help` tells what the operation takes");
            return Err(CommandFailure::saying(ExitStatus::Usage, told));
        }
        if self.if_match.is_some() && entry.is_read_only() {
            let told = format!("--if-match has no meaning: `{}` changes nothing", entry.name);
            return Err(CommandFailure::saying(ExitStatus::Usage, told));
        }
        let json = self.json;
        show(entry, &self.answer(entry, arguments)?, json)
    }

    fn explain(&self) -> Result<(), CommandFailure> {
        if self.help {
            let mut program = Cli::command();
            program.build();
            let help = program.find_subcommand_mut("call").map(|call| call.render_long_help().to_string());
            return output::say(&help.unwrap_or_default());
        }
        if self.json { output::json(&manual::list_json()) } else { output::say(&manual::list()) }
    }

    fn answer(self, entry: &'static OperationEntry, arguments: Map<String, Value>) -> Result<Value, CommandFailure> {
        let Self { whom, actor, if_match, .. } = self;
        let caller = whoever(actor.as_deref());
        let expect = if_match.as_deref().map(expectation).transpose()?.unwrap_or_default();
        whom.ask(entry, arguments, Caller { precondition: expect, ..caller }, if_match)
    }
}

fn expectation(text: &str) -> Result<Precondition, CommandFailure> {
    if text.trim() == "*" {
        return Ok(Precondition::Present);
    }
    ETag::parse("--if-match", text)
        .map(|etag| Precondition::OneOf(vec![etag]))
        .map_err(|fault| CommandFailure::new(ExitStatus::Usage, fault))
}

/// `--input`, as the object it must be.
fn input(text: &str) -> Result<Map<String, Value>, CommandFailure> {
    let mut given = text.to_owned();
    if text == "-" {
        given.clear();
        let stdin = std::io::stdin().lock();
        stdin.take(MAX_INPUT_BYTES).read_to_string(&mut given).context("standard input cannot be read")?;
    }
    serde_json::from_str(&given)
        .map_err(|error| CommandFailure::saying(ExitStatus::Usage, format!("--input must be a JSON object: {error}")))
}

/// Prints an answer: exactly, or as people like to read it.
fn show(entry: &OperationEntry, answer: &Value, json: bool) -> Result<(), CommandFailure> {
    if json {
        return output::json(answer);
    }
    let text = entry.http.iter().find_map(|route| answer.get(route.text_field?.0));
    if let Some(content) = text {
        return output::written(&client::bytes_of(content)?);
    }
    match table(answer) {
        Some(table) => output::say(&table),
        None => output::json(answer),
    }
}
