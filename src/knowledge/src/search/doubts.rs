//! Pages that did not stand as recorded when the index read them.
//!
//! A git command of a person leaves nothing at a path, or an older text, for a moment and puts back what is recorded. Nobody edited
//! anything then, so no event follows that has the index look again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use svcfs_base::{ETag, TreePath};
use svcfs_index::Entry;

/// When they are looked at again. An edit is recorded by then, and the event of that is looked at instead.
const FIRST: Duration = Duration::from_secs(1);

/// As long as nothing becomes of them, the time until the next look doubles, up to this.
const LAST: Duration = Duration::from_secs(300);

/// Those of one index.
#[derive(Default)]
pub struct Doubts(Mutex<Doubted>);

#[derive(Default)]
struct Doubted {
    /// What their newest events told: the hash of the text, none where it is gone.
    told: BTreeMap<TreePath, Option<ETag>>,
    /// When they are looked at next, and how long the time between looks is.
    next: Option<(Instant, Duration)>,
}

impl Doubts {
    /// What was read where an event told of `told`.
    pub(super) fn weigh(&self, read: &Entry, told: Option<ETag>) {
        let doubted = &mut *self.0.lock();
        let (path, found) = match read {
            Entry::Page { path, etag, .. } => (path, Some(*etag)),
            Entry::Gone(path) => (path, None),
        };
        if found == told {
            doubted.told.remove(path);
        } else if doubted.told.insert(path.clone(), told) != Some(told) {
            doubted.next = Some((Instant::now() + FIRST, FIRST));
        }
        if doubted.told.is_empty() {
            doubted.next = None;
        }
    }

    /// How long until they are looked at again; none when there are none.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.0.lock().next.map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    /// Those that are to be looked at now, with what was told of them.
    pub(super) fn due(&self) -> BTreeMap<TreePath, Option<ETag>> {
        let doubted = &mut *self.0.lock();
        match &mut doubted.next {
            Some((at, wait)) if *at <= Instant::now() => {
                *wait = LAST.min(*wait * 2);
                *at = Instant::now() + *wait;
                doubted.told.clone()
            }
            _ => BTreeMap::new(),
        }
    }
}
