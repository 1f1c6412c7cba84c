//! Edits made behind the server.
//!
//! One rule: they are recorded and reported, never refused and never undone. Own writes are recognised by their content,
//! never by a time window.

mod sets;

use std::sync::mpsc::SyncSender;

use svcfs_base::{Actor, Durability, ETag, EventAnnouncement, Fault, FileKind, Protocol, Seq, TreePath};
use svcfs_store::{FailPoint, StatKind};
use tracing::{debug, warn};

use crate::Vfs;
use crate::apply::many_message;
use crate::core::VfsCore;
use crate::progress::{OpenProgress, ProgressReporter};
use crate::queue::{FileEffect, QueuedSet, SetReceipt, StateAfter, StateBefore};
use sets::AdoptionSets;

impl Vfs {
    /// Compares the tree on disk with what is recorded and records what differs, under the name `fswatch`; how many files differed.
    ///
    /// # Errors
    /// `Internal` when git cannot compare; `NoSpace`, `ReadOnly` when the log cannot take it.
    pub fn rescan(&self) -> Result<usize, Fault> {
        self.rescan_and_tell(&mut ProgressReporter::silent())
    }

    /// As [`Vfs::rescan`], for somebody who waits.
    pub(crate) fn rescan_and_tell(&self, reporter: &mut ProgressReporter) -> Result<usize, Fault> {
        self.core.sweep_refused();
        self.wait_committed()?;
        reporter.tell(OpenProgress::Comparing);
        let paths = self.core.memory.differences()?;
        let count = self.adopt_and_tell(&paths, reporter)?;
        if count < paths.len() {
            self.refresh_git_index(&paths);
        }
        Ok(count)
    }

    /// Where a file is as history has it and git says that it differs, `.git/index` is behind: somebody's lock kept it so until
    /// the server ended. What a person staged of other files is left alone.
    fn refresh_git_index(&self, paths: &[TreePath]) {
        let known = self.core.memory.current_states(&paths.iter().collect::<Vec<_>>());
        let recorded = known.and_then(|known| {
            let recorded = paths.iter().zip(known).filter(|(_, known)| known.is_some()).map(|(path, _)| path);
            self.core.refresh_index(recorded.collect::<Vec<_>>().into_iter()).map(drop)
        });
        if let Err(error) = recorded {
            debug!(%error, "`.git/index` could not be refreshed");
        }
    }

    /// Records what stands at these paths (and below those that are directories) where history has something else.
    ///
    /// # Errors
    /// As [`Vfs::rescan`].
    pub fn adopt(&self, paths: &[TreePath]) -> Result<usize, Fault> {
        self.adopt_and_tell(paths, &mut ProgressReporter::silent())
    }

    fn adopt_and_tell(&self, paths: &[TreePath], reporter: &mut ProgressReporter) -> Result<usize, Fault> {
        if paths.iter().any(|path| self.core.overlay.get(path).is_some()) {
            // An edit over our own write in this moment brings no second event.
            self.wait_applied()?;
        }
        let leaves = self.leaves_at(paths)?;
        let seen = self.core.log.last_seq();
        let uncommitted = self.core.uncommitted.at(&leaves);
        // What is recorded between this look and the submission is left out by the committer.
        let committed = self.core.memory.current_states(&leaves.iter().collect::<Vec<_>>())?;
        let recorded = uncommitted.into_iter().zip(committed).map(|(newer, committed)| newer.unwrap_or(committed));
        self.core.fail.hit(FailPoint::AdoptCompared);
        let mut sets = AdoptionSets::new(&self.core, reporter, (leaves.len(), seen));
        for (path, known) in leaves.iter().zip(recorded) {
            let held = self.core.locks.hold([path.clone()].into());
            let difference = self.difference(path, known)?;
            drop(held);
            sets.add(difference)?;
        }
        sets.finish()
    }

    /// The files these paths stand for: themselves, those below them on the disk, and those below them in history.
    fn leaves_at(&self, paths: &[TreePath]) -> Result<Vec<TreePath>, Fault> {
        let mut leaves = std::collections::BTreeSet::new();
        for path in paths {
            if !self.core.places.of(path).is_versioned() && !path.is_root() {
                continue;
            }
            leaves.extend(self.core.uncommitted.below(path, Seq(0)).into_iter().map(|(path, _)| path));
            match self.core.tree.stat(path) {
                Ok(stat) if stat.kind == StatKind::Directory => {
                    self.disk_leaves(path, &mut leaves)?;
                    leaves.extend(self.core.memory.list_states(path)?.into_iter().map(|(path, ..)| path));
                }
                Ok(_) => {
                    leaves.insert(path.clone());
                }
                Err(_) => {
                    leaves.insert(path.clone());
                    leaves.extend(self.core.memory.list_states(path)?.into_iter().map(|(path, ..)| path));
                }
            }
        }
        Ok(leaves.into_iter().filter(|path| self.core.places.of(path).is_versioned()).collect())
    }

    fn disk_leaves(
        &self,
        directory: &TreePath,
        leaves: &mut std::collections::BTreeSet<TreePath>,
    ) -> Result<(), Fault> {
        let entries = match self.core.tree.list(directory) {
            Ok(entries) => entries,
            Err(error) => {
                if !error.is_missing() {
                    warn!(page.path = %directory, %error, "a directory cannot be read; edits below it are not recorded");
                }
                return Ok(());
            }
        };
        for (name, stat) in entries {
            let path = directory.join(&name);
            if !self.core.places.of(&path).is_versioned() {
                continue;
            }
            match stat.kind {
                StatKind::Directory => self.disk_leaves(&path, leaves)?,
                StatKind::File | StatKind::Symlink => {
                    leaves.insert(path);
                }
                StatKind::Special(_) => {}
            }
        }
        Ok(())
    }

    /// What the tree has at a path where history has something else. A file too large for any version is nothing to history, as a pipe:
    /// what had versions there is gone. The path is held.
    fn difference(&self, path: &TreePath, known: Option<(ETag, FileKind)>) -> Result<Option<FileEffect>, Fault> {
        if self.core.overlay.get(path).is_some() || self.core.departures.lock().contains_key(path) {
            // Our own change is on its way; what follows it will be seen then.
            return Ok(None);
        }
        let present = match self.core.standing(path) {
            Ok(standing) => standing,
            Err(error) => {
                // One file nobody can read must not keep the others from being recorded.
                warn!(page.path = %path, %error, "an edit behind the server cannot be recorded");
                return Ok(None);
            }
        };
        let now = present.as_ref().map(|leaf| (leaf.etag, leaf.kind));
        if now == known || (known.is_none() && self.core.memory.is_ignored(path)?) {
            return Ok(None);
        }
        // An executable bit alone says nothing where the disk keeps none.
        let before = known.map(StateBefore::from);
        Ok(Some(FileEffect::new(path.clone(), before, present.map(StateAfter::Leaf))))
    }
}

/// A set of edits that are in the tree already, under the name of the watcher.
pub(crate) fn adopted(
    core: &VfsCore,
    effects: Vec<FileEffect>,
    answer: Option<SyncSender<Result<SetReceipt, Fault>>>,
) -> QueuedSet {
    let actor = Actor::new(Protocol::Direct.default_actor());
    QueuedSet {
        message: adoption_message(&actor, &effects),
        actor,
        protocol: Protocol::Direct,
        entrance: None,
        provenance: None,
        announcement: EventAnnouncement::Files,
        durability: if answer.is_some() { Durability::Now } else { Durability::Soon },
        stamp: core.stamp(),
        moves: Vec::new(),
        effects,
        spent: Vec::new(),
        is_adopted: true,
        seen: None,
        answer,
    }
}

/// The message of a commit of edits that are in the tree already.
pub(crate) fn adoption_message(actor: &Actor, effects: &[FileEffect]) -> String {
    match effects {
        [effect] if effect.after.is_none() => format!("delete: {}", effect.path),
        [effect] => format!("{actor}: {}", effect.path),
        _ => many_message(&format!("{actor}: {} files", effects.len()), effects.iter().map(|effect| &effect.path)),
    }
}

#[cfg(test)]
mod tests;
