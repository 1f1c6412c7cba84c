//! Whether everything is there that the newest commit leads to, and is what its name says.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::SystemTime;

use git2::{ErrorCode, ObjectType, Odb, Oid, Repository};
use svcfs_base::{ETag, TreePath};

use super::RepoInspection;
use crate::StoreError;
use crate::history::pack::is_whole;
use crate::history::{HistoryResult, etag, flush, head_of, oid, repair};

/// Everything the newest commit leads to.
#[derive(Debug, Default)]
pub struct ReachableObjects {
    /// How many were read.
    pub read_count: usize,
    /// Those that are missing or damaged; what only they lead to is not known.
    pub bad: Vec<BadObject>,
}

/// An object that cannot be read.
#[derive(Debug)]
pub struct BadObject {
    /// Its name.
    pub id: ETag,
    /// What it is for: `commit`, `directory`, `content`.
    pub kind: &'static str,
    /// Where in the tree it was first met; the root for a commit.
    pub path: TreePath,
    /// True when there is nothing, false when there is something else.
    pub is_missing: bool,
}

/// What is still to be read.
enum WalkTask {
    Commit(Oid),
    Tree(Oid, String),
}

struct ObjectWalk<'r, P> {
    repository: &'r Repository,
    stored: Odb<'r>,
    seen: HashSet<Oid>,
    open: Vec<WalkTask>,
    found: ReachableObjects,
    progress: P,
}

impl RepoInspection {
    /// Reads every object that the newest commit leads to, each once, and compares it with its name. `progress` is told how many
    /// were read.
    ///
    /// # Errors
    /// `Git` when the newest commit is not known or the objects cannot be looked through at all.
    pub fn check_objects(&self, progress: impl FnMut(usize)) -> HistoryResult<ReachableObjects> {
        let Some(head) = head_of(&self.repository)? else { return Ok(ReachableObjects::default()) };
        let mut walk = ObjectWalk {
            repository: &self.repository,
            stored: self.repository.odb()?,
            seen: HashSet::new(),
            open: vec![WalkTask::Commit(oid(head)?)],
            found: ReachableObjects::default(),
            progress,
        };
        walk.seen.insert(oid(head)?);
        while let Some(task) = walk.open.pop() {
            match task {
                WalkTask::Commit(id) => walk.commit(id),
                WalkTask::Tree(id, prefix) => walk.tree(id, &prefix),
            }
        }
        Ok(walk.found)
    }

    /// Packs whose data or index does not end in the checksum of what stands before it, or of which one half is missing.
    ///
    /// # Errors
    /// `State` when the directory of packs or one of them cannot be read.
    pub fn torn_packs(&self) -> HistoryResult<Vec<PathBuf>> {
        let mut torn = Vec::new();
        for index in self.of_packs()? {
            if index.extension().is_some_and(|extension| extension == "idx")
                && !(is_whole(&index, SystemTime::UNIX_EPOCH)?
                    && is_whole(&index.with_extension("pack"), SystemTime::UNIX_EPOCH)?)
            {
                torn.push(index.with_extension("pack"));
            }
        }
        torn.sort();
        Ok(torn)
    }

    /// Whole packs whose index is gone, so that git finds nothing in them.
    ///
    /// # Errors
    /// As [`Inspection::torn_packs`].
    pub fn packs_without_index(&self) -> HistoryResult<Vec<PathBuf>> {
        let mut found = Vec::new();
        for pack in self.of_packs()? {
            if pack.extension().is_some_and(|extension| extension == "pack")
                && !pack.with_extension("idx").exists()
                && is_whole(&pack, SystemTime::UNIX_EPOCH)?
            {
                found.push(pack);
            }
        }
        found.sort();
        Ok(found)
    }

    fn of_packs(&self) -> HistoryResult<Vec<PathBuf>> {
        match std::fs::read_dir(self.repository.commondir().join("objects/pack")) {
            Ok(entries) => Ok(entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

impl<P: FnMut(usize)> ObjectWalk<'_, P> {
    fn commit(&mut self, id: Oid) {
        if !self.is_good(id, ObjectType::Commit, "") {
            return;
        }
        match self.repository.find_commit(id) {
            Ok(commit) => {
                if self.seen.insert(commit.tree_id()) {
                    self.open.push(WalkTask::Tree(commit.tree_id(), String::new()));
                }
                // What a shallow clone left behind is no damage.
                let is_cut = self.repository.is_shallow();
                for parent in commit.parent_ids() {
                    if (!is_cut || self.stored.exists(parent)) && self.seen.insert(parent) {
                        self.open.push(WalkTask::Commit(parent));
                    }
                }
            }
            Err(_) => self.note(id, ObjectType::Commit, "", false),
        }
    }

    fn tree(&mut self, id: Oid, prefix: &str) {
        if !self.is_good(id, ObjectType::Tree, prefix) {
            return;
        }
        let Ok(tree) = self.repository.find_tree(id) else {
            return self.note(id, ObjectType::Tree, prefix, false);
        };
        for entry in &tree {
            let path = format!("{prefix}{}", String::from_utf8_lossy(entry.name_bytes()));
            match entry.kind() {
                Some(ObjectType::Tree) if self.seen.insert(entry.id()) => {
                    self.open.push(WalkTask::Tree(entry.id(), format!("{path}/")));
                }
                Some(ObjectType::Blob) if self.seen.insert(entry.id()) => {
                    self.is_good(entry.id(), ObjectType::Blob, &path);
                }
                // Seen already, or the commit of another repository, which is not here.
                Some(_) | None => {}
            }
        }
    }

    /// Reads one object; libgit2 compares its bytes with its name, and is not asked for one that was cut off: it would read for ever.
    fn is_good(&mut self, id: Oid, kind: ObjectType, place: &str) -> bool {
        self.found.read_count += 1;
        (self.progress)(self.found.read_count);
        if repair::is_torn(&flush::loose(self.repository, id), id) {
            self.note(id, kind, place, false);
            return false;
        }
        let is_missing = match self.stored.read(id) {
            Ok(object) if object.kind() == kind => return true,
            Ok(_) => false,
            Err(error) => error.code() == ErrorCode::NotFound && !self.stored.exists(id),
        };
        self.note(id, kind, place, is_missing);
        false
    }

    fn note(&mut self, id: Oid, kind: ObjectType, place: &str, is_missing: bool) {
        let kind = match kind {
            ObjectType::Commit => "commit",
            ObjectType::Tree => "directory",
            ObjectType::Blob | ObjectType::Any | ObjectType::Tag => "content",
        };
        let path = TreePath::parse(place.trim_end_matches('/')).unwrap_or_else(|_| TreePath::root());
        self.found.bad.push(BadObject { id: etag(id), kind, path, is_missing });
    }
}

impl BadObject {
    /// The object's name as git writes it.
    pub(super) fn oid(&self) -> Result<Oid, StoreError> {
        Ok(Oid::from_bytes(self.id.as_bytes())?)
    }
}
