//! What a change set would do.
//!
//! Invariant: a preview takes the steps of [`Vfs::apply`] up to the plan, so that it is refused as
//! the change set would be. It writes nothing and is no event.

use std::time::Duration;

use bytes::Bytes;
use svcfs_base::{Caller, Change, ChangeSet, Fault, Kind, TreePath, WriteResult};

use crate::Vfs;
use crate::apply::changed_paths;
use crate::core::EffectiveState;
use crate::plan::{ChangePlan, DirectChange};
use crate::queue::StateAfter;

const MAX_WAIT: Duration = Duration::from_secs(30);

/// What a change set would do.
#[derive(Debug, Default)]
pub struct ChangePreview {
    /// The files that would change, in the order of the set.
    pub files: Vec<PreviewedFile>,
    /// What [`Vfs::apply`] would return as the changed files.
    pub results: Vec<WriteResult>,
    /// Notes for the caller.
    pub notes: Vec<String>,
}

/// A file that a change set would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedFile {
    /// Its path after the change.
    pub path: TreePath,
    /// Its present path, if it would be renamed.
    pub former: Option<TreePath>,
    /// Whether it would exist.
    pub exists: bool,
    /// Its present content; none for a new file, and if only its name would change.
    pub before: Option<Bytes>,
    /// Its new content; none for a removed file, and if only its name would change.
    pub after: Option<Bytes>,
}

/// What would be at a changed path.
pub(crate) enum PreviewedState {
    Removed,
    /// The content of the former name, unchanged.
    Renamed,
    Content(Bytes),
}

impl Vfs {
    /// What [`Vfs::apply`] would do with these changes now.
    ///
    /// # Errors
    /// Those of [`Vfs::apply`], apart from those of the disk.
    pub fn preview(&self, caller: &Caller, set: impl Into<ChangeSet>) -> Result<ChangePreview, Fault> {
        let set = set.into();
        if caller.permissions.is_proposing() {
            return self.preview_proposal(caller, set);
        }
        self.check_no_unsaved(&set.changes)?;
        let set = self.resolve_put_links(caller, set)?;
        self.admit(caller, &set)?;
        if self.is_structural(&set) {
            let _tree = self.core.path_locks.lock_tree();
            self.core.wait_committed(MAX_WAIT)?;
            return self.preview_locked(caller, set, true);
        }
        let _held = self.core.path_locks.lock(changed_paths(&set));
        self.preview_locked(caller, set, false)
    }

    fn preview_locked(&self, caller: &Caller, set: ChangeSet, is_exclusive: bool) -> Result<ChangePreview, Fault> {
        let core = &self.core;
        core.must_await(set.durability)?;
        core.check_no_leases(caller, &set.changes)?;
        let notes = core.check_claims(caller, &set.changes)?;
        let renames = renames(&set.changes);
        let mut plan = ChangePlan::new(core, &self.gates, caller, is_exclusive);
        let planned = set.changes.into_iter().try_for_each(|change| plan.add(change));
        plan.restore_cancelled_removals();
        planned?;
        plan.drop_noops();
        let ChangePlan { effects, directs, files: results, .. } = plan;
        let mut changes: Vec<(TreePath, PreviewedState)> = Vec::with_capacity(effects.len());
        for effect in effects {
            let state = match effect.after {
                None => PreviewedState::Removed,
                Some(StateAfter::Leaf(leaf)) => PreviewedState::Content(leaf.content),
                Some(StateAfter::Blob(..)) => PreviewedState::Renamed,
            };
            changes.push((effect.path, state));
        }
        for direct in directs {
            changes.extend(self.preview_direct(direct)?);
        }
        let content_at = |path: &TreePath| match core.effective_state(path)? {
            EffectiveState::Leaf(leaf, _) => Ok(Some(leaf.content)),
            EffectiveState::Absent | EffectiveState::Directory | EffectiveState::Large(_) => Ok(None),
        };
        Ok(ChangePreview { files: previewed_files(changes, &renames, content_at)?, results, notes })
    }

    /// A change without a version; none if it changes no name and no content.
    fn preview_direct(&self, direct: DirectChange) -> Result<Option<(TreePath, PreviewedState)>, Fault> {
        Ok(match direct {
            DirectChange::Install(path, leaf) => Some((path, PreviewedState::Content(leaf.content))),
            DirectChange::Remove(path) => Some((path, PreviewedState::Removed)),
            DirectChange::Rename(_, to) => Some((to, PreviewedState::Renamed)),
            DirectChange::RemoveDirectory(path) => {
                if !self.core.tree.list(&path)?.is_empty() {
                    return Err(Fault::new(Kind::NotEmpty, format!("directory `{path}` is not empty")));
                }
                Some((path, PreviewedState::Removed))
            }
            DirectChange::Replace(..) | DirectChange::MakeDirectory(_) => None,
        })
    }
}

/// The old and new names of a set.
pub(crate) fn renames(changes: &[Change]) -> Vec<(TreePath, TreePath)> {
    let rename = |change: &Change| match change {
        Change::Move { from, to, .. } => Some((from.clone(), to.clone())),
        Change::Put { .. } | Change::Remove { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => None,
    };
    changes.iter().filter_map(rename).collect()
}

/// The changed files: a removal and a creation by a rename are one. `content_at` reads the present
/// content of a path.
pub(crate) fn previewed_files(
    changes: Vec<(TreePath, PreviewedState)>,
    renames: &[(TreePath, TreePath)],
    content_at: impl Fn(&TreePath) -> Result<Option<Bytes>, Fault>,
) -> Result<Vec<PreviewedFile>, Fault> {
    let mut files = Vec::with_capacity(changes.len());
    for (path, state) in changes {
        let former = renames.iter().find_map(|(from, to)| path.rebase(to, from));
        let file = match state {
            PreviewedState::Removed if renames.iter().any(|(from, _)| path.is_under(from)) => continue,
            PreviewedState::Removed => {
                PreviewedFile { before: content_at(&path)?, path, former: None, exists: false, after: None }
            }
            PreviewedState::Renamed => PreviewedFile { path, former, exists: true, before: None, after: None },
            PreviewedState::Content(after) => {
                // What a rename replaces is lost: it is shown instead of the former name's content.
                let replaced = if former.is_some() { content_at(&path)? } else { None };
                let before = match replaced {
                    Some(content) => Some(content),
                    None => content_at(former.as_ref().unwrap_or(&path))?,
                };
                let is_same = before.as_ref() == Some(&after);
                if is_same && former.is_none() {
                    continue;
                }
                let after = Some(after).filter(|_| !is_same);
                PreviewedFile { path, former, exists: true, before: before.filter(|_| !is_same), after }
            }
        };
        files.push(file);
    }
    Ok(files)
}
