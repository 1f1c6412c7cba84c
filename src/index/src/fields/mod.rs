//! Automatic indexes over frontmatter fields (`dataview.max_auto_indexes`).
//!
//! A field that queries use often gets rows `field → kind → value → page`, which every write keeps
//! current. The rows only select candidate pages: a surplus row is harmless, and `dql::evaluate`
//! decides what matches. The set of hot fields survives a rebuild: `hot_fields` is not swapped, and
//! both table sets are filled.
//!
//! Why not an SQLite expression index? It would have a name, which table renames keep, and it would
//! sort dates, numbers and list items as text.

mod early;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction};
use svcfs_text::fold::fold_name;
use svcfs_text::metadata::with_parents;

use crate::dql::ValueStep;
use crate::dql::row::{members, tags_of, walk};
use crate::field_words;
use crate::schema::TableSet;
use crate::value::Value;
use crate::writer::IndexWriter;
use crate::{Index, IndexError};

pub(crate) use early::{EarlyFields, is_short};

/// Number of queries that would have used a field index before it is created.
const HOT_THRESHOLD: u32 = 3;

/// Limit of counted fields, which bounds the memory that queries on random names can use.
const MAX_COUNTED_FIELDS: usize = 1_000;

/// A field index that was not used for so long may be replaced.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(600);

/// Since the index was opened: how often queries used fields without an index, when they last used
/// those with one, and which fields of queries pages were known to have.
#[derive(Debug, Default)]
pub(crate) struct FieldUsage {
    counts: Mutex<HashMap<String, u32>>,
    last_used: Mutex<HashMap<String, Instant>>,
    existing: Mutex<HashSet<String>>,
}

impl FieldUsage {
    pub(crate) fn mark_used(&self, fields: Vec<String>) {
        let now = Instant::now();
        self.last_used.lock().extend(fields.into_iter().map(|field| (field, now)));
    }

    /// The least recently used of these fields, if it was not used since `since`.
    fn least_recently_used<'f>(&self, fields: &'f [(i64, String)], since: Instant) -> Option<&'f (i64, String)> {
        let last_used = self.last_used.lock();
        let last = |(_, field): &&(i64, String)| last_used.get(field).copied();
        fields.iter().filter(|field| last(field).is_none_or(|last| last < since)).min_by_key(last)
    }

    pub(crate) fn is_existing(&self, field: &str) -> bool {
        self.existing.lock().contains(field)
    }

    pub(crate) fn mark_existing(&self, field: &str) {
        let mut existing = self.existing.lock();
        if existing.len() < MAX_COUNTED_FIELDS {
            existing.insert(field.to_owned());
        }
    }

    /// Counts a query; true when the field is hot.
    pub(crate) fn count_query(&self, field: &str) -> bool {
        let mut counts = self.counts.lock();
        if counts.len() >= MAX_COUNTED_FIELDS && !counts.contains_key(field) {
            counts.clear();
        }
        let count = counts.entry(field.to_owned()).or_default();
        *count += 1;
        *count >= HOT_THRESHOLD
    }
}

/// The field whose values are tags.
pub(crate) const TAGS: &str = "tags";

/// The type of a row's value, so that different types never compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RowKind {
    Boolean = 1,
    Number = 2,
    Text = 3,
    /// The day of a date, counted from 1970; groups all times of a day.
    Day = 4,
    /// A tag, or a tag it is nested in, folded; only of the field `tags`.
    Tag = 5,
}

/// Added to the kind of a list item.
pub(crate) const ITEM: u8 = 16;

/// The index key of a value; `None` for null, lists and objects, which have no rows.
pub(crate) fn row_key(value: &Value) -> Option<(RowKind, rusqlite::types::Value)> {
    use rusqlite::types::Value as Bound;
    if let Some(date) = value.date() {
        return Some((RowKind::Day, Bound::Integer(date.day()?)));
    }
    match value {
        Value::Boolean(boolean) => Some((RowKind::Boolean, Bound::Integer(i64::from(*boolean)))),
        // All numbers as reals, so that integers and reals compare.
        Value::Integer(_) | Value::Real(_) => Some((RowKind::Number, Bound::Real(value.number()?))),
        Value::Text(text) => Some((RowKind::Text, Bound::Text(text.clone()))),
        Value::Null | Value::Day(_) | Value::Instant(_) | Value::Length(_) | Value::List(_) | Value::Object(_) => None,
    }
}

/// The stored name of a field: its keys as a JSON list. `None` for a path that goes through a list.
pub(crate) fn field_name(steps: &[ValueStep]) -> Option<String> {
    let keys: Option<Vec<&str>> = steps
        .iter()
        .map(|step| match step {
            ValueStep::Key(key) => Some(key.as_str()),
            ValueStep::Index(_) | ValueStep::Any => None,
        })
        .collect();
    serde_json::to_string(&keys?).ok()
}

/// Full-text query for the pages that have the top-level key of a field, and possibly others.
/// `None` for a field name that the full-text index does not store.
pub(crate) fn presence_query(name: &str) -> Option<String> {
    let steps = steps_of(name).ok()?;
    let Some(ValueStep::Key(key)) = steps.first() else { return None };
    Some(format!("{{fields}} : {}", presence_token(key)?))
}

/// The quoted full-text token of every page with this top-level key.
pub(crate) fn presence_token(key: &str) -> Option<String> {
    Some(format!("\"{}\"", field_words::token(&field_words::normalize_name(key)?, "")))
}

fn steps_of(name: &str) -> Result<Vec<ValueStep>, IndexError> {
    let keys: Vec<String> =
        serde_json::from_str(name).map_err(|error| IndexError::Damaged(format!("hot field `{name}`: {error}")))?;
    Ok(keys.into_iter().map(ValueStep::Key).collect())
}

pub(crate) fn hot_fields(connection: &Connection) -> Result<Vec<(i64, String)>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT id, field FROM hot_fields")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Adds a field; pages written from now on get rows for it.
pub(crate) fn add(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("INSERT INTO hot_fields (field) VALUES (?1)")?.execute([name]).map(drop)
}

/// Writes the field rows of pages.
#[derive(Debug)]
pub(crate) struct FieldWriter {
    /// The distinct first keys of the fields.
    keys: Vec<String>,
    fields: Vec<IndexedField>,
}

#[derive(Debug)]
struct IndexedField {
    number: i64,
    /// Index of its first key in [`FieldWriter::keys`].
    first: usize,
    rest: Vec<ValueStep>,
    is_tags: bool,
}

impl FieldWriter {
    /// A writer for all indexed fields; valid until a field is added, which needs the writer's
    /// lock.
    pub(crate) fn for_hot_fields(connection: &Connection) -> Result<Self, IndexError> {
        let mut writer = Self { keys: Vec::new(), fields: Vec::new() };
        for (number, name) in hot_fields(connection)? {
            writer.add(number, steps_of(&name)?);
        }
        Ok(writer)
    }

    fn of(number: i64, steps: Vec<ValueStep>) -> Self {
        let mut writer = Self { keys: Vec::new(), fields: Vec::new() };
        writer.add(number, steps);
        writer
    }

    fn add(&mut self, number: i64, steps: Vec<ValueStep>) {
        let mut steps = steps.into_iter();
        let Some(ValueStep::Key(key)) = steps.next() else { return };
        let first = self.keys.iter().position(|first| *first == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        });
        let rest: Vec<ValueStep> = steps.collect();
        let is_tags = self.keys[first] == TAGS && rest.is_empty();
        self.fields.push(IndexedField { number, first, rest, is_tags });
    }

    /// Writes the rows of a page: one for a single value, one for each list item. `frontmatter` is
    /// JSON.
    pub(crate) fn put(
        &self,
        transaction: &Transaction<'_>,
        tables: TableSet,
        page: i64,
        frontmatter: &str,
    ) -> Result<(), IndexError> {
        if self.fields.is_empty() || frontmatter == "{}" {
            return Ok(());
        }
        let mut insert = transaction.prepare_cached(
            &tables.sql("INSERT OR IGNORE INTO field_values@ (field, kind, value, page) VALUES (?1, ?2, ?3, ?4)"),
        )?;
        for (index, json) in members(frontmatter, &self.keys, "")? {
            for field in self.fields.iter().filter(|field| field.first == index) {
                if field.is_tags {
                    for tag in tags_of(&json) {
                        for tag in with_parents(&fold_name(&tag)) {
                            insert.execute((field.number, RowKind::Tag as u8, tag, page))?;
                        }
                    }
                }
                match walk(&json, &field.rest) {
                    Value::List(items) => {
                        for (kind, value) in items.iter().filter_map(row_key) {
                            insert.execute((field.number, kind as u8 + ITEM, value, page))?;
                        }
                    }
                    single => {
                        if let Some((kind, value)) = row_key(&single) {
                            insert.execute((field.number, kind as u8, value, page))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Index {
    /// Adds an index for a field, replacing an unused one at the limit. False when all existing
    /// ones are in use.
    pub(crate) fn add_field_index(&self, field: &str, max_fields: usize) -> Result<bool, IndexError> {
        let IndexWriter { connection, touched_pages } = &mut *self.writer.lock();
        let transaction = connection.transaction()?;
        let indexed = hot_fields(&transaction)?;
        if indexed.iter().any(|(_, name)| name == field) {
            return Ok(true);
        }
        if indexed.len() >= max_fields {
            let since = Instant::now().checked_sub(UNUSED_TIMEOUT);
            let unused = || {
                since.and_then(|since| self.field_usage.least_recently_used(&indexed, since)).map(|(number, _)| *number)
            };
            let Some(number) = find_empty(&transaction, &indexed)?.or_else(unused).filter(|_| max_fields > 0) else {
                return Ok(false);
            };
            remove_field(&transaction, (number, touched_pages.is_some()))?;
        }
        add(&transaction, field)?;
        let number = transaction.last_insert_rowid();
        let rows = FieldWriter::of(number, steps_of(field)?);
        backfill(&transaction, TableSet::Live, &rows)?;
        if touched_pages.is_some() {
            // A rebuild runs: its rows so far lack this field, its later rows have it.
            backfill(&transaction, TableSet::Next, &rows)?;
        }
        transaction.commit()?;
        self.field_usage.mark_used(vec![field.to_owned()]);
        tracing::info!(index.field = field, "created an index for a frequently queried field");
        Ok(true)
    }
}

/// An indexed field that no page has, for example a misspelt one.
fn find_empty(transaction: &Transaction<'_>, fields: &[(i64, String)]) -> rusqlite::Result<Option<i64>> {
    let mut rows = transaction.prepare_cached("SELECT 1 FROM field_values WHERE field = ?1 LIMIT 1")?;
    for (number, _) in fields {
        if !rows.exists([number])? {
            return Ok(Some(*number));
        }
    }
    Ok(None)
}

fn remove_field(transaction: &Transaction<'_>, (field, is_rebuilding): (i64, bool)) -> Result<(), IndexError> {
    transaction.execute("DELETE FROM hot_fields WHERE id = ?1", [field])?;
    for tables in
        [TableSet::Live, TableSet::Next].into_iter().filter(|tables| is_rebuilding || *tables == TableSet::Live)
    {
        transaction.execute(&tables.sql("DELETE FROM field_values@ WHERE field = ?1"), [field])?;
    }
    Ok(())
}

fn backfill(transaction: &Transaction<'_>, tables: TableSet, rows: &FieldWriter) -> Result<(), IndexError> {
    let mut pages = transaction.prepare(&tables.sql(
        "SELECT id, coalesce(metadata, frontmatter) FROM pages@ WHERE frontmatter <> '{}' OR metadata IS NOT NULL",
    ))?;
    let mut page_rows = pages.query([])?;
    while let Some(row) = page_rows.next()? {
        let page: i64 = row.get(0)?;
        let frontmatter = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        rows.put(transaction, tables, page, frontmatter)?;
    }
    Ok(())
}
