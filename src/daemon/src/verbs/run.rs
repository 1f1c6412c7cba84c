//! Runs a verb: opens the knowledge base once, runs its operations, prints the answers.

use std::cell::RefCell;

use clap::{ArgMatches, FromArgMatches};
use serde_json::{Map, Value};
use svcfs_base::Caller;

use super::command_line::{self, ACTOR, IF_MATCH, JSON};
use super::tree_paths::TreePaths;
use super::views::{Rendered, Style, View, ViewContext};
use super::{Action, PositionalKind, Verb, steps};
use crate::asking::{OpenTarget, RootTarget};
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::{self, cli_caller};
use crate::{logging, manual, output};

/// A verb in progress.
pub struct VerbRun<'a> {
    verb: &'static Verb,
    matches: &'a ArgMatches,
    target: RefCell<OpenTarget>,
    caller: Caller,
    if_match: Option<String>,
    paths: TreePaths,
    arguments: Map<String, Value>,
}

/// Runs a verb.
///
/// # Errors
/// `Usage` for a path outside the knowledge base; the refusal of the operation.
pub fn run(verb: &'static Verb, matches: &mut ArgMatches) -> Result<(), CommandFailure> {
    if let Some(outcome) = verb.alternative.and_then(|alternative| (alternative.run)(matches)) {
        return outcome;
    }
    let usage = |error: clap::Error| CommandFailure::saying(ExitStatus::Usage, error.to_string());
    let target = RootTarget::from_arg_matches_mut(matches).map_err(usage)?;
    let paths = match target.is_remote() {
        true => TreePaths::default(),
        false => TreePaths::of_root(&target.root()?, target.space()),
    };
    // Before the root is opened: standard input may take long.
    let arguments = command_line::arguments(verb, matches, &paths)?;
    let text = |name| matches.try_get_one::<String>(name).ok().flatten().cloned();
    let (actor, if_match) = (text(ACTOR), text(IF_MATCH));
    let names_author = !manual::find(verb.operation)?.is_read_only() && !verb.selects_by_actor();
    let caller = cli_caller(actor.as_deref().filter(|_| names_author));
    let precondition = if_match.as_deref().map(root::expectation).transpose();
    let precondition = precondition.map_err(|fault| CommandFailure::new(ExitStatus::Usage, fault))?.unwrap_or_default();
    let caller = Caller { precondition, ..caller };
    let mut run = VerbRun { verb, matches, target: RefCell::new(target.open()?), caller, if_match, paths, arguments };
    let outcome = run.perform();
    run.target.into_inner().close()?;
    outcome
}

impl VerbRun<'_> {
    fn perform(&mut self) -> Result<(), CommandFailure> {
        match self.verb.action {
            Action::Once(view) => self.print(&self.call_verb(self.arguments.clone())?, view),
            Action::EachPath(view) => self.each_path(|run, arguments| {
                let answer = run.call_verb(arguments)?;
                run.print(&answer, view)
            }),
            Action::Steps(steps) => steps(self),
        }
    }

    /// Runs the operation of the verb. A refusal names the page; a directory is called one.
    fn call_verb(&self, arguments: Map<String, Value>) -> Result<Value, CommandFailure> {
        let path = arguments.get("path").and_then(Value::as_str).map(str::to_owned);
        let failure = match self.call(self.verb.operation, arguments) {
            Err(failure) if failure.exit() == ExitStatus::Refused => failure,
            outcome => return outcome,
        };
        // `ls` and `tree` are for directories, and `search` has no path.
        let Some(path) = path.filter(|_| !matches!(self.verb.operation, "tree" | "search")) else {
            return Err(failure);
        };
        let (shown, message) = (self.shown(&path), failure.message(false));
        if steps::is_directory(self, &path) && !message.contains("is a directory") {
            let message = format!("`{shown}` is a directory; `svcfs ls {shown}` lists it");
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        }
        let is_named = message.contains(&path) || manual::find(self.verb.operation)?.is_read_only();
        Err(if is_named { failure } else { failure.preceded_by(&format!("`{shown}` was not written")) })
    }

    /// Runs an operation.
    ///
    /// # Errors
    /// Its refusal.
    pub fn call(&self, operation: &str, arguments: Map<String, Value>) -> Result<Value, CommandFailure> {
        let entry = manual::find(operation)?;
        let if_match = self.if_match.clone().filter(|_| entry.is_conditional);
        let caller = match entry.is_read_only() {
            true => Caller { precondition: Default::default(), ..self.caller.clone() },
            false => self.caller.clone(),
        };
        self.target.borrow_mut().run(entry, &arguments, (&caller, if_match.as_deref()))
    }

    /// Prints an answer as JSON, or as a view renders it.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn print(&self, answer: &Value, view: View) -> Result<(), CommandFailure> {
        if self.matches.get_flag(JSON) {
            return output::json(answer);
        }
        let has_flag = |name: &str| matches!(self.matches.try_get_one::<bool>(name), Ok(Some(true)));
        let cx = ViewContext { paths: &self.paths, style: Style::of_stdout(), has_flag: &has_flag };
        let Rendered { text, notes } = view(answer, &cx)?;
        output::written(&text)?;
        notes.iter().for_each(|note| output::complain(note));
        Ok(())
    }

    /// Does something for each of several paths, with the arguments of its operation. As with other
    /// programs, a path that fails does not stop the others; the last failure is returned.
    ///
    /// # Errors
    /// The last failure; `Usage` for a path outside the tree, before anything is done.
    pub fn each_path(
        &self,
        step: impl Fn(&Self, Map<String, Value>) -> Result<(), CommandFailure>,
    ) -> Result<(), CommandFailure> {
        let declared = self.verb.positionals.iter().find(|declared| declared.kind == PositionalKind::Paths);
        let Some(parameter) = declared.map(|declared| declared.parameter) else { return Ok(()) };
        let given = self.matches.get_many::<String>(parameter).into_iter().flatten();
        let paths: Vec<String> = given.map(|text| self.paths.resolve(text)).collect::<Result<_, _>>()?;
        if paths.len() > 1 && self.if_match.is_some() {
            return Err(CommandFailure::saying(ExitStatus::Usage, "--if-match needs a single path"));
        }
        let mut failure = None;
        for path in paths {
            let mut arguments = self.arguments.clone();
            arguments.insert(parameter.to_owned(), path.into());
            if let Err(next) = step(self, arguments)
                && let Some(previous) = failure.replace(next)
            {
                logging::complain(&previous.message(false));
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// The arguments of the operation.
    pub const fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// An argument of the operation that is a text.
    pub fn text(&self, parameter: &str) -> Option<&str> {
        self.arguments.get(parameter).and_then(Value::as_str)
    }

    /// Whether a flag is given.
    pub fn has_flag(&self, name: &str) -> bool {
        matches!(self.matches.try_get_one::<bool>(name), Ok(Some(true)))
    }

    /// A path of the tree as it can be typed here.
    pub fn shown(&self, path: &str) -> String {
        Some(self.paths.shown(path)).filter(|shown| !shown.is_empty()).unwrap_or_else(|| ".".to_owned())
    }

    /// A positional as it was typed.
    pub fn typed(&self, parameter: &str) -> Option<&str> {
        self.matches.get_one::<String>(parameter).map(String::as_str)
    }
}
