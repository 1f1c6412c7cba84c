//! Reads a file in pieces, with the content it had when it was opened.
//!
//! Invariant: a reader gets that content or a fault, never other bytes. A replaced file stays as it
//! was for its readers. A file that an external process writes into is read while its content is
//! unchanged, which is checked when size or mtime changed. A write within one tick of the disk's
//! clock, or through a shared mapping, may go unnoticed.
//!
//! The check hashes the whole file once and then knows each block's hash, so that a file that is
//! appended to all the time (a log) is read in linear time.

use std::ops::Range;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use svcfs_base::{ETag, ETagHasher, Fault, MAX_FILE_BYTES, TreePath};
use svcfs_store::{FileStat, LargeFileStaging, OpenFile};

use crate::Vfs;
use crate::view::not_found_fault;

/// Size of a block with a hash of its own.
const BLOCK_BYTES: usize = 256 << 10;

pub(super) struct SnapshotReader {
    pub(super) etag: ETag,
    size: u64,
    source: SnapshotSource,
}

enum SnapshotSource {
    TreeFile(OpenFile, Mutex<KnownBlocks>),
    PrivateFile(LargeFileStaging),
}

/// Size and mtime: unchanged while no process writes into the file.
type FileStamps = (u64, SystemTime);

/// What was verified of a file that an external process may write into.
struct KnownBlocks {
    /// Stamps when the full content was last verified.
    verified_stamps: FileStamps,
    /// Hash and last verified stamps of each block; empty before the file changed.
    blocks: Vec<(ETag, FileStamps)>,
}

impl KnownBlocks {
    /// Whether a range is verified for these stamps.
    fn is_verified(&self, stamps: FileStamps, (offset, length): (u64, usize)) -> bool {
        if self.blocks.is_empty() {
            return stamps == self.verified_stamps;
        }
        let blocks = block_numbers(offset, length).map(|block| self.blocks.get(block));
        blocks.into_iter().all(|block| block.is_some_and(|(_, verified_at)| *verified_at == stamps))
    }
}

impl SnapshotReader {
    /// Opens a file with its current content; also returns its attributes.
    pub(super) fn open(vfs: &Vfs, path: &TreePath) -> Result<(Self, FileStat), Fault> {
        let file = vfs.core.tree.open_to_read(path).map_err(|error| not_found_fault(path, error))?;
        let stat = file.stat()?;
        if stat.size > MAX_FILE_BYTES as u64 {
            return Err(Fault::too_large("file", MAX_FILE_BYTES));
        }
        let etag = hash_blocks(&file, stat.size, |_| {})?;
        let known_blocks = KnownBlocks { verified_stamps: (stat.size, stat.modified), blocks: Vec::new() };
        Ok((Self { etag, size: stat.size, source: SnapshotSource::TreeFile(file, Mutex::new(known_blocks)) }, stat))
    }

    /// Stores a content that has no file.
    pub(super) fn from_content(vfs: &Vfs, content: &[u8]) -> Result<Self, Fault> {
        let staged = vfs.core.tree.stage_large()?;
        staged.file().write_at(0, content)?;
        Ok(Self {
            etag: ETag::from_content(content),
            size: content.len() as u64,
            source: SnapshotSource::PrivateFile(staged),
        })
    }

    /// Bytes at an offset; fewer at the end. May block on the disk.
    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        let length = self.clamped_length(offset, length);
        if length == 0 {
            return Ok(Bytes::new());
        }
        let (file, known_blocks) = match &self.source {
            SnapshotSource::TreeFile(file, known_blocks) => (file, known_blocks),
            SnapshotSource::PrivateFile(staged) => return Ok(staged.file().read_at(offset, length)?),
        };
        let mut known_blocks = known_blocks.lock();
        let data = file.read_at(offset, length)?;
        if known_blocks.is_verified(file_stamps(file)?, (offset, length)) {
            return Ok(data);
        }
        if known_blocks.blocks.is_empty() {
            known_blocks.blocks = self.revalidate_blocks(file)?;
        }
        self.read_verified(file, &mut known_blocks.blocks, (offset, length))
    }

    /// Verifies the full content, and hashes each block.
    fn revalidate_blocks(&self, file: &OpenFile) -> Result<Vec<(ETag, FileStamps)>, Fault> {
        let (stamps, mut blocks) = (file_stamps(file)?, Vec::new());
        let etag = hash_blocks(file, self.size, |block| blocks.push((ETag::from_content(block), stamps)))?;
        if etag == self.etag { Ok(blocks) } else { Err(content_changed()) }
    }

    /// Returns bytes of verified blocks: of what was hashed, as the file may change meanwhile.
    fn read_verified(
        &self,
        file: &OpenFile,
        blocks: &mut [(ETag, FileStamps)],
        (offset, length): (u64, usize),
    ) -> Result<Bytes, Fault> {
        let (mut data, end) = (BytesMut::with_capacity(length), offset + length as u64);
        for number in block_numbers(offset, length) {
            let (etag, verified_at) = blocks.get_mut(number).ok_or_else(content_changed)?;
            let (stamps, at) = (file_stamps(file)?, (number * BLOCK_BYTES) as u64);
            let block = full_block(file, at, self.size)?;
            if ETag::from_content(&block) != *etag {
                return Err(content_changed());
            }
            *verified_at = stamps;
            let within = |offset_in_file: u64| {
                usize::try_from(offset_in_file.saturating_sub(at)).unwrap_or(usize::MAX).min(block.len())
            };
            data.extend_from_slice(&block[within(offset)..within(end)]);
        }
        Ok(data.freeze())
    }

    /// Verified bytes in the page cache; none if blocks must be verified again.
    pub(super) fn try_read_cached(&self, offset: u64, length: usize) -> Option<Bytes> {
        let length = self.clamped_length(offset, length);
        match &self.source {
            SnapshotSource::TreeFile(file, known_blocks) => {
                let known_blocks = known_blocks.try_lock()?;
                let data = file.read_cached(offset, length)?;
                known_blocks.is_verified(file_stamps(file).ok()?, (offset, length)).then_some(data)
            }
            SnapshotSource::PrivateFile(staged) => staged.file().read_cached(offset, length),
        }
    }

    fn clamped_length(&self, offset: u64, length: usize) -> usize {
        usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(length)
    }
}

fn file_stamps(file: &OpenFile) -> Result<FileStamps, Fault> {
    let now = file.stat()?;
    Ok((now.size, now.modified))
}

fn block_numbers(offset: u64, length: usize) -> Range<usize> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    start / BLOCK_BYTES..start.saturating_add(length).div_ceil(BLOCK_BYTES)
}

/// Hash of the first `size` bytes of a file; calls `visit` with each block.
fn hash_blocks(file: &OpenFile, size: u64, mut visit: impl FnMut(&[u8])) -> Result<ETag, Fault> {
    let mut hashing = ETagHasher::with_length(size);
    let mut at = 0;
    while at < size {
        let block = full_block(file, at, size)?;
        hashing.update(&block);
        visit(&block);
        at += block.len() as u64;
    }
    Ok(hashing.finish())
}

fn full_block(file: &OpenFile, at: u64, size: u64) -> Result<Bytes, Fault> {
    let length = usize::try_from(size - at).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
    let block = file.read_at(at, length)?;
    if block.len() == length { Ok(block) } else { Err(content_changed()) }
}

fn content_changed() -> Fault {
    Fault::unavailable("the file was changed externally while it was read; try again")
}
