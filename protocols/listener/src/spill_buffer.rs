//! Bodies on their way: in memory while there is room for what has come of them, in a file without a name where there is none.
//!
//! One rule: nobody waits for those who are slow. A body takes as much room as has come of it and no more, and where all room is taken the next
//! piece goes to the disk instead of waiting. Only a body that is here whole waits for room, in which others are as fast as the disk.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use svcfs_base::{Fault, Kind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// KiB of memory for bodies that are on their way.
const COMING: usize = 384 << 10;
/// KiB of memory for those that are here whole and come back from the disk.
const WHOLE: usize = 128 << 10;
/// How long one waits for that.
const PATIENCE: Duration = Duration::from_secs(30);
/// Least room that is taken more, in bytes.
const STEP: usize = 64 << 10;
/// Bytes that wait in front of the file: as they come, they would be a call of the disk for every few KiB. They are of no room, and of each of thousands.
const AHEAD: usize = 64 << 10;

/// Memory for the bodies of one door.
#[derive(Debug)]
pub struct MemoryBudget {
    coming: Arc<Semaphore>,
    whole: Arc<Semaphore>,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::new(COMING, WHOLE)
    }
}

impl MemoryBudget {
    /// As many KiB for what comes, and for what is here whole.
    pub fn new(coming: usize, whole: usize) -> Self {
        Self { coming: Arc::new(Semaphore::new(coming)), whole: Arc::new(Semaphore::new(whole)) }
    }

    /// Room for so many bytes that are about to come, if there is as much now; it is given back with what is returned.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(1024)).ok()?;
        Arc::clone(&self.coming).try_acquire_many_owned(kib).ok()
    }

    /// KiB of room for what comes that are free.
    #[cfg(test)]
    pub(crate) fn available(&self) -> usize {
        self.coming.available_permits()
    }

    /// Waits for room for something that is here and is dealt with now; it is given back with what is returned.
    ///
    /// # Errors
    /// `Unavailable` after half a minute.
    pub async fn reserve_buffer(&self, length: u64) -> Result<OwnedSemaphorePermit, Fault> {
        let kib = usize::try_from(length / 1024 + 1).unwrap_or(usize::MAX).min(WHOLE / 2 + 1);
        let permit = Arc::clone(&self.whole).acquire_many_owned(u32::try_from(kib).unwrap_or(u32::MAX));
        let permit = tokio::time::timeout(PATIENCE, permit).await;
        let permit =
            permit.map_err(|_| Fault::unavailable("too many files are put in place here; try again in a moment"))?;
        permit.map_err(Fault::internal)
    }
}

/// A body, as far as it has come.
#[derive(Debug)]
pub struct SpillBuffer {
    room: Arc<MemoryBudget>,
    /// Room for `here`, as far as it was taken at once.
    taken: Option<OwnedSemaphorePermit>,
    here: Vec<u8>,
    /// What came first, where there was no room for all: `here` lies behind it then.
    file: Option<File>,
    /// Bytes in the file.
    filed: u64,
    folder: PathBuf,
}

impl SpillBuffer {
    /// An empty one, which has its file in `folder` if it needs one.
    pub fn new(room: &Arc<MemoryBudget>, folder: &Path) -> Self {
        let (taken, here, file) = Default::default();
        Self { room: Arc::clone(room), taken, here, file, filed: 0, folder: folder.to_owned() }
    }

    /// Bytes that have come.
    pub fn length(&self) -> u64 {
        self.filed + self.here.len() as u64
    }

    /// Adds what comes next. Afterwards [`Gathering::is_full`] tells whether it must be written out.
    pub fn push(&mut self, data: &[u8]) {
        let end = self.here.len() + data.len();
        if self.file.is_none() && end > self.here.capacity() && self.grow(end) {
            self.here.reserve_exact(end.next_multiple_of(STEP).max(self.here.capacity() * 2) - self.here.len());
        }
        self.here.extend_from_slice(data);
    }

    /// Takes room for twice as much as before, or says that there is none.
    fn grow(&mut self, end: usize) -> bool {
        let wanted = end.next_multiple_of(STEP).max(self.here.capacity() * 2) / 1024;
        let more = wanted.saturating_sub(self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        let more = Arc::clone(&self.room.coming).try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX));
        match (more, &mut self.taken) {
            (Ok(more), Some(taken)) => taken.merge(more),
            (Ok(more), none @ None) => *none = Some(more),
            (Err(_), _) => return false,
        }
        true
    }

    /// Whether more is here than there is room for: [`Gathering::write_out`] is next.
    pub fn is_full(&self) -> bool {
        let held = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) * 1024;
        if self.file.is_some() { self.here.len() >= AHEAD } else { self.here.len() > held }
    }

    /// Writes what is here to the disk, which waits for it.
    ///
    /// # Errors
    /// `NoSpace`; those of the disk.
    pub fn spill(&mut self) -> Result<(), Fault> {
        let file = match &mut self.file {
            Some(file) => file,
            none @ None => none.insert(tempfile::tempfile_in(&self.folder).map_err(failed)?),
        };
        file.seek(SeekFrom::Start(self.filed)).and_then(|_| file.write_all(&self.here)).map_err(failed)?;
        self.filed += self.here.len() as u64;
        (self.here, self.taken) = Default::default();
        Ok(())
    }

    /// Whether something of it is on the disk.
    pub fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// All of it, with the room it has if nothing is on the disk; of the other the caller has room. Waits for the disk.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn into_bytes(self) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Fault> {
        let Self { taken, here, file, filed, .. } = self;
        let Some(file) = file else { return Ok((here.into(), taken)) };
        let length = usize::try_from(filed).map_err(Fault::internal)?;
        let mut all = Vec::with_capacity(length + here.len());
        all.resize(length, 0);
        file.read_exact_at(&mut all, 0).map_err(failed)?;
        all.extend_from_slice(&here);
        Ok((all.into(), taken))
    }
}

fn failed(error: std::io::Error) -> Fault {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Fault::new(Kind::NoSpace, "no space left on the disk for what is on its way here").with_source(error)
        }
        _ => Fault::internal(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(gathering: &mut SpillBuffer, bytes: usize) -> Vec<u8> {
        let all: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        for piece in all.chunks(10_000) {
            gathering.push(piece);
            if gathering.is_full() {
                gathering.spill().unwrap();
            }
        }
        all
    }

    #[test]
    fn what_is_slow_takes_room_for_what_has_come_of_it_and_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let room = Arc::new(MemoryBudget::new(1024, 1024));
        let mut slow: Vec<_> = (0..20).map(|_| SpillBuffer::new(&room, folder.path())).collect();
        slow.iter_mut().for_each(|slow| slow.push(b"a first word"));
        assert!(!slow[0].is_full(), "little has come");
        let mut lone = SpillBuffer::new(&room, folder.path());
        let all = gathered(&mut lone, 3 << 20);
        assert!(lone.is_on_disk(), "there is room for one MiB");
        assert_eq!(lone.length(), all.len() as u64);
        assert_eq!(lone.into_bytes().unwrap().0, all);
        drop(slow);
        let mut small = SpillBuffer::new(&room, folder.path());
        let all = gathered(&mut small, 400_000);
        assert!(!small.is_on_disk());
        assert_eq!(small.into_bytes().unwrap().0, all);
        assert_eq!(room.coming.available_permits(), 1024, "all of it is given back");
    }

    #[test]
    fn where_all_room_is_taken_a_body_goes_to_the_disk_from_its_first_byte_on() {
        let folder = tempfile::tempdir().unwrap();
        let room = Arc::new(MemoryBudget::new(64, 1024));
        let mut first = SpillBuffer::new(&room, folder.path());
        gathered(&mut first, 50_000);
        let mut second = SpillBuffer::new(&room, folder.path());
        let all = gathered(&mut second, 700_001);
        assert!(!first.is_on_disk() && second.is_on_disk());
        assert_eq!(second.into_bytes().unwrap().0, all);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }
}
