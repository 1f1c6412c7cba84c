//! The tables of `index.db`, and how the file is opened, created and replaced.
//!
//! Every table exists under its plain name (live) and, during a rebuild, a second time with the
//! suffix `_next`. Only primary keys and unique constraints are used, never named indexes: those
//! keep their name when a table is renamed and would collide with the next rebuild.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

use svcfs_base::HiddenFiles;

use crate::IndexError;
use crate::dates;
use crate::writer::ContentRules;

/// Raised whenever a table, a tokenizer or what is read from a page changes: an older file is
/// deleted.
pub(crate) const SCHEMA: i32 = 19;

/// Page cache of a connection, in SQLite's unit: KiB, negative.
pub(crate) const CACHE: i32 = -16_384;

/// Page cache of a connection that reads full tables, each row once.
pub(crate) const SCAN_CACHE: i32 = -1_024;

/// Page cache of the writer during a bulk load, where the rows of names and links are spread over
/// their tables. This is most of the memory of the first start of a server.
pub(crate) const BULK_LOAD_CACHE: i32 = -20_480;

/// The fields of a page as queries see them: frontmatter and inline fields.
pub(crate) const FIELDS: &str = "coalesce(pages.metadata, pages.frontmatter)";

/// The table set a statement works on; `@` in the statement is replaced by its suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableSet {
    /// The tables that queries read.
    Live,
    /// The tables that a rebuild fills.
    Next,
}

impl TableSet {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Next => "_next",
        }
    }
    pub(crate) fn sql(self, statement: &str) -> String {
        statement.replace('@', self.suffix())
    }
}

/// - `pages`: `frontmatter` is what the page has there; `metadata` is NULL or the same with inline
///   fields and all tags ([`FIELDS`]), and is placed before the wide columns, so that queries read
///   no overflow pages; `inline` is NULL or a list of `[key, text]` of all inline fields.
/// - `facts`: the computed fields of pages in short rows, so that queries on them skip the wide
///   rows.
/// - `assets`: the files that are not pages, with negative ids; `page_keys` has their names too,
///   `links` and `link_keys` the links of canvases.
/// - `texts`: all words of a page. `names`: those of title, names and headings again, so that pages
///   with that name are found among 100,000 that have the word in their text. Both store no text
///   and get prepared words (module `words`).
/// - `bodies`: the text for snippets; `first_line` is the line of the page on which it starts.
/// - `forwards`: all that scoring needs: the words in order, the trust factors (`search::trust`),
///   and the path, which orders equal scores.
/// - `anchors`: the labels of links; rowid = page id * 2^20 + position.
/// - `lint_errors`: the first lint error of each page that has one.
/// - `spellings`: unstemmed words for suggestions and `pre*`. Words that no page has any more stay
///   until the next rebuild, so `texts` is checked before one is suggested.
/// - `usermerge` 2: merges of two segments also continue (module `segments`).
const CREATE: &str = "
    CREATE TABLE pages@ (
        id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, etag BLOB NOT NULL, modified INTEGER NOT NULL,
        title TEXT NOT NULL, excerpt TEXT NOT NULL, word_count INTEGER NOT NULL, metadata TEXT,
        frontmatter TEXT NOT NULL, headings TEXT NOT NULL, size INTEGER NOT NULL, tasks TEXT NOT NULL, inline TEXT
    ) STRICT;
    CREATE TABLE facts@ (
        page INTEGER PRIMARY KEY, word_count INTEGER NOT NULL, size INTEGER NOT NULL, heading_count INTEGER NOT NULL,
        link_count INTEGER NOT NULL, has_frontmatter INTEGER NOT NULL, modified INTEGER NOT NULL, path TEXT NOT NULL
    ) STRICT;
    CREATE TABLE assets@ (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE page_keys@ (
        folded TEXT NOT NULL, kind INTEGER NOT NULL, page INTEGER NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (folded, kind, page, text), UNIQUE (page, kind, text)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE links@ (
        page INTEGER NOT NULL, position INTEGER NOT NULL, is_wiki INTEGER NOT NULL, target TEXT NOT NULL, heading TEXT,
        context TEXT NOT NULL, PRIMARY KEY (page, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE link_keys@ (
        folded TEXT NOT NULL, page INTEGER NOT NULL, position INTEGER NOT NULL,
        PRIMARY KEY (folded, page, position), UNIQUE (page, position, folded)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE field_values@ (
        field INTEGER NOT NULL, kind INTEGER NOT NULL, value ANY NOT NULL, page INTEGER NOT NULL,
        PRIMARY KEY (field, kind, value, page), UNIQUE (page, field, kind, value)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE bodies@ (
        page INTEGER PRIMARY KEY, frontmatter TEXT NOT NULL, body TEXT NOT NULL, first_line INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE forwards@ (
        page INTEGER PRIMARY KEY, path TEXT NOT NULL, soft REAL, hard REAL, words BLOB NOT NULL
    ) STRICT;
    CREATE VIRTUAL TABLE texts@ USING fts5(
        title, called, headings, body, frontmatter, extras, fields,
        content = '', contentless_delete = 1, tokenize = \"ascii tokenchars '-_.:/'\"
    );
    CREATE VIRTUAL TABLE names@ USING fts5(
        title, called, headings, extras, content = '', contentless_delete = 1, tokenize = 'ascii'
    );
    CREATE VIRTUAL TABLE anchors@ USING fts5(
        words, content = '', contentless_delete = 1, tokenize = 'ascii'
    );
    INSERT INTO texts@ (texts@, rank) VALUES ('usermerge', 2);
    INSERT INTO names@ (names@, rank) VALUES ('usermerge', 2);
    INSERT INTO anchors@ (anchors@, rank) VALUES ('usermerge', 2);
    CREATE TABLE spellings@ (word TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE lint_errors@ (page INTEGER PRIMARY KEY, message TEXT NOT NULL) STRICT;
";

const DROP: &str = "
    DROP TABLE IF EXISTS pages@;
    DROP TABLE IF EXISTS facts@;
    DROP TABLE IF EXISTS assets@;
    DROP TABLE IF EXISTS page_keys@;
    DROP TABLE IF EXISTS links@;
    DROP TABLE IF EXISTS link_keys@;
    DROP TABLE IF EXISTS field_values@;
    DROP TABLE IF EXISTS bodies@;
    DROP TABLE IF EXISTS forwards@;
    DROP TABLE IF EXISTS texts@;
    DROP TABLE IF EXISTS names@;
    DROP TABLE IF EXISTS anchors@;
    DROP TABLE IF EXISTS spellings@;
    DROP TABLE IF EXISTS lint_errors@;
";

const RENAME: &str = "
    ALTER TABLE pages_next RENAME TO pages;
    ALTER TABLE facts_next RENAME TO facts;
    ALTER TABLE assets_next RENAME TO assets;
    ALTER TABLE page_keys_next RENAME TO page_keys;
    ALTER TABLE links_next RENAME TO links;
    ALTER TABLE link_keys_next RENAME TO link_keys;
    ALTER TABLE field_values_next RENAME TO field_values;
    ALTER TABLE bodies_next RENAME TO bodies;
    ALTER TABLE forwards_next RENAME TO forwards;
    ALTER TABLE texts_next RENAME TO texts;
    ALTER TABLE names_next RENAME TO names;
    ALTER TABLE anchors_next RENAME TO anchors;
    ALTER TABLE spellings_next RENAME TO spellings;
    ALTER TABLE lint_errors_next RENAME TO lint_errors;
";

/// A vocabulary reads the table of this name, also after a swap.
const VOCABULARIES: &str = "
    CREATE VIRTUAL TABLE terms USING fts5vocab('texts', 'row');
    CREATE VIRTUAL TABLE name_terms USING fts5vocab('names', 'row');
    CREATE VIRTUAL TABLE anchor_terms USING fts5vocab('anchors', 'row');
";

pub(crate) fn create(connection: &Connection, tables: TableSet) -> rusqlite::Result<()> {
    connection.execute_batch(&tables.sql(CREATE))
}

/// Removes a table set, if it exists.
pub(crate) fn drop_tables(connection: &Connection, tables: TableSet) -> rusqlite::Result<()> {
    connection.execute_batch(&tables.sql(DROP))
}

/// Replaces the live tables by the rebuilt ones, in the transaction of the caller.
pub(crate) fn swap(connection: &Connection) -> rusqlite::Result<()> {
    drop_tables(connection, TableSet::Live)?;
    connection.execute_batch(RENAME)
}

/// The settings with which the index was filled.
pub(crate) fn content_rules(connection: &Connection) -> rusqlite::Result<ContentRules> {
    let texts = |sql: &str| -> rusqlite::Result<Vec<String>> {
        connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
    };
    let globs = texts("SELECT glob FROM served_hidden ORDER BY rowid")?;
    Ok(ContentRules {
        typed_links: texts("SELECT field FROM typed_links ORDER BY rowid")?,
        // They were valid when they were stored.
        hidden_files: HiddenFiles::new(&globs).unwrap_or_default(),
    })
}

/// Empties the index, resets the cursor and stores the settings.
pub(crate) fn reset_with_rules(connection: &mut Connection, rules: &ContentRules) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    drop_tables(&transaction, TableSet::Live)?;
    create(&transaction, TableSet::Live)?;
    transaction.execute_batch("DELETE FROM typed_links; DELETE FROM served_hidden; UPDATE position SET cursor = 0;")?;
    for field in &rules.typed_links {
        transaction.execute("INSERT INTO typed_links VALUES (?1)", [field])?;
    }
    for glob in rules.hidden_files.patterns() {
        transaction.execute("INSERT INTO served_hidden VALUES (?1)", [glob])?;
    }
    transaction.commit()
}

/// Opens the write connection and creates the schema. A file that is absent, of another schema, or
/// not a database is replaced.
pub(crate) fn open_writer(file: &Path) -> Result<Connection, IndexError> {
    svcfs_sqlite::open_or_replace::<IndexError>(file, "the index", try_open)?
        .ok_or_else(|| IndexError::Damaged("a new index has another schema".to_owned()))
}

pub(crate) fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    configure(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// `None` when the file has another schema.
fn try_open(file: &Path) -> rusqlite::Result<Option<Connection>> {
    let mut connection = Connection::open(file)?;
    configure(&connection)?;
    // A deferred transaction that reads first fails immediately when it must upgrade while another
    // connection writes (a query that marks the file as damaged). An immediate one waits.
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))?;
    // 16 MiB: a bulk load rewrites the same database pages many times.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 4_096, |_| Ok(()))?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let transaction = connection.transaction()?;
    if version == 0 && tables == 0 {
        create(&transaction, TableSet::Live)?;
        transaction.execute_batch(VOCABULARIES)?;
        transaction.execute_batch(
            "CREATE TABLE position (only INTEGER PRIMARY KEY CHECK (only = 1), cursor INTEGER NOT NULL) STRICT;
             INSERT INTO position VALUES (1, 0);
             CREATE TABLE hot_fields (id INTEGER PRIMARY KEY, field TEXT NOT NULL UNIQUE) STRICT;
             CREATE TABLE typed_links (field TEXT NOT NULL) STRICT;
             CREATE TABLE served_hidden (glob TEXT NOT NULL) STRICT;",
        )?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
    } else if version != SCHEMA {
        return Ok(None);
    }
    // An interrupted rebuild leaves its tables behind.
    drop_tables(&transaction, TableSet::Next)?;
    // Detects damage behind an intact header here and not in the first query.
    transaction.query_row("SELECT count(*) FROM pages, position", [], |_| Ok(()))?;
    transaction.query_row("SELECT count(*) FROM texts WHERE texts MATCH 'a'", [], |_| Ok(()))?;
    transaction.commit()?;
    Ok(Some(connection))
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_secs(5))?;
    // Otherwise SQLite plans a statement again for each new bound value: a fifth of the time of a
    // search. There are no statistics by which values would change a plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    dates::register(connection)
}

/// Returns the outcome unchanged. When it reports corruption, marks the file as outdated in its
/// header, so that the next start replaces it.
pub(crate) fn mark_if_corrupt<T>(file: &Path, outcome: Result<T, IndexError>) -> Result<T, IndexError> {
    if let Err(IndexError::Database(error)) = &outcome {
        svcfs_sqlite::mark_if_corrupt(file, "the index", error);
    }
    outcome
}
