//! Buffers for bodies in transit: in memory while the budget lasts, else in an unnamed file.
//!
//! Invariant: no client waits for a slow one. A body takes as much memory as has arrived; when the
//! budget is used up, the next piece goes to disk without waiting. Only a complete body waits for
//! memory, and the holders of that memory are as fast as the disk.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use svcfs_base::Fault;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Default budget for bodies in transit, in KiB.
const IN_TRANSIT_KIB: usize = 384 << 10;
/// Default budget for complete bodies that are read back from disk, in KiB.
const COMPLETE_KIB: usize = 128 << 10;
/// Longest wait for memory for a complete body.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Smallest step by which a reservation grows, in bytes.
const RESERVE_STEP_BYTES: usize = 64 << 10;
/// Bytes collected before each write to the file: pieces arrive in a few KiB, one system call each
/// would be slow. They are not counted in the budget.
const WRITE_BLOCK_BYTES: usize = 64 << 10;

/// Memory for the bodies of one protocol.
#[derive(Debug)]
pub struct MemoryBudget {
    in_transit: Arc<Semaphore>,
    complete: Arc<Semaphore>,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::new(IN_TRANSIT_KIB, COMPLETE_KIB)
    }
}

impl MemoryBudget {
    /// A budget of so many KiB for bodies in transit, and for complete bodies.
    pub fn new(in_transit: usize, complete: usize) -> Self {
        Self { in_transit: Arc::new(Semaphore::new(in_transit)), complete: Arc::new(Semaphore::new(complete)) }
    }

    /// Reserves memory for a body in transit, without waiting; dropping the permit releases it.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(1024)).ok()?;
        Arc::clone(&self.in_transit).try_acquire_many_owned(kib).ok()
    }

    /// Free KiB for bodies in transit.
    #[cfg(test)]
    pub(crate) fn available(&self) -> usize {
        self.in_transit.available_permits()
    }

    /// Waits for memory for a complete body that is processed now; dropping the permit releases it.
    ///
    /// # Errors
    /// `Unavailable` after 30 s.
    pub async fn reserve_buffer(&self, length: u64) -> Result<OwnedSemaphorePermit, Fault> {
        let kib = usize::try_from(length / 1024 + 1).unwrap_or(usize::MAX).min(COMPLETE_KIB / 2 + 1);
        let permit = Arc::clone(&self.complete).acquire_many_owned(u32::try_from(kib).unwrap_or(u32::MAX));
        let permit = tokio::time::timeout(RESERVE_TIMEOUT, permit).await;
        let permit = permit.map_err(|_| {
            Fault::unavailable("too many uploads are completed at the same time; try again in a moment")
        })?;
        permit.map_err(Fault::internal)
    }
}

/// The bytes of a body received so far.
#[derive(Debug)]
pub struct SpillBuffer {
    budget: Arc<MemoryBudget>,
    /// Reserved memory for `buffer`.
    permit: Option<OwnedSemaphorePermit>,
    buffer: Vec<u8>,
    /// The first bytes of the body, once memory was short; `buffer` continues it.
    file: Option<File>,
    /// Bytes in the file.
    file_bytes: u64,
    folder: PathBuf,
}

impl SpillBuffer {
    /// An empty buffer; its file, if it needs one, is made in `folder`.
    pub fn new(budget: &Arc<MemoryBudget>, folder: &Path) -> Self {
        let (permit, buffer, file) = Default::default();
        Self { budget: Arc::clone(budget), permit, buffer, file, file_bytes: 0, folder: folder.to_owned() }
    }

    /// Bytes received.
    pub fn length(&self) -> u64 {
        self.file_bytes + self.buffer.len() as u64
    }

    /// Appends a piece. Afterwards, check [`SpillBuffer::is_full`].
    pub fn push(&mut self, data: &[u8]) {
        let end = self.buffer.len() + data.len();
        if self.file.is_none() && end > self.buffer.capacity() && self.grow(end) {
            self.buffer.reserve_exact(
                end.next_multiple_of(RESERVE_STEP_BYTES).max(self.buffer.capacity() * 2) - self.buffer.len(),
            );
        }
        self.buffer.extend_from_slice(data);
    }

    /// Doubles the reservation; `false` when the budget is used up.
    fn grow(&mut self, end: usize) -> bool {
        let wanted_kib = end.next_multiple_of(RESERVE_STEP_BYTES).max(self.buffer.capacity() * 2) / 1024;
        let extra = wanted_kib.saturating_sub(self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        let extra =
            Arc::clone(&self.budget.in_transit).try_acquire_many_owned(u32::try_from(extra).unwrap_or(u32::MAX));
        match (extra, &mut self.permit) {
            (Ok(extra), Some(permit)) => permit.merge(extra),
            (Ok(extra), empty @ None) => *empty = Some(extra),
            (Err(_), _) => return false,
        }
        true
    }

    /// Whether `buffer` is over its reservation: call [`SpillBuffer::spill`] next.
    pub fn is_full(&self) -> bool {
        let reserved = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) * 1024;
        if self.file.is_some() { self.buffer.len() >= WRITE_BLOCK_BYTES } else { self.buffer.len() > reserved }
    }

    /// Appends `buffer` to the file. Blocks.
    ///
    /// # Errors
    /// `NoSpace`; I/O errors.
    pub fn spill(&mut self) -> Result<(), Fault> {
        let file = match &mut self.file {
            Some(file) => file,
            empty @ None => empty.insert(tempfile::tempfile_in(&self.folder).map_err(io_fault)?),
        };
        file.seek(SeekFrom::Start(self.file_bytes)).and_then(|_| file.write_all(&self.buffer)).map_err(io_fault)?;
        self.file_bytes += self.buffer.len() as u64;
        (self.buffer, self.permit) = Default::default();
        Ok(())
    }

    /// Whether a part is on disk.
    pub fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// The full content, with its memory permit if nothing is on disk; else the caller must have
    /// one from [`MemoryBudget::reserve_buffer`]. Blocks.
    ///
    /// # Errors
    /// I/O errors.
    pub fn into_bytes(self) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Fault> {
        let Self { permit, buffer, file, file_bytes, .. } = self;
        let Some(file) = file else { return Ok((buffer.into(), permit)) };
        let length = usize::try_from(file_bytes).map_err(Fault::internal)?;
        let mut content = Vec::with_capacity(length + buffer.len());
        content.resize(length, 0);
        file.read_exact_at(&mut content, 0).map_err(io_fault)?;
        content.extend_from_slice(&buffer);
        Ok((content.into(), permit))
    }
}

fn io_fault(error: std::io::Error) -> Fault {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Fault::disk_full("the upload").with_source(error)
        }
        _ => Fault::internal(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(gathering: &mut SpillBuffer, bytes: usize) -> Vec<u8> {
        let content: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        for piece in content.chunks(10_000) {
            gathering.push(piece);
            if gathering.is_full() {
                gathering.spill().unwrap();
            }
        }
        content
    }

    #[test]
    fn a_slow_body_reserves_only_received_bytes_and_blocks_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let budget = Arc::new(MemoryBudget::new(1024, 1024));
        let mut slow: Vec<_> = (0..20).map(|_| SpillBuffer::new(&budget, folder.path())).collect();
        slow.iter_mut().for_each(|slow| slow.push(b"a first word"));
        assert!(!slow[0].is_full(), "little has come");
        let mut lone = SpillBuffer::new(&budget, folder.path());
        let content = gathered(&mut lone, 3 << 20);
        assert!(lone.is_on_disk(), "there is room for one MiB");
        assert_eq!(lone.length(), content.len() as u64);
        assert_eq!(lone.into_bytes().unwrap().0, content);
        drop(slow);
        let mut small = SpillBuffer::new(&budget, folder.path());
        let content = gathered(&mut small, 400_000);
        assert!(!small.is_on_disk());
        assert_eq!(small.into_bytes().unwrap().0, content);
        assert_eq!(budget.in_transit.available_permits(), 1024, "all of it is given back");
    }

    #[test]
    fn a_body_without_memory_budget_spills_from_the_first_byte() {
        let folder = tempfile::tempdir().unwrap();
        let budget = Arc::new(MemoryBudget::new(64, 1024));
        let mut first = SpillBuffer::new(&budget, folder.path());
        gathered(&mut first, 50_000);
        let mut second = SpillBuffer::new(&budget, folder.path());
        let content = gathered(&mut second, 700_001);
        assert!(!first.is_on_disk() && second.is_on_disk());
        assert_eq!(second.into_bytes().unwrap().0, content);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }
}
