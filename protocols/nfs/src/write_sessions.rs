//! Files that are being written.
//!
//! The protocol knows no closing. A file is saved, which is one version, when nobody wrote to it for a while, when a client asks for it to be made
//! durable (COMMIT, which clients send when a program closes or flushes a file), when its name changes, and when somebody asks about history.

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

/// A file is saved when nobody wrote to it for so long.
pub(crate) const IDLE: Duration = Duration::from_secs(2);
/// One that is written without a pause is saved once in so long.
const LONGEST: Duration = Duration::from_secs(60);
/// How long until a save is tried again that the disk refused.
const AGAIN: Duration = Duration::from_secs(5);
/// So many files may be written at once; beyond, the one that waited longest is saved.
const MOST_FILES: usize = 512;
/// So many bytes may wait to be saved in all the files of a space together.
const MOST_BYTES: u64 = 256 << 20;

/// A file that is being written.
pub(crate) struct WriteSession {
    pub(crate) node: NodeId,
    pub(crate) handle: HandleId,
    number: u64,
    /// Who wrote last.
    caller: Caller,
    /// What stood there when the first promise was made.
    base: Option<Option<ETag>>,
    began: Instant,
    wrote: Instant,
    /// When it is tried again, after the disk refused.
    again: Option<Instant>,
    /// How much of it waits in memory.
    bytes: u64,
    /// It was too large for any version when it was written last.
    is_large: bool,
    /// Bytes of stable writes.
    promised: u64,
    /// The first promise and the last one.
    promises: Option<RangeInclusive<i64>>,
    /// Since when and why all that there is of the file, which was never saved, is refused. Nobody wrote to it since.
    refused: Option<(Instant, Kind)>,
    /// It goes on with a refused text, of which nothing is promised any more: the next promise is of all of it.
    is_owed_whole: bool,
    is_over: bool,
}

/// A file that is being written, with its node and handle.
type SessionHandle = (NodeId, HandleId, Arc<Mutex<WriteSession>>);
/// The same, held.
type SessionGuard = ArcMutexGuard<RawMutex, WriteSession>;

/// The files of a space that are being written.
#[derive(Default)]
pub(crate) struct WriteSessions {
    open: Mutex<HashMap<u64, SessionHandle>>,
}

impl WriteSessions {
    /// The node of a file that is being written.
    pub(crate) fn node(&self, number: u64) -> Option<NodeId> {
        self.open.lock().get(&number).map(|(node, ..)| *node)
    }

    /// The file, held, if it is being written.
    fn get(&self, number: u64) -> Option<SessionGuard> {
        let writer = self.open.lock().get(&number).map(|(.., writer)| Arc::clone(writer))?;
        let writer = Mutex::lock_arc(&writer);
        (!writer.is_over).then_some(writer)
    }

    fn all(&self) -> Vec<Arc<Mutex<WriteSession>>> {
        self.open.lock().values().map(|(.., writer)| Arc::clone(writer)).collect()
    }

    /// How many bytes wait in memory to be saved. Files that somebody holds in this moment are not counted.
    pub(crate) fn waiting(&self) -> u64 {
        self.all().iter().filter_map(|writer| writer.try_lock().map(|held| held.bytes)).sum()
    }

    /// Lets go of a file. Why it was not saved is noted before: whoever does not find the file asks for that.
    fn forget(&self, writer: &mut WriteSession) {
        writer.is_over = true;
        let mut open = self.open.lock();
        // Once it is over another may be open under the same number.
        if open.get(&writer.number).is_some_and(|(_, handle, _)| *handle == writer.handle) {
            open.remove(&writer.number);
        }
    }

    /// Why a file was refused of which nothing was ever accepted.
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

    /// What was promised of a file that is saved, or whose text is kept aside; and whether any of it was of stable writes.
    fn promises_done(&mut self) -> Option<(RangeInclusive<i64>, bool)> {
        if !self.is_over && self.refused.is_none() {
            return None;
        }
        let promised = std::mem::take(&mut self.promised);
        Some((self.promises.take()?, promised > 0))
    }
}

impl NfsExport {
    /// Holds a file that `caller` is about to write so, opened if it is not: as it stands, or as the text of a refused save that this goes on with.
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
                        // Judged anew, whole.
                        self.refused.untold(entry.number);
                        (writer.began, writer.is_owed_whole) = (Instant::now(), true);
                    }
                    return Ok(writer);
                }
                // Another door took the name away, or put it elsewhere, and what was written goes with it.
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

    /// Remembers a file that was opened to be written; none when somebody was faster.
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

    /// Notes that a file was written, and with `is_flushed` sees to it that this is not lost in a power cut; without, not when this process dies.
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
            // What was written just now is part of what is refused, and kept aside with it.
            Err(fault) if self.refused.has_text(writer.number) || writer.refused.is_some() => {
                self.refused.tell_later(writer.number, &fault);
                Ok(())
            }
            saved => saved,
        }
    }

    /// What is promised by a change that was done: that change, or all of a text.
    fn owed_acts(&self, writer: &WriteSession, act: StableOperation) -> Result<Vec<StableOperation>, Fault> {
        if !writer.is_owed_whole {
            return Ok(vec![act]);
        }
        let text = self.vfs().read_node(writer.node, 0, MAX_FILE_BYTES)?;
        Ok(vec![StableOperation::Resize(0), StableOperation::Write(0, text.into())])
    }

    /// A large file is on the disk and has no versions: it is flushed there. What was promised while it was small is kept by that; done once more
    /// when the space is opened next, it would cut the file.
    fn keep_large(&self, writer: &mut WriteSession) -> Result<(), Fault> {
        self.vfs().publish(&writer.caller, writer.node, Durability::Now)?;
        if let Some(promises) = writer.promises.clone() {
            self.numbers.discard_writes(&[(writer.number, promises)], true)?;
        }
        (writer.base, writer.promised, writer.promises) = (None, 0, None);
        Ok(())
    }

    /// Notes that a file was written.
    pub(crate) fn wrote(&self, writer: &mut WriteSession) {
        writer.wrote = Instant::now();
        self.measure(writer);
    }

    /// How much of a file waits in memory: all of it, but for one that is too large for any version.
    fn measure(&self, writer: &mut WriteSession) {
        let size = self.vfs().attributes(writer.node).map_or(0, |attributes| attributes.size);
        writer.is_large = size > MAX_FILE_BYTES as u64;
        writer.bytes = if writer.is_large { 0 } else { size };
    }

    /// Saves the files that waited longest when there are too many, or too much in them. To be called while none is held.
    pub(crate) fn make_room(&self) {
        let open = self.writers.all();
        if open.len() <= MOST_FILES && self.writers.waiting() <= MOST_BYTES {
            return;
        }
        let mut times: Vec<Instant> = open.iter().filter_map(|writer| Some(writer.try_lock()?.wrote)).collect();
        times.sort();
        // Half of them: they are one flush together.
        if let Some(middle) = times.get(times.len() / 2).copied() {
            self.settle_those(|writer| writer.wrote <= middle);
        }
    }

    /// Saves a file, durably, and lets go of it.
    ///
    /// # Errors
    /// Why it was not saved. What a gate or another's write forbids is kept where a person finds it; what the disk refused is tried again.
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

    /// Lets go of a file that nobody saves.
    fn give_up(&self, writer: &mut WriteSession) -> Result<(), Fault> {
        self.writers.forget(writer);
        self.vfs().release(&writer.caller, writer.handle)
    }

    /// Saves a file; that the save is over, done or refused, is left to the caller to make known.
    fn publish(&self, writer: &mut WriteSession, durability: Durability) -> Result<(), Fault> {
        // What was refused is judged anew once somebody goes on with it.
        if writer.is_over || writer.refused.is_some() {
            return Ok(());
        }
        // Asked anew: programs of the mount write it, too.
        self.measure(writer);
        // Nothing else flushes a large file, and its promises go.
        let is_flushed = writer.promises.is_some() && writer.is_large;
        let durability = if is_flushed { Durability::Now } else { durability };
        // What the disk refused was put aside: a write of nothing goes on with it.
        let goes_on = match writer.again {
            Some(_) => self.vfs().write_node(&writer.caller, writer.handle, WriteAt::Offset(0), &[]).map(drop),
            None => Ok(()),
        };
        if goes_on.as_ref().is_err_and(|fault| fault.kind() == Kind::Conflict) {
            // Others write the file by now. What was told to be safe stays promised.
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
            // Kept aside, unless that is lost with the power: then it stays promised.
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
        // It was saved no less for that.
        let _released = self.vfs().release(&writer.caller, writer.handle);
        Err(fault)
    }

    /// Saves a file now, if it is being written.
    ///
    /// # Errors
    /// Why it was not saved, now or since somebody asked last.
    pub(crate) fn settle(&self, number: u64) -> Result<(), NfsError> {
        let saved = self.writers.get(number).map_or(Ok(()), |mut writer| self.save(&mut writer));
        // Asked after: it may have been refused in this moment by another who saves it.
        let untold = self.refused.untold(number);
        saved?;
        untold.map_or(Ok(()), |status| Err(status.into()))
    }

    /// Lets go of a file whose name was taken away, and of what was promised of it.
    pub(crate) fn abandon(&self, number: u64) -> Result<(), Fault> {
        self.refused.forget(number);
        let Some(mut writer) = self.writers.get(number) else { return Ok(()) };
        self.give_up(&mut writer)?;
        let promises = writer.promises.take();
        promises.map_or(Ok(()), |promises| Ok(self.numbers.discard_writes(&[(number, promises)], false)?))
    }

    /// Saves the files for which it is time, and says when it is time for the next.
    pub(crate) fn settle_due(&self, now: Instant) -> Option<Instant> {
        let next = self.settle_those(|writer| writer.due() <= now);
        next.into_iter().chain(self.refused.give_up_due(now)).min()
    }

    /// Saves all files.
    pub(crate) fn settle_all(&self) {
        self.settle_those(|writer| writer.refused.is_none());
    }

    /// Saves all files, and lets go of those that are refused.
    pub(crate) fn end(&self) {
        self.settle_all();
        self.settle_those(|_| true);
    }

    /// Saves files, which is durable at the end for all of them at once; gives up those that are refused.
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
                // They are done again when the space is opened next, if they have to.
                tracing::error!(error = ?fault, "files that were written over NFS are saved, and still remembered as if they were not");
            }
        }
        next
    }
}
