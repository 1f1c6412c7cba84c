//! Records of long calls: one file per job below `.svc/state/jobs`.
//!
//! Invariant: a record is replaced atomically, so that after a crash it is the old or the new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::{FileRights, replace_file};

/// Extension of the files.
const EXTENSION: &str = "json";

/// The directory of the records.
#[derive(Debug)]
pub struct JobFiles {
    directory: PathBuf,
}

impl JobFiles {
    /// The records in a directory, which is created with the first one.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Writes a record. The id must consist of letters and digits.
    ///
    /// # Errors
    /// Those of the disk; `InvalidInput` for another id.
    pub fn write(&self, id: &str, record: &[u8]) -> io::Result<()> {
        let path = self.path(id).ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(&self.directory)?;
        replace_file(&path, record, FileRights::Mode(0o600))
    }

    /// Reads a record; none for an unknown id.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn read(&self, id: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(path) = self.path(id) else { return Ok(None) };
        match fs::read(path) {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes records older than `max_age`, and the oldest ones beyond `max`. A record that cannot
    /// be removed stays.
    ///
    /// # Errors
    /// Those of listing the directory.
    pub fn prune(&self, max_age: Duration, max: usize) -> io::Result<()> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        let now = SystemTime::now();
        let dated = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
        let mut records: Vec<(SystemTime, PathBuf)> = entries.flatten().filter_map(dated).collect();
        records.sort_unstable_by(|a, b| b.cmp(a));
        for (index, (modified, path)) in records.iter().enumerate() {
            let is_old = now.duration_since(*modified).is_ok_and(|age| age > max_age);
            if is_old || index >= max {
                let _stays = fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// The file of an id; none for a text that is no id.
    fn path(&self, id: &str) -> Option<PathBuf> {
        let is_id = !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_id.then(|| self.directory.join(id).with_extension(EXTENSION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_by_its_id_alone_and_pruned() {
        let directory = tempfile::tempdir().unwrap();
        let files = JobFiles::new(&directory.path().join("jobs"));
        assert_eq!(files.read("a1").unwrap(), None);
        files.prune(Duration::ZERO, 1).unwrap();
        files.write("a1", b"one").unwrap();
        files.write("a1", b"two").unwrap();
        assert_eq!(files.read("a1").unwrap().as_deref(), Some(&b"two"[..]));
        for id in ["", "../a1", "a1.json", "a/b", &"a".repeat(65)] {
            assert!(files.write(id, b"").is_err(), "{id}");
            assert_eq!(files.read(id).unwrap(), None, "{id}");
        }
        files.write("b2", b"three").unwrap();
        files.prune(Duration::from_secs(60), 1).unwrap();
        assert_eq!(["a1", "b2"].iter().filter(|id| files.read(id).unwrap().is_some()).count(), 1);
        files.prune(Duration::ZERO, 1).unwrap();
        assert_eq!(["a1", "b2"].iter().filter(|id| files.read(id).unwrap().is_some()).count(), 0);
    }
}
