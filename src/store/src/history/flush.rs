//! Flushing what the flush of the root does not bring to the disk, or does too late.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use git2::Repository;

use super::{History, Outcome};
use crate::FailPoint;

impl History {
    /// Folders of the repository that lie on other disks than the root.
    pub fn elsewhere(&self) -> &[File] {
        &self.elsewhere
    }

    /// Flushes what somebody else committed. git leaves its objects to the system, one file each: lost with the power they would take along
    /// whatever was built on them.
    ///
    /// # Errors
    /// `State` with what the disk said.
    pub fn flush_others(&self) -> Outcome<()> {
        self.fail.at(FailPoint::AdoptFlush)?;
        let objects = self.writer.lock().repository.commondir().join("objects");
        Ok(rustix::fs::syncfs(File::open(objects)?).map_err(io::Error::from)?)
    }
}

/// One folder on each of the disks that a repository lies on and its root does not.
pub(super) fn elsewhere(repository: &Repository, root: &Path) -> Outcome<Vec<File>> {
    let mut disks = vec![fs::metadata(root)?.dev()];
    let mut found = Vec::new();
    for folder in
        [repository.path().to_owned(), repository.commondir().to_owned(), repository.commondir().join("objects")]
    {
        let folder = File::open(folder)?;
        let disk = folder.metadata()?.dev();
        if !disks.contains(&disk) {
            disks.push(disk);
            found.push(folder);
        }
    }
    Ok(found)
}
