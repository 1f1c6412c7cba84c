//! Bytes that were written and are not on the server.
//!
//! One rule: those of all files of a mount have one room in memory, and what comes on top of that is in files without a name on this machine's disk,
//! beside the texts that were not taken. A program that keeps many files open is held up by neither, until that disk is full.
//!
//! Why not refuse what comes on top? Because a program cannot know how much others have open, and would fail where on any disk it goes on.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use svcfs_base::{ETag, Fault, Kind};

/// Bytes in memory at most, those of all files together.
const IN_MEMORY: usize = 256 << 20;

/// Where the bytes of a mount are.
#[derive(Clone)]
pub(super) struct DirtyBufferPool(Arc<BufferBudget>);

struct BufferBudget {
    /// Where those are that have no room in memory; made when it is needed.
    directory: PathBuf,
    most: usize,
    /// Bytes in memory.
    taken: AtomicUsize,
}

/// The bytes of one file.
pub(super) struct RemoteDirtyBuffer {
    held: BufferStorage,
    /// How many of them are counted.
    counted: usize,
    room: Arc<BufferBudget>,
}

enum BufferStorage {
    Memory(Vec<u8>),
    Disk(File, usize),
}

impl DirtyBufferPool {
    /// With files in this directory.
    pub(super) fn in_directory(directory: PathBuf) -> Self {
        Self::of(directory, IN_MEMORY)
    }

    /// With room for so many bytes in memory.
    pub(super) fn of(directory: PathBuf, most: usize) -> Self {
        Self(Arc::new(BufferBudget { directory, most, taken: AtomicUsize::new(0) }))
    }

    /// No bytes.
    pub(super) fn empty(&self) -> RemoteDirtyBuffer {
        RemoteDirtyBuffer { held: BufferStorage::Memory(Vec::new()), counted: 0, room: Arc::clone(&self.0) }
    }

    /// These bytes.
    ///
    /// # Errors
    /// `NoSpace`; those of the disk.
    pub(super) fn begun(&self, bytes: &[u8]) -> Result<RemoteDirtyBuffer, Fault> {
        let mut draft = self.empty();
        draft.write(0, bytes)?;
        Ok(draft)
    }
}

impl RemoteDirtyBuffer {
    /// How many there are.
    pub(super) const fn length(&self) -> usize {
        match &self.held {
            BufferStorage::Memory(bytes) => bytes.len(),
            BufferStorage::Disk(_, length) => *length,
        }
    }

    /// Bytes from one place to another, both within them.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn read(&self, (start, end): (usize, usize)) -> Result<Bytes, Fault> {
        match &self.held {
            BufferStorage::Memory(bytes) => Ok(Bytes::copy_from_slice(&bytes[start..end])),
            BufferStorage::Disk(file, _) => {
                let mut bytes = vec![0; end - start];
                self.room.tried(file.read_exact_at(&mut bytes, start as u64))?;
                Ok(bytes.into())
            }
        }
    }

    /// All of them.
    fn all(&self) -> Result<Bytes, Fault> {
        self.read((0, self.length()))
    }

    /// Their git blob hash.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn etag(&self) -> Result<ETag, Fault> {
        match &self.held {
            BufferStorage::Memory(bytes) => Ok(ETag::from_content(bytes)),
            BufferStorage::Disk(..) => Ok(ETag::from_content(&self.all()?)),
        }
    }

    /// All of them, without a copy where they are in memory; nothing is here then.
    ///
    /// # Errors
    /// Those of the disk; they are all here still.
    pub(super) fn taken(&mut self) -> Result<Bytes, Fault> {
        match &mut self.held {
            BufferStorage::Memory(bytes) => Ok(std::mem::take(bytes).into()),
            BufferStorage::Disk(..) => self.all(),
        }
    }

    /// Writes from a place on; what lies between it and the end is zeros.
    ///
    /// # Errors
    /// `NoSpace`; those of the disk. Some of it may be written then.
    pub(super) fn write(&mut self, start: usize, data: &[u8]) -> Result<(), Fault> {
        let end = start + data.len();
        if end > self.length() {
            self.resize(end)?;
        }
        match &mut self.held {
            BufferStorage::Memory(bytes) => {
                bytes[start..end].copy_from_slice(data);
                Ok(())
            }
            BufferStorage::Disk(file, _) => self.room.tried(file.write_all_at(data, start as u64)),
        }
    }

    /// Gives them another length; what is new is zeros.
    ///
    /// # Errors
    /// `NoSpace`; those of the disk.
    pub(super) fn resize(&mut self, size: usize) -> Result<(), Fault> {
        if let BufferStorage::Memory(bytes) = &mut self.held {
            if self.room.counts(self.counted, size) {
                self.counted = size;
                bytes.resize(size, 0);
                bytes.shrink_to(2 * size);
                return Ok(());
            }
            let file = self.room.tried(self.room.file())?;
            self.room.tried(file.write_all_at(bytes, 0))?;
            self.held = BufferStorage::Disk(file, bytes.len());
            self.room.counts(std::mem::take(&mut self.counted), 0);
        }
        if let BufferStorage::Disk(file, length) = &mut self.held {
            self.room.tried(file.set_len(size as u64))?;
            *length = size;
        }
        Ok(())
    }
}

impl Drop for RemoteDirtyBuffer {
    fn drop(&mut self) {
        self.room.counts(self.counted, 0);
    }
}

impl BufferBudget {
    /// Counts one number of bytes where another was counted; false where there is no room for that.
    fn counts(&self, before: usize, now: usize) -> bool {
        let more = now.saturating_sub(before);
        if more > 0 && self.taken.fetch_add(more, Ordering::Relaxed) > self.most.saturating_sub(more) {
            self.taken.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.taken.fetch_sub(before.saturating_sub(now), Ordering::Relaxed);
        true
    }

    fn file(&self) -> io::Result<File> {
        fs::create_dir_all(&self.directory)?;
        tempfile::tempfile_in(&self.directory)
    }

    fn tried<T>(&self, outcome: io::Result<T>) -> Result<T, Fault> {
        outcome.map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                let place = self.directory.display();
                let told = format!("no space left at `{place}` of this machine for what is written and not saved");
                Fault::new(Kind::NoSpace, told).with_source(error)
            }
            _ => Fault::internal(error).with_context("what is written and not saved is on this machine's disk"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_saved_has_one_room_in_memory_and_comes_to_the_disk_beyond_it() {
        let directory = tempfile::tempdir().unwrap();
        let drafts = DirtyBufferPool::of(directory.path().join("state"), 10);
        let mut small = drafts.begun(b"small").unwrap();
        let mut long = drafts.begun(b"begin").unwrap();
        assert!(!directory.path().join("state").exists(), "there is room for both");
        long.write(8, b"end").unwrap();
        assert!(matches!((&small.held, &long.held), (BufferStorage::Memory(_), BufferStorage::Disk(..))));
        assert_eq!(long.all().unwrap(), "begin\0\0\0end");
        small.write(5, b"-last").unwrap();
        assert_eq!(small.all().unwrap(), "small-last");
        assert!(matches!(small.held, BufferStorage::Memory(_)), "what went to the disk left its room");
        long.resize(3).unwrap();
        long.write(3, b"in").unwrap();
        assert_eq!((long.all().unwrap(), long.length()), (Bytes::from("begin"), 5));
        assert_eq!(std::fs::read_dir(directory.path().join("state")).unwrap().count(), 0, "the file has no name");
        drop(small);
        assert_eq!(drafts.0.taken.load(Ordering::Relaxed), 0);
    }
}
