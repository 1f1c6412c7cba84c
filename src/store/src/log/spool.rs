//! Contents too large for the database, in files of their own until they are settled.
//!
//! One rule: a file is there, and flushed, before the record that needs it. Its name tells whose it is and what is in it: a record
//! that was refused may come back after a crash, and must not find the content of the one that took its place.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use svcfs_base::{ETag, Seq};

use super::{LogRecord, LogResult};
use crate::{FailPoint, FailPoints, StoreError};

/// Contents above this many bytes go to a file of their own instead of the database.
pub(super) const ABOVE: usize = 1 << 20;

/// Whether a content has a file of its own.
pub(super) const fn is_large(content: &[u8]) -> bool {
    content.len() > ABOVE
}

/// The files of one log.
#[derive(Debug, Clone)]
pub(super) struct SpoolFiles {
    directory: PathBuf,
    fail: FailPoints,
}

impl SpoolFiles {
    pub(super) fn of(directory: PathBuf, fail: FailPoints) -> Self {
        Self { directory, fail }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes and flushes the large contents of records.
    pub(super) fn write(&self, records: &[LogRecord]) -> LogResult<()> {
        let mut is_any = false;
        for (name, content) in large(records) {
            self.fail.check(FailPoint::LogSpool)?;
            // Not in the place of one of the same name: a refused record may need that yet.
            let unfinished = self.directory.join(format!("{name}-new"));
            let mut file = File::create(&unfinished)?;
            file.write_all(content)?;
            self.fail.check(FailPoint::LogSpoolFlush)?;
            file.sync_all()?;
            fs::rename(unfinished, self.directory.join(name))?;
            is_any = true;
        }
        if is_any {
            File::open(&self.directory)?.sync_all()?;
        }
        Ok(())
    }

    /// Removes the large contents of records that were refused.
    pub(super) fn remove(&self, records: &[LogRecord]) {
        for (name, _) in large(records) {
            // Best effort: a file without a record is swept at the next opening.
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// The large content of an entry of a record.
    ///
    /// # Errors
    /// `State` when it cannot be read.
    pub(super) fn read(&self, seq: Seq, ordinal: i64, content: Option<ETag>) -> LogResult<Bytes> {
        let read = match fs::read(self.directory.join(name_of(seq, ordinal, content))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::read(self.directory.join(earlier_name_of(seq, ordinal)))
            }
            outcome => outcome,
        };
        let read: Bytes = read?.into();
        match content {
            Some(etag) if ETag::from_content(&read) != etag => {
                Err(StoreError::Damaged(format!("a large content of record {seq} is not what was logged")))
            }
            Some(_) | None => Ok(read),
        }
    }

    /// Removes files by the record they belong to, and what is none.
    pub(super) fn sweep(&self, is_over: impl Fn(Seq) -> bool) -> LogResult<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let logged = entry.file_name().to_str().and_then(|name| name.split('-').next()?.parse().ok()).map(Seq);
            if logged.is_none_or(&is_over) {
                self.fail.check(FailPoint::CheckpointSpool)?;
                match fs::remove_file(entry.path()) {
                    // Whoever looked whether the disk takes writes took it away again.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }
}

fn large(records: &[LogRecord]) -> impl Iterator<Item = (String, &Bytes)> {
    records.iter().flat_map(|record| {
        let entries = record.entries.iter().zip(0_i64..);
        let contents = entries.filter_map(|(entry, ordinal)| Some((entry, entry.content.as_ref()?, ordinal)));
        contents
            .filter(|(_, content, _)| is_large(content))
            .map(|(entry, content, ordinal)| (name_of(record.seq, ordinal, entry.new), content))
    })
}

/// Under which name the large content of an entry lies.
pub(super) fn name_of(seq: Seq, ordinal: i64, content: Option<ETag>) -> String {
    content.map_or_else(|| earlier_name_of(seq, ordinal), |content| format!("{seq}-{ordinal}-{content}"))
}

/// Under which name logs of forms before 7 have it.
pub(super) fn earlier_name_of(seq: Seq, ordinal: i64) -> String {
    format!("{seq}-{ordinal}")
}
