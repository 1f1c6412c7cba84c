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
/// The pages say what `--help` says. A package brings them along.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// Which command; the program itself when absent
    command: Option<String>,
    /// Write the pages of all commands into this directory, which is made when absent
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,
}

impl ManArgs {
    /// Prints the page, or writes all of them.
    ///
    /// # Errors
    /// `Usage` for a command that there is none of; `Failed` when nothing can be written.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { command, all } = self;
        let program = whole();
        if let Some(directory) = all {
            return write_all(program, &directory);
        }
        let chosen = match command {
            None => program,
            Some(name) => {
                let found = program.get_subcommands().find(|command| command.get_name() == name).cloned();
                found.ok_or_else(|| {
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

/// The program as clap knows it once it is asked something: with names in full, and the flags that all commands have.
fn whole() -> Command {
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
    let told = || format!("cannot write the manual into `{}`", directory.display());
    fs::create_dir_all(directory).with_context(told)?;
    let mut left = vec![program];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().cloned());
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        fs::write(directory.join(format!("{name}.1")), page(command)?).with_context(told)?;
    }
    Ok(())
}
