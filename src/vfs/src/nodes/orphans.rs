//! Files and directories whose name is gone: whoever has them goes on with what they opened, as on any disk.
//!
//! One rule: whoever takes a name away keeps what stood there first, while nobody can change it. Not only for handles: the kernel may have
//! found the name a moment ago, and is about to open the file it found.

use bytes::Bytes;
use svcfs_base::{Change, ETag, Fault, FileKind, Kind, MAX_FILE_BYTES, Protocol, TreePath};
use svcfs_store::OpenFile;

use super::body::{DirtyBody, RECORDED};
use super::table::{DirtyBuffer, LockedNodes, SharedNode};
use super::{NodeId, PRIVILEGES, SetAttributes};
use crate::Vfs;
use crate::view::{EntryKind, PathAttributes};

/// What a file had when its name went.
#[derive(Debug)]
pub(crate) enum OrphanNode {
    /// A file that had not come to the disk yet.
    Bytes(Bytes, PathAttributes),
    /// One that was there. The disk lets go of it when we do.
    File(OpenFile),
    /// A directory: nothing is in it, and nothing comes into it any more.
    Directory(PathAttributes),
}

impl OrphanNode {
    /// What `stat` says of it: among others that it has no name.
    pub(crate) fn attributes(&self) -> Result<PathAttributes, Fault> {
        let attributes = match self {
            Self::Bytes(_, attributes) | Self::Directory(attributes) => attributes.clone(),
            Self::File(file) => file.stat()?.into(),
        };
        Ok(PathAttributes { links: 0, ..attributes })
    }

    /// Bytes at an offset; fewer at the end.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match self {
            Self::Bytes(bytes, _) => Ok(bytes.slice(super::body::part(bytes, offset, length as u64))),
            Self::File(file) => Ok(file.read_at(offset, length)?),
            Self::Directory(_) => Err(Fault::new(Kind::IsDirectory, "a directory that was removed has no bytes")),
        }
    }

    /// Unpublished bytes that begin as this; as nothing when the present content does not matter.
    pub(crate) fn staged(&self, is_based: bool) -> Result<DirtyBuffer, Fault> {
        let attributes = self.attributes()?;
        let content = if is_based { Some(self.read(0, MAX_FILE_BYTES)?) } else { None };
        Ok(DirtyBuffer {
            base: content.as_ref().map(|content| ETag::from_content(content)),
            body: content.map_or_else(DirtyBody::empty, DirtyBody::from),
            mode: Some(attributes.mode),
            ..DirtyBuffer::of(&attributes)
        })
    }
}

/// Whether what is kept answers in place of this refusal.
pub(super) fn stands_in_for(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::NotFound | Kind::Stale)
}

impl Vfs {
    /// Keeps what open handles have of the files that a set of another door takes away. A page that takes the place of another there is one that
    /// is gone here.
    pub(crate) fn keep_what_goes(&self, changes: &[Change]) -> Result<(), Fault> {
        for change in changes {
            let gone = match change {
                Change::RemoveDir { path } => {
                    self.keep_directory(path)?;
                    continue;
                }
                Change::Remove { path, .. } => path,
                Change::Move { from, .. } => from,
                Change::Put { .. } | Change::MakeDir { .. } => continue,
            };
            for (path, shared) in self.nodes.opened_below(gone) {
                shared.lock().keep(self, &path)?;
            }
        }
        Ok(())
    }

    /// Keeps what a directory is that is about to be removed, for whoever works in it.
    fn keep_directory(&self, path: &TreePath) -> Result<(), Fault> {
        let shared = self.nodes.at(path).and_then(|node| self.nodes.shared(node).ok());
        shared.map_or(Ok(()), |shared| shared.lock().keep(self, path))
    }

    /// Sets attributes of a directory that was removed; they are nobody's but of those who work in it.
    pub(super) fn set_removed(&self, node: NodeId, set: &SetAttributes) -> Result<Option<PathAttributes>, Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        let Some(kept @ OrphanNode::Directory(_)) = &mut shared.kept else { return Ok(None) };
        if let OrphanNode::Directory(now) = kept {
            now.mode = set.mode.map_or(now.mode, |mode| mode & 0o7777);
            now.uid = set.uid.unwrap_or(now.uid);
            now.gid = set.gid.unwrap_or(now.gid);
            now.modified = set.modified.unwrap_or(now.modified);
            now.accessed = set.accessed.unwrap_or(now.accessed);
            now.changed = self.core.file_time();
        }
        kept.attributes().map(Some)
    }

    /// Whether a node is a directory that was removed: its name may be another's by now.
    pub(super) fn is_removed_directory(&self, node: NodeId) -> bool {
        let is_kept = |shared: &SharedNode| matches!(shared.kept, Some(OrphanNode::Directory(_)));
        let is_gone = |path: TreePath| {
            self.stat_any(Protocol::Internal, &path).is_err_and(|fault| fault.kind() == Kind::NotFound)
        };
        self.nodes.shared(node).is_ok_and(|shared| is_kept(&shared.lock()))
            && self.nodes.path_of(node).map_or(true, is_gone)
    }
}

impl Vfs {
    /// What a set of another door renames to names that are free, where that is open here; held until the handles can follow.
    pub(crate) fn hold_renamed(&self, changes: &[Change]) -> (Vec<(TreePath, TreePath)>, LockedNodes<'_>) {
        let mut renames = Vec::new();
        for change in changes {
            if let Change::Move { from, to, .. } = change
                && !self.nodes.opened_below(from).is_empty()
                && self.stat_any(Protocol::Internal, to).is_err_and(|fault| fault.kind() == Kind::NotFound)
            {
                renames.push((from.clone(), to.clone()));
            }
        }
        let paths: Vec<&TreePath> = renames.iter().flat_map(|(from, to)| [from, to]).collect();
        let mut held = self.nodes.hold(&paths);
        // Whoever is making a file there saves it yet.
        renames.retain(|(_, to)| held.at(to).is_none_or(|shared| shared.staging.is_none() && shared.aside.is_none()));
        (renames, held)
    }

    /// Handles go on under the names that their files have now.
    pub(crate) fn follow_renames(&self, renames: &[(TreePath, TreePath)], held: &mut LockedNodes<'_>) {
        for (from, to) in renames {
            self.nodes.rename(from, to);
        }
        for (node, shared) in held.all() {
            if self.nodes.path_of(node).is_ok_and(|path| renames.iter().any(|(_, to)| path.is_under(to))) {
                shared.unkeep(self.nodes.is_open(node));
            }
        }
    }
}

impl SharedNode {
    /// Keeps what stands at the node's path, which is about to lose it; the handles of a file with unpublished bytes have those.
    pub(super) fn keep(&mut self, vfs: &Vfs, path: &TreePath) -> Result<(), Fault> {
        if let Some(staging) = &mut self.staging
            && staging.mode.is_none()
            && let Ok(there) = vfs.stat(Protocol::Internal, path)
        {
            staging.mode = Some(there.mode & if staging.is_changed { !PRIVILEGES } else { 0o7777 });
        }
        if self.staging.is_some() || self.large.is_some() {
            return Ok(());
        }
        if let Some(pending) = vfs.core.overlay.get(path) {
            if let Some(leaf) = pending.leaf.filter(|leaf| leaf.kind != FileKind::Symlink) {
                self.kept = Some(OrphanNode::Bytes(leaf.content, vfs.stat(Protocol::Internal, path)?));
            }
            return Ok(());
        }
        let stood = vfs.stat_any(Protocol::Internal, path);
        match stood {
            Ok(PathAttributes { kind: EntryKind::File, size, .. }) if size > RECORDED => {
                self.large = Some(vfs.core.tree.open_to_write(path)?);
            }
            Ok(PathAttributes { kind: EntryKind::File, .. }) => {
                self.kept = Some(OrphanNode::File(vfs.core.tree.open_to_read(path)?));
            }
            Ok(there) if there.kind == EntryKind::Directory => {
                self.kept = Some(OrphanNode::Directory(PathAttributes { changed: vfs.core.file_time(), ..there }));
            }
            // What else there is has no content; and what is not there cannot go.
            Ok(_) => {}
            Err(fault) if stands_in_for(&fault) => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Forgets what was kept, when the name has stayed.
    pub(super) fn unkeep(&mut self, is_open: bool) {
        self.kept = None;
        if !is_open {
            self.large = None;
        }
    }
}
