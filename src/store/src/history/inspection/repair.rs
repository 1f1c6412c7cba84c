//! What can be mended without losing anything: nothing is removed but locks of the dead and files nobody will ever finish.
//! What is damaged is moved aside under a name of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::ErrorClass;
use svcfs_base::{CommitId, ETag};

use super::{BadObject, GitLock, RepoInspection};
use crate::StoreError;
use crate::history::{HistoryResult, current_reference, head_of, oid, owner};

/// Temporary files of git are left alone for so long: their git may be at work.
const UNFINISHED: std::time::Duration = std::time::Duration::from_secs(3600);

/// Where damaged files of git are kept, in `.git`.
const DAMAGED: &str = "damaged";

impl RepoInspection {
    /// Removes a lock whose process is gone.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn remove_lock(&self, lock: &GitLock) -> HistoryResult<()> {
        if lock.is_stale() { removed(&lock.path) } else { Ok(()) }
    }

    /// Files in `.git/objects` that a killed process never finished, our own and those of git.
    pub fn partial_files(&self) -> Vec<PathBuf> {
        let objects = self.repository.commondir().join("objects");
        let directories = fs::read_dir(&objects).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = directories.flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
        let mut found: Vec<_> = files.filter(is_unfinished).map(|entry| entry.path()).collect();
        found.sort();
        found
    }

    /// Removes what [`Inspection::unfinished`] found.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn remove_partial_files(&self) -> HistoryResult<usize> {
        let files = self.partial_files();
        files.iter().try_for_each(|file| removed(file))?;
        Ok(files.len())
    }

    /// Makes the indexes of [`Inspection::packs_without_index`] anew; how many.
    ///
    /// # Errors
    /// `State`, `Git` when a pack cannot be read, or its index not be written.
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

    /// Writes contents that git lost and the tree still has; how many. What stands in their place is moved aside.
    ///
    /// # Errors
    /// `State`, `Git` when they cannot be written.
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
            // Not by way of the handle that is open, which remembers what it saw.
            git2::Repository::open(&self.root)?.blob(&content)?;
            owner::give_as_its_directory(&loose)?;
            restored += 1;
        }
        Ok(restored)
    }

    /// Puts a branch that cannot be read, or names a commit that git does not have, back to the newest settled commit; true when it was.
    /// The log brings what came after.
    ///
    /// # Errors
    /// `State`, `Git` when it cannot be written.
    pub fn repair_branch(&self, settled: CommitId) -> HistoryResult<bool> {
        let is_lost = match head_of(&self.repository) {
            Ok(Some(head)) => !self.missing_commits(&[head])?.is_empty(),
            Ok(None) => false,
            Err(StoreError::Git(error)) if error.class() == ErrorClass::Reference => true,
            Err(error) => return Err(error),
        };
        if !is_lost || !self.missing_commits(&[settled])?.is_empty() {
            return Ok(false);
        }
        let Ok(name) = current_reference(&self.repository) else { return Ok(false) };
        let file = self.repository.commondir().join(&name);
        if name == "HEAD" || !file.is_file() {
            return Ok(false);
        }
        set_aside_in_git(self.repository.commondir(), &file)?;
        self.repository.reference(&name, oid(settled)?, true, "svcfs: the branch could not be read")?;
        Ok(true)
    }
}

/// Makes `HEAD` name a branch again when it is gone or says nothing: the one that has `settled`, or the only one. Its name; none
/// when it cannot be told which, or nothing is wrong with it.
///
/// # Errors
/// `State`, `Git` when it cannot be written.
pub fn repair_head(root: &Path, settled: Option<CommitId>) -> HistoryResult<Option<String>> {
    let git = root.join(".git");
    let head = git.join("HEAD");
    if !git.join("objects").is_dir() || !git.join("refs").is_dir() || is_a_head(&head) {
        return Ok(None);
    }
    let before = if head.exists() { Some(set_aside_in_git(&git, &head)?) } else { None };
    fs::write(&head, "ref: refs/heads/main\n")?;
    let chosen = RepoInspection::open(root).and_then(|inspection| match inspection {
        Some(inspection) => chosen(&inspection, settled),
        None => Ok(None),
    });
    match chosen {
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

fn chosen(inspection: &RepoInspection, settled: Option<CommitId>) -> HistoryResult<Option<String>> {
    let branches = inspection.branches()?;
    let has_it = |tip: CommitId| settled.is_some_and(|settled| inspection.contains(tip, settled).unwrap_or(false));
    let ours: Vec<_> = branches.iter().filter(|(_, tip)| has_it(*tip)).map(|(name, _)| name).collect();
    let main = ours.iter().find(|name| **name == "refs/heads/main");
    Ok(match (&ours[..], &branches[..]) {
        ([only], _) => Some((*only).clone()),
        (_, [(only, _)]) => Some(only.clone()),
        _ => main.map(|name| (*name).clone()),
    })
}

/// Whether `HEAD` says what it should: the name of a branch, or a commit.
fn is_a_head(head: &Path) -> bool {
    let text = fs::read_to_string(head).unwrap_or_default();
    let text = text.trim();
    text.strip_prefix("ref: ").is_some_and(git2::Reference::is_valid_name)
        || text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_unfinished(entry: &fs::DirEntry) -> bool {
    let is_old = || {
        let modified = entry.metadata().and_then(|stat| stat.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age >= UNFINISHED))
    };
    let name = entry.file_name();
    let name = name.to_str().unwrap_or_default();
    name.starts_with(super::super::pack::TEMPORARY)
        || ["tmp_", ".tmp-"].iter().any(|start| name.starts_with(start)) && is_old()
}

/// Moves a damaged file of git to where git does not take it for one of its own; its new place.
pub(in super::super) fn set_aside_in_git(git: &Path, file: &Path) -> io::Result<PathBuf> {
    let directory = git.join(DAMAGED);
    fs::create_dir_all(&directory)?;
    owner::give_as_its_directory(&directory)?;
    let name = file.strip_prefix(git).unwrap_or(file).to_string_lossy().replace('/', "-");
    set_aside(file, &directory.join(name))
}

/// Gives a damaged file another name, `.damaged-<number>` behind the one it should have; which one.
pub(crate) fn set_aside(file: &Path, name: &Path) -> io::Result<PathBuf> {
    let numbered = |number: u64| PathBuf::from(format!("{}.damaged-{number}", name.display()));
    let mut number = 1;
    while numbered(number).exists() {
        number += 1;
    }
    let aside = numbered(number);
    match fs::rename(file, &aside) {
        // Objects may lie on another disk than `.git`.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::copy(file, &aside)?;
            fs::remove_file(file)?;
        }
        renamed => renamed?,
    }
    Ok(aside)
}

fn removed(file: &Path) -> HistoryResult<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
