//! Write sessions: files that are being written.
//!
//! NFSv3 has no close. A file is saved as one version when no client has written to it for a while,
//! at COMMIT (which clients send when a program closes or flushes a file), when it is renamed, and
//! when history is read.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs3_types::nfs3::nfsstat3;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use svcfs_base::{Caller, DiskAttributes, Durability, ETag, Fault, Kind, MAX_FILE_BYTES};
use svcfs_vfs::{EntryKind, HandleId, NodeId, OpenMode, RejectedBuffer, StableOperation, StableWrite, WriteAt};

use crate::error::{NfsError, status};
use crate::export::NfsExport;
use crate::file_handle::ExportEntry;
use crate::rejected::PATIENCE;
use crate::stable_write_replay;

/// A file is saved after this time without a write.
pub(crate) const IDLE: Duration = Duration::from_secs(2);
/// A file that is written without a pause is saved this often.
const LONGEST: Duration = Duration::from_secs(60);
/// How long until a save is retried after an I/O error.
const AGAIN: Duration = Duration::from_secs(5);
/// Number of files in a space that may be written at the same time; beyond it, those that were idle
/// for longest are saved.
const MOST_FILES: usize = 512;
/// Total unsaved bytes in a space.
const MOST_BYTES: u64 = 256 << 20;

pub(crate) struct WriteSession {
    pub(crate) node: NodeId,
    pub(crate) handle: HandleId,
    number: u64,
    /// The last writer.
    caller: Caller,
    /// The saved content when the first stable write was recorded.
    base: Option<Option<ETag>>,
    began: Instant,
    wrote: Instant,
    /// When to retry after an I/O error.
    again: Option<Instant>,
    /// Unsaved bytes in memory.
    bytes: u64,
    /// Too large for versions at the last write.
    is_large: bool,
    /// Bytes of recorded stable writes.
    promised: u64,
    /// First and last log position of the recorded stable writes.
    promises: Option<RangeInclusive<i64>>,
    /// When and why the file was rejected, if it was never saved and not written since.
    refused: Option<(Instant, Kind)>,
    /// The session continues a rejected text whose records were dropped: the next record must
    /// contain the full text.
    is_owed_whole: bool,
    is_over: bool,
}

/// A session with its node and handle.
type SessionHandle = (NodeId, HandleId, Arc<Mutex<WriteSession>>);
/// A locked session.
type SessionGuard = ArcMutexGuard<RawMutex, WriteSession>;

/// The write sessions of a space, by inode.
#[derive(Default)]
pub(crate) struct WriteSessions {
    open: Mutex<HashMap<u64, SessionHandle>>,
}

impl WriteSessions {
    /// The node of a file that is being written.
    pub(crate) fn node(&self, number: u64) -> Option<NodeId> {
        self.open.lock().get(&number).map(|(node, ..)| *node)
    }

    /// Locks the session of a file, if there is one.
    fn get(&self, number: u64) -> Option<SessionGuard> {
        let writer = self.open.lock().get(&number).map(|(.., writer)| Arc::clone(writer))?;
        let writer = Mutex::lock_arc(&writer);
        (!writer.is_over).then_some(writer)
    }

    fn all(&self) -> Vec<Arc<Mutex<WriteSession>>> {
        self.open.lock().values().map(|(.., writer)| Arc::clone(writer)).collect()
    }

    /// Total unsaved bytes in memory, without sessions that are locked now.
    pub(crate) fn waiting(&self) -> u64 {
        self.all().iter().filter_map(|writer| writer.try_lock().map(|held| held.bytes)).sum()
    }

    /// Removes a session. An error must be stored before: a call that does not find the session
    /// asks for it.
    fn forget(&self, writer: &mut WriteSession) {
        writer.is_over = true;
        let mut open = self.open.lock();
        // A closed session may have a successor for the same inode.
        if open.get(&writer.number).is_some_and(|(_, handle, _)| *handle == writer.handle) {
            open.remove(&writer.number);
        }
    }

    /// The status of a rejected file that was never saved.
    pub(crate) fn refused(&self, number: u64) -> Option<nfsstat3> {
        self.get(number)?.refused.map(|(_, kind)| status(kind))
    }
}

impl WriteSession {
    fn due(&self) -> Instant {
        match (self.refused, self.again) {
            (Some((since, _)), _) => since + PATIENCE,
            (None, Some(again)) => again,
            (None, None) => (self.wrote + IDLE).min(self.began + LONGEST),
        }
    }

    /// Takes the stable-write records of a session that was saved or rejected, and whether any of
    /// them was a write.
    fn promises_done(&mut self) -> Option<(RangeInclusive<i64>, bool)> {
        if !self.is_over && self.refused.is_none() {
            return None;
        }
        let promised = std::mem::take(&mut self.promised);
        Some((self.promises.take()?, promised > 0))
    }
}

impl NfsExport {
    /// Locks the session of a file that `caller` is about to write, and opens one if needed: with
    /// the current page, or with the rejected text that the write continues.
    pub(crate) fn writer(
        &self,
        entry: &ExportEntry,
        caller: &Caller,
        written: (u64, &[u8]),
    ) -> Result<SessionGuard, NfsError> {
        loop {
            if let Some(mut writer) = self.writers.get(entry.number) {
                if self.vfs().path_of(writer.node).is_ok_and(|path| entry.now().is_ok_and(|now| now == path)) {
                    writer.caller = caller.clone();
                    if writer.refused.take().is_some() {
                        // The full text is checked again.
                        self.refused.untold(entry.number);
                        (writer.began, writer.is_owed_whole) = (Instant::now(), true);
                    }
                    return Ok(writer);
                }
                // Another protocol removed or renamed the file; unsaved writes go with it.
                if writer.refused.is_some() {
                    self.give_up(&mut writer)?;
                    continue;
                }
                let saved = self.save(&mut writer);
                if !writer.is_over {
                    saved?;
                }
                continue;
            }
            let seen = entry.seen(caller)?;
            match seen.attributes.kind {
                EntryKind::File => {}
                EntryKind::Directory => return Err(nfsstat3::NFS3ERR_ISDIR.into()),
                EntryKind::Symlink | EntryKind::Special(_) => return Err(nfsstat3::NFS3ERR_INVAL.into()),
            }
            let handle = self.vfs().open_node(caller, seen.node, OpenMode { write: true, truncate: false })?;
            if let Some(mut writer) = self.opened(entry.number, (seen.node, handle), caller) {
                let path = self.vfs().path_of(seen.node).map_err(NfsError::from);
                match path.and_then(|path| self.goes_on((entry.number, &path), (seen.node, handle), written)) {
                    Ok(None) => {}
                    Ok(Some(base)) => (writer.base, writer.is_owed_whole) = (base.map(Some), true),
                    Err(refusal) => {
                        self.give_up(&mut writer)?;
                        return Err(refusal);
                    }
                }
                return Ok(writer);
            }
            self.vfs().release(caller, handle)?;
        }
    }

    /// Adds a session for an opened file; `None` when another call was faster.
    pub(crate) fn opened(
        &self,
        number: u64,
        (node, handle): (NodeId, HandleId),
        caller: &Caller,
    ) -> Option<SessionGuard> {
        let now = Instant::now();
        let writer = WriteSession {
            node,
            handle,
            number,
            caller: caller.clone(),
            base: None,
            began: now,
            wrote: now,
            again: None,
            bytes: 0,
            is_large: false,
            promised: 0,
            promises: None,
            refused: None,
            is_owed_whole: false,
            is_over: false,
        };
        let writer = Arc::new(Mutex::new(writer));
        let held = Mutex::lock_arc(&writer);
        let mut open = self.writers.open.lock();
        if open.contains_key(&number) {
            return None;
        }
        open.insert(number, (node, handle, writer));
        drop(open);
        Some(held)
    }

    /// Records a stable write. With `is_flushed` it survives a power failure, otherwise only the
    /// death of this process.
    pub(crate) fn promise(
        &self,
        writer: &mut WriteSession,
        act: StableOperation,
        is_flushed: bool,
    ) -> Result<(), Fault> {
        let bytes = match &act {
            StableOperation::Resize(_) => 0,
            StableOperation::Write(_, data) => data.len() as u64,
        };
        if writer.is_large {
            return if is_flushed || writer.promises.is_some() { self.keep_large(writer) } else { Ok(()) };
        }
        let base = *writer.base.get_or_insert_with(|| stable_write_replay::standing(self.vfs(), writer.node));
        let author = Some(writer.caller.actor());
        let made = if base.is_none() { self.vfs().attributes(writer.node).ok() } else { None };
        let disk = made.map_or_else(DiskAttributes::default, |made| DiskAttributes {
            mode: Some(made.mode),
            owner: Some((made.uid, made.gid)),
            ..DiskAttributes::default()
        });
        for act in self.owed_acts(writer, act)? {
            let promise = StableWrite {
                inode: writer.number,
                base_etag: base,
                operation: act,
                author: author.clone(),
                attributes: disk,
            };
            let position = self.numbers.record_write(&promise, is_flushed)?;
            let first = writer.promises.as_ref().map_or(position, |before| *before.start());
            writer.promises = Some(first..=position);
        }
        writer.is_owed_whole = false;
        writer.promised += bytes;
        if writer.promised <= MAX_FILE_BYTES as u64 {
            return Ok(());
        }
        let saved = self.save(writer);
        match saved {
            // The write just recorded is part of the rejected text and stored with it.
            Err(fault) if self.refused.has_text(writer.number) || writer.refused.is_some() => {
                self.refused.tell_later(writer.number, &fault);
                Ok(())
            }
            saved => saved,
        }
    }

    /// The operations to record for a write: itself, or the full text.
    fn owed_acts(&self, writer: &WriteSession, act: StableOperation) -> Result<Vec<StableOperation>, Fault> {
        if !writer.is_owed_whole {
            return Ok(vec![act]);
        }
        let text = self.vfs().read_node(writer.node, 0, MAX_FILE_BYTES)?;
        Ok(vec![StableOperation::Resize(0), StableOperation::Write(0, text.into())])
    }

    /// Flushes a large file, which has no versions. Records from the time when it was small are
    /// dropped: replaying them would truncate it.
    fn keep_large(&self, writer: &mut WriteSession) -> Result<(), Fault> {
        self.vfs().publish(&writer.caller, writer.node, Durability::Now)?;
        if let Some(promises) = writer.promises.clone() {
            self.numbers.discard_writes(&[(writer.number, promises)], true)?;
        }
        (writer.base, writer.promised, writer.promises) = (None, 0, None);
        Ok(())
    }

    /// Updates a session after a write.
    pub(crate) fn wrote(&self, writer: &mut WriteSession) {
        writer.wrote = Instant::now();
        self.measure(writer);
    }

    /// Updates the unsaved bytes: the file's size, or 0 for a file too large for versions.
    fn measure(&self, writer: &mut WriteSession) {
        let size = self.vfs().attributes(writer.node).map_or(0, |attributes| attributes.size);
        writer.is_large = size > MAX_FILE_BYTES as u64;
        writer.bytes = if writer.is_large { 0 } else { size };
    }

    /// Saves the sessions that were idle for longest when there are too many, or too many bytes in
    /// them. The caller must not hold a session.
    pub(crate) fn make_room(&self) {
        let open = self.writers.all();
        if open.len() <= MOST_FILES && self.writers.waiting() <= MOST_BYTES {
            return;
        }
        let mut times: Vec<Instant> = open.iter().filter_map(|writer| Some(writer.try_lock()?.wrote)).collect();
        times.sort();
        // Half of the sessions, which share one flush.
        if let Some(middle) = times.get(times.len() / 2).copied() {
            self.settle_those(|writer| writer.wrote <= middle);
        }
    }

    /// Saves a file durably and closes its session.
    ///
    /// # Errors
    /// Why it was not saved. A text rejected by a gate or for a conflict is stored under
    /// `.svc/rejected`; after an I/O error the save is retried.
    fn save(&self, writer: &mut WriteSession) -> Result<(), Fault> {
        let outcome = self.publish(writer, Durability::Now);
        if writer.is_over {
            self.writers.forget(writer);
        }
        if let Some((promises, is_flushed)) = writer.promises_done() {
            self.numbers.discard_writes(&[(writer.number, promises)], is_flushed)?;
        }
        outcome
    }

    /// Closes a session without saving.
    fn give_up(&self, writer: &mut WriteSession) -> Result<(), Fault> {
        self.writers.forget(writer);
        self.vfs().release(&writer.caller, writer.handle)
    }

    /// Saves a file. The caller reports the outcome and removes the session.
    fn publish(&self, writer: &mut WriteSession, durability: Durability) -> Result<(), Fault> {
        // A rejected text is checked again after the next write.
        if writer.is_over || writer.refused.is_some() {
            return Ok(());
        }
        // Measured again: programs on the mount may write the file, too.
        self.measure(writer);
        // Only this flushes a large file, and its records are dropped afterwards.
        let is_flushed = writer.promises.is_some() && writer.is_large;
        let durability = if is_flushed { Durability::Now } else { durability };
        // After an I/O error the buffer is detached: an empty write attaches it again.
        let goes_on = match writer.again {
            Some(_) => self.vfs().write_node(&writer.caller, writer.handle, WriteAt::Offset(0), &[]).map(drop),
            None => Ok(()),
        };
        if goes_on.as_ref().is_err_and(|fault| fault.kind() == Kind::Conflict) {
            // Others write the file now. The stable-write records stay.
            writer.promises = None;
        }
        let outcome = goes_on.map_err(|fault| (fault, None));
        let outcome = outcome.and_then(|()| self.vfs().publish_or_detach(&writer.caller, writer.handle, durability));
        let Err((fault, left)) = outcome else {
            writer.is_over = true;
            return self.vfs().release(&writer.caller, writer.handle);
        };
        if !matches!(fault.kind(), Kind::Rejected | Kind::Conflict | Kind::Locked | Kind::TooLarge) {
            writer.again = Some(Instant::now() + AGAIN);
            return Err(fault);
        }
        if writer.promises.is_some()
            // The records are dropped only if the stored text is durable.
            && let Err(fault) = self.vfs().flush()
        {
            tracing::error!(number = writer.number, error = ?fault, "what was refused is kept aside, and may be lost with the power");
            writer.promises = None;
        }
        match left {
            Some(RejectedBuffer::InPlace) => {
                writer.refused = Some((Instant::now(), fault.kind()));
                (writer.base, writer.again) = (None, None);
                return Err(fault);
            }
            Some(RejectedBuffer::Detached(text)) => self.refused.keep(writer.number, text, &fault),
            None => {}
        }
        writer.is_over = true;
        // The file is saved even if this fails.
        let _released = self.vfs().release(&writer.caller, writer.handle);
        Err(fault)
    }

    /// Saves a file now, if it is being written.
    ///
    /// # Errors
    /// Why it was not saved, now or since the last report.
    pub(crate) fn settle(&self, number: u64) -> Result<(), NfsError> {
        let saved = self.writers.get(number).map_or(Ok(()), |mut writer| self.save(&mut writer));
        // Read afterwards: a concurrent save may have just failed.
        let untold = self.refused.untold(number);
        saved?;
        untold.map_or(Ok(()), |status| Err(status.into()))
    }

    /// Closes the session of a removed file and drops its stable-write records.
    pub(crate) fn abandon(&self, number: u64) -> Result<(), Fault> {
        self.refused.forget(number);
        let Some(mut writer) = self.writers.get(number) else { return Ok(()) };
        self.give_up(&mut writer)?;
        let promises = writer.promises.take();
        promises.map_or(Ok(()), |promises| Ok(self.numbers.discard_writes(&[(number, promises)], false)?))
    }

    /// Saves the sessions that are due and returns when the next one is.
    pub(crate) fn settle_due(&self, now: Instant) -> Option<Instant> {
        let next = self.settle_those(|writer| writer.due() <= now);
        next.into_iter().chain(self.refused.give_up_due(now)).min()
    }

    /// Saves all sessions that are not rejected.
    pub(crate) fn settle_all(&self) {
        self.settle_those(|writer| writer.refused.is_none());
    }

    /// Saves all sessions and closes the rejected ones.
    pub(crate) fn end(&self) {
        self.settle_all();
        self.settle_those(|_| true);
    }

    /// Saves sessions with one flush at the end; closes rejected ones.
    fn settle_those(&self, is_due: impl Fn(&WriteSession) -> bool) -> Option<Instant> {
        let (mut next, mut saved, mut is_flushed) = (None, Vec::new(), false);
        for writer in self.writers.all() {
            let mut writer = Mutex::lock_arc(&writer);
            let is_refused = writer.refused.is_some();
            let outcome = match is_due(&writer) {
                true if is_refused => self.give_up(&mut writer),
                true => self.publish(&mut writer, Durability::Soon),
                false => Ok(()),
            };
            if let Err(fault) = outcome {
                tracing::warn!(kind = fault.kind().name(), error = ?fault, "a file that was written over NFS is not saved");
                self.refused.tell_later(writer.number, &fault);
            }
            if writer.is_over {
                self.writers.forget(&mut writer);
            }
            if let Some((promises, is_this_flushed)) = writer.promises_done() {
                saved.push((writer.number, promises));
                is_flushed |= is_this_flushed;
            }
            if !writer.is_over {
                let due = writer.due();
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
        }
        if !saved.is_empty() {
            let kept = self.vfs().wait_applied().and_then(|_| Ok(self.numbers.discard_writes(&saved, is_flushed)?));
            if let Err(fault) = kept {
                // The next open replays the records if needed.
                tracing::error!(error = ?fault, "files that were written over NFS are saved, and still remembered as if they were not");
            }
        }
        next
    }
}
