//! Subscriptions to resources: `subscriptions/listen` of version 2026-07-28, and
//! `resources/subscribe` of the versions of 2025 over stdio, where the server can send messages.
//!
//! Invariant: no change is missed silently. A subscription reads the change log from the position
//! at which it began; where it is too far behind, it announces everything that it watches. It
//! announces only what its caller may read, and ends when the caller loses access.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use svcfs_base::{Fault, Permissions, Protocol, Seq, TreePath};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::{FeedEvent, Space};
use svcfs_knowledge::memory;
use svcfs_work::Lane;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::http_request::{McpHttpRequest, notes_of};
use super::{McpHandler, resources};
use crate::app::AppState;
use crate::bind::header;
use crate::routes::SPACE;
use crate::specials::events::{SubscriberClass, is_visible};

/// Maximum number of resources of one subscription; more are not accepted, which the
/// acknowledgement shows.
const MAX_RESOURCES: usize = 256;

/// Change sets per read of the log.
const BATCH_SETS: usize = 64;

/// Lag in change sets beyond which everything is announced instead of reading the log.
const MAX_LAG_SETS: u64 = 10_000;

/// Minimum time between two reads: changes in between are announced once.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(50);

/// Minimum time between two announcements that the list of resources has changed.
const LIST_CHANGED_INTERVAL: Duration = Duration::from_secs(1);

/// What a resource watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchedResource {
    /// The description of the tree: the pages that it may be read from.
    Schema,
    /// One file.
    File(TreePath),
    /// A directory and everything below it.
    Tree(TreePath),
}

impl WatchedResource {
    /// Parses a URI; none for one that names no resource.
    pub(super) fn parse(uri: &str) -> Option<Self> {
        if uri == resources::SCHEMA {
            return Some(Self::Schema);
        }
        let path = |text: &str| TreePath::parse(&crate::bind::percent_decode(text).ok()?).ok();
        if let Some(text) = uri.strip_prefix(resources::FILE) {
            return path(text).filter(|path| !path.is_root()).map(Self::File);
        }
        path(uri.strip_prefix(resources::TREE)?).map(Self::Tree)
    }

    fn is_affected(&self, change: &ChangedPath, permissions: &Permissions) -> bool {
        let path = &change.path;
        match self {
            Self::File(file) => change.is_visible && path == file,
            Self::Tree(directory) => change.is_visible && path.is_under(directory),
            Self::Schema => memory::candidate_paths(permissions, resources::SCHEMA_PAGE)
                .is_ok_and(|candidates| candidates.contains(path)),
        }
    }
}

/// The part of a requested filter that the server accepts: URIs that name a resource.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    if let Some(uris) = &mut accepted.resource_subscriptions {
        uris.retain(|uri| WatchedResource::parse(uri).is_some());
        uris.sort_unstable();
        uris.dedup();
        uris.truncate(MAX_RESOURCES);
    }
    accepted
}

/// A change of one path.
struct ChangedPath {
    path: TreePath,
    /// Whether the file was created or removed.
    changes_list: bool,
    /// Whether the caller may read it. Others matter only as the schema page.
    is_visible: bool,
}

/// What the changes since the last announcement mean for a subscription.
#[derive(Debug, Default, PartialEq, Eq)]
struct Announcement {
    uris: Vec<String>,
    list_changed: bool,
}

/// Follows the changes of a space for one subscription.
struct ChangeFollower {
    app: Arc<AppState>,
    space: Arc<Space>,
    identity: CallerIdentity,
    /// Headers with the credentials; none for a local client.
    headers: Option<http::HeaderMap>,
    position: Seq,
    newest: watch::Receiver<Seq>,
    last_check: Instant,
    last_list_change: Option<Instant>,
    has_pending_list_change: bool,
}

impl ChangeFollower {
    fn new(handler: &McpHandler, context: &RequestContext<RoleServer>) -> Result<Self, Fault> {
        let (identity, space) = handler.authenticate(context, &notes_of(context))?;
        let newest = handler.app.subscribers.position_of(&space);
        let start = McpHttpRequest::of(context).and_then(|request| request.position);
        Ok(Self {
            app: Arc::clone(&handler.app),
            position: start.unwrap_or_else(|| space.vfs.last_seq()),
            space,
            identity,
            headers: context.extensions.get::<http::request::Parts>().map(|parts| parts.headers.clone()),
            newest,
            last_check: Instant::now(),
            last_list_change: None,
            has_pending_list_change: false,
        })
    }

    /// Waits for changes that concern one of `watched`; none when the caller lost access or the log
    /// cannot be read.
    async fn next(&mut self, watched: &BTreeMap<String, WatchedResource>, wants_list: bool) -> Option<Announcement> {
        loop {
            let list_due = self.last_list_change.map(|last| last + LIST_CHANGED_INTERVAL);
            if self.has_pending_list_change && list_due.is_none_or(|due| due <= Instant::now()) {
                self.has_pending_list_change = false;
                self.last_list_change = Some(Instant::now());
                return Some(Announcement { list_changed: true, ..Announcement::default() });
            }
            let check_due = self.last_check + self.app.subscribers.recheck;
            if check_due <= Instant::now() && !self.has_access().await {
                return None;
            }
            let newest = *self.newest.borrow_and_update();
            if newest <= self.position {
                let due = list_due.filter(|_| self.has_pending_list_change).unwrap_or(check_due).min(check_due);
                tokio::select! {
                    changed = self.newest.changed() => changed.ok()?,
                    () = tokio::time::sleep_until(due) => {}
                }
                continue;
            }
            tokio::time::sleep(MIN_READ_INTERVAL).await;
            let announcement = self.read(watched, newest).await?;
            // Checked after reading, so that no change made after access was lost is announced.
            if !self.has_access().await {
                return None;
            }
            self.has_pending_list_change |= wants_list && announcement.list_changed;
            if !announcement.uris.is_empty() {
                return Some(Announcement { list_changed: false, ..announcement });
            }
        }
    }

    /// Reads the next changes and moves the position on.
    async fn read(&mut self, watched: &BTreeMap<String, WatchedResource>, newest: Seq) -> Option<Announcement> {
        if newest.0.saturating_sub(self.position.0) > MAX_LAG_SETS {
            self.position = newest;
            return Some(Announcement { uris: watched.keys().cloned().collect(), list_changed: true });
        }
        let (space, from, permissions) = (Arc::clone(&self.space), self.position, self.identity.permissions.clone());
        let read = move || {
            let events = space.vfs.feed().events_after(from, BATCH_SETS)?;
            let last = events.last().map(|event| event.seq);
            let changes: Vec<ChangedPath> =
                events.iter().flat_map(|event| changed_paths(&space, event, &permissions)).collect();
            Ok((last, changes))
        };
        match self.app.blocking(Lane::Quick, read).await {
            Ok((Some(last), changes)) => {
                self.position = last;
                let permissions = &self.identity.permissions;
                let is_affected =
                    |resource: &WatchedResource| changes.iter().any(|it| resource.is_affected(it, permissions));
                let affected = watched.iter().filter(|(_, resource)| is_affected(resource));
                let uris = affected.map(|(uri, _)| uri.clone()).collect();
                let list_changed = changes.iter().any(|change| change.is_visible && change.changes_list);
                Some(Announcement { uris, list_changed })
            }
            // Announced, but not in the log: no more events will come.
            Ok((None, _)) => None,
            Err(fault) => {
                crate::app::log(&fault, "subscriptions/listen", "-");
                None
            }
        }
    }

    /// Whether the caller still has access to the space.
    async fn has_access(&mut self) -> bool {
        self.last_check = Instant::now();
        let Some(headers) = &self.headers else { return true };
        let Ok(identity) = self.app.identify(headers).await else { return false };
        let name = header(headers, SPACE).ok().flatten();
        let space = self.app.enter_space(&identity, name.as_deref());
        identity == self.identity && space.is_ok_and(|space| Arc::ptr_eq(&space, &self.space))
    }
}

fn changed_paths(space: &Space, event: &FeedEvent, permissions: &Permissions) -> Vec<ChangedPath> {
    let changes = event.changes.iter().map(|change| ChangedPath {
        path: change.path.clone(),
        changes_list: change.old.is_some() != change.new.is_some(),
        is_visible: is_visible(space, &change.path, (Protocol::Mcp, permissions)),
    });
    changes.collect()
}

/// Runs a subscription until its request is cancelled, the server stops, or the caller loses
/// access. The acknowledgement was sent before.
pub(super) async fn listen(handler: &McpHandler, context: &SubscriptionContext) -> Result<(), ErrorData> {
    let request = context.request_context();
    let failure = |fault: Fault| ErrorData::new(ErrorCode::INVALID_REQUEST, fault.message().to_owned(), None);
    let mut follower = ChangeFollower::new(handler, request).map_err(failure)?;
    let class = match McpHttpRequest::of(request) {
        Some(http) => SubscriberClass::of(&handler.app, &follower.identity, Some(http.peer)),
        None => SubscriberClass::local(),
    };
    let _permit = handler.app.subscribers.admit(class).map_err(failure)?;
    let filter = context.accepted();
    let uris = filter.resource_subscriptions.iter().flatten();
    let watched = uris.filter_map(|uri| Some((uri.clone(), WatchedResource::parse(uri)?))).collect();
    let wants_list = filter.resources_list_changed == Some(true);
    loop {
        let next = tokio::select! {
            () = context.cancelled() => return Ok(()),
            () = handler.app.stop.cancelled() => return Ok(()),
            next = follower.next(&watched, wants_list) => next,
        };
        let Some(announcement) = next else { return Ok(()) };
        let sink = context.sink();
        if announcement.list_changed && sink.notify_resource_list_changed().await.is_err() {
            return Ok(());
        }
        for uri in announcement.uris {
            if sink.notify_resource_updated(uri).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// The subscriptions of one connection over stdio in a version of 2025.
#[derive(Default)]
pub(super) struct ConnectionSubscriptions {
    state: Mutex<SubscriptionState>,
}

#[derive(Default)]
struct SubscriptionState {
    watched: BTreeMap<String, WatchedResource>,
    /// Ends the follower together with the connection; none before the first subscription.
    follower: Option<DropGuard>,
}

impl ConnectionSubscriptions {
    /// Adds a resource; the first one starts the follower of the connection.
    pub(super) fn add(
        self: &Arc<Self>,
        handler: &McpHandler,
        (uri, context): (&str, &RequestContext<RoleServer>),
    ) -> Result<(), ErrorData> {
        let resource = WatchedResource::parse(uri).ok_or_else(|| unknown_resource(uri))?;
        let mut state = self.state.lock();
        if state.watched.len() >= MAX_RESOURCES && !state.watched.contains_key(uri) {
            let message = format!("this connection has {MAX_RESOURCES} subscriptions; end some of them first");
            return Err(ErrorData::invalid_params(message, None));
        }
        state.watched.insert(uri.to_owned(), resource);
        if state.follower.is_none() {
            let failure = |fault: Fault| ErrorData::invalid_params(fault.message().to_owned(), None);
            let follower = ChangeFollower::new(handler, context).map_err(failure)?;
            let stop = CancellationToken::new();
            state.follower = Some(stop.clone().drop_guard());
            tokio::spawn(follow(Arc::downgrade(self), follower, (context.peer.clone(), stop)));
        }
        Ok(())
    }

    /// Removes a resource. Unknown ones are ignored: the outcome is the same.
    pub(super) fn remove(&self, uri: &str) {
        self.state.lock().watched.remove(uri);
    }
}

/// Announces changes over a connection.
async fn follow(
    subscriptions: Weak<ConnectionSubscriptions>,
    mut follower: ChangeFollower,
    (peer, stop): (Peer<RoleServer>, CancellationToken),
) {
    let app = Arc::clone(&follower.app);
    while let Some(subscribed) = subscriptions.upgrade() {
        // Subscriptions that are added meanwhile count from the next change on.
        let watched = subscribed.state.lock().watched.clone();
        drop(subscribed);
        let next = tokio::select! {
            () = stop.cancelled() => return,
            () = app.stop.cancelled() => return,
            next = follower.next_within(&watched) => next,
        };
        let Some(announcement) = next else { return };
        for uri in announcement.uris {
            if peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_err() {
                return;
            }
        }
    }
}

impl ChangeFollower {
    /// As [`next`](Self::next), but returns without an announcement after a change that concerns
    /// none of `watched`, so that the caller can take newer subscriptions into account.
    async fn next_within(&mut self, watched: &BTreeMap<String, WatchedResource>) -> Option<Announcement> {
        let newest = *self.newest.borrow_and_update();
        if newest <= self.position {
            self.newest.changed().await.ok()?;
            return Some(Announcement::default());
        }
        tokio::time::sleep(MIN_READ_INTERVAL).await;
        self.read(watched, newest).await
    }
}

/// The error for a URI that names no resource.
fn unknown_resource(uri: &str) -> ErrorData {
    let data = serde_json::json!({ "uri": uri });
    let uri = svcfs_base::escape_unprintable(uri);
    let message = format!(
        "there is no resource `{uri}`; known are `{}`, `{}…` and `{}…`",
        resources::SCHEMA,
        resources::FILE,
        resources::TREE
    );
    ErrorData::resource_not_found(message, Some(data))
}

/// The error for `resources/subscribe` over HTTP: there is no stream on which to announce changes.
pub(super) fn needs_stream(method: &str) -> ErrorData {
    let message = format!(
        "`{method}` needs a connection over stdio; over HTTP use `subscriptions/listen` of protocol version 2026-07-28, \
         or follow the changes with svc_changes"
    );
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_file_a_tree_or_the_schema() {
        let path = |text: &str| TreePath::parse(text).unwrap();
        for (uri, resource) in [
            ("svc://schema", Some(WatchedResource::Schema)),
            ("svc://file/a/b.md", Some(WatchedResource::File(path("a/b.md")))),
            ("svc://file/a%2Fb%20c.md", Some(WatchedResource::File(path("a/b c.md")))),
            ("svc://tree/", Some(WatchedResource::Tree(TreePath::root()))),
            ("svc://tree/a", Some(WatchedResource::Tree(path("a")))),
            ("svc://file/", None),
            ("svc://file/../a", None),
            ("svc://other", None),
            ("file:///etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(WatchedResource::parse(uri), resource, "{uri}");
        }
    }

    #[test]
    fn only_a_bounded_number_of_known_resources_is_accepted() {
        let uris: Vec<String> = (0..1000).map(|n| format!("svc://file/{n}.md")).chain(["nonsense".into()]).collect();
        let requested = SubscriptionFilter::builder().tools_list_changed().resource_subscriptions(uris).build();
        let accepted = accepted(&requested);
        let uris = accepted.resource_subscriptions.unwrap();
        assert_eq!(uris.len(), MAX_RESOURCES);
        assert!(!uris.iter().any(|uri| uri == "nonsense"));
    }
}
