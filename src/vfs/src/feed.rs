//! The change feed.
use std::time::Duration;
use svcfs_base::{Actor, Announcement, CommitId, Door, ETag, Fault, FileKind, Seq, Timestamp, TreePath};

/// One accepted change set, as its followers see it.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was accepted.
    pub time: Timestamp,
    /// Who.
    pub actor: Actor,
    /// Through which door.
    pub door: Door,
    /// Subject of its commit.
    pub message: String,
    /// How subscribers of the event stream hear of it.
    pub announcement: Announcement,
    /// Its commit.
    pub commit: Option<CommitId>,
    /// The paths it touched, in order.
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

/// The change feed: every accepted change set, in order, without gaps, from any position.
pub struct Feed {
    _p: (),
}

impl Feed {
    /// Position of the newest event.
    pub fn last(&self) -> Seq {
        unimplemented!()
    }
    /// At most `max` events after a position, oldest first.
    pub fn after(&self, seq: Seq, max: usize) -> Result<Vec<std::sync::Arc<Event>>, Fault> {
        unimplemented!()
    }
    /// Waits until there is an event after `seq`, the feed is closed, or the time is up; true when there is one.
    pub fn wait(&self, seq: Seq, at_most: Duration) -> bool {
        unimplemented!()
    }
    /// Calls `wake` after each event, from the committer's thread: it must not block (a channel send, a task wake-up).
    pub fn on_event(&self, wake: impl Fn(Seq) + Send + Sync + 'static) {
        unimplemented!()
    }
}
