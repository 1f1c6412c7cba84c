//! Work that somebody at work gives away.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::lanes::panic_message;
use crate::pool::{HELPERS, PoolJob};

/// Does what it is given, one after the other, beside whoever gives it. Ends with this, once everything is done.
#[derive(Default)]
pub struct SerialExecutor(Arc<ExecutorShared>);

#[derive(Default)]
struct ExecutorShared {
    queue: Mutex<ExecutorQueue>,
    rested: Condvar,
}

#[derive(Default)]
struct ExecutorQueue {
    jobs: VecDeque<PoolJob>,
    is_at_work: bool,
}

impl SerialExecutor {
    /// One that has nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has something done; here and now, when the system has no thread to give.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.0.queue.lock();
        queue.jobs.push_back(Box::new(job));
        if std::mem::replace(&mut queue.is_at_work, true) {
            return;
        }
        drop(queue);
        self.0.begin();
    }

    /// Has something done after what is given next, or once [`Helper::go_on`] says so: for whoever is in a hurry, since to wake somebody takes
    /// longer than to leave word.
    pub fn enqueue_lazily(&self, job: impl FnOnce() + Send + 'static) {
        self.0.queue.lock().jobs.push_back(Box::new(job));
    }

    /// Begins with what was left, if anything was.
    pub fn kick(&self) {
        let mut queue = self.0.queue.lock();
        if queue.jobs.is_empty() || std::mem::replace(&mut queue.is_at_work, true) {
            return;
        }
        drop(queue);
        self.0.begin();
    }

    /// Waits until everything is done that was given so far.
    pub fn wait_idle(&self) {
        self.kick();
        let mut queue = self.0.queue.lock();
        while queue.is_at_work {
            self.0.rested.wait(&mut queue);
        }
    }
}

impl Drop for SerialExecutor {
    fn drop(&mut self) {
        self.wait_idle();
    }
}

impl ExecutorShared {
    fn begin(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        if HELPERS.submit(Box::new(move || shared.work())).is_err() {
            self.work();
        }
    }

    fn work(&self) {
        loop {
            let mut queue = self.queue.lock();
            let Some(job) = queue.jobs.pop_front() else {
                queue.is_at_work = false;
                self.rested.notify_all();
                return;
            };
            drop(queue);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                tracing::error!(panic = panic_message(&*panic), "what was given to a helper panicked");
            }
        }
    }
}
