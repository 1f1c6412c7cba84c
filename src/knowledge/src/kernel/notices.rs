//! Events of a space that are no changes of pages, such as `backup.stale`.
//!
//! They are not logged: a subscriber gets those that happen while it is connected.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

/// Number of events that are kept for slow subscribers.
const MAX_RECENT: usize = 64;

/// An event.
#[derive(Debug)]
pub struct SpaceNotice {
    /// Its number, from 1.
    pub number: u64,
    /// Its name.
    pub name: &'static str,
    /// Its data, an object.
    pub data: Value,
}

type Listener = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// The newest events of a space.
#[derive(Default)]
pub struct NoticeBoard {
    recent: Mutex<VecDeque<Arc<SpaceNotice>>>,
    listeners: Mutex<Vec<Listener>>,
}

impl NoticeBoard {
    /// Adds an event and wakes the listeners.
    pub fn publish(&self, name: &'static str, data: Value) {
        let mut recent = self.recent.lock();
        let number = recent.back().map_or(0, |last| last.number) + 1;
        recent.push_back(Arc::new(SpaceNotice { number, name, data }));
        if recent.len() > MAX_RECENT {
            recent.pop_front();
        }
        drop(recent);
        self.listeners.lock().retain(|wake| wake(number));
    }

    /// Calls `wake` with the number of each new event until it returns false; it must not block.
    pub fn on_publish(&self, wake: impl Fn(u64) -> bool + Send + Sync + 'static) {
        self.listeners.lock().push(Box::new(wake));
    }

    /// The number of the newest event, or 0.
    pub fn last(&self) -> u64 {
        self.recent.lock().back().map_or(0, |last| last.number)
    }

    /// The events after a number, oldest first.
    pub fn after(&self, number: u64) -> Vec<Arc<SpaceNotice>> {
        self.recent.lock().iter().filter(|notice| notice.number > number).cloned().collect()
    }
}
