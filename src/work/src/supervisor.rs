//! Background tasks: started, watched, stopped.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::lanes::panic_message;
use crate::{Signal, Stop};

/// Why a step failed.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Background work as an idempotent step without input: it reads its own cursor, so it can be repeated at any time.
pub trait Task: Send + 'static {
    /// Name in logs, thread lists and reports.
    const NAME: &'static str;
    /// Does a bounded piece of work.
    ///
    /// # Errors
    /// Whatever went wrong; the step is tried again after a growing pause.
    fn step(&mut self, stop: &Stop) -> Result<Next, Failure>;
}

/// When a task wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once: there is more.
    Now,
    /// When its signal is raised.
    WhenSignalled,
    /// When its signal is raised, or after this time.
    After(Duration),
}

/// The pause after failures: the first one, doubled each time, never longer than the longest.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// After many.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

impl Backoff {
    pub(crate) fn pause(self, failures_in_a_row: u32) -> Duration {
        let doublings = failures_in_a_row.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In a step.
    Busy,
    /// Waiting for its signal or its time.
    Idle,
    /// Pausing after a failure.
    BackingOff,
    /// Ended.
    Stopped,
}

impl State {
    /// The state in a word, for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::BackingOff => "backing off",
            Self::Stopped => "stopped",
        }
    }
}

/// What is known of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub name: &'static str,
    /// What it is doing.
    pub state: State,
    /// Steps that panicked since the start.
    pub panics: u64,
    /// Steps that returned an error since the start.
    pub errors: u64,
    /// The last failure's text, until a step succeeds.
    pub last_error: Option<String>,
}

/// Runs each task on a thread of its own and stops them all.
#[derive(Default)]
pub struct Supervisor {
    stop: Stop,
    backoff: Backoff,
    running: Mutex<Vec<Running>>,
    reports: Reports,
}

struct Running {
    signal: Signal,
    record: Arc<Record>,
    thread: std::thread::JoinHandle<()>,
}

/// How the tasks of a supervisor are doing, for whoever does not own it.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Vec<Arc<Record>>>>);

impl Reports {
    /// Every task, in the order they were started.
    pub fn all(&self) -> Vec<Status> {
        self.0.lock().iter().map(|record| record.status.lock().clone()).collect()
    }
}

struct Record {
    status: Mutex<Status>,
    ended: Condvar,
}

impl Supervisor {
    /// A supervisor whose tasks pause from 1 s up to 60 s after failures.
    pub fn new() -> Self {
        Self::default()
    }
    /// A supervisor with other pauses.
    pub fn backing_off(backoff: Backoff) -> Self {
        let mut supervisor = Self::new();
        supervisor.backoff = backoff;
        supervisor
    }

    /// Starts a task; it makes its first step at once, and later ones when `signal` is raised.
    ///
    /// # Errors
    /// What the operating system said when it had no thread left.
    pub fn start<T: Task>(&self, task: T, signal: Signal) -> std::io::Result<()> {
        let record = Arc::new(Record::new(T::NAME));
        let runner = Runner {
            task,
            signal: signal.clone(),
            stop: self.stop.clone(),
            backoff: self.backoff,
            record: Arc::clone(&record),
        };
        let thread = std::thread::Builder::new().name(T::NAME.to_owned()).spawn(move || runner.run())?;
        self.reports.0.lock().push(Arc::clone(&record));
        self.running.lock().push(Running { signal, record, thread });
        Ok(())
    }

    /// Every task, in the order they were started.
    pub fn status(&self) -> Vec<Status> {
        self.reports.all()
    }

    /// The same at any later time, for whoever tells of them.
    pub fn reports(&self) -> Reports {
        self.reports.clone()
    }

    /// Asks every task to end, waits for them until `deadline` has passed, and names those who linger (their threads are
    /// left alone; the process is about to end).
    pub fn stop(&self, deadline: Duration) -> Vec<&'static str> {
        let until = Instant::now() + deadline;
        self.stop.request();
        let running = std::mem::take(&mut *self.running.lock());
        self.reports.0.lock().clear();
        for task in &running {
            task.signal.raise();
        }
        let mut lingering = Vec::new();
        for Running { record, thread, .. } in running {
            if !record.wait_for_end(until) {
                let name = record.status.lock().name;
                tracing::warn!(task = name, "task `{name}` did not end in time");
                lingering.push(name);
            } else if thread.join().is_err() {
                // The loop itself holds no user code outside `catch_unwind`; were it to panic, say so.
                tracing::error!("a task's thread panicked outside its steps");
            }
        }
        lingering
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop.request();
        for task in self.running.get_mut() {
            task.signal.raise();
        }
    }
}

impl Record {
    fn new(name: &'static str) -> Self {
        let status = Status { name, state: State::Idle, panics: 0, errors: 0, last_error: None };
        Self { status: Mutex::new(status), ended: Condvar::new() }
    }
    fn enter(&self, state: State) {
        self.status.lock().state = state;
        if state == State::Stopped {
            self.ended.notify_all();
        }
    }
    fn wait_for_end(&self, until: Instant) -> bool {
        let mut status = self.status.lock();
        self.ended.wait_while_until(&mut status, |status| status.state != State::Stopped, until);
        status.state == State::Stopped
    }
}

struct Runner<T> {
    task: T,
    signal: Signal,
    stop: Stop,
    backoff: Backoff,
    record: Arc<Record>,
}

impl<T: Task> Runner<T> {
    fn run(mut self) {
        let mut failures_in_a_row = 0;
        while !self.stop.is_requested() {
            self.record.enter(State::Busy);
            match self.step() {
                Ok(next) => {
                    failures_in_a_row = 0;
                    self.record.enter(State::Idle);
                    match next {
                        Next::Now => {}
                        Next::WhenSignalled => drop(self.signal.wait(None)),
                        Next::After(time) => drop(self.signal.wait(Some(time))),
                    }
                }
                Err(message) => {
                    failures_in_a_row += 1;
                    let pause = self.backoff.pause(failures_in_a_row);
                    tracing::error!(
                        task = T::NAME,
                        error = message,
                        retry_in_ms = pause.as_millis() as u64,
                        "task `{}` failed",
                        T::NAME
                    );
                    self.record.enter(State::BackingOff);
                    self.stop.wait(pause);
                }
            }
        }
        self.record.enter(State::Stopped);
    }

    fn step(&mut self) -> Result<Next, String> {
        // A panic leaves at worst a half-done step behind, and steps are idempotent by the trait's contract.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.task.step(&self.stop)));
        let mut status = self.record.status.lock();
        let message = match outcome {
            Ok(Ok(next)) => {
                status.last_error = None;
                return Ok(next);
            }
            Ok(Err(error)) => {
                status.errors += 1;
                format!("{error:?}")
            }
            Err(panic) => {
                status.panics += 1;
                format!("panicked: {}", panic_message(&*panic))
            }
        };
        status.last_error = Some(message.clone());
        Err(message)
    }
}
