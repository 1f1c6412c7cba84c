//! Submits differences to the committer, in sets of bounded size.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use svcfs_base::{Fault, Seq};

use super::adoption_set;
use crate::core::VfsCore;
use crate::progress::{OpenProgress, ProgressReporter};
use crate::queue::{FileEffect, QueuedSet, SetReceipt, StateAfter};

/// Limits of one adoption commit: bound memory when a large tree is opened for the first time.
const MAX_FILES: usize = 10_000;
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of unanswered sets; below the queue's limit, to avoid timeouts.
const MAX_IN_FLIGHT: usize = 3;
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Collects differences and submits them.
pub(super) struct AdoptionSets<'v> {
    core: &'v VfsCore,
    reporter: &'v mut ProgressReporter,
    /// The newest record when the scan started.
    scanned_at: Seq,
    /// Files to scan, and files scanned.
    total: usize,
    scanned_files: usize,
    /// Scanned files that history has by now.
    recorded_files: usize,
    differing_files: usize,
    effects: Vec<FileEffect>,
    bytes: usize,
    in_flight: VecDeque<SubmittedSet>,
}

/// The committer's answer for a set.
type AdoptionAnswer = Receiver<Result<SetReceipt, Fault>>;

struct SubmittedSet {
    answer: AdoptionAnswer,
    /// Files scanned when it was submitted.
    scanned_files: usize,
}

impl<'v> AdoptionSets<'v> {
    pub(super) fn new(
        core: &'v VfsCore,
        reporter: &'v mut ProgressReporter,
        (total, scanned_at): (usize, Seq),
    ) -> Self {
        let under_way = VecDeque::with_capacity(MAX_IN_FLIGHT);
        let sets = Self {
            core,
            reporter,
            scanned_at,
            total,
            scanned_files: 0,
            recorded_files: 0,
            differing_files: 0,
            effects: Vec::new(),
            bytes: 0,
            in_flight: under_way,
        };
        if total > 0 {
            sets.reporter.report(sets.progress());
        }
        sets
    }

    pub(super) fn add(&mut self, difference: Option<FileEffect>) -> Result<(), Fault> {
        self.scanned_files += 1;
        if let Some(effect) = difference {
            if let Some(StateAfter::Leaf(leaf)) = &effect.after {
                self.bytes += leaf.content.len();
            }
            self.effects.push(effect);
            self.differing_files += 1;
            if self.effects.len() >= MAX_FILES || self.bytes >= MAX_BYTES {
                self.submit()?;
            }
        }
        self.collect_answers()?;
        self.reporter.report_throttled(self.progress());
        Ok(())
    }

    /// Submits the rest and waits until all is recorded; returns the number of differing files.
    pub(super) fn finish(mut self) -> Result<usize, Fault> {
        if !self.effects.is_empty() {
            self.submit()?;
        }
        while !self.in_flight.is_empty() {
            self.reporter.report(self.progress());
            self.wait_for_oldest()?;
        }
        if self.total > 0 {
            self.recorded_files = self.scanned_files;
            self.reporter.report(self.progress());
        }
        Ok(self.differing_files)
    }

    fn submit(&mut self) -> Result<(), Fault> {
        while self.in_flight.len() >= MAX_IN_FLIGHT {
            self.reporter.report(self.progress());
            self.wait_for_oldest()?;
        }
        self.bytes = 0;
        let answer = submit(self.core, std::mem::take(&mut self.effects), self.scanned_at)?;
        self.in_flight.push_back(SubmittedSet { answer, scanned_files: self.scanned_files });
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), Fault> {
        let Some(oldest) = self.in_flight.pop_front() else { return Ok(()) };
        oldest.answer.recv_timeout(MAX_WAIT).map_err(Fault::internal)??;
        self.recorded_files = oldest.scanned_files;
        Ok(())
    }

    fn collect_answers(&mut self) -> Result<(), Fault> {
        while let Some(oldest) = self.in_flight.front() {
            match oldest.answer.try_recv() {
                Ok(answer) => answer?,
                Err(TryRecvError::Empty) => break,
                Err(error @ TryRecvError::Disconnected) => return Err(Fault::internal(error)),
            };
            self.recorded_files = oldest.scanned_files;
            self.in_flight.pop_front();
            self.reporter.report(self.progress());
        }
        Ok(())
    }

    const fn progress(&self) -> OpenProgress {
        OpenProgress::Adopting {
            scanned_files: self.scanned_files,
            recorded_files: self.recorded_files,
            total: self.total,
        }
    }
}

pub(super) fn submit(core: &VfsCore, effects: Vec<FileEffect>, scanned_at: Seq) -> Result<AdoptionAnswer, Fault> {
    let (sender, answer) = mpsc::sync_channel(1);
    core.queue.push(QueuedSet { scanned_at: Some(scanned_at), ..adoption_set(core, effects, Some(sender)) }, |_| {})?;
    // The scan continues meanwhile.
    core.queue.wake();
    Ok(answer)
}
