//! Whether all objects of the newest commit exist and match their ids.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::SystemTime;

use git2::{ErrorCode, ObjectType, Odb, Oid, Repository};
use svcfs_base::{ETag, TreePath};

use super::RepoInspection;
use crate::StoreError;
use crate::history::pack::is_complete;
use crate::history::{HistoryResult, etag, flush, head_of, oid, repair};

/// The result of reading all objects of the newest commit.
#[derive(Debug, Default)]
pub struct ReachableObjects {
    /// Number of objects read.
    pub read_count: usize,
    /// Missing or damaged objects. Objects that only they refer to are not checked.
    pub bad: Vec<BadObject>,
}

/// An object that cannot be read.
#[derive(Debug)]
pub struct BadObject {
    /// Its id.
    pub id: ETag,
    /// Its kind: `commit`, `directory`, `content`.
    pub kind: &'static str,
    /// The first path where it is used; the root for a commit.
    pub path: TreePath,
    /// True when it does not exist, false when it is damaged.
    pub is_missing: bool,
}

/// An object to be read.
enum WalkTask {
    Commit(Oid),
    Tree(Oid, String),
}

struct ObjectWalk<'r, P> {
    repository: &'r Repository,
    odb: Odb<'r>,
    seen: HashSet<Oid>,
    pending: Vec<WalkTask>,
    result: ReachableObjects,
    progress: P,
}

impl RepoInspection {
    /// Reads every object of the newest commit once and compares it with its id. `progress`
    /// receives the number of objects read.
    ///
    /// # Errors
    /// `Git` when there is no readable HEAD, or the objects cannot be read at all.
    pub fn check_objects(&self, progress: impl FnMut(usize)) -> HistoryResult<ReachableObjects> {
        let Some(head) = head_of(&self.repository)? else { return Ok(ReachableObjects::default()) };
        let mut walk = ObjectWalk {
            repository: &self.repository,
            odb: self.repository.odb()?,
            seen: HashSet::new(),
            pending: vec![WalkTask::Commit(oid(head)?)],
            result: ReachableObjects::default(),
            progress,
        };
        walk.seen.insert(oid(head)?);
        while let Some(task) = walk.pending.pop() {
            match task {
                WalkTask::Commit(id) => walk.commit(id),
                WalkTask::Tree(id, prefix) => walk.tree(id, &prefix),
            }
        }
        Ok(walk.result)
    }

    /// Packs whose data or index file has a wrong checksum, or of which one file is missing.
    ///
    /// # Errors
    /// `State` when the directory of packs or one of them cannot be read.
    pub fn torn_packs(&self) -> HistoryResult<Vec<PathBuf>> {
        let mut torn = Vec::new();
        for index in self.pack_files()? {
            if index.extension().is_some_and(|extension| extension == "idx")
                && !(is_complete(&index, SystemTime::UNIX_EPOCH)?
                    && is_complete(&index.with_extension("pack"), SystemTime::UNIX_EPOCH)?)
            {
                torn.push(index.with_extension("pack"));
            }
        }
        torn.sort();
        Ok(torn)
    }

    /// Complete packs without an index, so that git does not use them.
    ///
    /// # Errors
    /// As [`RepoInspection::torn_packs`].
    pub fn packs_without_index(&self) -> HistoryResult<Vec<PathBuf>> {
        let mut packs = Vec::new();
        for pack in self.pack_files()? {
            if pack.extension().is_some_and(|extension| extension == "pack")
                && !pack.with_extension("idx").exists()
                && is_complete(&pack, SystemTime::UNIX_EPOCH)?
            {
                packs.push(pack);
            }
        }
        packs.sort();
        Ok(packs)
    }

    fn pack_files(&self) -> HistoryResult<Vec<PathBuf>> {
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
                    self.pending.push(WalkTask::Tree(commit.tree_id(), String::new()));
                }
                // Missing parents in a shallow clone are no damage.
                let is_shallow = self.repository.is_shallow();
                for parent in commit.parent_ids() {
                    if (!is_shallow || self.odb.exists(parent)) && self.seen.insert(parent) {
                        self.pending.push(WalkTask::Commit(parent));
                    }
                }
            }
            Err(_) => self.add_bad(id, ObjectType::Commit, "", false),
        }
    }

    fn tree(&mut self, id: Oid, prefix: &str) {
        if !self.is_good(id, ObjectType::Tree, prefix) {
            return;
        }
        let Ok(tree) = self.repository.find_tree(id) else {
            return self.add_bad(id, ObjectType::Tree, prefix, false);
        };
        for entry in &tree {
            let path = format!("{prefix}{}", String::from_utf8_lossy(entry.name_bytes()));
            match entry.kind() {
                Some(ObjectType::Tree) if self.seen.insert(entry.id()) => {
                    self.pending.push(WalkTask::Tree(entry.id(), format!("{path}/")));
                }
                Some(ObjectType::Blob) if self.seen.insert(entry.id()) => {
                    self.is_good(entry.id(), ObjectType::Blob, &path);
                }
                // Already seen, or a submodule.
                Some(_) | None => {}
            }
        }
    }

    /// Reads one object; libgit2 verifies the id. A truncated loose object is detected before,
    /// because libgit2 would read it forever.
    fn is_good(&mut self, id: Oid, kind: ObjectType, path_text: &str) -> bool {
        self.result.read_count += 1;
        (self.progress)(self.result.read_count);
        if repair::is_torn(&flush::loose_path(self.repository, id), id) {
            self.add_bad(id, kind, path_text, false);
            return false;
        }
        let is_missing = match self.odb.read(id) {
            Ok(object) if object.kind() == kind => return true,
            Ok(_) => false,
            Err(error) => error.code() == ErrorCode::NotFound && !self.odb.exists(id),
        };
        self.add_bad(id, kind, path_text, is_missing);
        false
    }

    fn add_bad(&mut self, id: Oid, kind: ObjectType, path_text: &str, is_missing: bool) {
        let kind = match kind {
            ObjectType::Commit => "commit",
            ObjectType::Tree => "directory",
            ObjectType::Blob | ObjectType::Any | ObjectType::Tag => "content",
        };
        let path = TreePath::parse(path_text.trim_end_matches('/')).unwrap_or_else(|_| TreePath::root());
        self.result.bad.push(BadObject { id: etag(id), kind, path, is_missing });
    }
}

impl BadObject {
    /// The object id in git's type.
    pub(super) fn oid(&self) -> Result<Oid, StoreError> {
        Ok(Oid::from_bytes(self.id.as_bytes())?)
    }
}
