//! The event stream (contract 6.1, gaps.md D11).
//!
//! One rule: nothing is lost silently. A subscriber reads the change log from its own position; being told of a change is only
//! the wake-up to read on. One who falls too far behind is told where to resume, and the connection ends. So it does, without a word, when
//! whoever follows would not be let in any more; coming back, they are told why.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use svcfs_base::{EventAnnouncement, Fault, Permissions, Seq, TreePath};
use svcfs_knowledge::access::{CallerIdentity, RETRY_AFTER_KEY, RateLimitKey};
use svcfs_knowledge::kernel::{EventChange, FeedEvent, Space};
use svcfs_work::Lane;
use tokio::sync::watch;
use tokio::time::Instant;
use warp::Reply;
use warp::reply::Response;
use warp::sse;

use crate::app::{AppState, log};
use crate::bind;
use crate::request_handler::SpecialRequest;
use crate::response_budget::unbuffered;

/// Subscribers at once, all spaces together.
const MAX_SUBSCRIBERS: usize = 256;
/// Those with one key, and those without any where keys are asked for: nobody takes the stream from all others.
const MAX_ALIKE: usize = MAX_SUBSCRIBERS / 2;
/// Those without a key from one address; not this machine's own: a proxy brings everybody from there.
const MAX_FROM_ONE: usize = 32;
/// Change sets read from the log at a time.
const BATCH: usize = 64;
/// How many change sets a live subscriber may be behind before it is told to resume.
const MAX_BEHIND: u64 = 10_000;
/// How often it is looked whether a subscriber may still read; besides, nothing is told before that.
const RECHECK: Duration = Duration::from_secs(2);
/// A comment keeps the connection open when nothing happens for this long (gaps.md 6.1). Proxies give up on a connection that is silent for
/// 30 s (HAProxy's usual `timeout server`), 60 s (nginx) or longer: one comment may be late and the next still comes in time.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Who follows the event stream, and what wakes them.
pub(crate) struct SubscriberRegistry {
    /// How many change sets a live subscriber may be behind before it is told to resume.
    pub max_behind: u64,
    /// How often it is looked whether a subscriber may still read.
    pub recheck: Duration,
    count: Arc<Mutex<SubscriberCounts>>,
    /// The newest position of each space that somebody followed.
    newest: Mutex<HashMap<String, FollowedSpace>>,
}

/// How many subscribers there are.
#[derive(Default)]
struct SubscriberCounts {
    all: usize,
    /// Those without a key, where keys are asked for.
    strangers: usize,
    /// Those of each caller who is counted.
    of: HashMap<RateLimitKey, usize>,
}

/// Who takes a place.
struct SubscriberClass {
    is_stranger: bool,
    counted: Option<RateLimitKey>,
}

impl SubscriberClass {
    fn of(app: &AppState, identity: &CallerIdentity, peer: Option<IpAddr>) -> Self {
        let token = identity.token.as_ref();
        let is_counted = |peer: &IpAddr| token.is_some() || !peer.to_canonical().is_loopback();
        Self {
            is_stranger: token.is_none() && !app.server.access().is_open(),
            counted: peer.filter(is_counted).map(|peer| RateLimitKey::new(token, peer)),
        }
    }
    /// How many of the same caller there may be.
    const fn most(&self) -> usize {
        match self.counted {
            Some(RateLimitKey::Address(_)) => MAX_FROM_ONE,
            Some(RateLimitKey::Token(_)) | None => MAX_ALIKE,
        }
    }
}

/// A space that is listened to.
struct FollowedSpace {
    /// One of the same name may have come in its place.
    space: Weak<Space>,
    newest: watch::Receiver<Seq>,
}

impl SubscriberRegistry {
    /// Nobody yet.
    pub(crate) fn new() -> Self {
        Self { newest: Mutex::default(), max_behind: MAX_BEHIND, recheck: RECHECK, count: Arc::default() }
    }
    /// What tells of the newest position of a space; it is listened to from now on.
    fn newest_of(&self, space: &Arc<Space>) -> watch::Receiver<Seq> {
        let mut followed = self.newest.lock();
        if let Some(known) = followed.get(&space.name)
            && known.space.upgrade().is_some_and(|known| Arc::ptr_eq(&known, space))
        {
            return known.newest.clone();
        }
        let (sender, newest) = watch::channel(space.vfs.last_seq());
        space.vfs.feed().on_event(move |seq| {
            sender.send_replace(seq);
            true
        });
        let known = FollowedSpace { space: Arc::downgrade(space), newest: newest.clone() };
        followed.insert(space.name.clone(), known);
        newest
    }
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count.lock().all
    }
    fn admit(&self, taker: SubscriberClass) -> Result<SubscriberPermit, Fault> {
        let mut counts = self.count.lock();
        let of = taker.counted.as_ref().and_then(|counted| counts.of.get(counted)).copied().unwrap_or_default();
        let (too_many, whose) = if counts.all >= MAX_SUBSCRIBERS {
            (MAX_SUBSCRIBERS, "clients")
        } else if of >= taker.most() {
            (taker.most(), "clients of yours")
        } else if taker.is_stranger && counts.strangers >= MAX_ALIKE {
            (MAX_ALIKE, "clients without a key")
        } else {
            counts.all += 1;
            counts.strangers += usize::from(taker.is_stranger);
            taker.counted.iter().for_each(|counted| *counts.of.entry(counted.clone()).or_default() += 1);
            drop(counts);
            return Ok(SubscriberPermit(Arc::clone(&self.count), taker));
        };
        let text = format!("{too_many} {whose} follow the event stream already; try again later");
        Err(Fault::unavailable(text).with_detail(RETRY_AFTER_KEY, 60))
    }
}

/// One subscriber's place; given back when dropped.
struct SubscriberPermit(Arc<Mutex<SubscriberCounts>>, SubscriberClass);

impl Drop for SubscriberPermit {
    fn drop(&mut self) {
        let Self(counts, SubscriberClass { is_stranger, counted }) = self;
        let mut counts = counts.lock();
        counts.all -= 1;
        counts.strangers -= usize::from(*is_stranger);
        let Some(counted) = counted else { return };
        let left = counts.of.get_mut(counted).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            counts.of.remove(counted);
        }
    }
}

/// An event's id: a change set, and how many of its events came before when it has several. After the last event of a set
/// the id is the bare `<seq>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EventPosition {
    /// Change sets up to this one are done with.
    seq: u64,
    /// Events of the next one that are done with.
    part: usize,
}

impl EventPosition {
    /// Where to go on after the event `n` (from 1) of `count` in the set `seq`.
    const fn after(seq: Seq, n: usize, count: usize) -> Self {
        if n == count { Self { seq: seq.0, part: 0 } } else { Self { seq: seq.0 - 1, part: n } }
    }
}

impl std::fmt::Display for EventPosition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.part {
            0 => write!(formatter, "{}", self.seq),
            part => write!(formatter, "{}.{part}", self.seq + 1),
        }
    }
}

impl FromStr for EventPosition {
    type Err = Fault;
    fn from_str(text: &str) -> Result<Self, Fault> {
        let read = || {
            let (seq, part) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
            let (seq, part) = (seq.parse::<u64>().ok()?, part.parse::<usize>().ok()?);
            if part == 0 {
                return Some(Self { seq, part });
            }
            Some(Self { seq: seq.checked_sub(1)?, part })
        };
        read().ok_or_else(|| {
            let text = text.escape_default();
            Fault::invalid("Last-Event-ID", format_args!("`{text}` is not an id of this stream"))
        })
    }
}

/// Opens the stream: from `Last-Event-ID` when given, else from now.
///
/// # Errors
/// `Invalid` for an id that is none; `Unavailable` when there are 256 subscribers, or too many of the caller's.
pub(super) fn follow(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (pass, identity): (SpecialRequest, CallerIdentity),
) -> Result<Response, Fault> {
    let resume = bind::header(&pass.headers, "Last-Event-ID")?.filter(|text| !text.is_empty());
    let newest = app.subscribers.newest_of(&space);
    let last = space.vfs.last_seq().0;
    let mut subscriber = EventSubscriber {
        position: resume.map_or(Ok(EventPosition { seq: last, part: 0 }), |text| text.parse())?,
        pending: VecDeque::new(),
        is_live: false,
        has_ended: false,
        place: app.subscribers.admit(SubscriberClass::of(app, &identity, pass.peer))?,
        app: Arc::clone(app),
        space,
        pass,
        identity,
        checked: Instant::now(),
        newest,
    };
    // An id from the future is from another life of this space: its history was replaced.
    if subscriber.position.seq > last {
        subscriber.lag("this id is newer than the log; read the tree anew and go on from here", last);
        subscriber.position = EventPosition { seq: last, part: 0 };
    }
    subscriber.is_live = subscriber.position.seq == last;
    let events = stream::unfold(subscriber, |mut subscriber| async {
        let event = subscriber.next().await?;
        Some((Ok::<_, Infallible>(event), subscriber))
    });
    // Some proxies and clients take a stream as open once its first bytes are there, and nothing may happen for hours.
    let first = stream::iter([Ok(sse::Event::default().comment("connected"))]);
    let events = futures_util::StreamExt::chain(first, events);
    let keep_alive = sse::keep_alive().interval(KEEP_ALIVE).text("keep-alive");
    let mut response = sse::reply(keep_alive.stream(Box::pin(events))).into_response();
    unbuffered(response.headers_mut());
    Ok(response)
}

struct EventSubscriber {
    app: Arc<AppState>,
    space: Arc<Space>,
    pass: SpecialRequest,
    identity: CallerIdentity,
    /// When it was last seen that it may read.
    checked: Instant,
    newest: watch::Receiver<Seq>,
    position: EventPosition,
    pending: VecDeque<sse::Event>,
    /// Has once caught up with the log.
    is_live: bool,
    has_ended: bool,
    #[expect(dead_code, reason = "held for its drop, which gives the place back")]
    place: SubscriberPermit,
}

impl EventSubscriber {
    /// The next event; none when the stream ends.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if self.app.stop.is_cancelled() {
                return None;
            }
            let due = self.checked + self.app.subscribers.recheck;
            if due <= Instant::now() && !self.may_stay().await {
                return None;
            }
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            let newest = self.newest.borrow_and_update().0;
            if newest <= self.position.seq {
                tokio::select! {
                    () = self.app.stop.cancelled() => return None,
                    changed = self.newest.changed() => changed.ok()?,
                    () = tokio::time::sleep_until(due) => {}
                }
                continue;
            }
            let behind = newest - self.position.seq;
            if self.is_live && behind > self.app.subscribers.max_behind {
                self.lag("too far behind; reconnect with this id as Last-Event-ID to get what was missed", newest);
                self.has_ended = true;
                continue;
            }
            self.read().await;
            // After the log was read: what was written once somebody lost their access is never told to them.
            if !self.may_stay().await {
                return None;
            }
            self.is_live |= self.position.seq >= newest;
        }
    }

    /// Whether it may still read what it reads.
    async fn may_stay(&mut self) -> bool {
        self.checked = Instant::now();
        self.app.still_admits(&self.pass, (&self.identity, &self.space)).await
    }

    /// Reads on in the log.
    async fn read(&mut self) {
        let (space, from) = (Arc::clone(&self.space), Seq(self.position.seq));
        let batch = self.app.blocking(Lane::Quick, move || space.vfs.feed().events_after(from, BATCH)).await;
        match batch {
            Ok(events) if events.is_empty() => {
                // Announced, and not in the log: nothing more will come by this way.
                self.has_ended = true;
            }
            Ok(events) => {
                for event in events {
                    let told = announcements(&event, &self.identity.permissions);
                    let count = told.len();
                    let done = if event.seq.0 == self.position.seq + 1 { self.position.part } else { 0 };
                    for (n, (name, data)) in told.into_iter().enumerate().skip(done) {
                        let id = EventPosition::after(event.seq, n + 1, count);
                        let sent = sse::Event::default().id(id.to_string()).event(name).data(data.to_string());
                        self.pending.push_back(sent);
                    }
                    self.position = EventPosition { seq: event.seq.0, part: 0 };
                }
            }
            Err(fault) => {
                // The client reconnects with the last id it saw, and gets what follows it.
                log(&fault, "events", "-");
                self.has_ended = true;
            }
        }
    }

    /// Tells that there is a gap, and where to go on.
    fn lag(&mut self, hint: &str, newest: u64) {
        let resume = self.position.seq.min(newest);
        let data = json!({ "resume": resume.to_string(), "newest": newest.to_string(), "hint": hint });
        let event = sse::Event::default().id(resume.to_string()).event("lagged").data(data.to_string());
        self.pending.push_back(event);
    }
}

/// What a change set is told as (gaps.md 6.1). Changes below `.svc` are the server's own affair and not told, nor is what lies beyond
/// the subscriber's reach.
fn announcements(event: &FeedEvent, reach: &Permissions) -> Vec<(&'static str, Value)> {
    let told: Vec<&EventChange> = event.changes.iter().filter(|change| is_told(&change.path, reach)).collect();
    if told.is_empty() {
        return Vec::new();
    }
    let together = |op: &'static str| {
        let paths: Vec<&str> = told.iter().map(|change| change.path.as_str()).collect();
        let data = json!({ "op": op, "paths": paths, "actor": event.actor, "timestamp": event.time });
        vec![(op, data)]
    };
    match event.announcement {
        EventAnnouncement::Files => told.iter().map(|change| one(event, change)).collect(),
        EventAnnouncement::Bulk => together("bulk"),
        EventAnnouncement::Import => together("import"),
    }
}

fn is_told(path: &TreePath, reach: &Permissions) -> bool {
    path.components().next() != Some(".svc") && reach.covers(path)
}

fn one(event: &FeedEvent, change: &EventChange) -> (&'static str, Value) {
    let (path, actor, timestamp) = (&change.path, &event.actor, &event.time);
    match change.new {
        Some(etag) => {
            let data = json!({ "op": "write", "path": path, "actor": actor, "etag": etag, "timestamp": timestamp });
            ("write", data)
        }
        None => ("delete", json!({ "op": "delete", "path": path, "actor": actor, "timestamp": timestamp })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_the_set_and_the_events_of_it_that_are_done() {
        for (n, count, text) in [(1, 1, "7"), (1, 3, "7.1"), (2, 3, "7.2"), (3, 3, "7")] {
            let position = EventPosition::after(Seq(7), n, count);
            assert_eq!(position.to_string(), text);
            assert_eq!(text.parse::<EventPosition>().unwrap(), position);
        }
        for text in ["", "x", "1.x", "-1", "0.1", "1.2.3", "99999999999999999999"] {
            assert!(text.parse::<EventPosition>().is_err(), "{text:?}");
        }
    }
}
