//! Differences on their way into history, in sets of bounded size.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use svcfs_base::{Fault, Seq};

use super::adopted;
use crate::core::VfsCore;
use crate::progress::{OpenProgress, ProgressReporter};
use crate::queue::{FileEffect, QueuedSet, SetReceipt, StateAfter};

/// How much one commit adopts at most: bounds memory when a large tree is opened for the first time.
const MAX_FILES: usize = 10_000;
const MAX_BYTES: usize = 64 << 20;
/// Sets that wait for the committer at most. Fewer than the queue has room for: nobody gives up on a slow disk.
const MAX_UNDER_WAY: usize = 3;
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Takes differences one by one and hands them to the committer.
pub(super) struct AdoptionSets<'v> {
    core: &'v VfsCore,
    reporter: &'v mut ProgressReporter,
    /// The newest record when the look began.
    seen: Seq,
    /// Files that will be looked at, and those that were.
    total: usize,
    looked_at: usize,
    /// Files that were looked at and are as history has them by now.
    recorded: usize,
    /// Files that differed.
    count: usize,
    effects: Vec<FileEffect>,
    bytes: usize,
    under_way: VecDeque<SubmittedSet>,
}

/// What the committer says of a set once it is recorded.
type AdoptionAnswer = Receiver<Result<SetReceipt, Fault>>;

struct SubmittedSet {
    answer: AdoptionAnswer,
    /// How many files were looked at when it was handed over.
    looked_at: usize,
}

impl<'v> AdoptionSets<'v> {
    pub(super) fn new(core: &'v VfsCore, reporter: &'v mut ProgressReporter, (total, seen): (usize, Seq)) -> Self {
        let under_way = VecDeque::with_capacity(MAX_UNDER_WAY);
        let sets = Self {
            core,
            reporter,
            seen,
            total,
            looked_at: 0,
            recorded: 0,
            count: 0,
            effects: Vec::new(),
            bytes: 0,
            under_way,
        };
        if total > 0 {
            sets.reporter.tell(sets.progress());
        }
        sets
    }

    /// Takes what one file gave: a difference, or none.
    pub(super) fn add(&mut self, difference: Option<FileEffect>) -> Result<(), Fault> {
        self.looked_at += 1;
        if let Some(effect) = difference {
            if let Some(StateAfter::Leaf(leaf)) = &effect.after {
                self.bytes += leaf.content.len();
            }
            self.effects.push(effect);
            self.count += 1;
            if self.effects.len() >= MAX_FILES || self.bytes >= MAX_BYTES {
                self.submit()?;
            }
        }
        self.take_answers()?;
        self.reporter.pass(self.progress());
        Ok(())
    }

    /// Hands over the rest and waits until everything is recorded; how many files differed.
    pub(super) fn finish(mut self) -> Result<usize, Fault> {
        if !self.effects.is_empty() {
            self.submit()?;
        }
        while !self.under_way.is_empty() {
            self.reporter.tell(self.progress());
            self.wait_for_oldest()?;
        }
        if self.total > 0 {
            self.recorded = self.looked_at;
            self.reporter.tell(self.progress());
        }
        Ok(self.count)
    }

    fn submit(&mut self) -> Result<(), Fault> {
        while self.under_way.len() >= MAX_UNDER_WAY {
            self.reporter.tell(self.progress());
            self.wait_for_oldest()?;
        }
        self.bytes = 0;
        let answer = submit(self.core, std::mem::take(&mut self.effects), self.seen)?;
        self.under_way.push_back(SubmittedSet { answer, looked_at: self.looked_at });
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), Fault> {
        let Some(oldest) = self.under_way.pop_front() else { return Ok(()) };
        oldest.answer.recv_timeout(MAX_WAIT).map_err(Fault::internal)??;
        self.recorded = oldest.looked_at;
        Ok(())
    }

    /// Counts the sets that are recorded by now.
    fn take_answers(&mut self) -> Result<(), Fault> {
        while let Some(oldest) = self.under_way.front() {
            match oldest.answer.try_recv() {
                Ok(answer) => answer?,
                Err(TryRecvError::Empty) => break,
                Err(error @ TryRecvError::Disconnected) => return Err(Fault::internal(error)),
            };
            self.recorded = oldest.looked_at;
            self.under_way.pop_front();
            self.reporter.tell(self.progress());
        }
        Ok(())
    }

    const fn progress(&self) -> OpenProgress {
        OpenProgress::Adopting { scanned_files: self.looked_at, recorded_files: self.recorded, total: self.total }
    }
}

/// Hands one set to the committer.
pub(super) fn submit(core: &VfsCore, effects: Vec<FileEffect>, seen: Seq) -> Result<AdoptionAnswer, Fault> {
    let (sender, answer) = mpsc::sync_channel(1);
    core.queue.push(QueuedSet { seen: Some(seen), ..adopted(core, effects, Some(sender)) }, |_| {})?;
    // Whoever waits has more to look at first.
    core.queue.call();
    Ok(answer)
}
