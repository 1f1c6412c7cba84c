//! Every name that a link may mean, for whoever asks where all links lead.
//!
//! Invariant: the answers are those of [`Names`](super::Names). The names of all pages take a few allocations and are never changed once
//! they are read, so that several threads can ask.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use rusqlite::{Connection, Row};
use svcfs_base::TreePath;
use svcfs_text::links::{Key, KeyKind, Known, choose};

use super::names::{FEW, Namesakes, add_name, near};
use crate::IndexError;

/// Every name that a link asks for, in the order of their bytes.
const ALL_WANTED: &str = "SELECT folded FROM link_keys ORDER BY folded";
/// Every name that a page answers to, in the same order.
const ALL_NAMES: &str = "SELECT kind, text, page, folded FROM page_keys ORDER BY folded";

/// A page by its place among all of them, in the order of their rows.
pub(crate) type Place = u32;

/// The pages that names are names of.
#[derive(Clone, Copy)]
pub(crate) struct AllPages<'p> {
    /// Their rows, in order.
    pub(crate) ids: &'p [i64],
    /// Their paths, in the same order.
    pub(crate) paths: &'p [TreePath],
    /// The places of the paths, in the order of the alphabet.
    pub(crate) by_path: &'p [Place],
}

impl<'p> AllPages<'p> {
    pub(crate) fn place(self, id: i64) -> Option<Place> {
        // Rows are numbered one after the other, with gaps where pages were removed.
        let guess = id.checked_sub(*self.ids.first()?).and_then(|guess| usize::try_from(guess).ok());
        let is_there = |guess: &usize| self.ids.get(*guess) == Some(&id);
        let place = guess.filter(is_there).or_else(|| self.ids.binary_search(&id).ok())?;
        Place::try_from(place).ok()
    }

    fn path(self, place: Place) -> &'p str {
        self.paths[place as usize].as_str()
    }

    fn place_of_path(self, path: &str) -> Option<Place> {
        let found = self.by_path.binary_search_by(|place| self.path(*place).cmp(path)).ok()?;
        Some(self.by_path[found])
    }
}

/// The names of pages that links ask for.
#[derive(Default)]
pub(crate) struct AllNames {
    /// The texts of all names, one behind the other.
    text: String,
    names: Vec<PageName>,
    groups: Vec<Group>,
    /// Groups by the hash of their lower case.
    by_folded: HashTable<u32>,
    hasher: RandomState,
    /// Groups of more than a few names, as the nearest page is found among them.
    large: HashMap<u32, Vec<Namesakes>>,
}

/// Names that are the same in lower case.
struct Group {
    folded: Span,
    /// Its first name; the last one is before the first of the next group.
    first: usize,
}

struct PageName {
    page: i64,
    written: Span,
    kind: KeyKind,
}

/// A part of the text.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    length: u32,
}

impl Span {
    fn of(self, text: &str) -> &str {
        &text[self.start..self.start + self.length as usize]
    }

    /// Appends a part.
    fn push(text: &mut String, part: &str) -> Result<Self, IndexError> {
        let length = u32::try_from(part.len()).map_err(|_| too_much())?;
        let start = text.len();
        text.push_str(part);
        Ok(Self { start, length })
    }
}

/// SQLite itself stops at less.
fn too_much() -> IndexError {
    IndexError::Damaged("names are longer, or more, than an index can hold".to_owned())
}

impl AllNames {
    /// Reads the names that a link asks for.
    ///
    /// Both lists are read in one order, side by side: to look for each name by itself takes several times as long.
    pub(crate) fn read(connection: &Connection) -> Result<Self, IndexError> {
        let mut all = Self::default();
        let (mut wanted, mut keys) = (connection.prepare_cached(ALL_WANTED)?, connection.prepare_cached(ALL_NAMES)?);
        let (mut wanted, mut rows) = (wanted.query([])?, keys.query([])?);
        let mut asked = wanted.next()?;
        while let Some(row) = rows.next()? {
            let folded = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
            let is_asked = loop {
                let Some(next) = asked else { return Ok(all) };
                match next.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?.cmp(folded) {
                    std::cmp::Ordering::Less => asked = wanted.next()?,
                    order => break order.is_eq(),
                }
            };
            if is_asked {
                all.add(row, folded)?;
            }
        }
        Ok(all)
    }

    fn add(&mut self, row: &Row<'_>, folded: &str) -> Result<(), IndexError> {
        let (page, number): (i64, u8) = (row.get(2)?, row.get(0)?);
        let kind = KeyKind::from_number(number)
            .ok_or_else(|| IndexError::Damaged(format!("a name of the page in row {page} is of kind {number}")))?;
        let written = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let group = match self.groups.last() {
            Some(last) if last.folded.of(&self.text) == folded => last.folded,
            _ => self.begin_group(folded)?,
        };
        let written = if written == folded { group } else { Span::push(&mut self.text, written)? };
        self.names.push(PageName { page, written, kind });
        Ok(())
    }

    fn begin_group(&mut self, folded: &str) -> Result<Span, IndexError> {
        let Self { text, names, groups, by_folded, hasher, .. } = self;
        let number = u32::try_from(groups.len()).map_err(|_| too_much())?;
        let span = Span::push(text, folded)?;
        groups.push(Group { folded: span, first: names.len() });
        let hash_of = |group: &u32| hasher.hash_one(groups[*group as usize].folded.of(text));
        by_folded.insert_unique(hasher.hash_one(folded), number, hash_of);
        Ok(span)
    }

    /// Prepares the groups of many pages.
    pub(crate) fn prepare(&mut self, pages: AllPages<'_>) {
        let count = Place::try_from(self.groups.len()).unwrap_or(Place::MAX);
        for number in 0..count {
            let names = self.names_of(number);
            if names.len() <= FEW {
                continue;
            }
            let mut large = Vec::new();
            for name in names {
                if let Some(place) = pages.place(name.page) {
                    add_name(&mut large, (name.kind, name.written.of(&self.text)), pages.path(place).to_owned());
                }
            }
            self.large.insert(number, large);
        }
    }

    fn names_of(&self, group: u32) -> &[PageName] {
        let at = group as usize;
        let end = self.groups.get(at + 1).map_or(self.names.len(), |next| next.first);
        &self.names[self.groups[at].first..end]
    }

    fn group(&self, folded: &str) -> Option<u32> {
        let is_it = |group: &u32| self.groups[*group as usize].folded.of(&self.text) == folded;
        self.by_folded.find(self.hasher.hash_one(folded), is_it).copied()
    }

    /// The page that a link in `from` leads to.
    pub(crate) fn lead_to(&self, pages: AllPages<'_>, from: &str, wanted: &[Key]) -> Option<Place> {
        let (mut known, mut small, mut has_large) = (Vec::new(), Vec::new(), false);
        for (at, key) in wanted.iter().enumerate() {
            let is_repeated = wanted[..at].iter().any(|earlier| earlier.folded == key.folded);
            let Some(group) = self.group(&key.folded).filter(|_| !is_repeated) else { continue };
            if let Some(large) = self.large.get(&group) {
                has_large = true;
                known.extend(near(large, from));
                continue;
            }
            for name in self.names_of(group) {
                let Some(place) = pages.place(name.page) else { continue };
                small.push(place);
                known.push(Known { kind: name.kind, text: name.written.of(&self.text), path: pages.path(place) });
            }
        }
        let path = choose(from, wanted, known)?;
        let found = small.into_iter().find(|place| pages.path(*place) == path);
        found.or_else(|| pages.place_of_path(path).filter(|_| has_large))
    }
}
