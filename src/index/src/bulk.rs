//! Bulk load of a full tree into a new index.
//!
//! A partly filled index is useless, and it can be rebuilt from the tree. So nothing is flushed
//! while it fills: its version number says "unfinished", which is flushed before the first page is
//! written, and the next open replaces an unfinished index. At the end everything is flushed once
//! and the version number becomes valid. Without this, SQLite flushes twice per checkpoint,
//! hundreds of times for a large tree.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use svcfs_base::Seq;

use crate::pages::count;
use crate::schema::{self, SCHEMA};
use crate::{Index, IndexError, writer};

/// The version number of an unfinished index; never valid.
const UNFINISHED: i32 = -SCHEMA;

/// How often a flush that running queries block is retried, each time for one busy timeout.
const FLUSH_ATTEMPTS: usize = 12;

impl Index {
    /// Runs `fill`, without flushes if the index is empty.
    pub(crate) fn with_bulk_load(&self, fill: impl FnOnce() -> Result<(), IndexError>) -> Result<(), IndexError> {
        let is_new = self.start_bulk_load()?;
        let outcome = fill();
        // Batches that were written before an error stay.
        let ended = if is_new { self.finish_bulk_load() } else { Ok(()) };
        outcome.and(ended)
    }

    /// Marks the index as unfinished and turns flushing off. False when the index must be filled
    /// with flushes: it is not empty, or was marked as damaged.
    fn start_bulk_load(&self) -> Result<bool, IndexError> {
        let writer = self.writer.lock();
        let connection = &writer.connection;
        if writer.touched_pages.is_some() || writer::cursor(connection)? != Seq(0) || count(connection, "pages")? > 0 {
            return Ok(false);
        }
        if !change_version(connection, SCHEMA, UNFINISHED)? {
            return Ok(false);
        }
        if !checkpoint_fully(connection)? {
            change_version(connection, UNFINISHED, SCHEMA)?;
            return Ok(false);
        }
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "cache_size", schema::BULK_LOAD_CACHE)?;
        Ok(true)
    }

    fn finish_bulk_load(&self) -> Result<(), IndexError> {
        let writer = self.writer.lock();
        let connection = &writer.connection;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "cache_size", schema::CACHE)?;
        connection.release_memory()?;
        // SQLite flushes only when something is left to checkpoint.
        connection.execute("UPDATE position SET cursor = cursor", [])?;
        for _ in 0..FLUSH_ATTEMPTS {
            if checkpoint_fully(connection)? {
                change_version(connection, UNFINISHED, SCHEMA)?;
                return Ok(());
            }
        }
        tracing::warn!("running queries blocked the flush of the new index; it is used, and rebuilt at the next start");
        Ok(())
    }
}

/// Changes the version number if it is still `from`: a query that met damage may have changed it,
/// and that mark must stay.
fn change_version(connection: &Connection, from: i32, to: i32) -> rusqlite::Result<bool> {
    // An immediate transaction: no other connection can change the version between read and write.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == from {
        transaction.pragma_update(None, "user_version", to)?;
    }
    transaction.commit()?;
    Ok(version == from)
}

/// Checkpoints and flushes everything; false when a running query blocked it for the full busy
/// timeout.
fn checkpoint_fully(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| Ok(row.get::<_, i64>(0)? == 0))
}
