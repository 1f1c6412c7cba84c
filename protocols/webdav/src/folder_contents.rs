//! The contents of a folder.

use std::collections::{BTreeMap, HashSet};

use svcfs_base::{Change, Fault, Kind, TreePath};
use svcfs_vfs::{EntryKind, PathAttributes};

use crate::context::WebdavRequestContext;
use crate::folders::remove_file;
use crate::resolved::ResolvedResource;

/// A folder and everything in it; or a single file.
#[derive(Default)]
pub(crate) struct FolderContents {
    /// Files and links, in path order.
    pub(crate) files: BTreeMap<TreePath, PathAttributes>,
    /// Those of them that were created through a mount and not saved yet.
    unsaved: Vec<TreePath>,
    /// Folders, parents first.
    pub(crate) folders: Vec<TreePath>,
    /// Pipes, sockets and devices: clients do not see them, and they move with their folder.
    specials: Vec<TreePath>,
}

impl FolderContents {
    /// Reads a resource.
    pub(crate) fn of(context: &WebdavRequestContext, resource: &ResolvedResource<'_>) -> Result<Self, Fault> {
        let mut contents = Self::default();
        if !resource.is_folder() {
            contents.files.insert(resource.path.clone(), resource.attributes.clone());
            return Ok(contents);
        }
        contents.folders.push(resource.path.clone());
        let mut next = 0;
        while let Some(path) = contents.folders.get(next).cloned() {
            next += 1;
            for (path, attributes) in ResolvedResource::at_no_follow(context, &path)?.all_entries(context)? {
                match attributes.kind {
                    EntryKind::Directory => contents.folders.push(path),
                    EntryKind::File | EntryKind::Symlink => {
                        if is_unsaved(context, &path)? {
                            contents.unsaved.push(path.clone());
                        }
                        contents.files.insert(path, attributes);
                    }
                    EntryKind::Special(_) => contents.specials.push(path),
                }
            }
        }
        Ok(contents)
    }

    /// The files with versions, which change sets can contain.
    pub(crate) fn versioned(&self) -> impl Iterator<Item = (&TreePath, &PathAttributes)> {
        self.files.iter().filter(|(path, attributes)| attributes.large_file().is_none() && !self.unsaved.contains(path))
    }

    /// The files without versions: too large ones, unsaved ones, pipes and similar.
    pub(crate) fn unversioned(&self) -> impl Iterator<Item = &TreePath> {
        let large = self.files.iter().filter(|(_, attributes)| attributes.large_file().is_some()).map(|(path, _)| path);
        large.chain(&self.unsaved).chain(&self.specials)
    }

    /// Bytes of the files with versions.
    pub(crate) fn versioned_bytes(&self) -> u64 {
        self.versioned().map(|(_, attributes)| attributes.size).sum()
    }

    /// Checks that everything in these folders can be removed, before anything is. Errors:
    /// `NotEmpty` for a file that is hidden, or whose name is invalid in the tree.
    pub(crate) fn check_removable(&self, context: &WebdavRequestContext) -> Result<(), Fault> {
        self.folders.iter().try_for_each(|folder| match context.space().vfs.find_hidden_entry(context.caller(), folder)? {
            Some(hidden) => {
                let hidden = svcfs_base::escape_unprintable(&hidden);
                let message = format!(
                    "directory `{folder}` contains `{hidden}`, which WebDAV cannot remove; nothing was removed; remove it on the server's disk"
                );
                Err(Fault::new(Kind::NotEmpty, message))
            }
            None => Ok(()),
        })
    }

    /// Whether the target of each item (`moved`) is free or of the same kind.
    pub(crate) fn can_replace(&self, existing: &Self, to_target: &dyn Fn(&TreePath) -> TreePath) -> bool {
        let (folders, specials): (HashSet<_>, HashSet<_>) =
            (existing.folders.iter().collect(), existing.specials.iter().collect());
        let is_not_folder = |path: &TreePath| existing.files.contains_key(path) || specials.contains(path);
        let is_not_file = |path: &TreePath| folders.contains(path) || specials.contains(path);
        !self.folders.iter().map(to_target).any(|path| is_not_folder(&path))
            && !self.files.keys().chain(&self.specials).map(to_target).any(|path| is_not_file(&path))
    }

    /// Excludes the items that others will replace at their target (`moved`).
    pub(crate) fn exclude(&mut self, incoming: &Self, to_target: &dyn Fn(&TreePath) -> TreePath) {
        for path in incoming.files.keys().chain(&incoming.specials).map(to_target) {
            self.files.remove(&path);
            self.unsaved.retain(|unsaved| *unsaved != path);
        }
        let incoming_folders: HashSet<TreePath> = incoming.folders.iter().map(to_target).collect();
        self.folders.retain(|folder| !incoming_folders.contains(folder));
    }

    /// Creates these folders at their target, where they are missing.
    pub(crate) fn create_folders(
        &self,
        context: &WebdavRequestContext,
        to_target: &dyn Fn(&TreePath) -> TreePath,
    ) -> Result<(), Fault> {
        for path in self.folders.iter().map(to_target) {
            match context.space().vfs.apply(context.caller(), Change::MakeDir { path }) {
                Err(fault) if fault.kind() == Kind::Exists => {}
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    /// Removes the files without versions, and the folders. Errors: `NotEmpty` when a file is added
    /// concurrently.
    pub(crate) fn remove_unversioned(&self, context: &WebdavRequestContext) -> Result<(), Fault> {
        let (vfs, caller) = (&context.space().vfs, context.caller());
        for path in self.unversioned() {
            let resource = ResolvedResource::at_no_follow(context, path)?;
            if self.specials.contains(path) {
                let folder = ResolvedResource::parent_of(context, path)?;
                vfs.unlink(caller, folder.node(context)?, &resource.name()?)?;
            } else {
                remove_file(context, &resource)?;
            }
        }
        for folder in self.folders.iter().rev() {
            vfs.apply(caller, Change::RemoveDir { path: folder.clone() })?;
        }
        Ok(())
    }
}

fn is_unsaved(context: &WebdavRequestContext, path: &TreePath) -> Result<bool, Fault> {
    match context.tree().stat_entry(context.caller().protocol, path) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(true),
        outcome => outcome.map(|_| false),
    }
}
