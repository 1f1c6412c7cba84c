//! Background merge of full-text segments.
//!
//! FTS5 writes the words of each transaction as a segment and merges only as far as writing stays
//! cheap. A filled index of 100,000 pages has eleven segments, and a query for a phrase or several
//! words reads all of them.
//!
//! Invariant: merging never blocks. A step takes some milliseconds, commits its result, and is
//! interrupted when a writer comes; queries read the old segments. A step needs no cursor of its
//! own: the segment layout is one row of each table.
//!
//! Segments are merged when all others together have an eighth of the largest: nine database pages
//! are rewritten per page written, in the long run. FTS5 itself limits the number of smaller
//! segments.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use crate::writer::IndexWriter;
use crate::{Index, IndexError, schema};

const TABLES: [&str; 3] = ["texts", "names", "anchors"];

/// Database pages that a step writes: some milliseconds. A term is never split: one that is in each
/// of 100,000 pages took 50 ms.
const MERGE_STEP_PAGES: usize = 64;

/// The largest segment is merged with the others once they have one page per this many of its own.
const MERGE_RATIO: u64 = 8;

/// Row of the structure record in the FTS5 table `…_data`.
const STRUCTURE_ROW: i64 = 10;

/// SQLite checks for waiting writers after this many steps: about a millisecond of merging.
const PREEMPT_CHECK_STEPS: i32 = 100;

/// The write connection, and the number of threads that wait for it.
pub(crate) struct WriterLock {
    writer: Mutex<IndexWriter>,
    waiting_writers: Arc<AtomicUsize>,
}

impl WriterLock {
    pub(crate) fn new(writer: IndexWriter) -> Self {
        Self { writer: Mutex::new(writer), waiting_writers: Arc::default() }
    }

    /// Waits for the connection; a running merge ends within about a millisecond.
    pub(crate) fn lock(&self) -> MutexGuard<'_, IndexWriter> {
        self.writer.try_lock().unwrap_or_else(|| {
            self.waiting_writers.fetch_add(1, Ordering::Relaxed);
            let writer = self.writer.lock();
            self.waiting_writers.fetch_sub(1, Ordering::Relaxed);
            writer
        })
    }

    /// Runs `work` and interrupts it when a writer waits or `should_preempt` returns true. `None`
    /// when it was interrupted or a writer is active; nothing has changed then.
    fn run_preemptible<T>(
        &self,
        should_preempt: impl Fn() -> bool + Send + 'static,
        work: impl FnOnce(&Connection) -> Result<T, IndexError>,
    ) -> Result<Option<T>, IndexError> {
        let Some(mut writer) = self.writer.try_lock() else { return Ok(None) };
        // A rebuild will replace these tables.
        if writer.touched_pages.is_some() {
            return Ok(None);
        }
        let waiting_writers = Arc::clone(&self.waiting_writers);
        writer.connection.progress_handler(
            PREEMPT_CHECK_STEPS,
            Some(move || waiting_writers.load(Ordering::Relaxed) > 0 || should_preempt()),
        )?;
        let outcome = work(&writer.connection);
        writer.connection.progress_handler(0, None::<fn() -> bool>)?;
        match outcome {
            Err(IndexError::Database(error)) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }
}

/// Result of a merge step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeStep {
    /// Nothing to merge until pages change.
    Complete,
    /// Something was merged; there may be more.
    Partial,
    /// A writer or a rebuild is active; try again when it has finished.
    Preempted,
}

impl Index {
    /// Merges full-text segments for some milliseconds, which makes queries faster; results stay
    /// the same. Call repeatedly while nothing is written. A waiting writer, or `should_preempt`
    /// when it returns true, ends a step within about a millisecond and rolls it back.
    ///
    /// # Errors
    /// [`IndexError::Database`]; nothing has changed then.
    pub fn merge_segments(&self, should_preempt: impl Fn() -> bool + Send + 'static) -> Result<MergeStep, IndexError> {
        let outcome =
            self.writer.run_preemptible(should_preempt, |connection| merge_step(connection, MERGE_STEP_PAGES));
        schema::mark_if_corrupt(self.readers.file(), outcome.map(|step| step.unwrap_or(MergeStep::Preempted)))
    }
}

/// Runs one step in the first table that has something to merge.
fn merge_step(connection: &Connection, pages: usize) -> Result<MergeStep, IndexError> {
    for table in TABLES {
        let Some(layout) = SegmentLayout::read(connection, table)? else { continue };
        let Some(work) = layout.next_merge(pages) else { continue };
        connection
            .prepare_cached(&format!("INSERT INTO {table} ({table}, rank) VALUES ('merge', ?1)"))?
            .execute([work])?;
        // An unchanged layout means that FTS5 found nothing to do.
        if SegmentLayout::read(connection, table)?.as_ref() != Some(&layout) {
            return Ok(MergeStep::Partial);
        }
    }
    Ok(MergeStep::Complete)
}

#[derive(Debug, PartialEq, Eq)]
struct SegmentLayout {
    levels: Vec<SegmentLevel>,
}

/// Segments of about the same size.
#[derive(Debug, PartialEq, Eq)]
struct SegmentLevel {
    /// How many of them, the oldest first, are being merged into the last segment of the next
    /// level.
    merging: usize,
    /// Size of each segment in database pages, the oldest first.
    segments: Vec<u64>,
}

impl SegmentLayout {
    /// `None` when the format is unknown; then nothing is merged.
    fn read(connection: &Connection, table: &'static str) -> Result<Option<Self>, IndexError> {
        let mut statement = connection.prepare_cached(&format!("SELECT block FROM {table}_data WHERE id = ?1"))?;
        let record = statement.query_row([STRUCTURE_ROW], |row| row.get::<_, Vec<u8>>(0)).optional()?;
        Ok(record.and_then(|record| Self::decode(&record)))
    }

    /// Decodes the FTS5 structure record, version 2, which contentless tables with deletion have.
    fn decode(record: &[u8]) -> Option<Self> {
        let mut rest = record.get(4..)?.strip_prefix(&[0xff, 0, 0, 1])?;
        let mut number = || varint(&mut rest);
        let (levels, _parts, _written) = (number()?, number()?, number()?);
        let levels = (0..levels).map(|_| {
            let merging = usize::try_from(number()?).ok()?;
            let segments = (0..number()?).map(|_| {
                let [_name, first, last] = [number()?, number()?, number()?];
                // Origins and tombstones.
                for _ in 0..5 {
                    number()?;
                }
                (last + 1).checked_sub(first)
            });
            let segments: Vec<u64> = segments.collect::<Option<_>>()?;
            (merging <= segments.len()).then_some(SegmentLevel { merging, segments })
        });
        Some(Self { levels: levels.collect::<Option<_>>()? })
    }

    /// Argument of the FTS5 `merge` command: that many pages of the current merge, the same
    /// negative to start a merge of all segments, `None` for nothing.
    fn next_merge(&self, pages: usize) -> Option<i64> {
        let sizes = || self.levels.iter().flat_map(|level| &level.segments);
        let total: u64 = sizes().sum();
        let smaller = total - sizes().max()?;
        let pages = i64::try_from(pages).ok()?;
        // FTS5's own merge of some segments does not count as the current one.
        if self.merging_pages() * 4 >= total * 3 {
            return Some(pages);
        }
        (smaller * MERGE_RATIO >= total - smaller).then_some(-pages)
    }

    /// Pages being merged, input and output; 0 without a merge.
    fn merging_pages(&self) -> u64 {
        let merges = self.levels.windows(2).filter(|levels| levels[0].merging > 0);
        let pages = merges.map(|levels| {
            levels[0].segments[..levels[0].merging].iter().sum::<u64>()
                + levels[1].segments.last().copied().unwrap_or_default()
        });
        pages.max().unwrap_or_default()
    }
}

/// Decodes a varint: seven bits per byte, the highest first, and all eight of a ninth byte.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for index in 0..9 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        if index == 8 {
            return Some(number << 8 | u64::from(*first));
        }
        number = number << 7 | u64::from(first & 0x7f);
        if first & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests;
