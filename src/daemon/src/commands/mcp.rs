//! `svcfs mcp`

use std::path::PathBuf;

use clap::Args;
use svcfs_config::CliOverrides;
use svcfs_http::{ToolSelection, profile_names};
use tracing::level_filters::LevelFilter;

use crate::failure::CommandFailure;
use crate::root::{require_initialised, settings};
use crate::root_flag::RootFlag;
use crate::stdio::AgentProcess;
use crate::{logging, signals};

const EXAMPLES: &str = "\
Examples:
  svcfs mcp --root notes
  svcfs mcp --root notes --profile core        about 20 tools; the others are found and run by name
  {\"mcpServers\": {\"notes\": {\"command\": \"svcfs\", \"args\": [\"mcp\", \"-r\", \"/home/me/notes\"]}}}

Any number of agents can use a root in this way, also beside `svcfs serve` or `svcfs mount`. The
first process opens the root, and the others use it through that process. A server that starts
later takes the root over. When the process ends, another one opens the root. Sessions continue.";

/// Run an MCP server over stdio
///
/// For agents that start their MCP servers themselves. The tools are the operations of `svcfs
/// call`. Logs go to standard error. Ends when the agent closes standard input, after all accepted
/// writes are complete.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct McpArgs {
    #[command(flatten)]
    root: RootFlag,
    /// Settings from this file instead of `.svc/config.toml` in the root; not while another process
    /// has the root
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The tools to list: core, read, memory, tasks or full, each also with /readonly; default: the
    /// setting `mcp.profile`
    #[arg(long, value_name = "PROFILE", value_parser = parse_profile)]
    profile: Option<String>,
}

/// A valid profile.
fn parse_profile(text: &str) -> Result<String, String> {
    match ToolSelection::of_profile(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("the profiles are {}", profile_names())),
    }
}

impl McpArgs {
    /// Answers until standard input ends.
    ///
    /// # Errors
    /// `Refused` when a process that does not answer has the root; the root cannot be opened.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, config, profile } = self;
        let root = root.find()?;
        require_initialised(&root)?;
        let settings = settings(&root, config.as_deref(), CliOverrides::default())?;
        let _logging = logging::start(&settings.log, LevelFilter::WARN)?;
        let listening = signals::listen(false)?;
        AgentProcess::new(root, (config, profile), listening).run()
    }
}
