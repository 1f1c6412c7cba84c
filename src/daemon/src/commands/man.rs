//! `svcfs man`

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::cli::Cli;
use crate::failure::{CommandFailure, ExitStatus};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  svcfs man | man -l -                          read the manual without installing it
  svcfs man serve | man -l -                    that of one command
  svcfs man --all ~/.local/share/man/man1       for `man svcfs` and `man svcfs-serve`";

/// Print the manual page of the program or of one of its commands
///
/// The pages contain the same text as `--help`. Packages include them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// The command [default: the program itself]
    command: Option<String>,
    /// Write the pages of all commands into this directory, which is created if missing
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,
}

impl ManArgs {
    /// Prints the page, or writes all of them.
    ///
    /// # Errors
    /// `Usage` for an unknown command; `Failed` when a page cannot be written.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { command, all } = self;
        let program = built_program();
        if let Some(directory) = all {
            return write_all(program, &directory);
        }
        let chosen = match command {
            None => program,
            Some(name) => {
                let subcommand = program.get_subcommands().find(|command| command.get_name() == name).cloned();
                subcommand.ok_or_else(|| {
                    CommandFailure::saying(
                        ExitStatus::Usage,
                        format!("there is no command `{name}`; `svcfs --help` lists them"),
                    )
                })?
            }
        };
        output::written(&page(chosen)?)
    }
}

/// The program after clap has built it: with full names and global flags.
fn built_program() -> Command {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    program
}

fn page(command: Command) -> Result<Vec<u8>, CommandFailure> {
    let mut text = Vec::new();
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    Page::new(command).title(name.to_uppercase()).render(&mut text).context("the page cannot be written")?;
    Ok(text)
}

#[expect(clippy::disallowed_methods, reason = "pages of the manual, in a directory of the caller's: no part of a tree")]
fn write_all(program: Command, directory: &std::path::Path) -> Result<(), CommandFailure> {
    let message = || format!("cannot write the manual into `{}`", directory.display());
    fs::create_dir_all(directory).with_context(message)?;
    let mut pending = vec![program];
    while let Some(command) = pending.pop() {
        pending.extend(command.get_subcommands().cloned());
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        fs::write(directory.join(format!("{name}.1")), page(command)?).with_context(message)?;
    }
    Ok(())
}
