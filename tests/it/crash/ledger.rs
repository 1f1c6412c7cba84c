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
#[derive(Debug, Default, Clone)]
pub struct Ledger {
    /// Answered, in order.
    pub deeds: Vec<Deed>,
    /// How many of them must be there after a crash, whatever happens; the others were promised for
    /// a moment later.
    pub safe: usize,
    /// Asked for and not answered when the server died.
    pub in_flight: Option<Deed>,
    /// How many deeds were tried; makes every content unlike every other.
    pub serial: usize,
    /// How far the disk was when each deed was asked for, answered or in flight.
    pub asked: Vec<usize>,
    /// How far the disk was when so many deeds had become safe.
    safe_since: Vec<(usize, usize)>,
}

/// What stands at which path.
pub type Pages = BTreeMap<String, String>;

impl Ledger {
    /// What everything answered has left.
    pub fn pages(&self) -> Pages {
        self.deeds.iter().fold(Pages::new(), after)
    }

    /// Notes that the deed in flight was answered; with how far the disk was, when it is safe now.
    pub fn answered(&mut self, safe_since: Option<usize>) {
        self.deeds.extend(self.in_flight.take());
        if let Some(moment) = safe_since {
            self.safe = self.deeds.len();
            self.safe_since.push((self.safe, moment));
        }
    }

    /// What was asked for and what was safe when the disk was no further than this; at least one
    /// step behind its beginning.
    pub fn at(&self, moment: usize) -> Self {
        let mut earlier = self.clone();
        earlier.deeds.extend(earlier.in_flight.take());
        earlier.deeds.truncate(self.asked.partition_point(|asked| *asked < moment));
        let safe = self.safe_since.partition_point(|(_, since)| *since <= moment).checked_sub(1);
        earlier.safe = safe.map_or(0, |last| self.safe_since[last].0);
        earlier
    }

    /// Everything that may stand there after a crash: what was safe, and after it the deeds that
    /// were not, in their order, up to some point; never a later one without an earlier one.
    pub fn possible(&self) -> Vec<Pages> {
        let safe = self.deeds[..self.safe].iter().fold(Pages::new(), after);
        let mut states = vec![safe];
        for deed in self.deeds[self.safe..].iter().chain(&self.in_flight) {
            let state = after(states[states.len() - 1].clone(), deed);
            states.push(state);
        }
        states
    }

    /// Forgets what did not happen: everything after the possible state of this number. What did
    /// happen is safe from here on.
    pub fn resolve(&mut self, state: usize) {
        self.deeds.extend(self.in_flight.take());
        self.deeds.truncate(self.safe + state);
        self.safe = self.deeds.len();
        self.asked = vec![0; self.safe];
        self.safe_since = vec![(self.safe, 0)];
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
