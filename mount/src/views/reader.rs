//! Who looks at a view, and which pages they may read.
//!
//! One rule: what a view says of a page (its title, that it has a word) it says to those who may read the page. Everything else the kernel
//! checks, by the owner and the permission bits that a place shows.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use svcfs_base::{Caller, Fault, Kind, Protocol, TreePath};
use svcfs_vfs::{EntryKind, PathAttributes, Vfs};

/// The permission to read a file, and to look names up in a directory.
const READ: u32 = 0o4;
const SEARCH: u32 = 0o1;

/// By what the system tells what somebody may do.
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

/// Who looks at a view.
pub(crate) struct ViewReader {
    pub(super) caller: Caller,
    uid: u32,
    gid: u32,
    thread: u32,
    rights: OnceCell<Option<Arc<ReaderRights>>>,
}

impl ViewReader {
    /// A thread of a user, who looks as this caller.
    pub(crate) const fn new(caller: Caller, (uid, gid): (u32, u32), thread: u32) -> Self {
        Self { caller, uid, gid, thread, rights: OnceCell::new() }
    }

    /// What they are allowed things by; none when they are allowed everything.
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

    /// Tells of one page after the other whether they may read it.
    pub(super) fn readable<'a>(&self, vfs: &'a Vfs) -> ReadAccess<'a> {
        ReadAccess { vfs, rights: self.rights(), directories: HashMap::new() }
    }
}

/// What somebody may read.
pub(super) struct ReadAccess<'a> {
    vfs: &'a Vfs,
    rights: Option<Arc<ReaderRights>>,
    /// Directories that were looked at already: whether what is in them is found.
    directories: HashMap<TreePath, bool>,
}

impl ReadAccess<'_> {
    /// Whether that is everything.
    pub(super) const fn is_all(&self) -> bool {
        self.rights.is_none()
    }

    /// Whether a page is among it; what is not there is not.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn has(&mut self, page: &TreePath) -> Result<bool, Fault> {
        let Some(rights) = self.rights.clone() else { return Ok(true) };
        let Some(there) = self.look(page)? else { return Ok(false) };
        if there.kind == EntryKind::Symlink {
            // As the page that it leads to, which is no link.
            return match self.vfs.resolve_links(Protocol::Fuse, page) {
                Ok(target) if target != *page => self.has(&target),
                Ok(_) | Err(_) => Ok(false),
            };
        }
        Ok(rights.allow(READ, &there) && self.is_found_in(&rights, page.parent())?)
    }

    fn is_found_in(&mut self, rights: &ReaderRights, directory: Option<TreePath>) -> Result<bool, Fault> {
        let Some(directory) = directory else { return Ok(true) };
        if let Some(known) = self.directories.get(&directory) {
            return Ok(*known);
        }
        let is_open = self.look(&directory)?.is_some_and(|there| rights.allow(SEARCH, &there));
        let is_found = is_open && self.is_found_in(rights, directory.parent())?;
        self.directories.insert(directory, is_found);
        Ok(is_found)
    }

    fn look(&self, path: &TreePath) -> Result<Option<PathAttributes>, Fault> {
        match self.vfs.stat(Protocol::Fuse, path) {
            Ok(there) => Ok(Some(there)),
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

/// The groups beside its own that a process says it is in (proc_pid_status(5)).
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
