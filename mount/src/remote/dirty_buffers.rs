//! Bytes that were written and are not on the server yet.
//!
//! Invariant: all files of a mount share one memory budget; the rest goes to unnamed files on this
//! machine's disk, beside the rejected saves. So a program with many open files is never blocked,
//! until that disk is full.
//!
//! Refusing writes beyond the budget was rejected: a program cannot know what others have open.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use svcfs_base::{ETag, Fault, Kind};

/// Memory budget of all files together.
const MAX_MEMORY_BYTES: usize = 256 << 20;

/// The buffers of a mount.
#[derive(Clone)]
pub(super) struct DirtyBufferPool(Arc<BufferBudget>);

struct BufferBudget {
    /// For buffers beyond the budget; created when needed.
    directory: PathBuf,
    limit_bytes: usize,
    used_bytes: AtomicUsize,
}

/// The dirty bytes of one file.
pub(super) struct RemoteDirtyBuffer {
    storage: BufferStorage,
    /// Bytes charged to the budget.
    charged_bytes: usize,
    budget: Arc<BufferBudget>,
}

enum BufferStorage {
    Memory(Vec<u8>),
    Disk(File, usize),
}

impl DirtyBufferPool {
    pub(super) fn in_directory(directory: PathBuf) -> Self {
        Self::with_limit(directory, MAX_MEMORY_BYTES)
    }

    pub(super) fn with_limit(directory: PathBuf, limit_bytes: usize) -> Self {
        Self(Arc::new(BufferBudget { directory, limit_bytes, used_bytes: AtomicUsize::new(0) }))
    }

    pub(super) fn empty(&self) -> RemoteDirtyBuffer {
        RemoteDirtyBuffer { storage: BufferStorage::Memory(Vec::new()), charged_bytes: 0, budget: Arc::clone(&self.0) }
    }

    /// A buffer with this content.
    ///
    /// # Errors
    /// `NoSpace`; `Internal` for other I/O errors.
    pub(super) fn with_content(&self, bytes: &[u8]) -> Result<RemoteDirtyBuffer, Fault> {
        let mut buffer = self.empty();
        buffer.write(0, bytes)?;
        Ok(buffer)
    }
}

impl RemoteDirtyBuffer {
    pub(super) const fn length(&self) -> usize {
        match &self.storage {
            BufferStorage::Memory(bytes) => bytes.len(),
            BufferStorage::Disk(_, length) => *length,
        }
    }

    /// Reads a range, which must be inside the buffer.
    pub(super) fn read(&self, (start, end): (usize, usize)) -> Result<Bytes, Fault> {
        match &self.storage {
            BufferStorage::Memory(bytes) => Ok(Bytes::copy_from_slice(&bytes[start..end])),
            BufferStorage::Disk(file, _) => {
                let mut bytes = vec![0; end - start];
                self.budget.to_fault(file.read_exact_at(&mut bytes, start as u64))?;
                Ok(bytes.into())
            }
        }
    }

    fn all(&self) -> Result<Bytes, Fault> {
        self.read((0, self.length()))
    }

    /// The git blob hash.
    pub(super) fn etag(&self) -> Result<ETag, Fault> {
        match &self.storage {
            BufferStorage::Memory(bytes) => Ok(ETag::from_content(bytes)),
            BufferStorage::Disk(..) => Ok(ETag::from_content(&self.all()?)),
        }
    }

    /// Moves the content out, without a copy if it is in memory.
    ///
    /// # Errors
    /// I/O errors; the buffer is then unchanged.
    pub(super) fn take_content(&mut self) -> Result<Bytes, Fault> {
        match &mut self.storage {
            BufferStorage::Memory(bytes) => Ok(std::mem::take(bytes).into()),
            BufferStorage::Disk(..) => self.all(),
        }
    }

    /// Writes at an offset; a gap before it is filled with zeros.
    ///
    /// # Errors
    /// `NoSpace`; other I/O errors. The write may then be partial.
    pub(super) fn write(&mut self, start: usize, data: &[u8]) -> Result<(), Fault> {
        let end = start + data.len();
        if end > self.length() {
            self.resize(end)?;
        }
        match &mut self.storage {
            BufferStorage::Memory(bytes) => {
                bytes[start..end].copy_from_slice(data);
                Ok(())
            }
            BufferStorage::Disk(file, _) => self.budget.to_fault(file.write_all_at(data, start as u64)),
        }
    }

    /// Truncates, or extends with zeros.
    ///
    /// # Errors
    /// `NoSpace`; other I/O errors.
    pub(super) fn resize(&mut self, size: usize) -> Result<(), Fault> {
        if let BufferStorage::Memory(bytes) = &mut self.storage {
            if self.budget.try_charge(self.charged_bytes, size) {
                self.charged_bytes = size;
                bytes.resize(size, 0);
                bytes.shrink_to(2 * size);
                return Ok(());
            }
            let file = self.budget.to_fault(self.budget.file())?;
            self.budget.to_fault(file.write_all_at(bytes, 0))?;
            self.storage = BufferStorage::Disk(file, bytes.len());
            self.budget.try_charge(std::mem::take(&mut self.charged_bytes), 0);
        }
        if let BufferStorage::Disk(file, length) = &mut self.storage {
            self.budget.to_fault(file.set_len(size as u64))?;
            *length = size;
        }
        Ok(())
    }
}

impl Drop for RemoteDirtyBuffer {
    fn drop(&mut self) {
        self.budget.try_charge(self.charged_bytes, 0);
    }
}

impl BufferBudget {
    /// Changes a charge; false if the budget does not allow it.
    fn try_charge(&self, before: usize, now: usize) -> bool {
        let added = now.saturating_sub(before);
        if added > 0 && self.used_bytes.fetch_add(added, Ordering::Relaxed) > self.limit_bytes.saturating_sub(added) {
            self.used_bytes.fetch_sub(added, Ordering::Relaxed);
            return false;
        }
        self.used_bytes.fetch_sub(before.saturating_sub(now), Ordering::Relaxed);
        true
    }

    fn file(&self) -> io::Result<File> {
        fs::create_dir_all(&self.directory)?;
        tempfile::tempfile_in(&self.directory)
    }

    fn to_fault<T>(&self, outcome: io::Result<T>) -> Result<T, Fault> {
        outcome.map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                let directory = self.directory.display();
                let message = format!(
                    "no space left on this machine at `{directory}` for unsaved changes; free disk space there"
                );
                Fault::new(Kind::NoSpace, message).with_source(error)
            }
            _ => Fault::internal(error).with_context("cannot buffer unsaved changes on this machine's disk"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsaved_data_shares_one_memory_budget_and_spills_to_disk() {
        let directory = tempfile::tempdir().unwrap();
        let dirty_buffers = DirtyBufferPool::with_limit(directory.path().join("state"), 10);
        let mut small = dirty_buffers.with_content(b"small").unwrap();
        let mut long = dirty_buffers.with_content(b"begin").unwrap();
        assert!(!directory.path().join("state").exists(), "there is room for both");
        long.write(8, b"end").unwrap();
        assert!(matches!((&small.storage, &long.storage), (BufferStorage::Memory(_), BufferStorage::Disk(..))));
        assert_eq!(long.all().unwrap(), "begin\0\0\0end");
        small.write(5, b"-last").unwrap();
        assert_eq!(small.all().unwrap(), "small-last");
        assert!(matches!(small.storage, BufferStorage::Memory(_)), "what went to the disk left its room");
        long.resize(3).unwrap();
        long.write(3, b"in").unwrap();
        assert_eq!((long.all().unwrap(), long.length()), (Bytes::from("begin"), 5));
        assert_eq!(std::fs::read_dir(directory.path().join("state")).unwrap().count(), 0, "the file has no name");
        drop(small);
        assert_eq!(dirty_buffers.0.used_bytes.load(Ordering::Relaxed), 0);
    }
}
