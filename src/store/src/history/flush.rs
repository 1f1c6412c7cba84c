//! Flushes that the flush of the root does not include, or that must come earlier.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::read::is_no_entry;
use super::{ForeignCommit, History, HistoryResult, current_reference, oid};
use crate::FailPoint;

/// More commits and files are flushed with the complete disk.
const MAX_SINGLE_FLUSHES: usize = 100;

impl History {
    /// Directories of the repository on other disks than the root.
    pub fn other_disks(&self) -> &[File] {
        &self.other_disks
    }

    /// Flushes external commits and the branch. git does not flush loose objects: if they were lost
    /// in a power failure, all commits on top of them would be, too.
    ///
    /// # Errors
    /// `State` with the system error; `Git` when one of the commits cannot be read.
    pub fn flush_commits(&self, commits: &[ForeignCommit]) -> HistoryResult<()> {
        if commits.iter().map(|commit| 1 + commit.entries.len()).sum::<usize>() > MAX_SINGLE_FLUSHES {
            return self.flush_all();
        }
        self.fail.check(FailPoint::AdoptFlush)?;
        let (mut files, packs) = self.reader(|repository| {
            let objects =
                commits.iter().map(|commit| commit_objects(repository, commit)).collect::<HistoryResult<Vec<_>>>()?;
            let loose_files = objects.into_iter().flatten().map(|object| loose_path(repository, object));
            let branch = repository.commondir().join(current_reference(repository)?);
            Ok((loose_files.chain([branch]).collect::<BTreeSet<_>>(), repository.commondir().join("objects/pack")))
        })?;
        files.extend([self.git_dir.join("HEAD"), self.git_dir.join("logs/HEAD")]);
        let mut folders = BTreeSet::from([packs.as_path()]);
        for file in
            files.iter().filter_map(|file| flush_if_exists(file).map(|exists| exists.then_some(file)).transpose())
        {
            folders.extend(file?.ancestors().skip(1).take(2));
        }
        Ok(folders.into_iter().try_for_each(|directory| flush_if_exists(directory).map(drop))?)
    }

    /// Flushes the complete repository.
    pub fn flush_all(&self) -> HistoryResult<()> {
        self.fail.check(FailPoint::AdoptFlush)?;
        let root = File::open(&self.root)?;
        let mut disks = self.other_disks.iter().chain([&root]);
        Ok(disks.try_for_each(rustix::fs::syncfs).map_err(io::Error::from)?)
    }
}

/// Flushes a file or directory; false when it does not exist: objects in a pack and packed
/// references, which git flushes.
fn flush_if_exists(path: &Path) -> io::Result<bool> {
    match File::open(path).and_then(|file| file.sync_all()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file of a loose object.
pub(super) fn loose_path(repository: &Repository, object: Oid) -> PathBuf {
    let name = object.to_string();
    let (prefix, file) = name.split_at(2);
    repository.commondir().join("objects").join(prefix).join(file)
}

/// A commit, the directories above its changed files, and their contents.
fn commit_objects(repository: &Repository, commit: &ForeignCommit) -> HistoryResult<BTreeSet<Oid>> {
    let commit_object = repository.find_commit(oid(commit.commit)?)?;
    let tree = commit_object.tree()?;
    let mut objects = BTreeSet::from([commit_object.id(), tree.id()]);
    for entry in &commit.entries {
        if let Some(blob) = entry.new {
            objects.insert(Oid::from_bytes(blob.as_bytes())?);
        }
        let above = Path::new(entry.path.as_str()).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        for parent in above {
            match tree.get_path(parent) {
                Ok(entry) => drop(objects.insert(entry.id())),
                // Removed with the last file in it.
                Err(error) if is_no_entry(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(objects)
}

/// One directory on each disk of the repository that is not the disk of the root.
pub(super) fn other_disks(repository: &Repository, root: &Path) -> HistoryResult<Vec<File>> {
    let mut disks = vec![fs::metadata(root)?.dev()];
    let mut directories = Vec::new();
    let common = repository.commondir();
    for directory in [repository.path(), common, &common.join("objects")] {
        let directory = File::open(directory)?;
        let disk = directory.metadata()?.dev();
        if !disks.contains(&disk) {
            disks.push(disk);
            directories.push(directory);
        }
    }
    Ok(directories)
}
