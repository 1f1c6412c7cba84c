//! The entries of docs/mcp-clients.md.

use super::block;
use crate::harness::{Place, program};

const CLIENTS: [&str; 7] = ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "zed", "opencode"];

/// What `--dry-run` prints, with the paths of the page.
fn entry(place: &Place, client: &str, target: &[&str]) -> String {
    let mut command = program();
    command.args(["mcp", "install", client, "--dry-run"]).args(target).env("HOME", place.path("home"));
    command.env("SVC_API_KEY", "a-key");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.replace(&place.at("notes"), "/home/me/notes").replace(env!("CARGO_BIN_EXE_svcfs"), "/usr/bin/svcfs")
}

#[test]
fn the_entries_of_all_clients_are_what_install_writes() {
    let place = Place::new();
    crate::harness::svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    for client in CLIENTS {
        let local = entry(&place, client, &["--root", &place.at("notes")]);
        assert_eq!(block("docs/mcp-clients.md", &format!("mcp-{client}")), local, "{client}");
        let remote = entry(&place, client, &["--remote", "https://notes.example.org", "--name", "notes"]);
        assert_eq!(block("docs/mcp-clients.md", &format!("mcp-{client}-remote")), remote, "{client}");
    }
}
