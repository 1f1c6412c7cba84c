//! Locks on keys, for keys that are known only at run time.

use std::collections::BTreeSet;

use parking_lot::{Condvar, Mutex};

/// The keys that are locked.
#[derive(Debug)]
pub struct KeyedLocks<K> {
    locked: Mutex<BTreeSet<K>>,
    released: Condvar,
}

/// Locks on keys, released on drop.
#[derive(Debug)]
pub struct KeyedLockGuard<'a, K: Ord> {
    locks: &'a KeyedLocks<K>,
    keys: BTreeSet<K>,
}

impl<K: Ord + Clone> KeyedLocks<K> {
    /// Waits until none of the keys is locked, then locks them all. Blocks the thread.
    pub fn lock(&self, keys: BTreeSet<K>) -> KeyedLockGuard<'_, K> {
        let mut locked = self.locked.lock();
        // All or none: no thread waits while it has a lock, so there is no deadlock.
        while keys.iter().any(|key| locked.contains(key)) {
            self.released.wait(&mut locked);
        }
        locked.extend(keys.iter().cloned());
        KeyedLockGuard { locks: self, keys }
    }
}

impl<K> Default for KeyedLocks<K> {
    fn default() -> Self {
        Self { locked: Mutex::default(), released: Condvar::new() }
    }
}

impl<K: Ord> Drop for KeyedLockGuard<'_, K> {
    fn drop(&mut self) {
        let mut locked = self.locks.locked.lock();
        for key in &self.keys {
            locked.remove(key);
        }
        drop(locked);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn threads_with_a_common_key_take_turns() {
        let (locks, counters) = (KeyedLocks::default(), [const { AtomicU32::new(0) }; 3]);
        std::thread::scope(|scope| {
            for thread in 0..6_usize {
                let (locks, counters) = (&locks, &counters);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let keys = [thread % 3, (thread + 1) % 3];
                        let _guard = locks.lock(BTreeSet::from(keys));
                        for key in keys {
                            let before = counters[key].load(Ordering::Relaxed);
                            std::hint::spin_loop();
                            counters[key].store(before + 1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(counters.map(AtomicU32::into_inner), [2000; 3]);
        assert!(locks.locked.lock().is_empty());
    }
}
