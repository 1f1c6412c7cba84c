//! Conversions by programs (`filter.NAME.clean`, `smudge`, `process`), encodings and `$Id$`: git
//! runs them, so that they are run exactly as `git add` and `git checkout` do.
//!
//! git also decides whether the repository is trusted (`safe.directory`): svcfs starts no program
//! that a person's own `git add` would refuse to start.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use svcfs_base::{MAX_FILE_BYTES, TreePath};

/// How long a filter may run.
const FILTER_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_REASON_BYTES: usize = 400;
/// Settings of the environment that would lead git to another repository.
const FOREIGN_VARIABLES: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"];

/// Why a filter did not run.
#[derive(Debug)]
pub(crate) struct FilterError(pub(crate) String);

/// Writes the form that git records into the repository; returns its object id.
pub(crate) fn store_clean(root: &Path, path: &TreePath, content: &[u8]) -> Result<String, FilterError> {
    hash_object(root, path, content, &["-w"])
}

/// The object id of the form that git records; nothing is written.
pub(crate) fn hash_clean(root: &Path, path: &TreePath, content: &[u8]) -> Result<String, FilterError> {
    hash_object(root, path, content, &[])
}

fn hash_object(root: &Path, path: &TreePath, content: &[u8], options: &[&str]) -> Result<String, FilterError> {
    let path = format!("--path={path}");
    let arguments = [&["hash-object", "--stdin", &path], options].concat();
    let output = run_git(root, &arguments, content)?;
    Ok(String::from_utf8_lossy(&output).trim().to_owned())
}

/// The form in the tree of a recorded object.
pub(crate) fn smudge(root: &Path, path: &TreePath, object: &str) -> Result<Vec<u8>, FilterError> {
    let path = format!("--path={path}");
    run_git(root, &["cat-file", "--filters", &path, object], b"")
}

fn run_git(root: &Path, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, FilterError> {
    let mut command = Command::new("git");
    for variable in FOREIGN_VARIABLES {
        command.env_remove(variable);
    }
    command
        .args(arguments)
        .current_dir(root)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FilterError("the program `git`, which runs filters, is not installed".to_owned()),
        _ => FilterError(format!("`git`, which runs filters, cannot be started: {error}")),
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (outcome, output, messages) = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A filter need not read all of its input.
            let _ = stdin.map(|mut stdin| stdin.write_all(input));
        });
        let output = scope.spawn(|| read_limited(stdout, MAX_FILE_BYTES + 1));
        let messages = scope.spawn(|| read_limited(stderr, 64 << 10));
        let outcome = wait(&mut child);
        (outcome, output.join().unwrap_or_default(), messages.join().unwrap_or_default())
    });
    let status = outcome?;
    if !status.success() {
        let reason = reason_of(&messages);
        return Err(FilterError(if reason.is_empty() { format!("git ended with {status}") } else { reason }));
    }
    if output.len() > MAX_FILE_BYTES {
        return Err(FilterError(format!("the converted file is longer than {MAX_FILE_BYTES} bytes")));
    }
    Ok(output)
}

fn read_limited(stream: Option<impl Read>, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        let _ = stream.by_ref().take(limit as u64).read_to_end(&mut bytes);
        // The rest is dropped, so that the program can end.
        let _ = io::copy(&mut stream, &mut io::sink());
    }
    bytes
}

/// Waits for git; ends it with its filters after the timeout.
fn wait(child: &mut Child) -> Result<std::process::ExitStatus, FilterError> {
    let deadline = Instant::now() + FILTER_TIMEOUT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                return Err(FilterError(format!("it did not end within {} s", FILTER_TIMEOUT.as_secs())));
            }
            Err(error) => return Err(FilterError(error.to_string())),
        }
    }
}

/// git's messages in one line.
fn reason_of(messages: &[u8]) -> String {
    let text = String::from_utf8_lossy(messages);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut reason = svcfs_base::escape_unprintable(&lines.join("; ")).to_string();
    if let Some((end, _)) = reason.char_indices().take_while(|(at, _)| *at <= MAX_REASON_BYTES).last()
        && end < reason.len()
        && reason.len() > MAX_REASON_BYTES
    {
        reason.truncate(end);
        reason.push('…');
    }
    reason
}
