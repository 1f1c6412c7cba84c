//! Bulk name resolution, for the target of every link.
//!
//! Invariant: the results are those of [`NameLookup`](super::NameLookup). All names share a few
//! allocations and are immutable after loading, so that several threads can use them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use rusqlite::{Connection, Row};
use svcfs_base::TreePath;
use svcfs_text::links::{KeyKind, KnownName, LinkKey, LinkResolution, choose_target};

use super::names::{LINEAR_SEARCH_LIMIT, Namesakes, add_name, near};
use crate::IndexError;
use crate::assets::{self, AssetRow};

/// Every name that a link may mean, in byte order.
const LINK_NAMES: &str = "SELECT folded FROM link_keys ORDER BY folded";
/// Every name of a page, in the same order.
const PAGE_NAMES: &str = "SELECT kind, text, page, folded FROM page_keys ORDER BY folded";

/// Index of a page, in row order.
pub(crate) type PageOrdinal = u32;

/// The target of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkTarget {
    Page(PageOrdinal),
    /// A file that is not a page.
    Asset,
}

/// The files that the names belong to.
#[derive(Clone, Copy)]
pub(crate) struct AllPages<'p> {
    /// The files that are not pages, by id.
    pub(crate) assets: &'p [AssetRow],
    /// Their row ids, sorted.
    pub(crate) ids: &'p [i64],
    pub(crate) paths: &'p [TreePath],
    /// Page ordinals, sorted by path.
    pub(crate) by_path: &'p [PageOrdinal],
}

impl<'p> AllPages<'p> {
    pub(crate) fn ordinal_of_id(self, id: i64) -> Option<PageOrdinal> {
        // Row ids are consecutive, with gaps where pages were removed.
        let guess = id.checked_sub(*self.ids.first()?).and_then(|guess| usize::try_from(guess).ok());
        let is_match = |guess: &usize| self.ids.get(*guess) == Some(&id);
        let ordinal = guess.filter(is_match).or_else(|| self.ids.binary_search(&id).ok())?;
        PageOrdinal::try_from(ordinal).ok()
    }

    fn path(self, ordinal: PageOrdinal) -> &'p str {
        self.paths[ordinal as usize].as_str()
    }

    /// The path of a page or asset.
    fn path_of_id(self, id: i64) -> Option<&'p str> {
        if id < 0 { assets::find(self.assets, id) } else { Some(self.path(self.ordinal_of_id(id)?)) }
    }

    fn target_of_id(self, id: i64) -> Option<LinkTarget> {
        if id < 0 { Some(LinkTarget::Asset) } else { self.ordinal_of_id(id).map(LinkTarget::Page) }
    }

    fn ordinal_of_path(self, path: &str) -> Option<PageOrdinal> {
        let index = self.by_path.binary_search_by(|ordinal| self.path(*ordinal).cmp(path)).ok()?;
        Some(self.by_path[index])
    }
}

pub(crate) struct AllNames {
    resolution: LinkResolution,
    /// The texts of all names, concatenated.
    text: String,
    names: Vec<PageName>,
    groups: HashTable<NameGroup>,
    hasher: RandomState,
    /// Groups with many names, by index of their first name, prepared for nearest-page lookup.
    large: HashMap<u32, Vec<Namesakes>>,
}

/// Names that are equal when folded.
#[derive(Clone, Copy)]
struct NameGroup {
    folded: TextSpan,
    /// Index of the first name, and number of names.
    first: u32,
    count: u32,
}

struct PageName {
    page: i64,
    written: TextSpan,
    kind: KeyKind,
}

#[derive(Clone, Copy)]
struct TextSpan {
    start: usize,
    length: u32,
}

impl TextSpan {
    fn of(self, text: &str) -> &str {
        &text[self.start..self.start + self.length as usize]
    }

    fn push(text: &mut String, part: &str) -> Result<Self, IndexError> {
        let length = u32::try_from(part.len()).map_err(|_| too_large())?;
        let start = text.len();
        text.push_str(part);
        Ok(Self { start, length })
    }
}

/// Not reachable: SQLite's own limits are lower.
fn too_large() -> IndexError {
    IndexError::Damaged("names are longer, or more, than an index can hold".to_owned())
}

/// Loads [`AllNames`], group by group.
#[derive(Default)]
struct NameLoader {
    text: String,
    names: Vec<PageName>,
    groups: Vec<NameGroup>,
}

impl NameLoader {
    fn add(&mut self, row: &Row<'_>, folded: &str) -> Result<(), IndexError> {
        let (page, number): (i64, u8) = (row.get(2)?, row.get(0)?);
        let kind = KeyKind::from_number(number)
            .ok_or_else(|| IndexError::Damaged(format!("a name of the page in row {page} is of kind {number}")))?;
        let written = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let group = match self.groups.last_mut() {
            Some(last) if last.folded.of(&self.text) == folded => {
                last.count += 1;
                last.folded
            }
            _ => {
                let first = u32::try_from(self.names.len()).map_err(|_| too_large())?;
                let folded = TextSpan::push(&mut self.text, folded)?;
                self.groups.push(NameGroup { folded, first, count: 1 });
                folded
            }
        };
        let written = if written == folded { group } else { TextSpan::push(&mut self.text, written)? };
        self.names.push(PageName { page, written, kind });
        Ok(())
    }

    fn finish(self, resolution: LinkResolution) -> AllNames {
        let Self { text, names, groups: read } = self;
        let hasher = RandomState::new();
        let mut groups = HashTable::with_capacity(read.len());
        let hash_of = |group: &NameGroup| hasher.hash_one(group.folded.of(&text));
        for group in read {
            groups.insert_unique(hash_of(&group), group, hash_of);
        }
        AllNames { resolution, text, names, groups, hasher, large: HashMap::new() }
    }
}

impl AllNames {
    /// Reads the names that links use.
    ///
    /// This is a merge join of two sorted lists: looking up each name takes several times as long.
    pub(crate) fn read(connection: &Connection, resolution: LinkResolution) -> Result<Self, IndexError> {
        let mut loader = NameLoader::default();
        let (mut wanted, mut keys) = (connection.prepare_cached(LINK_NAMES)?, connection.prepare_cached(PAGE_NAMES)?);
        let (mut wanted, mut rows) = (wanted.query([])?, keys.query([])?);
        let mut key = wanted.next()?;
        while let Some(row) = rows.next()? {
            let folded = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
            let is_used = loop {
                let Some(next) = key else { return Ok(loader.finish(resolution)) };
                match next.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?.cmp(folded) {
                    std::cmp::Ordering::Less => key = wanted.next()?,
                    order => break order.is_eq(),
                }
            };
            if is_used {
                loader.add(row, folded)?;
            }
        }
        Ok(loader.finish(resolution))
    }

    /// Prepares the groups with many files.
    pub(crate) fn prepare(&mut self, pages: AllPages<'_>) {
        let large = self.groups.iter().filter(|group| group.count as usize > LINEAR_SEARCH_LIMIT).map(|group| {
            let mut namesakes = Vec::new();
            for name in self.names_of(*group) {
                if let Some(path) = pages.path_of_id(name.page) {
                    let written = name.written.of(&self.text);
                    add_name((&mut namesakes, self.resolution), (name.kind, written), path.to_owned());
                }
            }
            (group.first, namesakes)
        });
        self.large = large.collect();
    }

    fn names_of(&self, group: NameGroup) -> &[PageName] {
        let first = group.first as usize;
        &self.names[first..first + group.count as usize]
    }

    /// The distinct groups of the names that a link may mean.
    fn groups<'a>(&'a self, wanted: &'a [LinkKey]) -> impl Iterator<Item = NameGroup> + 'a {
        wanted.iter().enumerate().filter_map(|(at, key)| {
            let is_repeated = wanted[..at].iter().any(|earlier| earlier.folded == key.folded);
            if is_repeated {
                return None;
            }
            let is_match = |group: &NameGroup| group.folded.of(&self.text) == key.folded;
            self.groups.find(self.hasher.hash_one(key.folded.as_str()), is_match).copied()
        })
    }

    pub(crate) fn resolve(&self, pages: AllPages<'_>, from: &str, wanted: &[LinkKey]) -> Option<LinkTarget> {
        let mut groups = self.groups(wanted);
        let first = groups.next()?;
        let second = groups.next();
        if let ([name], None) = (self.names_of(first), second) {
            // The common case of a unique name: the location of the page does not matter.
            let text = name.written.of(&self.text);
            if wanted.iter().any(|key| key.kind == name.kind && key.text == text) {
                return pages.target_of_id(name.page);
            }
        }
        let mut candidates = Vec::new();
        for group in [first].into_iter().chain(second).chain(groups) {
            if let Some(large) = self.large.get(&group.first) {
                candidates.extend(near(large, from));
                continue;
            }
            candidates.extend(self.names_of(group).iter().filter_map(|name| {
                let path = pages.path_of_id(name.page)?;
                Some(KnownName { kind: name.kind, text: name.written.of(&self.text), path })
            }));
        }
        let path = choose_target(self.resolution, from, wanted, candidates)?;
        Some(pages.ordinal_of_path(path).map_or(LinkTarget::Asset, LinkTarget::Page))
    }
}
