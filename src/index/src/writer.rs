//! Writes and removes the rows of pages.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use svcfs_base::{HiddenFiles, Seq, TreePath};
use svcfs_text::links::Link;

use crate::document::{PageDocument, ReadContext};
use crate::fields::FieldWriter;
use crate::schema::TableSet;
use crate::words::Dictionary;
use crate::{IndexEntry, IndexError, assets, canvases};

/// The write connection, and the state that a concurrent rebuild needs.
pub(crate) struct IndexWriter {
    pub(crate) connection: Connection,
    /// While a rebuild runs: the pages written since it started. Their new rows are in both table
    /// sets, and the rebuild must not overwrite them with older text.
    pub(crate) touched_pages: Option<HashSet<TreePath>>,
}

/// The settings on which the rows depend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContentRules {
    /// The fields whose values are links, too.
    pub(crate) typed_links: Vec<String>,
    /// The hidden files that are indexed.
    pub(crate) hidden_files: HiddenFiles,
}

/// The changes of one transaction.
pub(crate) struct WriteBatch {
    pub(crate) steps: Vec<WriteStep>,
    /// Words of the entries that the dictionary did not know yet.
    words: Vec<String>,
}

impl WriteBatch {
    /// Parses entries.
    pub(crate) fn read(
        entries: &[IndexEntry],
        rules: &ContentRules,
        dictionary: &mut Dictionary,
    ) -> Result<Self, IndexError> {
        let steps = entries.iter().map(|entry| WriteStep::read(entry, rules, dictionary)).collect::<Result<_, _>>()?;
        let mut words = dictionary.take_new_words();
        words.sort_unstable();
        words.dedup();
        Ok(Self { steps, words })
    }
    pub(crate) fn documents(&self) -> impl Iterator<Item = &PageDocument> {
        self.steps.iter().filter_map(|step| match step {
            WriteStep::Put(document) => Some(&**document),
            WriteStep::PutAsset(_) | WriteStep::PutCanvas(..) | WriteStep::Remove(_) => None,
        })
    }
    /// Adds its new words to a table set.
    pub(crate) fn insert_spellings(&self, transaction: &Transaction<'_>, tables: TableSet) -> rusqlite::Result<()> {
        let mut word = transaction.prepare_cached(&tables.sql("INSERT OR IGNORE INTO spellings@ VALUES (?1)"))?;
        self.words.iter().try_for_each(|text| word.execute([text]).map(drop))
    }
}

/// The change that one entry makes.
pub(crate) enum WriteStep {
    Put(Box<PageDocument>),
    PutAsset(TreePath),
    /// A canvas with its links.
    PutCanvas(TreePath, Vec<Link>),
    Remove(TreePath),
}

impl WriteStep {
    /// Parses an entry. A hidden file is indexed only as an exception.
    fn read(entry: &IndexEntry, rules: &ContentRules, dictionary: &mut Dictionary) -> Result<Self, IndexError> {
        let is_listed = rules.hidden_files.lists(entry.path());
        Ok(match entry {
            IndexEntry::Page { path, etag, text, modified } if path.is_page() && is_listed => {
                let reading = ReadContext { typed_links: &rules.typed_links, dictionary };
                Self::Put(Box::new(PageDocument::read((path.clone(), *etag), text, *modified, reading)?))
            }
            IndexEntry::Asset(path) if !path.is_page() && is_listed => Self::PutAsset(path.clone()),
            IndexEntry::Canvas { path, text, .. } if !path.is_page() && is_listed => {
                Self::PutCanvas(path.clone(), svcfs_text::canvas::links(text))
            }
            IndexEntry::Page { path, .. }
            | IndexEntry::Canvas { path, .. }
            | IndexEntry::Asset(path)
            | IndexEntry::Deleted(path) => Self::Remove(path.clone()),
        })
    }
    pub(crate) fn path(&self) -> &TreePath {
        match self {
            Self::Put(document) => &document.path,
            Self::PutAsset(path) | Self::PutCanvas(path, _) | Self::Remove(path) => path,
        }
    }
    pub(crate) fn apply(
        &self,
        transaction: &Transaction<'_>,
        tables: TableSet,
        rows: &FieldWriter,
    ) -> Result<(), IndexError> {
        match self {
            Self::Put(document) => put((transaction, tables), rows, document),
            Self::PutAsset(path) => assets::put(transaction, tables, path).map(drop),
            Self::PutCanvas(path, links) => canvases::put(transaction, tables, path, links),
            Self::Remove(path) if path.is_page() => remove(transaction, tables, path),
            Self::Remove(path) => assets::remove(transaction, tables, path),
        }
    }
}

/// Position in the change log that the rows reflect.
pub(crate) fn cursor(connection: &Connection) -> rusqlite::Result<Seq> {
    connection
        .prepare_cached("SELECT cursor FROM position")?
        .query_row([], |row| row.get::<_, i64>(0))
        .map(|cursor| Seq(cursor.unsigned_abs()))
}

/// Moves the cursor, in the transaction of the rows.
pub(crate) fn set_cursor(transaction: &Transaction<'_>, cursor: Seq) -> rusqlite::Result<()> {
    let cursor = i64::try_from(cursor.0).unwrap_or(i64::MAX);
    transaction.prepare_cached("UPDATE position SET cursor = ?1")?.execute([cursor])?;
    Ok(())
}

fn put(
    (transaction, tables): (&Transaction<'_>, TableSet),
    rows: &FieldWriter,
    document: &PageDocument,
) -> Result<(), IndexError> {
    let existing: Option<(i64, [u8; 20])> = transaction
        .prepare_cached(&tables.sql("SELECT id, etag FROM pages@ WHERE path = ?1"))?
        .query_row([document.path.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let id = match existing {
        Some((id, etag)) if etag == *document.etag.as_bytes() => {
            transaction
                .prepare_cached(&tables.sql("UPDATE pages@ SET modified = ?2 WHERE id = ?1"))?
                .execute((id, document.modified))?;
            transaction
                .prepare_cached(&tables.sql("UPDATE facts@ SET modified = ?2 WHERE page = ?1"))?
                .execute((id, document.modified))?;
            return Ok(());
        }
        Some((id, _)) => {
            clear(transaction, tables, id)?;
            Some(id)
        }
        None => None,
    };
    transaction
        .prepare_cached(
            &tables.sql("INSERT INTO pages@ VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"),
        )?
        .execute(params![
            id,
            document.path.as_str(),
            document.etag.as_bytes(),
            document.modified,
            document.title,
            document.excerpt,
            i64::try_from(document.word_count).unwrap_or(i64::MAX),
            document.metadata,
            document.frontmatter,
            document.headings,
            i64::try_from(document.size).unwrap_or(i64::MAX),
            document.tasks,
            document.inline,
        ])?;
    let id = id.unwrap_or_else(|| transaction.last_insert_rowid());
    put_facts(transaction, tables, id, document)?;
    if let Some(message) = &document.lint_error {
        transaction.prepare_cached(&tables.sql("INSERT INTO lint_errors@ VALUES (?1, ?2)"))?.execute((id, message))?;
    }
    rows.put(transaction, tables, id, document.queried_fields())?;
    put_text(transaction, tables, id, document)?;
    put_links(transaction, tables, id, document)
}

fn put_facts(
    transaction: &Transaction<'_>,
    tables: TableSet,
    id: i64,
    document: &PageDocument,
) -> Result<(), IndexError> {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    transaction
        .prepare_cached(&tables.sql("INSERT INTO facts@ VALUES (?1, ?2, ?3, json_array_length(?4), ?5, ?6, ?7, ?8)"))?
        .execute(params![
            id,
            number(document.word_count),
            number(document.size),
            document.headings,
            number(document.links.len()),
            document.frontmatter != "{}",
            document.modified,
            document.path.as_str(),
        ])?;
    Ok(())
}

fn put_text(
    transaction: &Transaction<'_>,
    tables: TableSet,
    id: i64,
    document: &PageDocument,
) -> Result<(), IndexError> {
    let words = &document.columns;
    transaction.prepare_cached(&tables.sql("INSERT INTO bodies@ VALUES (?1, ?2, ?3, ?4)"))?.execute((
        id,
        &document.frontmatter_text,
        &document.body,
        i64::try_from(document.first_line).unwrap_or(1),
    ))?;
    let [soft, hard] = document.trust_factors.map_or([None; 2], |trust_factors| trust_factors.map(Some));
    transaction.prepare_cached(&tables.sql("INSERT INTO forwards@ VALUES (?1, ?2, ?3, ?4, ?5)"))?.execute((
        id,
        document.path.as_str(),
        soft,
        hard,
        &document.forward,
    ))?;
    transaction
        .prepare_cached(&tables.sql(
            "INSERT INTO texts@ (rowid, title, called, headings, body, frontmatter, extras, fields)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        ))?
        .execute(params![
            id,
            words.title,
            words.names,
            words.headings,
            words.body,
            words.frontmatter,
            words.extras,
            words.fields
        ])?;
    transaction
        .prepare_cached(
            &tables.sql("INSERT INTO names@ (rowid, title, called, headings, extras) VALUES (?1, ?2, ?3, ?4, ?5)"),
        )?
        .execute((id, &words.title, &words.names, &words.headings, &words.name_extras))?;
    put_anchors(transaction, tables, id, document)
}

/// Size of the rowid range of a page's anchors. Further links of a page have no anchor.
pub(crate) const ANCHORS_PER_PAGE: i64 = 1 << 20;

/// Writes the labels of links, which count as words of the link targets.
fn put_anchors(
    transaction: &Transaction<'_>,
    tables: TableSet,
    id: i64,
    document: &PageDocument,
) -> Result<(), IndexError> {
    let mut anchor = transaction.prepare_cached(&tables.sql("INSERT INTO anchors@ (rowid, words) VALUES (?1, ?2)"))?;
    for (position, label) in (0..ANCHORS_PER_PAGE).zip(&document.labels) {
        if !label.is_empty() {
            anchor.execute((id * ANCHORS_PER_PAGE + position, label))?;
        }
    }
    Ok(())
}

fn put_links(
    transaction: &Transaction<'_>,
    tables: TableSet,
    id: i64,
    document: &PageDocument,
) -> Result<(), IndexError> {
    let mut key =
        transaction.prepare_cached(&tables.sql("INSERT OR IGNORE INTO page_keys@ VALUES (?1, ?2, ?3, ?4)"))?;
    for name in &document.keys {
        key.execute((&name.folded, name.kind as u8, id, &name.text))?;
    }
    canvases::put_links(transaction, tables, (id, &document.path), &document.links)
}

fn remove(transaction: &Transaction<'_>, tables: TableSet, path: &TreePath) -> Result<(), IndexError> {
    let id: Option<i64> = transaction
        .prepare_cached(&tables.sql("SELECT id FROM pages@ WHERE path = ?1"))?
        .query_row([path.as_str()], |row| row.get(0))
        .optional()?;
    id.map_or(Ok(()), |id| clear(transaction, tables, id))
}

/// Removes every row of a page, postings included.
fn clear(transaction: &Transaction<'_>, tables: TableSet, id: i64) -> Result<(), IndexError> {
    transaction
        .prepare_cached(&tables.sql("DELETE FROM anchors@ WHERE rowid >= ?1 AND rowid < ?2"))?
        .execute((id * ANCHORS_PER_PAGE, (id + 1) * ANCHORS_PER_PAGE))?;
    for statement in [
        "DELETE FROM facts@ WHERE page = ?1",
        "DELETE FROM bodies@ WHERE page = ?1",
        "DELETE FROM forwards@ WHERE page = ?1",
        "DELETE FROM texts@ WHERE rowid = ?1",
        "DELETE FROM names@ WHERE rowid = ?1",
        "DELETE FROM page_keys@ WHERE page = ?1",
        "DELETE FROM field_values@ WHERE page = ?1",
        "DELETE FROM link_keys@ WHERE page = ?1",
        "DELETE FROM links@ WHERE page = ?1",
        "DELETE FROM lint_errors@ WHERE page = ?1",
        "DELETE FROM pages@ WHERE id = ?1",
    ] {
        transaction.prepare_cached(&tables.sql(statement))?.execute([id])?;
    }
    Ok(())
}
