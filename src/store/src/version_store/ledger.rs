//! What stands where, by the log's own rows: what git's newest tree says where there is git.
//!
//! One rule: what the log says and what is made ready for it are asked as one; nobody sees a set that was not logged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use git2::{Odb, Repository};
use parking_lot::Mutex;
use svcfs_base::{ETag, FileKind, Seq, Timestamp, TreePath};

use super::{PathState, VersionResult};
use crate::{FailPoint, FailPoints, FileEdit, Log, StoreError};

/// The rows of a log as a memory.
pub struct LogOnlyState {
    log: Arc<Log>,
    /// Without objects and without a folder of its own: only git's rules of which names are ignored.
    rules: Mutex<Repository>,
    staged: Mutex<StagedState>,
    /// The newest moment that names a set.
    newest: Mutex<Option<Timestamp>>,
    fail: FailPoints,
}

/// What sets that are not logged yet make of paths.
#[derive(Default)]
struct StagedState {
    /// By path, and by the position their set will have, oldest first.
    states: BTreeMap<TreePath, Vec<(Seq, PathState)>>,
    newest: Seq,
}

impl StagedState {
    fn get(&self, path: &TreePath, at: Seq) -> Option<PathState> {
        self.states.get(path)?.iter().rev().find(|(seq, _)| *seq <= at).map(|(_, state)| *state)
    }

    /// Forgets what was made ready after a position: those sets were refused.
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
        let rules = Repository::from_odb(Odb::new()?)?;
        rules.set_workdir(root, false)?;
        let newest = log.last_timestamp()?;
        Ok(Self {
            log,
            rules: Mutex::new(rules),
            staged: Mutex::default(),
            newest: Mutex::new(newest),
            fail: FailPoints::new(root),
        })
    }

    /// A moment later than all that were given before, and not before `now`.
    pub(super) fn moment(&self, now: Timestamp) -> Timestamp {
        let mut newest = self.newest.lock();
        let least = newest.and_then(|newest| Timestamp::from_nanosecond(newest.as_nanosecond() + 1).ok());
        let moment = least.map_or(now, |least| least.max(now));
        *newest = Some(moment);
        moment
    }

    pub(super) fn recorded(&self, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        self.log.states_at(paths, Seq(u64::MAX))
    }

    pub(super) fn recorded_below(&self, path: &TreePath) -> VersionResult<Vec<(TreePath, ETag, FileKind)>> {
        self.log.list_states(path)
    }

    pub(super) fn settled(&self, at: Seq, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        self.log.states_at(paths, at)
    }

    pub(super) fn staged(&self, at: Seq, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        let mut states = self.log.states_at(paths, at)?;
        let staged = self.staged.lock();
        for (state, path) in states.iter_mut().zip(paths) {
            *state = staged.get(path, at).unwrap_or(*state);
        }
        Ok(states)
    }

    /// Makes a set after `at` ready.
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
        let checked = edits.iter().try_for_each(|edit| self.must_have_room(seq, edit));
        if checked.is_err() {
            self.staged.lock().rewind(at);
        }
        checked
    }

    /// A file and a directory cannot have one name: what the tree can never take must not be logged.
    fn must_have_room(&self, at: Seq, edit: &FileEdit<'_>) -> VersionResult<()> {
        let path = match edit {
            FileEdit::Write { path, .. } | FileEdit::Reuse { path, .. } => *path,
            FileEdit::Remove { .. } => return Ok(()),
        };
        let refused = |reason: &str| Err(StoreError::Unrecordable { path: path.clone(), reason: reason.to_owned() });
        let above: Vec<_> = path.ancestors().filter(|above| !above.is_root() && above != path).collect();
        if self.staged(at, &above.iter().collect::<Vec<_>>())?.iter().any(Option::is_some) {
            return refused("a file stands where a directory must be");
        }
        let known = self.log.list_states(path)?.into_iter().map(|(below, ..)| below);
        let mut below: Vec<_> = known.filter(|below| below != path).collect();
        {
            let staged = self.staged.lock();
            let ready = staged.states.range(path..).take_while(|(other, _)| other.as_str().starts_with(path.as_str()));
            below.extend(ready.map(|(other, _)| other).filter(|other| *other != path && other.is_under(path)).cloned());
        }
        if self.staged(at, &below.iter().collect::<Vec<_>>())?.iter().any(Option::is_some) {
            return refused("a directory stands where the file must be");
        }
        Ok(())
    }

    pub(super) fn forget_staged(&self) {
        *self.staged.lock() = StagedState::default();
    }

    pub(super) fn is_ignored(&self, path: &TreePath) -> VersionResult<bool> {
        Ok(self.rules.lock().is_path_ignored(Path::new(path.as_str()))?)
    }
}
