//! The links of canvases.
//!
//! Invariant: a canvas is a file that is not a page, whose links are rows like those of pages, with
//! its negative id. It is not a node of the link graph, and not searched.

use rusqlite::{Connection, Transaction};
use svcfs_base::TreePath;
use svcfs_text::links::{Link, candidates};

use crate::graph::PageFacts;
use crate::links::for_each_link;
use crate::pages::tree_path;
use crate::schema::TableSet;
use crate::{Index, IndexError, UnresolvedLink, assets};

impl Index {
    /// The canvases with broken links, in path order, and these links.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn broken_canvas_links(&self) -> Result<Vec<(TreePath, Vec<UnresolvedLink>)>, IndexError> {
        self.readers.read(|connection| {
            let mut names = self.names(connection);
            let mut broken = Vec::new();
            for canvas in linking_canvases(connection)? {
                let mut facts = PageFacts::default();
                for_each_link(&mut names, canvas.as_str(), |row, target| {
                    if target.is_none() {
                        facts.add_unresolved(canvas.as_str(), row.get(0)?, &row.get::<_, String>(1)?);
                    }
                    Ok(())
                })?;
                if !facts.unresolved_links.is_empty() {
                    broken.push((canvas, facts.unresolved_links));
                }
            }
            Ok(broken)
        })
    }
}

fn linking_canvases(connection: &Connection) -> Result<Vec<TreePath>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT path FROM assets WHERE id IN (SELECT DISTINCT page FROM links WHERE page < 0) ORDER BY path",
    )?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    rows.map(|path| tree_path(&path?)).collect()
}

/// Replaces the rows of a canvas.
pub(crate) fn put(
    transaction: &Transaction<'_>,
    tables: TableSet,
    path: &TreePath,
    links: &[Link],
) -> Result<(), IndexError> {
    let id = assets::put(transaction, tables, path)?;
    assets::clear_links(transaction, tables, id)?;
    put_links(transaction, tables, (id, path), links)
}

/// Writes the rows of the links of a page or a canvas.
pub(crate) fn put_links(
    transaction: &Transaction<'_>,
    tables: TableSet,
    (id, path): (i64, &TreePath),
    links: &[Link],
) -> Result<(), IndexError> {
    let mut row = transaction.prepare_cached(&tables.sql("INSERT INTO links@ VALUES (?1, ?2, ?3, ?4, ?5, ?6)"))?;
    let mut key = transaction.prepare_cached(&tables.sql("INSERT INTO link_keys@ VALUES (?1, ?2, ?3)"))?;
    for (position, link) in (0_i64..).zip(links) {
        row.execute((id, position, link.kind.is_wiki(), &link.target, &link.heading, &link.context))?;
        for folded in folded_targets(path, link) {
            key.execute((folded, id, position))?;
        }
    }
    Ok(())
}

/// The distinct keys under which a link may find its target.
fn folded_targets(path: &TreePath, link: &Link) -> Vec<String> {
    let mut folded: Vec<String> =
        candidates(path.as_str(), link.kind, &link.target).into_iter().map(|key| key.folded).collect();
    folded.sort_unstable();
    folded.dedup();
    folded
}
