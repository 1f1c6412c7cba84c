//! Backups: copies of a git repository elsewhere, their check, and the way back.
//!
//! Invariant: a backup never overwrites what others wrote. Branches are pushed without force, and
//! commits of others are merged in a clone and taken over like a `git pull`. A backup counts only
//! when it was read back: a push by `git ls-remote`, a bundle by its SHA-256.

#![warn(missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the files of a backup are not those of the tree")]

mod bundles;
mod drill;
mod error;
mod git;
mod local_refs;
mod merge;
mod push;
mod record;
mod restore;
mod run;
mod state_files;
mod stores;
mod target;
#[cfg(test)]
mod tests;

pub use drill::{DrillReport, drill};
pub use error::BackupError;
pub use git::{RunContext, interrupt, is_interrupted};
pub use record::BackupRecord;
pub use restore::{RestoreReport, restore};
pub use run::{BackupOutcome, EmptyRemote, is_up_to_date, run};
