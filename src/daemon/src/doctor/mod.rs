//! What is wrong with a root, in plain words, and what of it can be mended.
//!
//! One rule: looking changes nothing, and mending loses nothing. A check says what it found on which path; whether that can be
//! mended is said beside it and done by `mending.rs`. Reading SQLite, git and the index is theirs to know; here is only what it
//! means.

mod mending;
mod place;
mod records;
mod starting;

use std::path::{Path, PathBuf};

use serde::Serialize;
use svcfs_config::{CliOverrides, Settings, VersioningStrategy};
use svcfs_store::{BadObject, LogCheck, RepoInspection, TreeState};
use svcfs_vfs::OfflineRootLock;

pub use mending::mend;
pub use starting::could_start;

use crate::failure::CommandFailure;
use crate::presence::{self, RootHolder};
use crate::root;

/// How many paths of a finding are told one by one.
const MAX_PATHS: usize = 20;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckLevel {
    /// Nothing is wrong.
    Ok,
    /// Could not be looked at, for the reason told.
    Skipped,
    /// Not as it should be, and nobody is harmed yet, or the next start mends it by itself.
    Warning,
    /// Something is lost, refused or wrong.
    Problem,
}

/// What a check found.
#[derive(Debug, Clone, Serialize)]
pub struct CheckFinding {
    /// Which check.
    pub check: &'static str,
    /// How it ended.
    pub level: CheckLevel,
    /// What was found.
    pub message: String,
    /// Where, at most twenty.
    pub paths: Vec<String>,
    /// What `--fix` does about it; none when it is a person's to decide.
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
    const fn mended_by(mut self, fix: &'static str) -> Self {
        self.fix = Some(fix);
        self
    }
}

/// Hears what is being looked at, and how far that is.
pub trait DoctorProgress {
    /// A check begins.
    fn begin(&self, what: &str);
    /// So many of so many; of an unknown number when it is zero.
    fn reach(&self, done: usize, total: usize);
}

/// A root as it was found.
pub struct RootExamination {
    /// Every check in the order it was made.
    pub findings: Vec<CheckFinding>,
    /// Who serves the root; most checks cannot be made then.
    pub holder: Option<RootHolder>,
    root: PathBuf,
    settings: Option<Settings>,
    log: Option<LogCheck>,
    bad_objects: Vec<BadObject>,
    tree: Option<TreeState>,
    is_index_wrong: bool,
}

impl RootExamination {
    /// How many findings are of a level.
    pub fn count(&self, level: CheckLevel) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    fn add(&mut self, findings: impl IntoIterator<Item = CheckFinding>) {
        self.findings.extend(findings);
    }

    /// Whether git keeps the versions here; where settings do not tell, it does.
    fn keeps_git(&self) -> bool {
        self.settings.as_ref().is_none_or(|settings| settings.versioning.strategy == VersioningStrategy::Git)
    }

    /// The repository of this root; none where git does not keep versions: one that is there is somebody else's.
    fn repository(&self) -> Result<Option<RepoInspection>, CommandFailure> {
        if !self.keeps_git() {
            return Ok(None);
        }
        RepoInspection::open(&self.root).map_err(|error| anyhow::Error::new(error).into())
    }
}

/// Looks at a root; nobody can serve it meanwhile. Of one that somebody serves, those things are looked at that hold still.
///
/// # Errors
/// When looking itself fails, such as for want of a place for temporary files.
pub fn examine(root: &Path, watch: &dyn DoctorProgress) -> Result<RootExamination, CommandFailure> {
    let mut found = RootExamination {
        findings: Vec::new(),
        holder: None,
        root: root.to_owned(),
        settings: None,
        log: None,
        bad_objects: Vec::new(),
        tree: None,
        is_index_wrong: false,
    };
    let _held = match OfflineRootLock::acquire(root) {
        Ok(held) => Some(held),
        // Whatever else keeps the lock from being taken is told by the checks.
        Err(fault) => {
            found.holder = presence::holder(root, &fault);
            None
        }
    };
    found.add([place::server(found.holder.as_ref())]);
    found.add(place::root(root));
    found.add([place::disk(root)]);
    match root::settings(root, None, CliOverrides::default()) {
        Ok(settings) => {
            found.settings = Some(settings);
            found.add([CheckFinding::ok("settings", "`.svc/config.toml` is valid")]);
        }
        Err(failure) => {
            let told = failure.told(false);
            found.add([CheckFinding::problem("settings", told.trim_start_matches("svcfs: "))]);
        }
    }
    records::log(&mut found, watch);
    records::history(&mut found, watch);
    if found.holder.is_some() {
        let why = "not compared: a server has the root, and changes it while we look; stop it to have this checked";
        found.add(["tree", "git-index", "search-index"].map(|check| CheckFinding::skipped(check, why)));
    } else {
        records::tree(&mut found, watch);
        records::search_index(&mut found, watch);
    }
    let leftovers = place::leftovers(&found);
    found.add(leftovers);
    let mounts = place::mounts(&found);
    found.add(mounts);
    Ok(found)
}

/// `1 file`, `2 files`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
