//! Everything in a folder.

use std::collections::{BTreeMap, HashSet};

use svcfs_base::{Change, Fault, Kind, TreePath};
use svcfs_vfs::{EntryKind, PathAttributes};

use crate::context::WebdavRequestContext;
use crate::folders::remove_file;
use crate::resolved::ResolvedResource;

/// Everything in a folder, and the folder; of a file that alone.
#[derive(Default)]
pub(crate) struct FolderContents {
    /// Files and links, in path order.
    pub(crate) files: BTreeMap<TreePath, PathAttributes>,
    /// Those of them that somebody made through a mount and has not saved yet.
    unsaved: Vec<TreePath>,
    /// Folders, each after the one it lies in.
    pub(crate) folders: Vec<TreePath>,
    /// Pipes, sockets and devices: no client sees them, and they go with the folder they lie in.
    specials: Vec<TreePath>,
}

impl FolderContents {
    /// Of what was found.
    ///
    /// # Errors
    /// Those of looking.
    pub(crate) fn of(asked: &WebdavRequestContext, found: &ResolvedResource<'_>) -> Result<Self, Fault> {
        let mut contents = Self::default();
        if !found.is_folder() {
            contents.files.insert(found.path.clone(), found.attributes.clone());
            return Ok(contents);
        }
        contents.folders.push(found.path.clone());
        let mut next = 0;
        while let Some(path) = contents.folders.get(next).cloned() {
            next += 1;
            for (path, attributes) in ResolvedResource::itself(asked, &path)?.all_entries(asked)? {
                match attributes.kind {
                    EntryKind::Directory => contents.folders.push(path),
                    EntryKind::File | EntryKind::Symlink => {
                        if is_unsaved(asked, &path)? {
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

    /// What changes of history are made of: all files but those that no version has.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (&TreePath, &PathAttributes)> {
        self.files.iter().filter(|(path, attributes)| attributes.large_file().is_none() && !self.unsaved.contains(path))
    }

    /// What no version has: files too large for one, those that are not saved yet, pipes and their like.
    pub(crate) fn unrecorded(&self) -> impl Iterator<Item = &TreePath> {
        let large = self.files.iter().filter(|(_, attributes)| attributes.large_file().is_some()).map(|(path, _)| path);
        large.chain(&self.unsaved).chain(&self.specials)
    }

    /// Bytes of what has versions.
    pub(crate) fn bytes(&self) -> u64 {
        self.recorded().map(|(_, attributes)| attributes.size).sum()
    }

    /// Checks that everything in these folders can be removed, before anything is.
    ///
    /// # Errors
    /// `NotEmpty` for what is hidden, or has a name that no tree has.
    pub(crate) fn check_removable(&self, asked: &WebdavRequestContext) -> Result<(), Fault> {
        self.folders.iter().try_for_each(|folder| match asked.space().vfs.find_hidden_entry(asked.caller(), folder)? {
            Some(unseen) => {
                let unseen = svcfs_base::escape_unprintable(&unseen);
                let told = format!(
                    "directory `{folder}` holds `{unseen}`, which cannot be removed from here; nothing was removed; remove it on the server's disk"
                );
                Err(Fault::new(Kind::NotEmpty, told))
            }
            None => Ok(()),
        })
    }

    /// Whether each thing comes, as it is `moved`, to a place that is free or has another of its kind.
    pub(crate) fn fits_in_place_of(&self, there: &Self, moved: &dyn Fn(&TreePath) -> TreePath) -> bool {
        let (folders, specials): (HashSet<_>, HashSet<_>) =
            (there.folders.iter().collect(), there.specials.iter().collect());
        let is_no_folder = |path: &TreePath| there.files.contains_key(path) || specials.contains(path);
        let is_no_file = |path: &TreePath| folders.contains(path) || specials.contains(path);
        !self.folders.iter().map(moved).any(|path| is_no_folder(&path))
            && !self.files.keys().chain(&self.specials).map(moved).any(|path| is_no_file(&path))
    }

    /// Leaves out what others take the place of, as they are `moved`.
    pub(crate) fn leave_out(&mut self, others: &Self, moved: &dyn Fn(&TreePath) -> TreePath) {
        for path in others.files.keys().chain(&others.specials).map(moved) {
            self.files.remove(&path);
            self.unsaved.retain(|unsaved| *unsaved != path);
        }
        let come: HashSet<TreePath> = others.folders.iter().map(moved).collect();
        self.folders.retain(|folder| !come.contains(folder));
    }

    /// Makes folders such as these, where there are none.
    ///
    /// # Errors
    /// Those of the write path.
    pub(crate) fn make_folders(
        &self,
        asked: &WebdavRequestContext,
        moved: &dyn Fn(&TreePath) -> TreePath,
    ) -> Result<(), Fault> {
        for path in self.folders.iter().map(moved) {
            match asked.space().vfs.apply(asked.caller(), Change::MakeDir { path }) {
                Err(fault) if fault.kind() == Kind::Exists => {}
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    /// Removes what no version has, and the folders.
    ///
    /// # Errors
    /// `NotEmpty` when somebody puts something there meanwhile; those of the write path.
    pub(crate) fn remove_unrecorded(&self, asked: &WebdavRequestContext) -> Result<(), Fault> {
        let (vfs, caller) = (&asked.space().vfs, asked.caller());
        for path in self.unrecorded() {
            let found = ResolvedResource::itself(asked, path)?;
            if self.specials.contains(path) {
                vfs.unlink(caller, ResolvedResource::parent_of(asked, path)?.node, &found.name()?)?;
            } else {
                remove_file(asked, &found)?;
            }
        }
        for folder in self.folders.iter().rev() {
            vfs.apply(caller, Change::RemoveDir { path: folder.clone() })?;
        }
        Ok(())
    }
}

fn is_unsaved(asked: &WebdavRequestContext, path: &TreePath) -> Result<bool, Fault> {
    match asked.space().vfs.stat(asked.caller().protocol, path) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(true),
        outcome => outcome.map(|_| false),
    }
}
