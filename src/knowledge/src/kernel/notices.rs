//! Events of a space that are no change of a file, for followers that are connected.

use std::collections::VecDeque;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

/// The newest events that followers can still read.
const MAX_NOTICES: usize = 256;

/// An event that is not in the change log, such as a disabled webhook.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Its number, from 1.
    pub number: u64,
    /// Its name in the event stream.
    pub name: &'static str,
    /// Its data.
    pub data: Value,
}

type NoticeWaker = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// The events of a space that are not in its change log.
#[derive(Default)]
pub struct NoticeBoard {
    notices: Mutex<(u64, VecDeque<Notice>)>,
    wakers: RwLock<Vec<NoticeWaker>>,
}

impl NoticeBoard {
    /// Announces an event.
    pub fn publish(&self, name: &'static str, data: Value) {
        let number = {
            let mut notices = self.notices.lock();
            let (last, events) = &mut *notices;
            *last += 1;
            events.push_back(Notice { number: *last, name, data });
            if events.len() > MAX_NOTICES {
                events.pop_front();
            }
            *last
        };
        self.wakers.write().retain(|wake| wake(number));
    }

    /// Calls `wake` with the number of each new event until it returns false; it must not block.
    pub fn on_notice(&self, wake: impl Fn(u64) -> bool + Send + Sync + 'static) {
        self.wakers.write().push(Box::new(wake));
    }

    /// The number of the newest event.
    pub fn last(&self) -> u64 {
        self.notices.lock().0
    }

    /// The events after a number.
    pub fn after(&self, number: u64) -> Vec<Notice> {
        self.notices.lock().1.iter().filter(|notice| notice.number > number).cloned().collect()
    }
}
