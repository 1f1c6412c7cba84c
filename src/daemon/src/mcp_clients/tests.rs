use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::json;

use super::*;

fn stdio(key: Option<&str>) -> ServerEntry {
    let arguments = ["mcp", "--root", "/home/me/notes"].map(str::to_owned).to_vec();
    ServerEntry::Stdio { command: "/usr/bin/svcfs".to_owned(), arguments, key: key.map(str::to_owned) }
}

fn http() -> ServerEntry {
    ServerEntry::Http {
        url: "https://n.example/mcp".to_owned(),
        key: Some("svc_rw_1".to_owned()),
        space: Some("team".to_owned()),
    }
}

/// A file of the client with comments, other entries and members of its own.
fn file_of(client: McpClient) -> &'static str {
    match client {
        McpClient::Codex => {
            "# mine\nmodel = \"x\" # y\n\n[mcp_servers.other]\ncommand = \"a\"\nargs = [\"b\"]\n\n[tui]\nz = 1.5\n"
        }
        McpClient::VsCode => {
            "{\n  // mine\n  \"inputs\": [],\n  \"servers\": {\n    \"other\": { \"command\": \"a\" }, // b\n  },\n}\n"
        }
        McpClient::Zed => {
            "// mine\n{\n  \"theme\": \"x\", /* y */\n  \"context_servers\": {\n    \"other\": { \"url\": \"a\" }\n  }\n}\n"
        }
        McpClient::OpenCode => {
            "{\n  \"$schema\": \"s\",\n  // mine\n  \"mcp\": {\n    \"other\": { \"type\": \"local\", \"command\": [\"a\"] },\n  },\n}\n"
        }
        McpClient::ClaudeCode | McpClient::ClaudeDesktop | McpClient::Cursor => {
            "{\n    \"numbers\": [1, 2.50, 1e3],\n    \"mcpServers\": {\n        \"other\": {\n            \"command\": \"a\"\n        }\n    },\n    \"z\": \"\\u00e9\"\n}"
        }
    }
}

#[test]
fn an_entry_is_added_and_removed_and_the_rest_stays() {
    for client in McpClient::value_variants().iter().copied() {
        for server in [stdio(None), stdio(Some("svc_rw_1")), http()] {
            let (entry, before) = (client.entry(&server), file_of(client));
            assert_eq!(find_entry(client, before, "notes").unwrap(), None);
            let after = set_entry(client, before, "notes", &entry).unwrap();
            assert_eq!(find_entry(client, &after, "notes").unwrap(), Some(entry.clone()), "{after}");
            for line in before.lines().filter(|line| !line.trim_matches([' ', ',', '{', '}', ']']).is_empty()) {
                let line = line.trim_end_matches(',');
                assert!(after.contains(line), "{client:?} lost `{line}`: {after}");
            }
            let removed = remove_entry(client, &after, "notes").unwrap();
            assert_eq!(find_entry(client, &removed, "notes").unwrap(), None);
            let bare = |text: &str| text.replace([',', ' ', '\n'], "");
            assert_eq!(bare(&removed), bare(before), "{client:?}: {removed}");
            let replaced = set_entry(client, &after, "notes", &json!({ "command": "b" })).unwrap();
            assert_eq!(find_entry(client, &replaced, "notes").unwrap(), Some(json!({ "command": "b" })));
        }
    }
}

#[test]
fn an_entry_is_written_into_a_new_or_nearly_empty_file() {
    for client in McpClient::value_variants().iter().copied() {
        let entry = client.entry(&stdio(None));
        let comment = if client.is_toml() { "# mine\n" } else { "// mine\n" };
        let texts = ["", "\n", comment, if client.is_toml() { "[mcp_servers]\n" } else { "{}" }];
        for text in texts {
            let after = set_entry(client, text, "notes", &entry).unwrap();
            assert_eq!(find_entry(client, &after, "notes").unwrap().as_ref(), Some(&entry), "{client:?} {text:?}");
            assert!(after.starts_with(text.trim_matches(['{', '}', '\n'])), "{text:?}: {after}");
        }
    }
}

#[test]
fn byte_order_marks_and_line_ends_stay() {
    for (client, before) in [
        (McpClient::Cursor, "\u{feff}{\r\n  \"a\": 1\r\n}\r\n"),
        (McpClient::Codex, "\u{feff}x = 1\r\n\r\n[y]\r\nz = 1\r\n"),
    ] {
        let after = set_entry(client, before, "notes", &client.entry(&stdio(None))).unwrap();
        assert!(after.starts_with('\u{feff}') && find_entry(client, &after, "notes").unwrap().is_some(), "{after:?}");
        assert_eq!(after.matches('\n').count(), after.matches("\r\n").count(), "{after:?}");
        let removed = remove_entry(client, &after, "notes").unwrap();
        assert!(removed.starts_with('\u{feff}') && removed.contains("\r\n"), "{removed:?}");
    }
}

#[test]
fn comments_of_toml_stay_where_they_are() {
    let entry = McpClient::Codex.entry(&stdio(None));
    let set = |before: &str, name: &str| set_entry(McpClient::Codex, before, name, &entry).unwrap();
    let inside = "[mcp_servers.a]\ncommand = \"x\"\n\n[tui]\nz = 1\n# end\n";
    assert!(set(inside, "notes").ends_with("[tui]\nz = 1\n# end\n"), "{}", set(inside, "notes"));
    let inline = "mcp_servers = { a = { command = \"x\" } }\n# end\n";
    assert!(set(inline, "notes").ends_with("# end\n"), "{}", set(inline, "notes"));
    let above = "[mcp_servers.a]\ncommand = \"x\"\n\n# about b\n[mcp_servers.b]\ncommand = \"y\"\n";
    assert!(set(above, "b").contains("# about b\n[mcp_servers.b]\n"), "{}", set(above, "b"));
}

#[test]
fn a_file_of_another_form_is_not_changed() {
    for (client, text) in [
        (McpClient::ClaudeCode, "{ \"mcpServers\": [] }"),
        (McpClient::ClaudeCode, "[]"),
        (McpClient::ClaudeCode, "\"text\""),
        (McpClient::ClaudeCode, "{ \"mcpServers\": {"),
        (McpClient::Cursor, "{ \"mcpServers\": null }"),
        (McpClient::Codex, "mcp_servers = 1\n"),
        (McpClient::Codex, "[mcp_servers\n"),
    ] {
        assert!(set_entry(client, text, "notes", &json!({ "command": "a" })).is_err(), "{text}");
    }
}

#[test]
fn the_native_form_of_opencode_2_is_kept() {
    let text = "{ \"mcp\": { \"servers\": { \"other\": { \"type\": \"local\", \"command\": [\"a\"] } } } }";
    let entry = McpClient::OpenCode.entry(&stdio(None));
    let after = set_entry(McpClient::OpenCode, text, "notes", &entry).unwrap();
    let value: Value = serde_json::from_str(&after).unwrap();
    assert_eq!(value["mcp"]["servers"]["notes"], entry);
    let named = "{ \"mcp\": { \"servers\": { \"type\": \"local\", \"command\": [\"a\"] } } }";
    let after = set_entry(McpClient::OpenCode, named, "notes", &entry).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&after).unwrap()["mcp"]["notes"], entry, "a server of that name");
}

#[test]
fn each_client_has_its_files() {
    let environment = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
    for (client, file, project) in [
        (McpClient::ClaudeCode, "/home/me/.claude.json", Some("/p/.mcp.json")),
        (McpClient::ClaudeDesktop, "/home/me/.config/Claude/claude_desktop_config.json", None),
        (McpClient::Cursor, "/home/me/.cursor/mcp.json", Some("/p/.cursor/mcp.json")),
        (McpClient::VsCode, "/home/me/.config/Code/User/mcp.json", Some("/p/.vscode/mcp.json")),
        (McpClient::Codex, "/home/me/.codex/config.toml", Some("/p/.codex/config.toml")),
        (McpClient::Zed, "/home/me/.config/zed/settings.json", Some("/p/.zed/settings.json")),
        (McpClient::OpenCode, "/home/me/.config/opencode/opencode.json", Some("/p/opencode.json")),
    ] {
        assert_eq!(client.file(ConfigLevel::User(&environment)).unwrap(), PathBuf::from(file));
        let of_project = client.file(ConfigLevel::Project(Path::new("/p"))).ok();
        assert_eq!(of_project, project.map(PathBuf::from));
        assert!(client.file(ConfigLevel::User(&|_| None)).is_err());
    }
}

#[test]
fn the_endpoint_of_a_server() {
    for (url, profile, expected) in [
        ("https://n.example", None, "https://n.example/mcp"),
        ("https://n.example/", Some("core"), "https://n.example/mcp/x/core"),
        ("https://n.example/mcp", None, "https://n.example/mcp"),
        ("https://n.example/notes", Some("read/readonly"), "https://n.example/notes/mcp/x/read/readonly"),
        ("https://n.example/mcp/x/core", None, "https://n.example/mcp/x/core"),
        ("https://n.example/mcpx", None, "https://n.example/mcpx/mcp"),
        ("https://n.example/mcpx/mcp", None, "https://n.example/mcpx/mcp"),
        ("https://n.example/mcp/x/core", Some("full"), "https://n.example/mcp/x/full"),
        ("http://mcp", Some("core"), "http://mcp/mcp/x/core"),
        ("http://mcp/notes", None, "http://mcp/notes/mcp"),
    ] {
        assert_eq!(endpoint(url, profile), expected);
    }
}

#[test]
fn the_key_is_found_in_the_entry_of_each_client() {
    for client in McpClient::value_variants().iter().copied() {
        for server in [stdio(Some("svc_rw_1")), http()] {
            assert_eq!(key_of(&client.entry(&server)), Some("svc_rw_1"), "{client:?}");
        }
        assert_eq!(key_of(&client.entry(&stdio(None))), None);
    }
}
