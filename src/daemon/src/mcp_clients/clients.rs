//! What is special about each client.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::{ClientFileError, ConfigLevel, ServerEntry, directory, home};
use crate::credentials;

/// A client with a configuration file for MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum McpClient {
    /// Claude Code
    ClaudeCode,
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor
    Cursor,
    /// Visual Studio Code with GitHub Copilot
    #[value(name = "vscode")]
    VsCode,
    /// OpenAI Codex
    Codex,
    /// Zed
    Zed,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
}

impl McpClient {
    /// Its name on the command line.
    pub const fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
            Self::Zed => "zed",
            Self::OpenCode => "opencode",
        }
    }

    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Codex => "Codex",
            Self::Zed => "Zed",
            Self::OpenCode => "OpenCode",
        }
    }

    /// Whether its file is TOML; the others are JSON, possibly with comments.
    pub const fn is_toml(self) -> bool {
        matches!(self, Self::Codex)
    }

    /// The members that contain the entries, from the outside in.
    pub(super) const fn container(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor => &["mcpServers"],
            Self::VsCode => &["servers"],
            Self::Codex => &["mcp_servers"],
            Self::Zed => &["context_servers"],
            Self::OpenCode => &["mcp"],
        }
    }

    /// Whether it connects to HTTP servers itself; the others use `svcfs mcp --remote`.
    pub const fn has_http(self) -> bool {
        !matches!(self, Self::ClaudeDesktop)
    }

    /// How a user sees that it works.
    pub const fn check(self) -> &'static str {
        match self {
            Self::ClaudeCode => "run `claude mcp list`, or `/mcp` in a session",
            Self::ClaudeDesktop => "restart Claude Desktop and open Settings > Developer",
            Self::Cursor => "open Cursor Settings > MCP",
            Self::VsCode => "run the command `MCP: List Servers`",
            Self::Codex => "run `codex mcp list`, or `/mcp` in a session",
            Self::Zed => "open the settings of the Agent Panel, which list the MCP servers",
            Self::OpenCode => "run `opencode mcp list`",
        }
    }

    /// The file.
    ///
    /// # Errors
    /// `NoFile` when there is no home directory, or the client has no files for projects.
    pub fn file(self, level: ConfigLevel<'_>) -> Result<PathBuf, ClientFileError> {
        let environment = match level {
            ConfigLevel::Project(project) => return self.project_file().map(|file| project.join(file)),
            ConfigLevel::User(environment) => environment,
        };
        let config = |below: &str| Some(directory(environment, "XDG_CONFIG_HOME", ".config")?.join(below));
        let file = match self {
            Self::ClaudeCode => match environment("CLAUDE_CONFIG_DIR") {
                Some(folder) => Some(PathBuf::from(folder).join(".claude.json")),
                None => home(environment).map(|home| home.join(".claude.json")),
            },
            Self::ClaudeDesktop => config("Claude/claude_desktop_config.json"),
            Self::Cursor => home(environment).map(|home| home.join(".cursor/mcp.json")),
            Self::VsCode => config("Code/User/mcp.json"),
            Self::Codex => directory(environment, "CODEX_HOME", ".codex").map(|folder| folder.join("config.toml")),
            Self::Zed => config("zed/settings.json"),
            Self::OpenCode => config("opencode/opencode.json").map(prefer_comments),
        };
        file.ok_or_else(|| ClientFileError::NoFile("there is no home directory: set HOME".to_owned()))
    }

    fn project_file(self) -> Result<PathBuf, ClientFileError> {
        let file = match self {
            Self::ClaudeCode => ".mcp.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::VsCode => ".vscode/mcp.json",
            Self::Codex => ".codex/config.toml",
            Self::Zed => ".zed/settings.json",
            Self::OpenCode => "opencode.json",
            Self::ClaudeDesktop => {
                let message = "Claude Desktop has no configuration of projects; leave out --project";
                return Err(ClientFileError::NoFile(message.to_owned()));
            }
        };
        Ok(file.into())
    }

    /// An entry in the form of the client.
    pub fn entry(self, server: &ServerEntry) -> Value {
        match server {
            ServerEntry::Stdio { command, arguments, key } => {
                let variables = key.as_ref().map(|key| json!({ credentials::VARIABLE: key }));
                let plain = json!({ "command": command, "args": arguments });
                match self {
                    Self::ClaudeCode | Self::VsCode => with(&[("type", json!("stdio"))], plain, ("env", variables)),
                    Self::Zed => with(&[("source", json!("custom"))], plain, ("env", variables)),
                    Self::ClaudeDesktop | Self::Cursor | Self::Codex => with(&[], plain, ("env", variables)),
                    Self::OpenCode => {
                        let command: Vec<&String> = std::iter::once(command).chain(arguments).collect();
                        let plain = json!({ "type": "local", "command": command, "enabled": true });
                        with(&[], plain, ("environment", variables))
                    }
                }
            }
            ServerEntry::Http { url, key, space } => {
                let mut headers = Map::new();
                headers.extend(key.iter().map(|key| ("Authorization".to_owned(), format!("Bearer {key}").into())));
                headers.extend(space.iter().map(|space| ("X-Svc-Space".to_owned(), space.as_str().into())));
                let headers = Some(headers).filter(|headers| !headers.is_empty()).map(Value::from);
                let plain = json!({ "url": url });
                match self {
                    Self::ClaudeCode | Self::VsCode => with(&[("type", json!("http"))], plain, ("headers", headers)),
                    Self::Zed => with(&[("source", json!("custom"))], plain, ("headers", headers)),
                    Self::ClaudeDesktop | Self::Cursor => with(&[], plain, ("headers", headers)),
                    Self::Codex => with(&[], plain, ("http_headers", headers)),
                    Self::OpenCode => {
                        let plain = json!({ "type": "remote", "url": url, "enabled": true });
                        with(&[], plain, ("headers", headers))
                    }
                }
            }
        }
    }
}

/// OpenCode reads `opencode.jsonc`, too; a user who has one wants the entry there.
fn prefer_comments(file: PathBuf) -> PathBuf {
    let with_comments = file.with_extension("jsonc");
    if !file.exists() && with_comments.exists() { with_comments } else { file }
}

/// An entry with members before and after the plain ones.
fn with(before: &[(&str, Value)], plain: Value, (name, last): (&str, Option<Value>)) -> Value {
    let mut entry: Map<String, Value> =
        before.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    if let Value::Object(plain) = plain {
        entry.extend(plain);
    }
    entry.extend(last.map(|last| (name.to_owned(), last)));
    entry.into()
}
