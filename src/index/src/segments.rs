//! The parts of the full-text tables, joined while nothing else is to do.
//!
//! FTS5 writes the words of each transaction as a part of its own and joins parts only as far as writing stays cheap. An index of
//! a hundred thousand pages that was filled has eleven of them, and a question for a phrase or for several words looks into all.
//!
//! One rule: nobody waits for it. A step is some milliseconds, keeps what it did, and is given up when a writer comes; those who ask read
//! what was there before. A step reads its own cursor: how the words are spread stands in one row of each table.
//!
//! Parts are joined when the others have an eighth of the largest: for each page of the file that is written nine are written by joining, however
//! long that goes on. FTS5 keeps smaller ones few by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use crate::writer::IndexWriter;
use crate::{Index, IndexError, schema};

/// Tables that have parts.
const TABLES: [&str; 3] = ["texts", "names", "anchors"];

/// Pages of the file that a step writes: some milliseconds. A word is never divided: one that each of 100,000 pages has took 50 ms.
const STEP: usize = 64;

/// The largest part is joined with the others once those have one page for so many of its own.
const SHARE: u64 = 8;

/// Where FTS5 keeps how the words are spread, in the table of that name with `_data` behind it.
const SPREAD: i64 = 10;

/// How many steps SQLite takes before it looks for writers: about a millisecond of joining.
const LOOK: i32 = 100;

/// The connection that writes, and who waits for it.
pub(crate) struct WriterLock {
    writer: Mutex<IndexWriter>,
    waiting: Arc<AtomicUsize>,
}

impl WriterLock {
    pub(crate) fn new(writer: IndexWriter) -> Self {
        Self { writer: Mutex::new(writer), waiting: Arc::default() }
    }

    /// Waits for one's turn, for a moment at most when parts are joined.
    pub(crate) fn lock(&self) -> MutexGuard<'_, IndexWriter> {
        self.writer.try_lock().unwrap_or_else(|| {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let writer = self.writer.lock();
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            writer
        })
    }

    /// Does what is given up as soon as somebody waits or `gives_way` says so; none when it was, or when somebody writes. Nothing was
    /// changed then.
    fn between<T>(
        &self,
        gives_way: impl Fn() -> bool + Send + 'static,
        work: impl FnOnce(&Connection) -> Result<T, IndexError>,
    ) -> Result<Option<T>, IndexError> {
        let Some(mut writer) = self.writer.try_lock() else { return Ok(None) };
        // A rebuild puts other tables in the place of these.
        if writer.touched.is_some() {
            return Ok(None);
        }
        let waiting = Arc::clone(&self.waiting);
        writer.connection.progress_handler(LOOK, Some(move || waiting.load(Ordering::Relaxed) > 0 || gives_way()))?;
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

/// What a step of joining found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeStep {
    /// There is nothing to join, until pages change.
    Complete,
    /// Some was joined, and there may be more.
    Partial,
    /// Somebody writes, or makes the index anew: it is better to come back when it rests.
    Preempted,
}

impl Index {
    /// Joins parts of the full-text tables for some milliseconds, so that questions are answered sooner; answers stay the same.
    /// To be called again and again while nothing is written. A writer who waits, and `gives_way` when it says yes, end a step in
    /// about a millisecond, and what it did is undone.
    ///
    /// # Errors
    /// [`IndexError::Database`]; nothing was changed then.
    pub fn merge_segments(&self, gives_way: impl Fn() -> bool + Send + 'static) -> Result<MergeStep, IndexError> {
        let outcome = self.writer.between(gives_way, |connection| join(connection, STEP));
        schema::noticed(self.readers.file(), outcome.map(|joined| joined.unwrap_or(MergeStep::Preempted)))
    }
}

/// Takes one step in the first table in which there is something to join.
fn join(connection: &Connection, pages: usize) -> Result<MergeStep, IndexError> {
    for table in TABLES {
        let Some(spread) = SegmentLayout::read(connection, table)? else { continue };
        let Some(work) = spread.next(pages) else { continue };
        connection
            .prepare_cached(&format!("INSERT INTO {table} ({table}, rank) VALUES ('merge', ?1)"))?
            .execute([work])?;
        // Otherwise nothing was found to do, and would not be the next time.
        if SegmentLayout::read(connection, table)?.as_ref() != Some(&spread) {
            return Ok(MergeStep::Partial);
        }
    }
    Ok(MergeStep::Complete)
}

/// How the words of a table are spread over its parts.
#[derive(Debug, PartialEq, Eq)]
struct SegmentLayout {
    levels: Vec<SegmentLevel>,
}

/// Parts of about the same size.
#[derive(Debug, PartialEq, Eq)]
struct SegmentLevel {
    /// How many of them are being joined, the oldest first, into the last part of the next level.
    joining: usize,
    /// The pages of the file that each has, the oldest part first.
    parts: Vec<u64>,
}

impl SegmentLayout {
    /// None when it is written in a way that this version does not know: it is better to join nothing then.
    fn read(connection: &Connection, table: &'static str) -> Result<Option<Self>, IndexError> {
        let mut statement = connection.prepare_cached(&format!("SELECT block FROM {table}_data WHERE id = ?1"))?;
        let record = statement.query_row([SPREAD], |row| row.get::<_, Vec<u8>>(0)).optional()?;
        Ok(record.and_then(|record| Self::decode(&record)))
    }

    /// Reads what FTS5 calls the structure record, in its second form, which tables have that keep no text but forget pages.
    fn decode(record: &[u8]) -> Option<Self> {
        let mut rest = record.get(4..)?.strip_prefix(&[0xff, 0, 0, 1])?;
        let mut number = || varint(&mut rest);
        let (levels, _parts, _written) = (number()?, number()?, number()?);
        let levels = (0..levels).map(|_| {
            let joining = usize::try_from(number()?).ok()?;
            let parts = (0..number()?).map(|_| {
                let [_name, first, last] = [number()?, number()?, number()?];
                // From which writes it is, and what was removed of it.
                for _ in 0..5 {
                    number()?;
                }
                (last + 1).checked_sub(first)
            });
            let parts: Vec<u64> = parts.collect::<Option<_>>()?;
            (joining <= parts.len()).then_some(SegmentLevel { joining, parts })
        });
        Some(Self { levels: levels.collect::<Option<_>>()? })
    }

    /// What to tell FTS5: so many pages more of what is being joined, the same negative to begin with all parts, or nothing.
    fn next(&self, pages: usize) -> Option<i64> {
        let sizes = || self.levels.iter().flat_map(|level| &level.parts);
        let all: u64 = sizes().sum();
        let others = all - sizes().max()?;
        let pages = i64::try_from(pages).ok()?;
        // A writer's own joining of some parts does not count: all of them are joined at once.
        if self.being_joined() * 4 >= all * 3 {
            return Some(pages);
        }
        (others * SHARE >= all - others).then_some(-pages)
    }

    /// The pages that are being joined, and those that came of it so far; 0 when nothing is.
    fn being_joined(&self) -> u64 {
        let at_work = self.levels.windows(2).filter(|two| two[0].joining > 0);
        let pages = at_work.map(|two| {
            two[0].parts[..two[0].joining].iter().sum::<u64>() + two[1].parts.last().copied().unwrap_or_default()
        });
        pages.max().unwrap_or_default()
    }
}

/// Takes a number off the front: seven bits a byte, the highest first, and all eight of a ninth.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..9 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        if place == 8 {
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
