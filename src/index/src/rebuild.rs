//! Rebuild of the full index while queries run.
//!
//! The new rows go into a second table set; one last transaction swaps the sets. So a query sees
//! either the old or the new index. Why not a second file? Open connections would continue to read
//! the first file, and SQLite's `-wal` file, which is found by name, would be shared by both.
//!
//! Pages that are ingested during a rebuild go into both sets, and the rebuild skips them from then
//! on: its own copy may be older.

use std::collections::HashSet;
use std::error::Error;

use svcfs_base::Seq;

use crate::fields::FieldWriter;
use crate::pipeline;
use crate::schema::{self, TableSet};
use crate::writer::{self, IndexWriter, WriteBatch};
use crate::{Index, IndexEntry, IndexError};

/// A batch is written when it has this many pages …
const BATCH_PAGES: usize = 500;
/// … or this many bytes of text. Concurrent changes wait for one batch at most.
const BATCH_BYTES: usize = 4 << 20;

/// Freed database pages that one vacuum step returns to the file system.
const VACUUM_STEP: i64 = 2_000;

impl Index {
    /// Rebuilds all rows from `pages`, the full tree at position `cursor` of the change log or
    /// later, then swaps them in. `progress` gets the number of files written so far.
    ///
    /// Afterwards [`Index::cursor`] is a position up to which nothing is missing: `cursor`, or
    /// later when changes were ingested concurrently. A second rebuild waits for the first.
    ///
    /// # Errors
    /// [`IndexError::Source`] when `pages` yields an error; [`IndexError::Database`]. Either way
    /// the old index is unchanged.
    pub fn rebuild<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        pages: impl Iterator<Item = Result<IndexEntry, E>>,
        cursor: Seq,
        progress: impl FnMut(usize),
    ) -> Result<(), IndexError> {
        let _guard = self.rebuild.lock();
        let outcome = self.create_next_tables().and_then(|start_cursor| {
            pipeline::run((EntryBatches(pages), &self.rules), |batch| self.write_batch(batch), progress)?;
            self.swap_tables(start_cursor, cursor)
        });
        if outcome.is_err() {
            let mut writer = self.writer.lock();
            writer.touched_pages = None;
            if let Err(error) = schema::drop_tables(&writer.connection, TableSet::Next) {
                tracing::warn!(error = %error, "cannot remove the tables of an unfinished rebuild; the next start removes them");
            }
        }
        schema::mark_if_corrupt(self.readers.file(), outcome)?;
        if let Err(error) = self.vacuum() {
            tracing::warn!(error = %error, "cannot release the disk space of the old index; it will be reused");
        }
        Ok(())
    }

    /// Creates the empty tables; from now on `ingest` fills them too. Returns the live cursor.
    fn create_next_tables(&self) -> Result<Seq, IndexError> {
        let writer = &mut *self.writer.lock();
        let transaction = writer.connection.transaction()?;
        schema::drop_tables(&transaction, TableSet::Next)?;
        schema::create(&transaction, TableSet::Next)?;
        let start_cursor = writer::cursor(&transaction)?;
        transaction.commit()?;
        writer.touched_pages = Some(HashSet::new());
        Ok(start_cursor)
    }

    fn write_batch(&self, batch: &WriteBatch) -> Result<(), IndexError> {
        let writer = &mut *self.writer.lock();
        let transaction = writer.connection.transaction()?;
        let rows = FieldWriter::for_hot_fields(&transaction)?;
        for step in &batch.steps {
            if writer.touched_pages.as_ref().is_none_or(|touched_pages| !touched_pages.contains(step.path())) {
                step.apply(&transaction, TableSet::Next, &rows)?;
            }
        }
        batch.insert_spellings(&transaction, TableSet::Next)?;
        Ok(transaction.commit()?)
    }

    fn swap_tables(&self, start_cursor: Seq, source: Seq) -> Result<(), IndexError> {
        let writer = &mut *self.writer.lock();
        let transaction = writer.connection.transaction()?;
        let live_cursor = writer::cursor(&transaction)?;
        let has_new_changes = writer.touched_pages.as_ref().is_some_and(|touched_pages| !touched_pages.is_empty());
        schema::swap(&transaction)?;
        writer::set_cursor(&transaction, cursor_after_rebuild(start_cursor, source, live_cursor, has_new_changes))?;
        let commit = self.graph.lock_for_commit();
        transaction.commit()?;
        commit.record_full_change();
        self.answers.clear();
        self.backlinks.clear();
        self.changes.record_full_change();
        writer.touched_pages = None;
        Ok(())
    }

    /// Returns the space of the old tables to the file system, in steps, so that other writers can
    /// run in between.
    fn vacuum(&self) -> rusqlite::Result<()> {
        let free = |writer: &IndexWriter| -> rusqlite::Result<i64> {
            writer.connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
        };
        loop {
            let writer = self.writer.lock();
            let before = free(&writer)?;
            {
                // Each row is a page that was freed, and `execute_batch` reads one row only.
                let vacuum = format!("PRAGMA incremental_vacuum({VACUUM_STEP})");
                let mut vacuum = writer.connection.prepare(&vacuum)?;
                let mut freed = vacuum.query([])?;
                while freed.next()?.is_some() {}
            }
            let after = free(&writer)?;
            if after == 0 || after >= before {
                // A later checkpoint returns what running queries still read.
                return writer.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            }
        }
    }
}

struct EntryBatches<I>(I);

impl<E, I: Iterator<Item = Result<IndexEntry, E>>> Iterator for EntryBatches<I> {
    type Item = Result<Vec<IndexEntry>, E>;
    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Vec::new();
        let mut text_bytes = 0;
        while batch.len() < BATCH_PAGES && text_bytes < BATCH_BYTES {
            match self.0.next() {
                Some(Ok(entry)) => {
                    text_bytes += entry.text_bytes();
                    batch.push(entry);
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        (!batch.is_empty()).then_some(Ok(batch))
    }
}

/// The position up to which nothing is missing after a rebuild. The rebuild got the tree of
/// position `source`; meanwhile the live tables went from `start` to `live`, with ingested changes
/// or without.
fn cursor_after_rebuild(start_cursor: Seq, source: Seq, live_cursor: Seq, has_new_changes: bool) -> Seq {
    match (start_cursor <= source, has_new_changes) {
        // Changes between the two were neither in the source nor ingested into the new tables.
        (false, _) => source,
        // The source and the ingested changes cover everything up to `live`. Pages ingested
        // concurrently may be older than `source`.
        (true, true) => live_cursor,
        (true, false) => source.max(live_cursor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_after_a_rebuild_never_skips_a_change() {
        for (start_cursor, source, live_cursor, has_new_changes, then) in [
            (0, 9, 0, false, 9),
            (5, 5, 8, true, 8),
            (5, 9, 7, true, 7),
            (5, 9, 12, true, 12),
            (7, 5, 9, true, 5),
            (7, 5, 7, false, 5),
        ] {
            assert_eq!(
                cursor_after_rebuild(Seq(start_cursor), Seq(source), Seq(live_cursor), has_new_changes),
                Seq(then)
            );
        }
    }
}
