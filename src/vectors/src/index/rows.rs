//! Statements on the tables of `vectors.db`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction};
use rustc_hash::FxHashSet;
use svcfs_base::{ETag, TreePath};

use super::embedding::{VectorsByHash, hash};
use super::{EmbeddedChunk, NearChunk, PageChunks, PageText, VectorIndexError, chunk_id, ord_of, page_of, read_vector};
use crate::{Chunk, QuantizedVector, StoredVector};

type Outcome<T> = Result<T, VectorIndexError>;

/// What an update writes for.
pub(super) struct UpdateTarget<'a> {
    pub(super) model: i64,
    pub(super) rules: &'a str,
    /// Whether a remote store has the vectors.
    pub(super) is_remote: bool,
}

/// What a transaction changed.
#[derive(Default)]
pub(super) struct ReplacedPages {
    pub(super) pages: FxHashSet<i64>,
    /// The new vectors of these pages.
    pub(super) vectors: Vec<(i64, Arc<QuantizedVector>)>,
    pub(super) page_change: isize,
    pub(super) chunk_change: isize,
}

pub(super) fn model_id(connection: &Connection, name: &str) -> Outcome<i64> {
    connection.execute("INSERT OR IGNORE INTO models (name) VALUES (?1)", [name])?;
    Ok(connection.query_row("SELECT id FROM models WHERE name = ?1", [name], |row| row.get(0))?)
}

/// The other models with pages.
pub(super) fn other_models(connection: &Connection, current: i64) -> Outcome<Vec<(i64, String)>> {
    let mut statement = connection.prepare("SELECT id, name FROM models WHERE id <> ?1")?;
    let models = statement.query_map([current], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(models.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn dimensions(connection: &Connection, model: i64) -> Outcome<Option<usize>> {
    let length: Option<i64> = connection
        .query_row(
            "SELECT length(vectors.numbers) FROM pages JOIN chunks ON chunks.page = pages.id
             JOIN vectors ON vectors.id = chunks.vector WHERE pages.model = ?1 LIMIT 1",
            [model],
            |row| row.get(0),
        )
        .optional()?;
    Ok(length.and_then(|length| usize::try_from(length).ok()))
}

/// Pages and chunks of a model.
pub(super) fn counts(connection: &Connection, model: i64) -> Outcome<(usize, usize)> {
    let counts: (u32, u32) = connection.query_row(
        "SELECT (SELECT count(*) FROM pages WHERE model = ?1),
                (SELECT count(*) FROM chunks WHERE page IN (SELECT id FROM pages WHERE model = ?1))",
        [model],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok((counts.0 as usize, counts.1 as usize))
}

/// Pages of a model whose chunks are those of these rules.
pub(super) fn embedded_pages(connection: &Connection, model: i64, rules: &str) -> Outcome<usize> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM pages WHERE model = ?1 AND rules = ?2")?;
    let count: u32 = statement.query_row((model, rules), |row| row.get(0))?;
    Ok(count as usize)
}

/// Pages with vectors that the remote store does not have.
pub(super) fn unstored_pages(connection: &Connection, model: i64) -> Outcome<usize> {
    let mut statement = connection.prepare_cached(
        "SELECT count(DISTINCT chunks.page) FROM chunks JOIN pages ON pages.id = chunks.page
         WHERE chunks.is_stored = 0 AND chunks.vector IS NOT NULL AND pages.model = ?1",
    )?;
    let count: u32 = statement.query_row([model], |row| row.get(0))?;
    Ok(count as usize)
}

pub(super) fn etags(connection: &Connection, model: i64, rules: &str) -> Outcome<BTreeMap<TreePath, ETag>> {
    let mut statement = connection.prepare("SELECT path, etag FROM pages WHERE model = ?1 AND rules = ?2")?;
    let rows = statement.query_map((model, rules), |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    rows.map(|row| row.map_err(Into::into).and_then(|(path, etag)| Ok((tree_path(&path)?, ETag::from_bytes(etag)))))
        .collect()
}

pub(super) fn paths(connection: &Connection) -> Outcome<BTreeSet<TreePath>> {
    let mut statement = connection.prepare("SELECT DISTINCT path FROM pages")?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    rows.map(|path| tree_path(&path?)).collect()
}

/// The pages at or below a folder.
pub(super) fn pages_below(connection: &Connection, model: i64, folder: &TreePath) -> Outcome<FxHashSet<i64>> {
    let mut statement = connection
        .prepare_cached("SELECT id FROM pages WHERE (path = ?1 OR (path > ?2 AND path < ?3)) AND model = ?4")?;
    let range = (folder.as_str(), format!("{folder}/"), format!("{folder}0"), model);
    let pages = statement.query_map(range, |row| row.get(0))?;
    Ok(pages.collect::<rusqlite::Result<_>>()?)
}

/// A chunk, with similarity 0.
pub(super) fn chunk(connection: &Connection, model: i64, (page, ord): (i64, i64)) -> Outcome<Option<NearChunk>> {
    let mut statement = connection.prepare_cached(
        "SELECT pages.path, chunks.ord, chunks.first_line, chunks.last_line, chunks.heading
         FROM chunks JOIN pages ON pages.id = chunks.page
         WHERE chunks.page = ?1 AND chunks.ord = ?2 AND pages.model = ?3",
    )?;
    let read = |row: &Row<'_>| {
        let lines = (row.get(2)?, row.get(3)?);
        Ok((row.get::<_, String>(0)?, row.get(1)?, lines, row.get(4)?))
    };
    let row = statement.query_row((page, ord, model), read).optional()?;
    let chunk = row.map(|(path, ord, lines, heading)| {
        Ok(NearChunk { path: tree_path(&path)?, ord, lines, heading, similarity: 0.0 })
    });
    chunk.transpose()
}

pub(super) fn page_chunks(connection: &Connection, model: i64, path: &TreePath) -> Outcome<Option<PageChunks>> {
    let mut statement = connection.prepare_cached("SELECT id, etag FROM pages WHERE path = ?1 AND model = ?2")?;
    let page: Option<(i64, [u8; 20])> =
        statement.query_row((path.as_str(), model), |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((page, etag)) = page else { return Ok(None) };
    let mut statement = connection.prepare_cached(
        "SELECT ord, first_line, last_line, heading, scale, numbers
         FROM chunks JOIN vectors ON vectors.id = chunks.vector WHERE page = ?1 ORDER BY ord",
    )?;
    let chunks = statement.query_map([page], |row| {
        let (lines, vector) = ((row.get(1)?, row.get(2)?), read_vector(row, 4)?);
        Ok(EmbeddedChunk { ord: row.get(0)?, lines, heading: row.get(3)?, vector: vector.to_floats() })
    })?;
    let chunks = chunks.collect::<rusqlite::Result<_>>()?;
    Ok(Some(PageChunks { etag: ETag::from_bytes(etag), chunks }))
}

/// Whether the page was embedded with this text, by any rules.
pub(super) fn has_text(connection: &Connection, model: i64, page: &PageText) -> Outcome<bool> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM pages WHERE path = ?1 AND model = ?2 AND etag = ?3")?;
    Ok(statement.exists((page.path.as_str(), model, page.etag.as_bytes()))?)
}

/// Replaces the chunks of pages.
pub(super) fn replace_pages(
    connection: &mut Connection,
    target: &UpdateTarget<'_>,
    pages: &[(&PageText, Vec<Chunk>)],
    vectors: &VectorsByHash,
) -> Outcome<ReplacedPages> {
    let transaction = connection.transaction()?;
    let model: String =
        transaction.query_row("SELECT name FROM models WHERE id = ?1", [target.model], |row| row.get(0))?;
    let (mut replaced, mut old_vectors) = (ReplacedPages::default(), FxHashSet::default());
    for (page, chunks) in pages {
        let (id, is_new) = insert_page(&transaction, target, page)?;
        replaced.page_change += isize::from(is_new);
        let old = OldChunks::take(&transaction, id)?;
        replaced.chunk_change += chunks.len().cast_signed() - old.0.len().cast_signed();
        let mut has_vector = vec![false; chunks.len()];
        for (ord, chunk) in (0..).zip(chunks) {
            let hash = hash(&model, &chunk.text);
            let vector = vectors.get(&hash).cloned().flatten();
            let row = vector.as_deref().map(|vector| insert_vector(&transaction, hash, vector)).transpose()?;
            let is_stored = !target.is_remote || row.is_some() && old.is_stored(ord, row);
            insert_chunk(&transaction, (id, ord), chunk, (row, is_stored))?;
            has_vector[ord as usize] = vector.is_some();
            replaced.vectors.extend(vector.map(|vector| (chunk_id(id, ord), vector)));
        }
        if target.is_remote {
            old.note_removals(&transaction, id, |ord| has_vector.get(ord as usize) == Some(&true))?;
        }
        old_vectors.extend(old.0.iter().filter_map(|(_, vector, _)| *vector));
        replaced.pages.insert(id);
    }
    remove_orphans(&transaction, &old_vectors)?;
    transaction.commit()?;
    Ok(replaced)
}

/// Removes pages; `remote` is the current model and whether a remote store has its vectors.
pub(super) fn remove_pages(
    connection: &mut Connection,
    paths: &[TreePath],
    (current, is_remote): (i64, bool),
) -> Outcome<ReplacedPages> {
    let transaction = connection.transaction()?;
    let (mut removed, mut old_vectors) = (ReplacedPages::default(), FxHashSet::default());
    for path in paths {
        let mut statement = transaction.prepare_cached("SELECT id, model FROM pages WHERE path = ?1")?;
        let rows = statement.query_map([path.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (page, model) in rows.collect::<rusqlite::Result<Vec<(i64, i64)>>>()? {
            let old = OldChunks::take(&transaction, page)?;
            if model == current {
                removed.page_change -= 1;
                removed.chunk_change -= old.0.len().cast_signed();
                if is_remote {
                    old.note_removals(&transaction, page, |_| false)?;
                }
            }
            transaction.prepare_cached("DELETE FROM pages WHERE id = ?1")?.execute([page])?;
            old_vectors.extend(old.0.iter().filter_map(|(_, vector, _)| *vector));
            removed.pages.insert(page);
        }
    }
    remove_orphans(&transaction, &old_vectors)?;
    transaction.commit()?;
    Ok(removed)
}

/// Removes all pages and vectors of models but these.
pub(super) fn remove_other_models(connection: &mut Connection, retained: &[i64]) -> Outcome<()> {
    let transaction = connection.transaction()?;
    let retained: Vec<String> = retained.iter().map(i64::to_string).collect();
    let retained = retained.join(", ");
    transaction.execute_batch(&format!(
        "DELETE FROM chunks WHERE page IN (SELECT id FROM pages WHERE model NOT IN ({retained}));
         DELETE FROM pages WHERE model NOT IN ({retained});
         DELETE FROM models WHERE id NOT IN ({retained});
         DELETE FROM vectors WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.vector = vectors.id);"
    ))?;
    transaction.commit()?;
    // Each row is a page that was freed, and `execute_batch` reads one row only.
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut freed = vacuum.query([])?;
    while freed.next()?.is_some() {}
    Ok(())
}

/// The row of a page, and whether it is new.
fn insert_page(transaction: &Transaction<'_>, target: &UpdateTarget<'_>, page: &PageText) -> Outcome<(i64, bool)> {
    let mut update = transaction
        .prepare_cached("UPDATE pages SET etag = ?3, rules = ?4 WHERE path = ?1 AND model = ?2 RETURNING id")?;
    let values = (page.path.as_str(), target.model, page.etag.as_bytes(), target.rules);
    if let Some(id) = update.query_row(values, |row| row.get(0)).optional()? {
        return Ok((id, false));
    }
    transaction
        .prepare_cached("INSERT INTO pages (path, model, etag, rules) VALUES (?1, ?2, ?3, ?4)")?
        .execute(values)?;
    Ok((transaction.last_insert_rowid(), true))
}

fn insert_vector(transaction: &Transaction<'_>, hash: [u8; 16], vector: &QuantizedVector) -> Outcome<i64> {
    let mut select = transaction.prepare_cached("SELECT id FROM vectors WHERE hash = ?1")?;
    if let Some(id) = select.query_row([hash], |row| row.get(0)).optional()? {
        return Ok(id);
    }
    let numbers: Vec<u8> = vector.numbers.iter().map(|number| number.cast_unsigned()).collect();
    transaction.prepare_cached("INSERT INTO vectors (hash, scale, numbers) VALUES (?1, ?2, ?3)")?.execute((
        hash,
        f64::from(vector.scale),
        numbers,
    ))?;
    Ok(transaction.last_insert_rowid())
}

fn insert_chunk(
    transaction: &Transaction<'_>,
    (page, ord): (i64, u32),
    chunk: &Chunk,
    (vector, is_stored): (Option<i64>, bool),
) -> Outcome<()> {
    let (first_line, last_line) = chunk.lines;
    transaction.prepare_cached("INSERT INTO chunks VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute((
        page,
        ord,
        first_line,
        last_line,
        &chunk.heading,
        vector,
        is_stored,
    ))?;
    Ok(())
}

fn remove_orphans(transaction: &Transaction<'_>, vectors: &FxHashSet<i64>) -> Outcome<()> {
    let mut statement = transaction.prepare_cached(
        "DELETE FROM vectors WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.vector = ?1)",
    )?;
    vectors.iter().try_for_each(|vector| statement.execute([vector]).map(drop))?;
    Ok(())
}

/// The chunks that a page had: position, vector, and whether the remote store has it.
struct OldChunks(Vec<(u32, Option<i64>, bool)>);

impl OldChunks {
    /// Reads and deletes the rows.
    fn take(transaction: &Transaction<'_>, page: i64) -> Outcome<Self> {
        let mut statement =
            transaction.prepare_cached("DELETE FROM chunks WHERE page = ?1 RETURNING ord, vector, is_stored")?;
        let rows = statement.query_map([page], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
        rows.sort_unstable_by_key(|(ord, ..)| *ord);
        Ok(Self(rows))
    }

    fn is_stored(&self, ord: u32, vector: Option<i64>) -> bool {
        self.0.get(ord as usize).is_some_and(|(_, old, is_stored)| *is_stored && *old == vector)
    }

    /// Notes the chunks that the remote store has and that no new chunk replaces.
    fn note_removals(
        &self,
        transaction: &Transaction<'_>,
        page: i64,
        is_replaced: impl Fn(u32) -> bool,
    ) -> Outcome<()> {
        let mut statement = transaction.prepare_cached("INSERT OR IGNORE INTO removals VALUES (?1)")?;
        let removed = self.0.iter().filter(|(ord, vector, _)| vector.is_some() && !is_replaced(*ord));
        for (ord, ..) in removed {
            statement.execute([chunk_id(page, *ord)])?;
        }
        Ok(())
    }
}

/// The store and the model of the vectors that are marked as stored.
pub(super) fn stored_in(connection: &Connection) -> Outcome<Option<String>> {
    Ok(connection.query_row("SELECT name FROM remote_store", [], |row| row.get(0)).optional()?)
}

pub(super) fn forget_store(connection: &Connection) -> Outcome<()> {
    Ok(connection.execute_batch("DELETE FROM remote_store; DELETE FROM removals;")?)
}

/// An empty store: every vector is to be sent to it.
pub(super) fn set_store(connection: &mut Connection, name: &str) -> Outcome<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch("DELETE FROM remote_store; DELETE FROM removals; UPDATE chunks SET is_stored = 0;")?;
    transaction.execute("INSERT INTO remote_store VALUES (?1)", [name])?;
    Ok(transaction.commit()?)
}

pub(super) fn chunks_to_remove(connection: &Connection, limit: u32) -> Outcome<Vec<i64>> {
    let mut statement = connection.prepare_cached("SELECT id FROM removals LIMIT ?1")?;
    let ids = statement.query_map([limit], |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn chunks_to_store(connection: &Connection, model: i64, limit: u32) -> Outcome<Vec<StoredVector>> {
    let mut statement = connection.prepare_cached(
        "SELECT chunks.page, chunks.ord, pages.path, scale, numbers FROM chunks
         JOIN pages ON pages.id = chunks.page JOIN vectors ON vectors.id = chunks.vector
         WHERE chunks.is_stored = 0 AND chunks.vector IS NOT NULL AND pages.model = ?1 LIMIT ?2",
    )?;
    let rows = statement.query_map((model, limit), |row| {
        let id = chunk_id(row.get(0)?, row.get(1)?);
        Ok((id, row.get::<_, String>(2)?, read_vector(row, 3)?.to_floats()))
    })?;
    rows.map(|row| {
        row.map_err(Into::into).and_then(|(id, path, vector)| Ok(StoredVector { id, path: tree_path(&path)?, vector }))
    })
    .collect()
}

pub(super) fn mark_stored(connection: &mut Connection, removed: &[i64], added: &[i64]) -> Outcome<()> {
    let transaction = connection.transaction()?;
    for id in removed {
        transaction.prepare_cached("DELETE FROM removals WHERE id = ?1")?.execute([id])?;
    }
    for id in added {
        transaction
            .prepare_cached("UPDATE chunks SET is_stored = 1 WHERE page = ?1 AND ord = ?2")?
            .execute((page_of(*id), ord_of(*id)))?;
    }
    Ok(transaction.commit()?)
}

fn tree_path(text: &str) -> Outcome<TreePath> {
    TreePath::parse(text).map_err(|fault| VectorIndexError::Damaged(fault.to_string()))
}
