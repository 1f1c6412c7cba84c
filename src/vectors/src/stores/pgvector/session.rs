//! A connection to `PostgreSQL` and the statements on one table.

use std::fmt;
use std::fmt::Write;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::super::{SETTINGS, wrong_dimensions};
use crate::NearVector;
use crate::store::StoredVector;

/// Longest vectors that an index of pgvector takes.
const MAX_INDEXED_HALFVEC: usize = 4_000;
const MAX_INDEXED_VECTOR: usize = 2_000;

/// An open connection.
pub(super) struct Session {
    client: Client,
    /// What was found out about the table; none while it does not exist.
    table: Mutex<Option<TableShape>>,
}

/// The column of the vectors.
#[derive(Clone, PartialEq, Eq)]
struct TableShape {
    /// `halfvec` or `vector`.
    kind: String,
    dimensions: usize,
}

/// Why a statement failed.
pub(super) enum PgFailure {
    Timeout(Duration),
    Database(tokio_postgres::Error),
    /// A complete message.
    Message(String),
}

impl PgFailure {
    pub fn is_lost_connection(&self) -> bool {
        let Self::Database(error) = self else { return false };
        let code = error.code();
        let is_shutdown =
            code.is_some_and(|code| *code == SqlState::ADMIN_SHUTDOWN || *code == SqlState::CRASH_SHUTDOWN);
        error.is_closed() || is_shutdown
    }
}

impl From<tokio_postgres::Error> for PgFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for PgFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = match self {
            Self::Timeout(timeout) => {
                return write!(formatter, "no response within {timeout:?}; check `{SETTINGS}.dsn`");
            }

            Self::Message(message) => return formatter.write_str(message),
            Self::Database(error) => error,
        };
        match error.as_db_error() {
            Some(database) => write!(formatter, "{} (SQLSTATE {})", database.message(), database.code().code())?,
            None => {
                write!(formatter, "{error}")?;
                let mut source = std::error::Error::source(error);
                while let Some(cause) = source {
                    write!(formatter, ": {cause}")?;
                    source = cause.source();
                }
            }
        }
        let code = error.code();
        let is_one_of = |codes: &[SqlState]| code.is_some_and(|code| codes.contains(code));
        if is_one_of(&[SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]) {
            write!(formatter, "; check user and password in `{SETTINGS}.dsn`")
        } else if is_one_of(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
            write!(formatter, "; the user needs the rights to create and change tables in the schema")
        } else if code.is_none() {
            write!(formatter, "; check `{SETTINGS}.dsn`, and that the server runs; `sslmode=disable` turns TLS off")
        } else {
            Ok(())
        }
    }
}

impl Session {
    pub async fn open(config: &Config, table: &str, timeout: Duration) -> Result<Self, PgFailure> {
        let tls = svcfs_net::rustls_config();
        let tls = tls.map_err(|error| PgFailure::Message(format!("the certificates of the system: {error}")))?;
        let (client, connection) = config.connect(MakeRustlsConnect::new(tls)).await?;
        // It ends with the client; its error is that of the statement.
        tokio::spawn(async move { drop(connection.await) });
        // Older versions of pgvector accept settings that they do not have; these have no effect.
        let settings = format!(
            "SET statement_timeout = {}; SET hnsw.ef_search = 200; SET hnsw.iterative_scan = 'strict_order'",
            timeout.as_millis()
        );
        client.batch_execute(&settings).await?;
        let session = Self { client, table: Mutex::new(None) };
        session.read_shape(table).await?;
        Ok(session)
    }

    pub fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    fn shape(&self) -> Option<TableShape> {
        self.table.lock().clone()
    }

    async fn read_shape(&self, table: &str) -> Result<(), PgFailure> {
        let query = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute \
                     WHERE attrelid = to_regclass($1) AND attname = 'embedding' AND NOT attisdropped";
        let row = self.client.query_opt(query, &[&table]).await?;
        let shape = row.map(|row| parse_type(&row.get::<_, String>(0))).transpose();
        let shape = shape.map_err(|found| {
            PgFailure::Message(format!(
                "the column `embedding` of the table {table} is a `{found}`; write another name as `{SETTINGS}.table`"
            ))
        })?;
        *self.table.lock() = shape;
        Ok(())
    }

    /// Makes the table, or checks that it fits.
    pub async fn prepare_table(&self, table: &str, index: &str, dimensions: usize) -> Result<(), PgFailure> {
        if self.shape().is_none() {
            self.create_table(table, index, dimensions).await?;
            self.read_shape(table).await?;
        }
        match self.shape() {
            Some(shape) if shape.dimensions != dimensions => {
                // The next call looks again.
                *self.table.lock() = None;
                let place = format!("the table {table}");
                Err(PgFailure::Message(wrong_dimensions(&place, shape.dimensions, dimensions, "table").0))
            }
            _ => Ok(()),
        }
    }

    async fn create_table(&self, table: &str, index: &str, dimensions: usize) -> Result<(), PgFailure> {
        let (kind, max_indexed) = match self.extension_version().await? {
            (0, ..7) => ("vector", MAX_INDEXED_VECTOR),
            _ => ("halfvec", MAX_INDEXED_HALFVEC),
        };
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {table} \
             (id bigint PRIMARY KEY, path text COLLATE \"C\" NOT NULL, embedding {kind}({dimensions}) NOT NULL); \
             CREATE INDEX ON {table} (path)"
        );
        self.client.batch_execute(&create).await?;
        if dimensions <= max_indexed {
            let create =
                format!("CREATE INDEX IF NOT EXISTS {index} ON {table} USING hnsw (embedding {kind}_cosine_ops)");
            self.client.batch_execute(&create).await?;
        }
        Ok(())
    }

    /// The version of pgvector, which is enabled in the database if it is not yet.
    async fn extension_version(&self) -> Result<(u32, u32), PgFailure> {
        let query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'";
        let mut row = self.client.query_opt(query, &[]).await?;
        if row.is_none() {
            self.client.batch_execute("CREATE EXTENSION IF NOT EXISTS vector").await.map_err(|error| {
                let cause = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
                PgFailure::Message(format!(
                    "the extension pgvector is not enabled ({cause}); install it on the server, and run \
                     `CREATE EXTENSION vector` in the database as a superuser"
                ))
            })?;
            row = self.client.query_opt(query, &[]).await?;
        }
        let version = row.map_or_else(String::new, |row| row.get::<_, String>(0));
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        Ok((numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)))
    }

    pub async fn upsert(&self, table: &str, batch: &[&StoredVector]) -> Result<(), PgFailure> {
        let Some(TableShape { kind, .. }) = self.shape() else { return Ok(()) };
        let ids: Vec<i64> = batch.iter().map(|stored| stored.id).collect();
        let paths: Vec<&str> = batch.iter().map(|stored| stored.path.as_str()).collect();
        let vectors: Vec<String> = batch.iter().map(|stored| vector_text(&stored.vector)).collect();
        let insert = format!(
            "INSERT INTO {table} (id, path, embedding) SELECT id, path, embedding::{kind} \
             FROM unnest($1::bigint[], $2::text[], $3::text[]) AS new (id, path, embedding) \
             ON CONFLICT (id) DO UPDATE SET path = EXCLUDED.path, embedding = EXCLUDED.embedding"
        );
        match self.client.execute(&insert, &[&ids, &paths, &vectors]).await {
            // The table was removed: the next call makes it again.
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                *self.table.lock() = None;
                Err(error.into())
            }
            result => Ok(result.map(drop)?),
        }
    }

    pub async fn delete(&self, table: &str, ids: &[i64]) -> Result<(), PgFailure> {
        let delete = format!("DELETE FROM {table} WHERE id = ANY($1::bigint[])");
        match self.client.execute(&delete, &[&ids]).await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    pub async fn drop_table(&self, table: &str) -> Result<(), PgFailure> {
        *self.table.lock() = None;
        Ok(self.client.batch_execute(&format!("DROP TABLE IF EXISTS {table}")).await?)
    }

    pub async fn search(
        &self,
        table: &str,
        question: &[f32],
        limit: usize,
        folder: Option<&str>,
    ) -> Result<Vec<NearVector>, PgFailure> {
        if self.shape().is_none() {
            self.read_shape(table).await?;
        }
        let Some(TableShape { kind, dimensions }) = self.shape() else { return Ok(Vec::new()) };
        if question.len() != dimensions {
            let place = format!("the table {table}");
            return Err(PgFailure::Message(wrong_dimensions(&place, dimensions, question.len(), "table").0));
        }
        // `0` follows `/`: the range has the paths below the folder, and the index serves it.
        let condition = folder.map_or("", |_| "WHERE path = $3 OR (path >= $3 || '/' AND path < $3 || '0')");
        let select = format!(
            "SELECT id, (embedding <=> $1::text::{kind})::float8 FROM {table} {condition} \
             ORDER BY embedding <=> $1::text::{kind} LIMIT $2"
        );
        let (question, limit) = (vector_text(question), i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = match folder {
            Some(folder) => self.client.query(&select, &[&question, &limit, &folder]).await,
            None => self.client.query(&select, &[&question, &limit]).await,
        };
        let rows = match rows {
            // The table was removed, or made again for another model.
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                *self.table.lock() = None;
                return Ok(Vec::new());
            }
            result => result?,
        };
        let near = rows.iter().map(|row| NearVector { id: row.get(0), similarity: 1.0 - row.get::<_, f64>(1) as f32 });
        Ok(near.collect())
    }
}

/// `halfvec(256)`; the error is a text that is no such type.
fn parse_type(text: &str) -> Result<TableShape, String> {
    // The extension may be in a schema of its own.
    let name = text.rsplit('.').next().unwrap_or(text);
    let parts = name.strip_suffix(')').and_then(|name| name.split_once('('));
    match parts.map(|(kind, dimensions)| (kind, dimensions.parse())) {
        Some((kind @ ("halfvec" | "vector"), Ok(dimensions))) => Ok(TableShape { kind: kind.to_owned(), dimensions }),
        _ => Err(text.to_owned()),
    }
}

/// A vector as pgvector reads it: `[0.5,-1]`.
fn vector_text(vector: &[f32]) -> String {
    let mut text = String::with_capacity(vector.len() * 10 + 2);
    text.push('[');
    for (at, number) in vector.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a text does not fail.
        let _never = write!(text, "{comma}{number}");
    }
    text.push(']');
    text
}
