//! The change feed.
//!
//! Invariant: it is complete. The newest events are in memory; older ones are read from the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use svcfs_base::{
    Actor, CommitId, ETag, EventAnnouncement, Fault, FileKind, OriginId, Protocol, Seq, Timestamp, TreePath,
};
use svcfs_store::{Log, LogRecord, RecordKind};

const MAX_CACHED_EVENTS: usize = 2048;
/// Events that a follower reads at once.
const EVENTS_AT_ONCE: usize = 512;

/// One accepted change set, as its followers see it.
#[derive(Debug, Clone)]
pub struct FeedEvent {
    /// Its position in the log.
    pub seq: Seq,
    /// When it was accepted.
    pub time: Timestamp,
    /// Author of the change.
    pub actor: Actor,
    /// Protocol of the change.
    pub protocol: Protocol,
    /// The mount that made it, if the protocol has several. Not logged: none for old events.
    pub origin_id: Option<OriginId>,
    /// Message of its commit.
    pub message: String,
    /// How it is announced in the event stream.
    pub announcement: EventAnnouncement,
    /// Its commit; none when it changed nothing, or when its commit is coalesced later.
    pub commit: Option<CommitId>,
    /// The changed paths, in order. Empty if other events have them: coalesced commits, commits of
    /// another branch.
    pub changes: Vec<EventChange>,
}

/// One path of a [`FeedEvent`].
#[derive(Debug, Clone)]
pub struct EventChange {
    /// The path.
    pub path: TreePath,
    /// Hash of the content before; none when it did not exist.
    pub old: Option<ETag>,
    /// Hash of the content after; none when it was removed.
    pub new: Option<ETag>,
    /// Kind of file after the change; before it, for a removal.
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
        // Other events have the sets of a coalesced commit, and the commits of another branch.
        let has_changes = record.kind != RecordKind::Commit && record.diff_base.is_in_feed();
        let entries = if has_changes { record.entries } else { Vec::new() };
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
    event_added: Condvar,
    wakers: RwLock<Vec<FeedWaker>>,
}

struct RecentEvents {
    events: VecDeque<Arc<FeedEvent>>,
    last: Seq,
    is_closed: bool,
}

impl ChangeFeed {
    pub(crate) fn new(log: Arc<Log>, last: Seq) -> Self {
        let recent = Mutex::new(RecentEvents { events: VecDeque::new(), last, is_closed: false });
        Self { log, recent, event_added: Condvar::new(), wakers: RwLock::default() }
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
        // Followers must not see records that are not announced yet.
        Ok(records
            .into_iter()
            .filter(|record| record.seq <= last)
            .map(|record| Arc::new(FeedEvent::from(record)))
            .collect())
    }

    /// Calls `apply` for each event after a position, oldest first, and moves the position on.
    ///
    /// # Errors
    /// As [`events_after`](Self::events_after), and those of `apply`; the position is that of the
    /// last event that was applied.
    pub fn follow(
        &self,
        position: &mut Seq,
        mut apply: impl FnMut(&FeedEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        loop {
            let events = self.events_after(*position, EVENTS_AT_ONCE)?;
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                apply(&event)?;
                *position = event.seq;
            }
        }
    }

    /// Waits for an event after `seq`; false when the feed is closed or on timeout.
    pub fn wait(&self, seq: Seq, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut recent = self.recent.lock();
        while recent.last <= seq && !recent.is_closed {
            if self.event_added.wait_until(&mut recent, deadline).timed_out() {
                break;
            }
        }
        recent.last > seq
    }

    /// Calls `wake` after each event, on the committer thread, until it returns false: it must not
    /// block (a channel send, a task wake-up), and may be called twice for one event.
    pub fn on_event(&self, wake: impl Fn(Seq) -> bool + Send + Sync + 'static) {
        self.wakers.write().push(Box::new(wake));
    }

    pub(crate) fn publish(&self, events: impl Iterator<Item = FeedEvent>) {
        let last = {
            let mut recent = self.recent.lock();
            for event in events {
                recent.last = event.seq;
                recent.events.push_back(Arc::new(event));
            }
            while recent.events.len() > MAX_CACHED_EVENTS {
                recent.events.pop_front();
            }
            recent.last
        };
        self.event_added.notify_all();
        let wakes = self.wakers.read();
        let kept_wakers = wakes.iter().filter(|wake| wake(last)).count();
        let are_all_kept = kept_wakers == wakes.len();
        drop(wakes);
        if !are_all_kept {
            self.wakers.write().retain(|wake| wake(last));
        }
    }

    pub(crate) fn restart(&self, last: Seq) {
        self.recent.lock().last = last;
    }

    pub(crate) fn close(&self) {
        self.recent.lock().is_closed = true;
        self.event_added.notify_all();
    }
}
