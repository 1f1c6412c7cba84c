//! The command line, as the help shows it.

use clap::{Parser, Subcommand};

use crate::commands::{
    analytics, backup, bench, call, check_config, completions, doctor, drafts, init, janitor, man, mcp, mount, query,
    reindex, rules, serve, status, tasks, token, unmount,
};
use crate::failure::EXIT_CODES;
use crate::logging::LogFlags;
use crate::verbs::VerbCommand;

const EXAMPLES: &str = "\
Examples:
  svcfs init --root notes              create a knowledge base, or set one up in an existing folder
  svcfs serve --root notes             serve it on http://127.0.0.1:3333
  svcfs search refresh token           search it, with or without a running server
  svcfs read index.md                  print a page
  svcfs log                            recent changes
  svcfs query 'TABLE status, due'      list pages by their frontmatter
  svcfs mcp --root notes               run an MCP server for an agent

`svcfs COMMAND --help` has examples for each command.";

/// A filesystem for knowledge: markdown pages as files, over HTTP and for agents, with a git commit
/// for each save
#[derive(Debug, Parser)]
#[command(name = "svcfs", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Cli {
    /// Show the full error chain
    #[arg(short, long, global = true, display_order = 900)]
    pub verbose: bool,
    /// Flags of the log
    #[command(flatten)]
    pub log: LogFlags,
    /// The command
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The commands.
///
/// The help of a command is the doc comment of its struct; a doc comment here would replace it.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    Init(init::InitArgs),
    Serve(serve::ServeArgs),
    Status(status::StatusArgs),
    Mount(mount::MountArgs),
    Unmount(unmount::UnmountArgs),
    /// A verb of [`crate::verbs`]
    #[command(flatten)]
    Verb(VerbCommand),
    Query(query::QueryArgs),
    Call(call::CallArgs),
    Reindex(reindex::ReindexArgs),
    Doctor(doctor::DoctorArgs),
    CheckConfig(check_config::CheckConfig),
    Janitor(janitor::JanitorArgs),
    Analytics(analytics::AnalyticsArgs),
    Rules(rules::RulesArgs),
    Tasks(tasks::TasksArgs),
    Drafts(drafts::DraftsArgs),
    Token(token::TokenArgs),
    Backup(backup::BackupArgs),
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

    /// Flags of `svcfs serve` that are not settings.
    const FLAGS_WITHOUT_SETTING: [&str; 13] = [
        "root",
        "create",
        "adopt",
        "mount",
        "read-only",
        "at",
        "draft",
        "no-exec",
        "allow-other",
        "actor",
        "no-svc-actor",
        "config",
        "until-stdin-closes",
    ];

    #[test]
    fn the_configuration_reference_lists_every_flag_and_its_variable() {
        let mut program = Cli::command();
        program.build();
        let serve = program.find_subcommand("serve").unwrap();
        let everywhere = ["help", "version", "verbose", "log-level", "log-format"];
        let known: BTreeSet<_> = serve
            .get_arguments()
            .filter_map(|flag| Some((flag.get_long()?, flag.get_env().and_then(std::ffi::OsStr::to_str))))
            .filter(|(flag, _)| !FLAGS_WITHOUT_SETTING.contains(flag) && !everywhere.contains(flag))
            .collect();
        assert_eq!(known, SERVE_FLAGS.iter().map(|ServeFlag { name, env_var, .. }| (*name, *env_var)).collect());
    }
}
