//! `svcfs restore --from URL --to DIR`: a knowledge base from a backup, beside the verb
//! `svcfs restore PATH` for a page.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use svcfs_backup::{RestoreReport, RunContext};

use super::VerbAlternative;
use super::command_line::JSON;
use crate::commands::backup::{catch_signals, failure};
use crate::failure::{CommandFailure, ExitStatus};
use crate::{output, progress};

pub const FROM_BACKUP: VerbAlternative = VerbAlternative { augment, run };

const FROM: &str = "from";
const TO: &str = "to";
const BRANCH: &str = "branch";
const PAGE_FORM: &str = "`svcfs restore PATH` restores a page";
const BACKUP_FORM: &str = "`svcfs restore --from URL --to DIR` restores a knowledge base from a backup";

fn augment(command: Command) -> Command {
    let option = |id: &'static str, value: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(value).help(help).help_heading("Restoring a knowledge base from a backup")
    };
    command
        .arg(option(FROM, "URL", "Backup: a git URL or repository, a directory of bundles, or s3://BUCKET/PREFIX"))
        .arg(option(TO, "DIR", "New directory for the knowledge base"))
        .arg(option(BRANCH, "NAME", "Branch to check out [default: that of the backup]"))
}

/// Restores a backup if one is named, and refuses what fits neither form.
fn run(matches: &ArgMatches) -> Option<Result<(), CommandFailure>> {
    let text = |name: &str| matches.try_get_one::<String>(name).ok().flatten().map(String::as_str);
    let usage = |message: String| Some(Err(CommandFailure::saying(ExitStatus::Usage, message)));
    let of_page =
        ["path", "version", "url", "space", "actor", "if_match"].into_iter().find(|name| text(name).is_some());
    match (text(FROM), text(TO), text(BRANCH), of_page) {
        (None, None, None, Some("path")) => None,
        (None, None, None, _) => usage(format!("what is to be restored? {PAGE_FORM}; {BACKUP_FORM}")),
        (from, to, _, Some("path")) => {
            let flag = from.map(|_| FROM).or(to.map(|_| TO)).unwrap_or(BRANCH);
            usage(format!("PATH and --{flag} exclude each other: {PAGE_FORM}; {BACKUP_FORM}"))
        }
        (Some(_), _, _, Some(other)) => {
            let flag = other.replace('_', "-");
            usage(format!("--{flag} has no effect with --from; it is for `svcfs restore PATH`"))
        }
        (Some(from), Some(to), branch, None) => Some(restore(from, Path::new(to), branch, matches.get_flag(JSON))),
        (Some(_), None, _, None) => usage(format!("--from needs --to DIR: {BACKUP_FORM}; {PAGE_FORM}")),
        (None, _, _, _) => usage(format!("--from URL is missing: {BACKUP_FORM}; {PAGE_FORM}")),
    }
}

fn restore(from: &str, to: &Path, branch: Option<&str>, json: bool) -> Result<(), CommandFailure> {
    let absolute = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
    if let Some(mount) = absolute.ancestors().find(|path| svcfs_mount::is_mounted(path)) {
        let (to, mount) = (to.display(), mount.display());
        let message = format!("`{to}` is in the svcfs mount `{mount}`; give a new directory outside it");
        return Err(CommandFailure::saying(ExitStatus::Refused, message));
    }
    let _signals = catch_signals()?;
    let spinner = progress::spinner("reading the backup");
    let on_phase = |phase: &str| spinner.set_message(phase.to_owned());
    let context = RunContext { is_stopped: &|| false, deadline: None, on_phase: &on_phase };
    let report = svcfs_backup::restore(from, to, (branch, context));
    spinner.finish_and_clear();
    let report = report.map_err(failure)?;
    if json {
        return output::json(&report);
    }
    let RestoreReport { branch, head, commits, files, refs: _, state, took_ms } = report;
    let shown = to.display();
    let state = if state.is_empty() { String::new() } else { format!(" with {}", state.join(" and ")) };
    output::say(&format!(
        "restored {files} files and {commits} commits{state} into {shown} in {:.1} s; branch {} is at {}\nserve it with \
         `svcfs serve --root {shown}`",
        took_ms as f64 / 1000.0,
        output::one_line(&branch),
        &head[..head.len().min(10)]
    ))
}
