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
use crate::rejected::RESUME_TIMEOUT;
use crate::stable_write_replay;

/// A file is saved after this time without a write.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// A file that is written without a pause is saved this often.
const MAX_SAVE_INTERVAL: Duration = Duration::from_secs(60);
/// How long until a save is retried after an I/O error.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Number of files in a space that may be written at the same time; beyond it, those that were idle
/// for longest are saved.
const MAX_SESSIONS: usize = 512;
const MAX_BUFFERED_BYTES: u64 = 256 << 20;

pub(crate) struct WriteSession {
    pub(crate) node: NodeId,
    pub(crate) handle: HandleId,
    inode: u64,
    caller: Caller,
    /// The saved content when the first stable write was recorded.
    base: Option<Option<ETag>>,
    started: Instant,
    last_write: Instant,
    /// When to retry after an I/O error.
    retry_at: Option<Instant>,
    bytes: u64,
    is_large: bool,
    /// Bytes of recorded stable writes.
    stable_bytes: u64,
    /// First and last log position of the recorded stable writes.
    stable_writes: Option<RangeInclusive<i64>>,
    /// When and why the file was rejected, if it was never saved and not written since.
    rejected: Option<(Instant, Kind)>,
    /// The session continues a rejected text whose records were dropped: the next record must
    /// contain the full text.
    needs_full_record: bool,
    is_closed: bool,
}

type SessionHandle = (NodeId, HandleId, Arc<Mutex<WriteSession>>);
type SessionGuard = ArcMutexGuard<RawMutex, WriteSession>;

#[derive(Default)]
pub(crate) struct WriteSessions {
    by_inode: Mutex<HashMap<u64, SessionHandle>>,
}

impl WriteSessions {
    pub(crate) fn node(&self, inode: u64) -> Option<NodeId> {
        self.by_inode.lock().get(&inode).map(|(node, ..)| *node)
    }

    fn get(&self, inode: u64) -> Option<SessionGuard> {
        let session = self.by_inode.lock().get(&inode).map(|(.., session)| Arc::clone(session))?;
        let session = Mutex::lock_arc(&session);
        (!session.is_closed).then_some(session)
    }

    fn all(&self) -> Vec<Arc<Mutex<WriteSession>>> {
        self.by_inode.lock().values().map(|(.., session)| Arc::clone(session)).collect()
    }

    /// Total unsaved bytes in memory, without sessions that are locked now.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.all().iter().filter_map(|session| session.try_lock().map(|guard| guard.bytes)).sum()
    }

    /// Removes a session. An error must be stored before: a call that does not find the session
    /// asks for it.
    fn forget(&self, session: &mut WriteSession) {
        session.is_closed = true;
        let mut by_inode = self.by_inode.lock();
        // A closed session may have a successor for the same inode.
        if by_inode.get(&session.inode).is_some_and(|(_, handle, _)| *handle == session.handle) {
            by_inode.remove(&session.inode);
        }
    }

    /// The status of a rejected file that was never saved.
    pub(crate) fn rejected_status(&self, inode: u64) -> Option<nfsstat3> {
        self.get(inode)?.rejected.map(|(_, kind)| status(kind))
    }
}

impl WriteSession {
    fn due(&self) -> Instant {
        match (self.rejected, self.retry_at) {
            (Some((since, _)), _) => since + RESUME_TIMEOUT,
            (None, Some(retry_at)) => retry_at,
            (None, None) => (self.last_write + IDLE_TIMEOUT).min(self.started + MAX_SAVE_INTERVAL),
        }
    }

    /// Takes the stable-write records of a session that was saved or rejected, and whether any of
    /// them was a write.
    fn take_finished_writes(&mut self) -> Option<(RangeInclusive<i64>, bool)> {
        if !self.is_closed && self.rejected.is_none() {
            return None;
        }
        let stable_bytes = std::mem::take(&mut self.stable_bytes);
        Some((self.stable_writes.take()?, stable_bytes > 0))
    }
}

impl NfsExport {
    /// Locks the session of a file that `caller` is about to write, and opens one if needed: with
    /// the current page, or with the rejected text that the write continues.
    pub(crate) fn open_session(
        &self,
        entry: &ExportEntry,
        caller: &Caller,
        written: (u64, &[u8]),
    ) -> Result<SessionGuard, NfsError> {
        loop {
            if let Some(mut session) = self.sessions.get(entry.inode) {
                if self.vfs().path_of(session.node).is_ok_and(|path| entry.current_path().is_ok_and(|now| now == path))
                {
                    session.caller = caller.clone();
                    if session.rejected.take().is_some() {
                        // The full text is checked again.
                        self.rejections.take_unreported(entry.inode);
                        (session.started, session.needs_full_record) = (Instant::now(), true);
                    }
                    return Ok(session);
                }
                // Another protocol removed or renamed the file; unsaved writes go with it.
                if session.rejected.is_some() {
                    self.discard(&mut session)?;
                    continue;
                }
                let saved = self.save(&mut session);
                if !session.is_closed {
                    saved?;
                }
                continue;
            }
            let state = entry.stat(caller)?;
            match state.attributes.kind {
                EntryKind::File => {}
                EntryKind::Directory => return Err(nfsstat3::NFS3ERR_ISDIR.into()),
                EntryKind::Symlink | EntryKind::Special(_) => return Err(nfsstat3::NFS3ERR_INVAL.into()),
            }
            let handle = self.vfs().open_node(caller, state.node, OpenMode { write: true, truncate: false })?;
            if let Some(mut session) = self.add_session(entry.inode, (state.node, handle), caller) {
                let path = self.vfs().path_of(state.node).map_err(NfsError::from);
                match path.and_then(|path| self.resume_rejected((entry.inode, &path), (state.node, handle), written)) {
                    Ok(None) => {}
                    Ok(Some(base)) => (session.base, session.needs_full_record) = (base.map(Some), true),
                    Err(error) => {
                        self.discard(&mut session)?;
                        return Err(error);
                    }
                }
                return Ok(session);
            }
            self.vfs().release(caller, handle)?;
        }
    }

    /// Adds a session for an opened file; `None` when another call was faster.
    pub(crate) fn add_session(
        &self,
        inode: u64,
        (node, handle): (NodeId, HandleId),
        caller: &Caller,
    ) -> Option<SessionGuard> {
        let now = Instant::now();
        let session = WriteSession {
            node,
            handle,
            inode,
            caller: caller.clone(),
            base: None,
            started: now,
            last_write: now,
            retry_at: None,
            bytes: 0,
            is_large: false,
            stable_bytes: 0,
            stable_writes: None,
            rejected: None,
            needs_full_record: false,
            is_closed: false,
        };
        let session = Arc::new(Mutex::new(session));
        let guard = Mutex::lock_arc(&session);
        let mut by_inode = self.sessions.by_inode.lock();
        if by_inode.contains_key(&inode) {
            return None;
        }
        by_inode.insert(inode, (node, handle, session));
        drop(by_inode);
        Some(guard)
    }

    /// Records a stable write. With `is_flushed` it survives a power failure, otherwise only the
    /// death of this process.
    pub(crate) fn record_stable_write(
        &self,
        session: &mut WriteSession,
        operation: StableOperation,
        is_flushed: bool,
    ) -> Result<(), Fault> {
        let bytes = match &operation {
            StableOperation::Resize(_) => 0,
            StableOperation::Write(_, data) => data.len() as u64,
        };
        if session.is_large {
            return if is_flushed || session.stable_writes.is_some() { self.flush_large(session) } else { Ok(()) };
        }
        let base = *session.base.get_or_insert_with(|| stable_write_replay::saved_etag(self.vfs(), session.node));
        let author = Some(session.caller.actor());
        let created = if base.is_none() { self.vfs().attributes(session.node).ok() } else { None };
        let attributes = created.map_or_else(DiskAttributes::default, |created| DiskAttributes {
            mode: Some(created.mode),
            owner: Some((created.uid, created.gid)),
            ..DiskAttributes::default()
        });
        for operation in self.operations_to_record(session, operation)? {
            let write =
                StableWrite { inode: session.inode, base_etag: base, operation, author: author.clone(), attributes };
            let position = self.inode_table.record_write(&write, is_flushed)?;
            let first = session.stable_writes.as_ref().map_or(position, |before| *before.start());
            session.stable_writes = Some(first..=position);
        }
        session.needs_full_record = false;
        session.stable_bytes += bytes;
        if session.stable_bytes <= MAX_FILE_BYTES as u64 {
            return Ok(());
        }
        let saved = self.save(session);
        match saved {
            // The write just recorded is part of the rejected text and stored with it.
            Err(fault) if self.rejections.has_text(session.inode) || session.rejected.is_some() => {
                self.rejections.report_later(session.inode, &fault);
                Ok(())
            }
            saved => saved,
        }
    }

    /// The operations to record for a write: itself, or the full text.
    fn operations_to_record(
        &self,
        session: &WriteSession,
        operation: StableOperation,
    ) -> Result<Vec<StableOperation>, Fault> {
        if !session.needs_full_record {
            return Ok(vec![operation]);
        }
        let text = self.vfs().read_node(session.node, 0, MAX_FILE_BYTES)?;
        Ok(vec![StableOperation::Resize(0), StableOperation::Write(0, text.into())])
    }

    /// Flushes a large file, which has no versions. Records from the time when it was small are
    /// dropped: replaying them would truncate it.
    fn flush_large(&self, session: &mut WriteSession) -> Result<(), Fault> {
        self.vfs().publish(&session.caller, session.node, Durability::Now)?;
        if let Some(stable_writes) = session.stable_writes.clone() {
            self.inode_table.discard_writes(&[(session.inode, stable_writes)], true)?;
        }
        (session.base, session.stable_bytes, session.stable_writes) = (None, 0, None);
        Ok(())
    }

    pub(crate) fn mark_written(&self, session: &mut WriteSession) {
        session.last_write = Instant::now();
        self.update_size(session);
    }

    /// Updates the unsaved bytes: the file's size, or 0 for a file too large for versions.
    fn update_size(&self, session: &mut WriteSession) {
        let size = self.vfs().attributes(session.node).map_or(0, |attributes| attributes.size);
        session.is_large = size > MAX_FILE_BYTES as u64;
        session.bytes = if session.is_large { 0 } else { size };
    }

    /// Saves the sessions that were idle for longest when there are too many, or too many bytes in
    /// them. The caller must not hold a session.
    pub(crate) fn enforce_limits(&self) {
        let by_inode = self.sessions.all();
        if by_inode.len() <= MAX_SESSIONS && self.sessions.buffered_bytes() <= MAX_BUFFERED_BYTES {
            return;
        }
        let mut times: Vec<Instant> =
            by_inode.iter().filter_map(|session| Some(session.try_lock()?.last_write)).collect();
        times.sort();
        // Half of the sessions, which share one flush.
        if let Some(middle) = times.get(times.len() / 2).copied() {
            self.save_matching(|session| session.last_write <= middle);
        }
    }

    /// Saves a file durably and closes its session. Errors: why it was not saved. A text rejected
    /// by a gate or for a conflict is stored under `.svc/rejected`; after an I/O error the save is
    /// retried.
    fn save(&self, session: &mut WriteSession) -> Result<(), Fault> {
        let outcome = self.publish(session, Durability::Now);
        if session.is_closed {
            self.sessions.forget(session);
        }
        if let Some((stable_writes, is_flushed)) = session.take_finished_writes() {
            self.inode_table.discard_writes(&[(session.inode, stable_writes)], is_flushed)?;
        }
        outcome
    }

    fn discard(&self, session: &mut WriteSession) -> Result<(), Fault> {
        self.sessions.forget(session);
        self.vfs().release(&session.caller, session.handle)
    }

    /// Saves a file. The caller reports the outcome and removes the session.
    fn publish(&self, session: &mut WriteSession, durability: Durability) -> Result<(), Fault> {
        // A rejected text is checked again after the next write.
        if session.is_closed || session.rejected.is_some() {
            return Ok(());
        }
        // Measured again: programs on the mount may write the file, too.
        self.update_size(session);
        // Only this flushes a large file, and its records are dropped afterwards.
        let is_flushed = session.stable_writes.is_some() && session.is_large;
        let durability = if is_flushed { Durability::Now } else { durability };
        // After an I/O error the buffer is detached: an empty write attaches it again.
        let reattached = match session.retry_at {
            Some(_) => self.vfs().write_node(&session.caller, session.handle, WriteAt::Offset(0), &[]).map(drop),
            None => Ok(()),
        };
        if reattached.as_ref().is_err_and(|fault| fault.kind() == Kind::Conflict) {
            // Others write the file now. The stable-write records stay.
            session.stable_writes = None;
        }
        let outcome = reattached.map_err(|fault| (fault, None));
        let outcome = outcome.and_then(|()| self.vfs().publish_or_detach(&session.caller, session.handle, durability));
        let Err((fault, rejected_buffer)) = outcome else {
            session.is_closed = true;
            return self.vfs().release(&session.caller, session.handle);
        };
        let is_final = matches!(fault.kind(), Kind::Conflict | Kind::Locked | Kind::TooLarge);
        if !is_final && !fault.kind().refuses_content() {
            session.retry_at = Some(Instant::now() + RETRY_INTERVAL);
            return Err(fault);
        }
        if session.stable_writes.is_some()
            // The records are dropped only if the stored text is durable.
            && let Err(fault) = self.vfs().flush()
        {
            tracing::error!(inode = session.inode, error = ?fault, "a rejected text is stored, but a power failure may lose it: flushing failed");
            session.stable_writes = None;
        }
        match rejected_buffer {
            Some(RejectedBuffer::InPlace) => {
                session.rejected = Some((Instant::now(), fault.kind()));
                (session.base, session.retry_at) = (None, None);
                return Err(fault);
            }
            Some(RejectedBuffer::Detached(text)) => self.rejections.store(session.inode, text, &fault),
            None => {}
        }
        session.is_closed = true;
        // The file is saved even if this fails.
        let _released = self.vfs().release(&session.caller, session.handle);
        Err(fault)
    }

    /// Saves a file now, if it is being written. Errors: why it was not saved, now or since the
    /// last report.
    pub(crate) fn save_inode(&self, inode: u64) -> Result<(), NfsError> {
        let saved = self.sessions.get(inode).map_or(Ok(()), |mut session| self.save(&mut session));
        // Read afterwards: a concurrent save may have just failed.
        let unreported = self.rejections.take_unreported(inode);
        saved?;
        unreported.map_or(Ok(()), |status| Err(status.into()))
    }

    /// Closes the session of a removed file and drops its stable-write records.
    pub(crate) fn abandon(&self, inode: u64) -> Result<(), Fault> {
        self.rejections.forget(inode);
        let Some(mut session) = self.sessions.get(inode) else { return Ok(()) };
        self.discard(&mut session)?;
        let stable_writes = session.stable_writes.take();
        stable_writes
            .map_or(Ok(()), |stable_writes| Ok(self.inode_table.discard_writes(&[(inode, stable_writes)], false)?))
    }

    /// Saves the sessions that are due and returns when the next one is.
    pub(crate) fn save_due(&self, now: Instant) -> Option<Instant> {
        let next = self.save_matching(|session| session.due() <= now);
        next.into_iter().chain(self.rejections.expire_due(now)).min()
    }

    /// Saves all sessions that are not rejected.
    pub(crate) fn save_all(&self) {
        self.save_matching(|session| session.rejected.is_none());
    }

    /// Saves all sessions and closes the rejected ones.
    pub(crate) fn close_all(&self) {
        self.save_all();
        self.save_matching(|_| true);
    }

    /// Saves sessions with one flush at the end; closes rejected ones.
    fn save_matching(&self, is_due: impl Fn(&WriteSession) -> bool) -> Option<Instant> {
        let (mut next, mut saved, mut is_flushed) = (None, Vec::new(), false);
        for session in self.sessions.all() {
            let mut session = Mutex::lock_arc(&session);
            let is_refused = session.rejected.is_some();
            let outcome = match is_due(&session) {
                true if is_refused => self.discard(&mut session),
                true => self.publish(&mut session, Durability::Soon),
                false => Ok(()),
            };
            if let Err(fault) = outcome {
                tracing::warn!(kind = fault.kind().name(), error = ?fault, "a file written over NFS was not saved");
                self.rejections.report_later(session.inode, &fault);
            }
            if session.is_closed {
                self.sessions.forget(&mut session);
            }
            if let Some((stable_writes, has_stable_bytes)) = session.take_finished_writes() {
                saved.push((session.inode, stable_writes));
                is_flushed |= has_stable_bytes;
            }
            if !session.is_closed {
                let due = session.due();
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
        }
        if !saved.is_empty() {
            let dropped =
                self.vfs().wait_applied().and_then(|_| Ok(self.inode_table.discard_writes(&saved, is_flushed)?));
            if let Err(fault) = dropped {
                // The next open replays the records if needed.
                tracing::error!(error = ?fault, "files written over NFS are saved, but their stable-write records could not be dropped; the next open replays them if needed");
            }
        }
        next
    }
}
