//! Comparison of tree, newest commit and `.git/index` by content; times and sizes are not trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use git2::{Oid, Repository, Status, StatusOptions, StatusShow};
use svcfs_base::{ETag, FileKind, MAX_FILE_BYTES, TreePath};

use super::RepoInspection;
use crate::history::index::use_head_as_index;
use crate::history::index_update::unsupported_index;
use crate::history::read::leaves_in;
use crate::history::repair::is_damaged;
use crate::history::{HistoryResult, etag, head_of, oid};

/// Differences between tree, newest commit and `.git/index`; or between tree and log, for spaces
/// without git.
#[derive(Debug, Default)]
pub struct TreeState {
    /// The files of the newest commit, in path order.
    pub files: Vec<(TreePath, FileKind)>,
    /// Files that differ from the newest commit, including removed ones.
    pub modified: Vec<TreePath>,
    /// Files that are neither in the newest commit nor ignored.
    pub untracked: Vec<TreePath>,
    /// Unreadable files, with the error.
    pub unreadable: Vec<(TreePath, String)>,
    /// Files that match the newest commit but not `.git/index`.
    pub stale_index: Vec<TreePath>,
    /// Why `.git/index` cannot be read.
    pub index_error: Option<String>,
    /// What to do when `.git/index` is intact, but in an unsupported format.
    pub index_unsupported: Option<String>,
}

impl RepoInspection {
    /// Compares every file. `progress` receives the number of files read, and the total.
    ///
    /// # Errors
    /// `Git` when the newest commit cannot be read.
    pub fn compare_tree(&self, mut progress: impl FnMut(usize, usize)) -> HistoryResult<TreeState> {
        let mut recorded = Vec::new();
        if let Some(head) = head_of(&self.repository)? {
            let tree = self.repository.find_commit(oid(head)?)?.tree()?;
            leaves_in(&self.repository, &tree, "", &mut recorded)?;
        }
        let (mut state, equal) = TreeState::compare(&self.root, &recorded, &mut progress);
        let recorded_paths: BTreeSet<_> = recorded.iter().map(|(path, ..)| path.clone()).collect();
        let index_result = index_entries(&self.repository).and_then(|index| {
            state.stale_index = outdated_entries(&index, &equal);
            let staged = index.into_keys().filter(|path| !recorded_paths.contains(path));
            let (new, removed): (Vec<_>, Vec<_>) =
                staged.partition(|path| self.root.join(path.as_str()).symlink_metadata().is_ok());
            state.stale_index.extend(removed);
            state.untracked = new;
            untracked(&self.repository)
        });
        match index_result {
            Ok(untracked) => {
                state.untracked.extend(untracked.into_iter().filter(|path| !recorded_paths.contains(path)))
            }
            Err(error) => {
                match std::fs::read(self.repository.path().join("index")) {
                    Ok(bytes) if !is_damaged(&bytes) => {
                        state.index_unsupported = Some(unsupported_index(error.message()))
                    }
                    Ok(_) | Err(_) => state.index_error = Some(error.message().to_owned()),
                }
                let repository = Repository::open(&self.root)?;
                use_head_as_index(&repository)?;
                state.untracked = untracked(&repository)?;
            }
        }
        Ok(state)
    }
}

impl TreeState {
    /// Compares every recorded file; also returns the equal ones.
    pub(crate) fn compare(
        root: &Path,
        recorded: &[(TreePath, ETag, FileKind)],
        progress: &mut impl FnMut(usize, usize),
    ) -> (Self, BTreeMap<TreePath, ETag>) {
        let (mut state, mut equal) = (Self::default(), BTreeMap::new());
        for (count, (path, blob, kind)) in recorded.iter().enumerate() {
            progress(count, recorded.len());
            state.files.push((path.clone(), *kind));
            match state_on_disk(&root.join(path.as_str())) {
                Ok(Some(present)) if present == (*blob, *kind) => drop(equal.insert(path.clone(), *blob)),
                Ok(_) => state.modified.push(path.clone()),
                Err(error) => state.unreadable.push((path.clone(), error.to_string())),
            }
        }
        (state, equal)
    }

    /// The content of the tree at a path; none when there is no readable file of a size that svcfs
    /// serves.
    pub fn read_content(root: &Path, path: &TreePath) -> Option<Vec<u8>> {
        let file = root.join(path.as_str());
        let stat = std::fs::symlink_metadata(&file).ok()?;
        let is_served = stat.is_file() && stat.len() <= MAX_FILE_BYTES as u64;
        std::fs::read(file).ok().filter(|_| is_served)
    }
}

/// The file at a path as git would record it; none for other types.
fn state_on_disk(file: &Path) -> std::io::Result<Option<(ETag, FileKind)>> {
    let stat = match std::fs::symlink_metadata(file) {
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        stat => stat?,
    };
    Ok(if stat.is_symlink() {
        Some((ETag::from_content(std::fs::read_link(file)?.as_os_str().as_bytes()), FileKind::Symlink))
    } else if stat.is_file() {
        let is_executable = stat.permissions().mode() & 0o100 != 0;
        let kind = if is_executable { FileKind::Executable } else { FileKind::Regular };
        Some((ETag::from_content(&std::fs::read(file)?), kind))
    } else {
        None
    })
}

/// The entries of `.git/index`; of a path in conflict, one side.
fn index_entries(repository: &Repository) -> Result<BTreeMap<TreePath, Oid>, git2::Error> {
    let mut index = repository.index()?;
    index.read(true)?;
    let entry = |entry: git2::IndexEntry| {
        let path = TreePath::parse(std::str::from_utf8(&entry.path).ok()?).ok()?;
        FileKind::from_git_mode(entry.mode.cast_signed()).map(|_| (path, entry.id))
    };
    Ok(index.iter().filter_map(entry).collect())
}

fn outdated_entries(index: &BTreeMap<TreePath, Oid>, equal: &BTreeMap<TreePath, ETag>) -> Vec<TreePath> {
    let differs =
        |(path, blob): (&TreePath, &ETag)| (index.get(path).map(|id| etag(*id)) != Some(*blob)).then(|| path.clone());
    equal.iter().filter_map(differs).collect()
}

fn untracked(repository: &Repository) -> Result<Vec<TreePath>, git2::Error> {
    let mut options = StatusOptions::new();
    options
        .show(StatusShow::Workdir)
        .include_untracked(true)
        .recurse_untracked_dirs(true)
        .exclude_submodules(true)
        .update_index(false);
    let statuses = repository.statuses(Some(&mut options))?;
    let path = |entry: git2::StatusEntry<'_>| {
        let is_new = entry.status().contains(Status::WT_NEW);
        // A nested repository is reported with a trailing slash.
        entry.path().ok().filter(|path| is_new && !path.ends_with('/')).and_then(|path| TreePath::parse(path).ok())
    };
    Ok(statuses.iter().filter_map(path).collect())
}
