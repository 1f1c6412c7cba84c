//! Links between pages and to other files (GET /backlinks).
//!
//! Invariant: the target of a link is never stored. One row has the names a link may mean, another
//! the names of a file; they are joined when a query reads them. So a file that is created, removed
//! or renamed changes the targets of other pages' links without a write to their rows.

mod all_names;
mod backlink_cache;
mod follower;
mod names;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};
use svcfs_base::TreePath;
use svcfs_text::fold::fold_name;
use svcfs_text::links::{KeyKind, LinkKind, candidates};

use crate::pages::tree_path;
use crate::{Index, IndexError};
pub(crate) use all_names::{AllNames, AllPages, LinkTarget, PageOrdinal};
pub(crate) use backlink_cache::{BacklinkCache, PageBacklinks};
pub use follower::LinkFollower;
pub(crate) use names::NameLookup;

/// A page or canvas that links to the queried page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlink {
    /// The page with the link.
    pub path: TreePath,
    /// Its title; the file name of a canvas.
    pub title: String,
    /// The line of its first link, as written; a line over 240 characters is cut around the link.
    /// For a node of a canvas that shows the file, its path.
    pub context: String,
}

/// A link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutLink {
    /// Whether it is written with double brackets, so that it means a page by name.
    pub is_wiki: bool,
    /// The target as written, without heading and label.
    pub target: String,
    /// The heading after `#`, if any.
    pub heading: Option<String>,
    /// The target, a page or another indexed file; `None` for a broken link.
    pub resolved_path: Option<TreePath>,
}

/// The target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedLink {
    /// Path of the page or of another file.
    pub path: TreePath,
    /// The title of the page, or the name of the file.
    pub title: String,
}

/// The link kind for the text crate, which only distinguishes wiki links from all others.
pub(crate) const fn link_kind(is_wiki: bool) -> LinkKind {
    if is_wiki { LinkKind::Wiki } else { LinkKind::Markdown }
}

/// Limit of cached backlinks with title and context; only the paths of further ones are cached.
const MAX_ENTRIES: usize = 10_000;

/// Links that may mean a file by one of its names, with their pages.
const BACKLINKS: &str = "
    SELECT coalesce(source.path, canvas.path) AS from_path, links.position,
        coalesce(source.title, substr(canvas.path, length(rtrim(canvas.path, replace(canvas.path, '/', ''))) + 1)),
        links.is_wiki, links.target, links.context
    FROM (
        SELECT DISTINCT link_keys.page AS page, link_keys.position AS position
        FROM (SELECT id FROM pages WHERE path = ?1 UNION ALL SELECT id FROM assets WHERE path = ?1) AS target
        CROSS JOIN page_keys ON page_keys.page = target.id
        CROSS JOIN link_keys ON link_keys.folded = page_keys.folded
        WHERE link_keys.page <> target.id
    ) AS meant
    CROSS JOIN links ON links.page = meant.page AND links.position = meant.position
    LEFT JOIN pages AS source ON source.id = meant.page
    LEFT JOIN assets AS canvas ON canvas.id = meant.page
    ORDER BY from_path, links.position";

const LINKS_OUT: &str = "
    SELECT links.is_wiki, links.target, links.heading FROM links
    WHERE links.page = coalesce((SELECT id FROM pages WHERE path = ?1), (SELECT id FROM assets WHERE path = ?1))
    ORDER BY links.position";

/// The pages with a link that may mean a name.
pub(crate) const SOURCES: &str = "
    SELECT DISTINCT pages.path FROM link_keys JOIN pages ON pages.id = link_keys.page WHERE link_keys.folded = ?1";

impl Index {
    /// The pages and canvases at or below `below` that link to this file, in path order: the
    /// first `max`, and the total number. Empty for an unknown page.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn backlinks(
        &self,
        path: &TreePath,
        below: &TreePath,
        max: usize,
    ) -> Result<(Vec<Backlink>, usize), IndexError> {
        let all = self.all_backlinks(path)?;
        let entries = || all.entries.iter().filter(|entry| entry.path.is_under(below));
        let further = all.further_paths.iter().filter(|path| path.is_under(below)).count();
        let total = entries().count() + further;
        let listed: Vec<Backlink> = entries().take(max).cloned().collect();
        if further == 0 || listed.len() == max {
            return Ok((listed, total));
        }
        // Contexts beyond the cache limit are read from the database.
        let mut listed = Vec::new();
        self.readers.read(|connection| {
            for_each_backlink(&mut self.names(connection), path.as_str(), |from, row| {
                if listed.len() < max && from.is_under(below) {
                    listed.push(Backlink { path: from, title: row.get(2)?, context: row.get(5)? });
                }
                Ok(listed.len() < max)
            })
        })?;
        Ok((listed, total))
    }

    /// The backlinks of a page, from the cache if it is current.
    fn all_backlinks(&self, path: &TreePath) -> Result<Arc<PageBacklinks>, IndexError> {
        let generation = match self.backlinks.get(path) {
            Ok(backlinks) => return Ok(backlinks),
            Err(generation) => generation,
        };
        let mut backlinks = PageBacklinks::default();
        self.readers.read(|connection| {
            for_each_backlink(&mut self.names(connection), path.as_str(), |from, row| {
                if backlinks.entries.len() < MAX_ENTRIES {
                    backlinks.entries.push(Backlink { path: from, title: row.get(2)?, context: row.get(5)? });
                } else {
                    backlinks.further_paths.push(from);
                }
                Ok(true)
            })
        })?;
        let backlinks = Arc::new(backlinks);
        self.backlinks.put(path, &backlinks, generation);
        Ok(backlinks)
    }

    /// The other pages that link to this file, in path order. Empty for an unknown file.
    ///
    /// Uses the graph if a current one exists, else the rows of this page, which is faster than
    /// building a graph.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn linking_pages(&self, path: &TreePath) -> Result<Vec<TreePath>, IndexError> {
        // Only pages are nodes of the graph.
        if let Some(graph) = self.graph.current().filter(|_| path.is_page()) {
            return Ok(graph.linking_pages(path).cloned().collect());
        }
        self.readers.read(|connection| {
            let mut sources = Vec::new();
            for_each_backlink(&mut self.names(connection), path.as_str(), |from, _| {
                // As in the graph.
                if from.is_page() {
                    sources.push(from);
                }
                Ok(true)
            })?;
            Ok(sources)
        })
    }

    /// As [`Index::linking_pages`], with the titles of the pages.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn linking_titles(&self, path: &TreePath) -> Result<Vec<(TreePath, String)>, IndexError> {
        if let Some(graph) = self.graph.current().filter(|_| path.is_page()) {
            let sources = graph.node(path).map_or(&[][..], |node| graph.links_in(node)).iter();
            let pages = sources.map(|source| graph.page(*source));
            return Ok(pages.map(|page| (page.path.clone(), page.title.clone())).collect());
        }
        self.readers.read(|connection| {
            let mut sources = Vec::new();
            for_each_backlink(&mut self.names(connection), path.as_str(), |from, row| {
                if from.is_page() {
                    sources.push((from, row.get(2)?));
                }
                Ok(true)
            })?;
            Ok(sources)
        })
    }

    /// The links of a page, in order; empty for an unknown page.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn links_out(&self, path: &TreePath) -> Result<Vec<OutLink>, IndexError> {
        self.readers.read(|connection| links_of(&mut self.names(connection), path))
    }

    /// Resolves `[[target]]`, written in the page `from`. `target` has neither heading nor label.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn resolve(&self, from: &TreePath, target: &str) -> Result<Option<ResolvedLink>, IndexError> {
        self.resolve_link(from, LinkKind::Wiki, target)
    }

    /// Resolves a link of this kind with this target, written in the page `from`.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn resolve_link(
        &self,
        from: &TreePath,
        kind: LinkKind,
        target: &str,
    ) -> Result<Option<ResolvedLink>, IndexError> {
        self.readers.read(|connection| resolve(&mut self.names(connection), from, (kind, target)))
    }

    /// The files that links of one page mean, in the order of the links.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn resolve_links<'l>(
        &self,
        from: &TreePath,
        links: impl Iterator<Item = (LinkKind, &'l str)>,
    ) -> Result<Vec<Option<TreePath>>, IndexError> {
        self.readers.read(|connection| {
            let mut names = self.names(connection);
            links.map(|link| resolve_path(&mut names, from, link)).collect()
        })
    }

    /// A name lookup with the configured resolution.
    pub(crate) fn names<'c>(&self, connection: &'c Connection) -> NameLookup<'c> {
        NameLookup::new(connection, self.link_resolution)
    }

    /// True when more than one page has this file name (without `.md`, in any case): `[[stem]]`
    /// then depends on the linking page.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn is_ambiguous(&self, stem: &str) -> Result<bool, IndexError> {
        self.readers.read(|connection| {
            let pages: i64 = connection
                .prepare_cached(
                    "SELECT count(*) FROM (SELECT DISTINCT page FROM page_keys WHERE folded = ?1 AND kind = ?2 LIMIT 2)",
                )?
                .query_row((fold_name(stem), KeyKind::Stem as u8), |row| row.get(0))?;
            Ok(pages > 1)
        })
    }
}

/// The links of a page, in order. Share `names` between pages, so that each name is looked up once.
pub(crate) fn links_of(names: &mut NameLookup<'_>, path: &TreePath) -> Result<Vec<OutLink>, IndexError> {
    let mut links = Vec::new();
    for_each_link(names, path.as_str(), |row, resolved| {
        let resolved = resolved.map(tree_path).transpose()?;
        links.push(OutLink {
            is_wiki: row.get(0)?,
            target: row.get(1)?,
            heading: row.get(2)?,
            resolved_path: resolved,
        });
        Ok(())
    })?;
    Ok(links)
}

/// Calls `visit` for every link of a page, in order, with its row of [`LINKS_OUT`] and its
/// target.
pub(crate) fn for_each_link(
    names: &mut NameLookup<'_>,
    path: &str,
    mut visit: impl FnMut(&Row<'_>, Option<&str>) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let mut statement = names.connection().prepare_cached(LINKS_OUT)?;
    let mut rows = statement.query([path])?;
    while let Some(row) = rows.next()? {
        let target = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let wanted = candidates(path, link_kind(row.get(0)?), target);
        visit(row, names.resolve(path, &wanted)?)?;
    }
    Ok(())
}

/// Calls `visit` for each other page or canvas that links to this file, in path order, with the
/// row of [`BACKLINKS`] of its first such link, until `visit` returns false.
fn for_each_backlink(
    names: &mut NameLookup<'_>,
    path: &str,
    mut visit: impl FnMut(TreePath, &Row<'_>) -> Result<bool, IndexError>,
) -> Result<(), IndexError> {
    let mut statement = names.connection().prepare_cached(BACKLINKS)?;
    let mut rows = statement.query([path])?;
    let mut last = String::new();
    while let Some(row) = rows.next()? {
        let from: String = row.get(0)?;
        if from == last {
            continue;
        }
        let wanted = candidates(&from, link_kind(row.get(3)?), &row.get::<_, String>(4)?);
        if names.resolve(&from, &wanted)? == Some(path) {
            if !visit(tree_path(&from)?, row)? {
                break;
            }
            last = from;
        }
    }
    Ok(())
}

fn resolve_path(
    names: &mut NameLookup<'_>,
    from: &TreePath,
    (kind, target): (LinkKind, &str),
) -> Result<Option<TreePath>, IndexError> {
    let target = target.trim();
    if target.is_empty() {
        return Ok(None);
    }
    let wanted = candidates(from.as_str(), kind, target);
    names.resolve(from.as_str(), &wanted)?.map(tree_path).transpose()
}

fn resolve(
    names: &mut NameLookup<'_>,
    from: &TreePath,
    (kind, target): (LinkKind, &str),
) -> Result<Option<ResolvedLink>, IndexError> {
    let Some(path) = resolve_path(names, from, (kind, target))? else {
        return Ok(None);
    };
    if !path.is_page() {
        let title = path.name().to_owned();
        return Ok(Some(ResolvedLink { path, title }));
    }
    let title = names
        .connection()
        .prepare_cached("SELECT title FROM pages WHERE path = ?1")?
        .query_row([path.as_str()], |row| row.get(0))
        .optional()?;
    title.map(|title| Ok(ResolvedLink { path, title })).transpose()
}
