//! Questions to git.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use git2::{ErrorClass, ErrorCode, ObjectType, Oid, Patch, Repository, Tree};
use svcfs_base::{CommitId, ETag, FileKind, TreePath};

use super::{History, HistoryResult, commit_id, etag, oid};
use crate::StoreError;

/// The mode of a directory in a git tree.
const TREE_MODE: i32 = 0o040_000;

impl History {
    /// What a commit has at a path.
    ///
    /// # Errors
    /// `Git`.
    pub fn leaf(&self, commit: CommitId, path: &TreePath) -> HistoryResult<Option<(ETag, FileKind)>> {
        self.reader(|repository| Ok(leaf_in(repository, commit, path)?.map(|(id, kind)| (etag(id), kind))))
    }

    /// What a commit has at each of these paths, as [`History::leaf`] says it; nothing before the first commit. Each directory is
    /// read once: for many paths of one directory, asking one by one takes quadratic time.
    ///
    /// # Errors
    /// `Git`.
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
    ///
    /// # Errors
    /// `Git`.
    pub fn leaves(&self, commit: CommitId, below: &TreePath) -> HistoryResult<Vec<(TreePath, ETag, FileKind)>> {
        self.reader(|repository| {
            let tree = repository.find_commit(oid(commit)?)?.tree()?;
            let mut found = Vec::new();
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
                    Err(error) if is_no_entry(&error) => return Ok(found),
                    Err(error) => return Err(error.into()),
                }
            };
            leaves_in(repository, &start, &prefix, &mut found)?;
            Ok(found)
        })
    }

    /// The content of a blob; none when git does not have it.
    ///
    /// # Errors
    /// `Git` when it is there but cannot be read.
    pub fn read_blob(&self, blob: ETag) -> HistoryResult<Option<Bytes>> {
        let id = Oid::from_bytes(blob.as_bytes())?;
        if_there(self.reader(|repository| Ok(Bytes::copy_from_slice(repository.find_blob(id)?.content()))))
    }

    /// The commit of a full or abbreviated (4 digits or more) hash; none when unknown or ambiguous.
    ///
    /// # Errors
    /// `Git`.
    pub fn find_commit(&self, hash: &str) -> HistoryResult<Option<CommitId>> {
        if !(4..=40).contains(&hash.len()) || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        if_there(self.reader(|repository| Ok(commit_id(repository.find_commit_by_prefix(hash)?.id()))))
    }
}

/// What differs between two contents of a path, as git tells it: unified, three lines of context; empty when nothing does. Nothing
/// for a content is as good as an empty one.
///
/// # Errors
/// `Git`.
pub fn unified_diff(path: &TreePath, old: Option<&[u8]>, new: Option<&[u8]>) -> HistoryResult<String> {
    if old == new {
        return Ok(String::new());
    }
    let place = Some(Path::new(path.as_str()));
    let mut patch = Patch::from_buffers(old.unwrap_or_default(), place, new.unwrap_or_default(), place, None)?;
    Ok(String::from_utf8_lossy(&patch.to_buf()?).into_owned())
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

    /// The object at a path and its mode; none when nothing is there.
    pub(super) fn entry(&mut self, path: &TreePath) -> HistoryResult<Option<(Oid, i32)>> {
        let Some(parent) = path.parent() else { return Ok(None) };
        let entry = self.directory(&parent)?.and_then(|tree| tree.get_name(path.name()));
        Ok(entry.map(|entry| (entry.id(), entry.filemode())))
    }

    fn directory(&mut self, path: &TreePath) -> HistoryResult<Option<&Tree<'r>>> {
        if !self.directories.contains_key(path) {
            let found = match self.entry(path)? {
                Some((id, TREE_MODE)) => Some(self.repository.find_tree(id)?),
                Some(_) | None => None,
            };
            self.directories.insert(path.clone(), found);
        }
        Ok(self.directories.get(path).and_then(Option::as_ref))
    }
}

/// Not libgit2's own walk, which ends at the first directory whose name is no UTF-8.
pub(super) fn leaves_in(
    repository: &Repository,
    tree: &Tree<'_>,
    prefix: &str,
    found: &mut Vec<(TreePath, ETag, FileKind)>,
) -> HistoryResult<()> {
    for entry in tree {
        let Ok(name) = entry.name() else { continue };
        if entry.kind() == Some(ObjectType::Tree) {
            leaves_in(repository, &repository.find_tree(entry.id())?, &format!("{prefix}{name}/"), found)?;
        } else if let (Some(kind), Ok(path)) =
            (FileKind::from_git_mode(entry.filemode()), TreePath::parse(&format!("{prefix}{name}")))
        {
            found.push((path, etag(entry.id()), kind));
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

/// None for an object that git does not have, or that one hash does not tell from another. Asked of what a reader said in the end, not of its
/// first answer: it may not have seen the pack that another was merged into in that moment.
pub(super) fn if_there<T>(found: HistoryResult<T>) -> HistoryResult<Option<T>> {
    match found {
        Err(StoreError::Git(error)) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::Ambiguous) => Ok(None),
        found => found.map(Some),
    }
}

/// Whether a tree has no such entry; the tree itself, or one on the way, that is not found is another matter.
pub(super) fn is_no_entry(error: &git2::Error) -> bool {
    error.code() == ErrorCode::NotFound && error.class() == ErrorClass::Tree
}
