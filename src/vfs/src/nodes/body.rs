//! Unpublished bytes of a node.
//!
//! One rule: they are in memory while they can be recorded and there is room for them, and else in a file of the root's disk.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use svcfs_base::{Fault, Kind, MAX_FILE_BYTES};
use svcfs_store::{LargeFileStaging, OpenFile};

use crate::Vfs;
use crate::core::VfsCore;
use crate::view::blocks_of;

/// The longest file that can be recorded, in bytes.
pub(crate) const RECORDED: u64 = MAX_FILE_BYTES as u64;

/// How many unpublished bytes are in memory: those of all files of all spaces that share it.
///
/// Why not of each space? Because two hundred of them are one process, with one memory.
#[derive(Debug, Default)]
pub struct DirtyBytes(AtomicU64);

impl DirtyBytes {
    /// At most: four of the longest files.
    const MOST: u64 = 4 * RECORDED;

    /// Takes room for so many more; false where there is none.
    fn take(&self, bytes: u64) -> bool {
        let is_taken = self.0.fetch_add(bytes, Ordering::Relaxed) <= Self::MOST.saturating_sub(bytes);
        if !is_taken {
            self.give_back(bytes);
        }
        is_taken
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Vfs {
    /// From now on what is written to files of this space and not published counts among that of all spaces that share this. To be told before anybody
    /// writes, and once.
    pub fn share_dirty_bytes(&self, unpublished: &Arc<DirtyBytes>) {
        let _stays = self.core.unpublished.set(Arc::clone(unpublished));
    }
}

/// Bytes that a node will have.
#[derive(Debug)]
pub(crate) enum DirtyBody {
    /// At most [`RECORDED`].
    Memory(CountedBytes),
    /// Any number, on the disk.
    Disk { draft: LargeFileStaging, length: u64 },
}

/// Bytes in memory, and how many of them are counted among those of all files.
#[derive(Debug)]
pub(crate) struct CountedBytes {
    bytes: Vec<u8>,
    counted: u64,
    /// Those of all files; none while nothing is counted.
    all: Option<Arc<DirtyBytes>>,
}

impl CountedBytes {
    const fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, counted: 0, all: None }
    }

    /// Those of a file of the disk, which takes no more, and room for them up to an end; none where they cannot be recorded or there is no room.
    fn read(file: &OpenFile, length: u64, (end, core): (u64, &VfsCore)) -> Option<Self> {
        let size = usize::try_from(end.max(length)).ok().filter(|size| *size <= MAX_FILE_BYTES)?;
        let mut memory = Self::of(Vec::new());
        if memory.count(size, core) {
            memory.bytes = file.read_at(0, usize::try_from(length).ok()?).ok()?.into();
            return Some(memory);
        }
        None
    }

    /// Gives them another length; false where there is no room for it.
    fn resize(&mut self, size: usize, core: &VfsCore) -> bool {
        let has_room = self.count(size, core);
        if has_room {
            self.bytes.resize(size, 0);
            self.bytes.shrink_to(2 * size);
        }
        has_room
    }

    /// Puts bytes at their end, which need not be zeros first; false where there is no room for them.
    fn append(&mut self, data: &[u8], core: &VfsCore) -> bool {
        let size = self.bytes.len() + data.len();
        let has_room = size <= MAX_FILE_BYTES && self.count(size, core);
        if has_room {
            self.bytes.extend_from_slice(data);
        }
        has_room
    }

    /// Counts so many of them among those of all files; false where there is no room.
    fn count(&mut self, size: usize, core: &VfsCore) -> bool {
        let all = self.all.get_or_insert_with(|| Arc::clone(core.unpublished.get_or_init(Arc::default)));
        let (before, now) = (self.counted, size as u64);
        if now > before && !all.take(now - before) {
            return false;
        }
        all.give_back(before.saturating_sub(now));
        self.counted = now;
        true
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.give_back(self.counted);
        }
    }
}

impl From<Bytes> for DirtyBody {
    fn from(bytes: Bytes) -> Self {
        Self::Memory(CountedBytes::of(bytes.into()))
    }
}

impl DirtyBody {
    /// No bytes.
    pub(crate) const fn empty() -> Self {
        Self::Memory(CountedBytes::of(Vec::new()))
    }

    /// No bytes yet, of a file that is expected to become too large to be recorded.
    pub(crate) fn beside(core: &VfsCore) -> Self {
        core.tree.stage_large().map_or_else(|_| Self::empty(), |draft| Self::Disk { draft, length: 0 })
    }

    /// How many there are.
    pub(crate) const fn length(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.bytes.len() as u64,
            Self::Disk { length, .. } => *length,
        }
    }

    /// Room they take or will take on the disk, in blocks of 512 bytes.
    pub(crate) fn blocks(&self) -> Result<u64, Fault> {
        match self {
            Self::Memory(memory) => Ok(blocks_of(memory.bytes.len() as u64)),
            Self::Disk { draft, .. } => Ok(draft.file().stat()?.blocks),
        }
    }

    /// Bytes at an offset; fewer at the end.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match self {
            Self::Memory(CountedBytes { bytes, .. }) => {
                Ok(Bytes::copy_from_slice(&bytes[part(bytes, offset, length as u64)]))
            }
            Self::Disk { draft, .. } => Ok(draft.file().read_at(offset, length)?),
        }
    }

    /// Writes at an offset.
    pub(crate) fn write(&mut self, core: &VfsCore, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let end = offset.checked_add(data.len() as u64).ok_or_else(too_far)?;
        if let Self::Memory(memory) = self
            && offset == memory.bytes.len() as u64
            && memory.append(data, core)
        {
            return Ok(());
        }
        // What a file of the disk grows by at its end is written at once, and not made zeros first.
        let grows_by_writing =
            matches!(self, Self::Disk { length, .. } if offset <= *length) && i64::try_from(end).is_ok();
        if end > self.length() && !grows_by_writing {
            self.resize(core, end)?;
        }
        match self {
            Self::Memory(CountedBytes { bytes, .. }) => {
                let range = part(bytes, offset, data.len() as u64);
                bytes[range].copy_from_slice(data);
            }
            Self::Disk { draft, length } => {
                if let Err(error) = draft.write_at(offset, data) {
                    if let Some(memory) = CountedBytes::read(draft.file(), *length, (end, core)) {
                        *self = Self::Memory(memory);
                        return self.write(core, offset, data);
                    }
                    // Nothing behind the end that is told of.
                    draft.file().resize(*length)?;
                    return Err(error.into());
                }
                *length = end.max(*length);
            }
        }
        Ok(())
    }

    /// Gives them another length; what is new is zeros.
    pub(crate) fn resize(&mut self, core: &VfsCore, size: u64) -> Result<(), Fault> {
        if let Self::Memory(memory) = self {
            let recorded = usize::try_from(size).ok().filter(|size| *size <= MAX_FILE_BYTES);
            if recorded.is_some_and(|size| memory.resize(size, core)) {
                return Ok(());
            }
            let mut draft = core.tree.stage_large()?;
            draft.write_at(0, &memory.bytes)?;
            *self = Self::Disk { length: memory.bytes.len() as u64, draft };
        }
        if let Self::Disk { draft, length } = self {
            if i64::try_from(size).is_err() {
                return Err(too_far());
            }
            draft.file().resize(size)?;
            *length = size;
        }
        Ok(())
    }

    /// Makes a part zeros, as far as there are bytes.
    pub(crate) fn zero(&mut self, offset: u64, length: u64) -> Result<(), Fault> {
        match self {
            Self::Memory(CountedBytes { bytes, .. }) => {
                let range = part(bytes, offset, length);
                bytes[range].fill(0);
            }
            Self::Disk { draft, length: whole } => {
                let end = offset.saturating_add(length).min(*whole);
                draft.file().punch_hole(offset, end.saturating_sub(offset))?;
            }
        }
        Ok(())
    }

    /// All of them, when they can be recorded: taken out where they are in memory, for they may be many. [`Body::give_back`] undoes it.
    pub(crate) fn take_recorded(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(length) = usize::try_from(self.length()).ok().filter(|length| *length <= MAX_FILE_BYTES) else {
            return Ok(None);
        };
        match self {
            Self::Memory(memory) => {
                let mut bytes = std::mem::take(&mut memory.bytes);
                // Whoever has them from now on may have them for long.
                bytes.shrink_to_fit();
                Ok(Some(bytes.into()))
            }
            Self::Disk { .. } => self.read(0, length).map(Some),
        }
    }

    /// Has again what was taken out of it.
    pub(crate) fn give_back(&mut self, taken: Bytes) {
        if let Self::Memory(memory) = self {
            memory.bytes = taken.into();
        }
    }
}

/// The range of a part, as far as there are bytes.
pub(super) fn part(bytes: &[u8], offset: u64, length: u64) -> Range<usize> {
    let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    position(offset)..position(offset.saturating_add(length))
}

fn too_far() -> Fault {
    Fault::new(Kind::TooLarge, "no file is as long as that")
}
