//! The webhooks of a space in memory, and their durable copy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use svcfs_base::{Clock, Fault, Kind, Seq, Timestamp};
use svcfs_config::{NetSettings, WebhookSettings};
use svcfs_net::{AddressPolicy, OutgoingClient, OutgoingLimits};
use svcfs_store::{
    DeliveryAttempt, HookFile, HookPosition, HookWrite, QueuedDelivery, StatePaths, StoreError, StoredHook, StoredHooks,
};

use super::hook::Hook;
use super::outcome::AttemptResult;
use super::schedule::Schedule;
use super::signature::static_id;
use super::workers::{self, WorkerPool};

/// Limit of webhooks in a space.
const MAX_HOOKS: usize = 100;

/// Waiting notifications at which a webhook reads no further in the feed.
pub(super) const MAX_QUEUED: usize = 2_000;

/// Room for notifications from which a webhook reads on: a set of many changes is read again for
/// each part of it.
pub(super) const MIN_ROOM: usize = MAX_QUEUED / 4;

/// For one request, with redirects.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A person waits for a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Numbers since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebhookCounts {
    /// Delivered notifications.
    pub delivered: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Notifications that were given up.
    pub given_up: u64,
    /// Notifications that wait.
    pub queued: u64,
    /// Disabled webhooks.
    pub disabled: u64,
}

/// The webhooks of a space.
pub struct Webhooks {
    pub(super) file: HookFile,
    pub(super) state: Mutex<HookState>,
    pub(super) pool: Arc<WorkerPool>,
    pub(super) max_retries: u32,
    pub(super) counters: [AtomicU64; 3],
    test_client: OutgoingClient,
}

/// Changed only with the file.
#[derive(Default)]
pub(super) struct HookState {
    pub hooks: BTreeMap<String, Arc<Hook>>,
    pub schedules: BTreeMap<String, Schedule>,
    pub next_number: i64,
}

/// What is known about a webhook beside what is stored.
pub(super) struct HookReport {
    pub stored: StoredHook,
    pub queued: usize,
}

impl Webhooks {
    /// Opens the webhooks of a root, and adds those of the settings; `last` is the end of the feed.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(
        paths: &StatePaths,
        (settings, net): (&WebhookSettings, &NetSettings),
        (clock, last): (Arc<dyn Clock>, Seq),
    ) -> Result<Self, StoreError> {
        let (file, stored) = HookFile::open(&paths.webhooks())?;
        let client = |timeout| {
            let limits = OutgoingLimits {
                timeout,
                max_bytes: 64 << 10,
                max_redirects: 3,
                requires_tls: true,
                max_idle_connections: settings.max_workers,
            };
            OutgoingClient::new(AddressPolicy::new(&net.hosts, &net.networks), limits)
        };
        let now = clock.now();
        let state = Mutex::new(HookState::new(stored));
        let webhooks = Self {
            pool: WorkerPool::new(client(TIMEOUT), clock, settings.max_workers),
            max_retries: settings.max_retries,
            counters: Default::default(),
            test_client: client(TEST_TIMEOUT),
            file,
            state,
        };
        let writes = webhooks.settings_writes(settings, now, last);
        webhooks.apply(&mut webhooks.state.lock(), &writes)?;
        Ok(webhooks)
    }

    /// The changes that bring the stored webhooks in line with the settings and the feed.
    fn settings_writes(&self, settings: &WebhookSettings, now: Timestamp, last: Seq) -> Vec<HookWrite> {
        let state = self.state.lock();
        let mut writes = Vec::new();
        let end = HookPosition { seq: last, part: 0 };
        for entry in &settings.entries {
            let id = static_id(&entry.url);
            let known = state.hooks.get(&id).map(|hook| &hook.stored);
            let hook = StoredHook {
                id,
                url: entry.url.clone(),
                path_glob: entry.path_glob.clone(),
                events: entry.events.clone(),
                secret: entry.secret.clone(),
                is_static: true,
                created_at: known.map_or(now, |known| known.created_at),
                position: known.filter(|known| known.disabled.is_none()).map_or(end, |known| known.position),
                failing_since: known.filter(|known| known.disabled.is_none()).and_then(|known| known.failing_since),
                // The operator starts the server again after the receiver was repaired.
                disabled: None,
            };
            if known != Some(&hook) {
                writes.push(HookWrite::Put(hook));
            }
        }
        for hook in state.hooks.values().map(|hook| &hook.stored) {
            let is_listed = settings.entries.iter().any(|entry| static_id(&entry.url) == hook.id);
            if hook.is_static && !is_listed {
                writes.push(HookWrite::Remove(hook.id.clone()));
            } else if hook.position.seq > last {
                // The log was rebuilt, and positions mean something else.
                writes.push(HookWrite::Advance(hook.id.clone(), end));
            }
        }
        writes
    }

    /// Makes changes on disk, then in memory.
    ///
    /// # Errors
    /// Those of the disk; nothing has changed then.
    pub(super) fn apply(&self, state: &mut HookState, writes: &[HookWrite]) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.file.write(writes)?;
        writes.iter().for_each(|write| state.apply(write));
        Ok(())
    }

    /// Checks the address of a receiver.
    ///
    /// # Errors
    /// `Invalid`, saying why.
    pub(super) fn check_url(&self, url: &str) -> Result<(), Fault> {
        self.test_client.check_url(url).map_err(|error| Fault::invalid("url", error.to_string()))
    }

    /// Adds a webhook.
    ///
    /// # Errors
    /// `Conflict` when there are too many; those of the disk.
    pub(super) fn add(&self, hook: StoredHook) -> Result<(), Fault> {
        let mut state = self.state.lock();
        if state.hooks.len() >= MAX_HOOKS {
            let message = format!("this space has {MAX_HOOKS} webhooks; delete some of them first");
            return Err(Fault::new(Kind::Conflict, message));
        }
        self.apply(&mut state, &[HookWrite::Put(hook)]).map_err(not_stored)?;
        self.pool.finished.raise();
        Ok(())
    }

    /// Ends a webhook with its notifications.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn remove(&self, id: &str) -> Result<(), Fault> {
        self.apply(&mut self.state.lock(), &[HookWrite::Remove(id.to_owned())]).map_err(not_stored)?;
        self.pool.withdraw(id);
        Ok(())
    }

    /// Starts a disabled webhook again, at the end of the feed.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn enable(&self, id: &str, last: Seq) -> Result<(), Fault> {
        let mut state = self.state.lock();
        let Some(hook) = state.hooks.get(id).filter(|hook| !hook.is_enabled()) else { return Ok(()) };
        let position = HookPosition { seq: last, part: 0 };
        let hook = StoredHook { disabled: None, failing_since: None, position, ..hook.stored.clone() };
        self.apply(&mut state, &[HookWrite::Put(hook)]).map_err(not_stored)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Hook>> {
        self.state.lock().hooks.get(id).cloned()
    }

    /// All webhooks, the oldest first.
    pub(super) fn list(&self) -> Vec<HookReport> {
        let state = self.state.lock();
        let report = |hook: &Arc<Hook>| HookReport {
            queued: state.schedules.get(&hook.stored.id).map_or(0, Schedule::len),
            stored: hook.stored.clone(),
        };
        let mut reports: Vec<HookReport> = state.hooks.values().map(report).collect();
        reports.sort_by(|a, b| (a.stored.created_at, &a.stored.id).cmp(&(b.stored.created_at, &b.stored.id)));
        reports
    }

    /// The latest attempts of a webhook, newest first.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn attempts(&self, id: &str, limit: usize) -> Result<Vec<DeliveryAttempt>, Fault> {
        let to_fault = |error: StoreError| Fault::unavailable(format!("the deliveries cannot be read: {error}"));
        self.file.attempts(id, limit).map_err(to_fault)
    }

    /// Sends a message now, without the queue.
    pub(super) fn send_test(&self, hook: &Hook, message: (&str, &str), at: Timestamp) -> AttemptResult {
        workers::post(&self.test_client, hook, message, at)
    }

    /// Wakes the dispatcher.
    pub(crate) fn signal(&self) -> svcfs_work::Signal {
        self.pool.finished.clone()
    }

    /// Numbers for metrics.
    pub fn counts(&self) -> WebhookCounts {
        let [delivered, failed, given_up] = self.counters.each_ref().map(|counter| counter.load(Ordering::Relaxed));
        let state = self.state.lock();
        let queued = state.schedules.values().map(|schedule| schedule.len() as u64).sum();
        let disabled = state.hooks.values().filter(|hook| !hook.is_enabled()).count() as u64;
        WebhookCounts { delivered, failed, given_up, queued, disabled }
    }

    /// What a person must repair: disabled webhooks.
    pub fn problems(&self) -> Vec<(String, String)> {
        let disabled = |hook: &Arc<Hook>| {
            let (at, reason) = hook.stored.disabled.as_ref()?;
            let (id, advice) = (&hook.stored.id, "repair the receiver and send `POST /webhooks/ID/test`, or delete it");
            Some((format!("webhook {id}"), format!("disabled at {at:.0}: {reason}; {advice}")))
        };
        self.state.lock().hooks.values().filter_map(disabled).collect()
    }
}

impl HookState {
    fn new(stored: StoredHooks) -> Self {
        let mut state = Self::default();
        stored.hooks.into_iter().for_each(|hook| state.apply(&HookWrite::Put(hook)));
        stored.queue.into_iter().for_each(|delivery| state.apply(&HookWrite::Enqueue(delivery)));
        state
    }

    /// Makes a stored change in memory.
    fn apply(&mut self, write: &HookWrite) {
        match write {
            HookWrite::Put(hook) => {
                self.schedules.entry(hook.id.clone()).or_default();
                self.hooks.insert(hook.id.clone(), Arc::new(Hook::new(hook.clone())));
            }
            HookWrite::Advance(id, position) => {
                if let Some(hook) = self.hooks.get(id) {
                    let moved = Arc::new(hook.at(*position));
                    self.hooks.insert(id.clone(), moved);
                }
            }
            HookWrite::Remove(id) => {
                self.hooks.remove(id);
                self.schedules.remove(id);
            }
            HookWrite::Clear(id) => {
                self.schedules.insert(id.clone(), Schedule::default());
            }
            HookWrite::Enqueue(QueuedDelivery { number, hook, path, former_path, next_at, .. }) => {
                self.next_number = self.next_number.max(number + 1);
                if let Some(schedule) = self.schedules.get_mut(hook) {
                    schedule.push(*number, (path, former_path.as_ref()), *next_at);
                }
            }
            HookWrite::Retry(number, _, next_at) => {
                self.schedules.values_mut().for_each(|schedule| schedule.retry(*number, *next_at));
            }
            HookWrite::Finish(number) => self.schedules.values_mut().for_each(|schedule| schedule.finish(*number)),
            HookWrite::Log(_) => {}
        }
    }
}

fn not_stored(error: StoreError) -> Fault {
    Fault::unavailable(format!("the webhook could not be stored: {error}"))
}
