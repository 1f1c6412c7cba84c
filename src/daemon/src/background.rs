//! A mount that outlives the command that asked for it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use svcfs_store::StatePaths;

use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;

/// Where the mount of a root without a server says what it has to say.
const LOG: &str = "mount.log";

/// Starts a process that mounts, waits until it does, and leaves it; what it said then.
///
/// Its log is a file in the state directory, begun anew each time: neither a terminal nor mount(8) wants to hear of it later.
///
/// # Errors
/// What it ended with.
pub fn mount(
    root: &Path,
    mountpoint: &Path,
    config: Option<&Path>,
    manner: &MountFlags,
) -> Result<String, CommandFailure> {
    let absolute = |path: &Path| std::path::absolute(path).context("the current directory is gone");
    let root = absolute(root)?;
    let log = StatePaths::new(&root).directory().join(LOG);
    let mut arguments = vec!["--root".into(), root.into()];
    if let Some(config) = config {
        arguments.extend(["--config".into(), absolute(config)?.into()]);
    }
    start(arguments, (mountpoint, manner), &log)
}

/// The same for any mount; `arguments` say of what.
///
/// # Errors
/// What it ended with.
pub fn start(
    arguments: Vec<OsString>,
    (mountpoint, manner): (&Path, &MountFlags),
    log: &Path,
) -> Result<String, CommandFailure> {
    let mountpoint = std::path::absolute(mountpoint).context("the current directory is gone")?;
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.arg("mount").args(manner.flags()).args(arguments).arg("--").arg(mountpoint);
    // Of its own in every way: its directory, its group (a Ctrl-C here is not meant for it), and nobody waits for it but we.
    command.current_dir("/").process_group(0).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(opened(log)?);
    let mut child = command.spawn().context("a process for the mount cannot be started")?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).context("the process of the mount cannot be heard")?;
    }
    if !said.is_empty() {
        return Ok(said);
    }
    let status = child.wait().context("the end of the process of the mount cannot be waited for")?;
    let exit = match status.code() {
        Some(2) => ExitStatus::Usage,
        Some(3) => ExitStatus::Refused,
        Some(_) | None => ExitStatus::Failed,
    };
    Err(CommandFailure::saying(exit, last_words(log)))
}

fn opened(log: &Path) -> Result<File, CommandFailure> {
    Ok(File::create(log).with_context(|| format!("cannot write the log `{}`", log.display()))?)
}

/// What a process told of its end.
fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let told = text.lines().rev().find_map(|line| line.strip_prefix("svcfs: "));
    told.map_or_else(|| format!("the process of the mount ended at once; see `{}`", log.display()), str::to_owned)
}
