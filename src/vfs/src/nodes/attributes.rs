//! Attributes of nodes: size, permission bits, owner, times.

use std::time::SystemTime;

use svcfs_base::{Caller, Change, DiskAttributes, Fault, FileKind, Kind, Precondition, Protocol, TreePath};
use svcfs_store::OpenFile;
use tracing::debug;

use super::orphans::is_orphan_fallback;
use super::table::DirtyBuffer;
use super::{NodeId, PRIVILEGES, SetAttributes};
use crate::Vfs;
use crate::core::EffectiveState;
use crate::view::{EntryKind, PathAttributes};

const COMPARE_BLOCK_BYTES: usize = 256 << 10;

impl Vfs {
    /// Attributes, including dirty ones.
    ///
    /// # Errors
    /// `Stale` when the node is unlinked and not open; `NotFound`.
    pub fn attributes(&self, node: NodeId) -> Result<PathAttributes, Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        let Some(dirty) = &shared.dirty else {
            if let Some(large) = &shared.large {
                let mut attributes = PathAttributes::from(large.stat()?);
                let ctime = shared.reported_times.as_mut().and_then(|times| times.reported_ctime(&attributes, false));
                attributes.changed = ctime.unwrap_or(attributes.changed);
                if self.nodes.path_of(node).is_err() {
                    // A file that replaced it may not be installed yet.
                    attributes.links = 0;
                }
                return Ok(attributes);
            }
            let path = match (self.nodes.path_of(node), &shared.orphan) {
                (Err(_), Some(orphan)) => return orphan.attributes(),
                (path, _) => path?,
            };
            // Read first: a change installed in between then counts as pending, which is harmless.
            let is_pending = self.core.overlay.get(&path).is_some();
            let mut attributes = match (self.stat_any(Protocol::Internal, &path), &shared.orphan) {
                (Err(fault), Some(orphan)) if is_orphan_fallback(&fault) => return orphan.attributes(),
                (attributes, _) => attributes?,
            };
            if attributes.kind == EntryKind::Directory {
                self.merge_pending_times(&path, shared.names_changed, &mut attributes);
            }
            if let Some(times) = &mut shared.reported_times {
                match times.reported_ctime(&attributes, is_pending) {
                    Some(changed) => attributes.changed = changed,
                    None => shared.reported_times = None,
                }
            }
            return Ok(attributes);
        };
        let published = self.nodes.path_of(node).ok().and_then(|path| self.stat(Protocol::Internal, &path).ok());
        let inherited = published
            .as_ref()
            .map(|published| if dirty.is_changed { published.mode & !PRIVILEGES } else { published.mode });
        let mode = dirty.mode.or(inherited).unwrap_or(0o644);
        Ok(PathAttributes {
            kind: EntryKind::File,
            size: dirty.body.length(),
            blocks: dirty.body.blocks()?,
            mode,
            uid: dirty.uid,
            gid: dirty.gid,
            modified: dirty.modified,
            changed: dirty.changed,
            accessed: dirty.accessed.or(published.map(|published| published.accessed)).unwrap_or(dirty.modified),
            links: u32::from(self.nodes.path_of(node).is_ok()),
        })
    }

    /// A pending change of names also changes the directory's times.
    pub(super) fn merge_pending_times(
        &self,
        directory: &TreePath,
        names_changed: Option<SystemTime>,
        attributes: &mut PathAttributes,
    ) {
        let changed = self.core.overlay.names_changed(directory).max(names_changed);
        attributes.modified = attributes.modified.max(changed.unwrap_or(attributes.modified));
        attributes.changed = attributes.changed.max(changed.unwrap_or(attributes.changed));
    }

    /// Sets attributes and returns the new ones. A new size is a write of the node; a new execute
    /// bit is a version; other permission bits, owners and times are only on disk.
    ///
    /// # Errors
    /// `TooLarge` beyond the maximum size, `IsDirectory` for a directory's size, `Forbidden` by the
    /// disk.
    pub fn set_attributes(&self, caller: &Caller, node: NodeId, set: SetAttributes) -> Result<PathAttributes, Fault> {
        self.check_writes_tree(caller)?;
        if let Some(size) = set.size {
            self.resize(caller, (node, set.handle), size)?;
        }
        let shared = self.nodes.shared(node)?;
        {
            let mut shared = shared.lock();
            if let Some(dirty) = &mut shared.dirty {
                dirty.mode = set.mode.map(|mode| mode & 0o7777).or(dirty.mode);
                dirty.modified = set.modified.unwrap_or(dirty.modified);
                dirty.accessed = set.accessed.or(dirty.accessed);
                dirty.changed = self.core.file_time();
                dirty.uid = set.uid.unwrap_or(dirty.uid);
                dirty.gid = set.gid.unwrap_or(dirty.gid);
                if dirty.is_new || self.nodes.path_of(node).is_err() {
                    drop(shared);
                    return self.attributes(node);
                }
            }
        }
        if self.is_removed_directory(node)
            && let Some(now) = self.set_orphan_attributes(node, &set)?
        {
            return Ok(now);
        }
        if set.mode.is_some()
            || set.uid.is_some()
            || set.gid.is_some()
            || set.modified.is_some()
            || set.accessed.is_some()
        {
            // Locked until the last change, so that the name cannot move to another file.
            let mut shared = shared.lock();
            self.set_on_disk(caller, &self.nodes.path_of(node)?, &set)?;
            (shared.reported_times, shared.names_changed) = (None, None);
        }
        self.attributes(node)
    }

    pub(super) fn has_content_at(&self, path: &TreePath, content: &[u8]) -> bool {
        // Usually the sizes differ, or the first block.
        let is_as_long =
            |published: &PathAttributes| published.kind == EntryKind::File && published.size == content.len() as u64;
        self.stat(Protocol::Internal, path).is_ok_and(|published| is_as_long(&published))
            && match self.core.overlay.get(path) {
                Some(pending) => pending.leaf.is_some_and(|leaf| leaf.content == content),
                None => self.core.tree.open_to_read(path).is_ok_and(|file| has_bytes(&file, content)),
            }
    }

    /// Applies the times of a save that did not change the content: tools that compare times (make,
    /// cargo) saw them. Clears set-id bits as any write does. Best-effort: the disk refuses it for
    /// files of other owners.
    pub(super) fn keep_saved_times(&self, path: &TreePath, content: &[u8], dirty: &DirtyBuffer) {
        if let Err(fault) = self.apply_saved_times(path, content, dirty) {
            debug!(page.path = %path, error = ?fault, "cannot set the times of a save that changed no content");
        }
    }

    fn apply_saved_times(&self, path: &TreePath, content: &[u8], dirty: &DirtyBuffer) -> Result<(), Fault> {
        self.wait_applied_at(path)?;
        let _locked = self.core.path_locks.lock([path.clone()].into());
        let published = self.stat(Protocol::Internal, path)?;
        if self.core.overlay.get(path).is_some() || !self.has_content_at(path, content) {
            return Ok(());
        }
        if published.mode & PRIVILEGES != 0 && dirty.mode.is_none() {
            self.core.tree.set_mode(path, published.mode & !PRIVILEGES)?;
        }
        if published.modified != dirty.modified {
            self.core.tree.set_times(path, dirty.accessed, Some(dirty.modified))?;
        }
        Ok(())
    }

    fn set_on_disk(&self, caller: &Caller, path: &TreePath, set: &SetAttributes) -> Result<(), Fault> {
        // A later install would change the attributes again.
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
        while let EffectiveState::Leaf(leaf, _) = self.core.effective_state(path)?
            && leaf.kind != FileKind::Symlink
        {
            let kind = if mode & 0o100 != 0 { FileKind::Executable } else { FileKind::Regular };
            if kind == leaf.kind {
                break;
            }
            let change = Change::Put {
                path: path.clone(),
                content: leaf.content,
                // Must not restore content that another writer replaces now.
                precondition: Precondition::OneOf(vec![leaf.etag]),
                kind: Some(kind),
                attributes: DiskAttributes { mode: Some(mode), ..leaf.disk },
            };
            match self.apply_locked(caller, change.into()) {
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

fn has_bytes(file: &OpenFile, content: &[u8]) -> bool {
    let mut parts = (0..).step_by(COMPARE_BLOCK_BYTES).zip(content.chunks(COMPARE_BLOCK_BYTES));
    parts.all(|(at, part)| file.read_at(at, part.len()).is_ok_and(|published| published == part))
}
