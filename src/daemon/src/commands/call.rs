//! `svcfs call`

use std::io::Read;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory};
use serde_json::{Map, Value};
use svcfs_base::Caller;
use svcfs_knowledge::kernel::{OperationEntry, OperationInputs};

use crate::asking::RootTarget;
use crate::cli::Cli;
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::{self, cli_caller};
use crate::table::table;
use crate::{arguments, client, manual, output};

/// Maximum size of `--input`, in bytes.
const MAX_INPUT_BYTES: u64 = 110 << 20;

const EXAMPLES: &str = "\
Examples:
  svcfs call                                         list all operations
  svcfs call search --help                           inputs of an operation
  svcfs call search q='refresh token' limit=5
  svcfs call search q=oauth --json | jq -r '.[].path'
  svcfs call read path=index.md                      prints the page
  svcfs call write path=a.md content=\"$(cat a.md)\" --actor me
  echo '{\"path\": \"a.md\", \"content\": \"# A\"}' | svcfs call write --input -
  svcfs call tree --url http://notes.local:3333";

/// Run any operation by name
///
/// Arguments are parsed according to the operation's schema: numbers, true and false, lists with
/// commas. An operation that returns text prints that text; --json prints the exact output instead.
///
/// If another process has the root (`svcfs serve`, `mount` or `mcp`), the operation runs there.
/// Else the command opens the root itself, which also records external edits. With --url the
/// operation runs on that server.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct CallArgs {
    /// The operation; without it, all operations are listed
    #[arg(value_parser = PossibleValuesParser::new(manual::names()), hide_possible_values = true)]
    operation: Option<String>,
    /// Arguments of the operation
    #[arg(value_name = "NAME=VALUE")]
    arguments: Vec<String>,
    /// Print the exact output as JSON
    #[arg(long)]
    json: bool,
    /// Arguments as one JSON object, `-` for standard input; NAME=VALUE adds to them
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    #[command(flatten)]
    target: RootTarget,
    /// Author of the commit [default: the login name]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Refuse the change unless the page still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    /// Print help, for the operation if one is given
    #[arg(short, long)]
    help: bool,
}

impl CallArgs {
    /// Runs the operation, or prints help.
    ///
    /// # Errors
    /// `Usage` for invalid arguments; the refusal of the operation.
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
            let message = format!("`{missing}` is required; `svcfs call {name} --help` lists the arguments");
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        }
        if self.if_match.is_some() && entry.is_read_only() {
            let message = format!("--if-match has no effect: `{}` changes nothing", entry.name);
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        }
        let json = self.json;
        print_output(entry, &self.run_operation(entry, arguments)?, json)
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

    fn run_operation(
        self,
        entry: &'static OperationEntry,
        arguments: Map<String, Value>,
    ) -> Result<Value, CommandFailure> {
        let Self { target, actor, if_match, .. } = self;
        let caller = cli_caller(actor.as_deref());
        let precondition = if_match.as_deref().map(root::expectation).transpose();
        let precondition =
            precondition.map_err(|fault| CommandFailure::new(ExitStatus::Usage, fault))?.unwrap_or_default();
        target.run_operation(entry, arguments, Caller { precondition, ..caller }, if_match)
    }
}

/// Parses `--input`.
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

/// Prints an output as JSON, text or table.
fn print_output(entry: &OperationEntry, output: &Value, json: bool) -> Result<(), CommandFailure> {
    if json {
        return crate::output::json(output);
    }
    let text = entry.http.iter().find_map(|route| output.get(route.text_field?.0));
    if let Some(content) = text {
        return crate::output::written(&client::bytes_of(content)?);
    }
    match table(output) {
        Some(table) => crate::output::say(&table),
        None => crate::output::json(output),
    }
}
