//! What a crash left of packs.

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
use super::{CHECKSUM_BYTES, History, HistoryResult, KEEP, MARK, TEMPORARY, keep_aside, remove};
use crate::StoreError;

/// How far the clock may have been wrong before a crash.
pub(super) const MAX_CLOCK_ERROR: Duration = Duration::from_secs(86_400);
const READ_AHEAD: usize = 128 << 10;

impl History {
    /// Takes away what a crash left of packs whose bytes may not have reached the disk: those that no branch showed yet (a `.keep`
    /// file of ours says so), and those written at or after `since`, which are kept in `.git/damaged`: one of them may be somebody's. How
    /// many. What the log has of their objects it brings again. Older packs are not doubted: a checkpoint flushed them.
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
        let named = |extension| files.iter().filter(move |file| file.extension().is_some_and(|own| own == extension));
        let mut swept = 0;
        let mark = fs::metadata(directory.with_file_name(MARK)).ok();
        for keep in named("keep").filter(|keep| is_ours(keep, mark.as_ref())) {
            let index = keep.with_extension("idx");
            if is_torn(&index, SystemTime::UNIX_EPOCH)? {
                remove(&index)?;
                swept += 1;
            }
            fs::remove_file(keep)?;
        }
        if let Some(since) = since {
            let since = SystemTime::from(since).checked_sub(MAX_CLOCK_ERROR).unwrap_or(SystemTime::UNIX_EPOCH);
            for index in named("idx") {
                if is_torn(index, since)? {
                    keep_aside(writer.repository.commondir(), index)?;
                    swept += 1;
                }
            }
        }
        if swept > 0 {
            // libgit2 believes in packs that it has met.
            writer.repository = Repository::open(&self.root)?;
            self.readers.lock().clear();
        }
        Ok(swept)
    }
}

/// Whether a `.keep` file is ours: a further name of our mark, whatever a power cut left in it, or one that says so.
fn is_ours(keep: &Path, mark: Option<&Metadata>) -> bool {
    let is_it =
        |mark: &Metadata| fs::metadata(keep).is_ok_and(|own| (own.dev(), own.ino()) == (mark.dev(), mark.ino()));
    mark.is_some_and(is_it) || fs::read(keep).is_ok_and(|text| text == KEEP.as_bytes())
}

/// Whether there is anything of a pack, and it is not whole; one that is older than what is doubted is not looked at.
fn is_torn(index: &Path, since: SystemTime) -> HistoryResult<bool> {
    let is_there = index.try_exists()? || index.with_extension("pack").try_exists()?;
    let is_torn = is_there && !are_whole(index, since).inspect_err(|error| warn_of(index, error))?;
    Ok(is_torn)
}

/// What cannot be read is neither whole nor torn: it stays, and whoever wanted to know goes no further.
pub(super) fn warn_of(index: &Path, error: &StoreError) {
    warn!(file = %index.display(), %error, "a pack of git cannot be looked at or written anew; it is left as it is");
}

/// Whether a pack and its index are whole, and of each other. Each may be whole and another's: files are used again, and a power cut may
/// leave one under its old name.
fn are_whole(index: &Path, since: SystemTime) -> HistoryResult<bool> {
    let data = index.with_extension("pack");
    if !(is_whole(index, since)? && is_whole(&data, since)?) {
        return Ok(false);
    }
    // Read together or not at all: files of one pack are as old as each other.
    let is_old = |file: &Path| fs::metadata(file).and_then(|stat| stat.modified()).is_ok_and(|time| time < since);
    if is_old(index) && is_old(&data) {
        return Ok(true);
    }
    are_of_each_other(index)
}

/// Whether a pack is the one of which its index tells; both end as they should.
pub(super) fn are_of_each_other(index: &Path) -> HistoryResult<bool> {
    let Some(told) = PackIndex::open(index)? else {
        // Of a size that we do not make.
        return Ok(true);
    };
    let mut file = File::open(index.with_extension("pack"))?;
    let mut checksum = [0; CHECKSUM_BYTES];
    file.seek(SeekFrom::End(-(CHECKSUM_BYTES as i64)))?;
    file.read_exact(&mut checksum)?;
    Ok(checksum == told.checksum)
}

/// Takes away files under temporary names: of a process that ended while it wrote them, perhaps large ones.
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

/// Whether a file ends in the checksum of what stands before it, as packs and their indexes do. Not read when it is older.
pub(in super::super) fn is_whole(file: &Path, since: SystemTime) -> HistoryResult<bool> {
    match fs::metadata(file).and_then(|stat| stat.modified()) {
        Ok(modified) if modified < since => return Ok(true),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    match File::open(file) {
        Ok(file) => Ok(read_through(file, |_| Ok(()))?),
        // Taken away in this moment.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reads a file to its end, and tells of each part; whether it ends in the checksum of what stands before it.
pub(super) fn read_through(file: File, mut part: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
    let Some(mut left) = file.metadata()?.len().checked_sub(CHECKSUM_BYTES as u64) else { return Ok(false) };
    let mut reader = BufReader::with_capacity(READ_AHEAD, file);
    let mut hasher = Sha1::new();
    loop {
        let bytes = reader.fill_buf()?;
        let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 {
            break;
        }
        hasher.update(&bytes[..count]);
        part(&bytes[..count])?;
        reader.consume(count);
        left -= count as u64;
    }
    let mut checksum = [0; CHECKSUM_BYTES];
    match reader.read_exact(&mut checksum) {
        Ok(()) => part(&checksum)?,
        // Somebody cut it off meanwhile.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    Ok(hasher.finalize()[..] == checksum)
}
