//! `svcfs mcp install` and `svcfs mcp --remote`

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Place, Running, program, request_with, svcfs, within};

const CLIENTS: [&str; 7] = ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "zed", "opencode"];

/// The program with a home directory of its own.
fn at_home(place: &Place, arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["mcp"]).args(arguments).env("HOME", place.path("home"));
    for name in ["XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"] {
        command.env_remove(name);
    }
    command
}

/// Exit code, standard output and standard error.
fn run(place: &Place, arguments: &[&str]) -> (i32, String, String) {
    let output = at_home(place, arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn json_of(place: &Place, arguments: &[&str]) -> Value {
    let (code, out, err) = run(place, &[arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn each_client_is_set_up_once_and_removed() {
    let place = Place::with_root();
    let root = place.at("kb");
    for client in CLIENTS {
        let (code, shown, _) = run(&place, &["install", client, "--root", &root, "--dry-run"]);
        assert!(code == 0 && shown.contains("mcp") && shown.contains(&root), "{client}: {shown}");
        let added = json_of(&place, &["install", client, "--root", &root]);
        assert_eq!((&added["action"], &added["name"]), (&json!("added"), &json!("kb")), "{added}");
        let file = added["file"].as_str().unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), shown, "{client}: what --dry-run shows");
        assert_eq!(json_of(&place, &["install", client, "--root", &root])["action"], "unchanged");
        let (code, _, error) = run(&place, &["install", client, "--remote", "http://127.0.0.1:9", "--name", "kb"]);
        assert!(code == 3 && error.contains("--force"), "{client}: {error}");
        let forced = ["install", client, "--remote", "http://127.0.0.1:9", "--name", "kb", "--force"];
        let replaced = json_of(&place, &forced);
        assert_eq!(replaced["action"], "replaced");
        assert_eq!(json_of(&place, &forced[..6])["action"], "unchanged");
        assert_eq!(std::fs::read_to_string(replaced["backup"].as_str().unwrap()).unwrap(), shown);
        assert!(std::fs::read_to_string(file).unwrap().contains("http://127.0.0.1:9/mcp"));
        assert_eq!(json_of(&place, &["uninstall", client, "--root", &root])["action"], "removed");
        let (code, _, error) = run(&place, &["uninstall", client, "--root", &root]);
        assert!(code == 3 && error.contains("no entry `kb`"), "{client}: {error}");
    }
}

#[test]
fn a_key_of_a_scope_is_created_where_the_server_needs_keys() {
    let place = Place::with_root();
    let root = place.at("kb");
    let (code, _, error) = run(&place, &["install", "cursor", "--root", &root, "--scope", "read"]);
    assert!(code == 3 && error.contains("needs no key"), "{error}");
    svcfs(&["token", "create", "--root", &root, "--scope", "admin"]).assert().success();
    let (code, _, error) = run(&place, &["install", "cursor", "--root", &root, "--scope", "read"]);
    assert!(code == 3 && error.contains("svcfs serve"), "{error}");
    let server = Running::serve(&root, &[]);
    let added = json_of(&place, &["install", "cursor", "--root", &root, "--scope", "read"]);
    let file: Value = serde_json::from_str(&std::fs::read_to_string(added["file"].as_str().unwrap()).unwrap()).unwrap();
    let entry = &file["mcpServers"]["kb"];
    assert_eq!(entry["url"], format!("{}/mcp", server.url()));
    let key = entry["headers"]["Authorization"].as_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
    let status = |method, target| request_with(server.url(), Some(&key), method, target, "# x").0;
    assert_eq!((status("GET", "/api/svc/tree"), status("PUT", "/api/svc/file?path=a.md")), (200, 403));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(added["file"].as_str().unwrap()).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "other users cannot read the key");
    let removed = json_of(&place, &["uninstall", "cursor", "--root", &root]);
    assert_eq!((&removed["revoked"], &removed["key"]), (&json!(true), &added["key"]));
    assert_eq!(status("GET", "/api/svc/tree"), 401);
    server.stop();
}

#[test]
fn nothing_is_written_or_created_where_the_file_cannot_be_edited() {
    let place = Place::with_root();
    let root = place.at("kb");
    svcfs(&["token", "create", "--root", &root, "--scope", "admin"]).assert().success();
    let server = Running::serve(&root, &[]);
    let folder = place.path("home/.cursor");
    std::fs::create_dir_all(&folder).unwrap();
    let keys = place.read("kb/.svc/config.toml");
    std::fs::write(folder.join("mcp.json"), r#"{"mcpServers":{}, "mcpServers":{"a":1}}"#).unwrap();
    let (code, _, error) = run(&place, &["install", "cursor", "--root", &root, "--scope", "read"]);
    assert!(code == 3 && error.contains("cannot be edited safely"), "{error}");
    std::fs::remove_file(folder.join("mcp.json")).unwrap();
    std::os::unix::fs::symlink("none.json", folder.join("mcp.json")).unwrap();
    let (code, _, error) = run(&place, &["install", "cursor", "--root", &root, "--scope", "read"]);
    assert!(code == 3 && error.contains("does not exist"), "{error}");
    assert_eq!(place.read("kb/.svc/config.toml"), keys, "a key that no client has");
    let (code, _, error) = run(&place, &["install", "cursor", "--root", &root, "--project", &place.at("none")]);
    assert!(code == 2 && error.contains("no directory"), "{error}");
    server.stop();
}

#[test]
fn each_edit_has_a_backup_of_its_own_and_other_files_stay() {
    let place = Place::with_root();
    let folder = place.path("home/.codex");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "x = 1\n").unwrap();
    std::fs::write(folder.join("config.toml.new"), "mine").unwrap();
    for name in ["a", "b"] {
        let before = std::fs::read_to_string(folder.join("config.toml")).unwrap();
        let added = json_of(&place, &["install", "codex", "--root", &place.at("kb"), "--name", name]);
        assert_eq!(std::fs::read_to_string(added["backup"].as_str().unwrap()).unwrap(), before);
    }
    assert_eq!(std::fs::read_to_string(folder.join("config.toml.new")).unwrap(), "mine");
}

/// The answers to messages of an agent over standard input, by id.
fn talk(mut command: Command, messages: &[Value]) -> Vec<Value> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    messages.iter().for_each(|message| writeln!(input, "{message}").unwrap());
    drop(input);
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut answers = within("the answers", move || {
        output.lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()).collect::<Vec<_>>()
    });
    assert!(child.wait().unwrap().success());
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers
}

fn messages() -> Vec<Value> {
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let write = json!({ "name": "svc_write", "arguments": { "path": "a.md", "content": "# Ä\n", "actor": "bot" } });
    vec![
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": write }),
    ]
}

#[test]
fn an_agent_uses_a_server_elsewhere_through_its_standard_input() {
    let place = Place::with_root();
    svcfs(&["token", "create", "--root", &place.at("kb"), "--scope", "admin"]).assert().success();
    let created = svcfs(&["token", "create", "--root", &place.at("kb"), "--scope", "write"]).assert().success();
    let key = String::from_utf8(created.get_output().stdout.clone()).unwrap();
    let server = Running::serve(&place.at("kb"), &[]);
    let mut command = at_home(&place, &["--remote", server.url()]);
    command.env("SVC_API_KEY", key.trim());
    let answers = talk(command, &messages());
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert!(answers[1]["result"]["tools"].as_array().unwrap().len() > 30);
    assert_eq!(answers[2]["result"]["isError"], false, "{}", answers[2]);
    assert!(place.read("kb/a.md").contains('Ä'));
    let answers = talk(at_home(&place, &["--remote", server.url()]), &messages());
    assert!(answers.len() == 3 && answers.iter().all(|answer| answer["error"]["code"] == -32000), "{answers:?}");
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("--token-file"), "{answers:?}");
    let url = server.url().to_owned();
    server.stop();
    let answers = talk(at_home(&place, &["--remote", &url]), &messages());
    assert!(answers.len() == 3 && answers[2]["error"]["message"].as_str().unwrap().contains("cannot be reached"));
}

#[test]
fn a_subscription_delays_neither_requests_nor_the_end_of_input() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let of = |id: u64, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    };
    let resources = json!({ "notifications": { "resourceSubscriptions": ["svc://tree/"] } });
    let mut messages: Vec<Value> = (100..140).map(|id| of(id, "subscriptions/listen", resources.clone())).collect();
    messages.push(of(1, "tools/list", json!({})));
    let answers = talk(at_home(&place, &["--remote", server.url()]), &messages);
    assert!(answers.iter().any(|answer| answer["id"] == 1 && answer["result"]["tools"].is_array()), "{answers:?}");
    server.stop();
}
