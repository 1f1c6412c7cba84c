//! The program: a command line over everything the other crates know.
//!
//! One rule: here is the wiring and nothing that could be decided elsewhere. A command reads its flags, opens what it needs in
//! one order and closes it in the reverse one, and says what happened.
#![warn(missing_docs)]

mod allocator;
mod arguments;
mod asking;
mod background;
mod cli;
mod client;
mod commands;
mod control;
mod credentials;
mod doctor;
mod failure;
mod fstab;
mod indexing;
mod knowledge;
mod logging;
mod manual;
mod mounting;
mod mounts;
mod open_files;
mod output;
mod presence;
mod progress;
mod protocols;
mod reloading;
mod remote;
mod replacing;
mod root;
mod signals;
mod socket;
mod stop;
mod table;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

fn main() -> ExitCode {
    allocator::keep_small();
    logging::report_panics();
    let given: Vec<_> = std::env::args_os().collect();
    let given = fstab::arguments(&given).unwrap_or(Ok(given));
    let cli = match given.and_then(cli::Cli::try_parse_from) {
        Ok(cli) => cli,
        // Help and version are no errors, and the help one gets for saying nothing needs no introduction.
        Err(told) if !told.use_stderr() || told.kind() == DisplayHelpOnMissingArgumentOrSubcommand => told.exit(),
        Err(error) => {
            let text = error.render().to_string();
            output::complain(&format!("svcfs: {}", text.trim_start_matches("error: ").trim_end()));
            return ExitCode::from(failure::ExitStatus::Usage as u8);
        }
    };
    let causes = cli.verbose;
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure.told(causes));
            ExitCode::from(failure.exit() as u8)
        }
    }
}
