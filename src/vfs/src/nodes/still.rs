//! One content of a file, read piece by piece: the one it had when it was opened.
//!
//! One rule: whoever reads gets that content or a fault, and no piece of another. A file that is replaced stays as it was for those who have it
//! open. One that somebody writes into, behind the server, is read on for as long as it has the same content, and no longer. That is looked at when
//! its length or time has changed: what is written in the same tick of the disk's clock, or through a shared mapping, may not be noticed.

use bytes::Bytes;
use parking_lot::Mutex;
use svcfs_base::{ETag, Fault, Hashing, MAX_FILE_BYTES, TreePath};
use svcfs_store::{Draft, OpenFile, Stat};

use crate::Vfs;
use crate::view::not_there;

/// Bytes that are hashed at once.
const PIECE: usize = 256 << 10;

/// A content that is open.
pub(super) struct Still {
    pub(super) etag: ETag,
    size: u64,
    held: Held,
}

/// Where it is.
enum Held {
    /// In a file of the tree, which looked like this when it had that content.
    Placed(OpenFile, Mutex<Stat>),
    /// In one that nobody else has.
    Own(Draft),
}

impl Still {
    /// Opens what a file has now; what else is known of it.
    ///
    /// # Errors
    /// `TooLarge` over 64 MiB; those of the disk.
    pub(super) fn at(vfs: &Vfs, path: &TreePath) -> Result<(Self, Stat), Fault> {
        let file = vfs.core.tree.open_to_read(path).map_err(|error| not_there(path, error))?;
        let stat = file.stat()?;
        if stat.size > MAX_FILE_BYTES as u64 {
            return Err(Fault::too_large("file", MAX_FILE_BYTES));
        }
        let etag = each_of(&file, stat.size, |_, _| {})?;
        Ok((Self { etag, size: stat.size, held: Held::Placed(file, Mutex::new(stat)) }, stat))
    }

    /// Keeps a content that has no file.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn of(vfs: &Vfs, content: &[u8]) -> Result<Self, Fault> {
        let draft = vfs.core.tree.draft()?;
        draft.file().write_at(0, content)?;
        Ok(Self { etag: ETag::of(content), size: content.len() as u64, held: Held::Own(draft) })
    }

    /// Bytes at an offset; fewer at the end. Waits for the disk.
    ///
    /// # Errors
    /// `Unavailable` when it is gone, because somebody wrote into the file; those of the disk.
    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        let length = self.within(offset, length);
        let (file, known) = match &self.held {
            Held::Placed(file, known) => (file, known),
            Held::Own(draft) => return Ok(draft.file().read_at(offset, length)?),
        };
        let mut known = known.lock();
        let piece = file.read_at(offset, length)?;
        if is_as_it_was(file, &known)? {
            return Ok(piece);
        }
        let now = file.stat()?;
        // Of what is hashed, for the file may change again meanwhile.
        let mut piece = Vec::with_capacity(length);
        let etag = each_of(file, self.size, |at, bytes| {
            let wanted = |place: u64| usize::try_from(place.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
            piece.extend_from_slice(&bytes[wanted(offset)..wanted(offset + length as u64)]);
        })?;
        if etag != self.etag {
            return Err(gone());
        }
        *known = now;
        Ok(piece.into())
    }

    /// The same of what the system has in memory; none of what has to be looked at more closely.
    pub(super) fn read_now(&self, offset: u64, length: usize) -> Option<Bytes> {
        let length = self.within(offset, length);
        match &self.held {
            Held::Placed(file, known) => {
                let known = known.try_lock()?;
                let piece = file.read_cached(offset, length)?;
                is_as_it_was(file, &known).is_ok_and(|is_same| is_same).then_some(piece)
            }
            Held::Own(draft) => draft.file().read_cached(offset, length),
        }
    }

    fn within(&self, offset: u64, length: usize) -> usize {
        usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(length)
    }
}

/// Whether nobody wrote into a file. Its names may have changed, and what else is said of it.
fn is_as_it_was(file: &OpenFile, before: &Stat) -> Result<bool, Fault> {
    let now = file.stat()?;
    Ok((now.size, now.modified) == (before.size, before.modified))
}

/// The hash of the first bytes of a file, each piece of which is handed on.
fn each_of(file: &OpenFile, size: u64, mut take: impl FnMut(u64, &[u8])) -> Result<ETag, Fault> {
    let mut hashing = Hashing::of_length(size);
    let mut at = 0;
    while at < size {
        let most = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
        let piece = file.read_at(at, most)?;
        if piece.is_empty() {
            return Err(gone());
        }
        hashing.update(&piece);
        take(at, &piece);
        at += piece.len() as u64;
    }
    Ok(hashing.finish())
}

fn gone() -> Fault {
    Fault::unavailable("somebody wrote into the file while it was read; try again")
}
