//! `svcfs doctor`

use std::cell::RefCell;
use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use svcfs_base::Fault;
use svcfs_config::LogOutput;
use tracing::level_filters::LevelFilter;

use crate::doctor::{CheckFinding, CheckLevel, DoctorProgress, RootExamination, examine, mend};
use crate::failure::{CommandFailure, ExitStatus};
use crate::output::one_line;
use crate::root::must_be_initialised;
use crate::{logging, output, presence, progress};

const EXAMPLES: &str = "\
Examples:
  svcfs doctor --root notes            look, and change nothing
  svcfs doctor --root notes --fix      mend what can be mended without losing anything
  svcfs doctor --root notes --json | jq '.findings[] | select(.level == \"problem\")'

Beside a running server everything is looked at that holds still: the disk, the settings, the log,
git's objects and locks, and whether the server takes writes. To compare the files, git's index
and the search index, and for --fix, stop it first.

--fix removes locks of git whose process is gone, writes lost objects again that the tree still has,
completes accepted changes, records edits made behind the server, refreshes `.git/index`, makes
`index.db` and `log.db` anew, and sweeps unfinished files. A page is never changed or removed, and
what is damaged is kept: in `.git/damaged`, or as `.svc/state/log.db.damaged-1`.

Exit codes: 0 when all is well (warnings are told), 1 when problems are left, 3 when --fix is
asked for and a server has the root.";

/// Say what is wrong with a knowledge base, and mend what can be
///
/// Checks the log, the files, git and the search index, each by itself and against each other, and where they are: disk,
/// permissions, settings, locks, leftovers, dead mounts. Each check is one line; what is wrong is told with its paths and
/// with what --fix would do about it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Mend what can be mended without losing anything
    #[arg(long)]
    fix: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// How often it is looked again after something was mended.
const MOST_ROUNDS: usize = 3;

impl DoctorArgs {
    /// Looks, and mends when asked to.
    ///
    /// # Errors
    /// `Failed` when problems are left; `Refused` when something is to be mended and a server has the root.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { root, fix, json } = self;
        must_be_initialised(&root)?;
        let _logging = logging::start(&LogOutput::Stderr, LevelFilter::ERROR)?;
        if fix {
            presence::bury(&root)?;
        }
        let drawn = ProgressLine::default();
        let mut found = examine(&root, &drawn)?;
        let mut done = Vec::new();
        let mut outcome = Ok(());
        // What is mended lets more be seen: an index is compared once the files are as git has them.
        for _ in 0..if fix { MOST_ROUNDS } else { 0 } {
            refuse_beside_a_server(&root, &found)?;
            if outcome.is_err() || found.findings.iter().all(|finding| finding.fix.is_none()) {
                break;
            }
            let before = done.len();
            outcome = mend(found, &drawn, &mut done);
            found = examine(&root, &drawn)?;
            if done.len() == before {
                break;
            }
        }
        drawn.end();
        if json {
            let healthy = found.count(CheckLevel::Problem) == 0;
            let server = found.holder.as_ref().map(|holder| json!({ "pid": holder.pid, "url": url_of(holder) }));
            output::json(&json!({
                "root": root, "healthy": healthy, "server": server, "mended": done, "findings": found.findings,
            }))?;
        } else {
            output::say(&text(&done, &found.findings))?;
        }
        outcome?;
        end(&root, &found, fix)
    }
}

fn url_of(holder: &presence::RootHolder) -> Option<&str> {
    holder.served.as_ref()?.url.as_deref()
}

fn refuse_beside_a_server(root: &std::path::Path, found: &RootExamination) -> Result<(), CommandFailure> {
    let Some(holder) = &found.holder else { return Ok(()) };
    let fault = Fault::new(svcfs_base::Kind::Conflict, "the root is served").with_detail("pid", holder.pid.clone());
    Err(presence::taken(root, fault, "stop it first; without --fix, what can be seen beside it is looked at"))
}

/// How the command ends.
fn end(root: &std::path::Path, found: &RootExamination, fix: bool) -> Result<(), CommandFailure> {
    let problems = found.count(CheckLevel::Problem);
    if problems == 0 {
        return Ok(());
    }
    let left = if problems == 1 { "1 problem is left".to_owned() } else { format!("{problems} problems are left") };
    let can_mend = found.findings.iter().any(|finding| finding.level == CheckLevel::Problem && finding.fix.is_some());
    let advice = match (can_mend && !fix, &found.holder) {
        (true, None) => format!("`svcfs doctor --root {} --fix` mends what it can", root.display()),
        (true, Some(holder)) => format!("stop the server (process {}), then run this with --fix", holder.pid),
        (false, _) => "what is told above is for you to decide".to_owned(),
    };
    Err(CommandFailure::saying(ExitStatus::Failed, format!("{left}; {advice}")))
}

/// One line for each check; below those that found something, where, and what can be done.
pub(super) fn text(mended: &[String], findings: &[CheckFinding]) -> String {
    let mut text = String::new();
    for line in mended {
        text.push_str(&format!("mended    {line}\n"));
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

/// What goes on, for whoever watches.
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
    fn begin(&self, what: &str) {
        self.end();
        self.0.replace(Some(progress::spinner(what)));
    }
    fn reach(&self, done: usize, total: usize) {
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
