//! The threads that send notifications.
//!
//! Invariant: a receiver that hangs does not stop others. One webhook leaves a thread to the
//! others, one that fails gets one thread, and all that fail together leave one.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use svcfs_base::{Clock, Timestamp};
use svcfs_net::OutgoingClient;
use svcfs_store::QueuedDelivery;
use svcfs_work::Signal;

use super::hook::Hook;
use super::outcome::AttemptResult;
use super::signature::sign;

/// How long an idle thread waits before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A notification in flight.
pub(super) struct DeliveryJob {
    pub hook: Arc<Hook>,
    pub delivery: QueuedDelivery,
}

/// What became of it.
pub(super) struct DeliveryOutcome {
    pub delivery: QueuedDelivery,
    /// None if it was not tried.
    pub attempt: Option<FinishedAttempt>,
}

/// A finished attempt.
pub(super) struct FinishedAttempt {
    pub at: Timestamp,
    pub duration: Duration,
    pub result: AttemptResult,
}

/// The threads, and what they have to do.
pub(super) struct WorkerPool {
    client: OutgoingClient,
    clock: Arc<dyn Clock>,
    max_threads: usize,
    state: Mutex<PoolState>,
    changed: Condvar,
    /// Raised after each outcome.
    pub finished: Signal,
}

#[derive(Default)]
struct PoolState {
    lanes: BTreeMap<String, HookLane>,
    outcomes: Vec<DeliveryOutcome>,
    threads: usize,
    idle: usize,
    is_stopped: bool,
    /// The webhook that was served last.
    last: String,
}

/// The jobs of one webhook.
#[derive(Default)]
struct HookLane {
    jobs: VecDeque<DeliveryJob>,
    active: usize,
    is_failing: bool,
}

impl WorkerPool {
    pub fn new(client: OutgoingClient, clock: Arc<dyn Clock>, max_threads: usize) -> Arc<Self> {
        let (state, changed, finished) = Default::default();
        Arc::new(Self { client, clock, max_threads: max_threads.max(1), state, changed, finished })
    }

    /// Sends notifications of a webhook, in this order of start.
    ///
    /// # Errors
    /// The error of the operating system if no thread could be started; the jobs come back as
    /// outcomes then.
    pub fn submit(self: &Arc<Self>, hook: &str, is_failing: bool, jobs: Vec<DeliveryJob>) -> std::io::Result<()> {
        let mut state = self.state.lock();
        let lane = state.lanes.entry(hook.to_owned()).or_default();
        lane.is_failing = is_failing;
        lane.jobs.extend(jobs);
        let waiting: usize = state.lanes.values().map(|lane| lane.jobs.len()).sum();
        while state.threads < self.max_threads && state.idle < waiting.min(self.max_threads) {
            let pool = Arc::clone(self);
            let started = thread::Builder::new().name("webhooks".to_owned()).spawn(move || pool.work());
            match started {
                Ok(_ends_when_idle_or_stopped) => {
                    state.threads += 1;
                    state.idle += 1;
                }
                Err(error) if state.threads == 0 => {
                    state.return_jobs(hook);
                    return Err(error);
                }
                Err(_) => break,
            }
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Takes back what was not started, because the webhook ended or fails.
    pub fn withdraw(&self, hook: &str) {
        self.state.lock().return_jobs(hook);
    }

    pub fn take_outcomes(&self) -> Vec<DeliveryOutcome> {
        std::mem::take(&mut self.state.lock().outcomes)
    }

    /// Ends the threads; one that waits for an answer ends after it, and is not waited for.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        state.lanes.values_mut().for_each(|lane| lane.jobs.clear());
        drop(state);
        self.changed.notify_all();
    }

    fn work(&self) {
        let mut idle_since = Instant::now();
        let mut state = self.state.lock();
        loop {
            let next_job = state.next_job(self.max_threads).filter(|_| !state.is_stopped);
            let Some(job) = next_job else {
                if state.is_stopped || idle_since.elapsed() >= IDLE_TIMEOUT {
                    state.threads -= 1;
                    state.idle -= 1;
                    return;
                }
                self.changed.wait_for(&mut state, IDLE_TIMEOUT);
                continue;
            };
            state.idle -= 1;
            drop(state);
            let id = job.hook.stored.id.clone();
            let outcome = self.attempt(job);
            let has_failed = outcome.attempt.as_ref().is_some_and(|attempt| attempt.result.error.is_some());
            state = self.state.lock();
            state.idle += 1;
            state.outcomes.push(outcome);
            if let Some(lane) = state.lanes.get_mut(&id) {
                lane.active -= 1;
                lane.is_failing = has_failed;
                if lane.active == 0 && lane.jobs.is_empty() {
                    state.lanes.remove(&id);
                }
            }
            if has_failed {
                state.return_jobs(&id);
            }
            idle_since = Instant::now();
            self.finished.raise();
        }
    }

    fn attempt(&self, job: DeliveryJob) -> DeliveryOutcome {
        let DeliveryJob { hook, delivery } = job;
        let (at, started) = (self.clock.now(), Instant::now());
        let send = || post(&self.client, &hook, (&delivery.message, &delivery.body), at);
        // A panic of a library is an error of this attempt; otherwise the page would wait for ever.
        let result = catch_unwind(AssertUnwindSafe(send)).unwrap_or_else(|_| AttemptResult {
            status: None,
            error: Some("the request could not be made; the server's log has the details".to_owned()),
            retry_after: None,
        });
        DeliveryOutcome { delivery, attempt: Some(FinishedAttempt { at, duration: started.elapsed(), result }) }
    }
}

impl PoolState {
    /// The next job whose webhook may use a thread, in turn.
    fn next_job(&mut self, max_threads: usize) -> Option<DeliveryJob> {
        let shared = max_threads.saturating_sub(1).max(1);
        let failing: usize = self.lanes.values().filter(|lane| lane.is_failing).map(|lane| lane.active).sum();
        let may_start = |lane: &HookLane| {
            let limit = if lane.is_failing { 1 } else { shared };
            !lane.jobs.is_empty() && lane.active < limit && (!lane.is_failing || failing < shared)
        };
        let after = self.lanes.iter().filter(|(id, _)| **id > self.last);
        let from_start = self.lanes.iter().filter(|(id, _)| **id <= self.last);
        let id = after.chain(from_start).find(|(_, lane)| may_start(lane)).map(|(id, _)| id.clone())?;
        let lane = self.lanes.get_mut(&id)?;
        let job = lane.jobs.pop_front()?;
        lane.active += 1;
        self.last = id;
        Some(job)
    }

    fn return_jobs(&mut self, hook: &str) {
        let Some(lane) = self.lanes.get_mut(hook) else { return };
        let jobs = std::mem::take(&mut lane.jobs);
        if lane.active == 0 {
            self.lanes.remove(hook);
        }
        self.outcomes.extend(jobs.into_iter().map(|job| DeliveryOutcome { delivery: job.delivery, attempt: None }));
    }
}

/// Sends a signed message.
pub(super) fn post(client: &OutgoingClient, hook: &Hook, (id, body): (&str, &str), at: Timestamp) -> AttemptResult {
    let timestamp = at.as_second();
    let signature = sign(&hook.stored.secret, id, timestamp, body);
    let timestamp = timestamp.to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("webhook-id", id),
        ("webhook-timestamp", &timestamp),
        ("webhook-signature", &signature),
    ];
    AttemptResult::of(client.post(&hook.stored.url, &headers, body.as_bytes()))
}
