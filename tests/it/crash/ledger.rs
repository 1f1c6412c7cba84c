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
    /// Acknowledged, in order.
    pub deeds: Vec<Deed>,
    /// Asked for and not answered when the server died.
    pub in_flight: Option<Deed>,
    /// How many deeds were tried; makes every content unlike every other.
    pub serial: usize,
}

/// What stands at which path.
pub type Pages = BTreeMap<String, String>;

impl Ledger {
    /// What everything acknowledged has left.
    pub fn pages(&self) -> Pages {
        self.deeds.iter().fold(Pages::new(), after)
    }

    /// Both things that may stand there after a crash: without and with the deed nobody answered.
    pub fn possible(&self) -> [Pages; 2] {
        let without = self.pages();
        let with = self.in_flight.iter().fold(without.clone(), after);
        [without, with]
    }

    /// Says whether the deed that was not answered happened.
    pub fn resolve(&mut self, happened: bool) {
        self.deeds.extend(self.in_flight.take().filter(|_| happened));
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
