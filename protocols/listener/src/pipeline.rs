//! Long bodies on their way to disk, block by block: other threads write and hash one block while
//! the next is received.
//!
//! Invariant: a sink gets the blocks in order, one at a time, and none after one that failed. The
//! error is returned by a later call, at the latest by [`PipelineStage::finish`].
//!
//! Blocks have 1 MiB: writing a few KiB costs more for the call than for the copy, and a much
//! larger block has left the processor's cache when it is written.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_base::Fault;
use svcfs_work::{Lane, LaneError, Lanes, StartedWork};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::lane_fault;
use crate::spill_buffer::MemoryBudget;

/// Blocks queued for a sink: one it works on, and more, so that it need not wait for the network.
const MAX_QUEUED: usize = 3;
/// Blocks in memory: the queued ones, and one that is received.
const MAX_BLOCKS: usize = MAX_QUEUED + 1;
/// Bytes of a block while the memory budget allows.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of a block without budget, and of the first block: each of thousands of slow clients has
/// one.
const SMALL_BLOCK_BYTES: usize = 64 << 10;

/// Cuts a body into blocks.
#[derive(Debug)]
pub struct BlockBuffer {
    budget: Arc<MemoryBudget>,
    /// Memory for all blocks.
    permit: Option<OwnedSemaphorePermit>,
    filling: Vec<u8>,
    /// Blocks that sinks may still use, oldest first; their memory is reused.
    handed_out: VecDeque<Arc<Vec<u8>>>,
}

impl BlockBuffer {
    /// An empty buffer, whose memory is counted in `budget`.
    pub fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { budget: Arc::clone(budget), permit: None, filling: Vec::new(), handed_out: VecDeque::new() }
    }

    /// Takes data until the current block is full, and returns that block; `data` keeps the rest.
    /// `None` once all data is taken.
    pub fn push(&mut self, data: &mut &[u8]) -> Option<Arc<Vec<u8>>> {
        let count = self.fill(data);
        *data = data.get(count..).unwrap_or_default();
        (self.filling.len() >= self.limit()).then(|| self.take())
    }

    /// The current block, unless it is empty.
    pub fn take_partial(&mut self) -> Option<Arc<Vec<u8>>> {
        (!self.filling.is_empty()).then(|| self.take())
    }

    /// Copies as much as fits into the current block; returns the number of bytes.
    fn fill(&mut self, data: &[u8]) -> usize {
        if self.filling.capacity() == 0 {
            self.filling = self.free_block();
        }
        if self.filling.len() + data.len() >= SMALL_BLOCK_BYTES && self.permit.is_none() {
            self.permit = self.budget.try_reserve(MAX_BLOCKS * BLOCK_BYTES);
        }
        let count = data.len().min(self.limit().saturating_sub(self.filling.len()));
        let end = self.filling.len() + count;
        if end > self.filling.capacity() {
            let capacity = if end > SMALL_BLOCK_BYTES { BLOCK_BYTES } else { SMALL_BLOCK_BYTES };
            self.filling.reserve_exact(capacity - self.filling.len());
        }
        self.filling.extend_from_slice(data.get(..count).unwrap_or_default());
        count
    }

    const fn limit(&self) -> usize {
        if self.permit.is_some() { BLOCK_BYTES } else { SMALL_BLOCK_BYTES }
    }

    /// The memory of a block that no sink uses any more.
    fn free_block(&mut self) -> Vec<u8> {
        let is_free = self.handed_out.front().is_some_and(|oldest| Arc::strong_count(oldest) == 1);
        let oldest = if is_free { self.handed_out.pop_front() } else { None };
        match oldest.map(Arc::try_unwrap) {
            Some(Ok(mut block)) => {
                block.clear();
                block
            }
            Some(Err(_)) | None => Vec::new(),
        }
    }

    /// Hands out the current block and starts another.
    fn take(&mut self) -> Arc<Vec<u8>> {
        let block = Arc::new(std::mem::take(&mut self.filling));
        self.handed_out.push_back(Arc::clone(&block));
        block
    }
}

/// A consumer of blocks. It may block: each call runs on a thread of a lane.
pub trait BlockSink: Send + 'static {
    /// Takes the next block.
    ///
    /// # Errors
    /// I/O errors.
    fn write_block(&mut self, block: &[u8]) -> Result<(), Fault>;
}

/// Runs a sink concurrently with the receiver of the body.
pub struct PipelineStage<S: BlockSink> {
    lanes: Arc<Lanes>,
    /// Free slots in the queue.
    free: Arc<Semaphore>,
    queue: Arc<Mutex<BlockQueue<S>>>,
    /// The lane job that empties the queue; started when a block arrives.
    running: Option<StartedWork<()>>,
}

struct BlockQueue<S> {
    blocks: VecDeque<(Arc<Vec<u8>>, OwnedSemaphorePermit)>,
    /// `None` while it runs, and after an error.
    sink: Option<S>,
    error: Option<Fault>,
    is_running: bool,
}

impl<S: BlockSink> PipelineStage<S> {
    /// Prepares `sink` to take blocks in a lane.
    pub fn new(lanes: &Arc<Lanes>, sink: S) -> Self {
        let queue = BlockQueue { blocks: VecDeque::new(), sink: Some(sink), error: None, is_running: false };
        Self {
            lanes: Arc::clone(lanes),
            free: Arc::new(Semaphore::new(MAX_QUEUED)),
            queue: Arc::new(Mutex::new(queue)),
            running: None,
        }
    }

    /// Queues a block for the sink; waits only while the queue is full.
    ///
    /// # Errors
    /// Those of an earlier block; `Unavailable` while the lane is full.
    pub async fn write(&mut self, block: Arc<Vec<u8>>) -> Result<(), Fault> {
        let permit = Arc::clone(&self.free).acquire_owned().await.map_err(Fault::internal)?;
        let is_first = {
            let mut queue = self.queue.lock();
            queue.check()?;
            queue.blocks.push_back((block, permit));
            !std::mem::replace(&mut queue.is_running, true)
        };
        if is_first {
            let (queue, span) = (Arc::clone(&self.queue), tracing::Span::current());
            let started = self.lanes.spawn(Lane::Quick, move || span.in_scope(|| run(&queue))).await;
            self.running = Some(started.map_err(|error| {
                self.queue.lock().give_up();
                lane_fault(error)
            })?);
        }
        Ok(())
    }

    /// Waits until the sink has taken everything, and returns it.
    ///
    /// # Errors
    /// Those of the blocks.
    pub async fn finish(mut self) -> Result<S, Fault> {
        if let Some(running) = self.running.take() {
            running.await.map_err(lane_fault)?;
        }
        let mut queue = self.queue.lock();
        queue.check()?;
        queue.sink.take().ok_or_else(earlier_failure)
    }
}

impl<S: BlockSink> Drop for PipelineStage<S> {
    fn drop(&mut self) {
        self.queue.lock().blocks.clear();
    }
}

impl<S> BlockQueue<S> {
    /// Refuses all further blocks.
    fn give_up(&mut self) {
        (self.sink, self.is_running) = (None, false);
        self.blocks.clear();
    }

    fn check(&mut self) -> Result<(), Fault> {
        match self.error.take() {
            Some(error) => Err(error),
            None if self.sink.is_none() && !self.is_running => Err(earlier_failure()),
            None => Ok(()),
        }
    }
}

fn earlier_failure() -> Fault {
    Fault::internal(std::io::Error::other("an earlier block of this body failed"))
}

/// Drains the queue.
fn run<S: BlockSink>(queue: &Mutex<BlockQueue<S>>) {
    let Some(mut sink) = queue.lock().sink.take() else { return };
    loop {
        let (block, permit) = {
            let mut queue = queue.lock();
            let Some(next) = queue.blocks.pop_front() else {
                queue.sink = Some(sink);
                queue.is_running = false;
                return;
            };
            next
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| sink.write_block(&block)))
            .unwrap_or_else(|panic| Err(lane_fault(LaneError::from_panic(&*panic))));
        // Before a waiting writer gets the permit and reuses this memory.
        drop(block);
        if let Err(error) = outcome {
            let mut queue = queue.lock();
            queue.error = Some(error);
            queue.give_up();
            return;
        }
        drop(permit);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// A block of this byte is a defect of the sink.
    const PANIC: u8 = 200;

    /// A sink that takes a block when it is allowed to, and remembers all bytes.
    struct Gated {
        allowed: Receiver<Result<(), Fault>>,
        begun: Sender<usize>,
        written: Vec<u8>,
        dropped: Sender<usize>,
    }

    impl BlockSink for Gated {
        fn write_block(&mut self, block: &[u8]) -> Result<(), Fault> {
            let _ = self.begun.send(block.len());
            assert_ne!(block, [PANIC], "the reason of this test");
            self.allowed.recv().unwrap_or(Ok(()))?;
            self.written.extend_from_slice(block);
            Ok(())
        }
    }

    impl Drop for Gated {
        fn drop(&mut self) {
            let _ = self.dropped.send(self.written.len());
        }
    }

    struct Gate {
        allow: Sender<Result<(), Fault>>,
        begun: Receiver<usize>,
        dropped: Receiver<usize>,
    }

    fn gated() -> (PipelineStage<Gated>, Gate) {
        let ((allow, allowed), (begin, begun), (drop, dropped)) = (channel(), channel(), channel());
        let sink = Gated { allowed, begun: begin, written: Vec::new(), dropped: drop };
        (PipelineStage::new(&Arc::default(), sink), Gate { allow, begun, dropped })
    }

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 7) as u8).collect()
    }

    /// Puts a body through two stages, in pieces of this length; the sinks and the length of each
    /// block.
    async fn through(budget: &Arc<MemoryBudget>, content: &[u8], piece: usize) -> ([Vec<u8>; 2], Vec<usize>) {
        let ((mut first, gate), (mut second, other)) = (gated(), gated());
        drop((gate.allow, other.allow));
        let (mut blocks, mut memory) = (BlockBuffer::new(budget), Vec::new());
        for mut piece in content.chunks(piece) {
            while let Some(block) = blocks.push(&mut piece) {
                memory.push(block.as_ptr());
                first.write(Arc::clone(&block)).await.unwrap();
                second.write(block).await.unwrap();
            }
        }
        if let Some(block) = blocks.take_partial() {
            first.write(block).await.unwrap();
        }
        memory.sort_unstable();
        memory.dedup();
        assert!(memory.len() <= MAX_BLOCKS, "memory of {} blocks", memory.len());
        let (first, second) = (first.finish().await.unwrap(), second.finish().await.unwrap());
        ([first.written.clone(), second.written.clone()], gate.begun.try_iter().collect())
    }

    #[test]
    fn blocks_come_in_their_order_and_few_are_in_memory() {
        let budget = Arc::new(MemoryBudget::new(4096, 0));
        let all = content(9 << 20);
        for piece in [1_000, 64 << 10, 300_000, 3 << 20] {
            let ([first, second], blocks) = runtime().block_on(through(&budget, &all, piece));
            assert!(first == all && all.starts_with(&second), "pieces of {piece}");
            assert_eq!(blocks, [BLOCK_BYTES; 9], "pieces of {piece}");
            assert_eq!(budget.available(), 4096, "the room is given back");
        }
    }

    #[test]
    fn without_memory_budget_blocks_are_small_and_never_wait() {
        let budget = Arc::new(MemoryBudget::new(4095, 0));
        let all = content(300_000);
        let ([written, _], blocks) = runtime().block_on(through(&budget, &all, 10_000));
        assert!(written == all);
        assert_eq!(blocks, [SMALL_BLOCK_BYTES, SMALL_BLOCK_BYTES, SMALL_BLOCK_BYTES, SMALL_BLOCK_BYTES, 37_856]);
    }

    #[test]
    fn blocks_are_received_while_one_is_written_and_not_too_many() {
        runtime().block_on(async {
            let (mut stage, gate) = gated();
            for number in 0..MAX_QUEUED {
                stage.write(Arc::new(vec![1; number + 1])).await.unwrap();
            }
            assert_eq!(gate.begun.recv().unwrap(), 1, "it is being written, and the caller goes on");
            let more = tokio::time::timeout(Duration::from_millis(20), stage.write(Arc::new(vec![9])));
            assert!(more.await.is_err(), "the queue is full");
            assert!(gate.begun.try_recv().is_err(), "one block at a time");
            gate.allow.send(Ok(())).unwrap();
            stage.write(Arc::new(vec![9; 9])).await.unwrap();
            drop(gate.allow);
            let sink = stage.finish().await.unwrap();
            assert_eq!((sink.written.len(), gate.begun.try_iter().collect()), (15, vec![2, 3, 9]));
        });
    }

    #[test]
    fn an_error_is_returned_by_a_later_call_and_ends_the_body() {
        runtime().block_on(async {
            for more in 0..MAX_QUEUED {
                let (mut stage, gate) = gated();
                stage.write(Arc::new(vec![1])).await.unwrap();
                for _ in 0..more {
                    stage.write(Arc::new(vec![2])).await.unwrap();
                }
                gate.allow.send(Err(Fault::new(svcfs_base::Kind::NoSpace, "full"))).unwrap();
                assert_eq!(gate.dropped.recv().unwrap(), 0);
                // The room of what waited is free again: nobody waits for ever.
                let fault = match more {
                    0 => stage.finish().await.err().unwrap(),
                    _ => stage.write(Arc::new(vec![3])).await.unwrap_err(),
                };
                assert_eq!(fault.kind(), svcfs_base::Kind::NoSpace);
                assert_eq!(gate.begun.try_iter().count(), 1, "nothing is written behind what failed");
            }
        });
    }

    #[test]
    fn a_body_that_failed_stays_failed() {
        runtime().block_on(async {
            for panics in [false, true] {
                let (mut stage, gate) = gated();
                let fault = Err(Fault::new(svcfs_base::Kind::NoSpace, "full"));
                if panics {
                    drop(gate.allow)
                } else {
                    gate.allow.send(fault).unwrap()
                }
                stage.write(Arc::new(vec![if panics { PANIC } else { 1 }])).await.unwrap();
                gate.dropped.recv().unwrap();
                for _ in 0..=MAX_QUEUED {
                    assert!(stage.write(Arc::new(vec![2])).await.is_err());
                }
                assert!(stage.finish().await.is_err());
            }
        });
    }

    #[test]
    fn a_body_for_which_no_place_is_free_is_refused() {
        runtime().block_on(async {
            let (drop, dropped) = channel();
            let (lanes, allowed) = (Arc::new(Lanes::new(0, 0, Duration::ZERO)), channel().1);
            let mut stage =
                PipelineStage::new(&lanes, Gated { allowed, begun: channel().0, written: Vec::new(), dropped: drop });
            for _ in 0..=MAX_QUEUED {
                assert!(stage.write(Arc::new(vec![1])).await.is_err());
            }
            assert_eq!(dropped.recv().unwrap(), 0);
        });
    }

    #[test]
    fn a_block_in_flight_is_finished_when_the_body_is_aborted() {
        runtime().block_on(async {
            let (mut stage, gate) = gated();
            stage.write(Arc::new(vec![1; 7])).await.unwrap();
            gate.begun.recv().unwrap();
            drop(stage);
            assert!(gate.dropped.try_recv().is_err(), "the sink is at work");
            gate.allow.send(Ok(())).unwrap();
            assert_eq!(gate.dropped.recv().unwrap(), 7);
        });
    }
}
