//! Resolves the names in links to pages and other files.
//!
//! `svcfs_text::links::choose_target` decides. This module avoids comparing ten thousand `index.md`
//! for each of ten thousand links: among files of one name, each folder has exactly one nearest
//! file, which is found by walking up from the folder.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::Connection;
use svcfs_base::TreePath;
use svcfs_text::links::{KeyKind, KnownName, LinkKey, LinkResolution, choose_target};

use crate::IndexError;

/// Up to this many pages of one name, comparing all is as fast as finding the nearest.
pub(super) const LINEAR_SEARCH_LIMIT: usize = 8;

pub(super) const PAGES_WITH_NAME: &str = "
    SELECT page_keys.kind, page_keys.text, coalesce(pages.path, assets.path) FROM page_keys
    LEFT JOIN pages ON pages.id = page_keys.page LEFT JOIN assets ON assets.id = page_keys.page
    WHERE page_keys.folded = ?1";

/// Page names, read on demand and cached for one query.
pub(crate) struct NameLookup<'c> {
    connection: &'c Connection,
    resolution: LinkResolution,
    cache: HashMap<String, Vec<Namesakes>>,
    /// A page, or a directory with all pages below it, to treat as absent.
    excluded: Option<&'c TreePath>,
}

/// The pages with one name in one spelling.
pub(super) struct Namesakes {
    kind: KeyKind,
    text: String,
    pages: NamedPages,
}

enum NamedPages {
    Few(Vec<String>),
    NearestByFolder(NearestFiles),
}

/// For each ancestor folder of files of one name: the one with the fewest folders, then the first
/// by [`LinkResolution`]; at [`SHORTEST`] the one with the shortest path.
type NearestFiles = HashMap<String, (FileRank, String)>;

/// Number of folders, and length of the path if that decides.
type FileRank = (usize, usize);

/// No folder has this name.
const SHORTEST: &str = "/";

impl<'c> NameLookup<'c> {
    pub(crate) fn new(connection: &'c Connection, resolution: LinkResolution) -> Self {
        Self { connection, resolution, cache: HashMap::new(), excluded: None }
    }

    /// The names as if a page, or every page below a directory, did not exist.
    pub(super) fn without(connection: &'c Connection, resolution: LinkResolution, excluded: &'c TreePath) -> Self {
        Self { excluded: Some(excluded), ..Self::new(connection, resolution) }
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    pub(crate) fn resolve(&mut self, from: &str, wanted: &[LinkKey]) -> Result<Option<&str>, IndexError> {
        self.resolve_with(from, wanted, std::iter::empty())
    }

    /// As [`NameLookup::resolve`], with additional names.
    pub(super) fn resolve_with<'n>(
        &'n mut self,
        from: &str,
        wanted: &[LinkKey],
        additional: impl Iterator<Item = KnownName<'n>>,
    ) -> Result<Option<&'n str>, IndexError> {
        for key in wanted {
            if !self.cache.contains_key(&key.folded) {
                let read = self.read(&key.folded)?;
                self.cache.insert(key.folded.clone(), read);
            }
        }
        let mut folded: Vec<&str> = wanted.iter().map(|key| key.folded.as_str()).collect();
        folded.sort_unstable();
        folded.dedup();
        let nearest = folded.iter().filter_map(|folded| self.cache.get(*folded)).flat_map(|names| near(names, from));
        Ok(choose_target(self.resolution, from, wanted, nearest.chain(additional)))
    }

    fn read(&self, folded: &str) -> Result<Vec<Namesakes>, IndexError> {
        let mut statement = self.connection.prepare_cached(PAGES_WITH_NAME)?;
        let mut rows = statement.query([folded])?;
        let mut all: Vec<Namesakes> = Vec::new();
        while let Some(row) = rows.next()? {
            let path: String = row.get(2)?;
            if !self.excluded.is_some_and(|excluded| is_at_or_below(&path, excluded.as_str())) {
                add((&mut all, self.resolution), row, path)?;
            }
        }
        Ok(all)
    }
}

fn add(
    (namesakes, resolution): (&mut Vec<Namesakes>, LinkResolution),
    row: &rusqlite::Row<'_>,
    path: String,
) -> Result<(), IndexError> {
    let kind = name_kind(row.get(0)?, &path)?;
    let text = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    add_name((namesakes, resolution), (kind, text), path);
    Ok(())
}

/// Adds a page to the spellings of a name. A name has few spellings, so a linear search is fast.
pub(super) fn add_name(
    (namesakes, resolution): (&mut Vec<Namesakes>, LinkResolution),
    (kind, text): (KeyKind, &str),
    path: String,
) {
    match namesakes.iter_mut().find(|names| names.kind == kind && names.text == text) {
        Some(names) => names.pages.add(path, resolution),
        None => namesakes.push(Namesakes { kind, text: text.to_owned(), pages: NamedPages::Few(vec![path]) }),
    }
}

/// The pages of a name that a link in `from` may mean.
pub(super) fn near<'n, 'f>(
    namesakes: &'n [Namesakes],
    from: &'f str,
) -> impl Iterator<Item = KnownName<'n>> + use<'n, 'f> {
    namesakes.iter().flat_map(move |names| {
        names.pages.near(from).map(|path| KnownName { kind: names.kind, text: &names.text, path })
    })
}

pub(super) fn name_kind(number: u8, page: &str) -> Result<KeyKind, IndexError> {
    KeyKind::from_number(number).ok_or_else(|| IndexError::Damaged(format!("a name of `{page}` is of kind {number}")))
}

fn is_at_or_below(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl NamedPages {
    fn add(&mut self, path: String, resolution: LinkResolution) {
        match self {
            Self::Few(pages) if pages.len() < LINEAR_SEARCH_LIMIT => pages.push(path),
            Self::Few(pages) => {
                let mut nearest_by_folder = HashMap::new();
                for path in pages.drain(..).chain([path]) {
                    add_to_folders(&mut nearest_by_folder, path, resolution);
                }
                *self = Self::NearestByFolder(nearest_by_folder);
            }
            Self::NearestByFolder(nearest_by_folder) => add_to_folders(nearest_by_folder, path, resolution),
        }
    }

    /// The files that a link in `from` may mean: all of few, the nearest and the shortest of many.
    fn near(&self, from: &str) -> impl Iterator<Item = &str> {
        let (few, many) = match self {
            Self::Few(pages) => (pages.as_slice(), [None; 2]),
            Self::NearestByFolder(files) => {
                (&[][..], [nearest(files, from), files.get(SHORTEST).map(|(_, path)| path.as_str())])
            }
        };
        few.iter().map(String::as_str).chain(many.into_iter().flatten())
    }
}

fn add_to_folders(nearest_by_folder: &mut NearestFiles, path: String, resolution: LinkResolution) {
    let folders = path.matches('/').count();
    let length = match resolution {
        LinkResolution::Nearest => 0,
        LinkResolution::Shortest => path.chars().count(),
    };
    let mut add = |folder: &str, rank: FileRank| match nearest_by_folder.entry(folder.to_owned()) {
        Entry::Vacant(vacant) => {
            vacant.insert((rank, path.clone()));
        }
        Entry::Occupied(mut entry) => {
            let (least, first) = entry.get();
            if (rank, path.as_str()) < (*least, first.as_str()) {
                entry.insert((rank, path.clone()));
            }
        }
    };
    ancestor_folders(&path).for_each(|folder| add(folder, (folders, length)));
    if resolution == LinkResolution::Shortest {
        add(SHORTEST, (0, length));
    }
}

/// The file nearest to the folder of `from`: below it, else below its parent, and so on.
fn nearest<'n>(nearest_by_folder: &'n NearestFiles, from: &str) -> Option<&'n str> {
    ancestor_folders(from).find_map(|folder| nearest_by_folder.get(folder).map(|(_, path)| path.as_str()))
}

/// The ancestor folders of a path, nearest first, the root (empty) last.
fn ancestor_folders(path: &str) -> impl Iterator<Item = &str> {
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
    use crate::IndexEntry;
    use crate::tests::{Space, page};

    #[test]
    fn the_folders_of_a_path_end_at_the_root() {
        assert_eq!(ancestor_folders("a/b/c.md").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(ancestor_folders("c.md").collect::<Vec<_>>(), [""]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_nearest_alone_decide_as_all_of_them_would(
            paths in prop::collection::btree_set("([abA]/){0,4}[xXy]\\.(md|png)", 1..40),
            from in "([abA]/){0,4}z\\.md",
            target in "([abA]/){0,2}[xXy](\\.png)?",
            is_shortest: bool,
        ) {
            let resolution = if is_shortest { LinkResolution::Shortest } else { LinkResolution::Nearest };
            let entries: Vec<_> = paths.iter().map(|path| entry(path)).collect();
            let space = Space::new().with_link_resolution(resolution);
            space.put_entries(&entries);
            let wanted = candidates(&from, LinkKind::Wiki, &target);
            let title = |path: &str| path.ends_with(".md").then_some("X");
            let keys: Vec<_> = paths.iter().map(|path| (path, page_keys(path, title(path), &[]))).collect();
            let cache = keys.iter().flat_map(|(path, keys)| {
                keys.iter().map(|key| KnownName { kind: key.kind, text: &key.text, path })
            });
            let chosen = choose_target(resolution, &from, &wanted, cache);
            let found = space
                .index
                .readers
                .read(|connection| {
                    Ok(NameLookup::new(connection, resolution).resolve(&from, &wanted)?.map(str::to_owned))
                })
                .unwrap();
            prop_assert_eq!(found.as_deref(), chosen);

            // Names that a link asks for are those of a page in the tree.
            space.put(&[(&from, &format!("[[{target}]]"))]);
            let graph = space.index.graph().unwrap();
            let node = graph.node(&TreePath::parse(&from).unwrap()).unwrap();
            let linked: Vec<_> = graph.links_out(node).iter().map(|to| graph.page(*to).path.as_str()).collect();
            let linked_page = chosen.filter(|path| path.ends_with(".md"));
            prop_assert_eq!(linked, linked_page.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(graph.page(node).facts.unresolved_links.is_empty(), chosen.is_some());
        }
    }

    fn entry(path: &str) -> IndexEntry {
        if path.ends_with(".md") { page(path, "# X\n") } else { IndexEntry::Asset(TreePath::parse(path).unwrap()) }
    }
}
