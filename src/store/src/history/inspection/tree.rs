//! Tree, newest commit and `.git/index` held against each other, byte by byte: times and sizes are not believed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use git2::{Oid, Repository, Status, StatusOptions, StatusShow};
use svcfs_base::{ETag, FileKind, MAX_FILE_BYTES, TreePath};

use super::RepoInspection;
use crate::history::index::go_without_index;
use crate::history::index_update::unknown_kind;
use crate::history::read::leaves_in;
use crate::history::repair::is_damaged;
use crate::history::{HistoryResult, etag, head_of, oid};

/// How tree, newest commit and `.git/index` differ; or tree and log, where git keeps no versions.
#[derive(Debug, Default)]
pub struct TreeState {
    /// The files of the newest commit, in path order.
    pub files: Vec<(TreePath, FileKind)>,
    /// Files that are not as the newest commit has them, gone ones among them.
    pub modified: Vec<TreePath>,
    /// Files that the newest commit does not have and nobody told git to leave alone.
    pub untracked: Vec<TreePath>,
    /// Files that cannot be read, and why.
    pub unreadable: Vec<(TreePath, String)>,
    /// Files that are as the newest commit has them, while `.git/index` says otherwise.
    pub stale_index: Vec<TreePath>,
    /// Why `.git/index` cannot be read.
    pub index_error: Option<String>,
    /// What to do where `.git/index` is whole, and of a kind that svcfs does not know.
    pub index_unsupported: Option<String>,
}

impl RepoInspection {
    /// Compares every file. `progress` is told how many were read, and of how many.
    ///
    /// # Errors
    /// `Git` when the newest commit cannot be read.
    pub fn compare_tree(&self, mut progress: impl FnMut(usize, usize)) -> HistoryResult<TreeState> {
        let mut recorded = Vec::new();
        if let Some(head) = head_of(&self.repository)? {
            let tree = self.repository.find_commit(oid(head)?)?.tree()?;
            leaves_in(&self.repository, &tree, "", &mut recorded)?;
        }
        let (mut state, equal) = TreeState::against(&self.root, &recorded, &mut progress);
        let known: BTreeSet<_> = recorded.iter().map(|(path, ..)| path.clone()).collect();
        let looked = index_of(&self.repository).and_then(|index| {
            state.stale_index = behind(&index, &equal);
            let staged = index.into_keys().filter(|path| !known.contains(path));
            let (new, gone): (Vec<_>, Vec<_>) =
                staged.partition(|path| self.root.join(path.as_str()).symlink_metadata().is_ok());
            state.stale_index.extend(gone);
            state.untracked = new;
            untracked(&self.repository)
        });
        match looked {
            Ok(untracked) => state.untracked.extend(untracked.into_iter().filter(|path| !known.contains(path))),
            Err(error) => {
                match std::fs::read(self.repository.path().join("index")) {
                    Ok(bytes) if !is_damaged(&bytes) => state.index_unsupported = Some(unknown_kind(error.message())),
                    Ok(_) | Err(_) => state.index_error = Some(error.message().to_owned()),
                }
                let repository = Repository::open(&self.root)?;
                go_without_index(&repository)?;
                state.untracked = untracked(&repository)?;
            }
        }
        Ok(state)
    }
}

impl TreeState {
    /// Compares every file that is recorded; those that are equal beside it.
    pub(crate) fn against(
        root: &Path,
        recorded: &[(TreePath, ETag, FileKind)],
        progress: &mut impl FnMut(usize, usize),
    ) -> (Self, BTreeMap<TreePath, ETag>) {
        let (mut state, mut equal) = (Self::default(), BTreeMap::new());
        for (done, (path, blob, kind)) in recorded.iter().enumerate() {
            progress(done, recorded.len());
            state.files.push((path.clone(), *kind));
            match standing(&root.join(path.as_str())) {
                Ok(Some(present)) if present == (*blob, *kind) => drop(equal.insert(path.clone(), *blob)),
                Ok(_) => state.modified.push(path.clone()),
                Err(error) => state.unreadable.push((path.clone(), error.to_string())),
            }
        }
        (state, equal)
    }

    /// What stands in a tree at a path; none when no file of a size that svcfs serves can be read there.
    pub fn read_content(root: &Path, path: &TreePath) -> Option<Vec<u8>> {
        let file = root.join(path.as_str());
        let stat = std::fs::symlink_metadata(&file).ok()?;
        let is_served = stat.is_file() && stat.len() <= MAX_FILE_BYTES as u64;
        std::fs::read(file).ok().filter(|_| is_served)
    }
}

/// What stands at a path, as git would record it; none when nothing that it could.
fn standing(file: &Path) -> std::io::Result<Option<(ETag, FileKind)>> {
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

/// What `.git/index` has; of a path in conflict, one side.
fn index_of(repository: &Repository) -> Result<BTreeMap<TreePath, Oid>, git2::Error> {
    let mut index = repository.index()?;
    index.read(true)?;
    let entry = |entry: git2::IndexEntry| {
        let path = TreePath::parse(std::str::from_utf8(&entry.path).ok()?).ok()?;
        FileKind::from_git_mode(entry.mode.cast_signed()).map(|_| (path, entry.id))
    };
    Ok(index.iter().filter_map(entry).collect())
}

fn behind(index: &BTreeMap<TreePath, Oid>, equal: &BTreeMap<TreePath, ETag>) -> Vec<TreePath> {
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
        // A repository within the tree is told with a slash behind its name.
        entry.path().ok().filter(|path| is_new && !path.ends_with('/')).and_then(|path| TreePath::parse(path).ok())
    };
    Ok(statuses.iter().filter_map(path).collect())
}
