//! `svcfs mcp`

use std::path::PathBuf;

use clap::Args;
use svcfs_config::CliOverrides;
use tracing::level_filters::LevelFilter;

use crate::failure::CommandFailure;
use crate::root::{require_initialised, settings};
use crate::root_flag::RootFlag;
use crate::stdio::AgentProcess;
use crate::{logging, signals};

const EXAMPLES: &str = "\
Examples:
  svcfs mcp --root notes
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
}

impl McpArgs {
    /// Answers until standard input ends.
    ///
    /// # Errors
    /// `Refused` when a process that does not answer has the root; the root cannot be opened.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, config } = self;
        let root = root.find()?;
        require_initialised(&root)?;
        let settings = settings(&root, config.as_deref(), CliOverrides::default())?;
        let _logging = logging::start(&settings.log, LevelFilter::WARN)?;
        let listening = signals::listen(false)?;
        AgentProcess::new(root, config, listening).run()
    }
}
