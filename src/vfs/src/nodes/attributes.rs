//! What nodes have beside their content: size, permission bits, owner, times.

use std::time::SystemTime;

use svcfs_base::{Caller, Change, DiskAttributes, Fault, FileKind, Kind, Precondition, Protocol, TreePath};
use svcfs_store::OpenFile;
use tracing::debug;

use super::orphans::stands_in_for;
use super::table::DirtyBuffer;
use super::{NodeId, PRIVILEGES, SetAttributes};
use crate::Vfs;
use crate::core::EffectiveState;
use crate::view::{EntryKind, PathAttributes};

/// So many bytes are compared at once.
const COMPARED: usize = 256 << 10;

impl Vfs {
    /// Attributes, counting unpublished writes.
    ///
    /// # Errors
    /// `Stale` when the node is gone and nothing of it is open; `NotFound`.
    pub fn attributes(&self, node: NodeId) -> Result<PathAttributes, Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        let Some(staging) = &shared.staging else {
            if let Some(large) = &shared.large {
                let mut attributes = PathAttributes::from(large.stat()?);
                let told = shared.told.as_mut().and_then(|told| told.of(&attributes, false));
                attributes.changed = told.unwrap_or(attributes.changed);
                if self.nodes.path_of(node).is_err() {
                    // What took its name may not be in its place yet.
                    attributes.links = 0;
                }
                return Ok(attributes);
            }
            let path = match (self.nodes.path_of(node), &shared.kept) {
                (Err(_), Some(kept)) => return kept.attributes(),
                (path, _) => path?,
            };
            // Asked first: what is put in place in between is then taken for pending, which does no harm.
            let is_pending = self.core.overlay.get(&path).is_some();
            let mut attributes = match (self.stat_any(Protocol::Internal, &path), &shared.kept) {
                (Err(fault), Some(kept)) if stands_in_for(&fault) => return kept.attributes(),
                (attributes, _) => attributes?,
            };
            if attributes.kind == EntryKind::Directory {
                self.count_pending(&path, shared.names_changed, &mut attributes);
            }
            if let Some(told) = &mut shared.told {
                match told.of(&attributes, is_pending) {
                    Some(changed) => attributes.changed = changed,
                    None => shared.told = None,
                }
            }
            return Ok(attributes);
        };
        let standing = self.nodes.path_of(node).ok().and_then(|path| self.stat(Protocol::Internal, &path).ok());
        let before =
            standing.as_ref().map(|there| if staging.is_changed { there.mode & !PRIVILEGES } else { there.mode });
        let mode = staging.mode.or(before).unwrap_or(0o644);
        Ok(PathAttributes {
            kind: EntryKind::File,
            size: staging.body.length(),
            blocks: staging.body.blocks()?,
            mode,
            uid: staging.uid,
            gid: staging.gid,
            modified: staging.modified,
            changed: staging.changed,
            accessed: staging.accessed.or(standing.map(|there| there.accessed)).unwrap_or(staging.modified),
            links: u32::from(self.nodes.path_of(node).is_ok()),
        })
    }

    /// As on any disk: a directory whose names change was changed, also where the change is not in the tree yet.
    pub(super) fn count_pending(
        &self,
        directory: &TreePath,
        names: Option<SystemTime>,
        attributes: &mut PathAttributes,
    ) {
        let changed = self.core.overlay.changed(directory).max(names);
        attributes.modified = attributes.modified.max(changed.unwrap_or(attributes.modified));
        attributes.changed = attributes.changed.max(changed.unwrap_or(attributes.changed));
    }

    /// Changes attributes, and answers with the new ones. A new length is a write of the node; a new execute bit is a
    /// version; other permission bits, owners and times are the disk's alone.
    ///
    /// # Errors
    /// `TooLarge` where the disk has no such length, `IsDirectory` for a length of a directory, `Forbidden` when the disk refuses.
    pub fn set_attributes(&self, caller: &Caller, node: NodeId, set: SetAttributes) -> Result<PathAttributes, Fault> {
        if let Some(size) = set.size {
            self.resize(caller, (node, set.handle), size)?;
        }
        let shared = self.nodes.shared(node)?;
        {
            let mut shared = shared.lock();
            if let Some(staging) = &mut shared.staging {
                staging.mode = set.mode.map(|mode| mode & 0o7777).or(staging.mode);
                staging.modified = set.modified.unwrap_or(staging.modified);
                staging.accessed = set.accessed.or(staging.accessed);
                staging.changed = self.core.file_time();
                staging.uid = set.uid.unwrap_or(staging.uid);
                staging.gid = set.gid.unwrap_or(staging.gid);
                if staging.is_new || self.nodes.path_of(node).is_err() {
                    drop(shared);
                    return self.attributes(node);
                }
            }
        }
        if self.is_removed_directory(node)
            && let Some(now) = self.set_removed(node, &set)?
        {
            return Ok(now);
        }
        if set.mode.is_some()
            || set.uid.is_some()
            || set.gid.is_some()
            || set.modified.is_some()
            || set.accessed.is_some()
        {
            // Held from the look at the name to the last change: nobody gives the name to another file in between.
            let mut shared = shared.lock();
            self.set_on_disk(caller, &self.nodes.path_of(node)?, &set)?;
            (shared.told, shared.names_changed) = (None, None);
        }
        self.attributes(node)
    }

    /// Whether a file has these bytes already.
    pub(super) fn stands_at(&self, path: &TreePath, content: &[u8]) -> bool {
        // Mostly the size tells, and else the first of them.
        let is_as_long = |there: &PathAttributes| there.kind == EntryKind::File && there.size == content.len() as u64;
        self.stat(Protocol::Internal, path).is_ok_and(|there| is_as_long(&there))
            && match self.core.overlay.get(path) {
                Some(pending) => pending.leaf.is_some_and(|leaf| leaf.content == content),
                None => self.core.tree.open_to_read(path).is_ok_and(|file| has_only(&file, content)),
            }
    }

    /// Gives a file the times of a save that put nothing in place, because its bytes were there already: whoever compares times (make, cargo) was
    /// told of them. It loses its set-user-id bit as with any write. The save is accepted all the same where the disk refuses, as it does with files that the server does not own.
    pub(super) fn keep_time(&self, path: &TreePath, content: &[u8], staging: &DirtyBuffer) {
        if let Err(fault) = self.set_kept_time(path, content, staging) {
            debug!(page.path = %path, error = ?fault, "a save that changed nothing leaves the file the time it had");
        }
    }

    fn set_kept_time(&self, path: &TreePath, content: &[u8], staging: &DirtyBuffer) -> Result<(), Fault> {
        self.settle_at(path)?;
        let _held = self.core.locks.hold([path.clone()].into());
        let there = self.stat(Protocol::Internal, path)?;
        if self.core.overlay.get(path).is_some() || !self.stands_at(path, content) {
            return Ok(());
        }
        if there.mode & PRIVILEGES != 0 && staging.mode.is_none() {
            self.core.tree.set_mode(path, there.mode & !PRIVILEGES)?;
        }
        if there.modified != staging.modified {
            self.core.tree.set_times(path, staging.accessed, Some(staging.modified))?;
        }
        Ok(())
    }

    fn set_on_disk(&self, caller: &Caller, path: &TreePath, set: &SetAttributes) -> Result<(), Fault> {
        // What is installed later changes a file's attributes again, and a directory's times.
        if self.core.overlay.get(path).is_some() || !self.core.overlay.below(path).is_empty() {
            self.wait_applied()?;
        }
        if let Some(mode) = set.mode {
            self.set_mode(caller, path, mode)?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            self.core.tree.set_owner(path, set.uid, set.gid)?;
        }
        if set.modified.is_some() || set.accessed.is_some() {
            self.core.tree.set_times(path, set.accessed, set.modified)?;
        }
        Ok(())
    }

    fn set_mode(&self, caller: &Caller, path: &TreePath, mode: u32) -> Result<(), Fault> {
        while let EffectiveState::Leaf(leaf, _) = self.core.present(path)?
            && leaf.kind != FileKind::Symlink
        {
            let kind = if mode & 0o100 != 0 { FileKind::Executable } else { FileKind::Regular };
            if kind == leaf.kind {
                break;
            }
            let change = Change::Put {
                path: path.clone(),
                content: leaf.content,
                // A bit must not bring back what somebody else replaces in this moment.
                precondition: Precondition::OneOf(vec![leaf.etag]),
                kind: Some(kind),
                attributes: DiskAttributes { mode: Some(mode), ..leaf.disk },
            };
            match self.apply_held(caller, change.into()) {
                Err(fault) if fault.kind() == Kind::Conflict => {}
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        Ok(self.core.tree.set_mode(path, mode)?)
    }
}

/// Whether a file as long as that has these bytes.
fn has_only(file: &OpenFile, content: &[u8]) -> bool {
    let mut parts = (0..).step_by(COMPARED).zip(content.chunks(COMPARED));
    parts.all(|(at, part)| file.read_at(at, part.len()).is_ok_and(|there| there == part))
}
