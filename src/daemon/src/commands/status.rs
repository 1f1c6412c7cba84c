//! `svcfs status`

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;
use serde_json::{Value, json};
use svcfs_knowledge::metrics::{ReadinessDetails, ReadinessReport, ServerReadiness, SpaceReport};

use crate::failure::{CommandFailure, ExitStatus};
use crate::output::one_line;
use crate::presence::{self, ServedRoot};
use crate::root::require_initialised;
use crate::root_flag::RootFlag;
use crate::table::table;
use crate::{client, credentials, output};

const EXAMPLES: &str = "\
Examples:
  svcfs status --root notes                       state of the server of ./notes
  svcfs status --url http://kb:3333 --token-file ~/.svcfs-token
  svcfs status --root notes --json | jq '.problems'   components with problems

Exit codes: 0 when the server accepts writes, 1 when it does not or cannot be reached, 3 when no
server serves the root. Problems that do not block writes do not change the exit code.";

/// Show the state of a running server
///
/// Shows spaces with their pages, writes that are not flushed, changes that are not indexed,
/// mounts, protocol servers, memory, and each component with a problem. The same as `/readyz`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    root: RootFlag,
    /// Use the server at this URL instead
    #[arg(long, value_name = "URL", conflicts_with = "root")]
    url: Option<String>,
    /// File with the key in its first line (mode 0600) [default: $SVC_API_KEY]
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Space whose state sets the exit code [default: the first space]
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// Print the response of the server as JSON
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    /// Prints the state.
    ///
    /// # Errors
    /// `Failed` when the server accepts no writes or cannot be reached; `Refused` when there is
    /// none.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, url, token_file, space, json } = self;
        let (url, token, space) = match url {
            Some(url) => (url, credentials::load(token_file.as_deref())?, space),
            None => {
                let root = root.find()?;
                let (url, default_space) = find_server(&root)?;
                (url, presence::key(&root), space.or(default_space))
            }
        };
        let report = client::report(&url, token.as_deref(), space.as_deref())?;
        if json {
            output::json(&json!(report))?;
        } else {
            output::say(&text(&url, &report))?;
        }
        match report.status {
            ServerReadiness::Ready => Ok(()),
            ServerReadiness::StorageUnreachable | ServerReadiness::ProtocolUnhealthy => {
                let why = report.error.unwrap_or_else(|| "it gives no reason".to_owned());
                Err(CommandFailure::saying(ExitStatus::Failed, format!("{url} accepts no writes: {why}")))
            }
        }
    }
}

/// URL of the server of a root, and the name of the root as one of its spaces.
fn find_server(root: &std::path::Path) -> Result<(String, Option<String>), CommandFailure> {
    require_initialised(root)?;
    let shown = root.display();
    match presence::announced(root) {
        Some(ServedRoot { url: Some(url), space, .. }) => Ok((url, space)),
        Some(ServedRoot { url: None, pid, .. }) => {
            let message = format!("process {pid} uses `{shown}` and does not answer over HTTP");
            Err(CommandFailure::saying(ExitStatus::Refused, message))
        }
        None => {
            let message = format!("no server serves `{shown}`; start one with `svcfs serve --root {shown}`");
            Err(CommandFailure::saying(ExitStatus::Refused, message))
        }
    }
}

fn text(url: &str, report: &ReadinessReport) -> String {
    let ReadinessReport { status, error, index, protocols, details } = report;
    let state = match status {
        ServerReadiness::Ready => "ready",
        ServerReadiness::StorageUnreachable => "NOT READY: the storage accepts no writes",
        ServerReadiness::ProtocolUnhealthy => "NOT READY: a protocol server does not answer",
    };
    let mut text = format!("{url} is {state}\n");
    if let Some(error) = error {
        text.push_str(&format!("  {}\n", one_line(error)));
    }
    // Older servers do not send this field.
    if index.behind > 0 {
        text.push_str(&format!("  search is not complete: {} changes are not indexed yet\n", index.behind));
    }
    let Some(ReadinessDetails { version, pid, uptime_seconds, process, spaces, mounts, problems }) = details else {
        text.push_str("  details need a key for the complete server (--token-file)\n");
        return text;
    };
    text.push_str(&format!("  svcfs {version}, process {pid}, up {}", format_uptime(*uptime_seconds)));
    if let Some(process) = process {
        let (memory, peak) = (ByteSize(process.memory_bytes), ByteSize(process.peak_memory_bytes));
        text.push_str(&format!(
            "\n  memory {memory} (peak {peak}), {} threads, {} open files",
            process.threads, process.open_files
        ));
    }
    let rows: Vec<Value> = spaces.iter().map(row).collect();
    text.push_str(&format!("\n\n{}", table(&rows.into()).unwrap_or_default()));
    for SpaceReport { name, index_note, .. } in spaces {
        text.extend(index_note.iter().map(|note| format!("\nindex     of `{name}`: {note}")));
    }
    for mount in mounts {
        let (at, flags) = (mount.mountpoint.display().to_string(), mount.flags.join(" "));
        text.push_str(format!("\nfolder    {} {}", one_line(&at), one_line(&flags)).trim_end());
    }
    for (name, protocol) in protocols {
        let state = match (protocol.enabled, protocol.healthy) {
            (false, _) => "off".to_owned(),
            (true, Some(true)) => "answers".to_owned(),
            (true, Some(false) | None) => "DOES NOT ANSWER".to_owned(),
        };
        let port = protocol.port.map(|port| format!(" on port {port}")).unwrap_or_default();
        text.push_str(&format!("\nprotocol  {name}{port}: {state}"));
    }
    for space in spaces {
        let SpaceReport { name, pending_vectors: Some(pending @ 1..), .. } = space else { continue };
        text.push_str(&format!("\nvectors   {pending} pages of `{name}` are not embedded yet"));
    }
    for problem in problems {
        let of = problem.space.as_ref().map(|space| format!(" of `{space}`")).unwrap_or_default();
        text.push_str(&format!("\nPROBLEM   {}{of}: {}", problem.component, one_line(&problem.reason)));
    }
    text.push_str(if problems.is_empty() { "\nall components healthy\n" } else { "\n" });
    text
}

fn row(space: &SpaceReport) -> Value {
    let SpaceReport { name, root, writable, pages, index_behind, queue, .. } = space;
    json!({
        "space": name,
        "writes": if *writable { "yes" } else { "NO" },
        "pages": pages,
        "queued": queue.sets,
        "log": ByteSize(queue.log_bytes).to_string(),
        "index behind": index_behind,
        "root": root,
    })
}

/// `3d 4h`, `4h 5m`, `5m 6s`: the two largest parts.
fn format_uptime(seconds: u64) -> String {
    let parts = [(seconds / 86_400, 'd'), (seconds / 3600 % 24, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let from = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown = parts.iter().skip(from).take(2).map(|(count, unit)| format!("{count}{unit}"));
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::format_uptime;

    #[test]
    fn an_uptime_has_its_two_largest_units() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (61, "1m 1s"), (7320, "2h 2m"), (90_000, "1d 1h")] {
            assert_eq!(format_uptime(seconds), text);
        }
    }
}
