//! The command line, as the help shows it.

use clap::{Parser, Subcommand};

use crate::commands::{call, completions, init, mcp, mount, reindex, serve, unmount};
use crate::failure::EXIT_CODES;

const EXAMPLES: &str = "\
Examples:
  svcfs init --root notes                    begin a knowledge base, or adopt the pages that are there
  svcfs serve --root notes --mount notes.mnt serve it on http://127.0.0.1:3333 and as a folder
  svcfs call search q='refresh token'        ask it, whether it is served or not
  svcfs mcp --root notes                     let an agent use it

`svcfs COMMAND --help` has examples for each command.";

/// A filesystem for knowledge: markdown pages as a folder, over HTTP and for agents, every save a git commit
#[derive(Debug, Parser)]
#[command(name = "svcfs", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Cli {
    /// Tell what led to an error, not only what to do about it
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Begin a knowledge base, or adopt a folder as it is
    Init(init::Init),
    /// Serve a knowledge base over HTTP and, when asked to, as a mounted folder
    Serve(serve::Serve),
    /// Mount a knowledge base as a folder, without HTTP
    Mount(mount::Mount),
    /// Take a mount away, also one whose server is gone
    Unmount(unmount::Unmount),
    /// Make the search index anew, and prove that the old one was right
    Reindex(reindex::Reindex),
    /// Ask or change a knowledge base: every operation, by name
    Call(call::Call),
    /// Speak the agent tool protocol on standard input and output
    Mcp(mcp::Mcp),
    /// Print a script that completes commands and flags in your shell
    Completions(completions::Completions),
}
