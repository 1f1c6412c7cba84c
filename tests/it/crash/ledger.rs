//! What one driver did, in order, and what it was told.

use std::collections::BTreeMap;

/// One change set a driver asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deed {
    pub author: String,
    pub subject: String,
    /// Every path it touches, with the content it has afterwards; none when it is gone.
    pub effects: BTreeMap<String, Option<String>>,
}

/// Everything a driver did. It works alone in its own part of the tree, one deed after the other.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Answered, in order.
    pub deeds: Vec<Deed>,
    /// How many of them must be there after a crash, whatever happens; the others were promised for a moment later.
    pub safe: usize,
    /// Asked for and not answered when the server died.
    pub in_flight: Option<Deed>,
    /// How many deeds were tried; makes every content unlike every other.
    pub serial: usize,
}

/// What stands at which path.
pub type Pages = BTreeMap<String, String>;

impl Ledger {
    /// What everything answered has left.
    pub fn pages(&self) -> Pages {
        self.deeds.iter().fold(Pages::new(), after)
    }

    /// Notes that the deed in flight was answered.
    pub fn answered(&mut self, is_safe: bool) {
        self.deeds.extend(self.in_flight.take());
        if is_safe {
            self.safe = self.deeds.len();
        }
    }

    /// Everything that may stand there after a crash: what was safe, and after it the deeds that were not, in their order, up
    /// to some point; never a later one without an earlier one.
    pub fn possible(&self) -> Vec<Pages> {
        let safe = self.deeds[..self.safe].iter().fold(Pages::new(), after);
        let mut states = vec![safe];
        for deed in self.deeds[self.safe..].iter().chain(&self.in_flight) {
            let state = after(states[states.len() - 1].clone(), deed);
            states.push(state);
        }
        states
    }

    /// Forgets what did not happen: everything after the possible state of this number.
    pub fn resolve(&mut self, state: usize) {
        self.deeds.extend(self.in_flight.take());
        self.deeds.truncate(self.safe + state);
        self.safe = self.deeds.len();
    }
}

fn after(mut pages: Pages, deed: &Deed) -> Pages {
    for (path, content) in &deed.effects {
        match content {
            Some(content) => drop(pages.insert(path.clone(), content.clone())),
            None => drop(pages.remove(path)),
        }
    }
    pages
}
