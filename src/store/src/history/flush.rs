//! Flushing what the flush of the root does not bring to the disk, or does too late.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::read::is_no_entry;
use super::{ForeignCommit, History, HistoryResult, current_reference, oid};
use crate::FailPoint;

/// So many commits and files are flushed one by one; more of them with all that the disk has.
const FEW: usize = 100;

impl History {
    /// Folders of the repository that lie on other disks than the root.
    pub fn other_disks(&self) -> &[File] {
        &self.elsewhere
    }

    /// Flushes what somebody else committed, and that the branch shows it. git leaves its objects to the system, one file each: lost with the
    /// power they would take along whatever was built on them.
    ///
    /// # Errors
    /// `State` with what the disk said; `Git` when one of the commits cannot be read.
    pub fn flush_commits(&self, commits: &[ForeignCommit]) -> HistoryResult<()> {
        if commits.iter().map(|commit| 1 + commit.entries.len()).sum::<usize>() > FEW {
            return self.flush_all();
        }
        self.fail.check(FailPoint::AdoptFlush)?;
        let (mut files, packs) = self.reader(|repository| {
            let objects =
                commits.iter().map(|commit| objects_of(repository, commit)).collect::<HistoryResult<Vec<_>>>()?;
            let loose = objects.into_iter().flatten().map(|object| loose(repository, object));
            let branch = repository.commondir().join(current_reference(repository)?);
            Ok((loose.chain([branch]).collect::<BTreeSet<_>>(), repository.commondir().join("objects/pack")))
        })?;
        files.extend([self.folder.join("HEAD"), self.folder.join("logs/HEAD")]);
        let mut folders = BTreeSet::from([packs.as_path()]);
        for file in files.iter().filter_map(|file| is_flushed(file).map(|there| there.then_some(file)).transpose()) {
            folders.extend(file?.ancestors().skip(1).take(2));
        }
        Ok(folders.into_iter().try_for_each(|folder| is_flushed(folder).map(drop))?)
    }

    /// Flushes whatever git has.
    ///
    /// # Errors
    /// `State` with what the disk said.
    pub fn flush_all(&self) -> HistoryResult<()> {
        self.fail.check(FailPoint::AdoptFlush)?;
        let root = File::open(&self.root)?;
        let mut disks = self.elsewhere.iter().chain([&root]);
        Ok(disks.try_for_each(rustix::fs::syncfs).map_err(io::Error::from)?)
    }
}

/// Flushes a file or a folder; false when it is not there: in a pack, or packed with other references, which git flushes by itself.
fn is_flushed(path: &Path) -> io::Result<bool> {
    match File::open(path).and_then(|file| file.sync_all()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file of an object that is in no pack.
pub(super) fn loose(repository: &Repository, object: Oid) -> PathBuf {
    let name = object.to_string();
    let (folder, file) = name.split_at(2);
    repository.commondir().join("objects").join(folder).join(file)
}

/// A commit, the directories on the way to what it changed, and its contents.
fn objects_of(repository: &Repository, commit: &ForeignCommit) -> HistoryResult<BTreeSet<Oid>> {
    let found = repository.find_commit(oid(commit.commit)?)?;
    let tree = found.tree()?;
    let mut objects = BTreeSet::from([found.id(), tree.id()]);
    for entry in &commit.entries {
        if let Some(blob) = entry.new {
            objects.insert(Oid::from_bytes(blob.as_bytes())?);
        }
        let above = Path::new(entry.path.as_str()).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        for directory in above {
            match tree.get_path(directory) {
                Ok(there) => drop(objects.insert(there.id())),
                // Gone with the last file that was in it.
                Err(error) if is_no_entry(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(objects)
}

/// One folder on each of the disks that a repository lies on and its root does not.
pub(super) fn elsewhere(repository: &Repository, root: &Path) -> HistoryResult<Vec<File>> {
    let mut disks = vec![fs::metadata(root)?.dev()];
    let mut found = Vec::new();
    let common = repository.commondir();
    for folder in [repository.path(), common, &common.join("objects")] {
        let folder = File::open(folder)?;
        let disk = folder.metadata()?.dev();
        if !disks.contains(&disk) {
            disks.push(disk);
            found.push(folder);
        }
    }
    Ok(found)
}
