//! The task that turns changes into notifications and hands them to the threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use svcfs_base::{Clock, Fault, Timestamp};
use svcfs_store::{DeliveryAttempt, HookPosition, HookWrite, QueuedDelivery, StoredHook};
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use super::events::{EventReader, FrontmatterCache, Notification};
use super::hook::Hook;
use super::outcome::{Verdict, is_failing_long};
use super::registry::{HookState, MAX_QUEUED, MIN_ROOM, Webhooks};
use super::workers::{DeliveryJob, DeliveryOutcome};
use crate::kernel::Space;

/// Change sets that are read in one step for one webhook.
const BATCH_SETS: usize = 64;

/// Notifications of one webhook that are handed to the threads.
const MAX_IN_FLIGHT: usize = 32;

/// How long a new position without notifications stays unstored: reading the same changes again
/// leads to nothing as well.
const POSITION_INTERVAL: Duration = Duration::from_secs(5);

/// See the module.
pub struct WebhookDispatcher {
    space: Arc<Space>,
    webhooks: Arc<Webhooks>,
    clock: Arc<dyn Clock>,
    /// Outcomes that are not stored yet.
    outcomes: Vec<DeliveryOutcome>,
    /// Positions that are not stored yet.
    positions: BTreeMap<String, HookPosition>,
    unstored_since: Option<Instant>,
}

/// What one webhook has read in the feed.
struct FeedPart {
    position: HookPosition,
    notifications: Vec<Notification>,
    has_more: bool,
}

impl WebhookDispatcher {
    /// The task of a space; none without webhooks.
    pub fn for_space(space: &Arc<Space>, clock: Arc<dyn Clock>) -> Option<Self> {
        let webhooks = Arc::clone(space.webhooks.as_ref()?);
        let (outcomes, positions, unstored_since) = Default::default();
        Some(Self { space: Arc::clone(space), webhooks, clock, outcomes, positions, unstored_since })
    }

    fn position(&self, hook: &Hook) -> HookPosition {
        let stored = hook.stored.position;
        let read = self.positions.get(&hook.stored.id).copied().unwrap_or(stored);
        if (read.seq, read.part) > (stored.seq, stored.part) { read } else { stored }
    }

    /// Reads the next changes for a webhook that has `room` for more notifications.
    fn read_feed(
        &self,
        (hook, pages): (&Hook, &FrontmatterCache),
        room: usize,
        stop: &StopToken,
    ) -> Result<FeedPart, Fault> {
        let mut part = FeedPart { position: self.position(hook), notifications: Vec::new(), has_more: false };
        if room < MIN_ROOM {
            return Ok(part);
        }
        let events = self.space.vfs.feed().events_after(part.position.seq, BATCH_SETS)?;
        for event in &events {
            let reader = EventReader::new((&self.space, pages), hook, event);
            for index in part.position.part..event.changes.len() {
                if part.notifications.len() >= room || stop.is_requested() {
                    return Ok(part);
                }
                part.notifications.extend(reader.notifications(index));
                part.position.part = index + 1;
            }
            part.position = HookPosition { seq: event.seq, part: 0 };
        }
        part.has_more = !events.is_empty() && part.position.seq < self.space.vfs.last_seq();
        Ok(part)
    }

    /// The changes that follow from the outcomes, and which webhooks end with them.
    fn settle(&self, state: &HookState, now: Timestamp, writes: &mut Vec<HookWrite>) -> Vec<(StoredHook, String)> {
        let mut hooks: BTreeMap<&str, StoredHook> = BTreeMap::new();
        for outcome in &self.outcomes {
            let (delivery, Some(attempt)) = (&outcome.delivery, &outcome.attempt) else { continue };
            let is_waiting = state.schedules.get(&delivery.hook).is_some_and(|known| known.contains(delivery.number));
            let Some(hook) = state.hooks.get(&delivery.hook).filter(|_| is_waiting) else { continue };
            let hook = hooks.entry(&delivery.hook).or_insert_with(|| hook.stored.clone());
            let random = delivery.message.bytes().last().unwrap_or_default().wrapping_mul(37);
            let verdict = attempt.result.verdict((delivery.attempts, self.webhooks.max_retries), now, random);
            match &verdict {
                Verdict::Delivered => hook.failing_since = None,
                _ => hook.failing_since = hook.failing_since.or(Some(attempt.at)),
            }
            let next_at = match verdict {
                Verdict::Retry(next_at) => {
                    writes.push(HookWrite::Retry(delivery.number, delivery.attempts + 1, next_at));
                    Some(next_at)
                }
                Verdict::Delivered | Verdict::GivenUp | Verdict::Gone => {
                    writes.push(HookWrite::Finish(delivery.number));
                    None
                }
            };
            let [delivered, failed, given_up] = &self.webhooks.counters;
            match &verdict {
                Verdict::Delivered => delivered.fetch_add(1, Ordering::Relaxed),
                Verdict::Retry(_) => failed.fetch_add(1, Ordering::Relaxed),
                Verdict::GivenUp | Verdict::Gone => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    given_up.fetch_add(1, Ordering::Relaxed)
                }
            };
            let is_failing_long = is_failing_long(hook.failing_since, now, (&verdict, delivery.attempts));
            let reason = match verdict {
                Verdict::Gone => Some("the receiver answered 410: it does not exist any more".to_owned()),
                _ if is_failing_long => {
                    let error = attempt.result.error.as_deref().unwrap_or_default();
                    Some(format!("all attempts of a day failed, the last one with: {error}"))
                }
                _ => None,
            };
            if let (None, Some(reason)) = (&hook.disabled, reason) {
                hook.disabled = Some((now, reason));
            }
            writes.push(HookWrite::Log(DeliveryAttempt {
                hook: delivery.hook.clone(),
                message: delivery.message.clone(),
                event: delivery.event,
                path: delivery.path.clone(),
                attempt: delivery.attempts + 1,
                at: attempt.at,
                duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
                status: attempt.result.status,
                error: attempt.result.error.clone(),
                next_at: next_at.filter(|_| hook.disabled.is_none()),
            }));
        }
        let mut ended = Vec::new();
        for (id, hook) in hooks {
            if state.hooks.get(id).is_some_and(|known| known.stored == hook) {
                continue;
            }
            writes.push(HookWrite::Put(hook.clone()));
            if let Some((_, reason)) = &hook.disabled {
                writes.push(HookWrite::Clear(id.to_owned()));
                ended.push((hook.clone(), reason.clone()));
            }
        }
        ended
    }

    /// Hands what is due to the threads; returns when the next is due.
    fn dispatch(&self, state: &mut HookState, now: Timestamp) -> Result<Option<Timestamp>, TaskFailure> {
        let HookState { hooks, schedules, .. } = state;
        let mut next_due: Option<Timestamp> = None;
        for (id, hook) in hooks.iter().filter(|(_, hook)| hook.is_enabled()) {
            let Some(schedule) = schedules.get_mut(id) else { continue };
            let is_failing = hook.stored.failing_since.is_some();
            let limit = if is_failing { 1 } else { MAX_IN_FLIGHT };
            let due = schedule.take_due(now, limit.saturating_sub(schedule.in_flight()));
            if !due.is_empty() {
                let deliveries = self.webhooks.file.deliveries(&due).inspect_err(|_| {
                    due.iter().for_each(|number| schedule.give_back(*number));
                })?;
                // A row that cannot be read is never delivered.
                let is_read = |number: &&i64| deliveries.iter().any(|delivery| delivery.number == **number);
                let unreadable: Vec<i64> = due.iter().filter(|number| !is_read(number)).copied().collect();
                unreadable.into_iter().for_each(|number| schedule.finish(number));
                let job = |delivery| DeliveryJob { hook: Arc::clone(hook), delivery };
                self.webhooks.pool.submit(id, is_failing, deliveries.into_iter().map(job).collect())?;
            }
            if schedule.in_flight() < limit
                && let Some(due) = schedule.next_due()
            {
                next_due = Some(next_due.map_or(due, |earlier| earlier.min(due)));
            }
        }
        Ok(next_due)
    }

    /// Logs and announces webhooks that were disabled.
    fn announce(&self, ended: Vec<(StoredHook, String)>) {
        for (hook, reason) in ended {
            self.webhooks.pool.withdraw(&hook.id);
            tracing::error!(
                space = self.space.name,
                webhook.id = hook.id,
                "a webhook was disabled, and its waiting notifications were dropped: {reason}"
            );
            let data =
                json!({ "op": "webhook.disabled", "id": hook.id, "reason": reason, "timestamp": self.clock.now() });
            self.space.notices.publish("webhook.disabled", data);
        }
    }
}

impl Task for WebhookDispatcher {
    const NAME: &'static str = "webhooks";
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        self.outcomes.extend(self.webhooks.pool.take_outcomes());
        let now = self.clock.now();
        let hooks: Vec<(Arc<Hook>, usize)> = {
            let state = self.webhooks.state.lock();
            let enabled = state.hooks.values().filter(|hook| hook.is_enabled());
            let queued = |hook: &Hook| state.schedules.get(&hook.stored.id).map_or(0, |schedule| schedule.len());
            enabled.map(|hook| (Arc::clone(hook), MAX_QUEUED.saturating_sub(queued(hook)))).collect()
        };
        // The lock is not needed while contents are read.
        let mut parts = Vec::with_capacity(hooks.len());
        let pages = FrontmatterCache::default();
        for (hook, room) in hooks {
            parts.push((self.read_feed((&hook, &pages), room, stop)?, hook));
        }
        let has_more = parts.iter().any(|(part, _)| part.has_more);

        let webhooks = Arc::clone(&self.webhooks);
        let mut state = webhooks.state.lock();
        let mut writes = Vec::new();
        let ended = self.settle(&state, now, &mut writes);
        let mut number = state.next_number;
        for (part, hook) in parts {
            let id = &hook.stored.id;
            let is_current =
                |known: &&Arc<Hook>| known.is_enabled() && known.stored.created_at == hook.stored.created_at;
            if state.hooks.get(id).filter(is_current).is_none() || ended.iter().any(|(ended, _)| ended.id == *id) {
                continue;
            }
            if part.position != self.position(&hook) {
                self.positions.insert(id.clone(), part.position);
                self.unstored_since.get_or_insert_with(Instant::now);
            }
            for Notification { message, event, path, former_path, body } in part.notifications {
                let (hook, attempts) = (id.clone(), 0);
                writes.push(HookWrite::Enqueue(QueuedDelivery {
                    number,
                    hook,
                    message,
                    event,
                    path,
                    former_path,
                    body,
                    attempts,
                    next_at: now,
                }));
                number += 1;
            }
        }
        let is_late = self.unstored_since.is_some_and(|since| since.elapsed() >= POSITION_INTERVAL);
        if !writes.is_empty() || is_late {
            writes.extend(self.positions.iter().map(|(id, position)| HookWrite::Advance(id.clone(), *position)));
        }
        let stored = webhooks.apply(&mut state, &writes);
        // What is not stored is read again with the next step, so that the position is never ahead
        // of its notifications.
        if stored.is_err() || !writes.is_empty() {
            self.positions.clear();
            self.unstored_since = None;
        }
        stored?;
        for outcome in self.outcomes.drain(..).filter(|outcome| outcome.attempt.is_none()) {
            if let Some(schedule) = state.schedules.get_mut(&outcome.delivery.hook) {
                schedule.give_back(outcome.delivery.number);
            }
        }
        let dispatched = self.dispatch(&mut state, now);
        drop(state);
        self.announce(ended);
        Ok(next_step(has_more, dispatched?, (now, self.unstored_since.is_some())))
    }
}

impl Drop for WebhookDispatcher {
    fn drop(&mut self) {
        self.webhooks.pool.stop();
    }
}

fn next_step(has_more: bool, next_due: Option<Timestamp>, (now, is_unstored): (Timestamp, bool)) -> NextStep {
    if has_more {
        return NextStep::Now;
    }
    let wait = next_due.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
    match (wait, is_unstored) {
        (Some(wait), true) => NextStep::After(wait.min(POSITION_INTERVAL)),
        (Some(wait), false) => NextStep::After(wait),
        (None, true) => NextStep::After(POSITION_INTERVAL),
        (None, false) => NextStep::WhenSignalled,
    }
}
