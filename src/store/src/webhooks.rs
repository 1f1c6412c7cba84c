//! `webhooks.db`: webhooks, and their notifications until these are delivered.
//!
//! Invariant: the position of a webhook in the feed and the notifications up to it are stored
//! together, so each event leads to its notifications exactly once. The file contains the secrets
//! with which they are signed, so only its owner can read it.

use std::path::Path;

use rusqlite::{Connection, Row, Transaction};
use svcfs_base::{Seq, Timestamp, TreePath, WebhookEvent};

use crate::StoreError;
use crate::sqlite_file::{SqliteFile, SqliteFormat, snapshot_database};

const FORMAT: SqliteFormat = SqliteFormat {
    name: "webhooks.db",
    version: 1,
    tables: "CREATE TABLE IF NOT EXISTS hooks (id TEXT PRIMARY KEY, url TEXT NOT NULL, path_glob TEXT NOT NULL, events TEXT NOT NULL,
             secret TEXT NOT NULL, is_static INTEGER NOT NULL, created_at INTEGER NOT NULL, seq INTEGER NOT NULL,
             part INTEGER NOT NULL, failing_since INTEGER, disabled_at INTEGER, disabled_reason TEXT) STRICT;
             CREATE TABLE IF NOT EXISTS deliveries (number INTEGER PRIMARY KEY, hook TEXT NOT NULL, message TEXT NOT NULL,
             event TEXT NOT NULL, path TEXT NOT NULL, former_path TEXT, body TEXT NOT NULL, attempts INTEGER NOT NULL,
             next_at INTEGER NOT NULL) STRICT;
             CREATE TABLE IF NOT EXISTS attempts (number INTEGER PRIMARY KEY, hook TEXT NOT NULL, message TEXT NOT NULL,
             event TEXT NOT NULL, path TEXT NOT NULL, attempt INTEGER NOT NULL, at INTEGER NOT NULL,
             duration INTEGER NOT NULL, status INTEGER, error TEXT, next_at INTEGER) STRICT;
             CREATE INDEX IF NOT EXISTS deliveries_of_hook ON deliveries (hook);
             CREATE INDEX IF NOT EXISTS attempts_of_hook ON attempts (hook, number)",
    // One flush for each batch of deliveries.
    journal: "WAL",
};

/// Attempts of a webhook that are logged.
const MAX_LOGGED_ATTEMPTS: i64 = 200;

/// A position in the change feed: the last complete set, and how many changes of the next one are
/// done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookPosition {
    /// The last complete set.
    pub seq: Seq,
    /// Changes of the next set that are done.
    pub part: usize,
}

/// A webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredHook {
    /// Its id.
    pub id: String,
    /// Address of the receiver.
    pub url: String,
    /// The chosen files.
    pub path_glob: String,
    /// The chosen events; empty for all.
    pub events: Vec<WebhookEvent>,
    /// The secret with which notifications are signed.
    pub secret: String,
    /// Whether it is one of the settings.
    pub is_static: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// Up to where the feed has been read.
    pub position: HookPosition,
    /// Time of the first failed attempt since the last successful one.
    pub failing_since: Option<Timestamp>,
    /// When and why it was disabled.
    pub disabled: Option<(Timestamp, String)>,
}

/// A notification that is not delivered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedDelivery {
    /// Its place in the order.
    pub number: i64,
    /// Id of its webhook.
    pub hook: String,
    /// The id that the receiver sees, the same in every attempt.
    pub message: String,
    /// The event.
    pub event: WebhookEvent,
    /// The file.
    pub path: TreePath,
    /// The former name of a renamed file.
    pub former_path: Option<TreePath>,
    /// The body as JSON.
    pub body: String,
    /// Failed attempts so far.
    pub attempts: u32,
    /// When the next attempt is due.
    pub next_at: Timestamp,
}

/// One attempt to deliver a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// Id of its webhook.
    pub hook: String,
    /// The id that the receiver sees.
    pub message: String,
    /// The event.
    pub event: WebhookEvent,
    /// The file.
    pub path: TreePath,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// When it began.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Status of the answer; none without one.
    pub status: Option<u16>,
    /// Why it failed; none if it succeeded.
    pub error: Option<String>,
    /// When the next attempt is due; none if there is none.
    pub next_at: Option<Timestamp>,
}

/// A change of the stored webhooks.
#[derive(Clone)]
pub enum HookWrite {
    /// A new or changed webhook.
    Put(StoredHook),
    /// Another position of a webhook.
    Advance(String, HookPosition),
    /// The end of a webhook, with its notifications and log.
    Remove(String),
    /// The end of the waiting notifications of a webhook.
    Clear(String),
    /// A new notification.
    Enqueue(QueuedDelivery),
    /// A failed attempt: the number, the attempts so far, and when the next is due.
    Retry(i64, u32, Timestamp),
    /// The end of a notification.
    Finish(i64),
    /// An attempt for the log.
    Log(DeliveryAttempt),
}

/// Everything stored, without bodies.
#[derive(Default)]
pub struct StoredHooks {
    /// The webhooks.
    pub hooks: Vec<StoredHook>,
    /// Waiting notifications in order, with empty bodies.
    pub queue: Vec<QueuedDelivery>,
}

/// The file; it is created with the first webhook.
pub struct HookFile {
    database: SqliteFile,
}

impl HookFile {
    /// Opens the file of a space and reads its content. A damaged file is logged and set aside.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read for another reason, such as a lock or an I/O
    /// error, and when a damaged one cannot be renamed.
    pub fn open(file: &Path) -> Result<(Self, StoredHooks), StoreError> {
        let consequence = "its webhooks and waiting notifications are lost; register the webhooks again";
        let (database, stored) = SqliteFile::open_or_set_aside(file, &FORMAT, read_all, consequence)?;
        Ok((Self { database }, stored))
    }

    /// Makes changes, all or none, with one flush.
    ///
    /// # Errors
    /// [`StoreError`] of the database; nothing has changed then.
    pub fn write(&self, writes: &[HookWrite]) -> Result<(), StoreError> {
        self.database.create_private()?;
        self.database.in_transaction(|transaction| writes.iter().try_for_each(|write| apply(transaction, write)))
    }

    /// Waiting notifications by their numbers, with their bodies.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn deliveries(&self, numbers: &[i64]) -> Result<Vec<QueuedDelivery>, StoreError> {
        let read = |connection: &Connection| {
            let sql = "SELECT number, hook, message, event, path, former_path, attempts, next_at, body FROM deliveries
                       WHERE number = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let mut deliveries = Vec::with_capacity(numbers.len());
            for number in numbers {
                let mut rows = statement.query([number])?;
                let Some(row) = rows.next()? else { continue };
                let body = row.get(8)?;
                deliveries.extend(delivery(row)?.map(|delivery| QueuedDelivery { body, ..delivery }));
            }
            Ok(deliveries)
        };
        Ok(self.database.with_open(read)?.unwrap_or_default())
    }

    /// The latest attempts of a webhook, newest first.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn attempts(&self, hook: &str, limit: usize) -> Result<Vec<DeliveryAttempt>, StoreError> {
        let read = |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT hook, message, event, path, attempt, at, duration, status, error, next_at FROM attempts
                 WHERE hook = ?1 ORDER BY number DESC LIMIT ?2",
            )?;
            let mut rows = statement.query((hook, i64::try_from(limit).unwrap_or(i64::MAX)))?;
            let mut attempts = Vec::new();
            while let Some(row) = rows.next()? {
                attempts.extend(attempt(row)?);
            }
            Ok(attempts)
        };
        Ok(self.database.with_open(read)?.unwrap_or_default())
    }
}

/// Copies the webhooks into a new file, without waiting notifications and logged attempts: those
/// are about the log of this root. Equal webhooks give equal files.
///
/// # Errors
/// [`StoreError`] when the file cannot be read, or the copy cannot be written.
pub fn snapshot_webhooks(from: &Path, to: &Path) -> Result<(), StoreError> {
    snapshot_database(from, to)?;
    let copy = Connection::open(to)?;
    // A position after the end of every log: a root that is restored begins at its end.
    copy.execute("UPDATE hooks SET seq = ?1, part = 0, failing_since = NULL", [i64::MAX])?;
    copy.execute_batch("DELETE FROM deliveries; DELETE FROM attempts; VACUUM")?;
    Ok(())
}

fn apply(transaction: &Transaction<'_>, write: &HookWrite) -> Result<(), StoreError> {
    match write {
        HookWrite::Put(hook) => put_hook(transaction, hook)?,
        HookWrite::Advance(id, HookPosition { seq, part }) => {
            let sql = "UPDATE hooks SET seq = ?2, part = ?3 WHERE id = ?1";
            transaction.prepare_cached(sql)?.execute((id, integer(seq.0), integer(*part as u64)))?;
        }
        HookWrite::Remove(id) => {
            for sql in [
                "DELETE FROM hooks WHERE id = ?1",
                "DELETE FROM deliveries WHERE hook = ?1",
                "DELETE FROM attempts WHERE hook = ?1",
            ] {
                transaction.prepare_cached(sql)?.execute([id])?;
            }
        }
        HookWrite::Clear(id) => {
            transaction.prepare_cached("DELETE FROM deliveries WHERE hook = ?1")?.execute([id])?;
        }
        HookWrite::Enqueue(delivery) => {
            let sql = "INSERT OR REPLACE INTO deliveries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
            transaction.prepare_cached(sql)?.execute((
                delivery.number,
                &delivery.hook,
                &delivery.message,
                delivery.event.name(),
                delivery.path.as_str(),
                delivery.former_path.as_ref().map(TreePath::as_str),
                &delivery.body,
                delivery.attempts,
                delivery.next_at.as_microsecond(),
            ))?;
        }
        HookWrite::Retry(number, attempts, next_at) => {
            let sql = "UPDATE deliveries SET attempts = ?2, next_at = ?3 WHERE number = ?1";
            transaction.prepare_cached(sql)?.execute((number, attempts, next_at.as_microsecond()))?;
        }
        HookWrite::Finish(number) => {
            transaction.prepare_cached("DELETE FROM deliveries WHERE number = ?1")?.execute([number])?;
        }
        HookWrite::Log(attempt) => log_attempt(transaction, attempt)?,
    }
    Ok(())
}

fn put_hook(transaction: &Transaction<'_>, hook: &StoredHook) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO hooks VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let events: Vec<&str> = hook.events.iter().map(|event| event.name()).collect();
    transaction.prepare_cached(sql)?.execute((
        &hook.id,
        &hook.url,
        &hook.path_glob,
        events.join(","),
        &hook.secret,
        hook.is_static,
        hook.created_at.as_microsecond(),
        integer(hook.position.seq.0),
        integer(hook.position.part as u64),
        hook.failing_since.map(Timestamp::as_microsecond),
        hook.disabled.as_ref().map(|(at, _)| at.as_microsecond()),
        hook.disabled.as_ref().map(|(_, reason)| reason),
    ))?;
    Ok(())
}

fn log_attempt(transaction: &Transaction<'_>, attempt: &DeliveryAttempt) -> Result<(), StoreError> {
    let sql = "INSERT INTO attempts (hook, message, event, path, attempt, at, duration, status, error, next_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    transaction.prepare_cached(sql)?.execute((
        &attempt.hook,
        &attempt.message,
        attempt.event.name(),
        attempt.path.as_str(),
        attempt.attempt,
        attempt.at.as_microsecond(),
        integer(attempt.duration_ms),
        attempt.status,
        &attempt.error,
        attempt.next_at.map(Timestamp::as_microsecond),
    ))?;
    let sql = "DELETE FROM attempts WHERE hook = ?1 AND number <= (SELECT number FROM attempts WHERE hook = ?1
               ORDER BY number DESC LIMIT 1 OFFSET ?2)";
    transaction.prepare_cached(sql)?.execute((&attempt.hook, MAX_LOGGED_ATTEMPTS))?;
    Ok(())
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads webhooks and queue; rows with an invalid path, time or event are skipped.
fn read_all(connection: &Connection) -> Result<StoredHooks, StoreError> {
    let mut stored = StoredHooks::default();
    let mut statement = connection.prepare(
        "SELECT id, url, path_glob, events, secret, is_static, created_at, seq, part, failing_since, disabled_at,
         disabled_reason FROM hooks ORDER BY created_at, id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        stored.hooks.extend(hook(row)?);
    }
    let sql =
        "SELECT number, hook, message, event, path, former_path, attempts, next_at FROM deliveries ORDER BY number";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        stored.queue.extend(delivery(row)?);
    }
    Ok(stored)
}

fn hook(row: &Row<'_>) -> Result<Option<StoredHook>, StoreError> {
    let time = |index: usize| -> Result<Option<Timestamp>, StoreError> {
        Ok(row.get::<_, Option<i64>>(index)?.and_then(|micros| Timestamp::from_microsecond(micros).ok()))
    };
    let Some(created_at) = time(6)? else { return Ok(None) };
    let reason: Option<String> = row.get(11)?;
    Ok(Some(StoredHook {
        id: row.get(0)?,
        url: row.get(1)?,
        path_glob: row.get(2)?,
        events: row.get::<_, String>(3)?.split(',').filter_map(WebhookEvent::parse).collect(),
        secret: row.get(4)?,
        is_static: row.get(5)?,
        created_at,
        position: HookPosition {
            seq: Seq(row.get::<_, i64>(7)?.max(0).cast_unsigned()),
            part: usize::try_from(row.get::<_, i64>(8)?).unwrap_or_default(),
        },
        failing_since: time(9)?,
        disabled: time(10)?.zip(reason),
    }))
}

/// A notification without its body.
fn delivery(row: &Row<'_>) -> Result<Option<QueuedDelivery>, StoreError> {
    let event = WebhookEvent::parse(&row.get::<_, String>(3)?);
    let path = TreePath::parse(&row.get::<_, String>(4)?);
    let former_path = row.get::<_, Option<String>>(5)?.map(|path| TreePath::parse(&path)).transpose();
    let next_at = Timestamp::from_microsecond(row.get(7)?);
    let (Some(event), Ok(path), Ok(former_path), Ok(next_at)) = (event, path, former_path, next_at) else {
        return Ok(None);
    };
    Ok(Some(QueuedDelivery {
        number: row.get(0)?,
        hook: row.get(1)?,
        message: row.get(2)?,
        event,
        path,
        former_path,
        body: String::new(),
        attempts: row.get(6)?,
        next_at,
    }))
}

fn attempt(row: &Row<'_>) -> Result<Option<DeliveryAttempt>, StoreError> {
    let event = WebhookEvent::parse(&row.get::<_, String>(2)?);
    let path = TreePath::parse(&row.get::<_, String>(3)?);
    let at = Timestamp::from_microsecond(row.get(5)?);
    let next_at = row.get::<_, Option<i64>>(9)?.and_then(|micros| Timestamp::from_microsecond(micros).ok());
    let (Some(event), Ok(path), Ok(at)) = (event, path, at) else { return Ok(None) };
    Ok(Some(DeliveryAttempt {
        hook: row.get(0)?,
        message: row.get(1)?,
        event,
        path,
        attempt: row.get(4)?,
        at,
        duration_ms: row.get::<_, i64>(6)?.max(0).cast_unsigned(),
        status: row.get(7)?,
        error: row.get(8)?,
        next_at,
    }))
}

#[cfg(test)]
mod tests;
