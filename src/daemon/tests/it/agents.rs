//! Agents, as clients speak to them that somebody else wrote: the Python SDK, the TypeScript SDK
//! and the Inspector, over HTTP and on standard input and output.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Place, Running};

/// Where what comes from PyPI and npm is installed; scripts/test.sh sets it.
const TOOLS: &str = "SVCFS_TOOLS";

/// A program below the tools; none, and a word about it, where they are not installed.
fn tool(program: &str) -> Option<PathBuf> {
    let Some(tools) = std::env::var_os(TOOLS) else {
        println!("skipped: {TOOLS} is not set; scripts/test.sh installs what is needed there");
        return None;
    };
    let path = PathBuf::from(tools).join(program);
    assert!(path.exists(), "`{}` is missing; scripts/test.sh installs it", path.display());
    Some(path)
}

/// A file beside this one.
fn script(name: &str) -> String {
    format!("{}/tests/it/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What a client prints, when it succeeds.
#[track_caller]
fn ran(command: &mut Command) -> String {
    // Whatever else the developer has told node to do.
    let output = command.env_remove("NODE_OPTIONS").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}\n{err}");
    // The server's own log goes there, too.
    assert!(!err.to_lowercase().contains("warn"), "{command:?}: {err}");
    out.into_owned()
}

/// Runs a client with each transport; each time on a root of its own.
fn over_http_and_stdio(run: impl Fn(&[&str])) {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    run(&["http", &format!("{}/mcp", server.url())]);
    run(&["stdio", env!("CARGO_BIN_EXE_svcfs"), "mcp", "--remote", server.url()]);
    server.stop();
    run(&["stdio", env!("CARGO_BIN_EXE_svcfs"), "mcp", "--root", &place.at("kb")]);
}

#[test]
fn the_python_sdk_lists_reads_and_calls_without_a_warning() {
    let Some(python) = tool("python/bin/python") else { return };
    over_http_and_stdio(|server| drop(ran(Command::new(&python).arg(script("agents.py")).args(server))));
}

#[test]
fn the_typescript_sdk_lists_reads_and_calls_without_a_warning() {
    if tool("node/node_modules/@modelcontextprotocol/sdk").is_none() {
        return;
    }
    over_http_and_stdio(|server| drop(ran(Command::new("node").arg(script("agents.mjs")).args(server))));
}

#[test]
fn the_inspector_lists_reads_and_calls_without_a_warning() {
    let Some(inspector) = tool("node/node_modules/@modelcontextprotocol/inspector-cli/build/index.js") else { return };
    over_http_and_stdio(|server| {
        let ask = |arguments: &[&str]| -> Value {
            let mut command = Command::new("node");
            // It looks for its own version in the folder above that in which it is started.
            command.current_dir(inspector.parent().unwrap()).arg(&inspector).args(&server[1..]).args(arguments);
            let text = ran(&mut command);
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
        };
        let tools = ask(&["--method", "tools/list"]);
        assert!(tools["tools"].as_array().unwrap().len() >= 40, "{tools}");
        assert_eq!(ask(&["--method", "resources/list"])["resources"][0]["uri"], "svc://schema");
        assert_eq!(ask(&["--method", "resources/templates/list"])["resourceTemplates"].as_array().unwrap().len(), 2);
        assert_eq!(ask(&["--method", "prompts/list"])["prompts"].as_array().unwrap().len(), 4);
        let schema = ask(&["--method", "resources/read", "--uri", "svc://schema"]);
        assert!(schema["contents"][0]["text"].is_string(), "{schema}");
        let call = |name: &str, arguments: &[&str]| {
            let mut line = vec!["--method", "tools/call", "--tool-name", name];
            arguments.iter().for_each(|argument| line.extend(["--tool-arg", argument]));
            let answer = ask(&line);
            assert_ne!(answer["isError"], true, "{answer}");
            answer["content"][0]["text"].as_str().unwrap().to_owned()
        };
        assert!(call("svc_write", &["path=i.md", "content=# Inspected"]).starts_with("Written i.md"));
        assert!(call("svc_read", &["path=i.md", "limit=1"]).contains("# Inspected"));
        assert!(call("svc_search", &["query=inspected", "limit=3"]).contains("i.md"));
        assert!(call("svc_tree", &["depth=1"]).contains("i.md"));
    });
}
