//! One piece of work divided among the processors.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Threads at most: the others of the machine have work, too.
const MOST: usize = 4;
/// Items that are taken at once.
const AT_ONCE: usize = 16;

/// What `look` gives for each item, in the order of the items. Several threads look, as many as there are processors, four at most;
/// few items are looked at here.
///
/// # Panics
/// When `look` does.
pub fn each<T: Sync, R: Send>(items: &[T], look: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST).min(items.len() / AT_ONCE);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(AT_ONCE, Ordering::Relaxed);
            let Some(rest) = items.get(start..).filter(|rest| !rest.is_empty()) else { return done };
            let part = &rest[..AT_ONCE.min(rest.len())];
            done.push((start, part.iter().map(&look).collect::<Vec<R>>()));
        }
    };
    let mut done = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().name("parallel".to_owned()).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(start, _)| *start);
    done.into_iter().flat_map(|(_, part)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn every_item_is_looked_at_once_and_the_order_stays() {
        for count in [0, 1, 15, 16, 33, 1_000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(each(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "item 77")]
    fn a_panic_comes_through() {
        let items: Vec<usize> = (0..100).collect();
        each(&items, |item| assert_ne!(*item, 77, "item {item}"));
    }
}
