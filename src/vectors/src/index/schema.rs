//! The tables of `vectors.db`, and how the file is opened, created and replaced.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

use super::VectorIndexError;

/// Raised whenever a table changes: an older file is deleted.
const SCHEMA: i32 = 1;

/// Page cache of a connection, in SQLite's unit: KiB, negative.
const CACHE: i32 = -2_048;

/// - `models`: those whose vectors are stored; a second one while pages are embedded again.
/// - `pages`: a row for each page and model; `rules` are those of its chunks.
/// - Ids of pages are never used again: a remote store may still have chunks of a removed page.
/// - `chunks`: `vector` is NULL if the text has no meaning to the model; `is_stored` tells whether
///   the remote store has it.
/// - `vectors`: by hash of model and text, so that equal texts are embedded once.
/// - `removals`: chunks that the remote store still has.
/// - `remote_store`: the store and the model that `is_stored` refers to.
const CREATE: &str = "
    CREATE TABLE models (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE pages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, model INTEGER NOT NULL, etag BLOB NOT NULL, rules TEXT NOT NULL,
        UNIQUE (path, model)
    ) STRICT;
    CREATE TABLE chunks (
        page INTEGER NOT NULL, ord INTEGER NOT NULL, first_line INTEGER NOT NULL, last_line INTEGER NOT NULL,
        heading TEXT, vector INTEGER, is_stored INTEGER NOT NULL, PRIMARY KEY (page, ord)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX chunks_of_vector ON chunks (vector) WHERE vector IS NOT NULL;
    CREATE INDEX chunks_to_store ON chunks (page, ord) WHERE is_stored = 0 AND vector IS NOT NULL;
    CREATE TABLE vectors (
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, scale REAL NOT NULL, numbers BLOB NOT NULL
    ) STRICT;
    CREATE TABLE removals (id INTEGER PRIMARY KEY) STRICT;
    CREATE TABLE remote_store (name TEXT NOT NULL) STRICT;
";

/// Opens the file for writing. One that is absent, of another schema, or damaged is replaced.
pub(super) fn open_writer(file: &Path) -> Result<Connection, VectorIndexError> {
    svcfs_sqlite::open_or_replace::<VectorIndexError>(file, "vectors.db", try_open)?
        .ok_or_else(|| VectorIndexError::Damaged("a new file has another schema".to_owned()))
}

pub(super) fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    configure(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// `None` when the file has another schema.
fn try_open(file: &Path) -> rusqlite::Result<Option<Connection>> {
    let mut connection = Connection::open(file)?;
    configure(&connection)?;
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", 16 << 20, |_| Ok(()))?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if version == 0 && tables == 0 {
        let transaction = connection.transaction()?;
        transaction.execute_batch(CREATE)?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
        transaction.commit()?;
    } else if version != SCHEMA {
        return Ok(None);
    }
    // Detects damage behind an intact header here and not in the first search.
    for table in ["models", "pages", "chunks", "vectors", "removals", "remote_store"] {
        connection.query_row(&format!("SELECT EXISTS (SELECT 1 FROM {table})"), [], |_| Ok(()))?;
    }
    Ok(Some(connection))
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_secs(5))?;
    // Otherwise the partial indexes make SQLite plan a statement again for each new bound value: a
    // third of the time of a search.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", CACHE)
}

/// Marks a damaged file as outdated in its header, so that the next start replaces it.
pub(super) fn mark_if_corrupt<T>(file: &Path, outcome: Result<T, VectorIndexError>) -> Result<T, VectorIndexError> {
    if let Err(VectorIndexError::Database(error)) = &outcome {
        svcfs_sqlite::mark_if_corrupt(file, "vectors.db", error);
    }
    outcome
}
