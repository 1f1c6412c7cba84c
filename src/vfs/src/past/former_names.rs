//! The former names of a page or directory.

use svcfs_base::{ETag, Fault, Seq, TreePath};
use svcfs_store::{FileCreation, History, NamePeriod, RenameSources};

use crate::Vfs;

/// Removed files of a set that are compared with a new file to find its origin.
const MAX_ORIGINS: usize = 64;
/// Larger files are compared by hash only.
const MAX_COMPARED_BYTES: u64 = 4 << 20;
/// Renames of one page that are followed.
const MAX_NAMES: usize = 1_000;
/// Creations under one name that are checked for an origin: a page may come and go.
const MAX_CREATIONS: usize = 16;

impl Vfs {
    /// The names of a page, newest first, through renames of the page and of directories, as far as
    /// `may_read` allows. At least one: the given path.
    ///
    /// # Errors
    /// `Internal` when log or git cannot be read; `Unavailable` when the disk does not answer.
    pub fn names_of_page(
        &self,
        path: &TreePath,
        may_read: impl Fn(&TreePath) -> bool,
    ) -> Result<Vec<NamePeriod>, Fault> {
        self.wait_committed()?;
        let mut names = Vec::new();
        let mut current = NamePeriod::always(path.clone());
        while names.len() < MAX_NAMES {
            let Some((renamed_at, former)) = self.former_name(&current)?.filter(|(_, former)| may_read(former)) else {
                break;
            };
            let before = current.range.end;
            names.push(NamePeriod { range: renamed_at..before, ..current });
            current = NamePeriod { path: former, range: Seq(0)..renamed_at };
        }
        names.push(current);
        Ok(names)
    }

    /// As [`Vfs::names_of_page`], also for a directory. A directory has its former names beside
    /// its present one: what was in it before is still part of its history.
    ///
    /// # Errors
    /// As [`Vfs::names_of_page`].
    pub fn names_at_or_below(
        &self,
        path: &TreePath,
        may_read: impl Fn(&TreePath) -> bool,
    ) -> Result<Vec<NamePeriod>, Fault> {
        let mut names = self.names_of_page(path, &may_read)?;
        while let [.., NamePeriod { path, range }] = &names[..]
            && names.len() < MAX_NAMES
        {
            let recorded = self.core.log.newest_directory_rename(path, range.end)?;
            // The rename by a direct edit or `git mv` is not recorded as one.
            let renamed =
                recorded.map_or_else(|| self.core.log.directory_origin(path, range.end), |it| Ok(Some(it)))?;
            let Some((renamed_at, former)) = renamed.filter(|(_, former)| may_read(former)) else { break };
            names.push(NamePeriod { path: former, range: Seq(0)..renamed_at });
        }
        Ok(names)
    }

    /// The last rename to a name: its position, and the name before.
    fn former_name(&self, name: &NamePeriod) -> Result<Option<(Seq, TreePath)>, Fault> {
        let mut before = name.range.end;
        for _ in 0..MAX_CREATIONS {
            let Some(creation) = self.core.log.newest_creation(&name.path, before)? else { return Ok(None) };
            if let Some((former, _)) = self.origin(&name.path, creation)? {
                return Ok(Some((creation.seq, former)));
            }
            before = creation.seq;
        }
        Ok(None)
    }

    /// Origin of a new file: its name before the rename of a directory, or a removed file of the
    /// same set with the same or similar content.
    pub(super) fn origin(&self, path: &TreePath, creation: FileCreation) -> Result<Option<(TreePath, ETag)>, Fault> {
        let RenameSources { exact, others } = self.core.log.rename_sources(path, creation, MAX_ORIGINS)?;
        if exact.is_some() || others.is_empty() {
            return Ok(exact);
        }
        let Some(history) = self.core.versions.git() else { return Ok(None) };
        // The log has the hashes of the contents in the tree, which git may convert.
        if history.is_converted(path) || !is_comparable(history, creation.content)? {
            return Ok(None);
        }
        for (former, content) in others {
            if is_comparable(history, content)? && history.are_similar(content, creation.content)? {
                return Ok(Some((former, content)));
            }
        }
        Ok(None)
    }
}

/// Whether git has a content, of a size that can be compared.
fn is_comparable(history: &History, content: ETag) -> Result<bool, Fault> {
    Ok(history.blob_size(content)?.is_some_and(|size| size <= MAX_COMPARED_BYTES))
}

#[cfg(test)]
mod tests;
