//! One content of a file, read piece by piece: the one it had when it was opened.
//!
//! One rule: whoever reads gets that content or a fault, and no piece of another. A file that is replaced stays as it was for those who have it
//! open. One that somebody writes into, behind the server, is read on for as long as it has the same content, and no longer. That is looked at when
//! its length or time has changed: what is written in the same tick of the disk's clock, or through a shared mapping, may not be noticed.
//!
//! All of it is looked at once: each part has a hash of its own from then on, so that a file which somebody writes into all the time (a log that is
//! appended to) is read in the time that its length takes, not its square.

use std::ops::Range;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use svcfs_base::{ETag, ETagHasher, Fault, MAX_FILE_BYTES, TreePath};
use svcfs_store::{FileStat, LargeFileStaging, OpenFile};

use crate::Vfs;
use crate::view::not_there;

/// Bytes that are hashed at once, and have a hash of their own where that is needed.
const PIECE: usize = 256 << 10;

/// A content that is open.
pub(super) struct SnapshotReader {
    pub(super) etag: ETag,
    size: u64,
    held: SnapshotSource,
}

/// Where it is.
enum SnapshotSource {
    /// In a file of the tree.
    Placed(OpenFile, Mutex<KnownBlocks>),
    /// In one that nobody else has.
    Own(LargeFileStaging),
}

/// How long a file is and when it was written: while both are the same, nobody has written into it.
type FileStamps = (u64, SystemTime);

/// What is known of a file that somebody may write into.
struct KnownBlocks {
    /// How it looked when all of it had that content.
    looks: FileStamps,
    /// The hashes of its parts of [`PIECE`] bytes, and how it looked when each was last seen to be right; none before somebody wrote into it.
    parts: Vec<(ETag, FileStamps)>,
}

impl KnownBlocks {
    /// Whether the bytes of a range are right, in a file that looks like this.
    fn is_right(&self, looks: FileStamps, (offset, length): (u64, usize)) -> bool {
        if self.parts.is_empty() {
            return looks == self.looks;
        }
        let parts = parts_of(offset, length).map(|part| self.parts.get(part));
        parts.into_iter().all(|part| part.is_some_and(|(_, seen)| *seen == looks))
    }
}

impl SnapshotReader {
    /// Opens what a file has now; what else is known of it.
    ///
    /// # Errors
    /// `TooLarge` over 64 MiB; those of the disk.
    pub(super) fn at(vfs: &Vfs, path: &TreePath) -> Result<(Self, FileStat), Fault> {
        let file = vfs.core.tree.open_to_read(path).map_err(|error| not_there(path, error))?;
        let stat = file.stat()?;
        if stat.size > MAX_FILE_BYTES as u64 {
            return Err(Fault::too_large("file", MAX_FILE_BYTES));
        }
        let etag = each_of(&file, stat.size, |_| {})?;
        let known = KnownBlocks { looks: (stat.size, stat.modified), parts: Vec::new() };
        Ok((Self { etag, size: stat.size, held: SnapshotSource::Placed(file, Mutex::new(known)) }, stat))
    }

    /// Keeps a content that has no file.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn of(vfs: &Vfs, content: &[u8]) -> Result<Self, Fault> {
        let draft = vfs.core.tree.stage_large()?;
        draft.file().write_at(0, content)?;
        Ok(Self { etag: ETag::from_content(content), size: content.len() as u64, held: SnapshotSource::Own(draft) })
    }

    /// Bytes at an offset; fewer at the end. Waits for the disk.
    ///
    /// # Errors
    /// `Unavailable` when it is gone, because somebody wrote into the file; those of the disk.
    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        let length = self.within(offset, length);
        if length == 0 {
            return Ok(Bytes::new());
        }
        let (file, known) = match &self.held {
            SnapshotSource::Placed(file, known) => (file, known),
            SnapshotSource::Own(draft) => return Ok(draft.file().read_at(offset, length)?),
        };
        let mut known = known.lock();
        let piece = file.read_at(offset, length)?;
        if known.is_right(looks(file)?, (offset, length)) {
            return Ok(piece);
        }
        if known.parts.is_empty() {
            known.parts = self.look_closely(file)?;
        }
        self.read_closely(file, &mut known.parts, (offset, length))
    }

    /// Looks whether a file still has that content, and at each part of it.
    ///
    /// # Errors
    /// `Unavailable` when it has not; those of the disk.
    fn look_closely(&self, file: &OpenFile) -> Result<Vec<(ETag, FileStamps)>, Fault> {
        let (looks, mut parts) = (looks(file)?, Vec::new());
        let etag = each_of(file, self.size, |part| parts.push((ETag::from_content(part), looks)))?;
        if etag == self.etag { Ok(parts) } else { Err(gone()) }
    }

    /// Bytes of parts that have these hashes: of what is hashed, for the file may change again meanwhile.
    ///
    /// # Errors
    /// `Unavailable` when one of them has another hash by now; those of the disk.
    fn read_closely(
        &self,
        file: &OpenFile,
        parts: &mut [(ETag, FileStamps)],
        (offset, length): (u64, usize),
    ) -> Result<Bytes, Fault> {
        let (mut piece, end) = (BytesMut::with_capacity(length), offset + length as u64);
        for number in parts_of(offset, length) {
            let (etag, seen) = parts.get_mut(number).ok_or_else(gone)?;
            let (looks, at) = (looks(file)?, (number * PIECE) as u64);
            let part = whole_part(file, at, self.size)?;
            if ETag::from_content(&part) != *etag {
                return Err(gone());
            }
            *seen = looks;
            let within = |place: u64| usize::try_from(place.saturating_sub(at)).unwrap_or(usize::MAX).min(part.len());
            piece.extend_from_slice(&part[within(offset)..within(end)]);
        }
        Ok(piece.freeze())
    }

    /// The same of what the system has in memory; none of what has to be looked at more closely.
    pub(super) fn read_now(&self, offset: u64, length: usize) -> Option<Bytes> {
        let length = self.within(offset, length);
        match &self.held {
            SnapshotSource::Placed(file, known) => {
                let known = known.try_lock()?;
                let piece = file.read_cached(offset, length)?;
                known.is_right(looks(file).ok()?, (offset, length)).then_some(piece)
            }
            SnapshotSource::Own(draft) => draft.file().read_cached(offset, length),
        }
    }

    fn within(&self, offset: u64, length: usize) -> usize {
        usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(length)
    }
}

/// How a file looks now. Its names may have changed, and what else is said of it.
fn looks(file: &OpenFile) -> Result<FileStamps, Fault> {
    let now = file.stat()?;
    Ok((now.size, now.modified))
}

/// The numbers of the parts that a range lies in.
fn parts_of(offset: u64, length: usize) -> Range<usize> {
    let begin = usize::try_from(offset).unwrap_or(usize::MAX);
    begin / PIECE..begin.saturating_add(length).div_ceil(PIECE)
}

/// The hash of the first bytes of a file, each part of which is handed on.
fn each_of(file: &OpenFile, size: u64, mut take: impl FnMut(&[u8])) -> Result<ETag, Fault> {
    let mut hashing = ETagHasher::with_length(size);
    let mut at = 0;
    while at < size {
        let part = whole_part(file, at, size)?;
        hashing.update(&part);
        take(&part);
        at += part.len() as u64;
    }
    Ok(hashing.finish())
}

/// The part of a file of this size that begins here.
fn whole_part(file: &OpenFile, at: u64, size: u64) -> Result<Bytes, Fault> {
    let length = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
    let part = file.read_at(at, length)?;
    if part.len() == length { Ok(part) } else { Err(gone()) }
}

fn gone() -> Fault {
    Fault::unavailable("somebody wrote into the file while it was read; try again")
}
