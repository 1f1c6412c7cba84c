//! Which root a command is for: `--root`, `SVC_ROOT`, or the one around the current directory.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::failure::{CommandFailure, ExitStatus};

/// Names the root where `--root` is not given.
const VARIABLE: &str = "SVC_ROOT";

/// Selects a root.
#[derive(Debug, Clone, Args)]
pub struct RootFlag {
    /// Directory of the knowledge base [default: $SVC_ROOT, else the one around the current
    /// directory]
    #[arg(short, long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl RootFlag {
    /// The root: as given, else that of the environment, else the first directory with `.svc` from
    /// the current one upwards. Whether it exists and is initialised is for the caller to check.
    ///
    /// # Errors
    /// `Refused`, with what to do, when there is none.
    pub fn find(self) -> Result<PathBuf, CommandFailure> {
        let current = || std::env::current_dir().context("the current directory does not exist any more");
        if let Some(root) = self.given() {
            return Ok(root);
        }
        let current = current()?;
        enclosing_root(&current).ok_or_else(|| {
            let message = format!(
                "no knowledge base: neither `{}` nor a directory above it has `.svc`; name one with --root DIR or \
                 {VARIABLE}, or create one with `svcfs init --root DIR`",
                current.display()
            );
            CommandFailure::saying(ExitStatus::Refused, message)
        })
    }

    /// The root to initialise: as [`RootFlag::find`], else the current directory. Not one with
    /// files that are not in git: it may be a home directory.
    ///
    /// # Errors
    /// `Refused`, with what to do.
    pub fn find_or_current(self) -> Result<PathBuf, CommandFailure> {
        if let Some(root) = self.given() {
            return Ok(root);
        }
        let current = std::env::current_dir().context("the current directory does not exist any more")?;
        if let Some(root) = enclosing_root(&current) {
            return Ok(root);
        }
        let is_empty = std::fs::read_dir(&current).is_ok_and(|mut entries| entries.next().is_none());
        if is_empty || current.join(".git").exists() {
            return Ok(current);
        }
        if let Some(repository) = current.ancestors().find(|above| above.join(".git").exists()) {
            let (current, repository) = (current.display(), repository.display());
            let message = format!(
                "`{current}` is in the git repository `{repository}`; `svcfs init --root {repository}` sets up the \
                 whole repository, `svcfs init --root . --adopt` makes this directory a repository of its own, \
                 `svcfs init --root knowledge` creates a new knowledge base in it"
            );
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        }
        let message = format!(
            "`{}` has files and no git repository; `svcfs init --root .` sets it up with all its files, \
             `svcfs init --root knowledge` creates a new knowledge base in it",
            current.display()
        );
        Err(CommandFailure::saying(ExitStatus::Refused, message))
    }

    /// Whether `--root` is given.
    pub const fn is_given(&self) -> bool {
        self.root.is_some()
    }

    fn given(self) -> Option<PathBuf> {
        self.root.or_else(|| std::env::var_os(VARIABLE).filter(|root| !root.is_empty()).map(PathBuf::from))
    }
}

/// A root as messages call it: with the variable, if that names it.
pub fn shown(root: &Path) -> String {
    let of_variable = if is_of_environment(root) { format!(", which {VARIABLE} names,") } else { String::new() };
    format!("`{}`{of_variable}", root.display())
}

/// How another root is chosen than this one.
pub fn choice(root: &Path) -> String {
    if is_of_environment(root) { format!("correct or unset {VARIABLE}") } else { "give another with --root".to_owned() }
}

fn is_of_environment(root: &Path) -> bool {
    std::env::var_os(VARIABLE).is_some_and(|variable| Path::new(&variable) == root)
}

/// The root around a directory; in a mount, the root that is mounted.
fn enclosing_root(directory: &Path) -> Option<PathBuf> {
    let root = directory.ancestors().find(|above| above.join(".svc").is_dir())?;
    Some(svcfs_mount::mounted_root(root).unwrap_or_else(|| root.to_owned()))
}

/// Refuses a root that does not exist, so that a typo creates nothing.
///
/// # Errors
/// `Refused`, with what to do.
pub fn require_directory(root: &Path) -> Result<(), CommandFailure> {
    if root.symlink_metadata().is_ok() {
        return Ok(());
    }
    let message = format!(
        "root {} does not exist; create it with `svcfs init --root {}` or with --create, or {}",
        shown(root),
        root.display(),
        choice(root)
    );
    Err(CommandFailure::saying(ExitStatus::Refused, message))
}
