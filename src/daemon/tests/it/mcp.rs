//! `svcfs mcp`

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::{Place, eventually, program, svcfs, within};

#[test]
fn an_agent_shakes_hands_writes_and_leaves() {
    let place = Place::with_root();
    let mut command = program();
    command.args(["mcp", "--root", &place.at("kb")]).env("SVC_LOG", "debug");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let arguments = json!({ "path": "agent.md", "content": "# By an agent\n", "actor": "agent:9" });
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call",
                "params": { "name": "svc_write", "arguments": arguments } }),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    let (answers, rest) = within("three answers", move || {
        // Whatever is no JSON on standard output breaks the protocol.
        let mut next = || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        let mut answers = [next(), next(), next()];
        answers.sort_by_key(|answer| answer["id"].as_u64());
        (answers, lines)
    });
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "svcfs");
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "svc_search"), "{tools:?}");
    assert_eq!(answers[2]["result"]["isError"], false, "{}", answers[2]);
    drop(stdin);
    let mut status = None;
    eventually("it ends with its agent", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
    assert_eq!(rest.lines().count(), 0);
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", "agent.md"]), "agent:9");
}

#[test]
fn the_last_request_needs_no_line_break() {
    let place = Place::with_root();
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let first = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
    let last = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
                       "params": { "name": "svc_read", "arguments": { "path": "index.md" } } })
    .to_string();
    let begin = format!("{first}\n{}\n", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    for (input, answers) in [
        (format!("{begin}{last}\n"), 2),
        (format!("{begin}{last}"), 2),
        (format!("{begin}{last} "), 2),
        (first.to_string(), 1),
        (format!("{begin}{}", &last[..last.len() - 1]), 1),
        (format!("{begin}  "), 1),
    ] {
        let output = svcfs(&["mcp", "--root", &place.at("kb")]).write_stdin(input.clone()).assert().success();
        let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
        assert_eq!(text.lines().count(), answers, "{input}: {text}");
        assert!(answers == 1 || text.contains("\"isError\":false"), "{input}: {text}");
    }
}

#[test]
fn a_signal_ends_it_although_the_agent_says_nothing() {
    let place = Place::with_root();
    let mut command = program();
    command.args(["mcp", "--root", &place.at("kb")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    eventually("it has the root", || {
        std::fs::read_to_string(place.path("kb/.svc/state/server.lock")).is_ok_and(|text| text.trim() == pid)
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let mut status = None;
    eventually("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}

/// The names that a session lists.
fn listed(root: &str, flags: &[&str]) -> Vec<String> {
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let input = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} }),
    ]
    .map(|message| format!("{message}\n"))
    .concat();
    let output = svcfs(&[&["mcp", "--root", root], flags].concat()).write_stdin(input).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    let list: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}")).iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_agent_chooses_its_tools_in_its_own_and_in_another_process() {
    let place = Place::with_root();
    let root = place.at("kb");
    let check = || {
        let full = listed(&root, &[]);
        let core = listed(&root, &["--profile", "core"]);
        let reader = listed(&root, &["--profile", "core/readonly"]);
        assert!(full.len() > 60 && core.len() < 21 && core.contains(&"svc_tool_call".to_owned()), "{full:?} {core:?}");
        assert!(reader.len() < core.len() && !reader.contains(&"svc_write".to_owned()), "{reader:?}");
    };
    check();
    let mut first =
        program().args(["mcp", "--root", &root]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = first.stdin.take().unwrap();
    writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).unwrap();
    let mut lines = BufReader::new(first.stdout.take().unwrap());
    within("its first answer", move || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
    });
    check();
    drop(stdin);
    first.wait().unwrap();
    let output = svcfs(&["mcp", "--root", &root, "--profile", "all"]).assert().failure();
    let told = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(told.contains("`core`, `read`, `memory`, `tasks`, `full`"), "{told}");
}
