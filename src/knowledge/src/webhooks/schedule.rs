//! Which notification of a webhook is next.
//!
//! Invariant: a notification about a page waits until the earlier ones about it have ended. One
//! about a rename belongs to both names.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use svcfs_base::{Timestamp, TreePath};

/// No delay is so long. One that is due later was queued before the clock was set back.
const MAX_WAIT: Duration = Duration::from_secs(2 * 60 * 60);

/// The waiting notifications of one webhook. Every step costs O(log n).
#[derive(Default)]
pub(super) struct Schedule {
    items: HashMap<i64, Item>,
    /// The notifications about each page, in order.
    pages: HashMap<u64, VecDeque<i64>>,
    /// Those that are first for all their pages, and not in flight.
    ready: BTreeSet<(Timestamp, i64)>,
    in_flight: usize,
}

struct Item {
    pages: Vec<u64>,
    next_at: Timestamp,
    is_in_flight: bool,
}

impl Schedule {
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub fn contains(&self, number: i64) -> bool {
        self.items.contains_key(&number)
    }

    /// Adds a notification after all others.
    pub fn push(&mut self, number: i64, (path, former): (&TreePath, Option<&TreePath>), next_at: Timestamp) {
        let mut pages = vec![page_hash(path)];
        pages.extend(former.map(page_hash).filter(|former| *former != pages[0]));
        pages.iter().for_each(|page| self.pages.entry(*page).or_default().push_back(number));
        self.items.insert(number, Item { pages, next_at, is_in_flight: false });
        self.add_if_ready(number);
    }

    /// Takes the notifications that are due, at most `max`, oldest first.
    pub fn take_due(&mut self, now: Timestamp, max: usize) -> Vec<i64> {
        let latest = now.saturating_add(MAX_WAIT).unwrap_or(Timestamp::MAX);
        let due = self.ready.iter().take_while(|(next_at, _)| *next_at <= now);
        let misdated = self.ready.iter().rev().take_while(|(next_at, _)| *next_at > latest);
        let due: Vec<(Timestamp, i64)> = due.chain(misdated).take(max).copied().collect();
        for entry in &due {
            self.ready.remove(entry);
            if let Some(item) = self.items.get_mut(&entry.1) {
                item.is_in_flight = true;
                self.in_flight += 1;
            }
        }
        due.into_iter().map(|(_, number)| number).collect()
    }

    /// When the next one is due; none if all wait for those in flight.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.ready.first().map(|(next_at, _)| *next_at)
    }

    /// Ends a notification; later ones about its pages can follow.
    pub fn finish(&mut self, number: i64) {
        let Some(item) = self.items.remove(&number) else { return };
        self.in_flight -= usize::from(item.is_in_flight);
        self.ready.remove(&(item.next_at, number));
        for page in item.pages {
            let Some(waiting) = self.pages.get_mut(&page) else { continue };
            if waiting.front() == Some(&number) {
                waiting.pop_front();
            } else {
                waiting.retain(|other| *other != number);
            }
            match waiting.front().copied() {
                Some(first) => self.add_if_ready(first),
                None => drop(self.pages.remove(&page)),
            }
        }
    }

    /// Returns one that was in flight, to be tried again at a time.
    pub fn retry(&mut self, number: i64, next_at: Timestamp) {
        let Some(item) = self.items.get_mut(&number) else { return };
        self.in_flight -= usize::from(item.is_in_flight);
        item.is_in_flight = false;
        item.next_at = next_at;
        self.add_if_ready(number);
    }

    /// Returns one that was in flight and was not tried.
    pub fn give_back(&mut self, number: i64) {
        if let Some(next_at) = self.items.get(&number).map(|item| item.next_at) {
            self.retry(number, next_at);
        }
    }

    fn add_if_ready(&mut self, number: i64) {
        let Some(item) = self.items.get(&number) else { return };
        let is_first = |page: &u64| self.pages.get(page).and_then(VecDeque::front) == Some(&number);
        if !item.is_in_flight && item.pages.iter().all(is_first) {
            self.ready.insert((item.next_at, number));
        }
    }
}

/// Equal hashes of different pages only make one wait for the other.
fn page_hash(path: &TreePath) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.as_str().hash(&mut hasher);
    hasher.finish()
}
