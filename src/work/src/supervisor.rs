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

/// Background work as an idempotent step without input: the step reads its own cursor, so it can be
/// repeated at any time.
pub trait Task: Send + 'static {
    /// Name in logs, thread lists and reports.
    const NAME: &'static str;
    /// How long a stop waits for a running step, if that is less than for other tasks: for a task
    /// that waits for other servers, and whose results are a cache.
    const MAX_STOP_WAIT: Option<Duration> = None;
    /// Does a bounded piece of work.
    ///
    /// # Errors
    /// The cause of the failure; the supervisor retries the step with backoff.
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure>;
}

/// When the next step of a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Immediately: there is more work.
    Now,
    /// When its signal is raised.
    WhenSignalled,
    /// When its signal is raised, or after this time.
    After(Duration),
}

/// Exponential backoff: the delay doubles with each failure in a row, up to a maximum.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Delay after the first failure.
    pub initial_delay: Duration,
    /// Upper bound of the delay.
    pub max_delay: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(60) }
    }
}

impl Backoff {
    pub(crate) fn delay(self, failures_in_a_row: u32) -> Duration {
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
    /// Waiting after a failure.
    BackingOff,
    /// Ended.
    Stopped,
}

impl TaskState {
    /// Name of the state for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::BackingOff => "backing off",
            Self::Stopped => "stopped",
        }
    }
}

/// Report on one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its name.
    pub name: &'static str,
    /// Current state.
    pub state: TaskState,
    /// Steps that panicked since the start.
    pub panics: u64,
    /// Steps that returned an error since the start.
    pub errors: u64,
    /// Text of the last failure; none after a step succeeded.
    pub last_error: Option<String>,
}

/// Runs the steps of tasks on a thread pool that all supervisors share, and stops the tasks.
#[derive(Default)]
pub struct Supervisor {
    stop: StopToken,
    backoff: Backoff,
    running: Mutex<Vec<RunningTask>>,
    reports: TaskReports,
}

struct RunningTask {
    signal: Signal,
    max_stop_wait: Option<Duration>,
    record: Arc<TaskRecord>,
    /// The only strong reference to a task that waits.
    _actor: Arc<dyn Any + Send + Sync>,
}

/// Read access to the task reports, for owners of other parts of the server.
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
    /// A supervisor whose tasks back off from 1 s up to 60 s after failures.
    pub fn new() -> Self {
        Self::default()
    }
    /// A supervisor with another backoff.
    pub fn with_backoff(backoff: Backoff) -> Self {
        let mut supervisor = Self::new();
        supervisor.backoff = backoff;
        supervisor
    }

    /// Starts a task. The first step runs immediately, later ones when `signal` is raised.
    ///
    /// # Errors
    /// The error of the operating system if no thread could be started.
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
        signal.set_listener(move || {
            if let Some(actor) = listener.upgrade() {
                actor.wake();
            }
        });
        Arc::clone(&actor).start_first_step()?;
        self.reports.0.lock().push(Arc::clone(&record));
        self.running.lock().push(RunningTask { signal, record, max_stop_wait: T::MAX_STOP_WAIT, _actor: actor });
        Ok(())
    }

    /// Every task, in the order they were started.
    pub fn status(&self) -> Vec<TaskStatus> {
        self.reports.all()
    }

    /// A handle that gives the same reports at any later time.
    pub fn reports(&self) -> TaskReports {
        self.reports.clone()
    }

    /// Requests every task to end and waits for them up to `timeout`. Returns the names of the
    /// tasks that still run; they are abandoned, because the process is about to exit. A task that
    /// stops its own supervisor is not waited for: it ends after its step.
    pub fn stop(&self, timeout: Duration) -> Vec<&'static str> {
        let start = Instant::now();
        self.stop.request();
        let running = std::mem::take(&mut *self.running.lock());
        self.reports.0.lock().clear();
        for task in &running {
            task.signal.raise();
        }
        let mut unfinished = Vec::new();
        for RunningTask { record, max_stop_wait, .. } in running {
            let deadline = start + max_stop_wait.map_or(timeout, |max| max.min(timeout));
            if STEPPING.get() != Arc::as_ptr(&record) && !record.wait_for_end(deadline) {
                let name = record.status.lock().name;
                if max_stop_wait.is_some() {
                    tracing::debug!(task = name, "task `{name}` is abandoned in the middle of a step");
                    continue;
                }
                tracing::warn!(task = name, "task `{name}` did not end in time");
                unfinished.push(name);
            }
        }
        unfinished
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
    fn wait_for_end(&self, deadline: Instant) -> bool {
        let mut status = self.status.lock();
        self.ended.wait_while_until(&mut status, |status| status.state != TaskState::Stopped, deadline);
        status.state == TaskState::Stopped
    }
}

thread_local! {
    /// The task whose step this thread runs.
    static STEPPING: Cell<*const TaskRecord> = const { Cell::new(ptr::null()) };
}

/// A task together with its scheduling state; a pool thread runs its steps.
struct TaskActor<T> {
    /// None after the task has ended.
    task: Mutex<Option<T>>,
    phase: Mutex<TaskPhase>,
    signal: Signal,
    stop: StopToken,
    backoff: Backoff,
    record: Arc<TaskRecord>,
}

/// Scheduling state of a task.
#[derive(Clone, Copy)]
enum TaskPhase {
    /// Waits for its signal or until a due time.
    Waiting(Option<DueTime>),
    /// Backs off until a due time after a number of failures in a row; signals are ignored.
    Pausing(DueTime, u32),
    /// A pool thread runs the step, or is about to; after a number of failures in a row.
    Stepping(u32),
}

impl<T: Task> TaskActor<T> {
    /// Runs the first step.
    fn start_first_step(self: Arc<Self>) -> std::io::Result<()> {
        *self.phase.lock() = TaskPhase::Stepping(0);
        let actor = Arc::clone(&self);
        TASKS.submit(Box::new(move || actor.run()))
    }

    /// Handles a raised signal or the end of a wait.
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
            // No thread could be started; the next signal tries again.
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
            Ok(NextStep::Now) => self.queue_next_step(),
            Ok(NextStep::WhenSignalled) => self.wait_for_signal(None),
            Ok(NextStep::After(time)) => self.wait_for_signal(Instant::now().checked_add(time)),
            Err(message) => self.back_off(failures + 1, &message),
        }
    }

    /// Waits for the signal, or until a due time.
    fn wait_for_signal(self: Arc<Self>, deadline: Option<Instant>) {
        let mut phase = self.phase.lock();
        self.record.enter(TaskState::Idle);
        if self.signal.is_raised() || self.stop.is_requested() {
            drop(phase);
            return self.queue_next_step();
        }
        let waker = Arc::clone(&self);
        *phase = TaskPhase::Waiting(deadline.map(|deadline| TASKS.submit_at(deadline, Box::new(move || waker.wake()))));
    }

    fn back_off(self: Arc<Self>, failures: u32, message: &str) {
        let delay = self.backoff.delay(failures);
        let (task, retry_in_ms) = (T::NAME, delay.as_millis() as u64);
        tracing::error!(task, error = message, retry_in_ms, "task `{}` failed", T::NAME);
        let mut phase = self.phase.lock();
        self.record.enter(TaskState::BackingOff);
        if self.stop.is_requested() {
            drop(phase);
            return self.queue_next_step();
        }
        let waker = Arc::clone(&self);
        *phase = TaskPhase::Pausing(TASKS.submit_at(Instant::now() + delay, Box::new(move || waker.wake())), failures);
    }

    /// Queues the next step behind other work that is ready.
    fn queue_next_step(self: Arc<Self>) {
        *self.phase.lock() = TaskPhase::Stepping(0);
        let actor = Arc::clone(&self);
        // A thread exists: the current one.
        if TASKS.submit(Box::new(move || actor.run())).is_err() {
            tracing::error!(task = T::NAME, "no thread for a task");
        }
    }

    fn end(&self) {
        let task = self.task.lock().take();
        // The task's resources are released before the task is reported as stopped.
        STEPPING.set(Arc::as_ptr(&self.record));
        drop(task);
        STEPPING.set(ptr::null());
        self.record.enter(TaskState::Stopped);
    }

    fn step(&self) -> Result<NextStep, String> {
        let mut task = self.task.lock();
        let Some(task) = task.as_mut() else { return Ok(NextStep::WhenSignalled) };
        STEPPING.set(Arc::as_ptr(&self.record));
        // A panic can leave a half-done step; steps are idempotent by the contract of the trait.
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
