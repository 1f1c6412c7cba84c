//! The commands, one file each.

pub mod analytics;
pub mod backup;
pub mod bench;
pub mod call;
pub mod check_config;
pub mod completions;
pub mod doctor;
pub mod drafts;
pub mod init;
pub mod janitor;
pub mod man;
pub mod mcp;
mod mcp_install;
pub mod mount;
pub mod query;
pub mod reindex;
pub mod rules;
pub mod serve;
pub mod status;
pub mod tasks;
pub mod token;
pub mod unmount;

use crate::cli::{Cli, CliCommand};
use crate::failure::CommandFailure;

/// Runs the command.
///
/// # Errors
/// Those of the command.
pub fn run(cli: Cli) -> Result<(), CommandFailure> {
    let Cli { verbose: _, log: _, command } = cli;
    match command {
        CliCommand::Init(command) => command.run(),
        CliCommand::Serve(command) => command.run(),
        CliCommand::Mount(command) => command.run(),
        CliCommand::Status(command) => command.run(),
        CliCommand::Unmount(command) => command.run(),
        CliCommand::Reindex(command) => command.run(),
        CliCommand::Doctor(command) => command.run(),
        CliCommand::CheckConfig(command) => command.run(),
        CliCommand::Verb(verb) => verb.run(),
        CliCommand::Query(command) => command.run(),
        CliCommand::Call(command) => command.run(),
        CliCommand::Janitor(command) => command.run(),
        CliCommand::Analytics(command) => command.run(),
        CliCommand::Rules(command) => command.run(),
        CliCommand::Tasks(command) => command.run(),
        CliCommand::Drafts(command) => command.run(),
        CliCommand::Token(command) => command.run(),
        CliCommand::Backup(command) => command.run(),
        CliCommand::Mcp(command) => command.run(),
        CliCommand::Bench(command) => command.run(),
        CliCommand::Completions(command) => command.run(),
        CliCommand::Man(command) => command.run(),
    }
}
