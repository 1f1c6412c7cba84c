//! Packs written anew, because a flush of them failed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use svcfs_base::Timestamp;

use super::batch::put;
use super::torn::MAX_CLOCK_ERROR;
use super::{History, Outcome, is_whole, remove};

/// What is larger was flushed by whoever made it: we when we merged it, git when somebody packed.
const MAX_BYTES: u64 = 256 << 20;

impl History {
    /// Writes every pack anew that was written at or after `since`: its bytes may be in memory only, although the disk says
    /// otherwise. One that is not whole is taken away; the log brings its objects again. How many were.
    ///
    /// # Errors
    /// `State` when one cannot be read, written or removed.
    pub fn renew_packs(&self, since: Timestamp) -> Outcome<usize> {
        let writer = self.writer.lock();
        self.spares.clear();
        self.branches.clear();
        let directory = writer.repository.commondir().join("objects/pack");
        let since = SystemTime::from(since).checked_sub(MAX_CLOCK_ERROR).unwrap_or(SystemTime::UNIX_EPOCH);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries.collect::<Result<Vec<_>, _>>()?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let mut lost = 0;
        for index in entries.iter().map(fs::DirEntry::path) {
            let name = index.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.starts_with("pack-") || !name.ends_with(".idx") || !is_since(&index, since) || is_large(&index) {
                continue;
            }
            let files = [index.with_extension("pack"), index.clone()];
            if files.iter().all(|file| is_whole(file, SystemTime::UNIX_EPOCH).unwrap_or(false)) {
                for file in &files {
                    put(&self.fail, file, None, std::iter::once(&*fs::read(file)?))?;
                }
            } else {
                remove(&index)?;
                lost += 1;
            }
        }
        Ok(lost)
    }
}

/// Whether a file was written at or after a moment; one that cannot be asked may have been.
fn is_since(file: &Path, since: SystemTime) -> bool {
    fs::metadata(file).and_then(|stat| stat.modified()).is_ok_and(|modified| modified >= since)
}

fn is_large(index: &Path) -> bool {
    fs::metadata(index.with_extension("pack")).is_ok_and(|stat| stat.len() > MAX_BYTES)
}
