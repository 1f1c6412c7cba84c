//! The threads of the process that background work shares.
//!
//! One rule: there are as many as there is work at a moment, and never more than so many. Two hundred spaces that are asleep need none but the one
//! that knows the time.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

use crate::lanes::panic_message;

/// A thread without work stays this long, for the next.
const LINGER: Duration = Duration::from_secs(10);

/// Steps of supervised tasks: they may take long and wait for the disk, and nobody waits for them.
pub(crate) static TASKS: TaskPool = TaskPool::new("tasks", 8, 10);
/// What somebody at work gives away; it is short, and somebody may wait for it.
pub(crate) static HELPERS: TaskPool = TaskPool::new("helpers", 32, 0);

pub(crate) type PoolJob = Box<dyn FnOnce() + Send>;
/// When a job is due, and which of those of that moment it is.
pub(crate) type DueTime = (Instant, u64);

pub(crate) struct TaskPool {
    name: &'static str,
    most: usize,
    /// How far its threads stand behind others that want the processor (nice(2)): nobody waits for them, and somebody for those.
    nice: i32,
    work: Mutex<PoolState>,
    changed: Condvar,
}

struct PoolState {
    ready: VecDeque<PoolJob>,
    later: BTreeMap<DueTime, PoolJob>,
    serial: u64,
    threads: usize,
    idle: usize,
    /// One of the idle waits for the next that is due.
    has_keeper: bool,
}

impl TaskPool {
    const fn new(name: &'static str, most: usize, nice: i32) -> Self {
        let work = PoolState {
            ready: VecDeque::new(),
            later: BTreeMap::new(),
            serial: 0,
            threads: 0,
            idle: 0,
            has_keeper: false,
        };
        Self { name, most, nice, work: Mutex::new(work), changed: Condvar::new() }
    }

    /// Does something as soon as a thread is free.
    ///
    /// # Errors
    /// What the system said when there is no thread and none to be had; nothing is done then.
    pub(crate) fn submit(&'static self, job: PoolJob) -> io::Result<()> {
        let mut work = self.work.lock();
        work.ready.push_back(job);
        if work.idle >= work.ready.len() {
            self.changed.notify_one();
            return Ok(());
        }
        self.grow(&mut work).inspect_err(|_| drop(work.ready.pop_back()))
    }

    /// Does something at a time, unless it is taken back.
    pub(crate) fn submit_at(&'static self, when: Instant, job: PoolJob) -> DueTime {
        let mut work = self.work.lock();
        work.serial += 1;
        let due = (when, work.serial);
        let is_next = work.later.keys().next().is_none_or(|next| due < *next);
        work.later.insert(due, job);
        if work.idle == 0 {
            // Without a thread it is done when there is one again.
            if let Err(error) = self.grow(&mut work) {
                tracing::error!(%error, "no thread for background work");
            }
        } else if is_next {
            self.changed.notify_all();
        }
        due
    }

    /// Takes back what is not begun.
    pub(crate) fn cancel(&self, due: DueTime) {
        let job = self.work.lock().later.remove(&due);
        drop(job);
    }

    fn grow(&'static self, work: &mut PoolState) -> io::Result<()> {
        if work.threads >= self.most {
            return Ok(());
        }
        let spawned = thread::Builder::new().name(self.name.to_owned()).spawn(|| self.run());
        match spawned {
            Ok(_) => work.threads += 1,
            // The others will come to it.
            Err(_) if work.threads > 0 => {}
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
        let mut work = self.work.lock();
        loop {
            work.bring(Instant::now());
            if let Some(job) = work.ready.pop_front() {
                // Whoever is left keeps the time; with nobody left, somebody new.
                if !work.later.is_empty() && !work.has_keeper {
                    if work.idle > 0 {
                        self.changed.notify_one();
                    } else {
                        let _ = self.grow(&mut work);
                    }
                }
                MutexGuard::unlocked(&mut work, || {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                        tracing::error!(panic = panic_message(&*panic), "background work panicked");
                    }
                });
                continue;
            }
            let is_keeper = !work.has_keeper;
            work.has_keeper = true;
            let linger = Instant::now() + LINGER;
            let until = work.later.keys().next().filter(|_| is_keeper).map_or(linger, |due| due.0);
            work.idle += 1;
            let is_over = self.changed.wait_until(&mut work, until).timed_out();
            work.idle -= 1;
            if is_keeper {
                work.has_keeper = false;
            }
            if is_over && work.ready.is_empty() && (!is_keeper || work.later.is_empty()) {
                work.threads -= 1;
                return;
            }
        }
    }
}

impl PoolState {
    /// What is due by now is ready.
    fn bring(&mut self, now: Instant) {
        while let Some(next) = self.later.first_entry().filter(|next| next.key().0 <= now) {
            self.ready.push_back(next.remove());
        }
    }
}
