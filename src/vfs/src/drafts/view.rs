//! Reading the tree as a draft shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use svcfs_base::{DraftDirectory, DraftPage, ETag, Fault, Kind, PathComponent, Protocol, TreePath};

use super::DraftView;
use crate::view::blocks_of;
use crate::{DirectoryEntry, EntryKind, FileView, PathAttributes};

impl DraftView<'_> {
    /// The content of a file, as [`crate::Vfs::read`].
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; those of the disk.
    pub fn read(&self, protocol: Protocol, path: &TreePath) -> Result<FileView, Fault> {
        let target = self.resolve(protocol, path)?;
        match self.page(&target) {
            Some(page) if page.etag.is_some() => {
                let content = self.contents(&target)?.content.ok_or_else(|| Fault::file_not_found(path))?;
                // It may be newer than the page that was just read.
                let attributes = self.attributes(&target, &DraftPage { size: content.len() as u64, ..page });
                Ok(FileView { etag: ETag::from_content(&content), content, attributes })
            }
            page => match self.draft_directory(protocol, (&target, page.is_some()))? {
                Some(true) => Err(Fault::is_directory(path)),
                Some(false) => Err(Fault::file_not_found(path)),
                None => self.vfs.read(protocol, path),
            },
        }
    }

    /// Attributes of a path, as [`crate::Vfs::stat`].
    ///
    /// # Errors
    /// `NotFound`; those of the disk.
    pub fn stat(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        let target = self.resolve(protocol, path)?;
        self.stat_resolved(protocol, path, &target)
    }

    /// As [`Self::stat`]; a link at the end of the path is not followed.
    pub(super) fn stat_entry(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        let target = match (path.parent(), PathComponent::parse(path.name())) {
            (Some(parent), Ok(name)) => self.resolve(protocol, &parent)?.join(&name),
            (None, _) | (_, Err(_)) => path.clone(),
        };
        self.stat_resolved(protocol, path, &target)
    }

    fn stat_resolved(&self, protocol: Protocol, path: &TreePath, target: &TreePath) -> Result<PathAttributes, Fault> {
        match self.page(target) {
            Some(page) if page.etag.is_some() => Ok(self.attributes(target, &page)),
            page => match self.draft_directory(protocol, (target, page.is_some()))? {
                Some(true) => Ok(self.directory_attributes(target)),
                Some(false) => Err(Fault::file_not_found(path)),
                None => self.vfs.stat(protocol, path),
            },
        }
    }

    /// The entries of a directory in name order, as [`crate::Vfs::list`]. A directory whose files
    /// the draft removes is left out, unless the protocol is a file protocol, which removes the
    /// directory itself.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; those of the disk.
    pub fn list(&self, protocol: Protocol, path: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        let target = self.resolve(protocol, path)?;
        let page = self.page(&target);
        if page.as_ref().is_some_and(|page| page.etag.is_some()) {
            return Err(Fault::not_directory(path));
        }
        if self.draft_directory(protocol, (&target, page.is_some()))? == Some(false) {
            return Err(Fault::file_not_found(path));
        }
        let entries = self.entries(protocol, &target)?;
        // With paths below the requested one.
        let renamed = |(entry, attributes): (TreePath, _)| DirectoryEntry {
            path: entry.rebase(&target, path).unwrap_or(entry),
            attributes,
        };
        Ok(entries.into_iter().map(renamed).collect())
    }

    /// The entries of a path that is a directory of the draft, or was one.
    fn entries(&self, protocol: Protocol, target: &TreePath) -> Result<BTreeMap<TreePath, PathAttributes>, Fault> {
        let listed = match self.vfs.list(protocol, target) {
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => {
                if !self.has_entries_below(target) && self.directory(target) != Some(DraftDirectory::Made) {
                    return Err(fault);
                }
                Vec::new()
            }
            outcome => outcome?,
        };
        let mut entries: BTreeMap<TreePath, PathAttributes> =
            listed.into_iter().map(|entry| (entry.path, entry.attributes)).collect();
        let is_directory = |attributes: &PathAttributes| attributes.kind == EntryKind::Directory;
        let mut emptied = BTreeSet::new();
        for (page_path, page) in below(&self.draft.pages.read(), target) {
            let Some(child) = child_of(target, page_path) else { continue };
            if !self.vfs.core.is_visible(protocol, &child) {
                continue;
            }
            match (child == *page_path, page.etag.is_some()) {
                (true, true) => drop(entries.insert(child.clone(), self.attributes(&child, page))),
                (true, false) if !entries.get(&child).is_some_and(is_directory) => drop(entries.remove(&child)),
                (true, false) => {}
                (false, true) if entries.get(&child).is_some_and(is_directory) => {}
                (false, true) => drop(entries.insert(child.clone(), self.directory_attributes(&child))),
                (false, false) if protocol.is_filesystem() => {}
                (false, false) => drop(emptied.insert(child)),
            }
        }
        for (path, directory) in below(&self.draft.directories.read(), target) {
            let Some(child) = child_of(target, path) else { continue };
            if !self.vfs.core.is_visible(protocol, &child) {
                continue;
            }
            match (directory, child == *path) {
                (DraftDirectory::Made, _) if entries.contains_key(&child) => {}
                (DraftDirectory::Made, _) => drop(entries.insert(child.clone(), self.directory_attributes(&child))),
                (DraftDirectory::Removed, true) => drop(emptied.insert(child)),
                (DraftDirectory::Removed, false) => {}
            }
        }
        for child in emptied {
            if entries.get(&child).is_some_and(is_directory)
                && !self.has_made_below(&child)
                && !self.has_files(protocol, &child)?
            {
                entries.remove(&child);
            }
        }
        Ok(entries)
    }

    /// All files below a directory, in path order; follows no links.
    ///
    /// # Errors
    /// Those of [`DraftView::list`].
    pub fn walk(&self, protocol: Protocol, below: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        let (mut files, mut pending) = (Vec::new(), vec![below.clone()]);
        while let Some(directory) = pending.pop() {
            for entry in self.list(protocol, &directory)? {
                match entry.attributes.kind {
                    EntryKind::Directory => pending.push(entry.path),
                    EntryKind::File | EntryKind::Symlink => files.push(entry),
                    EntryKind::Special(_) => {}
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// All directories below a directory and itself, as a file protocol sees them; parents first.
    pub(super) fn directories(&self, protocol: Protocol, below: &TreePath) -> Result<Vec<TreePath>, Fault> {
        let mut directories = vec![below.clone()];
        let mut next = 0;
        while let Some(directory) = directories.get(next) {
            let children = self.list(protocol, directory)?.into_iter();
            let children = children.filter(|entry| entry.attributes.kind == EntryKind::Directory);
            directories.extend(children.map(|entry| entry.path).collect::<Vec<_>>());
            next += 1;
        }
        Ok(directories)
    }

    /// Whether a directory has a file.
    fn has_files(&self, protocol: Protocol, directory: &TreePath) -> Result<bool, Fault> {
        let mut pending = vec![directory.clone()];
        while let Some(directory) = pending.pop() {
            let entries = match self.entries(protocol, &directory) {
                Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => continue,
                outcome => outcome?,
            };
            for (path, attributes) in entries {
                match attributes.kind {
                    EntryKind::Directory => pending.push(path),
                    EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => return Ok(true),
                }
            }
        }
        Ok(false)
    }

    /// Whether a path without a file of the draft is a directory of the draft; none if the tree
    /// decides. `is_removed`: the draft removes the file that the tree has there.
    fn draft_directory(
        &self,
        protocol: Protocol,
        (path, is_removed): (&TreePath, bool),
    ) -> Result<Option<bool>, Fault> {
        if self.is_below_page(path) {
            return Ok(Some(false));
        }
        let directory = self.directory(path);
        if directory == Some(DraftDirectory::Made) || self.has_entries_below(path) {
            return Ok(Some(true));
        }
        if directory == Some(DraftDirectory::Removed) {
            return Ok(Some(self.has_files(protocol, path)?));
        }
        Ok(is_removed.then_some(false))
    }

    /// The path that a path leads to; a page of the draft is no link. A client of the mount or of
    /// NFS resolves links itself.
    pub(super) fn resolve(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        if !self.vfs.core.is_visible(protocol, path) {
            return Err(Fault::file_not_found(path));
        }
        if matches!(protocol, Protocol::Fuse | Protocol::Nfs) || self.page(path).is_some() {
            Ok(path.clone())
        } else {
            self.vfs.resolve_links(protocol, path)
        }
    }

    pub(super) fn page(&self, path: &TreePath) -> Option<DraftPage> {
        self.draft.pages.read().get(path).cloned()
    }

    pub(super) fn directory(&self, path: &TreePath) -> Option<DraftDirectory> {
        self.draft.directories.read().get(path).copied()
    }

    /// Whether the draft has a page or a directory below a path.
    pub(super) fn has_entries_below(&self, path: &TreePath) -> bool {
        below(&self.draft.pages.read(), path).any(|(_, page)| page.etag.is_some()) || self.has_made_below(path)
    }

    fn has_made_below(&self, path: &TreePath) -> bool {
        below(&self.draft.directories.read(), path).any(|(_, directory)| *directory == DraftDirectory::Made)
    }

    /// Whether a page of the draft is where a directory above the path would be.
    pub(super) fn is_below_page(&self, path: &TreePath) -> bool {
        let pages = self.draft.pages.read();
        !pages.is_empty() && path.ancestors().any(|above| pages.get(&above).is_some_and(|page| page.etag.is_some()))
    }

    fn attributes(&self, path: &TreePath, page: &DraftPage) -> PathAttributes {
        let in_tree = self.vfs.stat(Protocol::Internal, path).ok().filter(|stat| stat.kind == EntryKind::File);
        let base = in_tree.unwrap_or_else(|| PathAttributes { mode: 0o644, ..self.new_directory(path) });
        let changed = page.changed_at.into();
        PathAttributes {
            kind: EntryKind::File,
            size: page.size,
            blocks: blocks_of(page.size),
            modified: changed,
            changed,
            accessed: changed,
            links: 1,
            ..base
        }
    }

    /// Attributes of a directory: those of the tree, and of one that only the draft has those of
    /// the directory above it.
    fn directory_attributes(&self, path: &TreePath) -> PathAttributes {
        let in_tree = self.vfs.stat(Protocol::Internal, path).ok();
        in_tree.filter(|stat| stat.kind == EntryKind::Directory).unwrap_or_else(|| self.new_directory(path))
    }

    fn new_directory(&self, path: &TreePath) -> PathAttributes {
        let created = self.draft.draft.created_at.into();
        let above = path.ancestors().find_map(|above| self.vfs.stat(Protocol::Internal, &above).ok());
        let (uid, gid) = above.map_or((0, 0), |stat| (stat.uid, stat.gid));
        PathAttributes {
            kind: EntryKind::Directory,
            size: 0,
            blocks: 0,
            mode: 0o755,
            uid,
            gid,
            modified: created,
            changed: created,
            accessed: created,
            links: 2,
        }
    }
}

/// The entries of a map by path that are below a directory.
pub(super) fn below<'m, T>(
    map: &'m BTreeMap<TreePath, T>,
    directory: &TreePath,
) -> impl Iterator<Item = (&'m TreePath, &'m T)> {
    let after = map.range((Bound::Excluded(directory.clone()), Bound::Unbounded));
    // Paths with this text in front are contiguous; `a.md` is between `a` and `a/b`.
    after
        .take_while(|(path, _)| path.as_str().starts_with(directory.as_str()))
        .filter(|(path, _)| path.is_under(directory))
}

/// The entry of a directory that a path is, or is below.
fn child_of(directory: &TreePath, path: &TreePath) -> Option<TreePath> {
    let depth = directory.components().count();
    let name = path.components().nth(depth)?;
    PathComponent::parse(name).ok().map(|name| directory.join(&name))
}
