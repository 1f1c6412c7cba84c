//! Adoption: recording external edits.
//!
//! Invariant: they are recorded and reported, never refused and never undone. Own writes are
//! recognised by their content, never by a time window.

mod sets;

use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use svcfs_base::{Actor, Durability, ETag, EventAnnouncement, Fault, FileKind, Protocol, Seq, TreePath};
use svcfs_store::{FailPoint, PathRules, StatKind, direct_provenance};
use tracing::{debug, warn};

use crate::Vfs;
use crate::apply::many_message;
use crate::core::VfsCore;
use crate::progress::{OpenProgress, ProgressReporter};
use crate::queue::{FileEffect, QueuedSet, SetReceipt, StateAfter, StateBefore};
use sets::AdoptionSets;

impl Vfs {
    /// Compares the tree on disk with history and records differences; returns their number.
    ///
    /// # Errors
    /// `Internal` when git cannot compare; `NoSpace`, `ReadOnly` when the log cannot take it.
    pub fn rescan(&self) -> Result<usize, Fault> {
        self.rescan_with_progress(&mut ProgressReporter::silent())
    }

    /// As [`Vfs::rescan`], with progress reports.
    pub(crate) fn rescan_with_progress(&self, reporter: &mut ProgressReporter) -> Result<usize, Fault> {
        self.core.sweep_rejected();
        self.wait_committed()?;
        reporter.report(OpenProgress::Comparing);
        let paths = self.core.versions.differences()?;
        let count = self.adopt_with_progress(&paths, reporter)?;
        if count < paths.len() {
            self.refresh_git_index(&paths);
        }
        Ok(count)
    }

    /// A file that equals history but differs for git has an outdated entry in `.git/index`: a lock
    /// kept it from being refreshed before the server stopped. Staged entries of other files stay.
    fn refresh_git_index(&self, paths: &[TreePath]) {
        let states = self.core.versions.current_states(&paths.iter().collect::<Vec<_>>());
        let outcome = states.and_then(|states| {
            let recorded = paths.iter().zip(states).filter(|(_, state)| state.is_some()).map(|(path, _)| path);
            self.core.refresh_index(recorded.collect::<Vec<_>>().into_iter()).map(drop)
        });
        if let Err(error) = outcome {
            debug!(%error, "`.git/index` could not be refreshed");
        }
    }

    /// Records differences from history at these paths, and below those that are directories.
    ///
    /// # Errors
    /// As [`Vfs::rescan`].
    pub fn adopt(&self, paths: &[TreePath]) -> Result<usize, Fault> {
        self.adopt_with_progress(paths, &mut ProgressReporter::silent())
    }

    fn adopt_with_progress(&self, paths: &[TreePath], reporter: &mut ProgressReporter) -> Result<usize, Fault> {
        if paths.iter().any(|path| self.core.overlay.get(path).is_some()) {
            // An edit that follows a pending own write causes no second event.
            self.wait_applied()?;
        }
        let leaves = self.leaves_at(paths)?;
        let scanned_at = self.core.log.last_seq();
        let uncommitted = self.core.uncommitted.states_at(&leaves);
        // The committer drops effects that are recorded meanwhile.
        let committed = self.core.versions.current_states(&leaves.iter().collect::<Vec<_>>())?;
        let recorded = uncommitted.into_iter().zip(committed).map(|(newer, committed)| newer.unwrap_or(committed));
        self.core.fail_points.hit(FailPoint::AdoptCompared);
        let mut changed_rules = Vec::new();
        let mut sets = AdoptionSets::new(&self.core, reporter, (leaves.len(), scanned_at));
        for (path, recorded) in leaves.iter().zip(recorded) {
            let lock = self.core.path_locks.lock([path.clone()].into());
            let difference = self.difference(path, recorded)?;
            drop(lock);
            if difference.is_some() && PathRules::is_rule_file(path) {
                changed_rules.push(path.clone());
            }
            sets.add(difference)?;
        }
        let count = sets.finish()?;
        self.core.follow_rules(changed_rules.iter());
        Ok(count)
    }

    /// The files that these paths cover: themselves, and those below them on disk and in history.
    fn leaves_at(&self, paths: &[TreePath]) -> Result<Vec<TreePath>, Fault> {
        let mut leaves = std::collections::BTreeSet::new();
        for path in paths {
            if !self.core.is_versioned(path) && !path.is_root() {
                continue;
            }
            leaves.extend(self.core.uncommitted.below(path, Seq(0)).into_iter().map(|(path, _)| path));
            match self.core.tree.stat(path) {
                Ok(stat) if stat.kind == StatKind::Directory => {
                    self.disk_leaves(path, &mut leaves);
                    leaves.extend(self.core.versions.list_states(path)?.into_iter().map(|(path, ..)| path));
                }
                Ok(_) => {
                    leaves.insert(path.clone());
                }
                Err(_) => {
                    leaves.insert(path.clone());
                    leaves.extend(self.core.versions.list_states(path)?.into_iter().map(|(path, ..)| path));
                }
            }
        }
        Ok(leaves.into_iter().filter(|path| self.core.is_versioned(path)).collect())
    }

    fn disk_leaves(&self, directory: &TreePath, leaves: &mut std::collections::BTreeSet<TreePath>) {
        // Without recursion: a path may have 2,000 levels.
        let mut pending = vec![directory.clone()];
        while let Some(directory) = pending.pop() {
            let entries = match self.core.tree.list(&directory) {
                Ok(entries) => entries,
                Err(error) => {
                    if !error.is_missing() {
                        warn!(page.path = %directory, %error, "cannot read a directory; edits below it are not recorded");
                    }
                    continue;
                }
            };
            for (name, stat) in entries {
                let path = directory.join(&name);
                if !self.core.is_versioned(&path) {
                    continue;
                }
                match stat.kind {
                    StatKind::Directory => pending.push(path),
                    StatKind::File | StatKind::Symlink => {
                        leaves.insert(path);
                    }
                    StatKind::Special(_) => {}
                }
            }
        }
    }

    /// The difference between tree and history at a locked path. Large unversioned files count as
    /// absent.
    fn difference(&self, path: &TreePath, recorded: Option<(ETag, FileKind)>) -> Result<Option<FileEffect>, Fault> {
        if self.core.overlay.get(path).is_some() || self.core.pending_removals.lock().contains_key(path) {
            // A change of svcfs is pending; later edits are found after it.
            return Ok(None);
        }
        if recorded.is_none() && self.core.is_left_untracked(path) {
            return Ok(None);
        }
        let present = match self.core.read_worktree(path) {
            Ok(leaf) => leaf,
            Err(error) => {
                // One unreadable file must not prevent recording the others.
                warn!(page.path = %path, %error, "an external edit cannot be recorded");
                return Ok(None);
            }
        };
        let now = present.as_ref().map(|leaf| (leaf.etag, leaf.kind));
        if now == recorded {
            return Ok(None);
        }
        if let Some(leaf) = &present
            && let Err(error) = self.core.versions.recorded_form(path, (leaf.kind, &leaf.content))
        {
            warn!(page.path = %path, %error, "an external edit cannot be recorded; the file is on the disk only");
            return Ok(None);
        }
        // On filesystems without executable bits, those are ignored.
        let before = recorded.map(StateBefore::from);
        Ok(Some(FileEffect::new(path.clone(), before, present.map(StateAfter::Leaf))))
    }
}

/// Distinguishes external edits in git's history from writes by the same person.
pub const EXTERNAL_EDIT_TRAILER: &str = "Svc-Source: direct-edit";

/// A set of external edits, by the person who commits in the repository: nothing says who edits
/// files in the root.
pub(crate) fn adoption_set(
    core: &VfsCore,
    effects: Vec<FileEffect>,
    answer: Option<SyncSender<Result<SetReceipt, Fault>>>,
) -> QueuedSet {
    let identity = core.versions.git().and_then(|history| history.rules().identity());
    let provenance = identity.as_ref().map(|identity| direct_provenance(&identity.email));
    let actor = identity.map_or_else(|| Actor::new(Protocol::Direct.default_actor()), |identity| identity.name);
    QueuedSet {
        message: adoption_message(core, &actor, &effects),
        actor,
        protocol: Protocol::Direct,
        origin_id: None,
        provenance,
        request: None,
        announcement: EventAnnouncement::Files,
        durability: if answer.is_some() { Durability::Now } else { Durability::Soon },
        ticket: core.next_ticket(),
        moves: Vec::new(),
        effects,
        consumed_scratch: Vec::new(),
        is_adopted: true,
        scanned_at: None,
        answer,
    }
}

pub(crate) fn adoption_message(core: &VfsCore, actor: &Actor, effects: &[FileEffect]) -> String {
    let paths = || effects.iter().map(|effect| &effect.path);
    let message = match effects {
        _ if core.is_first_scan.load(Ordering::Relaxed) => {
            let count = effects.len();
            many_message(
                &format!("adopt {count} {} found at setup", if count == 1 { "file" } else { "files" }),
                paths(),
            )
        }
        [effect] if effect.after.is_none() => format!("delete: {}", effect.path),
        [effect] => format!("{actor}: {}", effect.path),
        _ => many_message(&format!("{actor}: {} files", effects.len()), paths()),
    };
    match core.versions.git() {
        Some(_) => with_source(&message),
        None => message,
    }
}

/// A commit message with the trailer of external edits.
pub(crate) fn with_source(message: &str) -> String {
    format!("{message}\n\n{EXTERNAL_EDIT_TRAILER}")
}

#[cfg(test)]
mod tests;
