//! Rewriting packs after a failed flush.
//!
//! Invariant: a pack may be the only copy of its objects. The copy is verified and flushed before
//! it replaces the pack; unreadable packs stay.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use git2::Repository;
use svcfs_base::Timestamp;

use super::temp_pack::TempPack;
use super::torn::{MAX_CLOCK_ERROR, belong_together, read_verified, warn_unreadable};
use super::{History, HistoryResult, TEMPORARY, quarantine};
use crate::FailPoint;
use crate::history::PackWriter;

/// Larger packs were flushed by their writer: svcfs when merging, or git when packing.
const MAX_BYTES: u64 = 256 << 20;

impl History {
    /// Rewrites and flushes every pack written at or after `since` that is not durable: its content
    /// may be in the page cache only. Torn packs go to `.git/damaged`; the log replays their
    /// objects. Returns the number of torn packs, in this attempt or an earlier one, until
    /// [`History::mark_rebuilt`].
    ///
    /// # Errors
    /// `State` when one cannot be read, written or moved.
    pub fn rewrite_unsynced_packs(&self, since: Timestamp) -> HistoryResult<usize> {
        let mut writer = self.writer.lock();
        self.recycled_packs.clear();
        self.recycled_refs.clear();
        let directory = writer.repository.commondir().join("objects/pack");
        let since = SystemTime::from(since).checked_sub(MAX_CLOCK_ERROR).unwrap_or(SystemTime::UNIX_EPOCH);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries.collect::<Result<Vec<_>, _>>()?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let mut rewritten = Vec::new();
        let outcome = self.rewrite_each(&mut writer, (&entries, since), &mut rewritten);
        // Even after an error, so that the earlier ones are not copied again.
        File::open(&directory)?.sync_all()?;
        self.merger.mark_durable(rewritten);
        let torn = outcome?;
        Ok(torn.max(usize::from(writer.is_torn)))
    }

    /// Records that the objects of removed packs were written again.
    pub fn mark_rebuilt(&self) {
        self.writer.lock().is_torn = false;
    }

    fn rewrite_each(
        &self,
        writer: &mut PackWriter,
        (entries, since): (&[fs::DirEntry], SystemTime),
        rewritten: &mut Vec<PathBuf>,
    ) -> HistoryResult<usize> {
        let mut torn = 0;
        for index in entries.iter().map(fs::DirEntry::path) {
            let name = index.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let pack = index.with_extension("pack");
            if !name.starts_with("pack-")
                || !name.ends_with(".idx")
                || self.merger.is_durable(&pack)
                || !may_be_unflushed(&index, since)?
            {
                continue;
            }
            if self.rewrite(&index).inspect_err(|error| warn_unreadable(&index, error))? {
                rewritten.push(pack);
            } else if index.try_exists()? {
                writer.is_torn = true;
                quarantine(writer.repository.commondir(), &index)?;
                // libgit2 caches packs that it has opened.
                writer.repository = Repository::open(&self.root)?;
                self.readers.lock().clear();
                torn += 1;
            }
        }
        Ok(torn)
    }

    /// Rewrites a pack and its index; false, without a change, when they are torn.
    fn rewrite(&self, index: &Path) -> HistoryResult<bool> {
        let [Some(pack), Some(copy)] = [self.copy_verified(&index.with_extension("pack"))?, self.copy_verified(index)?]
        else {
            return Ok(false);
        };
        if !belong_together(index)? {
            return Ok(false);
        }
        self.fail.check(FailPoint::PackFlush)?;
        pack.sync()?;
        copy.sync()?;
        self.fail.check(FailPoint::PackRename)?;
        pack.install(&index.with_extension("pack"))?;
        copy.install(index)?;
        Ok(true)
    }

    /// A verified copy of a file; none when its checksum is wrong, or it was merged or removed.
    ///
    /// Check and copy use one read: a second one may come from the disk and differ.
    fn copy_verified(&self, file: &Path) -> io::Result<Option<TempPack>> {
        let source = match File::open(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        self.fail.check(FailPoint::PackWrite)?;
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let mut temp_pack = TempPack::create(temporary(file, extension), None)?;
        let is_complete = read_verified(source, |part| temp_pack.write_all(part))?;
        temp_pack.finish()?;
        Ok(is_complete.then_some(temp_pack))
    }
}

fn temporary(file: &Path, extension: &str) -> PathBuf {
    file.with_file_name(format!("{TEMPORARY}{extension}"))
}

/// Whether a pack was written at or after `since`, possibly without a flush; false when it was
/// removed.
fn may_be_unflushed(index: &Path, since: SystemTime) -> io::Result<bool> {
    let stat = |file: &Path| match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        stat => stat.map(Some),
    };
    let Some(own) = stat(index)? else { return Ok(false) };
    let is_large = stat(&index.with_extension("pack"))?.is_some_and(|pack| pack.len() > MAX_BYTES);
    Ok(own.modified()? >= since && !is_large)
}
