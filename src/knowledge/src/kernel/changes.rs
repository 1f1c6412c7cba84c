//! The changes of a call: they are applied, or in a dry run only shown.
//!
//! Invariant: an operation with a dry run makes all its changes by [`OperationContext::apply`], so
//! that a dry run is refused as the operation would be and shows exactly its changes.

use parking_lot::Mutex;
use svcfs_base::{ApplyResult, Caller, ChangeSet, Fault};
use svcfs_vfs::PreviewedFile;

use super::OperationContext;

/// The member of an output with the changes that a dry run would make.
pub const DRY_RUN_KEY: &str = "dry_run";

/// The changes that a dry run would make; none if the call is no dry run.
#[derive(Debug, Default)]
pub(super) struct DryRun(Mutex<Option<Vec<PreviewedFile>>>);

impl OperationContext<'_> {
    /// Applies a change set: all or nothing. The changes of a caller that may only propose go into
    /// its draft.
    ///
    /// # Errors
    /// Those of [`svcfs_vfs::Vfs::apply`].
    pub fn apply(&self, set: impl Into<ChangeSet>) -> Result<ApplyResult, Fault> {
        self.apply_as(self.caller, set)
    }

    /// As [`apply`](Self::apply), for a variant of the caller.
    ///
    /// # Errors
    /// Those of [`svcfs_vfs::Vfs::apply`].
    pub fn apply_as(&self, caller: &Caller, set: impl Into<ChangeSet>) -> Result<ApplyResult, Fault> {
        let set = set.into();
        let reservation = self.space.agent_limits.reserve(self, caller, &set)?;
        let applied = match self.dry_run.0.lock().as_mut() {
            Some(files) => {
                drop(reservation);
                let preview = self.space.vfs.preview(caller, set)?;
                files.extend(preview.files);
                let (seq, notes) = (self.space.vfs.last_seq(), preview.notes);
                ApplyResult { seq, commit: None, files: preview.results, notes, draft: None }
            }
            None => {
                let applied = self.space.vfs.apply(caller, set)?;
                reservation.confirm();
                applied
            }
        };
        applied.notes.iter().for_each(|note| self.add_note(note.as_str()));
        if let Some(draft) = applied.draft {
            self.meta.draft(draft);
        }
        Ok(applied)
    }

    /// Runs a change without making it; returns its output and the files that it would change.
    ///
    /// # Errors
    /// Those of the change.
    pub(crate) fn dry_run<T>(
        &self,
        change: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<(T, Vec<PreviewedFile>), Fault> {
        *self.dry_run.0.lock() = Some(Vec::new());
        let output = change();
        let files = self.dry_run.0.lock().take().unwrap_or_default();
        Ok((output?, files))
    }
}
