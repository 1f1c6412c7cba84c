//! The guides: editors, backup, restore and upgrade.

use super::{block, free_port, page, printed, type_commands};
use crate::harness::{Place, Running, can_mount, eventually, request, svcfs};

/// A served root at `~/notes`, with a mount when this machine can mount.
fn serve_notes(place: &Place) -> Running {
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    std::fs::create_dir(place.path("mnt")).unwrap();
    if can_mount() {
        Running::serve(&place.at("notes"), &["--mount", &place.at("mnt")])
    } else {
        Running::serve(&place.at("notes"), &[])
    }
}

#[test]
fn files_that_obsidian_always_rewrites_get_no_versions() {
    let place = Place::new();
    let server = serve_notes(&place);
    printed(&type_commands(&place, &block("docs/editors.md", "obsidian"), &[]));
    eventually("the edit of .gitignore is a version", || {
        place.git("notes", &["show", "HEAD:.gitignore"]).contains("workspace.json")
    });
    let folder = if place.path("mnt/.svc").exists() { "mnt" } else { "notes" };
    for name in ["app.json", "workspace.json", "cache"] {
        place.write(&format!("{folder}/.obsidian/{name}"), "{}\n");
    }
    eventually("the settings are a version", || {
        place.git("notes", &["ls-tree", "-r", "--name-only", "HEAD"]).contains(".obsidian/app.json")
    });
    server.stop();
    let versioned = place.git("notes", &["ls-tree", "-r", "--name-only", "HEAD", ".obsidian"]);
    assert_eq!(versioned, ".obsidian/app.json");
}

#[test]
fn the_settings_for_vs_code_are_valid_and_versioned() {
    let place = Place::new();
    let server = serve_notes(&place);
    printed(&type_commands(&place, &block("docs/editors.md", "vscode"), &[]));
    let settings: serde_json::Value = serde_json::from_str(&place.read("notes/.vscode/settings.json")).unwrap();
    assert_eq!(settings["search.exclude"]["**/.svc/**"], true);
    eventually("the settings are a version", || {
        place.git("notes", &["ls-tree", "-r", "--name-only", "HEAD"]).contains(".vscode/settings.json")
    });
    server.stop();
}

#[test]
fn a_program_follows_changes_through_the_event_stream() {
    let place = Place::new();
    let server = serve_notes(&place);
    let address = server.url().trim_start_matches("http://").to_owned();
    // The reader ends after the first event; the rest is what a user types.
    let typed = block("docs/editors.md", "follow").replace("grep --line-buffered", "grep -m 1 --line-buffered");
    let output = std::thread::scope(|scope| {
        let reader = scope.spawn(|| type_commands(&place, &typed, &[("127.0.0.1:3333", &address)]));
        let mut number = 0;
        while !reader.is_finished() {
            number += 1;
            let body = format!("# Page {number}\n");
            assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=followed.md", &body).0, 200);
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
        reader.join().unwrap()
    });
    // `curl` ends with an error, because `grep` closes the pipe or its time is over.
    assert!(String::from_utf8_lossy(&output.stdout).contains("followed.md"), "{output:?}");
    server.stop();
}

#[test]
fn a_backup_is_taken_tested_and_restored_as_documented() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("lib")).unwrap();
    std::fs::create_dir_all(place.path("backups")).unwrap();
    svcfs(&["init", "--root", &place.at("lib/knowledge")]).assert().success();
    let (listener, port) = free_port();
    let server = Running::serve(&place.at("lib/knowledge"), &[]);
    drop(listener);
    let port = port.to_string();
    let (lib, backups, tmp) = (place.at("lib"), place.at("backups"), place.at("tmp"));
    let replaced =
        [("/var/lib/svcfs", lib.as_str()), ("/var/backups", &backups), ("/var/tmp", &tmp), ("3399", port.as_str())];
    let run = |test: &str| printed(&type_commands(&place, &block("docs/operating.md", test), &replaced));
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=a.md", "# Saved\n").0, 200);
    run("backup");
    let drilled = run("drill");
    assert!(drilled.contains("\"ready\"") || drilled.contains("ok"), "{drilled}");
    assert!(!place.has("tmp/drill"));
    server.stop();
    let restored = run("restore");
    assert!(!restored.contains("PROBLEM"), "{restored}");
    let server = Running::serve(&place.at("lib/knowledge"), &[]);
    assert_eq!(request(server.url(), "GET", "/api/svc/file?path=a.md", ""), (200, "# Saved\n".to_owned()));
    assert!(request(server.url(), "GET", "/api/svc/search?q=saved", "").1.contains("a.md"));
    assert_eq!(place.git("lib/knowledge", &["status", "--porcelain"]), "");
    server.stop();
}

#[test]
fn backups_to_git_and_to_bundles_work_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let run = |test: &str| printed(&type_commands(&place, &block("docs/backup.md", test), &[]));
    let drilled = run("backup-git");
    assert!(drilled.contains("are equal") && drilled.contains("has the newest commit"), "{drilled}");
    let listed = run("backup-bundles");
    assert!(listed.contains("000001.bundle\nmanifest.json"), "{listed}");
    let restored = run("backup-restore");
    assert!(restored.contains("restored") && !restored.contains("PROBLEM"), "{restored}");
}

#[test]
fn two_changes_of_a_page_are_merged_as_documented() {
    let place = Place::new();
    let server = serve_notes(&place);
    let address = server.url().trim_start_matches("http://").to_owned();
    let typed = block("docs/working-together.md", "merge");
    let output = printed(&type_commands(&place, &typed, &[("127.0.0.1:3333", &address)]));
    let (answers, text) = output.split_once("---\n").unwrap();
    assert!(answers.ends_with("\"merged\":true}"), "{answers}");
    let (_, documented) = typed.split_once("$ curl -s \"$url\"\n---\n").unwrap();
    assert_eq!(text, documented);
    server.stop();
}

/// `scripts/release/story.sh` runs the commands of an installation on another system.
#[test]
fn every_marked_block_of_the_documentation_is_run_by_a_test() {
    let tests = [
        ("docs/editors.md", &["obsidian", "vscode", "follow"][..]),
        ("docs/operating.md", &["upgrade", "backup", "drill", "restore"]),
        ("docs/backup.md", &["backup-git", "backup-bundles", "backup-restore"]),
        ("docs/sharing.md", &["comments", "shares"]),
        ("docs/canvas.md", &["canvas"]),
        ("docs/webhooks.md", &["webhook settings", "webhooks"]),
        ("docs/proxies.md", &["nginx", "caddy", "nginx prefix", "caddy prefix"]),
        ("docs/memory.md", &["memory", "forget"]),
        ("docs/install.md", &["package", "tarball", "cargo"]),
        (
            "docs/mcp-clients.md",
            &[
                "mcp-claude-code",
                "mcp-claude-code-remote",
                "mcp-claude-desktop",
                "mcp-claude-desktop-remote",
                "mcp-cursor",
                "mcp-cursor-remote",
                "mcp-vscode",
                "mcp-vscode-remote",
                "mcp-codex",
                "mcp-codex-remote",
                "mcp-zed",
                "mcp-zed-remote",
                "mcp-opencode",
                "mcp-opencode-remote",
            ],
        ),
        (
            "docs/working-together.md",
            &[
                "merge",
                "schemas",
                "append-only",
                "workflows",
                "board",
                "leases",
                "tasks",
                "drafts",
                "draft-mount",
                "propose",
                "undo",
                "restore",
            ],
        ),
    ];
    let mut pages: Vec<String> = std::fs::read_dir(super::workspace().join("docs"))
        .unwrap()
        .map(|entry| format!("docs/{}", entry.unwrap().file_name().display()))
        .filter(|name| name.ends_with(".md"))
        .collect();
    pages.sort();
    for name in pages {
        let text = page(&name);
        let marked: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("<!-- test: ")?.strip_suffix(" -->")).collect();
        let known = tests.iter().find(|(page, _)| *page == name).map_or(&[][..], |(_, tests)| tests);
        assert_eq!(marked, known, "{name}");
    }
}
