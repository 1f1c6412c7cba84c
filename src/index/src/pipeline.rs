//! Two-stage pipeline: one batch is parsed while the previous one is written.
//!
//! Parsing a page takes about as long as writing its rows, and SQLite has one writer: two threads
//! are twice as fast, more would wait.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use crate::words::Dictionary;
use crate::writer::{ContentRules, WriteBatch};
use crate::{IndexEntry, IndexError};

/// Writes batches of files in order. Two batches are in memory: one is parsed, one is written.
/// `progress` gets the number of files written so far.
///
/// # Errors
/// [`IndexError::Source`] when `batches` yields an error, and the errors of `write`. Batches that
/// were written before stay.
pub(crate) fn run<E: Into<Box<dyn Error + Send + Sync>>>(
    (batches, rules): (impl Iterator<Item = Result<Vec<IndexEntry>, E>>, &ContentRules),
    mut write: impl FnMut(&WriteBatch) -> Result<(), IndexError> + Send,
    mut progress: impl FnMut(usize),
) -> Result<(), IndexError> {
    let written_files = AtomicUsize::new(0);
    let mut reported = 0;
    let mut report_progress = |written_files: &AtomicUsize| {
        let written = written_files.load(Ordering::Relaxed);
        if written > reported {
            progress(written);
            reported = written;
        }
    };
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<WriteBatch>(0);
        let written_files = &written_files;
        let writer_thread = scope.spawn(move || {
            receiver.into_iter().try_for_each(|batch| {
                write(&batch)?;
                written_files.fetch_add(batch.steps.len(), Ordering::Relaxed);
                Ok(())
            })
        });
        let read_outcome = read(batches, rules, |batch| {
            // A failed send means that the writer failed; its error is returned below.
            let is_accepted = sender.send(batch).is_ok();
            report_progress(written_files);
            is_accepted
        });
        drop(sender);
        let write_outcome = writer_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        write_outcome.and(read_outcome)
    })?;
    report_progress(&written_files);
    Ok(())
}

fn read<E: Into<Box<dyn Error + Send + Sync>>>(
    batches: impl Iterator<Item = Result<Vec<IndexEntry>, E>>,
    rules: &ContentRules,
    mut send: impl FnMut(WriteBatch) -> bool,
) -> Result<(), IndexError> {
    let mut dictionary = Dictionary::default();
    for batch in batches {
        let batch = batch.map_err(|error| IndexError::Source(error.into()))?;
        if !send(WriteBatch::read(&batch, rules, &mut dictionary)?) {
            break;
        }
    }
    Ok(())
}
