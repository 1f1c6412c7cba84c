//! The program: the command line over the other crates.
//!
//! Invariant: this crate has only wiring. A command reads its flags, opens what it needs in one
//! order, closes it in reverse order, and reports the result.
#![warn(missing_docs)]

mod adoption;
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
mod handover;
mod indexing;
mod knowledge;
mod logging;
mod manual;
mod mcp_clients;
mod mounting;
mod mounts;
mod open_files;
mod output;
mod presence;
mod progress;
mod protocols;
mod reloading;
mod remote;
mod root;
mod root_flag;
mod signals;
mod socket;
mod stdio;
mod stop;
mod suggestions;
mod table;
mod verbs;

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
        // Help and version are not errors, and neither is the help of a call without arguments.
        Err(error) if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        Err(error) => {
            let text = suggestions::of_error(&error).unwrap_or_else(|| error.render().to_string());
            output::complain(&format!("svcfs: {}", text.trim_start_matches("error: ").trim_end()));
            return ExitCode::from(failure::ExitStatus::Usage as u8);
        }
    };
    let causes = cli.verbose;
    logging::configure(cli.log.clone());
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            logging::complain(&failure.message(causes));
            ExitCode::from(failure.exit() as u8)
        }
    }
}
