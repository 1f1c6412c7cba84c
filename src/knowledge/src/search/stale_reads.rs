//! Pages whose content differed from the log when the index read them.
//!
//! A git command may remove a file, or install an older text, for a moment and restore the recorded
//! one. Then no event follows, so the path must be read again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use svcfs_base::{ETag, TreePath};
use svcfs_index::IndexEntry;

/// Delay of the first recheck. An edit is recorded by then, and its event replaces the recheck.
const MIN_DELAY: Duration = Duration::from_secs(1);

/// The delay doubles with each recheck, up to this limit.
const MAX_DELAY: Duration = Duration::from_secs(300);

/// The stale reads of one index.
#[derive(Default)]
pub struct RecheckQueue {
    state: Mutex<RecheckState>,
    /// Notified after each recheck and when the queue becomes empty.
    rechecked: Condvar,
}

#[derive(Default)]
struct RecheckState {
    /// The content hash in the newest event of each path; none if it was deleted.
    expected: BTreeMap<TreePath, Option<ETag>>,
    /// Time of the next recheck, and the current delay.
    next: Option<(Instant, Duration)>,
}

impl RecheckQueue {
    /// Compares what was read with the hash in the event, and queues or removes the path.
    pub(super) fn observe(&self, read: &IndexEntry, expected: Option<ETag>) {
        let state = &mut *self.state.lock();
        let (path, actual) = match read {
            IndexEntry::Page { path, etag, .. } | IndexEntry::Canvas { path, etag, .. } => (path, Some(*etag)),
            // Only the existence of other files matters.
            IndexEntry::Asset(path) => (path, expected.or(Some(ETag::from_content(&[])))),
            IndexEntry::Deleted(path) => (path, None),
        };
        if actual == expected {
            state.expected.remove(path);
        } else if state.expected.insert(path.clone(), expected) != Some(expected) {
            state.next = Some((Instant::now() + MIN_DELAY, MIN_DELAY));
        }
        if state.expected.is_empty() {
            state.next = None;
            self.rechecked.notify_all();
        }
    }

    /// Time until the next recheck; none if the queue is empty.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.state.lock().next.map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    /// The paths that are due now, with the hashes in their events.
    pub(super) fn due(&self) -> BTreeMap<TreePath, Option<ETag>> {
        let state = self.state.lock();
        match state.next {
            Some((at, _)) if at <= Instant::now() => state.expected.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Records that the due paths were rechecked.
    pub(super) fn rechecked(&self) {
        if let Some((at, wait)) = &mut self.state.lock().next {
            *wait = MAX_DELAY.min(*wait * 2);
            *at = Instant::now() + *wait;
        }
        self.rechecked.notify_all();
    }

    /// Waits until every path was rechecked once; false on timeout. A difference after that lasts
    /// longer than a git command or a save.
    pub(crate) fn wait_for_recheck(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        let is_first_ahead = |state: &mut RecheckState| state.next.is_some_and(|(_, wait)| wait == MIN_DELAY);
        !self.rechecked.wait_while_for(&mut state, is_first_ahead, timeout).timed_out()
    }
}
