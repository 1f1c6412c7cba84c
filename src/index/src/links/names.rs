//! The names that pages answer to, brought together with the names a link may mean.
//!
//! `svcfs_text::links::choose` decides; here it is only kept from looking at ten thousand `index.md` for each of ten thousand
//! links. Of the pages that share one name, a folder has exactly one that is nearest, and it is found by walking up from there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::Connection;
use svcfs_base::TreePath;
use svcfs_text::links::{KeyKind, KnownName, LinkKey, choose_target};

use crate::IndexError;

/// Pages of one name up to which looking at each is no more work than looking for the nearest.
pub(super) const FEW: usize = 8;

/// The pages that answer to a name.
pub(super) const NAMES: &str = "
    SELECT page_keys.kind, page_keys.text, pages.path FROM page_keys JOIN pages ON pages.id = page_keys.page
    WHERE page_keys.folded = ?1";

/// The names that pages answer to, read as they are needed and kept for one question.
pub(crate) struct NameLookup<'c> {
    connection: &'c Connection,
    known: HashMap<String, Vec<Namesakes>>,
    /// Pages to be taken as absent: this one, or all below it.
    gone: Option<&'c TreePath>,
}

/// The pages that answer to one name, spelt one way.
pub(super) struct Namesakes {
    kind: KeyKind,
    text: String,
    pages: NamedPages,
}

enum NamedPages {
    Few(Vec<String>),
    /// For each folder with such pages in it, however deep: the one with the fewest folders, then the first in the alphabet.
    FirstBelow(HashMap<String, (usize, String)>),
}

impl<'c> NameLookup<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, known: HashMap::new(), gone: None }
    }

    /// The names as they would be if a page, or every page below a directory, were not there.
    pub(super) fn without(connection: &'c Connection, gone: &'c TreePath) -> Self {
        Self { gone: Some(gone), ..Self::new(connection) }
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// The page that a link in `from` leads to.
    pub(crate) fn lead_to(&mut self, from: &str, wanted: &[LinkKey]) -> Result<Option<&str>, IndexError> {
        self.lead_to_one_of(from, wanted, std::iter::empty())
    }

    /// The same were there these names, too.
    pub(super) fn lead_to_one_of<'n>(
        &'n mut self,
        from: &str,
        wanted: &[LinkKey],
        more: impl Iterator<Item = KnownName<'n>>,
    ) -> Result<Option<&'n str>, IndexError> {
        for key in wanted {
            if !self.known.contains_key(&key.folded) {
                let read = self.read(&key.folded)?;
                self.known.insert(key.folded.clone(), read);
            }
        }
        let mut folded: Vec<&str> = wanted.iter().map(|key| key.folded.as_str()).collect();
        folded.sort_unstable();
        folded.dedup();
        let nearest = folded.iter().filter_map(|folded| self.known.get(*folded)).flat_map(|names| near(names, from));
        Ok(choose_target(from, wanted, nearest.chain(more)))
    }

    fn read(&self, folded: &str) -> Result<Vec<Namesakes>, IndexError> {
        let mut statement = self.connection.prepare_cached(NAMES)?;
        let mut rows = statement.query([folded])?;
        let mut all: Vec<Namesakes> = Vec::new();
        while let Some(row) = rows.next()? {
            let path: String = row.get(2)?;
            if !self.gone.is_some_and(|gone| is_at_or_below(&path, gone.as_str())) {
                add(&mut all, row, path)?;
            }
        }
        Ok(all)
    }
}

fn add(of_name: &mut Vec<Namesakes>, row: &rusqlite::Row<'_>, path: String) -> Result<(), IndexError> {
    let kind = kind_of_name(row.get(0)?, &path)?;
    let text = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    add_name(of_name, (kind, text), path);
    Ok(())
}

/// Adds a kind and text, and the page that has this name, to the others of the name. A name is spelt in few ways, so looking for the right
/// one is no work.
pub(super) fn add_name(of_name: &mut Vec<Namesakes>, (kind, text): (KeyKind, &str), path: String) {
    match of_name.iter_mut().find(|names| names.kind == kind && names.text == text) {
        Some(names) => names.pages.add(path),
        None => of_name.push(Namesakes { kind, text: text.to_owned(), pages: NamedPages::Few(vec![path]) }),
    }
}

/// The pages of a name that may be meant from a place.
pub(super) fn near<'n, 'f>(
    of_name: &'n [Namesakes],
    from: &'f str,
) -> impl Iterator<Item = KnownName<'n>> + use<'n, 'f> {
    of_name.iter().flat_map(move |names| {
        names.pages.near(from).map(|path| KnownName { kind: names.kind, text: &names.text, path })
    })
}

/// The kind of a name of a page, as a row has it.
pub(super) fn kind_of_name(number: u8, page: &str) -> Result<KeyKind, IndexError> {
    KeyKind::from_number(number).ok_or_else(|| IndexError::Damaged(format!("a name of `{page}` is of kind {number}")))
}

fn is_at_or_below(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl NamedPages {
    fn add(&mut self, path: String) {
        match self {
            Self::Few(pages) if pages.len() < FEW => pages.push(path),
            Self::Few(pages) => {
                let mut first_below = HashMap::new();
                for path in pages.drain(..).chain([path]) {
                    add_below(&mut first_below, path);
                }
                *self = Self::FirstBelow(first_below);
            }
            Self::FirstBelow(first_below) => add_below(first_below, path),
        }
    }

    /// The pages that may be meant from a place: all of few, and of many the nearest.
    fn near(&self, from: &str) -> impl Iterator<Item = &str> {
        let (few, nearest) = match self {
            Self::Few(pages) => (pages.as_slice(), None),
            Self::FirstBelow(first_below) => (&[][..], nearest(first_below, from)),
        };
        few.iter().map(String::as_str).chain(nearest)
    }
}

fn add_below(first_below: &mut HashMap<String, (usize, String)>, path: String) {
    let folders = path.matches('/').count();
    for folder in folders_above(&path) {
        match first_below.entry(folder.to_owned()) {
            Entry::Vacant(vacant) => {
                vacant.insert((folders, path.clone()));
            }
            Entry::Occupied(mut known) => {
                let (least, first) = known.get();
                if (folders, path.as_str()) < (*least, first.as_str()) {
                    known.insert((folders, path.clone()));
                }
            }
        }
    }
}

/// The page nearest to the folder of `from`: below it, else below the folder above, and so on.
fn nearest<'n>(first_below: &'n HashMap<String, (usize, String)>, from: &str) -> Option<&'n str> {
    folders_above(from).find_map(|folder| first_below.get(folder).map(|(_, path)| path.as_str()))
}

/// The folders a path lies in, nearest first, the root (empty) last.
fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    let parent = |path: &str| path.rfind('/').unwrap_or_default();
    std::iter::successors(Some(&path[..parent(path)]), move |folder| {
        (!folder.is_empty()).then(|| &folder[..parent(folder)])
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use svcfs_text::links::{LinkKind, candidates, page_keys};

    use super::*;
    use crate::tests::Space;

    #[test]
    fn the_folders_of_a_path_end_at_the_root() {
        assert_eq!(folders_above("a/b/c.md").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(folders_above("c.md").collect::<Vec<_>>(), [""]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_nearest_alone_decide_as_all_of_them_would(
            paths in prop::collection::btree_set("([abA]/){0,4}[xXy]\\.md", 1..40),
            from in "([abA]/){0,4}z\\.md",
            target in "([abA]/){0,2}[xXy]",
        ) {
            let pages: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "# X\n")).collect();
            let space = Space::of(&pages);
            let wanted = candidates(&from, LinkKind::Wiki, &target);
            let keys: Vec<_> = paths.iter().map(|path| (path, page_keys(path, Some("X"), &[]))).collect();
            let known = keys.iter().flat_map(|(path, keys)| {
                keys.iter().map(|key| KnownName { kind: key.kind, text: &key.text, path })
            });
            let chosen = choose_target(&from, &wanted, known);
            let found = space
                .index
                .readers
                .read(|connection| Ok(NameLookup::new(connection).lead_to(&from, &wanted)?.map(str::to_owned)))
                .unwrap();
            prop_assert_eq!(found.as_deref(), chosen);

            // Names that a link asks for are those of a page in the tree.
            space.put(&[(&from, &format!("[[{target}]]"))]);
            let graph = space.index.graph().unwrap();
            let node = graph.node(&TreePath::parse(&from).unwrap()).unwrap();
            let linked: Vec<_> = graph.links_out(node).iter().map(|to| graph.page(*to).path.as_str()).collect();
            prop_assert_eq!(linked, chosen.into_iter().collect::<Vec<_>>());
        }
    }
}
