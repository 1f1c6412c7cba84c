//! Background tasks: started, watched, stopped.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::lanes::panic_message;
use crate::pool::{DueTime, TASKS};
use crate::{Signal, StopToken};

/// Why a step failed.
pub type TaskFailure = Box<dyn Error + Send + Sync>;

/// Background work as an idempotent step without input: it reads its own cursor, so it can be repeated at any time.
pub trait Task: Send + 'static {
    /// Name in logs, thread lists and reports.
    const NAME: &'static str;
    /// Does a bounded piece of work.
    ///
    /// # Errors
    /// Whatever went wrong; the step is tried again after a growing pause.
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure>;
}

/// When a task wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
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
    pub initial_delay: Duration,
    /// After many.
    pub max_delay: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(60) }
    }
}

impl Backoff {
    pub(crate) fn pause(self, failures_in_a_row: u32) -> Duration {
        let doublings = failures_in_a_row.saturating_sub(1).min(16);
        self.initial_delay.saturating_mul(1 << doublings).min(self.max_delay)
    }
}

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// In a step.
    Busy,
    /// Waiting for its signal or its time.
    Idle,
    /// Pausing after a failure.
    BackingOff,
    /// Ended.
    Stopped,
}

impl TaskState {
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
pub struct TaskStatus {
    /// Its name.
    pub name: &'static str,
    /// What it is doing.
    pub state: TaskState,
    /// Steps that panicked since the start.
    pub panics: u64,
    /// Steps that returned an error since the start.
    pub errors: u64,
    /// The last failure's text, until a step succeeds.
    pub last_error: Option<String>,
}

/// Has tasks take their steps, on threads that all supervisors share, and stops them all.
#[derive(Default)]
pub struct Supervisor {
    stop: StopToken,
    backoff: Backoff,
    running: Mutex<Vec<RunningTask>>,
    reports: TaskReports,
}

struct RunningTask {
    signal: Signal,
    record: Arc<TaskRecord>,
    /// Nobody else holds a task that waits.
    _actor: Arc<dyn Any + Send + Sync>,
}

/// How the tasks of a supervisor are doing, for whoever does not own it.
#[derive(Clone, Default)]
pub struct TaskReports(Arc<Mutex<Vec<Arc<TaskRecord>>>>);

impl TaskReports {
    /// Every task, in the order they were started.
    pub fn all(&self) -> Vec<TaskStatus> {
        self.0.lock().iter().map(|record| record.status.lock().clone()).collect()
    }
}

struct TaskRecord {
    status: Mutex<TaskStatus>,
    ended: Condvar,
}

impl Supervisor {
    /// A supervisor whose tasks pause from 1 s up to 60 s after failures.
    pub fn new() -> Self {
        Self::default()
    }
    /// A supervisor with other pauses.
    pub fn with_backoff(backoff: Backoff) -> Self {
        let mut supervisor = Self::new();
        supervisor.backoff = backoff;
        supervisor
    }

    /// Starts a task; it makes its first step at once, and later ones when `signal` is raised.
    ///
    /// # Errors
    /// What the operating system said when it had no thread left.
    pub fn start<T: Task>(&self, task: T, signal: Signal) -> std::io::Result<()> {
        let record = Arc::new(TaskRecord::new(T::NAME));
        let actor = Arc::new(TaskActor {
            task: Mutex::new(Some(task)),
            phase: Mutex::new(TaskPhase::Waiting(None)),
            signal: signal.clone(),
            stop: self.stop.clone(),
            backoff: self.backoff,
            record: Arc::clone(&record),
        });
        let listener = Arc::downgrade(&actor);
        signal.calls(move || {
            if let Some(actor) = listener.upgrade() {
                actor.wake();
            }
        });
        Arc::clone(&actor).begin()?;
        self.reports.0.lock().push(Arc::clone(&record));
        self.running.lock().push(RunningTask { signal, record, _actor: actor });
        Ok(())
    }

    /// Every task, in the order they were started.
    pub fn status(&self) -> Vec<TaskStatus> {
        self.reports.all()
    }

    /// The same at any later time, for whoever tells of them.
    pub fn reports(&self) -> TaskReports {
        self.reports.clone()
    }

    /// Asks every task to end, waits for them until `deadline` has passed, and names those who linger (they are left alone; the process is
    /// about to end). A task that stops its own supervisor is not waited for: it ends after its step.
    pub fn stop(&self, deadline: Duration) -> Vec<&'static str> {
        let until = Instant::now() + deadline;
        self.stop.request();
        let running = std::mem::take(&mut *self.running.lock());
        self.reports.0.lock().clear();
        for task in &running {
            task.signal.raise();
        }
        let mut lingering = Vec::new();
        for RunningTask { record, .. } in running {
            if STEPPING.get() != Arc::as_ptr(&record) && !record.wait_for_end(until) {
                let name = record.status.lock().name;
                tracing::warn!(task = name, "task `{name}` did not end in time");
                lingering.push(name);
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

impl TaskRecord {
    fn new(name: &'static str) -> Self {
        let status = TaskStatus { name, state: TaskState::Idle, panics: 0, errors: 0, last_error: None };
        Self { status: Mutex::new(status), ended: Condvar::new() }
    }
    fn enter(&self, state: TaskState) {
        self.status.lock().state = state;
        if state == TaskState::Stopped {
            self.ended.notify_all();
        }
    }
    fn wait_for_end(&self, until: Instant) -> bool {
        let mut status = self.status.lock();
        self.ended.wait_while_until(&mut status, |status| status.state != TaskState::Stopped, until);
        status.state == TaskState::Stopped
    }
}

thread_local! {
    /// Whose step this thread is taking.
    static STEPPING: Cell<*const TaskRecord> = const { Cell::new(ptr::null()) };
}

/// A task between its steps, which a thread of the pool takes.
struct TaskActor<T> {
    /// None once it has ended.
    task: Mutex<Option<T>>,
    phase: Mutex<TaskPhase>,
    signal: Signal,
    stop: StopToken,
    backoff: Backoff,
    record: Arc<TaskRecord>,
}

/// What an actor is at.
#[derive(Clone, Copy)]
enum TaskPhase {
    /// It waits for its signal, or this.
    Waiting(Option<DueTime>),
    /// It waits for this after so many failures, whatever is signalled.
    Pausing(DueTime, u32),
    /// A thread has it, or will; after so many failures.
    Stepping(u32),
}

impl<T: Task> TaskActor<T> {
    /// Takes the first step.
    fn begin(self: Arc<Self>) -> std::io::Result<()> {
        *self.phase.lock() = TaskPhase::Stepping(0);
        let actor = Arc::clone(&self);
        TASKS.submit(Box::new(move || actor.run()))
    }

    /// The signal was raised, or a wait is over.
    fn wake(self: Arc<Self>) {
        let due = {
            let mut phase = self.phase.lock();
            let (due, failures) = match *phase {
                TaskPhase::Waiting(due) => (due, 0),
                TaskPhase::Pausing(due, failures) if self.stop.is_requested() || due.0 <= Instant::now() => {
                    (Some(due), failures)
                }
                TaskPhase::Pausing(..) | TaskPhase::Stepping(_) => return,
            };
            *phase = TaskPhase::Stepping(failures);
            due
        };
        if let Some(due) = due {
            TASKS.cancel(due);
        }
        let actor = Arc::clone(&self);
        if TASKS.submit(Box::new(move || actor.run())).is_err() {
            // No thread to be had: there will be one for the next call.
            *self.phase.lock() = TaskPhase::Waiting(None);
        }
    }

    fn run(self: Arc<Self>) {
        let TaskPhase::Stepping(failures) = *self.phase.lock() else { return };
        if self.stop.is_requested() {
            return self.end();
        }
        let _ = self.signal.take();
        self.record.enter(TaskState::Busy);
        match self.step() {
            Ok(NextStep::Now) => self.go_on(),
            Ok(NextStep::WhenSignalled) => self.rest(None),
            Ok(NextStep::After(time)) => self.rest(Instant::now().checked_add(time)),
            Err(message) => self.pause(failures + 1, &message),
        }
    }

    /// Waits for the signal, or a moment.
    fn rest(self: Arc<Self>, until: Option<Instant>) {
        let mut phase = self.phase.lock();
        self.record.enter(TaskState::Idle);
        if self.signal.is_raised() || self.stop.is_requested() {
            drop(phase);
            return self.go_on();
        }
        let again = Arc::clone(&self);
        *phase = TaskPhase::Waiting(until.map(|until| TASKS.submit_at(until, Box::new(move || again.wake()))));
    }

    fn pause(self: Arc<Self>, failures: u32, message: &str) {
        let pause = self.backoff.pause(failures);
        let (task, retry_in_ms) = (T::NAME, pause.as_millis() as u64);
        tracing::error!(task, error = message, retry_in_ms, "task `{}` failed", T::NAME);
        let mut phase = self.phase.lock();
        self.record.enter(TaskState::BackingOff);
        if self.stop.is_requested() {
            drop(phase);
            return self.go_on();
        }
        let again = Arc::clone(&self);
        *phase = TaskPhase::Pausing(TASKS.submit_at(Instant::now() + pause, Box::new(move || again.wake())), failures);
    }

    /// Takes the next step after whatever else is ready.
    fn go_on(self: Arc<Self>) {
        *self.phase.lock() = TaskPhase::Stepping(0);
        let actor = Arc::clone(&self);
        // There is a thread: this one.
        if TASKS.submit(Box::new(move || actor.run())).is_err() {
            tracing::error!(task = T::NAME, "no thread for a task");
        }
    }

    fn end(&self) {
        let task = self.task.lock().take();
        // What it holds is let go of before anybody is told that it ended.
        STEPPING.set(Arc::as_ptr(&self.record));
        drop(task);
        STEPPING.set(ptr::null());
        self.record.enter(TaskState::Stopped);
    }

    fn step(&self) -> Result<NextStep, String> {
        let mut task = self.task.lock();
        let Some(task) = task.as_mut() else { return Ok(NextStep::WhenSignalled) };
        STEPPING.set(Arc::as_ptr(&self.record));
        // A panic leaves at worst a half-done step behind, and steps are idempotent by the trait's contract.
        let outcome = catch_unwind(AssertUnwindSafe(|| task.step(&self.stop)));
        STEPPING.set(ptr::null());
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
