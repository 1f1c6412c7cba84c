//! Jobs that a busy thread hands over.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::lanes::panic_message;
use crate::pool::{HELPERS, PoolJob};

/// Runs jobs one after another on a thread of the pool. Dropping it waits until all jobs are done.
#[derive(Default)]
pub struct SerialExecutor(Arc<ExecutorShared>);

#[derive(Default)]
struct ExecutorShared {
    queue: Mutex<ExecutorQueue>,
    idle: Condvar,
}

#[derive(Default)]
struct ExecutorQueue {
    jobs: VecDeque<PoolJob>,
    is_running: bool,
}

impl SerialExecutor {
    /// An executor without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues a job and starts a thread if none runs; runs the job inline if no thread can be
    /// started.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.0.queue.lock();
        queue.jobs.push_back(Box::new(job));
        if std::mem::replace(&mut queue.is_running, true) {
            return;
        }
        drop(queue);
        self.0.start_worker();
    }

    /// Queues a job without waking a thread: it runs with the next submitted job, or after
    /// [`SerialExecutor::kick`]. For latency-critical callers, because waking a thread takes longer
    /// than queueing.
    pub fn enqueue_lazily(&self, job: impl FnOnce() + Send + 'static) {
        self.0.queue.lock().jobs.push_back(Box::new(job));
    }

    /// Starts the jobs that were queued lazily, if any.
    pub fn kick(&self) {
        let mut queue = self.0.queue.lock();
        if queue.jobs.is_empty() || std::mem::replace(&mut queue.is_running, true) {
            return;
        }
        drop(queue);
        self.0.start_worker();
    }

    /// Waits until all jobs submitted so far are done.
    pub fn wait_idle(&self) {
        self.kick();
        let mut queue = self.0.queue.lock();
        while queue.is_running {
            self.0.idle.wait(&mut queue);
        }
    }
}

impl Drop for SerialExecutor {
    fn drop(&mut self) {
        self.wait_idle();
    }
}

impl ExecutorShared {
    fn start_worker(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        if HELPERS.submit(Box::new(move || shared.run_jobs())).is_err() {
            self.run_jobs();
        }
    }

    fn run_jobs(&self) {
        loop {
            let mut queue = self.queue.lock();
            let Some(job) = queue.jobs.pop_front() else {
                queue.is_running = false;
                self.idle.notify_all();
                return;
            };
            drop(queue);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                tracing::error!(panic = panic_message(&*panic), "background job panicked");
            }
        }
    }
}
