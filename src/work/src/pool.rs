//! Thread pools for background work, shared by the whole process.
//!
//! Invariant: a pool has as many threads as there is work at the moment, up to a maximum. Two
//! hundred idle spaces need one thread: the one that waits for the next due time.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

use crate::lanes::panic_message;

/// How long an idle thread waits for more work before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Steps of supervised tasks. They may take long and wait for the disk; no request waits for them.
pub(crate) static TASKS: TaskPool = TaskPool::new("tasks", 8, 10);
/// Short jobs that a busy thread hands over; another thread may wait for them.
pub(crate) static HELPERS: TaskPool = TaskPool::new("helpers", 32, 0);

pub(crate) type PoolJob = Box<dyn FnOnce() + Send>;
/// Due time of a job, and a serial number that makes it unique.
pub(crate) type DueTime = (Instant, u64);

pub(crate) struct TaskPool {
    name: &'static str,
    max_threads: usize,
    /// Scheduling priority of the threads (nice(2)): requests come before background tasks.
    nice: i32,
    state: Mutex<PoolState>,
    changed: Condvar,
}

struct PoolState {
    ready: VecDeque<PoolJob>,
    later: BTreeMap<DueTime, PoolJob>,
    serial: u64,
    threads: usize,
    idle: usize,
    /// Whether one of the idle threads waits for the next due job.
    has_timer_thread: bool,
}

impl TaskPool {
    const fn new(name: &'static str, max_threads: usize, nice: i32) -> Self {
        let state = PoolState {
            ready: VecDeque::new(),
            later: BTreeMap::new(),
            serial: 0,
            threads: 0,
            idle: 0,
            has_timer_thread: false,
        };
        Self { name, max_threads, nice, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Runs a job as soon as a thread is free.
    ///
    /// # Errors
    /// The error of the operating system if there is no thread and none could be started; the job
    /// is dropped then.
    pub(crate) fn submit(&'static self, job: PoolJob) -> io::Result<()> {
        let mut state = self.state.lock();
        state.ready.push_back(job);
        if state.idle >= state.ready.len() {
            self.changed.notify_one();
            return Ok(());
        }
        self.grow(&mut state).inspect_err(|_| drop(state.ready.pop_back()))
    }

    /// Runs a job at a time, unless it is cancelled.
    pub(crate) fn submit_at(&'static self, when: Instant, job: PoolJob) -> DueTime {
        let mut state = self.state.lock();
        state.serial += 1;
        let due = (when, state.serial);
        let is_next = state.later.keys().next().is_none_or(|next| due < *next);
        state.later.insert(due, job);
        if state.idle == 0 {
            // Without a thread, the job runs when there is one again.
            if let Err(error) = self.grow(&mut state) {
                tracing::error!(%error, "no thread for background work");
            }
        } else if is_next {
            self.changed.notify_all();
        }
        due
    }

    /// Cancels a job that has not started.
    pub(crate) fn cancel(&self, due: DueTime) {
        let job = self.state.lock().later.remove(&due);
        drop(job);
    }

    fn grow(&'static self, state: &mut PoolState) -> io::Result<()> {
        if state.threads >= self.max_threads {
            return Ok(());
        }
        let spawned = thread::Builder::new().name(self.name.to_owned()).spawn(|| self.run());
        match spawned {
            Ok(_) => state.threads += 1,
            // The existing threads will run the job.
            Err(_) if state.threads > 0 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn run(&'static self) {
        let own = Some(gettid());
        if getpriority_process(own).is_ok_and(|nice| nice < self.nice) {
            // A system that does not allow it has them as important as all others.
            let _ = setpriority_process(own, self.nice);
        }
        let mut state = self.state.lock();
        loop {
            state.promote_due_jobs(Instant::now());
            if let Some(job) = state.ready.pop_front() {
                // Another idle thread takes over the timer; if there is none, start one.
                if !state.later.is_empty() && !state.has_timer_thread {
                    if state.idle > 0 {
                        self.changed.notify_one();
                    } else {
                        let _ = self.grow(&mut state);
                    }
                }
                MutexGuard::unlocked(&mut state, || {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                        tracing::error!(panic = panic_message(&*panic), "background work panicked");
                    }
                });
                continue;
            }
            let is_timer_thread = !state.has_timer_thread;
            state.has_timer_thread = true;
            let idle_deadline = Instant::now() + IDLE_TIMEOUT;
            let deadline = state.later.keys().next().filter(|_| is_timer_thread).map_or(idle_deadline, |due| due.0);
            state.idle += 1;
            let is_timed_out = self.changed.wait_until(&mut state, deadline).timed_out();
            state.idle -= 1;
            if is_timer_thread {
                state.has_timer_thread = false;
            }
            if is_timed_out && state.ready.is_empty() && (!is_timer_thread || state.later.is_empty()) {
                state.threads -= 1;
                return;
            }
        }
    }
}

impl PoolState {
    /// Moves due jobs to the ready queue.
    fn promote_due_jobs(&mut self, now: Instant) {
        while let Some(next) = self.later.first_entry().filter(|next| next.key().0 <= now) {
            self.ready.push_back(next.remove());
        }
    }
}
