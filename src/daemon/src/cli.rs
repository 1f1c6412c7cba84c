//! The command line, as the help shows it.

use clap::{Parser, Subcommand};

use crate::commands::{
    analytics, bench, call, check_config, completions, doctor, init, janitor, man, mcp, mount, query, reindex, rules,
    serve, status, token, unmount,
};
use crate::failure::EXIT_CODES;

const EXAMPLES: &str = "\
Examples:
  svcfs init --root notes              begin a knowledge base, or adopt the pages that are there
  svcfs serve --root notes             serve it on http://127.0.0.1:3333
  svcfs call search q='refresh token'  ask it, whether it is served or not
  svcfs query 'TABLE status, due'      list pages by what their frontmatter says
  svcfs mcp --root notes               let an agent use it

`svcfs COMMAND --help` has examples for each command.";

/// A filesystem for knowledge: markdown pages as a folder, over HTTP and for agents, every save a git commit
#[derive(Debug, Parser)]
#[command(name = "svcfs", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Cli {
    /// Tell what led to an error, not only what to do about it
    #[arg(short, long, global = true, display_order = 900)]
    pub verbose: bool,
    /// What to do
    #[command(subcommand)]
    pub command: CliCommand,
}

/// What the program can do.
///
/// The help of a command is the doc comment of its struct: one here would hide it.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    Init(init::InitArgs),
    Serve(serve::ServeArgs),
    Status(status::StatusArgs),
    Mount(mount::MountArgs),
    Unmount(unmount::UnmountArgs),
    Reindex(reindex::ReindexArgs),
    Doctor(doctor::DoctorArgs),
    CheckConfig(check_config::CheckConfig),
    Query(query::QueryArgs),
    Call(call::CallArgs),
    Janitor(janitor::JanitorArgs),
    Analytics(analytics::AnalyticsArgs),
    Rules(rules::RulesArgs),
    Token(token::TokenArgs),
    Mcp(mcp::McpArgs),
    Bench(bench::BenchArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;
    use svcfs_config::{SERVE_FLAGS, ServeFlag};

    use super::*;

    /// Flags of `svcfs serve` that stand for no key of the settings.
    const OF_ONE_START: [&str; 10] = [
        "root",
        "mount",
        "read-only",
        "at",
        "no-exec",
        "allow-other",
        "actor",
        "no-svc-actor",
        "config",
        "until-stdin-closes",
    ];

    #[test]
    fn the_reference_of_the_configuration_knows_every_flag_that_beats_it_and_its_variable() {
        let mut program = Cli::command();
        program.build();
        let serve = program.find_subcommand("serve").unwrap();
        let everywhere = ["help", "version", "verbose"];
        let known: BTreeSet<_> = serve
            .get_arguments()
            .filter_map(|flag| Some((flag.get_long()?, flag.get_env().and_then(std::ffi::OsStr::to_str))))
            .filter(|(flag, _)| !OF_ONE_START.contains(flag) && !everywhere.contains(flag))
            .collect();
        assert_eq!(known, SERVE_FLAGS.iter().map(|ServeFlag { name, env_var, .. }| (*name, *env_var)).collect());
    }
}
