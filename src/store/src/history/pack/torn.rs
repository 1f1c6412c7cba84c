//! Torn packs after a crash.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use git2::Repository;
use sha1::{Digest, Sha1};
use svcfs_base::Timestamp;
use tracing::warn;

use super::index::PackIndex;
use super::{CHECKSUM_BYTES, History, HistoryResult, KEEP_SOURCE, KEEP_TEXT, TEMPORARY, quarantine, remove};
use crate::StoreError;

/// Tolerated clock error before a crash.
pub(super) const MAX_CLOCK_ERROR: Duration = Duration::from_secs(86_400);
const BUFFER_BYTES: usize = 128 << 10;

impl History {
    /// Removes torn packs whose content may not have reached the disk: packs that no branch
    /// contained yet (with our `.keep` file) are deleted, packs written at or after `since` are
    /// moved to `.git/damaged`, because they may belong to git. Returns their number. The log
    /// replays its objects. Older packs were flushed by a checkpoint.
    ///
    /// # Errors
    /// `State` when one cannot be read or removed.
    pub fn remove_torn_packs(&self, since: Option<Timestamp>) -> HistoryResult<usize> {
        let mut writer = self.writer.lock();
        let directory = writer.repository.commondir().join("objects/pack");
        let files: Vec<_> = match fs::read_dir(&directory) {
            Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let with_extension =
            |extension| files.iter().filter(move |file| file.extension().is_some_and(|own| own == extension));
        let mut removed = 0;
        let keep_source = fs::metadata(directory.with_file_name(KEEP_SOURCE)).ok();
        for keep in with_extension("keep").filter(|keep| is_own_keep(keep, keep_source.as_ref())) {
            let index = keep.with_extension("idx");
            if is_torn(&index, SystemTime::UNIX_EPOCH)? {
                remove(&index)?;
                removed += 1;
            }
            fs::remove_file(keep)?;
        }
        if let Some(since) = since {
            let since = SystemTime::from(since).checked_sub(MAX_CLOCK_ERROR).unwrap_or(SystemTime::UNIX_EPOCH);
            for index in with_extension("idx") {
                if is_torn(index, since)? {
                    quarantine(writer.repository.commondir(), index)?;
                    removed += 1;
                }
            }
        }
        if removed > 0 {
            // libgit2 caches packs that it has opened.
            writer.repository = Repository::open(&self.root)?;
            self.readers.lock().clear();
        }
        Ok(removed)
    }
}

/// Whether a `.keep` file is ours: a hard link to our keep file, whatever its content after a power
/// failure, or one with our text.
fn is_own_keep(keep: &Path, keep_source: Option<&Metadata>) -> bool {
    let is_same_file = |keep_source: &Metadata| {
        fs::metadata(keep).is_ok_and(|own| (own.dev(), own.ino()) == (keep_source.dev(), keep_source.ino()))
    };
    keep_source.is_some_and(is_same_file) || fs::read(keep).is_ok_and(|text| text == KEEP_TEXT.as_bytes())
}

/// Whether files of a pack exist and are torn; packs older than `since` are not checked.
fn is_torn(index: &Path, since: SystemTime) -> HistoryResult<bool> {
    let exists = index.try_exists()? || index.with_extension("pack").try_exists()?;
    let is_torn = exists && !are_complete(index, since).inspect_err(|error| warn_unreadable(index, error))?;
    Ok(is_torn)
}

/// Logs an unreadable pack, which stays; the caller stops.
pub(super) fn warn_unreadable(index: &Path, error: &StoreError) {
    warn!(file = %index.display(), %error, "a git pack cannot be read or rewritten; it is left unchanged");
}

/// Whether pack and index are complete and belong together. After a power failure a recycled file
/// may be complete under its old name.
fn are_complete(index: &Path, since: SystemTime) -> HistoryResult<bool> {
    let data = index.with_extension("pack");
    if !(is_complete(index, since)? && is_complete(&data, since)?) {
        return Ok(false);
    }
    // Both or none: the files of a pack have the same age.
    let is_old = |file: &Path| fs::metadata(file).and_then(|stat| stat.modified()).is_ok_and(|time| time < since);
    if is_old(index) && is_old(&data) {
        return Ok(true);
    }
    belong_together(index)
}

/// Whether a complete pack and a complete index belong together.
pub(super) fn belong_together(index_path: &Path) -> HistoryResult<bool> {
    let Some(index) = PackIndex::open(index_path)? else {
        // Of a size that svcfs does not write.
        return Ok(true);
    };
    let mut file = File::open(index_path.with_extension("pack"))?;
    let mut checksum = [0; CHECKSUM_BYTES];
    file.seek(SeekFrom::End(-(CHECKSUM_BYTES as i64)))?;
    file.read_exact(&mut checksum)?;
    Ok(checksum == index.checksum)
}

/// Removes temporary files of killed processes, which may be large.
pub(in super::super) fn sweep_temporary(directory: &Path) -> HistoryResult<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a file ends in the checksum of its content, as packs and indexes do. Older files are not
/// read.
pub(in super::super) fn is_complete(file: &Path, since: SystemTime) -> HistoryResult<bool> {
    match fs::metadata(file).and_then(|stat| stat.modified()) {
        Ok(modified) if modified < since => return Ok(true),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    match File::open(file) {
        Ok(file) => Ok(read_verified(file, |_| Ok(()))?),
        // Removed at this moment.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reads a file, and passes each block to `on_block`; true if it ends in the checksum of its
/// content.
pub(super) fn read_verified(file: File, mut on_block: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
    let Some(mut remaining) = file.metadata()?.len().checked_sub(CHECKSUM_BYTES as u64) else { return Ok(false) };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut hasher = Sha1::new();
    loop {
        let bytes = reader.fill_buf()?;
        let count = bytes.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
        if count == 0 {
            break;
        }
        hasher.update(&bytes[..count]);
        on_block(&bytes[..count])?;
        reader.consume(count);
        remaining -= count as u64;
    }
    let mut checksum = [0; CHECKSUM_BYTES];
    match reader.read_exact(&mut checksum) {
        Ok(()) => on_block(&checksum)?,
        // Truncated meanwhile.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    Ok(hasher.finalize()[..] == checksum)
}
