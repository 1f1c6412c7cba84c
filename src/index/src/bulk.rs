//! A whole tree read into an index that is new.
//!
//! Such an index is worth nothing before it is whole, and is made again from the tree when it is lost. So nothing waits for the disk while
//! it is filled: it says of itself that it is unfinished, which the disk knows before the first page is taken in, and an unfinished one gives
//! way to a new one at the next opening. At its end it is flushed as a whole, and only then says that it is finished. Otherwise
//! SQLite waits for the disk twice with each of its checkpoints, a hundred times and more in a large tree.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use svcfs_base::Seq;

use crate::pages::count;
use crate::schema::{self, SCHEMA};
use crate::{Index, IndexError, writer};

/// What an unfinished index says it is: no version at all.
const UNFINISHED: i32 = -SCHEMA;

/// How often a flush is tried that questions hold up, each time for as long as one waits for the file.
const ATTEMPTS: usize = 12;

impl Index {
    /// Does what fills an index; without a flush in between, if there is nothing in it yet.
    pub(crate) fn filling(&self, fill: impl FnOnce() -> Result<(), IndexError>) -> Result<(), IndexError> {
        let is_new = self.begin_filling()?;
        let outcome = fill();
        // What was taken in before an error stays.
        let ended = if is_new { self.end_filling() } else { Ok(()) };
        outcome.and(ended)
    }

    /// Says that the index is unfinished, and has nobody wait for the disk from then on; false when it is to be filled as ever: it is not new,
    /// or condemned already.
    fn begin_filling(&self) -> Result<bool, IndexError> {
        let writer = self.writer.lock();
        let connection = &writer.connection;
        if writer.touched.is_some() || writer::cursor(connection)? != Seq(0) || count(connection, "pages")? > 0 {
            return Ok(false);
        }
        if !restamp(connection, SCHEMA, UNFINISHED)? {
            return Ok(false);
        }
        if !is_flushed(connection)? {
            restamp(connection, UNFINISHED, SCHEMA)?;
            return Ok(false);
        }
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "cache_size", schema::FILLING_CACHE)?;
        Ok(true)
    }

    fn end_filling(&self) -> Result<(), IndexError> {
        let writer = self.writer.lock();
        let connection = &writer.connection;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "cache_size", schema::CACHE)?;
        connection.release_memory()?;
        // Something that is not in its place yet, without which SQLite sees no reason to flush.
        connection.execute("UPDATE position SET cursor = cursor", [])?;
        for _ in 0..ATTEMPTS {
            if is_flushed(connection)? {
                restamp(connection, UNFINISHED, SCHEMA)?;
                return Ok(());
            }
        }
        tracing::warn!("questions held up the flush of a new index; it is used, and the next start makes it again");
        Ok(())
    }
}

/// Has the index say another version, unless it says something else than was thought: a question that met damage condemned it, which holds.
fn restamp(connection: &Connection, from: i32, to: i32) -> rusqlite::Result<bool> {
    // Nobody condemns it between the look and the stamp.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == from {
        transaction.pragma_update(None, "user_version", to)?;
    }
    transaction.commit()?;
    Ok(version == from)
}

/// Puts everything in its place and has the disk keep it; false when a question that goes on held that up for as long as one waits here.
fn is_flushed(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| Ok(row.get::<_, i64>(0)? == 0))
}
