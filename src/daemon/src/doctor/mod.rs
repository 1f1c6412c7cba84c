//! Checks of a root, and their repairs.
//!
//! Invariant: a check changes nothing, and a repair loses nothing. A finding names its paths and
//! the possible repair, which `repair.rs` does. Other crates read SQLite, git and the index; this
//! module interprets the results.

mod place;
mod records;
mod repair;
mod starting;

use std::path::{Path, PathBuf};

use serde::Serialize;
use svcfs_config::{CliOverrides, Settings, VersioningStrategy};
use svcfs_store::{BadObject, LogCheck, RepoInspection, TreeState};
use svcfs_vfs::OfflineRootLock;

pub use repair::repair;
pub use starting::could_start;

use crate::failure::CommandFailure;
use crate::presence::{self, RootHolder};
use crate::root;

/// Maximum number of listed paths of a finding.
const MAX_PATHS: usize = 20;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckLevel {
    /// No problem.
    Ok,
    /// Not checked, for the reason in the message.
    Skipped,
    /// A deviation without harm yet, or one that the next start repairs.
    Warning,
    /// Data is lost, refused or wrong.
    Problem,
}

/// Result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckFinding {
    /// Name of the check.
    pub check: &'static str,
    /// Severity.
    pub level: CheckLevel,
    /// What the check found.
    pub message: String,
    /// Affected paths, at most twenty.
    pub paths: Vec<String>,
    /// What `--fix` does; none if it needs a manual decision.
    pub fix: Option<&'static str>,
}

impl CheckFinding {
    fn new(check: &'static str, level: CheckLevel, message: impl Into<String>) -> Self {
        Self { check, level, message: message.into(), paths: Vec::new(), fix: None }
    }
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, CheckLevel::Ok, message)
    }
    fn skipped(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, CheckLevel::Skipped, message)
    }
    fn warning(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, CheckLevel::Warning, message)
    }
    fn problem(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, CheckLevel::Problem, message)
    }
    fn at<T: ToString>(mut self, paths: impl IntoIterator<Item = T>) -> Self {
        let mut paths = paths.into_iter();
        self.paths = paths.by_ref().take(MAX_PATHS).map(|path| path.to_string()).collect();
        let more = paths.count();
        if more > 0 {
            self.paths.push(format!("and {more} more"));
        }
        self
    }
    const fn repaired_by(mut self, fix: &'static str) -> Self {
        self.fix = Some(fix);
        self
    }
}

/// Receives the progress of the checks.
pub trait DoctorProgress {
    /// A check starts.
    fn start(&self, what: &str);
    /// `done` of `total` items; a total of zero is unknown.
    fn advance(&self, done: usize, total: usize);
}

/// The results of all checks of a root.
pub struct RootExamination {
    /// All findings in the order of the checks.
    pub findings: Vec<CheckFinding>,
    /// The process that uses the root; most checks are skipped then.
    pub holder: Option<RootHolder>,
    root: PathBuf,
    settings: Option<Settings>,
    log: Option<LogCheck>,
    bad_objects: Vec<BadObject>,
    tree: Option<TreeState>,
    is_index_wrong: bool,
}

impl RootExamination {
    /// Number of findings of a level.
    pub fn count(&self, level: CheckLevel) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    fn add(&mut self, findings: impl IntoIterator<Item = CheckFinding>) {
        self.findings.extend(findings);
    }

    /// Whether git is the version store; the default when the settings are invalid.
    fn uses_git(&self) -> bool {
        self.settings.as_ref().is_none_or(|settings| settings.versioning.strategy == VersioningStrategy::Git)
    }

    /// The repository of the root; none if git is not the version store: svcfs does not own it
    /// then.
    fn repository(&self) -> Result<Option<RepoInspection>, CommandFailure> {
        if !self.uses_git() {
            return Ok(None);
        }
        RepoInspection::open(&self.root).map_err(|error| anyhow::Error::new(error).into())
    }
}

/// Checks a root, which no process can serve meanwhile. If a server uses the root, checks only what
/// does not change.
///
/// # Errors
/// When a check itself fails, for example without a directory for temporary files.
pub fn examine(root: &Path, watch: &dyn DoctorProgress) -> Result<RootExamination, CommandFailure> {
    let mut examination = RootExamination {
        findings: Vec::new(),
        holder: None,
        root: root.to_owned(),
        settings: None,
        log: None,
        bad_objects: Vec::new(),
        tree: None,
        is_index_wrong: false,
    };
    let _lock = match OfflineRootLock::acquire(root) {
        Ok(lock) => Some(lock),
        // The checks report all other reasons.
        Err(fault) => {
            examination.holder = presence::holder(root, &fault);
            None
        }
    };
    examination.add([place::server(examination.holder.as_ref())]);
    examination.add(place::root(root));
    examination.add([place::disk(root)]);
    match root::settings(root, None, CliOverrides::default()) {
        Ok(settings) => {
            examination.settings = Some(settings);
            examination.add([CheckFinding::ok("settings", "`.svc/config.toml` is valid")]);
        }
        Err(failure) => {
            let message = failure.message(false);
            examination.add([CheckFinding::problem("settings", message.trim_start_matches("svcfs: "))]);
        }
    }
    records::log(&mut examination, watch);
    records::history(&mut examination, watch);
    if examination.holder.is_some() {
        let why = "not compared: stop the server to check this";
        examination.add(["tree", "git-index", "search-index"].map(|check| CheckFinding::skipped(check, why)));
    } else {
        records::tree(&mut examination, watch);
        records::search_index(&mut examination, watch);
        records::meaning(&mut examination);
    }
    let leftovers = place::leftovers(&examination);
    examination.add(leftovers);
    let mounts = place::mounts(&examination);
    examination.add(mounts);
    Ok(examination)
}

/// `1 file`, `2 files`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
