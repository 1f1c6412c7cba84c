//! Rows by which pages are weighed, retained from one question to the next: to read one from the database takes longer than to weigh it.
//!
//! Invariant: a question is answered from one state of the index. Rows are used and retained only by questions whose state is the present one;
//! a write marks itself before and after it is committed, and drops the rows of its pages in between.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most bytes that are retained; beyond, all of them are dropped.
const MAX_BYTES: usize = 8 << 20;

/// What a page is weighed by.
#[derive(Debug)]
pub(super) struct WeighedRow {
    pub(super) path: String,
    /// What its score is multiplied with, for little and for much trust.
    pub(super) soft: Option<f64>,
    pub(super) hard: Option<f64>,
    pub(super) words: Vec<u8>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RecentRows(Mutex<Retained>);

#[derive(Debug, Default)]
struct Retained {
    /// Raised before and after each write: odd while one is being committed.
    state: u64,
    bytes: usize,
    rows: HashMap<i64, Arc<WeighedRow>>,
}

/// The state of the index that a question is answered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    /// One that no row is of.
    pub(super) const UNKNOWN: Self = Self(1);
}

/// A write that is about to be committed; it is over when this is dropped.
pub(crate) struct Write<'r>(&'r RecentRows);

impl RecentRows {
    /// The present state, which is that of a transaction if it is the same before and after the transaction's first read.
    pub(super) fn state(&self) -> State {
        State(self.0.lock().state)
    }

    /// Marks a write of these pages, before it is committed; all pages when it does not say which.
    pub(crate) fn write(&self, pages: Option<&[i64]>) -> Write<'_> {
        let retained = &mut *self.0.lock();
        retained.state += 1;
        match pages {
            Some(pages) => {
                for page in pages {
                    if let Some(row) = retained.rows.remove(page) {
                        retained.bytes -= row.bytes();
                    }
                }
            }
            None => retained.clear(),
        }
        Write(self)
    }

    /// Drops all rows: memory is given back.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// The rows of these pages that are retained, in their order; none at all when the state is another one.
    pub(super) fn get(&self, state: State, pages: &[i64]) -> Vec<Option<Arc<WeighedRow>>> {
        let retained = self.0.lock();
        if retained.is_not(state) {
            return vec![None; pages.len()];
        }
        pages.iter().map(|page| retained.rows.get(page).cloned()).collect()
    }

    /// Retains rows that were read in a state.
    pub(super) fn put(&self, state: State, rows: Vec<(i64, Arc<WeighedRow>)>) {
        let retained = &mut *self.0.lock();
        for (page, row) in rows {
            if retained.is_not(state) {
                return;
            }
            let bytes = row.bytes();
            if retained.bytes + bytes > MAX_BYTES {
                retained.clear();
            }
            if bytes <= MAX_BYTES / 4 && retained.rows.insert(page, row).is_none() {
                retained.bytes += bytes;
            }
        }
    }
}

impl Retained {
    const fn is_not(&self, State(state): State) -> bool {
        self.state != state || !state.is_multiple_of(2)
    }

    fn clear(&mut self) {
        self.rows = HashMap::new();
        self.bytes = 0;
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        self.0.0.lock().state += 1;
    }
}

impl WeighedRow {
    fn bytes(&self) -> usize {
        // With what the map takes for it.
        size_of::<Self>() + self.path.len() + self.words.len() + 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str) -> Arc<WeighedRow> {
        Arc::new(WeighedRow { path: path.to_owned(), soft: None, hard: None, words: vec![0; 100] })
    }

    fn found(rows: &RecentRows, state: State) -> Vec<bool> {
        rows.get(state, &[1, 2, 3]).iter().map(Option::is_some).collect()
    }

    #[test]
    fn rows_are_of_the_present_state_only() {
        let rows = RecentRows::default();
        let first = rows.state();
        rows.put(first, vec![(1, row("a.md")), (2, row("b.md"))]);
        assert_eq!(found(&rows, first), [true, true, false]);
        let write = rows.write(Some(&[2]));
        let during = rows.state();
        // A question that begins now may see what was before the write, or what is behind it.
        rows.put(during, vec![(3, row("c.md"))]);
        assert_eq!((found(&rows, during), found(&rows, first)), (vec![false; 3], vec![false; 3]));
        drop(write);
        let after = rows.state();
        assert_eq!(
            (found(&rows, after), found(&rows, first), found(&rows, during)),
            (vec![true, false, false], vec![false; 3], vec![false; 3])
        );
        rows.put(first, vec![(2, row("old.md"))]);
        assert_eq!(found(&rows, after), [true, false, false], "what an older question read is not retained");
        drop(rows.write(None));
        assert_eq!(found(&rows, rows.state()), [false; 3]);
    }

    #[test]
    fn what_is_retained_is_bounded() {
        let rows = RecentRows::default();
        let state = rows.state();
        for page in 0..100_000 {
            rows.put(state, vec![(page, row("a.md"))]);
            assert!(rows.0.lock().bytes <= MAX_BYTES);
        }
        assert!(rows.0.lock().rows.len() > 1_000);
        rows.clear();
        assert_eq!(rows.0.lock().bytes, 0);
    }
}
