//! `svcfs status`

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;
use serde_json::{Value, json};
use svcfs_knowledge::metrics::{ReadinessDetails, ReadinessReport, ServerReadiness, SpaceReport};

use crate::failure::{CommandFailure, ExitStatus};
use crate::output::one_line;
use crate::presence::{self, ServedRoot};
use crate::root::must_be_initialised;
use crate::table::table;
use crate::{client, credentials, output};

const EXAMPLES: &str = "\
Examples:
  svcfs status --root notes                       how the server of ./notes is doing
  svcfs status --url http://kb:3333 --token-file ~/.svcfs-token
  svcfs status --root notes --json | jq '.problems'   components with problems

Exit codes: 0 when the server takes work, 1 when it does not or cannot be asked, 3 when nobody serves
the root. What is told as sick without being in the way of work does not change the exit code.";

/// Show how a running server is doing
///
/// Its spaces with their pages, what waits for the disk and for the search index, mounts, protocol servers, memory, and each part
/// that is sick with its reason: what `/readyz` tells a machine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    /// Directory of a knowledge base that is served
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Ask the server at this address instead
    #[arg(long, value_name = "URL", conflicts_with = "root")]
    url: Option<String>,
    /// Ask it with the key in the first line of this file, which nobody but you may read [default: $SVC_API_KEY]
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Whether this space takes work; the first one when absent
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// Print the answer of the server as JSON
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    /// Asks, and tells.
    ///
    /// # Errors
    /// `Failed` when the server takes no work or cannot be asked; `Refused` when there is none.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, url, token_file, space, json } = self;
        let (url, token, space) = match url {
            Some(url) => (url, credentials::given(token_file.as_deref())?, space),
            None => {
                let (url, found) = served(&root)?;
                (url, presence::key(&root), space.or(found))
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
                let why = report.error.unwrap_or_else(|| "it does not say why".to_owned());
                Err(CommandFailure::saying(ExitStatus::Failed, format!("{url} takes no work: {why}")))
            }
        }
    }
}

/// Where the server of a root answers, and as which of its spaces.
fn served(root: &std::path::Path) -> Result<(String, Option<String>), CommandFailure> {
    must_be_initialised(root)?;
    let shown = root.display();
    match presence::announced(root) {
        Some(ServedRoot { url: Some(url), space, .. }) => Ok((url, space)),
        Some(ServedRoot { url: None, pid, .. }) => {
            let told = format!("process {pid} has `{shown}`, and does not answer over HTTP");
            Err(CommandFailure::saying(ExitStatus::Refused, told))
        }
        None => {
            let told = format!("nobody serves `{shown}`; `svcfs serve --root {shown}` does");
            Err(CommandFailure::saying(ExitStatus::Refused, told))
        }
    }
}

fn text(url: &str, report: &ReadinessReport) -> String {
    let ReadinessReport { status, error, index, protocols, details } = report;
    let state = match status {
        ServerReadiness::Ready => "ready",
        ServerReadiness::StorageUnreachable => "NOT READY: the storage takes no writes",
        ServerReadiness::ProtocolUnhealthy => "NOT READY: a protocol server does not answer",
    };
    let mut text = format!("{url} is {state}\n");
    if let Some(error) = error {
        text.push_str(&format!("  {}\n", one_line(error)));
    }
    // A server from before this field was added says neither.
    if index.behind > 0 {
        text.push_str(&format!("  search is not complete: {} changes are not indexed yet\n", index.behind));
    }
    let Some(ReadinessDetails { version, pid, uptime_seconds, process, spaces, mounts, problems }) = details else {
        text.push_str("  more is told to whoever has a key for all of it (--token-file)\n");
        return text;
    };
    text.push_str(&format!("  svcfs {version}, process {pid}, up {}", lasted(*uptime_seconds)));
    if let Some(process) = process {
        let (memory, most) = (ByteSize(process.memory_bytes), ByteSize(process.peak_memory_bytes));
        text.push_str(&format!(
            "\n  memory {memory} (peak {most}), {} threads, {} open files",
            process.threads, process.open_files
        ));
    }
    let rows: Vec<Value> = spaces.iter().map(row).collect();
    text.push_str(&format!("\n\n{}", table(&rows.into()).unwrap_or_default()));
    for SpaceReport { name, index_note, .. } in spaces {
        let told = index_note.iter().map(|note| format!("\nindex     of `{name}`: {note}"));
        text.extend(told);
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
    for part in problems {
        let of = part.space.as_ref().map(|space| format!(" of `{space}`")).unwrap_or_default();
        text.push_str(&format!("\nPROBLEM   {}{of}: {}", part.component, one_line(&part.reason)));
    }
    text.push_str(if problems.is_empty() { "\nall components healthy\n" } else { "\n" });
    text
}

fn row(space: &SpaceReport) -> Value {
    let SpaceReport { name, root, writable, pages, position: _, index_behind, index_note: _, queue, tasks: _ } = space;
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
fn lasted(seconds: u64) -> String {
    let parts = [(seconds / 86_400, 'd'), (seconds / 3600 % 24, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let from = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown = parts.iter().skip(from).take(2).map(|(count, unit)| format!("{count}{unit}"));
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::lasted;

    #[test]
    fn a_time_is_told_by_its_two_largest_parts() {
        for (seconds, told) in [(0, "0s"), (59, "59s"), (61, "1m 1s"), (7320, "2h 2m"), (90_000, "1d 1h")] {
            assert_eq!(lasted(seconds), told);
        }
    }
}
