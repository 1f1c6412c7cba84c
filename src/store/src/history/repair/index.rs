//! `.git/index` at a start.
//!
//! One rule: what a person staged is in it and nowhere else. It is made anew only when it was read and its own checksum says that it is
//! damaged; what is merely written in a way that libgit2 does not know is left as it is, and so is what cannot be read.

use std::fs;
use std::time::SystemTime;

use git2::Repository;
use sha1::{Digest, Sha1};
use tracing::warn;

use crate::history::inspection::set_aside_in_git;
use crate::history::{History, HistoryResult, head_of, oid};

const MAGIC: &[u8] = b"DIRC";
const CHECKSUM_BYTES: usize = 20;
/// Where somebody has git leave the checksum out (`index.skipHash`), zeros stand in its place; so many more of them in front of it were left by
/// a power cut, which takes whole blocks.
const ZEROS: usize = 64;

impl History {
    /// Makes `.git/index` anew from the newest commit when it is damaged; true when it was. What stood there is kept in `.git/damaged`. A lock
    /// on it that is older than the machine's start (`started`) has lost its process and is taken away; a younger one may be a person's
    /// git.
    ///
    /// # Errors
    /// `Git` when it cannot be written, `State` when it cannot be moved.
    pub fn repair_index(&self, started: SystemTime) -> HistoryResult<bool> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let lock = repository.path().join("index.lock");
        if fs::metadata(&lock).and_then(|stat| stat.modified()).is_ok_and(|modified| modified < started) {
            fs::remove_file(&lock)?;
            warn!("the lock of `.git/index` was left by a crash; it is taken away");
        }
        if repository.is_bare() {
            return Ok(false);
        }
        // Not by way of the repository that stays: it would keep the index of the whole tree in memory, as it was at its first look.
        let repository = &Repository::open(&self.root)?;
        let Err(unread) = repository.index() else { return Ok(false) };
        let file = repository.path().join("index");
        match fs::read(&file) {
            Ok(bytes) if is_damaged(&bytes) => {}
            // Nothing of ours hangs on it. Whoever brings it up to date says so when that is not possible.
            Ok(_) => {
                warn!(
                    error = unread.message(),
                    "`.git/index` is of a kind that svcfs does not know; it is left as it is"
                );
                return Ok(false);
            }
            Err(error) => {
                warn!(%error, "`.git/index` cannot be read; it is left as it is");
                return Ok(false);
            }
        }
        set_aside_in_git(repository.commondir(), &file)?;
        rebuild(repository)?;
        Ok(true)
    }
}

/// Whether an index was not written like this by anybody.
pub(in super::super) fn is_damaged(index: &[u8]) -> bool {
    let Some((content, checksum)) = index.split_last_chunk::<CHECKSUM_BYTES>() else { return true };
    let ends_in_zeros = |count: usize| index.iter().rev().take(count).all(|byte| *byte == 0);
    let is_left_out = ends_in_zeros(CHECKSUM_BYTES) && !ends_in_zeros(CHECKSUM_BYTES + ZEROS);
    !content.starts_with(MAGIC) || !is_left_out && Sha1::digest(content)[..] != *checksum
}

fn rebuild(repository: &Repository) -> HistoryResult<()> {
    let mut index = repository.index()?;
    if let Some(head) = head_of(repository)? {
        index.read_tree(&repository.find_commit(oid(head)?)?.tree()?)?;
    }
    index.write()?;
    Ok(())
}
