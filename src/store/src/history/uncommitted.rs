//! What the index and the work tree of a repository have that HEAD has not.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use git2::{Delta, ErrorCode, Index, Repository, RepositoryState, Status};
use svcfs_base::{CommitId, FileKind, MAX_FILE_BYTES, TreePath};

use super::index::{is_intent_to_add_only, is_nested_too_deep, status_options, use_head_as_index};
use super::{CommitAuthor, FileEdit, History, HistoryResult, configure_libgit2, etag, head_of, oid};
use crate::path_rules::{GitIdentity, PathRules, hash_clean};
use crate::{PathState, StoreError};

/// How a file differs from HEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncommittedKind {
    /// HEAD has no such file.
    New,
    /// HEAD has another content or kind.
    Modified,
    /// HEAD has it, and the work tree has not, or git no longer tracks it.
    Deleted,
}

/// A file that differs from HEAD.
#[derive(Debug, Clone)]
pub struct UncommittedFile {
    /// Its path.
    pub path: TreePath,
    /// How it differs.
    pub kind: UncommittedKind,
    /// Whether the index differs from HEAD.
    pub is_staged: bool,
    /// Whether neither HEAD nor the work tree has what is staged.
    pub is_staged_only: bool,
    /// Whether git does not track it.
    pub is_untracked: bool,
    /// Size in the work tree; 0 where it is missing.
    pub size: u64,
    /// Its modification in the work tree.
    pub modified: Option<SystemTime>,
}

/// What is not committed in a directory.
#[derive(Debug, Default)]
pub struct UncommittedChanges {
    /// Whether the directory is a work tree of git.
    pub has_repository: bool,
    /// The checked-out branch.
    pub branch: Option<String>,
    /// The unfinished git command: `merge`, `rebase`.
    pub operation: Option<&'static str>,
    /// Without a repository: the work tree of git around the directory.
    pub enclosing: Option<PathBuf>,
    /// The files, in path order.
    pub files: Vec<UncommittedFile>,
    /// The user that git's settings name.
    pub identity: Option<GitIdentity>,
}

impl UncommittedChanges {
    /// Reads them; changes nothing. Without a repository all files are new. Files that git ignores,
    /// the contents of submodules and of other repositories are not included.
    ///
    /// # Errors
    /// `Git` when the repository cannot be read.
    pub fn read(root: &Path) -> HistoryResult<Self> {
        configure_libgit2();
        let repository = match Repository::open(root) {
            Ok(repository) => repository,
            Err(error) if error.code() == ErrorCode::NotFound => {
                let rules = PathRules::new(root);
                let (files, enclosing) = (files_without_repository(root, &rules), enclosing_work_tree(root));
                return Ok(Self { files, enclosing, identity: rules.identity(), ..Self::default() });
            }
            Err(error) => return Err(error.into()),
        };
        check_work_tree(&repository, root)?;
        // As in `differences`: a format that libgit2 does not support.
        if repository.index().is_err() {
            use_head_as_index(&repository)?;
        }
        let statuses = repository.statuses(Some(&mut status_options())).map_err(|error| {
            if is_nested_too_deep(&error) {
                return StoreError::Repository(format!(
                    "`{}` has more than 100 levels of directories, so its uncommitted changes cannot be listed; commit them first",
                    root.display()
                ));
            }
            error.into()
        })?;
        let rules = PathRules::new(root);
        let mut files = Vec::new();
        for entry in statuses.iter() {
            // Names that are not UTF-8 are not part of the tree; `name/` is another repository.
            let Some(path) = entry.path().ok().and_then(|path| TreePath::parse(path).ok()) else { continue };
            let file = uncommitted_file(root, path, entry.status());
            if let Some(file) = file.filter(|file| !is_clean_for_filters(&repository, &rules, root, file)) {
                files.push(file);
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let branch = repository.find_reference("HEAD").ok().and_then(|head| {
            let target = head.symbolic_target().ok().flatten()?;
            Some(target.strip_prefix("refs/heads/")?.to_owned())
        });
        let operation = operation(repository.state());
        Ok(Self { has_repository: true, branch, operation, enclosing: None, files, identity: rules.identity() })
    }

    /// Whether something is staged that neither HEAD nor the work tree has.
    pub fn has_staged_only(&self) -> bool {
        self.files.iter().any(|file| file.is_staged_only)
    }
}

/// Refuses a bare repository and a directory `.git`: the work tree, if any, is elsewhere.
fn check_work_tree(repository: &Repository, root: &Path) -> HistoryResult<()> {
    let real = |path: &Path| path.canonicalize().ok();
    if repository.workdir().is_some_and(|work_tree| real(work_tree) == real(root)) {
        return Ok(());
    }
    let root = root.display();
    Err(StoreError::Repository(format!(
        "`{root}` is a git repository without a work tree in it; give a clone of it, or the directory around its `.git`"
    )))
}

/// The work tree of git around a directory, unless git ignores the directory there.
fn enclosing_work_tree(root: &Path) -> Option<PathBuf> {
    let root = root.canonicalize().ok()?;
    let repository = Repository::discover(root.parent()?).ok()?;
    let work_tree = repository.workdir()?.canonicalize().ok()?;
    let relative = root.strip_prefix(&work_tree).ok()?;
    let is_ignored = repository.is_path_ignored(relative).unwrap_or(false);
    (!is_ignored).then_some(work_tree)
}

fn uncommitted_file(root: &Path, path: TreePath, status: Status) -> Option<UncommittedFile> {
    if status.intersects(Status::IGNORED) || status == Status::CURRENT {
        return None;
    }
    let in_index = Status::INDEX_NEW | Status::INDEX_MODIFIED | Status::INDEX_TYPECHANGE | Status::INDEX_DELETED;
    let in_tree = Status::WT_NEW | Status::WT_MODIFIED | Status::WT_TYPECHANGE | Status::WT_DELETED;
    let stat = std::fs::symlink_metadata(root.join(path.as_str())).ok().filter(|stat| !stat.is_dir());
    let is_staged = status.intersects(in_index);
    let is_untracked = status.contains(Status::WT_NEW) || status.contains(Status::INDEX_DELETED);
    let kind = if stat.is_none() || status.contains(Status::INDEX_DELETED) {
        UncommittedKind::Deleted
    } else if status.intersects(Status::INDEX_NEW | Status::WT_NEW) {
        UncommittedKind::New
    } else {
        UncommittedKind::Modified
    };
    // `git rm --cached` leaves the file on the disk, where git may ignore it now.
    let is_removed_from_index = status.contains(Status::INDEX_DELETED) && stat.is_some();
    Some(UncommittedFile {
        path,
        kind,
        is_staged,
        is_staged_only: is_removed_from_index || is_staged && status.intersects(in_tree),
        is_untracked,
        size: stat.as_ref().map_or(0, std::fs::Metadata::len),
        modified: stat.and_then(|stat| stat.modified().ok()),
    })
}

/// Whether a file that libgit2 takes for modified is what HEAD records: libgit2 runs no filters of
/// other programs (Git LFS).
fn is_clean_for_filters(repository: &Repository, rules: &PathRules, root: &Path, file: &UncommittedFile) -> bool {
    let is_candidate = file.kind == UncommittedKind::Modified && !file.is_staged && file.size <= MAX_FILE_BYTES as u64;
    if !is_candidate || rules.conversion(&file.path).is_identity() {
        return false;
    }
    let Ok(content) = std::fs::read(root.join(file.path.as_str())) else { return false };
    let head_blob = || {
        let head = head_of(repository).ok()??;
        let tree = repository.find_commit(oid(head).ok()?).ok()?.tree().ok()?;
        Some(tree.get_path(Path::new(file.path.as_str())).ok()?.id().to_string())
    };
    rules.conversion(&file.path).needs_git(&content)
        && hash_clean(root, &file.path, &content).is_ok_and(|clean| head_blob().is_some_and(|blob| blob == clean))
}

const fn operation(state: RepositoryState) -> Option<&'static str> {
    match state {
        RepositoryState::Clean => None,
        RepositoryState::Merge => Some("merge"),
        RepositoryState::Revert | RepositoryState::RevertSequence => Some("revert"),
        RepositoryState::CherryPick | RepositoryState::CherryPickSequence => Some("cherry-pick"),
        RepositoryState::Bisect => Some("bisect"),
        RepositoryState::Rebase | RepositoryState::RebaseInteractive | RepositoryState::RebaseMerge => Some("rebase"),
        RepositoryState::ApplyMailbox | RepositoryState::ApplyMailboxOrRebase => Some("am"),
    }
}

/// The files that a new repository would have.
fn files_without_repository(root: &Path, rules: &PathRules) -> Vec<UncommittedFile> {
    let (mut files, mut pending) = (Vec::new(), vec![TreePath::root()]);
    while let Some(directory) = pending.pop() {
        // Opening the root reports an unreadable root, and adoption an unreadable directory.
        let Ok(entries) = std::fs::read_dir(root.join(directory.as_str())) else { continue };
        for entry in entries {
            // Removed meanwhile, as below.
            let Ok(entry) = entry else { continue };
            let name = entry.file_name().to_str().and_then(|name| svcfs_base::PathComponent::parse(name).ok());
            let Some(path) = name.map(|name| directory.join(&name)) else { continue };
            let Ok(stat) = entry.metadata() else { continue };
            if rules.is_ignored(&path) {
                continue;
            }
            if stat.is_dir() {
                if !entry.path().join(".git").exists() {
                    pending.push(path);
                }
            } else if stat.is_file() || stat.is_symlink() {
                files.push(UncommittedFile {
                    path,
                    kind: UncommittedKind::New,
                    is_staged: false,
                    is_staged_only: false,
                    is_untracked: true,
                    size: stat.len(),
                    modified: stat.modified().ok(),
                });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

impl History {
    /// Commits what is staged, and no more; returns the commit, or none when nothing is. Paths with
    /// a conflict and submodules stay staged.
    ///
    /// # Errors
    /// `Git` when the index or HEAD cannot be read, or the branch was moved meanwhile.
    pub fn commit_staged(&self, author: &CommitAuthor<'_>) -> HistoryResult<Option<CommitId>> {
        let repository = Repository::open(&self.root)?;
        let (index, head) = (repository.index()?, self.head()?);
        let staged = staged_changes(&repository, &index, head)?;
        let edits: Vec<_> = staged
            .iter()
            .map(|(path, state)| match state {
                Some((blob, kind)) => FileEdit::Reuse { path, kind: *kind, blob: *blob },
                None => FileEdit::Remove { path },
            })
            .collect();
        if edits.is_empty() {
            return Ok(None);
        }
        let commit = self.stage(head, &edits, author)?;
        if !commit.is_new {
            return Ok(None);
        }
        self.advance(head, commit.commit)?;
        self.unpin_packs();
        Ok(Some(commit.commit))
    }
}

/// The files in which the index differs from HEAD, with what the index has.
fn staged_changes(
    repository: &Repository,
    index: &Index,
    head: Option<CommitId>,
) -> HistoryResult<Vec<(TreePath, PathState)>> {
    let tree = head.map(|head| Ok::<_, StoreError>(repository.find_commit(oid(head)?)?.tree()?)).transpose()?;
    let diff = repository.diff_tree_to_index(tree.as_ref(), Some(index), None)?;
    let mut changes = Vec::new();
    for delta in diff.deltas().filter(|delta| delta.status() != Delta::Conflicted) {
        let path = delta.new_file().path().and_then(Path::to_str).and_then(|path| TreePath::parse(path).ok());
        let Some(path) = path else { continue };
        match index.get_path(Path::new(path.as_str()), 0) {
            Some(entry) if is_intent_to_add_only(&entry) => {}
            Some(entry) => {
                if let Some(kind) = FileKind::from_git_mode(entry.mode.cast_signed()) {
                    changes.push((path, Some((etag(entry.id), kind))));
                }
            }
            None if FileKind::from_git_mode(u32::from(delta.old_file().mode()).cast_signed()).is_some() => {
                changes.push((path, None));
            }
            None => {}
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests;
