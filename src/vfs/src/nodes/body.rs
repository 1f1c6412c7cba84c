//! Bytes of a dirty buffer.
//!
//! Invariant: they are in memory within both limits (versioned size, memory), else on disk.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use svcfs_base::{Fault, Kind, MAX_FILE_BYTES};
use svcfs_store::{LargeFileStaging, OpenFile};

use crate::Vfs;
use crate::core::VfsCore;
use crate::view::blocks_of;

/// Maximum size of a versioned file in bytes.
pub(crate) const MAX_VERSIONED_BYTES: u64 = MAX_FILE_BYTES as u64;

/// Memory used by dirty buffers, of all files of all spaces that share it.
///
/// Shared, because hundreds of spaces live in one process, with one memory.
#[derive(Debug, Default)]
pub struct DirtyBytes(AtomicU64);

impl DirtyBytes {
    /// Four files of the maximum size.
    const LIMIT_BYTES: u64 = 4 * MAX_VERSIONED_BYTES;

    /// Reserves memory; false beyond the limit.
    fn try_reserve(&self, bytes: u64) -> bool {
        let is_reserved = self.0.fetch_add(bytes, Ordering::Relaxed) <= Self::LIMIT_BYTES.saturating_sub(bytes);
        if !is_reserved {
            self.give_back(bytes);
        }
        is_reserved
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Vfs {
    /// Counts this space's dirty buffers in the shared total. Call it once, before the first write.
    pub fn share_dirty_bytes(&self, dirty_bytes: &Arc<DirtyBytes>) {
        let _ignored = self.core.dirty_bytes.set(Arc::clone(dirty_bytes));
    }
}

/// The bytes that a node will have.
#[derive(Debug)]
pub(crate) enum DirtyBody {
    /// At most [`MAX_VERSIONED_BYTES`].
    Memory(CountedBytes),
    /// Any number, on disk.
    Disk { staged: LargeFileStaging, length: u64 },
}

/// Bytes in memory, counted in the shared total.
#[derive(Debug)]
pub(crate) struct CountedBytes {
    bytes: Vec<u8>,
    counted: u64,
    /// The shared total; none while nothing is counted.
    total: Option<Arc<DirtyBytes>>,
}

impl CountedBytes {
    const fn uncounted(bytes: Vec<u8>) -> Self {
        Self { bytes, counted: 0, total: None }
    }

    /// Reads back a staged file when the disk is full; none beyond the limits.
    fn read(file: &OpenFile, length: u64, (end, core): (u64, &VfsCore)) -> Option<Self> {
        let size = usize::try_from(end.max(length)).ok().filter(|size| *size <= MAX_FILE_BYTES)?;
        let mut counted = Self::uncounted(Vec::new());
        if counted.count(size, core) {
            counted.bytes = file.read_at(0, usize::try_from(length).ok()?).ok()?.into();
            return Some(counted);
        }
        None
    }

    fn resize(&mut self, size: usize, core: &VfsCore) -> bool {
        let has_capacity = self.count(size, core);
        if has_capacity {
            self.bytes.resize(size, 0);
            self.bytes.shrink_to(2 * size);
        }
        has_capacity
    }

    fn append(&mut self, data: &[u8], core: &VfsCore) -> bool {
        let size = self.bytes.len() + data.len();
        let has_capacity = size <= MAX_FILE_BYTES && self.count(size, core);
        if has_capacity {
            self.bytes.extend_from_slice(data);
        }
        has_capacity
    }

    /// Updates the count in the shared total; false beyond the limit.
    fn count(&mut self, size: usize, core: &VfsCore) -> bool {
        let all = self.total.get_or_insert_with(|| Arc::clone(core.dirty_bytes.get_or_init(Arc::default)));
        let (before, now) = (self.counted, size as u64);
        if now > before && !all.try_reserve(now - before) {
            return false;
        }
        all.give_back(before.saturating_sub(now));
        self.counted = now;
        true
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        if let Some(all) = &self.total {
            all.give_back(self.counted);
        }
    }
}

impl From<Bytes> for DirtyBody {
    fn from(bytes: Bytes) -> Self {
        Self::Memory(CountedBytes::uncounted(bytes.into()))
    }
}

impl DirtyBody {
    pub(crate) const fn empty() -> Self {
        Self::Memory(CountedBytes::uncounted(Vec::new()))
    }

    /// An empty staged file, for content that is expected to exceed the versioned size.
    pub(crate) fn on_disk(core: &VfsCore) -> Self {
        core.tree.stage_large().map_or_else(|_| Self::empty(), |staged| Self::Disk { staged, length: 0 })
    }

    pub(crate) const fn length(&self) -> u64 {
        match self {
            Self::Memory(counted) => counted.bytes.len() as u64,
            Self::Disk { length, .. } => *length,
        }
    }

    /// Blocks of 512 bytes that they take, or will take, on disk.
    pub(crate) fn blocks(&self) -> Result<u64, Fault> {
        match self {
            Self::Memory(counted) => Ok(blocks_of(counted.bytes.len() as u64)),
            Self::Disk { staged, .. } => Ok(staged.file().stat()?.blocks),
        }
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match self {
            Self::Memory(CountedBytes { bytes, .. }) => {
                Ok(Bytes::copy_from_slice(&bytes[clamped_range(bytes, offset, length as u64)]))
            }
            Self::Disk { staged, .. } => Ok(staged.file().read_at(offset, length)?),
        }
    }

    pub(crate) fn write(&mut self, core: &VfsCore, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let end = offset.checked_add(data.len() as u64).ok_or_else(too_large)?;
        if let Self::Memory(counted) = self
            && offset == counted.bytes.len() as u64
            && counted.append(data, core)
        {
            return Ok(());
        }
        // A staged file grows by the write itself, without zeroing first.
        let grows_by_writing =
            matches!(self, Self::Disk { length, .. } if offset <= *length) && i64::try_from(end).is_ok();
        if end > self.length() && !grows_by_writing {
            self.resize(core, end)?;
        }
        match self {
            Self::Memory(CountedBytes { bytes, .. }) => {
                let range = clamped_range(bytes, offset, data.len() as u64);
                bytes[range].copy_from_slice(data);
            }
            Self::Disk { staged, length } => {
                if let Err(error) = staged.write_at(offset, data) {
                    if let Some(counted) = CountedBytes::read(staged.file(), *length, (end, core)) {
                        *self = Self::Memory(counted);
                        return self.write(core, offset, data);
                    }
                    // No bytes beyond the reported length.
                    staged.file().resize(*length)?;
                    return Err(error.into());
                }
                *length = end.max(*length);
            }
        }
        Ok(())
    }

    pub(crate) fn resize(&mut self, core: &VfsCore, size: u64) -> Result<(), Fault> {
        if let Self::Memory(counted) = self {
            let recorded = usize::try_from(size).ok().filter(|size| *size <= MAX_FILE_BYTES);
            if recorded.is_some_and(|size| counted.resize(size, core)) {
                return Ok(());
            }
            let mut staged = core.tree.stage_large()?;
            staged.write_at(0, &counted.bytes)?;
            *self = Self::Disk { length: counted.bytes.len() as u64, staged };
        }
        if let Self::Disk { staged, length } = self {
            if i64::try_from(size).is_err() {
                return Err(too_large());
            }
            staged.file().resize(size)?;
            *length = size;
        }
        Ok(())
    }

    pub(crate) fn zero(&mut self, offset: u64, length: u64) -> Result<(), Fault> {
        match self {
            Self::Memory(CountedBytes { bytes, .. }) => {
                let range = clamped_range(bytes, offset, length);
                bytes[range].fill(0);
            }
            Self::Disk { staged, length: total } => {
                let end = offset.saturating_add(length).min(*total);
                staged.file().punch_hole(offset, end.saturating_sub(offset))?;
            }
        }
        Ok(())
    }

    /// Takes all bytes out of memory, if they can be versioned. [`DirtyBody::give_back`] undoes it.
    pub(crate) fn take_content(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(length) = usize::try_from(self.length()).ok().filter(|length| *length <= MAX_FILE_BYTES) else {
            return Ok(None);
        };
        match self {
            Self::Memory(counted) => {
                let mut bytes = std::mem::take(&mut counted.bytes);
                // They may be used for long.
                bytes.shrink_to_fit();
                Ok(Some(bytes.into()))
            }
            Self::Disk { .. } => self.read(0, length).map(Some),
        }
    }

    /// Restores what [`DirtyBody::take_content`] took.
    pub(crate) fn give_back(&mut self, content: Bytes) {
        if let Self::Memory(counted) = self {
            counted.bytes = content.into();
        }
    }
}

pub(super) fn clamped_range(bytes: &[u8], offset: u64, length: u64) -> Range<usize> {
    let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    position(offset)..position(offset.saturating_add(length))
}

fn too_large() -> Fault {
    Fault::new(Kind::TooLarge, "the file would exceed the maximum size")
}
