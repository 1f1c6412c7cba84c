//! Whether a history of one page could have come from a page that does one thing at a time.
//!
//! The search of Wing and Gong: an operation may come next if none that is yet to come had returned
//! before it was called; try each, and go back when nothing fits. What is known to lead nowhere (a
//! set of operations done, and what the page then has) is not tried twice, as Lowe does it. Pages
//! are independent, so each is checked by itself. The crates there are for this (`todc-utils`, the
//! tester of `stateright`) are unmaintained or too slow for thousands of operations, and this is
//! the whole of it.

use std::collections::HashSet;

/// What a page has: the number of the text, none when there is no page. Every text ever written is
/// another one.
pub type State = Option<u64>;

/// What was asked of a page, and what was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It had this.
    Read(State),
    /// Write the second, whatever there is; it was written.
    Write(u64),
    /// Write the second if the page has the first; it was written.
    Swap(State, u64),
    /// The same, and refused: the page had something else.
    Refused(State),
}

/// One operation of one client.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// When it was asked for, and when it was answered, in nanoseconds of one clock.
    pub called: u64,
    /// None when no answer came: it may happen at any later time, or never.
    pub returned: Option<u64>,
    pub deed: Deed,
}

impl Deed {
    /// What the page has after it; none when this cannot have been the answer.
    fn applied(self, state: State) -> Option<State> {
        match self {
            Self::Read(seen) => (seen == state).then_some(state),
            Self::Write(text) => Some(Some(text)),
            Self::Swap(expected, text) => (expected == state).then_some(Some(text)),
            Self::Refused(expected) => (expected != state).then_some(state),
        }
    }
}

/// A page whose operations can be put into no order that explains every answer.
#[derive(Debug)]
#[expect(dead_code, reason = "read by whoever reads the failure")]
pub struct Contradiction {
    /// How many of them can be explained at most.
    pub explained: usize,
    /// What the page had then, and operations of which none can have come next.
    pub state: State,
    pub stuck: Vec<Operation>,
}

/// Orders the operations of a page that begins absent so that each takes effect between its call
/// and its answer.
pub fn check(mut history: Vec<Operation>) -> Result<(), Contradiction> {
    history.sort_by_key(|operation| operation.called);
    let unanswered = history.iter().filter(|operation| operation.returned.is_none()).count();
    let open = history.len() - unanswered;
    let mut search =
        Search { done: vec![false; history.len()], history, first: 0, open, known: HashSet::new(), best: None };
    search.run()
}

struct Search {
    history: Vec<Operation>,
    done: Vec<bool>,
    /// Everything before this one is done.
    first: usize,
    /// How many with an answer are not done: the others need not have happened.
    open: usize,
    known: HashSet<(Vec<u64>, State)>,
    best: Option<Contradiction>,
}

/// A choice that was made: which operation, what was there before, and those that could have come
/// in its place.
struct Choice {
    at: usize,
    before: State,
    others: Vec<usize>,
}

impl Search {
    fn run(&mut self) -> Result<(), Contradiction> {
        let (mut path, mut state): (Vec<Choice>, State) = (Vec::new(), None);
        let mut next = self.candidates();
        loop {
            if self.open == 0 {
                return Ok(());
            }
            let mut is_chosen = false;
            while let Some(at) = next.pop() {
                let Some(after) = self.history[at].deed.applied(state) else { continue };
                self.set(at, true);
                if self.known.insert((self.key(), after)) {
                    path.push(Choice { at, before: state, others: std::mem::take(&mut next) });
                    state = after;
                    is_chosen = true;
                    break;
                }
                self.set(at, false);
            }
            if is_chosen {
                next = self.candidates();
                continue;
            }
            self.note(path.len(), state);
            let Some(choice) = path.pop() else { break };
            self.set(choice.at, false);
            (state, next) = (choice.before, choice.others);
        }
        Err(self.best.take().unwrap())
    }

    fn set(&mut self, at: usize, is_done: bool) {
        self.done[at] = is_done;
        let answered = usize::from(self.history[at].returned.is_some());
        self.open = if is_done { self.open - answered } else { self.open + answered };
        self.first = self.first.min(at);
        while self.done.get(self.first).is_some_and(|is_done| *is_done) {
            self.first += 1;
        }
    }

    /// Operations that may come next, the earliest answered last: it is tried first.
    fn candidates(&self) -> Vec<usize> {
        let mut first_answer = u64::MAX;
        let mut found: Vec<usize> = Vec::new();
        for at in (self.first..self.history.len()).filter(|at| !self.done[*at]) {
            let Operation { called, returned, .. } = self.history[at];
            // They are in the order of their calls: none that follows may come before the first
            // answer either.
            if called > first_answer {
                break;
            }
            first_answer = first_answer.min(returned.unwrap_or(u64::MAX));
            found.push(at);
        }
        found.sort_by_key(|at| std::cmp::Reverse(self.history[*at].returned.unwrap_or(u64::MAX)));
        found
    }

    fn key(&self) -> Vec<u64> {
        // Everything before the first open one is done: only what follows tells two of them apart.
        let mut key = vec![self.first as u64];
        for bits in self.done[self.first..].chunks(64).take_while(|bits| bits.iter().any(|is_done| *is_done)) {
            key.push(bits.iter().enumerate().fold(0, |key, (at, is_done)| key | u64::from(*is_done) << at));
        }
        key
    }

    fn note(&mut self, explained: usize, state: State) {
        if self.best.as_ref().is_none_or(|best| best.explained < explained) {
            let stuck = self.candidates().into_iter().map(|at| self.history[at]).collect();
            self.best = Some(Contradiction { explained, state, stuck });
        }
    }
}

mod tests {
    use super::Deed::{Read, Refused, Swap, Write};
    use super::*;

    fn history(operations: &[(u64, u64, Deed)]) -> Vec<Operation> {
        let answered = |returned: u64| (returned < u64::MAX).then_some(returned);
        operations
            .iter()
            .map(|(called, returned, deed)| Operation { called: *called, returned: answered(*returned), deed: *deed })
            .collect()
    }

    #[test]
    fn turns_and_overlaps_that_one_page_explains_are_accepted() {
        let fine: [&[(u64, u64, Deed)]; 6] = [
            &[],
            &[(0, 1, Read(None)), (2, 3, Swap(None, 1)), (4, 5, Read(Some(1))), (6, 7, Refused(None))],
            // While a write is under way, readers may see either, but once one saw it, so do all
            // who ask later.
            &[(0, 9, Write(1)), (1, 2, Read(None)), (3, 4, Read(Some(1))), (5, 6, Read(Some(1)))],
            // Of two swaps at once one wins; the loser may be answered first.
            &[(0, 1, Write(1)), (2, 9, Swap(Some(1), 2)), (3, 4, Refused(Some(1))), (10, 11, Read(Some(2)))],
            // No answer: it happened late.
            &[(0, 1, Write(1)), (2, u64::MAX, Write(2)), (3, 4, Read(Some(1))), (5, 6, Read(Some(2)))],
            // Or never.
            &[(0, 1, Write(1)), (2, u64::MAX, Swap(None, 2)), (3, 4, Read(Some(1)))],
        ];
        for operations in fine {
            check(history(operations)).unwrap_or_else(|found| panic!("{operations:?}: {found:?}"));
        }
    }

    #[test]
    fn a_lost_update_is_found() {
        // Both were told that they replaced the first text.
        let lost = [(0, 1, Write(1)), (2, 6, Swap(Some(1), 2)), (3, 7, Swap(Some(1), 3)), (8, 9, Read(Some(3)))];
        let found = check(history(&lost)).unwrap_err();
        assert_eq!((found.explained, found.stuck.len()), (2, 1), "{found:?}");
        // An acknowledged text that nobody ever saw replaced is gone.
        let lost = [(0, 1, Write(1)), (2, 3, Swap(Some(1), 2)), (4, 5, Swap(Some(1), 3))];
        assert!(check(history(&lost)).is_err());
    }

    #[test]
    fn a_stale_read_is_found() {
        assert!(check(history(&[(0, 1, Write(1)), (2, 3, Write(2)), (4, 5, Read(Some(1)))])).is_err());
        // Not after the acknowledgement, but after somebody else had seen the new text.
        let stale = [(0, 1, Write(1)), (2, 9, Write(2)), (3, 4, Read(Some(2))), (5, 6, Read(Some(1)))];
        assert!(check(history(&stale)).is_err());
        assert!(check(history(&[(0, 1, Write(1)), (2, 3, Read(None))])).is_err());
    }

    #[test]
    fn a_refusal_without_a_reason_is_found() {
        assert!(check(history(&[(0, 1, Write(1)), (2, 3, Refused(Some(1))), (4, 5, Read(Some(1)))])).is_err());
    }

    #[test]
    fn ten_thousand_operations_of_eight_clients_check_quickly() {
        // Eight reads at a time, all of them over the write of the next text.
        let mut operations = Vec::new();
        for round in 0..1_200_u64 {
            let start = round * 100;
            operations.push((start, start + 90, Write(round)));
            for reader in 0..8 {
                let seen = if reader % 2 == 0 { Some(round) } else { round.checked_sub(1) };
                let at = if reader % 2 == 0 { start + 50 } else { start + 1 };
                operations.push((at + reader, start + 60 + reader, Read(seen)));
            }
        }
        check(history(&operations)).unwrap();
        operations.push((120_001, 120_002, Read(Some(7))));
        assert!(check(history(&operations)).is_err());
    }
}
