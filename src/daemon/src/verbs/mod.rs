//! The commands people type most: `svcfs search`, `read`, `log` and others.
//!
//! Invariant: a verb is an operation with arguments by position. Its options are parameters of the
//! operation, with its descriptions where these are right for a command line; `--json` prints the
//! operation's answer unchanged. What only a verb knows is in [`declarations`].

mod backup_restore;
mod command_line;
mod content;
mod declarations;
mod run;
mod steps;
mod tree_paths;
mod views;

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};

use self::declarations::VERBS;
use self::run::VerbRun;
use crate::failure::CommandFailure;

/// A command that runs an operation.
struct Verb {
    name: &'static str,
    /// The operation whose parameters are the options.
    operation: &'static str,
    about: &'static str,
    details: &'static str,
    examples: &'static str,
    positionals: &'static [Positional],
    options: &'static [VerbOption],
    /// Flags that are no parameters of the operation.
    flags: &'static [VerbFlag],
    /// Arguments that are the same in every call.
    fixed: &'static [(&'static str, FixedValue)],
    action: Action,
    /// Another thing of the same name, with flags of its own.
    alternative: Option<&'static VerbAlternative>,
}

/// What a verb does instead with some flags.
struct VerbAlternative {
    /// Adds the flags.
    augment: fn(Command) -> Command,
    /// Runs it, unless the arguments are those of the verb.
    run: fn(&ArgMatches) -> Option<Result<(), CommandFailure>>,
}

/// An argument by position.
struct Positional {
    /// Parameter of the operation.
    parameter: &'static str,
    value_name: &'static str,
    help: &'static str,
    kind: PositionalKind,
    is_required: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PositionalKind {
    /// A path of the tree.
    Path,
    /// Paths of the tree, one operation for each.
    Paths,
    /// Words that are joined with spaces.
    Words,
    /// A value as it is.
    Value,
    /// A text, else standard input.
    Text,
    /// The content of a file on this machine, else standard input.
    File,
}

/// A parameter of the operation as an option.
struct VerbOption {
    parameter: &'static str,
    /// Its name with hyphens.
    long: &'static str,
    short: Option<char>,
    /// Another name of the option.
    alias: Option<&'static str>,
    /// What the value is called; empty for the name of its type.
    value_name: &'static str,
    /// For a person at a command line; empty for the description of the parameter.
    help: &'static str,
}

impl Verb {
    /// Whether `--actor` selects changes, so that the author of a commit is the login name.
    fn selects_by_actor(&self) -> bool {
        self.options.iter().any(|option| option.parameter == command_line::ACTOR)
    }
}

struct VerbFlag {
    name: &'static str,
    short: Option<char>,
    help: &'static str,
}

enum FixedValue {
    Number(u32),
    True,
}

/// What a verb does with its arguments.
enum Action {
    /// Runs the operation once.
    Once(views::View),
    /// Runs the operation for each path.
    EachPath(views::View),
    /// Runs operations in an order of its own.
    Steps(fn(&VerbRun<'_>) -> Result<(), CommandFailure>),
}

/// A verb with its command line.
#[derive(Debug, Clone)]
pub struct VerbCommand {
    name: String,
    matches: ArgMatches,
}

impl VerbCommand {
    /// Runs the verb and prints its result.
    ///
    /// # Errors
    /// `Usage` for a path outside the knowledge base; the refusal of the operation.
    pub fn run(mut self) -> Result<(), CommandFailure> {
        match VERBS.iter().find(|verb| verb.name == self.name) {
            Some(verb) => run::run(verb, &mut self.matches),
            None => Ok(()),
        }
    }
}

/// The names of the verbs.
pub fn names() -> impl Iterator<Item = &'static str> {
    VERBS.iter().map(|verb| verb.name)
}

impl Subcommand for VerbCommand {
    fn augment_subcommands(program: Command) -> Command {
        VERBS.iter().fold(program, |program, verb| program.subcommand(command_line::of_verb(verb)))
    }
    fn augment_subcommands_for_update(program: Command) -> Command {
        Self::augment_subcommands(program)
    }
    fn has_subcommand(name: &str) -> bool {
        names().any(|verb| verb == name)
    }
}

impl FromArgMatches for VerbCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand() {
            Some((name, matches)) => Ok(Self { name: name.to_owned(), matches: matches.clone() }),
            None => Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand)),
        }
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
