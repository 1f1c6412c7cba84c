//! The files that are not pages, which links may mean: their paths and names.

use rusqlite::{Connection, OptionalExtension, Transaction};
use svcfs_base::TreePath;
use svcfs_text::links::page_keys;

use crate::pages::tree_path;
use crate::schema::TableSet;
use crate::{Index, IndexError};

/// A row of `assets`: its id, which is negative, and its path.
pub(crate) type AssetRow = (i64, String);

impl Index {
    /// The files that are not pages, in path order.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn asset_paths(&self) -> Result<Vec<TreePath>, IndexError> {
        self.readers.read(|connection| asset_paths(connection))
    }
}

pub(crate) fn asset_paths(connection: &Connection) -> Result<Vec<TreePath>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT path FROM assets ORDER BY path")?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    rows.map(|path| tree_path(&path?)).collect()
}

/// All assets in the order of their ids, as [`find`] needs them.
pub(crate) fn all(connection: &Connection) -> Result<Vec<AssetRow>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT id, path FROM assets ORDER BY id")?;
    let rows = statement.query_map([], |row| row.try_into())?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The path of the asset with this id.
pub(crate) fn find(assets: &[AssetRow], id: i64) -> Option<&str> {
    let index = assets.binary_search_by_key(&id, |(asset, _)| *asset).ok()?;
    Some(&assets[index].1)
}

/// Adds an asset, if it is new; returns its id.
pub(crate) fn put(transaction: &Transaction<'_>, tables: TableSet, path: &TreePath) -> Result<i64, IndexError> {
    if let Some(id) = id_of(transaction, tables, path)? {
        return Ok(id);
    }
    let id: i64 = transaction
        .prepare_cached(&tables.sql("SELECT coalesce(min(id), 0) - 1 FROM assets@"))?
        .query_row([], |row| row.get(0))?;
    transaction.prepare_cached(&tables.sql("INSERT INTO assets@ VALUES (?1, ?2)"))?.execute((id, path.as_str()))?;
    let mut key =
        transaction.prepare_cached(&tables.sql("INSERT OR IGNORE INTO page_keys@ VALUES (?1, ?2, ?3, ?4)"))?;
    for name in page_keys(path.as_str(), None, &[]) {
        key.execute((name.folded, name.kind as u8, id, name.text))?;
    }
    Ok(id)
}

pub(crate) fn remove(transaction: &Transaction<'_>, tables: TableSet, path: &TreePath) -> Result<(), IndexError> {
    if let Some(id) = id_of(transaction, tables, path)? {
        clear_links(transaction, tables, id)?;
        for statement in ["DELETE FROM page_keys@ WHERE page = ?1", "DELETE FROM assets@ WHERE id = ?1"] {
            transaction.prepare_cached(&tables.sql(statement))?.execute([id])?;
        }
    }
    Ok(())
}

/// Removes the links of a canvas.
pub(crate) fn clear_links(transaction: &Transaction<'_>, tables: TableSet, id: i64) -> Result<(), IndexError> {
    for statement in ["DELETE FROM link_keys@ WHERE page = ?1", "DELETE FROM links@ WHERE page = ?1"] {
        transaction.prepare_cached(&tables.sql(statement))?.execute([id])?;
    }
    Ok(())
}

fn id_of(connection: &Connection, tables: TableSet, path: &TreePath) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(&tables.sql("SELECT id FROM assets@ WHERE path = ?1"))?
        .query_row([path.as_str()], |row| row.get(0))
        .optional()
}

/// Whether this asset is in the index.
pub(crate) fn has(connection: &Connection, path: &TreePath) -> rusqlite::Result<bool> {
    Ok(id_of(connection, TableSet::Live, path)?.is_some())
}
