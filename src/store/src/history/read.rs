//! Reads of commits, trees and blobs.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use git2::{DiffHunk, DiffOptions, ErrorClass, ErrorCode, ObjectType, Oid, Patch, Repository, Tree};
use svcfs_base::{CommitId, ETag, FileKind, TreePath};

use super::{History, HistoryResult, commit_id, etag, oid};
use crate::StoreError;

/// The mode of a directory in a git tree.
const TREE_MODE: i32 = 0o040_000;

impl History {
    /// The file of a commit at a path.
    pub fn leaf(&self, commit: CommitId, path: &TreePath) -> HistoryResult<Option<(ETag, FileKind)>> {
        self.reader(|repository| Ok(leaf_in(repository, commit, path)?.map(|(id, kind)| (etag(id), kind))))
    }

    /// The files of a commit at these paths, in order; nothing before the first commit. Each
    /// directory is read once: single lookups of many paths of one directory take quadratic time.
    pub fn leaves_at(
        &self,
        commit: Option<CommitId>,
        paths: &[&TreePath],
    ) -> HistoryResult<Vec<Option<(ETag, FileKind)>>> {
        let Some(commit) = commit else { return Ok(vec![None; paths.len()]) };
        self.reader(|repository| {
            let mut finder = TreeFinder::new(repository, repository.find_commit(oid(commit)?)?.tree()?);
            let leaf = |(id, mode)| Some((etag(id), FileKind::from_git_mode(mode)?));
            paths.iter().map(|path| Ok(finder.entry(path)?.and_then(leaf))).collect()
        })
    }

    /// The files of a commit at or below a path, in path order.
    pub fn leaves(&self, commit: CommitId, below: &TreePath) -> HistoryResult<Vec<(TreePath, ETag, FileKind)>> {
        self.reader(|repository| {
            let tree = repository.find_commit(oid(commit)?)?.tree()?;
            let mut files = Vec::new();
            let (start, prefix) = if below.is_root() {
                (tree, String::new())
            } else {
                match tree.get_path(Path::new(below.as_str())) {
                    Ok(entry) => match entry.to_object(repository)?.into_tree() {
                        Ok(tree) => (tree, format!("{below}/")),
                        Err(_) => {
                            return Ok(leaf_in(repository, commit, below)?
                                .map(|(id, kind)| (below.clone(), etag(id), kind))
                                .into_iter()
                                .collect());
                        }
                    },
                    Err(error) if is_no_entry(&error) => return Ok(files),
                    Err(error) => return Err(error.into()),
                }
            };
            leaves_in(repository, &start, &prefix, &mut files)?;
            Ok(files)
        })
    }

    /// The content of a blob; none when git does not have it.
    ///
    /// # Errors
    /// `Git` when it exists but cannot be read.
    pub fn read_blob(&self, blob: ETag) -> HistoryResult<Option<Bytes>> {
        let id = Oid::from_bytes(blob.as_bytes())?;
        found_or_none(self.reader(|repository| Ok(Bytes::copy_from_slice(repository.find_blob(id)?.content()))))
    }

    /// The commit of a full or abbreviated (4 digits or more) hash; none when unknown or ambiguous.
    pub fn find_commit(&self, hash: &str) -> HistoryResult<Option<CommitId>> {
        if !(4..=40).contains(&hash.len()) || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        found_or_none(self.reader(|repository| Ok(commit_id(repository.find_commit_by_prefix(hash)?.id()))))
    }
}

/// The difference between two contents of a path in git's unified format, with three lines of
/// context; empty if equal. A missing content counts as empty.
pub fn unified_diff(path: &TreePath, old: Option<&[u8]>, new: Option<&[u8]>) -> HistoryResult<String> {
    if old == new {
        return Ok(String::new());
    }
    let file_name = Some(Path::new(path.as_str()));
    let mut patch = Patch::from_buffers(old.unwrap_or_default(), file_name, new.unwrap_or_default(), file_name, None)?;
    Ok(String::from_utf8_lossy(&patch.to_buf()?).into_owned())
}

/// Lines of a text, counted from 0, and the lines of another text that replace them.
type ChangedLines = (Range<usize>, Range<usize>);

/// The changed lines between two texts, in order, as git finds them to merge them.
#[must_use]
pub fn changed_lines(old: &str, new: &str) -> Vec<ChangedLines> {
    let mut options = DiffOptions::new();
    options.context_lines(0).interhunk_lines(0).force_text(true);
    let mut hunks = || {
        let patch = Patch::from_buffers(old.as_bytes(), None, new.as_bytes(), None, Some(&mut options))?;
        (0..patch.num_hunks())
            .map(|index| Ok(hunk_lines(&patch.hunk(index)?.0)))
            .collect::<Result<Vec<_>, git2::Error>>()
    };
    hunks().unwrap_or_else(|error| {
        // Correct, too: all lines count as changed.
        tracing::warn!(%error, "git cannot compare two texts by lines");
        vec![(0..old.split_inclusive('\n').count(), 0..new.split_inclusive('\n').count())]
    })
}

fn hunk_lines(hunk: &DiffHunk<'_>) -> ChangedLines {
    // An empty range is named by the line before it.
    let range = |start: u32, count: u32| {
        let start = if count == 0 { start } else { start.saturating_sub(1) } as usize;
        start..start + count as usize
    };
    (range(hunk.old_start(), hunk.old_lines()), range(hunk.new_start(), hunk.new_lines()))
}

/// Looks up many paths of one tree; each directory is read once.
pub(super) struct TreeFinder<'r> {
    repository: &'r Repository,
    directories: HashMap<TreePath, Option<Tree<'r>>>,
}

impl<'r> TreeFinder<'r> {
    pub(super) fn new(repository: &'r Repository, root: Tree<'r>) -> Self {
        Self { repository, directories: HashMap::from([(TreePath::root(), Some(root))]) }
    }

    /// Object and mode at a path; none when nothing exists there.
    pub(super) fn entry(&mut self, path: &TreePath) -> HistoryResult<Option<(Oid, i32)>> {
        let Some(parent) = path.parent() else { return Ok(None) };
        let entry = self.directory(&parent)?.and_then(|tree| tree.get_name(path.name()));
        Ok(entry.map(|entry| (entry.id(), entry.filemode())))
    }

    /// Without recursion: a path may have 2,000 levels.
    fn directory(&mut self, path: &TreePath) -> HistoryResult<Option<&Tree<'r>>> {
        let mut missing = Vec::new();
        let mut at = Some(path.clone());
        while let Some(directory) = at.filter(|directory| !self.directories.contains_key(directory)) {
            at = directory.parent();
            missing.push(directory);
        }
        for directory in missing.into_iter().rev() {
            let above = directory.parent().and_then(|parent| self.directories.get(&parent)?.as_ref());
            let entry = above.and_then(|tree| tree.get_name(directory.name()));
            let tree = match entry.map(|entry| (entry.id(), entry.filemode())) {
                Some((id, TREE_MODE)) => Some(self.repository.find_tree(id)?),
                Some(_) | None => None,
            };
            self.directories.insert(directory, tree);
        }
        Ok(self.directories.get(path).and_then(Option::as_ref))
    }
}

/// Collects the files of a tree in git's order, without recursion: a path may have 2,000 levels.
/// libgit2's own walk stops at the first directory whose name is not UTF-8.
pub(super) fn leaves_in(
    repository: &Repository,
    tree: &Tree<'_>,
    prefix: &str,
    files: &mut Vec<(TreePath, ETag, FileKind)>,
) -> HistoryResult<()> {
    // The trees from the start down to the present directory, and the next entry of each.
    let mut open = vec![(tree.clone(), 0, prefix.to_owned())];
    while let Some((tree, next, prefix)) = open.last_mut() {
        let Some(entry) = tree.get(*next) else {
            open.pop();
            continue;
        };
        *next += 1;
        let Ok(name) = entry.name() else { continue };
        if entry.kind() == Some(ObjectType::Tree) {
            let below = (repository.find_tree(entry.id())?, 0, format!("{prefix}{name}/"));
            drop(entry);
            open.push(below);
        } else if let (Some(kind), Ok(path)) =
            (FileKind::from_git_mode(entry.filemode()), TreePath::parse(&format!("{prefix}{name}")))
        {
            files.push((path, etag(entry.id()), kind));
        }
    }
    Ok(())
}

fn leaf_in(repository: &Repository, commit: CommitId, path: &TreePath) -> HistoryResult<Option<(Oid, FileKind)>> {
    let tree = repository.find_commit(oid(commit)?)?.tree()?;
    match tree.get_path(Path::new(path.as_str())) {
        Ok(entry) => Ok(FileKind::from_git_mode(entry.filemode()).map(|kind| (entry.id(), kind))),
        Err(error) if is_no_entry(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// None for an object that is missing, or whose short hash is ambiguous. Apply it to the result of
/// `reader`, which retries: the first attempt may not see a newly compacted pack.
pub(super) fn found_or_none<T>(result: HistoryResult<T>) -> HistoryResult<Option<T>> {
    match result {
        Err(StoreError::Git(error)) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::Ambiguous) => Ok(None),
        result => result.map(Some),
    }
}

/// Whether the entry is missing in an existing tree, in contrast to a missing tree object.
pub(super) fn is_no_entry(error: &git2::Error) -> bool {
    error.code() == ErrorCode::NotFound && error.class() == ErrorClass::Tree
}
