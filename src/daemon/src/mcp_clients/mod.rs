//! The configuration files of MCP clients: where they are, how an entry looks, and its edit.
//!
//! Invariant: everything else in a file stays as it is, comments and order included. An edit whose
//! result does not read back as the old file with the entry is not written.

mod clients;
mod json_file;
#[cfg(test)]
mod tests;
mod toml_file;

use std::path::{Path, PathBuf};

pub use clients::McpClient;
use serde_json::Value;

/// What an entry starts or connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEntry {
    /// A program that speaks MCP on standard input and output.
    Stdio {
        /// Path of the program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// The key for its server, which it reads from the environment.
        key: Option<String>,
    },
    /// A server over HTTP.
    Http {
        /// URL of the endpoint.
        url: String,
        /// The key.
        key: Option<String>,
        /// The space, if it is not the first.
        space: Option<String>,
    },
}

/// Where the configuration of a client is.
#[derive(Clone, Copy)]
pub enum ConfigLevel<'a> {
    /// For all projects of the user: environment variables by name.
    User(&'a dyn Fn(&str) -> Option<String>),
    /// For a project.
    Project(&'a Path),
}

/// Why a file cannot be edited.
#[derive(Debug, thiserror::Error)]
pub enum ClientFileError {
    /// The client has no such file.
    #[error("{0}")]
    NoFile(String),
    /// The file is not in the format of the client.
    #[error("the file cannot be read as {format}: {reason}; correct it first")]
    Syntax {
        /// Its format.
        format: &'static str,
        /// What the parser reports.
        reason: String,
    },
    /// A member of the file has another type.
    #[error("`{0}` in the file is not an object; correct it first")]
    NotAnObject(String),
    /// The edit would change something else.
    #[error("the file has a form that cannot be edited safely; add the entry by hand (--dry-run prints it)")]
    Unsafe,
}

/// The entry of a name in the text of a file; none without one.
///
/// # Errors
/// `Syntax`, `NotAnObject`.
pub fn find_entry(client: McpClient, text: &str, name: &str) -> Result<Option<Value>, ClientFileError> {
    let (_mark, text) = split_mark(text);
    if client.is_toml() { toml_file::find(text, name) } else { json_file::find(text, client, name) }
}

/// The text with an entry, which replaces one of the same name.
///
/// # Errors
/// [`ClientFileError`]; nothing is changed then.
pub fn set_entry(client: McpClient, text: &str, name: &str, entry: &Value) -> Result<String, ClientFileError> {
    let (mark, text) = split_mark(text);
    let changed =
        if client.is_toml() { toml_file::set(text, name, entry) } else { json_file::set(text, client, name, entry) };
    changed.map(|changed| format!("{mark}{changed}"))
}

/// The text without the entry of a name.
///
/// # Errors
/// [`ClientFileError`]; nothing is changed then.
pub fn remove_entry(client: McpClient, text: &str, name: &str) -> Result<String, ClientFileError> {
    let (mark, text) = split_mark(text);
    let changed = if client.is_toml() { toml_file::remove(text, name) } else { json_file::remove(text, client, name) };
    changed.map(|changed| format!("{mark}{changed}"))
}

/// Separates the byte order mark, which editors on Windows write.
fn split_mark(text: &str) -> (&str, &str) {
    const MARK: char = '\u{feff}';
    text.split_at(if text.starts_with(MARK) { MARK.len_utf8() } else { 0 })
}

/// The URL of the MCP endpoint of a server, which may be given with the path; with a profile, that
/// of its tool list.
pub fn endpoint(url: &str, profile: Option<&str>) -> String {
    let url = url.trim_end_matches('/');
    // The name of the host may be `mcp`, too.
    let host = url.find("://").map_or(0, |at| at + "://".len());
    let (origin, path) = url.split_at(url[host..].find('/').map_or(url.len(), |at| host + at));
    let path = match path.find("/mcp/x/") {
        Some(at) if profile.is_some() => &path[..at + "/mcp".len()],
        _ => path,
    };
    let mcp = if path.split('/').any(|segment| segment == "mcp") { "" } else { "/mcp" };
    let profile = profile.map(|profile| format!("/x/{profile}")).unwrap_or_default();
    format!("{origin}{path}{mcp}{profile}")
}

/// The key in an entry, wherever a client has it.
pub fn key_of(entry: &Value) -> Option<&str> {
    let header = |member: &str| entry.get(member)?.get("Authorization")?.as_str()?.strip_prefix("Bearer ");
    let variable = |member: &str| entry.get(member)?.get(crate::credentials::VARIABLE)?.as_str();
    header("headers").or_else(|| header("http_headers")).or_else(|| variable("env")).or_else(|| variable("environment"))
}

/// A directory that the environment names, else one below the home directory.
fn directory(environment: &dyn Fn(&str) -> Option<String>, variable: &str, below_home: &str) -> Option<PathBuf> {
    let given = environment(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| Some(home(environment)?.join(below_home)))
}

fn home(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    environment("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}
