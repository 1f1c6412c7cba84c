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
        let _only_one = self.rebuild.lock();
        let outcome = self.begin().and_then(|began_at| {
            pipeline::run((EntryBatches(pages), &self.typed_links), |batch| self.write(batch), progress)?;
            self.swap(began_at, cursor)
        });
        if outcome.is_err() {
            let mut writer = self.writer.lock();
            writer.touched = None;
            if let Err(error) = schema::drop_tables(&writer.connection, TableSet::Next) {
                tracing::warn!(error = %error, "an unfinished index could not be removed; the next start does it");
            }
        }
        schema::noticed(self.readers.file(), outcome)?;
        if let Err(error) = self.give_back_space() {
            tracing::warn!(error = %error, "the space of the old index could not be given back; it will be used again");
        }
        Ok(())
    }

    /// Creates the empty tables; from now on `ingest` fills them too. Returns the live cursor.
    fn begin(&self) -> Result<Seq, IndexError> {
        let writer = &mut *self.writer.lock();
        let transaction = writer.connection.transaction()?;
        schema::drop_tables(&transaction, TableSet::Next)?;
        schema::create(&transaction, TableSet::Next)?;
        let began_at = writer::cursor(&transaction)?;
        transaction.commit()?;
        writer.touched = Some(HashSet::new());
        Ok(began_at)
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), IndexError> {
        let writer = &mut *self.writer.lock();
        let transaction = writer.connection.transaction()?;
        let rows = FieldWriter::of_hot(&transaction)?;
        for step in &batch.steps {
            if writer.touched.as_ref().is_none_or(|touched| !touched.contains(step.path())) {
                step.take(&transaction, TableSet::Next, &rows)?;
            }
        }
        batch.spell(&transaction, TableSet::Next)?;
        Ok(transaction.commit()?)
    }

    fn swap(&self, began_at: Seq, handed: Seq) -> Result<(), IndexError> {
        let writer = &mut *self.writer.lock();
        let transaction = writer.connection.transaction()?;
        let live = writer::cursor(&transaction)?;
        let meanwhile = writer.touched.as_ref().is_some_and(|touched| !touched.is_empty());
        schema::swap(&transaction)?;
        writer::set_cursor(&transaction, reached(began_at, handed, live, meanwhile))?;
        let committing = self.graph.committing();
        transaction.commit()?;
        committing.replaced();
        self.answers.forget();
        self.backlinks.forget();
        writer.touched = None;
        Ok(())
    }

    /// Returns the space of the old tables to the file system, in steps, so that other writers can
    /// run in between.
    fn give_back_space(&self) -> rusqlite::Result<()> {
        let free = |writer: &IndexWriter| -> rusqlite::Result<i64> {
            writer.connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
        };
        loop {
            let writer = self.writer.lock();
            let before = free(&writer)?;
            writer.connection.execute_batch(&format!("PRAGMA incremental_vacuum({VACUUM_STEP})"))?;
            let after = free(&writer)?;
            if after == 0 || after >= before {
                // A later checkpoint returns what running queries still read.
                return writer.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            }
        }
    }
}

/// Groups files into batches.
struct EntryBatches<I>(I);

impl<E, I: Iterator<Item = Result<IndexEntry, E>>> Iterator for EntryBatches<I> {
    type Item = Result<Vec<IndexEntry>, E>;
    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Vec::new();
        let mut weight = 0;
        while batch.len() < BATCH_PAGES && weight < BATCH_BYTES {
            match self.0.next() {
                Some(Ok(entry)) => {
                    weight += entry.weight();
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
fn reached(began_at: Seq, handed: Seq, live: Seq, meanwhile: bool) -> Seq {
    match (began_at <= handed, meanwhile) {
        // Changes between the two were neither in the source nor ingested into the new tables.
        (false, _) => handed,
        // The source and the ingested changes cover everything up to `live`. Pages ingested
        // concurrently may be older than `source`.
        (true, true) => live,
        (true, false) => handed.max(live),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_after_a_rebuild_never_skips_a_change() {
        for (began_at, handed, live, meanwhile, then) in [
            (0, 9, 0, false, 9),
            (5, 5, 8, true, 8),
            (5, 9, 7, true, 7),
            (5, 9, 12, true, 12),
            (7, 5, 9, true, 5),
            (7, 5, 7, false, 5),
        ] {
            assert_eq!(reached(Seq(began_at), Seq(handed), Seq(live), meanwhile), Seq(then));
        }
    }
}
