//! Orphans: unlinked files and directories, which open handles continue to use as on any disk.
//!
//! Invariant: the file is preserved before its name is removed, while the path is locked. Also
//! without open handles: the kernel may have looked up the name and be about to open it.

use bytes::Bytes;
use svcfs_base::{Change, ETag, Fault, FileKind, Kind, MAX_FILE_BYTES, Protocol, TreePath};
use svcfs_store::OpenFile;

use super::body::{DirtyBody, MAX_VERSIONED_BYTES};
use super::table::{DirtyBuffer, LockedNodes, SharedNode};
use super::{NodeId, PRIVILEGES, SetAttributes};
use crate::Vfs;
use crate::view::{EntryKind, PathAttributes};

/// An unlinked file or directory.
#[derive(Debug)]
pub(crate) enum OrphanNode {
    /// A file that was not on disk yet.
    Bytes(Bytes, PathAttributes),
    /// A file on disk, held open; the disk frees it when it is closed.
    File(OpenFile),
    /// A directory; it stays empty.
    Directory(PathAttributes),
}

impl OrphanNode {
    /// Its attributes; the link count is 0.
    pub(crate) fn attributes(&self) -> Result<PathAttributes, Fault> {
        let attributes = match self {
            Self::Bytes(_, attributes) | Self::Directory(attributes) => attributes.clone(),
            Self::File(file) => file.stat()?.into(),
        };
        Ok(PathAttributes { links: 0, ..attributes })
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match self {
            Self::Bytes(bytes, _) => Ok(bytes.slice(super::body::clamped_range(bytes, offset, length as u64))),
            Self::File(file) => Ok(file.read_at(offset, length)?),
            Self::Directory(_) => Err(Fault::new(Kind::IsDirectory, "a removed directory has no content")),
        }
    }

    /// A dirty buffer with this content, or empty if that does not matter.
    pub(crate) fn to_dirty(&self, is_based: bool) -> Result<DirtyBuffer, Fault> {
        let attributes = self.attributes()?;
        let content = if is_based { Some(self.read(0, MAX_FILE_BYTES)?) } else { None };
        Ok(DirtyBuffer {
            base: content.as_ref().map(|content| ETag::from_content(content)),
            body: content.map_or_else(DirtyBody::empty, DirtyBody::from),
            mode: Some(attributes.mode),
            ..DirtyBuffer::from_attributes(&attributes)
        })
    }
}

/// Whether an orphan answers instead of this fault.
pub(super) fn is_orphan_fallback(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::NotFound | Kind::Stale)
}

impl Vfs {
    /// Preserves files with open handles that another protocol's change set removes. A replaced
    /// page counts as changed, not as removed.
    pub(crate) fn preserve_removed(&self, changes: &[Change]) -> Result<(), Fault> {
        for change in changes {
            let removed_path = match change {
                Change::RemoveDir { path } => {
                    self.preserve_directory(path)?;
                    continue;
                }
                Change::Remove { path, .. } => path,
                Change::Move { from, .. } => from,
                Change::Put { .. } | Change::MakeDir { .. } => continue,
            };
            for (path, shared) in self.nodes.open_below(removed_path) {
                shared.lock().preserve_unlinked(self, &path)?;
            }
        }
        Ok(())
    }

    fn preserve_directory(&self, path: &TreePath) -> Result<(), Fault> {
        let shared = self.nodes.at(path).and_then(|node| self.nodes.shared(node).ok());
        shared.map_or(Ok(()), |shared| shared.lock().preserve_unlinked(self, path))
    }

    /// Sets attributes of a removed directory; only its open handles see them.
    pub(super) fn set_orphan_attributes(
        &self,
        node: NodeId,
        set: &SetAttributes,
    ) -> Result<Option<PathAttributes>, Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        let Some(orphan @ OrphanNode::Directory(_)) = &mut shared.orphan else { return Ok(None) };
        if let OrphanNode::Directory(now) = orphan {
            now.mode = set.mode.map_or(now.mode, |mode| mode & 0o7777);
            now.uid = set.uid.unwrap_or(now.uid);
            now.gid = set.gid.unwrap_or(now.gid);
            now.modified = set.modified.unwrap_or(now.modified);
            now.accessed = set.accessed.unwrap_or(now.accessed);
            now.changed = self.core.file_time();
        }
        orphan.attributes().map(Some)
    }

    /// Whether a node is a removed directory; its name may belong to another by now.
    pub(super) fn is_removed_directory(&self, node: NodeId) -> bool {
        let is_orphan = |shared: &SharedNode| matches!(shared.orphan, Some(OrphanNode::Directory(_)));
        let is_missing = |path: TreePath| {
            self.stat_any(Protocol::Internal, &path).is_err_and(|fault| fault.kind() == Kind::NotFound)
        };
        self.nodes.shared(node).is_ok_and(|shared| is_orphan(&shared.lock()))
            && self.nodes.path_of(node).map_or(true, is_missing)
    }
}

impl Vfs {
    /// Locks open files that a change set renames to free names; their handles will follow.
    pub(crate) fn lock_renamed(&self, changes: &[Change]) -> (Vec<(TreePath, TreePath)>, LockedNodes<'_>) {
        let mut renames = Vec::new();
        for change in changes {
            if let Change::Move { from, to, .. } = change
                && !self.nodes.open_below(from).is_empty()
                && self.stat_any(Protocol::Internal, to).is_err_and(|fault| fault.kind() == Kind::NotFound)
            {
                renames.push((from.clone(), to.clone()));
            }
        }
        let paths: Vec<&TreePath> = renames.iter().flat_map(|(from, to)| [from, to]).collect();
        let mut locked = self.nodes.lock_subtrees(&paths);
        // A file being created there will be saved.
        renames
            .retain(|(_, to)| locked.at(to).is_none_or(|shared| shared.dirty.is_none() && shared.detached.is_none()));
        (renames, locked)
    }

    /// Moves handles to the new names of their files.
    pub(crate) fn follow_renames(&self, renames: &[(TreePath, TreePath)], locked: &mut LockedNodes<'_>) {
        for (from, to) in renames {
            self.nodes.rename(from, to);
        }
        for (node, shared) in locked.all() {
            if self.nodes.path_of(node).is_ok_and(|path| renames.iter().any(|(_, to)| path.is_under(to))) {
                shared.drop_orphan(self.nodes.is_open(node));
            }
        }
    }
}

impl SharedNode {
    /// Preserves the file at the node's path before it is unlinked, if it is clean.
    pub(super) fn preserve_unlinked(&mut self, vfs: &Vfs, path: &TreePath) -> Result<(), Fault> {
        if let Some(dirty) = &mut self.dirty
            && dirty.mode.is_none()
            && let Ok(current) = vfs.stat(Protocol::Internal, path)
        {
            dirty.mode = Some(current.mode & if dirty.is_changed { !PRIVILEGES } else { 0o7777 });
        }
        if self.dirty.is_some() || self.large.is_some() {
            return Ok(());
        }
        if let Some(pending) = vfs.core.overlay.get(path) {
            if let Some(leaf) = pending.leaf.filter(|leaf| leaf.kind != FileKind::Symlink) {
                self.orphan = Some(OrphanNode::Bytes(leaf.content, vfs.stat(Protocol::Internal, path)?));
            }
            return Ok(());
        }
        let attributes = vfs.stat_any(Protocol::Internal, path);
        match attributes {
            Ok(PathAttributes { kind: EntryKind::File, size, .. }) if size > MAX_VERSIONED_BYTES => {
                self.large = Some(vfs.core.tree.open_to_write(path)?);
            }
            Ok(PathAttributes { kind: EntryKind::File, .. }) => {
                self.orphan = Some(OrphanNode::File(vfs.core.tree.open_to_read(path)?));
            }
            Ok(current) if current.kind == EntryKind::Directory => {
                self.orphan = Some(OrphanNode::Directory(PathAttributes { changed: vfs.core.file_time(), ..current }));
            }
            Ok(_) => {}
            Err(fault) if is_orphan_fallback(&fault) => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    pub(super) fn drop_orphan(&mut self, is_open: bool) {
        self.orphan = None;
        if !is_open {
            self.large = None;
        }
    }
}
