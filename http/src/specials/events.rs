//! The event stream (server-sent events).
//!
//! Invariant: no event is lost silently. Subscribers read the change log from their own position;
//! notifications only wake them up. A subscriber that is too far behind gets a `lagged` event with
//! the position at which to resume, and the connection ends. It also ends when the subscriber loses
//! access; the error follows when it reconnects.

mod position;

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use svcfs_base::{Claim, EventAnnouncement, Fault, Permissions, Protocol, Scope, Seq, TreePath};
use svcfs_knowledge::access::{CallerIdentity, RETRY_AFTER_KEY, RateLimitKey};
use svcfs_knowledge::comments::commented_page;
use svcfs_knowledge::kernel::{ClaimEvent, EventChange, FeedEvent, Space};
use svcfs_knowledge::lint;
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
use position::EventPosition;

/// Maximum number of subscribers of all spaces.
const MAX_SUBSCRIBERS: usize = 256;
/// Maximum for one key, and for all clients without a key when authentication is on.
const MAX_PER_KEY: usize = MAX_SUBSCRIBERS / 2;
/// Maximum without a key per address, except loopback, where a proxy may run.
const MAX_PER_ADDRESS: usize = 32;
/// Change sets per read of the log.
const BATCH_SETS: usize = 64;
/// Maximum lag of a live subscriber, in change sets.
const MAX_LAG_SETS: u64 = 10_000;
/// How often the access of a subscriber is checked.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);
/// A comment keeps an idle connection open. Proxies close silent ones after 30 s (HAProxy) or 60 s
/// (nginx); one comment may be late.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The subscribers, and the wake-up of each space.
pub(crate) struct SubscriberRegistry {
    /// Maximum lag of a live subscriber, in change sets.
    pub max_behind: u64,
    /// How often the access of a subscriber is checked.
    pub recheck: Duration,
    count: Arc<Mutex<SubscriberCounts>>,
    /// The newest position of each space with a subscriber so far.
    newest: Mutex<HashMap<String, FollowedSpace>>,
}

/// Numbers of subscribers.
#[derive(Default)]
struct SubscriberCounts {
    all: usize,
    /// Those without a key, when authentication is on.
    anonymous: usize,
    /// Per caller with a limit.
    by_caller: HashMap<RateLimitKey, usize>,
}

/// The limits that apply to a subscriber.
pub(crate) struct SubscriberClass {
    is_anonymous: bool,
    limit_key: Option<RateLimitKey>,
}

impl SubscriberClass {
    pub(crate) fn of(app: &AppState, identity: &CallerIdentity, peer: Option<IpAddr>) -> Self {
        let token = identity.token.as_ref();
        let is_counted = |peer: &IpAddr| token.is_some() || !peer.to_canonical().is_loopback();
        Self {
            is_anonymous: token.is_none() && !app.server.access().is_open(),
            limit_key: peer.filter(is_counted).map(|peer| RateLimitKey::new(token, peer)),
        }
    }
    /// A client on this machine.
    pub(crate) const fn local() -> Self {
        Self { is_anonymous: false, limit_key: None }
    }
    /// Maximum number of subscribers of the same caller.
    const fn limit(&self) -> usize {
        match self.limit_key {
            Some(RateLimitKey::Address(_) | RateLimitKey::Share(..)) => MAX_PER_ADDRESS,
            Some(RateLimitKey::Token(_)) | None => MAX_PER_KEY,
        }
    }
}

/// A space with a subscriber.
struct FollowedSpace {
    /// Detects that the space was replaced by one of the same name.
    space: Weak<Space>,
    newest: watch::Receiver<Seq>,
    /// The number of the newest claim event.
    newest_claim: watch::Receiver<u64>,
    /// The number of the newest notice.
    newest_notice: watch::Receiver<u64>,
}

/// Wake-ups of a space: its position, and the numbers of its newest claim event and notice.
type WakeUps = (watch::Receiver<Seq>, watch::Receiver<u64>, watch::Receiver<u64>);

impl SubscriberRegistry {
    pub(crate) fn new() -> Self {
        Self { newest: Mutex::default(), max_behind: MAX_LAG_SETS, recheck: RECHECK_INTERVAL, count: Arc::default() }
    }
    /// The wake-ups of a space; registers for them.
    fn newest_of(&self, space: &Arc<Space>) -> WakeUps {
        let mut spaces = self.newest.lock();
        if let Some(followed_space) = spaces.get(&space.name)
            && followed_space.space.upgrade().is_some_and(|followed_space| Arc::ptr_eq(&followed_space, space))
        {
            let FollowedSpace { newest, newest_claim, newest_notice, .. } = followed_space;
            return (newest.clone(), newest_claim.clone(), newest_notice.clone());
        }
        let (sender, newest) = watch::channel(space.vfs.last_seq());
        space.vfs.feed().on_event(move |seq| {
            sender.send_replace(seq);
            true
        });
        let (claim_sender, newest_claim) = watch::channel(space.vfs.last_claim_event());
        space.vfs.on_claim_event(move |number| {
            claim_sender.send_replace(number);
            true
        });
        let (notice_sender, newest_notice) = watch::channel(space.notices.last());
        space.notices.on_notice(move |number| {
            notice_sender.send_replace(number);
            true
        });
        let followed = (newest.clone(), newest_claim.clone(), newest_notice.clone());
        let followed_space = FollowedSpace { space: Arc::downgrade(space), newest, newest_claim, newest_notice };
        spaces.insert(space.name.clone(), followed_space);
        followed
    }
    /// The newest position of a space; registers for it.
    pub(crate) fn position_of(&self, space: &Arc<Space>) -> watch::Receiver<Seq> {
        self.newest_of(space).0
    }
    /// Number of subscribers.
    pub(crate) fn count(&self) -> usize {
        self.count.lock().all
    }
    /// Admits a subscriber until the permit is dropped. Errors: `Unavailable` when a limit is
    /// reached.
    pub(crate) fn admit(&self, class: SubscriberClass) -> Result<SubscriberPermit, Fault> {
        let mut counts = self.count.lock();
        let count_of =
            class.limit_key.as_ref().and_then(|limit_key| counts.by_caller.get(limit_key)).copied().unwrap_or_default();
        let (too_many, clients) = if counts.all >= MAX_SUBSCRIBERS {
            (MAX_SUBSCRIBERS, "clients")
        } else if count_of >= class.limit() {
            (class.limit(), "of your clients")
        } else if class.is_anonymous && counts.anonymous >= MAX_PER_KEY {
            (MAX_PER_KEY, "clients without a key")
        } else {
            counts.all += 1;
            counts.anonymous += usize::from(class.is_anonymous);
            class.limit_key.iter().for_each(|limit_key| *counts.by_caller.entry(limit_key.clone()).or_default() += 1);
            drop(counts);
            return Ok(SubscriberPermit(Arc::clone(&self.count), class));
        };
        let text = format!("{too_many} {clients} use the event stream already; retry in 60 s");
        Err(Fault::unavailable(text).with_detail(RETRY_AFTER_KEY, 60))
    }
}

/// The place of a subscriber, released on drop.
pub(crate) struct SubscriberPermit(Arc<Mutex<SubscriberCounts>>, SubscriberClass);

impl Drop for SubscriberPermit {
    fn drop(&mut self) {
        let Self(counts, SubscriberClass { is_anonymous, limit_key }) = self;
        let mut counts = counts.lock();
        counts.all -= 1;
        counts.anonymous -= usize::from(*is_anonymous);
        let Some(limit_key) = limit_key else { return };
        let remaining = counts.by_caller.get_mut(limit_key).map(|count| {
            *count -= 1;
            *count
        });
        if remaining == Some(0) {
            counts.by_caller.remove(limit_key);
        }
    }
}

/// Opens the stream at `Last-Event-ID`, or at the newest position. Errors: `Invalid` for an invalid
/// id; `Unavailable` when a limit of subscribers is reached.
pub(super) fn subscribe(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (special, identity): (SpecialRequest, CallerIdentity),
) -> Result<Response, Fault> {
    let resume = bind::header(&special.headers, "Last-Event-ID")?.filter(|text| !text.is_empty());
    let (newest, newest_claim, newest_notice) = app.subscribers.newest_of(&space);
    let (last, space_claims) = (space.vfs.last_seq().0, space.vfs.last_claim_event());
    let last_seen_notice = space.notices.last();
    let mut subscriber = EventSubscriber {
        position: resume.map_or(Ok(EventPosition { seq: last, part: 0 }), |text| text.parse())?,
        pending: VecDeque::new(),
        is_live: false,
        has_ended: false,
        permit: app.subscribers.admit(SubscriberClass::of(app, &identity, special.peer))?,
        app: Arc::clone(app),
        space,
        special,
        identity,
        last_check: Instant::now(),
        last_claim_event: space_claims,
        last_notice: last_seen_notice,
        newest,
        newest_claim,
        newest_notice,
    };
    // Such an id is from before the history of this space was replaced.
    if subscriber.position.seq > last {
        subscriber.push_lagged("this id is newer than the log: read the tree again and continue from this id", last);
        subscriber.position = EventPosition { seq: last, part: 0 };
    }
    subscriber.is_live = subscriber.position.seq == last;
    let events = stream::unfold(subscriber, |mut subscriber| async {
        let event = subscriber.next().await?;
        Some((Ok::<_, Infallible>(event), subscriber))
    });
    // Some proxies and clients wait for the first bytes before they treat a stream as open.
    let first = stream::iter([Ok(sse::Event::default().comment("connected"))]);
    let events = futures_util::StreamExt::chain(first, events);
    let keep_alive = sse::keep_alive().interval(KEEP_ALIVE_INTERVAL).text("keep-alive");
    let mut response = sse::reply(keep_alive.stream(Box::pin(events))).into_response();
    unbuffered(response.headers_mut());
    Ok(response)
}

struct EventSubscriber {
    app: Arc<AppState>,
    space: Arc<Space>,
    special: SpecialRequest,
    identity: CallerIdentity,
    /// When access was last checked.
    last_check: Instant,
    newest: watch::Receiver<Seq>,
    /// The last claim event that was sent. Claim events are not logged: a subscriber gets those
    /// that happen while it is connected.
    last_claim_event: u64,
    newest_claim: watch::Receiver<u64>,
    /// The last notice that was sent; as claim events, they are not logged.
    last_notice: u64,
    newest_notice: watch::Receiver<u64>,
    position: EventPosition,
    pending: VecDeque<sse::Event>,
    /// Whether it has caught up with the log once.
    is_live: bool,
    has_ended: bool,
    #[expect(dead_code, reason = "held for its drop, which gives the place back")]
    permit: SubscriberPermit,
}

impl EventSubscriber {
    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if self.app.stop.is_cancelled() {
                return None;
            }
            let due = self.last_check + self.app.subscribers.recheck;
            if due <= Instant::now() && !self.has_access().await {
                return None;
            }
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            if *self.newest_claim.borrow_and_update() > self.last_claim_event {
                self.read_claims();
                continue;
            }
            if *self.newest_notice.borrow_and_update() > self.last_notice {
                self.read_notices();
                continue;
            }
            let newest = self.newest.borrow_and_update().0;
            if newest <= self.position.seq {
                tokio::select! {
                    () = self.app.stop.cancelled() => return None,
                    changed = self.newest.changed() => changed.ok()?,
                    changed = self.newest_claim.changed() => changed.ok()?,
                    changed = self.newest_notice.changed() => changed.ok()?,
                    () = tokio::time::sleep_until(due) => {}
                }
                continue;
            }
            let lag_sets = newest - self.position.seq;
            if self.is_live && lag_sets > self.app.subscribers.max_behind {
                self.push_lagged(
                    "too far behind: reconnect with this id as Last-Event-ID to get the missed events",
                    newest,
                );
                self.has_ended = true;
                continue;
            }
            self.read().await;
            // Checked after reading, so that no change made after access was lost is sent.
            if !self.has_access().await {
                return None;
            }
            self.is_live |= self.position.seq >= newest;
        }
    }

    /// Whether the subscriber still has access.
    async fn has_access(&mut self) -> bool {
        self.last_check = Instant::now();
        self.app.still_admits(&self.special, (&self.identity, &self.space)).await
    }

    /// Reads the next change sets.
    async fn read(&mut self) {
        let (space, from) = (Arc::clone(&self.space), Seq(self.position.seq));
        let permissions = self.identity.permissions.clone();
        let protocol = self.app.protocol_of(&self.special.headers, &self.identity);
        let read = move || {
            let events = space.vfs.feed().events_after(from, BATCH_SETS)?;
            let is_visible = |path: &TreePath| is_visible(&space, path, (protocol, &permissions));
            let announced = events.into_iter().map(|event| {
                let announced = announcements(&event, is_visible);
                (event.seq, announced.into_iter().map(|sent| (lint_event(&space, &event, &sent), sent)).collect())
            });
            Ok(announced.collect::<Vec<(Seq, Vec<_>)>>())
        };
        let batch = self.app.blocking(Lane::Quick, read).await;
        match batch {
            Ok(events) if events.is_empty() => {
                // Announced, but not in the log: no more events will come.
                self.has_ended = true;
            }
            Ok(events) => {
                for (seq, announced) in events {
                    let count = announced.len();
                    let already_sent = if seq.0 == self.position.seq + 1 { self.position.part } else { 0 };
                    for (n, (lint, (name, data))) in announced.into_iter().enumerate().skip(already_sent) {
                        // It has the id before the write, so that resuming never skips it.
                        let before = EventPosition { seq: seq.0 - 1, part: n };
                        self.push(before, lint.map(|data| ("lint", data)));
                        self.push(EventPosition::after(seq, n + 1, count), Some((name, data)));
                    }
                    self.position = EventPosition { seq: seq.0, part: 0 };
                }
            }
            Err(fault) => {
                // The client reconnects with its last id and gets the following events.
                log(&fault, "events", "-");
                self.has_ended = true;
            }
        }
    }

    /// Adds the new events of claims. They have the id of the position, so that resuming skips no
    /// change.
    fn read_claims(&mut self) {
        let (events, is_incomplete) = self.space.vfs.claim_events_after(self.last_claim_event);
        self.last_claim_event = events.last().map_or_else(|| self.space.vfs.last_claim_event(), |event| event.number);
        let permissions = self.identity.permissions.clone();
        let protocol = self.app.protocol_of(&self.special.headers, &self.identity);
        if is_incomplete {
            let hint = "events of claims were missed: read `GET /claims`";
            self.push(self.position, Some(("lagged", json!({ "resume": self.position.to_string(), "hint": hint }))));
        }
        for event in events {
            if is_visible(&self.space, &event.claim.path, (protocol, &permissions)) {
                self.push(self.position, Some((event.kind.name(), claim_data(&event))));
            }
        }
    }

    /// Adds the new notices, for subscribers who may write the complete tree: they are about the
    /// operation of the space.
    fn read_notices(&mut self) {
        let Permissions { scope, folder } = &self.identity.permissions;
        let is_visible = *scope >= Scope::Write && folder.is_none();
        for notice in self.space.notices.after(self.last_notice) {
            self.last_notice = notice.number;
            self.push(self.position, Some((notice.name, notice.data)).filter(|_| is_visible));
        }
    }

    fn push(&mut self, id: EventPosition, event: Option<(&'static str, Value)>) {
        let sent =
            |(name, data): (_, Value)| sse::Event::default().id(id.to_string()).event(name).data(data.to_string());
        self.pending.extend(event.map(sent));
    }

    /// Adds a `lagged` event: there is a gap, and where to resume.
    fn push_lagged(&mut self, hint: &str, newest: u64) {
        let resume = self.position.seq.min(newest);
        let data = json!({ "resume": resume.to_string(), "newest": newest.to_string(), "hint": hint });
        let event = sse::Event::default().id(resume.to_string()).event("lagged").data(data.to_string());
        self.pending.push_back(event);
    }
}

/// The events of a change set, without changes that the subscriber must not see.
fn announcements(event: &FeedEvent, is_visible: impl Fn(&TreePath) -> bool) -> Vec<(&'static str, Value)> {
    let op = event.announcement.stream_name();
    if event.announcement.is_comment() {
        let pages = event.changes.iter().filter_map(|change| commented_page(&change.path)).filter(|it| is_visible(it));
        let data = |page| json!({ "op": op, "path": page, "actor": event.actor, "timestamp": event.time });
        // Of several files, the last was that of a former name of the page.
        return pages.take(1).map(|page| (op, data(page))).collect();
    }
    let visible: Vec<&EventChange> = event.changes.iter().filter(|change| is_visible(&change.path)).collect();
    if visible.is_empty() {
        return Vec::new();
    }
    if event.announcement == EventAnnouncement::Files {
        return visible.iter().map(|change| change_event(event, change)).collect();
    }
    let paths: Vec<&str> = visible.iter().map(|change| change.path.as_str()).collect();
    vec![(op, json!({ "op": op, "paths": paths, "actor": event.actor, "timestamp": event.time }))]
}

/// The event `lint` of a page that a file protocol or an external edit stored with lint errors. It
/// comes before the event `write`, whose data it has. None when the page has changed again.
fn lint_event(space: &Space, event: &FeedEvent, (name, data): &(&'static str, Value)) -> Option<Value> {
    if *name != "write" || !(event.protocol.is_filesystem() || event.protocol == Protocol::Remote) {
        return None;
    }
    let change = event.changes.iter().find(|change| data["path"] == change.path.as_str())?;
    let externally_replaced = change.old.filter(|_| event.protocol == Protocol::Direct);
    let issues = lint::stored_issues(space, &change.path, change.new?, externally_replaced)?;
    let mut data = data.clone();
    data["op"] = json!("lint");
    data["issues"] = json!(issues);
    Some(data)
}

/// Whether a subscriber gets the changes of a path: not those below `.svc`, which are internal,
/// those of hidden files, and those outside its permissions.
pub(crate) fn is_visible(space: &Space, path: &TreePath, (protocol, permissions): (Protocol, &Permissions)) -> bool {
    let is_hidden = || protocol.serves_knowledge_only() && space.vfs.hidden_files().hides(path);
    path.components().next() != Some(".svc") && permissions.covers(path) && !is_hidden()
}

fn change_event(event: &FeedEvent, change: &EventChange) -> (&'static str, Value) {
    let (path, actor, timestamp) = (&change.path, &event.actor, &event.time);
    match change.new {
        Some(etag) => {
            let data = json!({ "op": "write", "path": path, "actor": actor, "etag": etag, "timestamp": timestamp });
            ("write", data)
        }
        None => ("delete", json!({ "op": "delete", "path": path, "actor": actor, "timestamp": timestamp })),
    }
}

fn claim_data(event: &ClaimEvent) -> Value {
    let Claim { path, claimed_by, fence, expires_at, .. } = &event.claim;
    json!({
        "op": event.kind.name(),
        "path": path,
        "actor": claimed_by,
        "fence": fence,
        "expires_at": expires_at,
        "timestamp": event.time,
    })
}
