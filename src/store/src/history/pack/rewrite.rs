//! Packs written anew, because a flush of them failed.
//!
//! One rule: a pack may be all there is of what it has. Its copy is on the disk, and is what it should be, before it takes its place; and
//! what cannot be read stays where it is.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use git2::Repository;
use svcfs_base::Timestamp;

use super::temp_pack::TempPack;
use super::torn::{MAX_CLOCK_ERROR, are_of_each_other, read_through, warn_of};
use super::{History, HistoryResult, TEMPORARY, keep_aside};
use crate::FailPoint;
use crate::history::PackWriter;

/// What is larger was flushed by whoever made it: we when we merged it, git when somebody packed.
const MAX_BYTES: u64 = 256 << 20;

impl History {
    /// Writes every pack anew, and flushes it, that was written at or after `since` and that no flush brought to the disk: its bytes may be
    /// in memory only, although the disk says otherwise. One that was read and is not whole is kept in `.git/damaged`; the log brings its
    /// objects again. How many were, in this attempt or an earlier one; until [`History::made_again`] says that nothing is missing any more.
    ///
    /// # Errors
    /// `State` when one cannot be read, written or moved.
    pub fn rewrite_unsynced_packs(&self, since: Timestamp) -> HistoryResult<usize> {
        let mut writer = self.writer.lock();
        self.spares.clear();
        self.branches.clear();
        let directory = writer.repository.commondir().join("objects/pack");
        let since = SystemTime::from(since).checked_sub(MAX_CLOCK_ERROR).unwrap_or(SystemTime::UNIX_EPOCH);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries.collect::<Result<Vec<_>, _>>()?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let mut renewed = Vec::new();
        let outcome = self.renew_each(&mut writer, (&entries, since), &mut renewed);
        // Also those before one that could not be: they are not copied again.
        File::open(&directory)?.sync_all()?;
        self.merger.place(renewed);
        let lost = outcome?;
        Ok(lost.max(usize::from(writer.is_torn)))
    }

    /// Says that the objects of packs that were taken away were made again.
    pub fn mark_rebuilt(&self) {
        self.writer.lock().is_torn = false;
    }

    fn renew_each(
        &self,
        writer: &mut PackWriter,
        (entries, since): (&[fs::DirEntry], SystemTime),
        renewed: &mut Vec<PathBuf>,
    ) -> HistoryResult<usize> {
        let mut lost = 0;
        for index in entries.iter().map(fs::DirEntry::path) {
            let name = index.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let pack = index.with_extension("pack");
            if !name.starts_with("pack-")
                || !name.ends_with(".idx")
                || self.merger.is_on_disk(&pack)
                || !is_in_doubt(&index, since)?
            {
                continue;
            }
            if self.is_renewed(&index).inspect_err(|error| warn_of(&index, error))? {
                renewed.push(pack);
            } else if index.try_exists()? {
                writer.is_torn = true;
                keep_aside(writer.repository.commondir(), &index)?;
                // libgit2 believes in packs that it has met.
                writer.repository = Repository::open(&self.root)?;
                self.readers.lock().clear();
                lost += 1;
            }
        }
        Ok(lost)
    }

    /// Writes a pack and its index anew; false, and nothing done, when they are not whole.
    fn is_renewed(&self, index: &Path) -> HistoryResult<bool> {
        let [Some(pack), Some(copy)] = [self.copied(&index.with_extension("pack"))?, self.copied(index)?] else {
            return Ok(false);
        };
        if !are_of_each_other(index)? {
            return Ok(false);
        }
        self.fail.check(FailPoint::PackFlush)?;
        pack.sync()?;
        copy.sync()?;
        self.fail.check(FailPoint::PackRename)?;
        pack.place(&index.with_extension("pack"))?;
        copy.place(index)?;
        Ok(true)
    }

    /// A copy of a file; none when it does not end as it should, or is gone: merged, or packed by somebody.
    ///
    /// What is looked at is what is copied: read once more it might come from the disk, and be something else.
    fn copied(&self, file: &Path) -> io::Result<Option<TempPack>> {
        let source = match File::open(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        self.fail.check(FailPoint::PackWrite)?;
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let mut draft = TempPack::begin(temporary(file, extension), None)?;
        let is_whole = read_through(source, |part| draft.write_all(part))?;
        draft.finish()?;
        Ok(is_whole.then_some(draft))
    }
}

fn temporary(file: &Path, extension: &str) -> PathBuf {
    file.with_file_name(format!("{TEMPORARY}{extension}"))
}

/// Whether a pack was written at or after a moment, and by one who may not have flushed it. One that is gone was merged.
fn is_in_doubt(index: &Path, since: SystemTime) -> io::Result<bool> {
    let stat = |file: &Path| match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        stat => stat.map(Some),
    };
    let Some(own) = stat(index)? else { return Ok(false) };
    let is_large = stat(&index.with_extension("pack"))?.is_some_and(|pack| pack.len() > MAX_BYTES);
    Ok(own.modified()? >= since && !is_large)
}
