//! The commands, one file each.

pub mod analytics;
pub mod bench;
pub mod call;
pub mod check_config;
pub mod completions;
pub mod doctor;
pub mod init;
pub mod janitor;
pub mod man;
pub mod mcp;
pub mod mount;
pub mod query;
pub mod reindex;
pub mod rules;
pub mod serve;
pub mod status;
pub mod token;
pub mod unmount;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Does what the command line says.
///
/// # Errors
/// The command's own.
pub fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { verbose: _, command } = cli;
    match command {
        Command::Init(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Mount(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Unmount(command) => command.run(),
        Command::Reindex(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::CheckConfig(command) => command.run(),
        Command::Query(command) => command.run(),
        Command::Call(command) => command.run(),
        Command::Janitor(command) => command.run(),
        Command::Analytics(command) => command.run(),
        Command::Rules(command) => command.run(),
        Command::Token(command) => command.run(),
        Command::Mcp(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    }
}
