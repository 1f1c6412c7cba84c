//! What was asked last, kept for the questions that follow at once: who lists a folder looks at each of its lines next.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many answers are kept.
const KEPT: usize = 16;

/// The last answers, by what was asked.
pub(super) struct RecentCache<K, V>(Mutex<VecDeque<(K, Arc<V>)>>);

impl<K, V> Default for RecentCache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V> RecentCache<K, V> {
    /// The last answer to a question, when it is still kept.
    pub(super) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.0.lock().iter().find(|(known, _)| known == key).map(|(_, answer)| Arc::clone(answer))
    }

    /// Keeps an answer in the place of an older one, and hands it back.
    pub(super) fn keep(&self, key: K, answer: V) -> Arc<V> {
        let answer = Arc::new(answer);
        let mut kept = self.0.lock();
        kept.retain(|(known, _)| *known != key);
        kept.truncate(KEPT - 1);
        kept.push_front((key, Arc::clone(&answer)));
        answer
    }
}
