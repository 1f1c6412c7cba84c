//! Reading the tree as a draft shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use svcfs_base::{DraftPage, ETag, Fault, Kind, PathComponent, Protocol, TreePath};

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
            Some(_) if self.has_pages_below(&target) => Err(Fault::is_directory(path)),
            Some(_) => Err(Fault::file_not_found(path)),
            None if self.is_below_page(&target) => Err(Fault::file_not_found(path)),
            None => self.vfs.read(protocol, path).map_err(|fault| match fault.kind() {
                Kind::NotFound if self.has_pages_below(&target) => Fault::is_directory(path),
                _ => fault,
            }),
        }
    }

    /// Attributes of a path, as [`crate::Vfs::stat`].
    ///
    /// # Errors
    /// `NotFound`; those of the disk.
    pub fn stat(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        let target = self.resolve(protocol, path)?;
        match self.page(&target) {
            Some(page) if page.etag.is_some() => Ok(self.attributes(&target, &page)),
            Some(_) if self.has_pages_below(&target) => Ok(self.new_directory(&target)),
            Some(_) => Err(Fault::file_not_found(path)),
            None if self.is_below_page(&target) => Err(Fault::file_not_found(path)),
            None => match self.vfs.stat(protocol, path) {
                Err(fault) if fault.kind() == Kind::NotFound && self.has_pages_below(&target) => {
                    Ok(self.new_directory(&target))
                }
                outcome => outcome,
            },
        }
    }

    /// The entries of a directory in name order, as [`crate::Vfs::list`]. A directory whose files
    /// the draft removes is left out.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; those of the disk.
    pub fn list(&self, protocol: Protocol, path: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        let target = self.resolve(protocol, path)?;
        if self.page(&target).is_some_and(|page| page.etag.is_some()) {
            return Err(Fault::not_directory(path));
        }
        if self.is_below_page(&target) {
            return Err(Fault::file_not_found(path));
        }
        let below = self.pages_below(&target);
        let is_new = || below.iter().any(|(_, page)| page.etag.is_some());
        let listed = match self.vfs.list(protocol, &target) {
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) && is_new() => Vec::new(),
            outcome => outcome?,
        };
        let mut entries: BTreeMap<TreePath, PathAttributes> =
            listed.into_iter().map(|entry| (entry.path, entry.attributes)).collect();
        let mut emptied = BTreeSet::new();
        for (page_path, page) in below {
            let Some(child) = child_of(&target, &page_path) else { continue };
            if !self.vfs.core.is_visible(protocol, &child) {
                continue;
            }
            let is_directory = |attributes: &PathAttributes| attributes.kind == EntryKind::Directory;
            match (child == page_path, page.etag.is_some()) {
                (true, true) => drop(entries.insert(child.clone(), self.attributes(&child, &page))),
                (true, false) if !entries.get(&child).is_some_and(is_directory) => drop(entries.remove(&child)),
                (true, false) => {}
                (false, true) if entries.get(&child).is_some_and(is_directory) => {}
                (false, true) => drop(entries.insert(child.clone(), self.new_directory(&child))),
                (false, false) => drop(emptied.insert(child)),
            }
        }
        for child in emptied {
            if entries.get(&child).is_some_and(|entry| entry.kind == EntryKind::Directory)
                && !self.has_files(protocol, &child)?
            {
                entries.remove(&child);
            }
        }
        // With paths below the requested one.
        let renamed = |(entry, attributes): (TreePath, _)| DirectoryEntry {
            path: entry.rebase(&target, path).unwrap_or(entry),
            attributes,
        };
        Ok(entries.into_iter().map(renamed).collect())
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

    /// Whether a directory has a file.
    fn has_files(&self, protocol: Protocol, directory: &TreePath) -> Result<bool, Fault> {
        let mut pending = vec![directory.clone()];
        while let Some(directory) = pending.pop() {
            for entry in self.list(protocol, &directory)? {
                match entry.attributes.kind {
                    EntryKind::Directory => pending.push(entry.path),
                    EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => return Ok(true),
                }
            }
        }
        Ok(false)
    }

    /// The path that a path leads to; a page of the draft is no link.
    pub(super) fn resolve(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        if !self.vfs.core.is_visible(protocol, path) {
            return Err(Fault::file_not_found(path));
        }
        if self.page(path).is_some() { Ok(path.clone()) } else { self.vfs.resolve_links(protocol, path) }
    }

    pub(super) fn page(&self, path: &TreePath) -> Option<DraftPage> {
        self.draft.pages.read().get(path).cloned()
    }

    fn pages_below(&self, path: &TreePath) -> Vec<(TreePath, DraftPage)> {
        let pages = self.draft.pages.read();
        let after = pages.range((Bound::Excluded(path.clone()), Bound::Unbounded));
        // Paths with this text in front are contiguous; `a.md` is between `a` and `a/b`.
        let below = after.take_while(|(page, _)| page.as_str().starts_with(path.as_str()));
        let below = below.filter(|(page, _)| page.is_under(path));
        below.map(|(path, page)| (path.clone(), page.clone())).collect()
    }

    pub(super) fn has_pages_below(&self, path: &TreePath) -> bool {
        self.pages_below(path).iter().any(|(_, page)| page.etag.is_some())
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

    /// Attributes of a directory that only the draft has: those of the directory above it.
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

/// The entry of a directory that a path is, or is below.
fn child_of(directory: &TreePath, path: &TreePath) -> Option<TreePath> {
    let depth = directory.components().count();
    let name = path.components().nth(depth)?;
    PathComponent::parse(name).ok().map(|name| directory.join(&name))
}
