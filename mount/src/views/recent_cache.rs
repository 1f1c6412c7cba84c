//! Small cache of recent answers: a listing is followed by a lookup of each entry.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

const CAPACITY: usize = 16;

/// Recent answers, newest first.
pub(super) struct RecentCache<K, V>(Mutex<VecDeque<(K, Arc<V>)>>);

impl<K, V> Default for RecentCache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V> RecentCache<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.0.lock().iter().find(|(cached_key, _)| cached_key == key).map(|(_, answer)| Arc::clone(answer))
    }

    /// Stores an answer, evicting the oldest, and returns it.
    pub(super) fn insert(&self, key: K, answer: V) -> Arc<V> {
        let answer = Arc::new(answer);
        let mut answers = self.0.lock();
        answers.retain(|(cached_key, _)| *cached_key != key);
        answers.truncate(CAPACITY - 1);
        answers.push_front((key, Arc::clone(&answer)));
        answer
    }
}
