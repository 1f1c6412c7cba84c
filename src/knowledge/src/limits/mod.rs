//! Limits of agents: how many pages one of them may delete in a minute and rewrite in an hour.
//!
//! Invariant: they protect pages of others from an agent that errs, not from an attacker. They are
//! checked before the write path, so a refused change leaves nothing. Changes of drafts do not
//! count: a draft is how an agent proposes more. A dry run is refused as its change would be, and
//! does not count. The counters are in memory; a restart resets them.

mod counters;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use svcfs_base::{Actor, Caller, Change, ChangeSet, Fault, Kind, Timestamp, TreePath};
use svcfs_config::AgentLimits;

use crate::access::RETRY_AFTER_KEY;
use crate::kernel::{EntryKind, OperationContext};
use counters::{ActorCounters, LimitKind};

/// Name of the event when an agent reaches a limit.
pub const LIMIT_EVENT: &str = "agent.limit";
/// Maximum number of agents that are counted; those without recent changes are removed first.
const MAX_ACTORS: usize = 1_024;

/// What the agents of a space changed a short time ago.
pub struct LimitCounters {
    limits: AgentLimits,
    actors: Mutex<HashMap<AgentKey, ActorCounters>>,
}

/// Whom changes are counted for: credentials, or else a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum AgentKey {
    Credentials(u64),
    Name(Actor),
}

impl AgentKey {
    fn of(caller: &Caller) -> Self {
        caller.client.key.map_or_else(|| Self::Name(caller.actor()), Self::Credentials)
    }
}

/// Counted changes that are about to be made. They are uncounted on drop, unless they were made.
#[must_use = "the changes are uncounted when this is dropped"]
pub(crate) struct LimitReservation<'a> {
    counters: &'a LimitCounters,
    counted: Option<(AgentKey, CountedSet)>,
}

/// The changes of a set that count.
#[derive(Debug, Default, Clone)]
struct CountedSet {
    deleted: usize,
    /// Hashes of the existing pages whose content is replaced.
    rewritten: Vec<u64>,
    /// Hashes of new pages.
    created: Vec<u64>,
    /// Hashes of old and new names.
    renamed: Vec<(u64, u64)>,
}

impl LimitReservation<'_> {
    /// The changes were made.
    pub(crate) fn confirm(mut self) {
        self.counted = None;
    }
}

impl Drop for LimitReservation<'_> {
    fn drop(&mut self) {
        if let Some((key, counted)) = self.counted.take()
            && let Some(actor) = self.counters.actors.lock().get_mut(&key)
        {
            actor.remove(&counted);
        }
    }
}

impl LimitCounters {
    /// Counters with these limits.
    pub(crate) fn new(limits: AgentLimits) -> Self {
        Self { limits, actors: Mutex::default() }
    }

    /// Counts the changes of a set, if the limits apply to the caller.
    ///
    /// # Errors
    /// `RateLimited` when a limit would be exceeded; nothing is counted then.
    pub(crate) fn reserve(
        &self,
        cx: &OperationContext<'_>,
        caller: &Caller,
        set: &ChangeSet,
    ) -> Result<LimitReservation<'_>, Fault> {
        let mut reservation = LimitReservation { counters: self, counted: None };
        let is_off = self.limits.deletes_per_minute == 0 && self.limits.rewritten_percent_per_hour == 0;
        if is_off || !caller.is_limited || cx.is_unlimited() || caller.permissions.is_proposing() {
            return Ok(reservation);
        }
        let mut counted = count(cx, set);
        if counted.deleted == 0 && counted.rewritten.is_empty() && counted.created.is_empty() {
            return Ok(reservation);
        }
        let (now, key) = (cx.now(), AgentKey::of(caller));
        let mut actors = self.actors.lock();
        if actors.len() >= MAX_ACTORS && !actors.contains_key(&key) {
            make_room(&mut actors, now);
        }
        let actor = actors.entry(key.clone()).or_default();
        actor.expire(now);
        actor.retain_new(&mut counted);
        for kind in [LimitKind::Deletes, LimitKind::Rewrites] {
            let (done, more) = actor.usage(kind, &counted);
            let Some(max) = self.exceeded(kind, (done, more), cx)? else { continue };
            let is_first = actor.announce(kind, now);
            let resets_at = actor.resets_at(kind, now);
            drop(actors);
            let reached = ReachedLimit { kind, max, done, more, resets_at, now };
            if is_first {
                reached.announce(cx, caller);
            }
            return Err(reached.fault(cx, caller));
        }
        actor.add(&counted, now);
        reservation.counted = Some((key, counted));
        Ok(reservation)
    }

    /// The limit, if it would be exceeded. The pages are only counted when their number matters.
    fn exceeded(
        &self,
        kind: LimitKind,
        (done, more): (usize, usize),
        cx: &OperationContext<'_>,
    ) -> Result<Option<usize>, Fault> {
        let AgentLimits { deletes_per_minute, rewritten_percent_per_hour, min_rewritten_pages } = self.limits;
        let (setting, min) = match kind {
            LimitKind::Deletes => (deletes_per_minute, deletes_per_minute),
            LimitKind::Rewrites => (rewritten_percent_per_hour, min_rewritten_pages),
        };
        let (setting, mut max) = (setting as usize, min as usize);
        if setting == 0 || more == 0 || done + more <= max {
            return Ok(None);
        }
        if kind == LimitKind::Rewrites {
            max = max.max(cx.space.index.page_count()?.saturating_mul(setting) / 100);
        }
        Ok(Some(max).filter(|max| done + more > *max))
    }
}

/// Removes agents whose windows have ended; if there are none, all: they start again.
fn make_room(actors: &mut HashMap<AgentKey, ActorCounters>, now: Timestamp) {
    actors.retain(|_, actor| {
        actor.expire(now);
        !actor.is_empty()
    });
    if actors.len() >= MAX_ACTORS {
        actors.clear();
    }
}

/// What counts in a set. A rename counts as one rewritten page, whatever is below a directory; the
/// links that follow it do not count, because the server rewrites them.
fn count(cx: &OperationContext<'_>, set: &ChangeSet) -> CountedSet {
    let mut counted = CountedSet::default();
    let is_rename = set.changes.iter().any(|change| matches!(change, Change::Move { .. }));
    for change in &set.changes {
        match change {
            Change::Move { from, to, .. } => {
                counted.rewritten.push(hash(from));
                counted.renamed.push((hash(from), hash(to)));
            }
            Change::Remove { path, .. } if !is_rename && counts(path) => counted.deleted += 1,
            Change::Put { path, content, .. } if !is_rename && counts(path) => {
                let (vfs, protocol) = (&cx.space.vfs, cx.caller.protocol);
                let is_same = || vfs.read(protocol, path).is_ok_and(|file| file.content == *content);
                match vfs.stat(protocol, path) {
                    // The size of a link is that of its target's name.
                    Ok(now) if (now.kind != EntryKind::File || now.size == content.len() as u64) && is_same() => {}
                    Ok(_) => counted.rewritten.push(hash(path)),
                    Err(_) => counted.created.push(hash(path)),
                }
            }
            Change::Remove { .. } | Change::Put { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => {}
        }
    }
    counted
}

/// Whether a path is knowledge, and not a file of the server.
fn counts(path: &TreePath) -> bool {
    !path.is_hidden()
}

fn hash(path: &TreePath) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// A limit that a request would exceed.
struct ReachedLimit {
    kind: LimitKind,
    max: usize,
    /// Number of changes in the current window, and of those that the request adds.
    done: usize,
    more: usize,
    resets_at: Timestamp,
    now: Timestamp,
}

impl ReachedLimit {
    fn fault(&self, cx: &OperationContext<'_>, caller: &Caller) -> Fault {
        let Self { kind, max, done, more, resets_at, now } = self;
        let wait = resets_at.duration_since(*now).as_secs().max(1);
        let (verb, participle, window) = kind.words();
        let proposal = match cx.settings().drafts.enabled {
            true => "; to propose more, write into a draft of svc_draft_create, which a person reviews and merges",
            false => "",
        };
        let reset = match more > max {
            true => format!("This request alone would {verb} {more}: split it"),
            false => format!("The limit resets in {wait} s ({resets_at:.0})"),
        };
        let message = format!(
            "limit of agents: {} may {verb} {max} pages {window}, has {participle} {done}, and this request would \
             {verb} {more} more. {reset}{proposal}",
            caller.actor()
        );
        Fault::new(Kind::RateLimited, message)
            .with_detail(RETRY_AFTER_KEY, wait)
            .with_detail("limit", json!({ "kind": kind.name(), "max": max, "used": done, "resets_at": resets_at }))
    }

    /// Makes the limit known to those who review the agent's work.
    fn announce(&self, cx: &OperationContext<'_>, caller: &Caller) {
        let Self { kind, max, done, more, resets_at, now } = self;
        let actor = caller.actor();
        tracing::warn!(space = cx.space.name, %actor, limit = kind.name(), max, "an agent reached a limit");
        let data = json!({ "op": LIMIT_EVENT, "actor": actor, "limit": kind.name(), "max": max, "used": done,
                           "requested": more, "resets_at": resets_at, "timestamp": now });
        cx.space.notices.publish(LIMIT_EVENT, data);
    }
}

/// The length of a window.
const fn window(kind: LimitKind) -> Duration {
    match kind {
        LimitKind::Deletes => Duration::from_secs(60),
        LimitKind::Rewrites => Duration::from_secs(60 * 60),
    }
}
