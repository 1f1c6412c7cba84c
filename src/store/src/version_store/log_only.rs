//! The current state of each path from the rows of the log, for spaces without git.
//!
//! Invariant: queries see logged and staged sets together; a staged set is visible to its own batch
//! only.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_base::{ETag, FileKind, Seq, Timestamp, TreePath};

use super::{PathState, VersionResult};
use crate::{FailPoint, FailPoints, FileEdit, Log, PathRules, StoreError};

/// Path states read from the rows of a log.
pub struct LogOnlyState {
    log: Arc<Log>,
    rules: PathRules,
    staged: Mutex<StagedState>,
    /// The newest timestamp that identifies a set.
    newest: Mutex<Option<Timestamp>>,
    fail: FailPoints,
}

/// Path states of sets that are not logged yet.
#[derive(Default)]
struct StagedState {
    /// By path: positions and states, oldest first.
    states: BTreeMap<TreePath, Vec<(Seq, PathState)>>,
    newest: Seq,
}

impl StagedState {
    fn get(&self, path: &TreePath, at: Seq) -> Option<PathState> {
        self.states.get(path)?.iter().rev().find(|(seq, _)| *seq <= at).map(|(_, state)| *state)
    }

    /// Drops what was staged after a position: those sets were refused.
    fn rewind(&mut self, at: Seq) {
        if self.newest > at {
            self.states.retain(|_, states| {
                states.retain(|(seq, _)| *seq <= at);
                !states.is_empty()
            });
            self.newest = at;
        }
    }
}

impl LogOnlyState {
    pub(super) fn open(root: &Path, log: Arc<Log>) -> VersionResult<Self> {
        let newest = log.last_timestamp()?;
        Ok(Self {
            log,
            rules: PathRules::new(root),
            staged: Mutex::default(),
            newest: Mutex::new(newest),
            fail: FailPoints::new(root),
        })
    }

    /// A timestamp later than all earlier ones, and not before `now`.
    pub(super) fn next_timestamp(&self, now: Timestamp) -> Timestamp {
        let mut newest = self.newest.lock();
        let earliest = newest.and_then(|newest| Timestamp::from_nanosecond(newest.as_nanosecond() + 1).ok());
        let timestamp = earliest.map_or(now, |earliest| earliest.max(now));
        *newest = Some(timestamp);
        timestamp
    }

    pub(super) fn current_states(&self, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        self.log.states_at(paths, Seq(u64::MAX))
    }

    pub(super) fn list_states(&self, path: &TreePath) -> VersionResult<Vec<(TreePath, ETag, FileKind)>> {
        self.log.list_states(path)
    }

    pub(super) fn states_at(&self, at: Seq, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        self.log.states_at(paths, at)
    }

    pub(super) fn staged_states(&self, at: Seq, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        let mut states = self.log.states_at(paths, at)?;
        let staged = self.staged.lock();
        for (state, path) in states.iter_mut().zip(paths) {
            *state = staged.get(path, at).unwrap_or(*state);
        }
        Ok(states)
    }

    /// Stages a set after `at`.
    pub(super) fn stage(&self, at: Seq, edits: &[FileEdit<'_>]) -> VersionResult<()> {
        self.fail.check(FailPoint::StageCommit)?;
        let seq = at.next();
        {
            let mut staged = self.staged.lock();
            staged.rewind(at);
            staged.newest = seq;
            for edit in edits {
                let state = match edit {
                    FileEdit::Write { kind, content, .. } => Some((ETag::from_content(content), *kind)),
                    FileEdit::Reuse { kind, blob, .. } => Some((*blob, *kind)),
                    FileEdit::Remove { .. } => None,
                };
                staged.states.entry(edit.path().clone()).or_default().push((seq, state));
            }
        }
        let checked = edits.iter().try_for_each(|edit| self.check_type_conflicts(seq, edit));
        if checked.is_err() {
            self.staged.lock().rewind(at);
        }
        checked
    }

    /// A file and a directory cannot have the same name: what the tree cannot install must not be
    /// logged.
    fn check_type_conflicts(&self, at: Seq, edit: &FileEdit<'_>) -> VersionResult<()> {
        let path = match edit {
            FileEdit::Write { path, .. } | FileEdit::Reuse { path, .. } => *path,
            FileEdit::Remove { .. } => return Ok(()),
        };
        let conflict = |reason: &str| Err(StoreError::Unrecordable { path: path.clone(), reason: reason.to_owned() });
        let above: Vec<_> = path.ancestors().filter(|above| !above.is_root() && above != path).collect();
        if self.staged_states(at, &above.iter().collect::<Vec<_>>())?.iter().any(Option::is_some) {
            return conflict("a directory above it is a file");
        }
        let logged = self.log.list_states(path)?.into_iter().map(|(below, ..)| below);
        let mut below: Vec<_> = logged.filter(|below| below != path).collect();
        {
            let staged = self.staged.lock();
            let staged_below =
                staged.states.range(path..).take_while(|(other, _)| other.as_str().starts_with(path.as_str()));
            below.extend(
                staged_below.map(|(other, _)| other).filter(|other| *other != path && other.is_under(path)).cloned(),
            );
        }
        if self.staged_states(at, &below.iter().collect::<Vec<_>>())?.iter().any(Option::is_some) {
            return conflict("a directory has the same name");
        }
        Ok(())
    }

    pub(super) fn clear_staged(&self) {
        *self.staged.lock() = StagedState::default();
    }

    pub(super) const fn rules(&self) -> &PathRules {
        &self.rules
    }
}
