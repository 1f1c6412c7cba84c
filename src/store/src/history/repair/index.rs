//! Repair of `.git/index` at startup.
//!
//! Invariant: staged changes exist in the index only. It is rebuilt only when it was read and its
//! own checksum is wrong. An index in an unsupported format stays, and so does an unreadable one.

use std::fs;
use std::time::SystemTime;

use git2::Repository;
use sha1::{Digest, Sha1};
use tracing::warn;

use crate::history::inspection::set_aside_in_git;
use crate::history::{History, HistoryResult, head_of, oid};

const MAGIC: &[u8] = b"DIRC";
const CHECKSUM_BYTES: usize = 20;
/// With `index.skipHash`, git writes zeros instead of the checksum; more zeros before them come
/// from a power failure, which loses complete blocks.
const MIN_TORN_ZEROS: usize = 64;

impl History {
    /// Rebuilds a damaged `.git/index` from the newest commit; true when it was damaged. The old
    /// file goes to `.git/damaged`. A lock from before `boot_time` is stale and is removed; a
    /// younger one may belong to an external git.
    ///
    /// # Errors
    /// `Git` when it cannot be written, `State` when it cannot be moved.
    pub fn repair_index(&self, boot_time: SystemTime) -> HistoryResult<bool> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let lock = repository.path().join("index.lock");
        if fs::metadata(&lock).and_then(|stat| stat.modified()).is_ok_and(|modified| modified < boot_time) {
            fs::remove_file(&lock)?;
            warn!("removed a stale lock of `.git/index` from before the last boot");
        }
        if repository.is_bare() {
            return Ok(false);
        }
        // Not the shared handle: it would keep the first index of the whole tree in memory.
        let repository = &Repository::open(&self.root)?;
        let Err(index_error) = repository.index() else { return Ok(false) };
        let file = repository.path().join("index");
        match fs::read(&file) {
            Ok(bytes) if is_damaged(&bytes) => {}
            // Nothing depends on it. Updates of the index report the error.
            Ok(_) => {
                warn!(
                    error = index_error.message(),
                    "`.git/index` has a format that svcfs does not support; it is not updated"
                );
                return Ok(false);
            }
            Err(error) => {
                warn!(%error, "`.git/index` cannot be read; it is not updated");
                return Ok(false);
            }
        }
        set_aside_in_git(repository.commondir(), &file)?;
        rebuild(repository)?;
        Ok(true)
    }
}

/// Whether an index has a wrong checksum or no header.
pub(in super::super) fn is_damaged(index: &[u8]) -> bool {
    let Some((content, checksum)) = index.split_last_chunk::<CHECKSUM_BYTES>() else { return true };
    let ends_in_zeros = |count: usize| index.iter().rev().take(count).all(|byte| *byte == 0);
    let is_checksum_skipped = ends_in_zeros(CHECKSUM_BYTES) && !ends_in_zeros(CHECKSUM_BYTES + MIN_TORN_ZEROS);
    !content.starts_with(MAGIC) || !is_checksum_skipped && Sha1::digest(content)[..] != *checksum
}

fn rebuild(repository: &Repository) -> HistoryResult<()> {
    let mut index = repository.index()?;
    if let Some(head) = head_of(repository)? {
        index.read_tree(&repository.find_commit(oid(head)?)?.tree()?)?;
    }
    index.write()?;
    Ok(())
}
