//! The change feed.
//!
//! One rule: nothing is ever missing from it. The newest events are kept in memory; older ones are read from the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use svcfs_base::{
    Actor, CommitId, ETag, EventAnnouncement, Fault, FileKind, OriginId, Protocol, Seq, Timestamp, TreePath,
};
use svcfs_store::{Log, LogRecord, RecordKind};

const KEPT_EVENTS: usize = 2048;

/// One accepted change set, as its followers see it.
#[derive(Debug, Clone)]
pub struct FeedEvent {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was accepted.
    pub time: Timestamp,
    /// Who.
    pub actor: Actor,
    /// Through which door.
    pub protocol: Protocol,
    /// Through which entrance of it, where there are several. Not logged: none for events read from the log.
    pub origin_id: Option<OriginId>,
    /// Message of its commit.
    pub message: String,
    /// How subscribers of the event stream hear of it.
    pub announcement: EventAnnouncement,
    /// Its commit; none when nothing differed from the commit before, or when it is made later, with those of other sets.
    pub commit: Option<CommitId>,
    /// The paths it touched, in order. None when others told of them: it is a commit made of sets that had events of their own, or came with
    /// another branch.
    pub changes: Vec<EventChange>,
}

/// One path of an [`Event`].
#[derive(Debug, Clone)]
pub struct EventChange {
    /// Which path.
    pub path: TreePath,
    /// The content's hash before; none when it was not there.
    pub old: Option<ETag>,
    /// The content's hash after; none when it is gone.
    pub new: Option<ETag>,
    /// Kind of file after (before, when it is gone).
    pub kind: FileKind,
}

impl From<LogRecord> for FeedEvent {
    fn from(record: LogRecord) -> Self {
        let change = |entry: svcfs_store::LogEntry| EventChange {
            path: entry.path,
            old: entry.old,
            new: entry.new,
            kind: entry.kind,
        };
        // The sets of a commit that tells of several were told of themselves, and commits of another branch by its difference from the old one.
        let is_told = record.kind != RecordKind::Commit && record.diff_base.is_in_feed();
        let entries = if is_told { record.entries } else { Vec::new() };
        Self {
            seq: record.seq,
            time: record.time,
            actor: record.actor,
            protocol: record.protocol,
            origin_id: None,
            message: record.message,
            announcement: record.announcement,
            commit: record.commit,
            changes: entries.into_iter().map(change).collect(),
        }
    }
}

type FeedWaker = Box<dyn Fn(Seq) -> bool + Send + Sync>;

/// The change feed: every accepted change set, in order, without gaps, from any position.
pub struct ChangeFeed {
    log: Arc<Log>,
    recent: Mutex<RecentEvents>,
    grown: Condvar,
    wakes: RwLock<Vec<FeedWaker>>,
}

struct RecentEvents {
    events: VecDeque<Arc<FeedEvent>>,
    last: Seq,
    is_closed: bool,
}

impl ChangeFeed {
    pub(crate) fn new(log: Arc<Log>, last: Seq) -> Self {
        let recent = Mutex::new(RecentEvents { events: VecDeque::new(), last, is_closed: false });
        Self { log, recent, grown: Condvar::new(), wakes: RwLock::default() }
    }

    /// Position of the newest event.
    pub fn last_seq(&self) -> Seq {
        self.recent.lock().last
    }

    /// At most `max` events after a position, oldest first.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn events_after(&self, seq: Seq, max: usize) -> Result<Vec<Arc<FeedEvent>>, Fault> {
        {
            let recent = self.recent.lock();
            if recent.last <= seq {
                return Ok(Vec::new());
            }
            if recent.events.front().is_some_and(|oldest| oldest.seq <= seq.next()) {
                return Ok(recent.events.iter().filter(|event| event.seq > seq).take(max).cloned().collect());
            }
        }
        let last = self.last_seq();
        let records = self.log.records_after(seq, max)?;
        // What is logged but not yet announced is not there for followers.
        Ok(records
            .into_iter()
            .filter(|record| record.seq <= last)
            .map(|record| Arc::new(FeedEvent::from(record)))
            .collect())
    }

    /// Waits until there is an event after `seq`, the feed is closed, or the time is up; true when there is one.
    pub fn wait(&self, seq: Seq, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let mut recent = self.recent.lock();
        while recent.last <= seq && !recent.is_closed {
            if self.grown.wait_until(&mut recent, deadline).timed_out() {
                break;
            }
        }
        recent.last > seq
    }

    /// Calls `wake` after each event, from the committer's thread, until it answers false: it must not block (a channel send, a
    /// task wake-up), and may be called twice for one event.
    pub fn on_event(&self, wake: impl Fn(Seq) -> bool + Send + Sync + 'static) {
        self.wakes.write().push(Box::new(wake));
    }

    pub(crate) fn publish(&self, events: impl Iterator<Item = FeedEvent>) {
        let last = {
            let mut recent = self.recent.lock();
            for event in events {
                recent.last = event.seq;
                recent.events.push_back(Arc::new(event));
            }
            while recent.events.len() > KEPT_EVENTS {
                recent.events.pop_front();
            }
            recent.last
        };
        self.grown.notify_all();
        let wakes = self.wakes.read();
        let wanted = wakes.iter().filter(|wake| wake(last)).count();
        let are_all = wanted == wakes.len();
        drop(wakes);
        if !are_all {
            self.wakes.write().retain(|wake| wake(last));
        }
    }

    /// Sets the position from which events follow, after opening has recorded what happened before.
    pub(crate) fn restart(&self, last: Seq) {
        self.recent.lock().last = last;
    }

    pub(crate) fn close(&self) {
        self.recent.lock().is_closed = true;
        self.grown.notify_all();
    }
}
