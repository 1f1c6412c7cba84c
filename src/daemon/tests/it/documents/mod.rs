//! The commands and configurations of README.md and docs, run as a reader types them.
//!
//! A block that a test runs follows a line `<!-- test: NAME -->`; the first screen of README.md is
//! its first two blocks of commands.

mod canvas;
mod drafts;
mod guides;
mod mcp_clients;
mod memory;
mod proxies;
mod readme;
mod reference;
mod sharing;
mod undo;
mod webhooks;
mod workflows;
mod working_together;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::{Place, program};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A free port. As long as the listener exists, a server on port 0 does not get the same one.
fn free_port() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn page(name: &str) -> String {
    std::fs::read_to_string(workspace().join(name)).unwrap()
}

/// All fenced blocks of a text: the language and the lines.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n"));
            blocks.push((language, body.collect()));
        }
    }
    blocks
}

/// The block of a page that a test with this name runs.
#[track_caller]
fn block(name: &str, test: &str) -> String {
    let text = page(name);
    let marker = format!("<!-- test: {test} -->\n");
    let (_, rest) = text.split_once(&marker).unwrap_or_else(|| panic!("{name} has no block `{test}`"));
    blocks(rest).swap_remove(0).1
}

/// A command of a block, and the lines of output that follow it.
#[derive(Debug)]
struct TypedCommand {
    text: String,
    output: Vec<String>,
}

/// The commands of a block. A command continues after a backslash, and in a here-document.
fn commands(block: &str) -> Vec<TypedCommand> {
    let mut commands: Vec<TypedCommand> = Vec::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        let Some(start) = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")) else {
            commands.last_mut().expect("a block starts with a command").output.push(line.to_owned());
            continue;
        };
        let mut text = format!("{start}\n");
        while text.ends_with("\\\n") {
            text.push_str(lines.next().unwrap_or_default());
            text.push('\n');
        }
        if let Some((_, end)) = start.split_once("<<'") {
            let end = end.trim_end_matches('\'');
            for line in lines.by_ref() {
                text.push_str(line);
                text.push('\n');
                if line == end {
                    break;
                }
            }
        }
        commands.push(TypedCommand { text, output: Vec::new() });
    }
    commands
}

/// Runs the commands of a block one after the other in one shell that stops at the first failure.
/// `replaced` are the paths and ports of the page, with those of the test.
fn type_commands(place: &Place, block: &str, replaced: &[(&str, &str)]) -> Output {
    let mut script: String = commands(block).into_iter().map(|command| command.text).collect();
    for (from, to) in replaced {
        script = script.replace(from, to);
    }
    shell(place, &script).output().unwrap()
}

/// A shell in the home directory of the test, which finds the program as `svcfs`.
fn shell(place: &Place, script: &str) -> Command {
    let environment = program();
    let folder = Path::new(environment.get_program()).parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.args(["-e", "-o", "pipefail", "-c", script]).current_dir(place.path("."));
    for (name, value) in environment.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("HOME", place.path(".")).env("PATH", format!("{}:{path}", folder.display()));
    command
}

/// What successful commands print on standard output.
#[track_caller]
fn printed(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// Types the commands of a block and checks that each line of output in it is printed; `…` stands
/// for any text, such as ids, hashes and times. The answers of `curl` end without a line break, so
/// a line may be a part of what is printed.
#[track_caller]
fn assert_printed_as_documented(place: &Place, typed: &str, replaced: &[(&str, &str)]) {
    let output = printed(&type_commands(place, typed, replaced));
    for command in commands(typed) {
        for line in &command.output {
            let known: Vec<&str> = line.split('…').collect();
            let is_printed = output.lines().any(|printed| known.iter().all(|part| printed.contains(part)));
            assert!(is_printed, "`{line}` of {} is not in {output}", command.text);
        }
    }
}

#[test]
fn commands_of_a_block_are_read_with_their_continuations() {
    let text = "$ a \\\n    b   # c\nout\n$ cat > x <<'E'\n$ no\nE\n# d\n";
    let commands = commands(text);
    let texts: Vec<&str> = commands.iter().map(|command| command.text.as_str()).collect();
    assert_eq!(texts, ["a \\\n    b   # c\n", "cat > x <<'E'\n$ no\nE\n", "d\n"]);
    assert_eq!(commands[0].output, ["out"]);
}
