//! Contents too large for the database, in separate files until the checkpoint.
//!
//! Invariant: a file is flushed before the record that needs it. Its name contains the record's
//! position and the hash: a refused record may come back after a crash, and must not find the
//! content of the record that took its position.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use svcfs_base::{ETag, Seq};

use super::{LogRecord, LogResult};
use crate::{FailPoint, FailPoints, StoreError};

/// Larger contents, in bytes, are stored in a separate file.
pub(super) const MAX_INLINE_BYTES: usize = 1 << 20;

/// Whether a content is stored in a separate file.
pub(super) const fn is_large(content: &[u8]) -> bool {
    content.len() > MAX_INLINE_BYTES
}

/// The spool files of one log.
#[derive(Debug, Clone)]
pub(super) struct SpoolFiles {
    directory: PathBuf,
    fail: FailPoints,
}

impl SpoolFiles {
    pub(super) fn new(directory: PathBuf, fail: FailPoints) -> Self {
        Self { directory, fail }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes and flushes the large contents of records.
    pub(super) fn write(&self, records: &[LogRecord]) -> LogResult<()> {
        let mut is_any = false;
        for (name, content) in large_contents(records) {
            self.fail.check(FailPoint::LogSpool)?;
            // Not over a file of the same name: a refused record may need that.
            let temporary = self.directory.join(format!("{name}-new"));
            let mut file = File::create(&temporary)?;
            file.write_all(content)?;
            self.fail.check(FailPoint::LogSpoolFlush)?;
            file.sync_all()?;
            fs::rename(temporary, self.directory.join(name))?;
            is_any = true;
        }
        if is_any {
            File::open(&self.directory)?.sync_all()?;
        }
        Ok(())
    }

    /// Removes the large contents of refused records.
    pub(super) fn remove(&self, records: &[LogRecord]) {
        for (name, _) in large_contents(records) {
            // Best effort: a file without a record is removed by the sweep at the next open.
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Reads the large content of an entry of a record.
    ///
    /// # Errors
    /// `State` when it cannot be read.
    pub(super) fn read(&self, seq: Seq, ordinal: i64, content: Option<ETag>) -> LogResult<Bytes> {
        let content_bytes = match fs::read(self.directory.join(file_name(seq, ordinal, content))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::read(self.directory.join(old_file_name(seq, ordinal)))
            }
            outcome => outcome,
        };
        let content_bytes: Bytes = content_bytes?.into();
        match content {
            Some(etag) if ETag::from_content(&content_bytes) != etag => {
                Err(StoreError::Damaged(format!("the spool file of record {seq} is damaged")))
            }
            Some(_) | None => Ok(content_bytes),
        }
    }

    /// Removes the files of records selected by `is_obsolete`, and other files.
    pub(super) fn sweep(&self, is_obsolete: impl Fn(Seq) -> bool) -> LogResult<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let seq = entry.file_name().to_str().and_then(|name| name.split('-').next()?.parse().ok()).map(Seq);
            if seq.is_none_or(&is_obsolete) {
                self.fail.check(FailPoint::CheckpointSpool)?;
                match fs::remove_file(entry.path()) {
                    // A concurrent disk probe removed its file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }
}

fn large_contents(records: &[LogRecord]) -> impl Iterator<Item = (String, &Bytes)> {
    records.iter().flat_map(|record| {
        let entries = record.entries.iter().zip(0_i64..);
        let contents = entries.filter_map(|(entry, ordinal)| Some((entry, entry.content.as_ref()?, ordinal)));
        contents
            .filter(|(_, content, _)| is_large(content))
            .map(|(entry, content, ordinal)| (file_name(record.seq, ordinal, entry.new), content))
    })
}

/// The file name of the large content of an entry.
pub(super) fn file_name(seq: Seq, ordinal: i64, content: Option<ETag>) -> String {
    content.map_or_else(|| old_file_name(seq, ordinal), |content| format!("{seq}-{ordinal}-{content}"))
}

/// The file name in schemas before 7.
pub(super) fn old_file_name(seq: Seq, ordinal: i64) -> String {
    format!("{seq}-{ordinal}")
}
