//! Two-stage pipeline: one batch is parsed while the previous one is written.
//!
//! Parsing a page takes about as long as writing its rows, and SQLite has one writer: two threads
//! are twice as fast, more would wait.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use crate::words::Dictionary;
use crate::writer::WriteBatch;
use crate::{IndexEntry, IndexError};

/// Writes batches of files in order. Two batches are in memory: one is parsed, one is written.
/// `progress` gets the number of files written so far.
///
/// # Errors
/// [`IndexError::Source`] when `batches` yields an error, and the errors of `write`. Batches that
/// were written before stay.
pub(crate) fn run<E: Into<Box<dyn Error + Send + Sync>>>(
    (batches, typed_links): (impl Iterator<Item = Result<Vec<IndexEntry>, E>>, &[String]),
    mut write: impl FnMut(&WriteBatch) -> Result<(), IndexError> + Send,
    mut progress: impl FnMut(usize),
) -> Result<(), IndexError> {
    let done = AtomicUsize::new(0);
    let mut told = 0;
    let mut tell = |done: &AtomicUsize| {
        let so_far = done.load(Ordering::Relaxed);
        if so_far > told {
            progress(so_far);
            told = so_far;
        }
    };
    thread::scope(|scope| {
        let (hand_over, handed) = sync_channel::<WriteBatch>(0);
        let done = &done;
        let writing = scope.spawn(move || {
            handed.into_iter().try_for_each(|batch| {
                write(&batch)?;
                done.fetch_add(batch.steps.len(), Ordering::Relaxed);
                Ok(())
            })
        });
        let reading = read(batches, typed_links, |batch| {
            // A failed send means that the writer failed; its error is returned below.
            let is_taken = hand_over.send(batch).is_ok();
            tell(done);
            is_taken
        });
        drop(hand_over);
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(reading)
    })?;
    tell(&done);
    Ok(())
}

/// Parses batches until `send` returns false.
fn read<E: Into<Box<dyn Error + Send + Sync>>>(
    batches: impl Iterator<Item = Result<Vec<IndexEntry>, E>>,
    typed_links: &[String],
    mut hand_over: impl FnMut(WriteBatch) -> bool,
) -> Result<(), IndexError> {
    let mut dictionary = Dictionary::default();
    for batch in batches {
        let batch = batch.map_err(|error| IndexError::Source(error.into()))?;
        if !hand_over(WriteBatch::read(&batch, typed_links, &mut dictionary)?) {
            break;
        }
    }
    Ok(())
}
