//! `svcfs mcp`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use svcfs_config::{CliOverrides, LogOutput};
use svcfs_http::{ToolSelection, profile_names};
use tracing::level_filters::LevelFilter;

use super::mcp_install::{InstallArgs, UninstallArgs};
use crate::failure::CommandFailure;
use crate::root::{require_initialised, settings};
use crate::root_flag::RootFlag;
use crate::stdio::{AgentProcess, HttpProxy};
use crate::{credentials, logging, mcp_clients, remote, signals};

const EXAMPLES: &str = "\
Examples:
  svcfs mcp --root notes
  svcfs mcp --root notes --profile core        about 20 tools; the others are found and run by name
  svcfs mcp --remote https://notes.example.org --token-file key
  svcfs mcp install claude-code --root notes
  {\"mcpServers\": {\"notes\": {\"command\": \"svcfs\", \"args\": [\"mcp\", \"-r\", \"/home/me/notes\"]}}}

Any number of agents can use a root in this way, also beside `svcfs serve` or `svcfs mount`. The
first process opens the root, and the others use it through that process. A server that starts
later takes the root over. When the process ends, another one opens the root. Sessions continue.";

/// Run an MCP server over stdio
///
/// For agents that start their MCP servers themselves. The tools are the operations of `svcfs
/// call`. Logs go to standard error. Ends when the agent closes standard input, after all accepted
/// writes are complete.
///
/// With --remote, the messages are passed to a server over HTTP.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    #[command(subcommand)]
    what: Option<McpCommand>,
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
    /// Use the server at this URL, such as https://notes.example.org
    #[arg(long, value_name = "URL", value_parser = remote::address, conflicts_with_all = ["root", "config"])]
    remote: Option<String>,
    /// File with the key for --remote in its first line (mode 0600) [default: $SVC_API_KEY]
    #[arg(long, value_name = "FILE", requires = "remote")]
    token_file: Option<PathBuf>,
    /// Space of the server [default: its first space]
    #[arg(long, value_name = "NAME", requires = "remote")]
    space: Option<String>,
}

/// A valid profile.
fn parse_profile(text: &str) -> Result<String, String> {
    match ToolSelection::of_profile(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("the profiles are {}", profile_names())),
    }
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Install(InstallArgs),
    Uninstall(UninstallArgs),
}

impl McpArgs {
    /// Answers until standard input ends.
    ///
    /// # Errors
    /// `Refused` when a process that does not answer has the root; the root cannot be opened.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { what, root, config, profile, remote, token_file, space } = self;
        match what {
            Some(McpCommand::Install(install)) => return install.run(),
            Some(McpCommand::Uninstall(uninstall)) => return uninstall.run(),
            None => {}
        }
        if let Some(url) = remote {
            let key = credentials::load(token_file.as_deref())?;
            let _logging = logging::start(&LogOutput::Stderr, LevelFilter::WARN)?;
            let proxy =
                HttpProxy::new(mcp_clients::endpoint(&url, profile.as_deref()), key.as_deref(), space.as_deref())?;
            return proxy.run(signals::listen(false)?);
        }
        let root = root.find()?;
        require_initialised(&root)?;
        let settings = settings(&root, config.as_deref(), CliOverrides::default())?;
        let _logging = logging::start(&settings.log, LevelFilter::WARN)?;
        let listening = signals::listen(false)?;
        AgentProcess::new(root, (config, profile), listening).run()
    }
}
