//! `svcfs doctor`

use std::cell::RefCell;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use svcfs_base::Fault;
use svcfs_config::LogOutput;
use tracing::level_filters::LevelFilter;

use crate::doctor::{CheckFinding, CheckLevel, DoctorProgress, RootExamination, examine, repair};
use crate::failure::{CommandFailure, ExitStatus};
use crate::output::one_line;
use crate::root::require_initialised;
use crate::root_flag::RootFlag;
use crate::{logging, output, presence, progress};

const EXAMPLES: &str = "\
Examples:
  svcfs doctor --root notes            check, change nothing
  svcfs doctor --root notes --fix      repair what can be repaired without loss
  svcfs doctor --root notes --json | jq '.findings[] | select(.level == \"problem\")'

While a server runs, doctor checks only what does not change: the disk, the settings, the log, git's
objects and locks, and whether the server accepts writes. Stop the server to compare the files,
git's index and the search index, and for --fix.

--fix removes stale git locks, rewrites lost objects whose content is still in the tree, completes
accepted changes, records external edits, refreshes `.git/index`, rebuilds `index.db` and `log.db`,
and removes unfinished files. It never changes or removes a page. Damaged files are moved to
`.git/damaged` or renamed to `.svc/state/log.db.damaged-1`.

Unwanted changes of pages are no damage: `svcfs undo` undoes those of an actor, a period or a commit;
`svcfs restore` brings a removed page or an earlier version back.

Exit codes: 0 without problems (warnings are listed), 1 when problems remain, 3 when --fix is given
and a server uses the root.";

/// Check a knowledge base and repair it
///
/// Checks the log, the files, git and the search index, each alone and against each other; also the
/// disk, permissions, settings, locks, temporary files and stale mounts. Prints one line for each
/// check, and for each problem its paths and what --fix would do.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    #[command(flatten)]
    root: RootFlag,
    /// Repair what can be repaired without loss
    #[arg(long)]
    fix: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How often the checks are repeated after repairs.
const MAX_ROUNDS: usize = 3;

impl DoctorArgs {
    /// Checks the root, and repairs it with `--fix`.
    ///
    /// # Errors
    /// `Failed` when problems remain; `Refused` when a server uses the root and `--fix` has work.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, fix, json } = self;
        let root = root.find()?;
        require_initialised(&root)?;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::ERROR)?;
        if fix {
            presence::abort_hung_server(&root)?;
        }
        let progress_line = ProgressLine::default();
        let mut examination = examine(&root, &progress_line)?;
        let mut done = Vec::new();
        let mut outcome = Ok(());
        // A repair can enable further checks: the index is compared once the files agree with git.
        for _ in 0..if fix { MAX_ROUNDS } else { 0 } {
            refuse_with_server(&root, &examination)?;
            if outcome.is_err() || examination.findings.iter().all(|finding| finding.fix.is_none()) {
                break;
            }
            let before = done.len();
            outcome = repair(examination, &progress_line, &mut done);
            examination = examine(&root, &progress_line)?;
            if done.len() == before {
                break;
            }
        }
        progress_line.end();
        if json {
            let healthy = examination.count(CheckLevel::Problem) == 0;
            let server = examination.holder.as_ref().map(|holder| json!({ "pid": holder.pid, "url": url_of(holder) }));
            output::json(&json!({
                "root": root, "healthy": healthy, "server": server, "repaired": done, "findings": examination.findings,
            }))?;
        } else {
            output::say(&text(&done, &examination.findings))?;
        }
        outcome?;
        outcome_of(&root, &examination, fix)
    }
}

fn url_of(holder: &presence::RootHolder) -> Option<&str> {
    holder.served.as_ref()?.url.as_deref()
}

fn refuse_with_server(root: &std::path::Path, examination: &RootExamination) -> Result<(), CommandFailure> {
    let Some(holder) = &examination.holder else { return Ok(()) };
    let fault = Fault::new(svcfs_base::Kind::Conflict, "the root is served").with_detail("pid", holder.pid.clone());
    Err(presence::root_in_use(
        root,
        fault,
        "stop it first, or run without --fix for the checks that are possible meanwhile",
    ))
}

/// The exit status of the command.
fn outcome_of(root: &std::path::Path, examination: &RootExamination, fix: bool) -> Result<(), CommandFailure> {
    let problems = examination.count(CheckLevel::Problem);
    if problems == 0 {
        return Ok(());
    }
    let remaining = if problems == 1 { "1 problem remains".to_owned() } else { format!("{problems} problems remain") };
    let can_repair =
        examination.findings.iter().any(|finding| finding.level == CheckLevel::Problem && finding.fix.is_some());
    let advice = match (can_repair && !fix, &examination.holder) {
        (true, None) => format!("`svcfs doctor --root {} --fix` repairs what it can", root.display()),
        (true, Some(holder)) => format!("stop the server (process {}), then run this with --fix", holder.pid),
        (false, _) => "fix these manually".to_owned(),
    };
    Err(CommandFailure::saying(ExitStatus::Failed, format!("{remaining}; {advice}")))
}

/// One line for each check; below a finding its paths and the possible repair.
pub(super) fn text(repaired: &[String], findings: &[CheckFinding]) -> String {
    let mut text = String::new();
    for line in repaired {
        text.push_str(&format!("repaired  {line}\n"));
    }
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
    for CheckFinding { check, level, message, paths, fix } in findings {
        let level = match level {
            CheckLevel::Ok => "ok",
            CheckLevel::Skipped => "skipped",
            CheckLevel::Warning => "warning",
            CheckLevel::Problem => "PROBLEM",
        };
        text.push_str(&format!("{level:<8}  {check:<width$}  {}\n", one_line(message)));
        for path in paths {
            text.push_str(&format!("{:width$}    - {}\n", "", one_line(path), width = width + 8));
        }
        if let Some(fix) = fix {
            text.push_str(&format!("{:width$}    --fix {fix}\n", "", width = width + 8));
        }
    }
    text
}

/// Progress on the terminal.
#[derive(Default)]
struct ProgressLine(RefCell<Option<ProgressBar>>);

impl ProgressLine {
    fn end(&self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl DoctorProgress for ProgressLine {
    fn start(&self, what: &str) {
        self.end();
        self.0.replace(Some(progress::spinner(what)));
    }
    fn advance(&self, done: usize, total: usize) {
        if let Some(bar) = &*self.0.borrow() {
            if total > 0 && bar.length().is_none() {
                bar.set_style(progress::counting());
            }
            if total > 0 {
                bar.set_length(total as u64);
            }
            bar.set_position(done as u64);
        }
    }
}
