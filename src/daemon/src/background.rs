//! A mount that continues after the command returns.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::Value;
use svcfs_store::StatePaths;

use crate::failure::{CommandFailure, ExitStatus};
use crate::logging;
use crate::mounting::MountFlags;

/// Log of the mount of a root without a server.
const LOG_FILE: &str = "mount.log";

/// Starts a process that mounts and waits until it has; returns its message.
///
/// Its log is a file in the state directory, truncated at each start, because neither a terminal
/// nor mount(8) reads later messages.
///
/// # Errors
/// The error of the process.
pub fn mount(
    root: &Path,
    mountpoint: &Path,
    config: Option<&Path>,
    flags: &MountFlags,
) -> Result<String, CommandFailure> {
    let absolute = |path: &Path| std::path::absolute(path).context("the current directory does not exist any more");
    let root = absolute(root)?;
    let log = StatePaths::new(&root).directory().join(LOG_FILE);
    let mut arguments = vec!["--root".into(), root.into()];
    if let Some(config) = config {
        arguments.extend(["--config".into(), absolute(config)?.into()]);
    }
    start(arguments, (mountpoint, flags), &log)
}

/// The same for any mount, given by `arguments`.
///
/// # Errors
/// The error of the process.
pub fn start(
    arguments: Vec<OsString>,
    (mountpoint, flags): (&Path, &MountFlags),
    log: &Path,
) -> Result<String, CommandFailure> {
    let mountpoint = std::path::absolute(mountpoint).context("the current directory does not exist any more")?;
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.arg("mount").args(logging::arguments()).args(flags.flags()).args(arguments).arg("--").arg(mountpoint);
    // Detached: its own directory and process group, so that Ctrl-C here does not reach it.
    command.current_dir("/").process_group(0).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(opened(log)?);
    let mut child = command.spawn().context("the mount process cannot be started")?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).context("the mount process cannot be read")?;
    }
    if !line.is_empty() {
        return Ok(line);
    }
    let status = child.wait().context("waiting for the mount process failed")?;
    let exit = match status.code() {
        Some(2) => ExitStatus::Usage,
        Some(3) => ExitStatus::Refused,
        Some(_) | None => ExitStatus::Failed,
    };
    Err(CommandFailure::saying(exit, last_error(log)))
}

fn opened(log: &Path) -> Result<File, CommandFailure> {
    Ok(File::create(log).with_context(|| format!("cannot write the log `{}`", log.display()))?)
}

/// The last error message of a process.
fn last_error(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let message = |line: &str| {
        let json = || serde_json::from_str::<Value>(line).ok()?.get("message")?.as_str().map(str::to_owned);
        line.strip_prefix("svcfs: ").map(str::to_owned).or_else(json)
    };
    let message = text.lines().rev().find_map(message);
    message.unwrap_or_else(|| format!("the mount process exited immediately; see `{}`", log.display()))
}
