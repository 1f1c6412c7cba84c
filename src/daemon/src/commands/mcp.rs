//! `svcfs mcp`

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use svcfs_config::CliOverrides;
use svcfs_mount::MountNamespace;
use tracing::level_filters::LevelFilter;

use crate::failure::CommandFailure;
use crate::root::{OpenRoot, require_initialised, settings};
use crate::root_flag::RootFlag;
use crate::stop::{self, RunningServer};
use crate::{logging, presence, signals};

const EXAMPLES: &str = "\
Examples:
  svcfs mcp --root notes
  {\"mcpServers\": {\"notes\": {\"command\": \"svcfs\", \"args\": [\"mcp\", \"-r\", \"/home/me/notes\"]}}}

A running `svcfs serve` offers the same tools at /mcp, for many agents.";

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
    /// Settings from this file instead of `.svc/config.toml` in the root
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl McpArgs {
    /// Answers until standard input ends.
    ///
    /// # Errors
    /// `Refused` when a server uses the root; the root cannot be opened; the connection breaks off.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, config } = self;
        let path = root.find()?;
        require_initialised(&path)?;
        let settings = settings(&path, config.as_deref(), CliOverrides::default())?;
        let _logging = logging::start(&settings.log, LevelFilter::WARN)?;
        let listening = signals::listen(false)?;
        let root = OpenRoot::open(&path, settings, true).map_err(|fault| {
            let served = presence::holder(&path, &fault).and_then(|holder| holder.served);
            let advice = match served.and_then(|served| served.url) {
                Some(url) => format!("let the agent use {url}/mcp"),
                None => "stop it first".to_owned(),
            };
            presence::root_in_use(&path, fault, &advice)
        })?;
        let running = RunningServer::with(root, MountNamespace::default());
        running.mounts.announce(None, running.root.key())?;
        let session = svcfs_http::serve_stdio(Arc::clone(running.root.server()), listening.end.clone());
        let outcome = listening.runtime.block_on(async {
            tokio::select! {
                outcome = session => outcome,
                () = listening.end.cancelled() => Ok(()),
            }
        });
        let outcome = outcome.map_err(|error| anyhow::Error::new(error).into());
        stop::after(outcome, running, listening)
    }
}
