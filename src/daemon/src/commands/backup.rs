//! `svcfs backup`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use svcfs_backup::{BackupError, DrillReport, EmptyRemote, RunContext};
use svcfs_config::{BackupSettings, CliOverrides};

use crate::asking::{OpenTarget, RootTarget};
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::{self, cli_caller, require_initialised};
use crate::signals::{self, SignalRuntime};
use crate::{manual, output, progress};

const EXAMPLES: &str = "\
Examples:
  svcfs backup                                     to `backup.remote` of the settings, now
  svcfs backup --drill                             restore it into a scratch directory and compare everything
  svcfs backup --remote /mnt/disk/notes            to another place, here: git bundles in a directory
  svcfs backup --remote git@example.org:n.git --branch main
  svcfs backup --json | jq .last_verified
  svcfs restore --from /mnt/disk/notes --to notes  the way back

Exit codes: 0 when the remote has everything (a note names branches and tags that it did not take), 3 when it was refused
(a conflict, a rewritten or an empty remote), 1 after other failures and when a drill finds a difference, 130 after Ctrl-C.";

/// How often a server is asked whether the backup has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long the backup waits for another process that does the same.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Back up the knowledge base now, or test the backup
///
/// A server does this by itself at every `backup.interval` and when it stops. Everything in git is
/// backed up (pages with their history, all branches, tags and notes) and the open drafts. After
/// the backup, it is checked that the remote has everything.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BackupArgs {
    #[command(flatten)]
    target: RootTarget,
    /// Another remote than `backup.remote`: a git URL, the path of a git repository or of a
    /// directory for bundles, or `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "URL", conflicts_with = "url")]
    remote: Option<String>,
    /// Branch of the git remote [default: `backup.branch`, else the current branch]
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    branch: Option<String>,
    /// Whether to merge commits that others pushed to the remote [default:
    /// `backup.rebase_before_push`]
    #[arg(long, value_name = "true|false", conflicts_with = "url")]
    rebase_before_push: Option<bool>,
    /// Make a new full backup where the last one is gone; without it, that is refused: the disk may
    /// not be mounted
    #[arg(long, conflicts_with_all = ["url", "drill"])]
    accept_empty: bool,
    /// Restore the last backup into a scratch directory, and compare every file and commit with
    /// the root
    #[arg(long, conflicts_with = "url")]
    drill: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl BackupArgs {
    /// Backs up, or tests the backup.
    ///
    /// # Errors
    /// `Refused` when a person must do something first, `Failed` otherwise.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { target, remote, branch, rebase_before_push, accept_empty, drill, json } = self;
        let has_overrides = remote.is_some() || branch.is_some() || rebase_before_push.is_some() || accept_empty;
        let signals = catch_signals()?;
        if !drill && !has_overrides {
            return run_scheduled(target, json, &signals);
        }
        if target.space().is_some() {
            let message = "--space needs a server; name the root of the space with --root instead";
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        }
        let root = target.root()?;
        require_initialised(&root)?;
        let settings = settings(&root, (remote, branch, rebase_before_push))?;
        let spinner = progress::spinner("starting");
        let on_phase = |phase: &str| spinner.set_message(phase.to_owned());
        let context = RunContext { is_stopped: &|| false, deadline: None, on_phase: &on_phase };
        if drill {
            let report = svcfs_backup::drill(&root, &settings, context);
            spinner.finish_and_clear();
            return print_drill(&report.map_err(failure)?, json);
        }
        let empty_remote = if accept_empty { EmptyRemote::Accept } else { EmptyRemote::Refuse };
        let outcome = svcfs_backup::run(&root, (&settings, empty_remote), (context, LOCK_TIMEOUT));
        spinner.finish_and_clear();
        let (outcome, record) = outcome.map_err(failure)?;
        let sent = outcome.sent_refs > 0;
        if json {
            return output::json(&record);
        }
        output::say(&summary(&json!(record), sent))
    }
}

/// The settings of the root with the flags.
fn settings(
    root: &std::path::Path,
    (remote, branch, rebase_before_push): (Option<String>, Option<String>, Option<bool>),
) -> Result<BackupSettings, CommandFailure> {
    let overrides = CliOverrides { backup: root::backup_overrides(), ..CliOverrides::default() };
    let mut settings = root::settings(root, None, overrides)?.backup;
    let usage = |flag: &str, error: &str| CommandFailure::saying(ExitStatus::Usage, format!("`{flag}` {error}"));
    if let Some(remote) = remote {
        settings = settings.with_remote(&absolute(&remote)).map_err(|error| usage("--remote", error))?;
    }
    if let Some(branch) = branch {
        settings = settings.with_branch(&branch).map_err(|error| usage("--branch", error))?;
    }
    settings.rebase_before_push = rebase_before_push.unwrap_or(settings.rebase_before_push);
    if settings.is_enabled() {
        return Ok(settings);
    }
    let message = "there is no remote; set `backup.remote` in the settings, or give `--remote URL`";
    Err(CommandFailure::saying(ExitStatus::Usage, message))
}

/// A relative path as the user means it; other texts stay.
fn absolute(remote: &str) -> String {
    if !(remote.starts_with("./") || remote.starts_with("../") || !remote.contains([':', '/'])) {
        return remote.to_owned();
    }
    let path = std::path::absolute(PathBuf::from(remote)).ok();
    path.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| remote.to_owned())
}

/// The backup of the settings: by the server that has the root, else in this process.
fn run_scheduled(target: RootTarget, json: bool, signals: &SignalRuntime) -> Result<(), CommandFailure> {
    let mut target = target.open()?;
    let spinner = progress::spinner("starting");
    let status = follow(&mut target, &spinner, signals);
    spinner.finish_and_clear();
    target.close()?;
    let (status, before) = status?;
    if let Some(error) = status["last_error"].as_str() {
        if json {
            output::json(&status)?;
        }
        return Err(CommandFailure::saying(exit_status(status["refused"] == true), error));
    }
    if json {
        return output::json(&status);
    }
    output::say(&summary(&status, status["last_push"] != before))
}

/// Starts a backup and waits for its end; returns its status, and the time of the push before.
fn follow(
    target: &mut OpenTarget,
    spinner: &ProgressBar,
    signals: &SignalRuntime,
) -> Result<(Value, Value), CommandFailure> {
    let mut call = |operation| target.run(manual::find(operation)?, &Map::new(), (&cli_caller(None), None));
    let before = call("backup_status")?;
    let mut status = call("backup")?;
    let runs_of = |status: &Value| status["runs"].as_u64().unwrap_or_default();
    // A server backs up beside this command. A backup that was already running may have missed the
    // newest changes.
    let (first, more) = (runs_of(&status), if status["phase"].is_null() { 1 } else { 2 });
    let is_queued = status["running"] == true;
    while is_queued && (first..first + more).contains(&runs_of(&status)) {
        if signals.end.is_cancelled() {
            let message = "the server continues the backup; `svcfs status` shows how it ends";
            return Err(CommandFailure::saying(ExitStatus::Interrupted, message));
        }
        spinner.set_message(status["phase"].as_str().unwrap_or("waiting").to_owned());
        std::thread::park_timeout(POLL_INTERVAL);
        status = call("backup_status")?;
    }
    Ok((status, before["last_push"].clone()))
}

/// What a backup did, for a person.
fn summary(record: &Value, sent: bool) -> String {
    let text = |name: &str| output::one_line(record[name].as_str().unwrap_or_default());
    let head = text("head");
    if head.is_empty() {
        return "there is no commit yet; nothing was backed up".to_owned();
    }
    let (commit, done) = (&head[..head.len().min(10)], if sent { "backed up to" } else { "nothing new for" });
    let note = text("note");
    let note = match note.is_empty() {
        true => note,
        false => format!(", except what the note names\nnote: {note}"),
    };
    format!("{done} {}: it has everything up to commit {commit}{note}", text("remote"))
}

fn print_drill(report: &DrillReport, json: bool) -> Result<(), CommandFailure> {
    let DrillReport { equal, remote, head, commits, files, refs, newer_commits, differences, took_ms } = report;
    if json {
        output::json(report)?;
    } else {
        let mut text = format!(
            "restored {} in {:.1} s: {commits} commits, {files} files and {refs} refs {}\n",
            output::one_line(remote),
            *took_ms as f64 / 1000.0,
            if *equal { "are equal" } else { "were compared" }
        );
        text.push_str(&match newer_commits {
            0 => "the backup has the newest commit\n".to_owned(),
            newer => {
                format!("{newer} commits came after the backup, which ends with {}\n", &head[..head.len().min(10)])
            }
        });
        differences.iter().for_each(|difference| text.push_str(&format!("  {}\n", output::one_line(difference))));
        output::say(&text)?;
    }
    if *equal {
        return Ok(());
    }
    Err(CommandFailure::saying(ExitStatus::Failed, "the backup differs from the root; make a new one and keep the old"))
}

/// The failure of a backup as the failure of a command.
pub fn failure(error: BackupError) -> CommandFailure {
    CommandFailure::new(exit_status(error.is_refusal()), error)
}

/// How the command ends after a failed backup.
fn exit_status(is_refused: bool) -> ExitStatus {
    match is_refused {
        true => ExitStatus::Refused,
        false if svcfs_backup::is_interrupted() => ExitStatus::Interrupted,
        false => ExitStatus::Failed,
    }
}

/// Ends the git commands of this process with it, and removes its scratch files.
///
/// # Errors
/// Those of the operating system.
pub fn catch_signals() -> Result<SignalRuntime, CommandFailure> {
    let signals = signals::listen(false)?;
    let end = signals.end.clone();
    signals.runtime.spawn(async move {
        end.cancelled().await;
        svcfs_backup::interrupt();
    });
    Ok(signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_become_absolute_and_urls_stay() {
        for text in ["git@h:x", "s3://b/p", "/srv/x", "https://h/x", "host:x"] {
            assert_eq!(absolute(text), text);
        }
        for text in ["./x", "../x", "x"] {
            assert!(absolute(text).starts_with('/'), "{text}");
        }
    }

    #[test]
    fn a_summary_names_the_remote_and_the_commit() {
        let record = json!({ "remote": "r", "head": "0123456789abcdef" });
        assert_eq!(summary(&record, true), "backed up to r: it has everything up to commit 0123456789");
        let record = json!({ "remote": "r", "head": "0123456789abcdef", "note": "`x` is not in the backup" });
        let expected = "nothing new for r: it has everything up to commit 0123456789, except what the note names\n\
                        note: `x` is not in the backup";
        assert_eq!(summary(&record, false), expected);
    }
}
