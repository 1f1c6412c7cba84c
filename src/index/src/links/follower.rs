//! Resolves many links before and after a rename.

use std::collections::BTreeSet;

use svcfs_base::TreePath;
use svcfs_text::Link;
use svcfs_text::fold::fold_name;
use svcfs_text::links::{KeyKind, KnownName, LinkKey, LinkKind, candidates, page_keys};

use super::NameLookup;
use super::names::name_kind;
use crate::pages::{range_below, tree_path};
use crate::{Index, IndexError};

/// The aliases and titles of the pages at or below a path.
const NAMES_OF_TEXT: &str = "
    SELECT pages.path, page_keys.kind, page_keys.text FROM pages JOIN page_keys ON page_keys.page = pages.id
    WHERE (pages.path = ?1 OR (pages.path > ?2 AND pages.path < ?3)) AND page_keys.kind IN (?4, ?5)";

/// The pages and canvases at or below a path that have links.
const LINKING_BELOW: &str = "
    SELECT pages.path FROM pages WHERE (pages.path = ?1 OR (pages.path > ?2 AND pages.path < ?3))
    AND EXISTS (SELECT 1 FROM links WHERE links.page = pages.id)
    UNION ALL
    SELECT assets.path FROM assets WHERE (assets.path = ?1 OR (assets.path > ?2 AND assets.path < ?3))
    AND EXISTS (SELECT 1 FROM links WHERE links.page = assets.id)";

/// The pages and canvases with a link that may mean a name.
const LINKING: &str = "
    SELECT DISTINCT coalesce(pages.path, assets.path) FROM link_keys LEFT JOIN pages ON pages.id = link_keys.page
    LEFT JOIN assets ON assets.id = link_keys.page WHERE link_keys.folded = ?1";

/// Resolves links in one snapshot of the index, with a name cache.
pub struct LinkFollower<'c> {
    current: NameLookup<'c>,
    without: NameLookup<'c>,
}

impl Index {
    /// Runs `read` with a resolver for links as they are now, and as if the file `excluded`, or
    /// every file below that directory, did not exist.
    ///
    /// # Errors
    /// The errors of `read`; [`IndexError::Database`].
    pub fn with_link_follower<T>(
        &self,
        excluded: &TreePath,
        read: impl FnOnce(&mut LinkFollower<'_>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.readers.read(|connection| {
            read(&mut LinkFollower {
                current: self.names(connection),
                without: NameLookup::without(connection, self.link_resolution, excluded),
            })
        })
    }
}

impl LinkFollower<'_> {
    /// The target of a link in the page `from`: a page or another indexed file.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn resolve(&mut self, from: &TreePath, link: &Link) -> Result<Option<TreePath>, IndexError> {
        let wanted = candidates(from.as_str(), link.kind, &link.target);
        self.current.resolve(from.as_str(), &wanted)?.map(tree_path).transpose()
    }

    /// The target of `[[target]]` in the page `from`, without the excluded pages and with
    /// additional names.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn resolve_excluding<'n>(
        &'n mut self,
        from: &TreePath,
        target: &str,
        additional: impl Iterator<Item = KnownName<'n>>,
    ) -> Result<Option<TreePath>, IndexError> {
        let wanted = candidates(from.as_str(), LinkKind::Wiki, target);
        self.without.resolve_with(from.as_str(), &wanted, additional)?.map(tree_path).transpose()
    }

    /// The titles and aliases of the pages at or below a path.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn titles_and_aliases(&self, below: &TreePath) -> Result<Vec<(TreePath, LinkKey)>, IndexError> {
        let (from, to) = range_below(below);
        let kinds = (KeyKind::Alias as u8, KeyKind::Title as u8);
        let mut statement = self.current.connection().prepare_cached(NAMES_OF_TEXT)?;
        let mut rows = statement.query((below.as_str(), from, to, kinds.0, kinds.1))?;
        let mut names = Vec::new();
        while let Some(row) = rows.next()? {
            let (path, text): (String, String) = (row.get(0)?, row.get(2)?);
            let kind = name_kind(row.get(1)?, &path)?;
            let folded = fold_name(&text).into_owned();
            names.push((tree_path(&path)?, LinkKey { kind, text, folded }));
        }
        Ok(names)
    }

    /// The pages and canvases whose links a move of these files may affect, in path order: those
    /// with a link that may mean one of the files, and moved ones that have links.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn affected_pages(&self, below: &TreePath, files: &[TreePath]) -> Result<BTreeSet<TreePath>, IndexError> {
        let connection = self.current.connection();
        let of_path = files.iter().flat_map(|file| page_keys(file.as_str(), None, &[]));
        let of_text = self.titles_and_aliases(below)?.into_iter().map(|(_, key)| key);
        let names: BTreeSet<String> = of_path.chain(of_text).map(|key| key.folded).collect();
        let mut pages = BTreeSet::new();
        let mut statement = connection.prepare_cached(LINKING)?;
        for name in names {
            for source in statement.query_map([name], |row| row.get::<_, String>(0))? {
                pages.insert(tree_path(&source?)?);
            }
        }
        let (from, to) = range_below(below);
        let mut statement = connection.prepare_cached(LINKING_BELOW)?;
        for page in statement.query_map((below.as_str(), from, to), |row| row.get::<_, String>(0))? {
            pages.insert(tree_path(&page?)?);
        }
        Ok(pages)
    }
}
