//! The tree of an earlier commit: which commit it was, and what stood where.

use std::path::Path;

use git2::{Commit, ErrorCode, ObjectType, Oid, Repository};
use svcfs_base::{CommitId, ETag, FileKind, PathComponent, Timestamp, TreePath};

use super::read::{if_there, is_no_entry};
use super::{History, HistoryResult, commit_id, etag, head_of, oid};
use crate::StoreError;

/// What stood under one name of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastEntry {
    /// Its name.
    pub name: PathComponent,
    /// Its content and what kind of file it was; none for a directory.
    pub leaf: Option<(ETag, FileKind)>,
}

impl History {
    /// The entries of a directory in a commit, in name order; none when there was no directory. What no tree of ours can hold (names
    /// that are no UTF-8, submodules) is left out.
    ///
    /// # Errors
    /// `Git`.
    pub fn read_directory(&self, commit: CommitId, path: &TreePath) -> HistoryResult<Option<Vec<PastEntry>>> {
        self.reader(|repository| {
            let root = repository.find_commit(oid(commit)?)?.tree()?;
            let tree = if path.is_root() {
                root
            } else {
                match root.get_path(Path::new(path.as_str())) {
                    Ok(entry) if entry.kind() == Some(ObjectType::Tree) => repository.find_tree(entry.id())?,
                    Ok(_) => return Ok(None),
                    Err(error) if is_no_entry(&error) => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            };
            let mut entries = Vec::with_capacity(tree.len());
            for entry in &tree {
                let Some(name) = entry.name().ok().and_then(|name| PathComponent::parse(name).ok()) else { continue };
                if entry.kind() == Some(ObjectType::Tree) {
                    entries.push(PastEntry { name, leaf: None });
                } else if let Some(kind) = FileKind::from_git_mode(entry.filemode()) {
                    entries.push(PastEntry { name, leaf: Some((etag(entry.id()), kind)) });
                }
            }
            // git orders a directory as if its name ended in `/`.
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(Some(entries))
        })
    }

    /// The length of a blob in bytes, without reading it; none when git does not have it.
    ///
    /// # Errors
    /// `Git`.
    pub fn blob_size(&self, blob: ETag) -> HistoryResult<Option<u64>> {
        let id = Oid::from_bytes(blob.as_bytes())?;
        if_there(self.reader(|repository| Ok(repository.odb()?.read_header(id)?.0 as u64)))
    }

    /// The commit of a branch or, where there is none of that name, a tag; none when it is neither.
    ///
    /// # Errors
    /// `Git`.
    pub fn resolve_ref(&self, name: &str) -> HistoryResult<Option<CommitId>> {
        self.reader(|repository| {
            for namespace in ["refs/heads", "refs/tags"] {
                match repository.find_reference(&format!("{namespace}/{name}")) {
                    Ok(reference) => return Ok(reference.peel_to_commit().ok().map(|commit| commit_id(commit.id()))),
                    Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(None)
        })
    }

    /// When a commit was made, to the second.
    ///
    /// # Errors
    /// `Git` when there is no such commit.
    pub fn commit_time(&self, commit: CommitId) -> HistoryResult<Timestamp> {
        self.reader(|repository| Ok(time(&repository.find_commit(oid(commit)?)?)))
    }

    /// The commit where the branch stood at the end of a second: the first that is not younger, going from parent to (first) parent,
    /// from the parent of `later` on; from the branch's end without it, or when git has let go of it.
    ///
    /// # Errors
    /// `Git`.
    pub fn commit_at(&self, second: i64, later: Option<CommitId>) -> HistoryResult<Option<CommitId>> {
        self.reader(|repository| {
            let mut next = match later.map(|later| parent_of(repository, later)).transpose()? {
                Some(ParentCommit::Known(parent)) => parent,
                Some(ParentCommit::Lost) | None => head_of(repository)?,
            };
            while let Some(id) = next {
                let commit = repository.find_commit(oid(id)?)?;
                if commit.time().seconds() <= second {
                    return Ok(Some(id));
                }
                next = commit.parent_ids().next().map(commit_id);
            }
            Ok(None)
        })
    }
}

enum ParentCommit {
    /// The first parent; none for a first commit.
    Known(Option<CommitId>),
    /// git does not have the commit any more.
    Lost,
}

fn parent_of(repository: &Repository, commit: CommitId) -> Result<ParentCommit, StoreError> {
    match repository.find_commit(oid(commit)?) {
        Ok(commit) => Ok(ParentCommit::Known(commit.parent_ids().next().map(commit_id))),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(ParentCommit::Lost),
        Err(error) => Err(error.into()),
    }
}

fn time(commit: &Commit<'_>) -> Timestamp {
    Timestamp::from_second(commit.time().seconds()).unwrap_or(Timestamp::UNIX_EPOCH)
}
