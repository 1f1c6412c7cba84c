//! Unpublished bytes of a node.
//!
//! One rule: they are in memory while they can be recorded and there is room for them, and else in a file of the root's disk.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use svcfs_base::{Fault, Kind, MAX_FILE_BYTES};
use svcfs_store::Draft;

use crate::core::Core;
use crate::view::blocks_of;

/// The longest file that can be recorded, in bytes.
pub(crate) const RECORDED: u64 = MAX_FILE_BYTES as u64;

/// So many unpublished bytes a space has in memory at most, those of all its files together: four of the longest.
const IN_MEMORY: u64 = 4 * RECORDED;

/// Bytes that a node will have.
#[derive(Debug)]
pub(crate) enum Body {
    /// At most [`RECORDED`].
    Memory(Counted),
    /// Any number, on the disk.
    Disk { draft: Draft, length: u64 },
}

/// Bytes in memory, and how many of them are counted among those of all files.
#[derive(Debug)]
pub(crate) struct Counted {
    bytes: Vec<u8>,
    counted: u64,
    /// Those of all files; none while nothing is counted.
    all: Option<Arc<AtomicU64>>,
}

impl Counted {
    const fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, counted: 0, all: None }
    }

    /// Gives them another length; false where there is no room for it.
    fn resize(&mut self, size: usize, all: &Arc<AtomicU64>) -> bool {
        let (before, now) = (self.counted, size as u64);
        if now > before && all.fetch_add(now - before, Ordering::Relaxed) > IN_MEMORY.saturating_sub(now - before) {
            all.fetch_sub(now - before, Ordering::Relaxed);
            return false;
        }
        all.fetch_sub(before.saturating_sub(now), Ordering::Relaxed);
        self.counted = now;
        self.all.get_or_insert_with(|| Arc::clone(all));
        self.bytes.resize(size, 0);
        self.bytes.shrink_to(2 * size);
        true
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.fetch_sub(self.counted, Ordering::Relaxed);
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Memory(Counted::of(bytes.into()))
    }
}

impl Body {
    /// No bytes.
    pub(crate) const fn empty() -> Self {
        Self::Memory(Counted::of(Vec::new()))
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
            Self::Memory(Counted { bytes, .. }) => {
                Ok(Bytes::copy_from_slice(&bytes[part(bytes, offset, length as u64)]))
            }
            Self::Disk { draft, .. } => Ok(draft.file().read_at(offset, length)?),
        }
    }

    /// Writes at an offset.
    pub(crate) fn write(&mut self, core: &Core, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let end = offset.checked_add(data.len() as u64).ok_or_else(too_far)?;
        if end > self.length() {
            self.resize(core, end)?;
        }
        match self {
            Self::Memory(Counted { bytes, .. }) => {
                let range = part(bytes, offset, data.len() as u64);
                bytes[range].copy_from_slice(data);
            }
            Self::Disk { draft, .. } => draft.file().write_at(offset, data)?,
        }
        Ok(())
    }

    /// Gives them another length; what is new is zeros.
    pub(crate) fn resize(&mut self, core: &Core, size: u64) -> Result<(), Fault> {
        if let Self::Memory(memory) = self {
            let recorded = usize::try_from(size).ok().filter(|size| *size <= MAX_FILE_BYTES);
            if recorded.is_some_and(|size| memory.resize(size, &core.unpublished)) {
                return Ok(());
            }
            let draft = core.tree.draft()?;
            draft.file().write_at(0, &memory.bytes)?;
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
            Self::Memory(Counted { bytes, .. }) => {
                let range = part(bytes, offset, length);
                bytes[range].fill(0);
            }
            Self::Disk { draft, length: whole } => {
                let end = offset.saturating_add(length).min(*whole);
                draft.file().zero(offset, end.saturating_sub(offset))?;
            }
        }
        Ok(())
    }

    /// All of them, when they can be recorded.
    pub(crate) fn recorded(&self) -> Result<Option<Bytes>, Fault> {
        match usize::try_from(self.length()).ok().filter(|length| *length <= MAX_FILE_BYTES) {
            Some(length) => Ok(Some(self.read(0, length)?)),
            None => Ok(None),
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
