//! Repairs without loss: only stale locks and incomplete temporary files are removed; damaged files
//! are renamed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::ErrorClass;
use svcfs_base::{CommitId, ETag};

use super::{BadObject, GitLock, RepoInspection};
use crate::StoreError;
use crate::history::{HistoryResult, current_reference, head_of, oid, owner};

/// Younger temporary files of git may be in use.
const MIN_PARTIAL_AGE: std::time::Duration = std::time::Duration::from_secs(3600);

/// The directory of damaged files in `.git`.
const DAMAGED_DIRECTORY: &str = "damaged";

impl RepoInspection {
    /// Removes a stale lock.
    pub fn remove_lock(&self, lock: &GitLock) -> HistoryResult<()> {
        if lock.is_stale() { remove_if_exists(&lock.path) } else { Ok(()) }
    }

    /// Incomplete files in `.git/objects` of killed processes, of svcfs and of git.
    pub fn partial_files(&self) -> Vec<PathBuf> {
        let objects = self.repository.commondir().join("objects");
        let directories = fs::read_dir(&objects).into_iter().flatten().flatten().map(|entry| entry.path());
        let entries = directories.flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
        let mut files: Vec<_> = entries.filter(is_partial).map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// Removes the files of [`RepoInspection::partial_files`]; returns their number.
    pub fn remove_partial_files(&self) -> HistoryResult<usize> {
        let files = self.partial_files();
        files.iter().try_for_each(|file| remove_if_exists(file))?;
        Ok(files.len())
    }

    /// Rebuilds the indexes of [`RepoInspection::packs_without_index`]; returns their number.
    ///
    /// # Errors
    /// `State`, or `Git` when a pack cannot be read or its index not be written.
    pub fn index_packs(&self) -> HistoryResult<usize> {
        let packs = self.packs_without_index()?;
        for pack in &packs {
            let directory = pack.parent().unwrap_or(&self.root);
            let stored = self.repository.odb()?;
            let mut indexer = git2::Indexer::new(Some(&stored), directory, 0, true)?;
            io::copy(&mut fs::File::open(pack)?, &mut indexer)?;
            indexer.commit()?;
            owner::give_as_its_directory(&pack.with_extension("idx"))?;
        }
        Ok(packs.len())
    }

    /// Writes contents that git lost and the tree still has; returns their number. Damaged objects
    /// are renamed.
    ///
    /// # Errors
    /// `State` or `Git` when they cannot be written.
    pub fn restore_objects(&self, bad: &[BadObject]) -> HistoryResult<usize> {
        let mut restored = 0;
        for object in bad.iter().filter(|object| object.kind == "content" && !object.path.is_root()) {
            let file = self.root.join(object.path.as_str());
            let content = match fs::symlink_metadata(&file) {
                Ok(stat) if stat.is_file() => fs::read(&file)?,
                Ok(_) | Err(_) => continue,
            };
            if ETag::from_content(&content) != object.id {
                continue;
            }
            let name = object.oid()?.to_string();
            let loose = self.repository.commondir().join("objects").join(&name[..2]).join(&name[2..]);
            if loose.exists() {
                set_aside_in_git(self.repository.commondir(), &loose)?;
            }
            // A new handle: the open one caches what it read.
            git2::Repository::open(&self.root)?.blob(&content)?;
            owner::give_as_its_directory(&loose)?;
            restored += 1;
        }
        Ok(restored)
    }

    /// Resets a branch that is unreadable, or at a missing commit, to the commit of the last
    /// checkpoint; true when it did. The log replays later commits.
    ///
    /// # Errors
    /// `State` or `Git` when it cannot be written.
    pub fn repair_branch(&self, checkpoint: CommitId) -> HistoryResult<bool> {
        let is_unusable = match head_of(&self.repository) {
            Ok(Some(head)) => !self.missing_commits(&[head])?.is_empty(),
            Ok(None) => false,
            Err(StoreError::Git(error)) if error.class() == ErrorClass::Reference => true,
            Err(error) => return Err(error),
        };
        if !is_unusable || !self.missing_commits(&[checkpoint])?.is_empty() {
            return Ok(false);
        }
        let Ok(name) = current_reference(&self.repository) else { return Ok(false) };
        let file = self.repository.commondir().join(&name);
        if name == "HEAD" || !file.is_file() {
            return Ok(false);
        }
        set_aside_in_git(self.repository.commondir(), &file)?;
        self.repository.reference(&name, oid(checkpoint)?, true, "svcfs: the branch could not be read")?;
        Ok(true)
    }
}

/// Repairs a missing or damaged `HEAD`: it gets the branch that contains the commit of the
/// checkpoint, or the only branch. Returns its name; none when no branch can be chosen, or nothing
/// is wrong.
///
/// # Errors
/// `State` or `Git` when it cannot be written.
pub fn repair_head(root: &Path, checkpoint: Option<CommitId>) -> HistoryResult<Option<String>> {
    let git = root.join(".git");
    let head = git.join("HEAD");
    if !git.join("objects").is_dir() || !git.join("refs").is_dir() || is_valid_head(&head) {
        return Ok(None);
    }
    let before = if head.exists() { Some(set_aside_in_git(&git, &head)?) } else { None };
    fs::write(&head, "ref: refs/heads/main\n")?;
    let choice = RepoInspection::open(root).and_then(|inspection| match inspection {
        Some(inspection) => choose_branch(&inspection, checkpoint),
        None => Ok(None),
    });
    match choice {
        Ok(Some(name)) => {
            fs::write(&head, format!("ref: {name}\n"))?;
            owner::give_as_its_directory(&head)?;
            Ok(Some(name))
        }
        outcome => {
            match before {
                Some(before) => fs::rename(before, &head)?,
                None => fs::remove_file(&head)?,
            }
            outcome
        }
    }
}

fn choose_branch(inspection: &RepoInspection, checkpoint: Option<CommitId>) -> HistoryResult<Option<String>> {
    let branches = inspection.branches()?;
    let contains_checkpoint =
        |tip: CommitId| checkpoint.is_some_and(|checkpoint| inspection.contains(tip, checkpoint).unwrap_or(false));
    let candidates: Vec<_> =
        branches.iter().filter(|(_, tip)| contains_checkpoint(*tip)).map(|(name, _)| name).collect();
    let main = candidates.iter().find(|name| **name == "refs/heads/main");
    Ok(match (&candidates[..], &branches[..]) {
        ([only], _) => Some((*only).clone()),
        (_, [(only, _)]) => Some(only.clone()),
        _ => main.map(|name| (*name).clone()),
    })
}

/// Whether `HEAD` contains the name of a branch, or a commit.
fn is_valid_head(head: &Path) -> bool {
    let text = fs::read_to_string(head).unwrap_or_default();
    let text = text.trim();
    text.strip_prefix("ref: ").is_some_and(git2::Reference::is_valid_name)
        || text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_partial(entry: &fs::DirEntry) -> bool {
    let is_old = || {
        let modified = entry.metadata().and_then(|stat| stat.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age >= MIN_PARTIAL_AGE))
    };
    let name = entry.file_name();
    let name = name.to_str().unwrap_or_default();
    name.starts_with(super::super::pack::TEMPORARY)
        || ["tmp_", ".tmp-"].iter().any(|start| name.starts_with(start)) && is_old()
}

/// Moves a damaged file out of git's directories; returns the new path.
pub(in super::super) fn set_aside_in_git(git: &Path, file: &Path) -> io::Result<PathBuf> {
    let directory = git.join(DAMAGED_DIRECTORY);
    fs::create_dir_all(&directory)?;
    owner::give_as_its_directory(&directory)?;
    let name = file.strip_prefix(git).unwrap_or(file).to_string_lossy().replace('/', "-");
    set_aside(file, &directory.join(name))
}

/// Renames a damaged file to `name` with `.damaged-<number>` appended; returns the new path.
pub(crate) fn set_aside(file: &Path, name: &Path) -> io::Result<PathBuf> {
    let numbered = |number: u64| PathBuf::from(format!("{}.damaged-{number}", name.display()));
    let mut number = 1;
    while numbered(number).exists() {
        number += 1;
    }
    let renamed_path = numbered(number);
    match fs::rename(file, &renamed_path) {
        // Objects may be on another disk than `.git`.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::copy(file, &renamed_path)?;
            fs::remove_file(file)?;
        }
        renamed => renamed?,
    }
    Ok(renamed_path)
}

fn remove_if_exists(file: &Path) -> HistoryResult<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
