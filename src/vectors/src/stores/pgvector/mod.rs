//! `PostgreSQL` with the extension pgvector.

mod session;

use std::time::Duration;

use parking_lot::Mutex;
use svcfs_base::TreePath;
use tokio::runtime::Runtime;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::{SETTINGS, StoreOptions, batches};
use crate::NearVector;
use crate::remote::{MAX_INTERACTIVE_TIMEOUT, OptionError, option_error};
use crate::store::{StoreError, StoredVector, VectorFilter, VectorStore};
use session::{PgFailure, Session};

const DEFAULT_TABLE: &str = "svcfs_vectors";
/// Rows in one statement.
const BATCH: usize = 200;
/// Limit of a name in `PostgreSQL`, which silently cuts longer ones.
const MAX_NAME_BYTES: usize = 63;

pub(super) struct PgVectorStore {
    config: Config,
    table: TableName,
    timeout: Duration,
    /// Runs the connections. Only `drop` takes it.
    runtime: Option<Runtime>,
    /// Separate connections, so that a search does not wait for writes.
    writer: Mutex<Option<Session>>,
    reader: Mutex<Option<Session>>,
}

/// A table, quoted for statements.
struct TableName {
    quoted: String,
    /// The name of its index, without schema.
    index: String,
}

impl PgVectorStore {
    pub fn new(options: &StoreOptions) -> Result<Self, OptionError> {
        let dsn = options.dsn.as_ref().filter(|dsn| !dsn.expose().is_empty()).ok_or_else(|| {
            option_error(
                SETTINGS,
                "dsn",
                "is missing; write for example \"postgresql://svcfs:${PG_PASSWORD}@host/database\"",
            )
        })?;
        let config = parse_dsn(dsn.expose()).map_err(|reason| option_error(SETTINGS, "dsn", reason))?;
        let table = TableName::of(options)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("pgvector")
            .enable_all()
            .build()
            .map_err(|error| option_error(SETTINGS, "dsn", format!("cannot be used: no thread: {error}")))?;
        Ok(Self {
            config,
            table,
            timeout: options.timeout,
            runtime: Some(runtime),
            writer: Mutex::new(None),
            reader: Mutex::new(None),
        })
    }

    /// Runs statements on an open connection; after a lost connection, once more on a new one.
    fn run<T>(
        &self,
        (slot, timeout): (&Mutex<Option<Session>>, Duration),
        action: impl AsyncFn(&Session) -> Result<T, PgFailure>,
    ) -> Result<T, StoreError> {
        let Some(runtime) = &self.runtime else { return Err(StoreError("PostgreSQL: svcfs is stopping".to_owned())) };
        // Searches behind one without an answer must not wait for the sum of all timeouts.
        let Some(mut slot) = slot.try_lock_for(timeout) else {
            return Err(self.store_error(&PgFailure::Timeout(timeout)));
        };
        let attempt = async |session: Option<Session>| {
            let session = match session.filter(Session::is_open) {
                Some(session) => session,
                None => Session::open(&self.config, &self.table.quoted, self.timeout).await?,
            };
            let result = action(&session).await;
            result.map(|value| (value, session))
        };
        let mut was_open = slot.is_some();
        loop {
            let session = slot.take();
            let result = runtime.block_on(async { tokio::time::timeout(timeout, attempt(session)).await });
            match result.unwrap_or(Err(PgFailure::Timeout(timeout))) {
                Ok((value, session)) => {
                    *slot = Some(session);
                    return Ok(value);
                }
                Err(failure) if was_open && failure.is_lost_connection() => was_open = false,
                Err(failure) => return Err(self.store_error(&failure)),
            }
        }
    }

    /// Where the vectors are, without secrets: another place is filled from the start.
    pub fn place(&self) -> String {
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{} {:?} {database} {}", self.hosts(), self.config.get_ports(), self.table.quoted)
    }

    fn hosts(&self) -> String {
        let hosts: Vec<String> = self.config.get_hosts().iter().map(host_name).collect();
        hosts.join(", ")
    }

    fn store_error(&self, failure: &PgFailure) -> StoreError {
        StoreError(format!("PostgreSQL at `{}`: {failure}", self.hosts()))
    }
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// Reads a DSN. The certificate of the server is always checked, so the stricter modes of other
/// clients are `require` here.
fn parse_dsn(dsn: &str) -> Result<Config, String> {
    let dsn = dsn.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require");
    // The message of the parser may not quote the DSN, which has the password.
    let mut config: Config = dsn.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
        format!(
            "is no DSN of PostgreSQL{cause}; write for example \"postgresql://user:${{PG_PASSWORD}}@host/database\""
        )
    })?;
    if config.get_hosts().is_empty() {
        return Err("names no host".to_owned());
    }
    let is_local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
    };
    // A server on this machine often has a self-signed certificate, and TLS protects nothing there.
    // Elsewhere, `Prefer` would send the password in clear text to a server that answers "no TLS".
    if config.get_ssl_mode() == SslMode::Prefer {
        let is_near = config.get_hosts().iter().all(is_local);
        config.ssl_mode(if is_near { SslMode::Disable } else { SslMode::Require });
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    if config.get_application_name().is_none() {
        config.application_name("svcfs");
    }
    Ok(config)
}

impl TableName {
    fn of(options: &StoreOptions) -> Result<Self, OptionError> {
        let name = options.table.as_deref().unwrap_or(DEFAULT_TABLE);
        let is_name =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let (schema, table) = name.rsplit_once('.').map_or((None, name), |(schema, table)| (Some(schema), table));
        let with_space = format!("{table}_{}", options.space_suffix());
        let index = format!("{with_space}_hnsw");
        let is_short = index.len() <= MAX_NAME_BYTES && schema.is_none_or(|schema| schema.len() <= MAX_NAME_BYTES);
        if !is_name(table) || !schema.is_none_or(is_name) || !is_short {
            let reason =
                "is no name of a table: up to 30 letters, digits and `_`, with a schema and `.` before it if needed";
            return Err(option_error(SETTINGS, "table", reason));
        }
        let schema = schema.map(|schema| format!("\"{schema}\".")).unwrap_or_default();
        Ok(Self { quoted: format!("{schema}\"{with_space}\""), index: format!("\"{index}\"") })
    }
}

impl Drop for PgVectorStore {
    fn drop(&mut self) {
        // The store may be dropped inside another runtime, where waiting would panic.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl VectorStore for PgVectorStore {
    fn upsert(&self, vectors: &[StoredVector]) -> Result<(), StoreError> {
        let Some(first) = vectors.first() else { return Ok(()) };
        let dimensions = first.vector.len();
        for batch in batches(vectors, BATCH) {
            self.run((&self.writer, self.timeout), async |session| {
                session.prepare_table(&self.table.quoted, &self.table.index, dimensions).await?;
                session.upsert(&self.table.quoted, &batch).await
            })?;
        }
        Ok(())
    }

    fn delete(&self, ids: &[i64]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.run((&self.writer, self.timeout), async |session| session.delete(&self.table.quoted, ids).await)
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.run((&self.writer, self.timeout), async |session| session.drop_table(&self.table.quoted).await)
    }

    fn search(&self, question: &[f32], limit: usize, filter: &VectorFilter) -> Result<Vec<NearVector>, StoreError> {
        let (folder, timeout) = (filter.below().map(TreePath::as_str), self.timeout.min(MAX_INTERACTIVE_TIMEOUT));
        self.run((&self.reader, timeout), async |session| {
            session.search(&self.table.quoted, question, limit, folder).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::StoreProvider;
    use super::*;
    use crate::Secret;

    fn options(dsn: &str, table: Option<&str>) -> StoreOptions {
        let dsn = Some(Secret::new(dsn));
        StoreOptions { dsn, table: table.map(str::to_owned), ..StoreOptions::new(StoreProvider::PgVector, "s") }
    }

    #[test]
    fn tables_are_quoted_and_other_texts_refused() {
        for (table, expected) in [
            (None, "\"svcfs_vectors_s\""),
            (Some("Chunks2"), "\"Chunks2_s\""),
            (Some("kb.chunks"), "\"kb\".\"chunks_s\""),
        ] {
            assert_eq!(TableName::of(&options("host=x", table)).ok().unwrap().quoted, expected);
        }
        for table in ["", ".", "a.", ".b", "a.b.c", "a b", "a\"; DROP TABLE x; --", "t\0", "tä", &"x".repeat(64)] {
            let error = TableName::of(&options("host=x", Some(table))).err().unwrap();
            assert_eq!(error.key, "search.vector.store.table", "{table:?}");
        }
        // Names of spaces that are no names of tables get their own tables, too.
        let of_space = |space: &str| {
            let options = StoreOptions { space: space.to_owned(), ..options("host=x", None) };
            TableName::of(&options).ok().unwrap().quoted
        };
        let tables = ["a", "A", "a b", "a_b", "ä", "", &"x".repeat(300)].map(of_space);
        for (at, table) in tables.iter().enumerate() {
            assert!(!tables[at + 1..].contains(table) && table.len() < 60, "{table}");
        }
    }

    #[test]
    fn tls_is_checked_except_on_this_machine() {
        for (dsn, mode) in [
            ("postgresql://u:p@db.example/x", SslMode::Require),
            ("postgresql://u:p@db.example/x?sslmode=verify-full", SslMode::Require),
            ("host=db.example sslmode=disable", SslMode::Disable),
            ("host=localhost", SslMode::Disable),
            ("host=127.0.0.1", SslMode::Disable),
            ("host=/run/postgresql", SslMode::Disable),
            ("host=localhost sslmode=require", SslMode::Require),
            ("host=localhost,db.example", SslMode::Require),
        ] {
            assert_eq!(parse_dsn(dsn).unwrap().get_ssl_mode(), mode, "{dsn}");
        }
        for dsn in ["postgresql://u:hunter2@h:port/x", "hunter2", "host=h password=hunter2 sslmode=maybe", "user=x"] {
            let error = PgVectorStore::new(&options(dsn, None)).err().unwrap().to_string();
            assert!(error.contains("`search.vector.store.dsn`") && !error.contains("hunter2"), "{error}");
        }
    }
}
