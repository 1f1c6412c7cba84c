//! The names that pages answer to, brought together with the names a link may mean.
//!
//! `svcfs_text::links::choose` decides; here it is only kept from looking at ten thousand `index.md` for each of ten thousand
//! links. Of the pages that share one name, a folder has exactly one that is nearest, and it is found by walking up from there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::Connection;
use svcfs_base::TreePath;
use svcfs_text::links::{Key, KeyKind, Known, choose};

use crate::IndexError;

/// The pages that answer to a name.
pub(super) const NAMES: &str = "
    SELECT page_keys.kind, page_keys.text, pages.path FROM page_keys JOIN pages ON pages.id = page_keys.page
    WHERE page_keys.folded = ?1";

/// The names that pages answer to, read as they are needed and kept for one question.
pub(super) struct Names<'c> {
    connection: &'c Connection,
    known: HashMap<String, Vec<Namesakes>>,
    /// A page to be taken as absent.
    gone: Option<&'c str>,
}

/// The pages that answer to one name, spelt one way.
struct Namesakes {
    kind: KeyKind,
    text: String,
    /// For each folder with such pages in it, however deep: the one with the fewest folders, then the first in the alphabet.
    first_below: HashMap<String, (usize, String)>,
}

impl<'c> Names<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, known: HashMap::new(), gone: None }
    }

    /// The names as they would be if a page were not there.
    pub(super) fn without(connection: &'c Connection, gone: &'c TreePath) -> Self {
        Self { gone: Some(gone.as_str()), ..Self::new(connection) }
    }

    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// The page that a link in `from` leads to.
    pub(super) fn lead_to(&mut self, from: &str, wanted: &[Key]) -> Result<Option<String>, IndexError> {
        for key in wanted {
            if !self.known.contains_key(&key.folded) {
                let read = self.read(&key.folded)?;
                self.known.insert(key.folded.clone(), read);
            }
        }
        let mut folded: Vec<&str> = wanted.iter().map(|key| key.folded.as_str()).collect();
        folded.sort_unstable();
        folded.dedup();
        let namesakes = folded.iter().filter_map(|folded| self.known.get(*folded)).flatten();
        let nearest = namesakes
            .filter_map(|names| Some(Known { kind: names.kind, text: &names.text, path: names.nearest(from)? }));
        Ok(choose(from, wanted, nearest).map(str::to_owned))
    }

    fn read(&self, folded: &str) -> Result<Vec<Namesakes>, IndexError> {
        let mut statement = self.connection.prepare_cached(NAMES)?;
        let mut rows = statement.query([folded])?;
        let mut all: Vec<Namesakes> = Vec::new();
        let mut places = HashMap::new();
        while let Some(row) = rows.next()? {
            let path: String = row.get(2)?;
            if self.gone == Some(path.as_str()) {
                continue;
            }
            let number: u8 = row.get(0)?;
            let kind = KeyKind::from_number(number)
                .ok_or_else(|| IndexError::Damaged(format!("name `{folded}` is of kind {number}")))?;
            let text: String = row.get(1)?;
            let place = *places.entry((kind, text.clone())).or_insert_with(|| {
                all.push(Namesakes { kind, text, first_below: HashMap::new() });
                all.len() - 1
            });
            all[place].add(path);
        }
        Ok(all)
    }
}

impl Namesakes {
    fn add(&mut self, path: String) {
        let folders = path.matches('/').count();
        for folder in folders_above(&path) {
            match self.first_below.entry(folder.to_owned()) {
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
    fn nearest(&self, from: &str) -> Option<&str> {
        folders_above(from).find_map(|folder| self.first_below.get(folder).map(|(_, path)| path.as_str()))
    }
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
    use svcfs_text::links::{LinkKind, candidates, keys_of};

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
            paths in prop::collection::btree_set("([abA]/){0,4}[xXy]\\.md", 1..20),
            from in "([abA]/){0,4}z\\.md",
            target in "([abA]/){0,2}[xXy]",
        ) {
            let pages: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "# X\n")).collect();
            let space = Space::of(&pages);
            let wanted = candidates(&from, LinkKind::Wiki, &target);
            let keys: Vec<_> = paths.iter().map(|path| (path, keys_of(path, Some("X"), &[]))).collect();
            let known = keys.iter().flat_map(|(path, keys)| {
                keys.iter().map(|key| Known { kind: key.kind, text: &key.text, path })
            });
            let found = space
                .index
                .readers
                .read(|connection| Names::new(connection).lead_to(&from, &wanted))
                .unwrap();
            prop_assert_eq!(found.as_deref(), choose(&from, &wanted, known));
        }
    }
}
