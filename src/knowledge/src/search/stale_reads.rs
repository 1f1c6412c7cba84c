//! Pages that did not stand as recorded when the index read them.
//!
//! A git command of a person leaves nothing at a path, or an older text, for a moment and puts back what is recorded. Nobody edited
//! anything then, so no event follows that has the index look again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use svcfs_base::{ETag, TreePath};
use svcfs_index::IndexEntry;

/// When they are looked at again. An edit is recorded by then, and the event of that is looked at instead.
const FIRST: Duration = Duration::from_secs(1);

/// As long as nothing becomes of them, the time until the next look doubles, up to this.
const LAST: Duration = Duration::from_secs(300);

/// Those of one index.
#[derive(Default)]
pub struct RecheckQueue {
    doubted: Mutex<RecheckState>,
    /// Raised when they were looked at, and when there are none any more.
    looked: Condvar,
}

#[derive(Default)]
struct RecheckState {
    /// What their newest events told: the hash of the text, none where it is gone.
    told: BTreeMap<TreePath, Option<ETag>>,
    /// When they are looked at next, and how long the time between looks is.
    next: Option<(Instant, Duration)>,
}

impl RecheckQueue {
    /// What was read where an event told of `told`.
    pub(super) fn weigh(&self, read: &IndexEntry, told: Option<ETag>) {
        let doubted = &mut *self.doubted.lock();
        let (path, found) = match read {
            IndexEntry::Page { path, etag, .. } => (path, Some(*etag)),
            IndexEntry::Deleted(path) => (path, None),
        };
        if found == told {
            doubted.told.remove(path);
        } else if doubted.told.insert(path.clone(), told) != Some(told) {
            doubted.next = Some((Instant::now() + FIRST, FIRST));
        }
        if doubted.told.is_empty() {
            doubted.next = None;
            self.looked.notify_all();
        }
    }

    /// How long until they are looked at again; none when there are none.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.doubted.lock().next.map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    /// Those that are to be looked at now, with what was told of them.
    pub(super) fn due(&self) -> BTreeMap<TreePath, Option<ETag>> {
        let doubted = self.doubted.lock();
        match doubted.next {
            Some((at, _)) if at <= Instant::now() => doubted.told.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Takes notice that those which were due were looked at.
    pub(super) fn looked(&self) {
        if let Some((at, wait)) = &mut self.doubted.lock().next {
            *wait = LAST.min(*wait * 2);
            *at = Instant::now() + *wait;
        }
        self.looked.notify_all();
    }

    /// Waits until each of them was looked at once more; false when that takes longer. What is not as recorded then stays so for longer than a
    /// git command takes, or a save.
    pub(crate) fn wait_for_look(&self, at_most: Duration) -> bool {
        let mut doubted = self.doubted.lock();
        let is_first_ahead = |doubted: &mut RecheckState| doubted.next.is_some_and(|(_, wait)| wait == FIRST);
        !self.looked.wait_while_for(&mut doubted, is_first_ahead, at_most).timed_out()
    }
}
