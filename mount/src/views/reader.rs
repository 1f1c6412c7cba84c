//! The reader of a view, and the pages they may read.
//!
//! Invariant: a view reveals facts about a page (its title, that it has a word) only to users who
//! may read it. The kernel checks everything else by the owner and permissions of the view's nodes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use svcfs_base::{Caller, Fault, Kind, Protocol, TreePath};
use svcfs_vfs::{EntryKind, PathAttributes, Vfs};

/// Permission to read and to write a file, and to search a directory.
const READ_BIT: u32 = 0o4;
const WRITE_BIT: u32 = 0o2;
const SEARCH_BIT: u32 = 0o1;

/// Credentials for permission checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReaderRights {
    uid: u32,
    groups: Vec<u32>,
}

impl ReaderRights {
    fn allow(&self, wanted: u32, of: &PathAttributes) -> bool {
        let shift = match of {
            of if of.uid == self.uid => 6,
            of if self.groups.contains(&of.gid) => 3,
            _ => 0,
        };
        (of.mode >> shift) & wanted == wanted
    }
}

pub(crate) struct ViewReader {
    pub(super) caller: Caller,
    uid: u32,
    gid: u32,
    thread: u32,
    rights: OnceCell<Option<Arc<ReaderRights>>>,
}

impl ViewReader {
    /// A thread of a user.
    pub(crate) const fn new(caller: Caller, (uid, gid): (u32, u32), thread: u32) -> Self {
        Self { caller, uid, gid, thread, rights: OnceCell::new() }
    }

    /// Credentials to check; none for root, who may read everything.
    pub(super) fn rights(&self) -> Option<Arc<ReaderRights>> {
        let rights = || {
            (self.uid != 0).then(|| {
                let status = fs::read_to_string(format!("/proc/{}/status", self.thread)).unwrap_or_default();
                let mut groups = groups_in(&status);
                groups.push(self.gid);
                groups.sort_unstable();
                groups.dedup();
                Arc::new(ReaderRights { uid: self.uid, groups })
            })
        };
        self.rights.get_or_init(rights).clone()
    }

    pub(super) fn access<'a>(&self, vfs: &'a Vfs) -> ReadAccess<'a> {
        ReadAccess { vfs, rights: self.rights(), directories: HashMap::new() }
    }
}

/// Permission checks of one request.
pub(super) struct ReadAccess<'a> {
    vfs: &'a Vfs,
    rights: Option<Arc<ReaderRights>>,
    /// Directories already checked, and whether their entries are reachable.
    directories: HashMap<TreePath, bool>,
}

impl ReadAccess<'_> {
    pub(super) const fn is_unrestricted(&self) -> bool {
        self.rights.is_none()
    }

    /// Whether a page may be read; false for a missing page, which is not checked for root.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn can_read(&mut self, page: &TreePath) -> Result<bool, Fault> {
        let Some(rights) = self.rights.clone() else { return Ok(true) };
        let Some(attributes) = self.stat(page)? else { return Ok(false) };
        if attributes.kind == EntryKind::Symlink {
            // By the permissions of its target.
            return match self.vfs.resolve_links(Protocol::Fuse, page) {
                Ok(target) if target != *page => self.can_read(&target),
                Ok(_) | Err(_) => Ok(false),
            };
        }
        Ok(rights.allow(READ_BIT, &attributes) && self.is_reachable(&rights, page.parent())?)
    }

    /// Whether a page may be read and written; not checked for root.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn can_write(&mut self, page: &TreePath) -> Result<bool, Fault> {
        let Some(rights) = self.rights.clone() else { return Ok(true) };
        let is_writable = self.stat(page)?.is_some_and(|attributes| rights.allow(WRITE_BIT, &attributes));
        Ok(is_writable && self.can_read(page)?)
    }

    fn is_reachable(&mut self, rights: &ReaderRights, directory: Option<TreePath>) -> Result<bool, Fault> {
        let Some(directory) = directory else { return Ok(true) };
        if let Some(cached) = self.directories.get(&directory) {
            return Ok(*cached);
        }
        let is_searchable = self.stat(&directory)?.is_some_and(|attributes| rights.allow(SEARCH_BIT, &attributes));
        let is_reachable = is_searchable && self.is_reachable(rights, directory.parent())?;
        self.directories.insert(directory, is_reachable);
        Ok(is_reachable)
    }

    fn stat(&self, path: &TreePath) -> Result<Option<PathAttributes>, Fault> {
        match self.vfs.stat(Protocol::Fuse, path) {
            Ok(attributes) => Ok(Some(attributes)),
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

/// Supplementary groups of a process (proc_pid_status(5)).
fn groups_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or_default().split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_program_are_those_that_its_process_is_in() {
        assert_eq!(groups_in("Name:\tsh\nUid:\t1\t1\nGroups:\t4 24 1000 \nNStgid:\t7\n"), [4, 24, 1000]);
        assert_eq!(groups_in("Name:\tsh\nGroups:\t \n"), [0_u32; 0]);
        assert_eq!(groups_in(""), [0_u32; 0]);
    }
}
