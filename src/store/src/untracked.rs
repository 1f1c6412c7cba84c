//! Files that a person left untracked when the root was set up (`--adopt=tracked`).
//!
//! Invariant: a file counts as left alone only while it has the recorded size and time. Any write
//! makes it an ordinary file again; nothing has to be updated then.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use svcfs_base::TreePath;

use crate::history::give_below;
use crate::{FileRights, FileStat, STATE_DIRECTORY, StatePaths, StoreError, replace_file};

/// The files, by path.
#[derive(Debug, Default)]
pub struct UntrackedFiles(HashMap<TreePath, FileVersion>);

/// Size and modification time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct FileVersion {
    size: u64,
    /// Nanoseconds since 1970; earlier times count as 0.
    modified: u64,
}

impl FileVersion {
    fn new(size: u64, modified: SystemTime) -> Self {
        let since_epoch = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { size, modified: u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX) }
    }
}

impl UntrackedFiles {
    /// Reads the files of a root; none unless they were recorded.
    ///
    /// # Errors
    /// `State` when they cannot be read, `Damaged` when they cannot be decoded.
    pub fn load(paths: &StatePaths) -> Result<Self, StoreError> {
        let file = paths.untracked();
        let bytes = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            outcome => outcome?,
        };
        let damaged = |reason: String| {
            StoreError::Damaged(format!(
                "`{}`, the list of files left untracked: {reason}; remove it to commit those files",
                file.display()
            ))
        };
        let files: Vec<(String, FileVersion)> =
            postcard::from_bytes(&bytes).map_err(|error| damaged(error.to_string()))?;
        let parse = |(path, version): (String, FileVersion)| {
            Ok((TreePath::parse(&path).map_err(|fault| damaged(fault.message().to_owned()))?, version))
        };
        files.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Records the files of a root, durably; creates its state directory.
    ///
    /// # Errors
    /// The error of the disk; nothing is recorded then.
    pub fn record<'f>(
        paths: &StatePaths,
        files: impl Iterator<Item = (&'f TreePath, u64, SystemTime)>,
    ) -> Result<(), StoreError> {
        let files: Vec<_> =
            files.map(|(path, size, modified)| (path.as_str(), FileVersion::new(size, modified))).collect();
        let bytes = postcard::to_allocvec(&files).map_err(io::Error::other)?;
        fs::create_dir_all(paths.directory())?;
        give_below(paths.root(), STATE_DIRECTORY)?;
        replace_file(&paths.untracked(), &bytes, FileRights::Preserve)?;
        Ok(())
    }

    /// Whether a path was recorded, whatever its file is now.
    pub fn contains(&self, path: &TreePath) -> bool {
        self.0.contains_key(path)
    }

    /// Whether a recorded file was not written since.
    pub fn is_unmodified(&self, path: &TreePath, stat: &FileStat) -> bool {
        self.0.get(path).is_some_and(|recorded| *recorded == FileVersion::new(stat.size, stat.modified))
    }
}
