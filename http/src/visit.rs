//! One request as the edge sees it: let in, or not, and told of when it is over. Pages and the agent protocol are visited alike.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use http::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use svcfs_base::{Actor, AuditEntry, Door, Fault};
use svcfs_config::KeyDigest;
use svcfs_knowledge::access::Identity;
use svcfs_knowledge::kernel::Space;
use warp::reply::Response;

use crate::app::{App, log};
use crate::bind::{bearer, header};
use crate::hosts::Page;
use crate::{mcp, reply, specials};

/// Carries the id under which a failure is logged.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Under which the log tells of every request, at the level `debug`: `SVC_LOG=info,access=debug` shows them.
const ACCESS: &str = "access";

/// What a browser may do with an answer that says nothing else about it: nothing.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// Longest text of a caller's own that is kept, in bytes.
const MAX_WORDS: usize = 1024;
/// Bytes of a key's digest that are kept (gaps.md 4.17).
const TOKEN_BYTES: usize = 4;

/// A request in progress.
pub(crate) struct Visit {
    /// Under which it can be found in the log.
    pub id: String,
    /// Method and path.
    pub what: String,
    /// What becomes known of it.
    pub notes: Notes,
    method: Method,
    path: String,
    query: String,
    /// Where it comes from; none where it came over no connection.
    peer: Option<IpAddr>,
    /// The web page behind it.
    page: Option<Page>,
    started: Instant,
}

/// What becomes known of a request while it is answered, by whoever finds it out.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Known>>);

/// See [`Notes`].
#[derive(Default)]
struct Known {
    space: Option<Arc<Space>>,
    actor: Option<Actor>,
    operation: Option<&'static str>,
    file: Option<String>,
    status: Option<u16>,
    token: Option<String>,
    x_space: Option<String>,
    provenance: Option<String>,
}

impl Notes {
    /// It is for this space.
    pub(crate) fn enters(&self, space: &Arc<Space>) {
        self.0.lock().space = Some(Arc::clone(space));
    }
    /// It is this caller's.
    pub(crate) fn is_of(&self, actor: Actor) {
        self.0.lock().actor = Some(actor);
    }
    /// It leads to this operation.
    pub(crate) fn leads_to(&self, operation: &'static str) {
        self.0.lock().operation = Some(operation);
    }
    /// These are its inputs.
    pub(crate) fn asks(&self, arguments: &Map<String, Value>) {
        let file = ["path", "from"].iter().find_map(|name| arguments.get(*name)?.as_str());
        self.0.lock().file = file.map(kept);
    }
    /// It is answered so, whatever the protocol above says.
    pub(crate) fn is_answered(&self, status: u16) {
        self.0.lock().status = Some(status);
    }
}

/// As much of a caller's own words as is kept.
fn kept(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_WORDS)].to_owned()
}

/// A fresh id, under which a failure can be found in the log.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

impl Visit {
    /// A request that has just come in.
    pub(crate) fn begin(method: &Method, (path, query): (&str, &str), peer: Option<IpAddr>) -> Self {
        Self {
            id: new_id(),
            what: format!("{method} {}", path.escape_default()),
            notes: Notes::default(),
            method: method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            peer,
            page: None,
            started: Instant::now(),
        }
    }

    /// Checks where a browser's request comes from, finds out who sent it, and counts it, before anything else looks at it. Who sent it
    /// is an error of its own: not every place asks for it.
    ///
    /// # Errors
    /// `Forbidden` for a host or an origin that is not ours, `RateLimited`.
    pub(crate) async fn admit(&mut self, app: &App, headers: &HeaderMap) -> Result<Result<Identity, Fault>, Fault> {
        app.hosts.check_host(headers)?;
        self.page = app.hosts.check_origin(headers, &self.method)?;
        if specials::is_watched(&self.path) {
            return Ok(Ok(Identity::ANYBODY));
        }
        let identity = app.identify(headers).await;
        self.note(&identity, headers);
        if let Some(limiter) = &app.limiter {
            let token = identity.as_ref().ok().and_then(|identity| identity.token.as_ref());
            limiter.admit(token, self.peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))?;
        }
        Ok(identity)
    }

    /// Notes who says to ask.
    fn note(&self, identity: &Result<Identity, Fault>, headers: &HeaderMap) {
        let of = |name| header(headers, name).ok().flatten();
        let sent = || bearer(headers).ok().flatten().map(KeyDigest::of);
        let identity = identity.as_ref().ok();
        let token = identity.and_then(|identity| identity.token).or_else(sent);
        let mut known = self.notes.0.lock();
        known.actor =
            identity.and_then(|identity| identity.actor.clone()).or_else(|| Some(Actor::new(&of("X-Actor")?)));
        known.token = token.map(|token| token.short(TOKEN_BYTES));
        known.x_space = of("X-Space").as_deref().map(kept);
        known.provenance = of("X-Provenance").as_deref().map(kept);
    }

    /// The answer to a preflight request for a place with these methods.
    pub(crate) fn preflight(&self, app: &App, allow: &str) -> Response {
        let mut response = reply::empty(http::StatusCode::NO_CONTENT);
        app.hosts.describe(self.page.as_ref(), allow, response.headers_mut());
        response
    }

    /// The answer that tells a fault, which is logged.
    pub(crate) fn refuse(&self, fault: &Fault) -> Response {
        log(fault, &self.what, &self.id);
        reply::fault(fault, &self.id)
    }

    /// Adds what every answer carries, and tells of it in the log and, where there is one, in the audit log.
    pub(crate) fn end<B>(self, app: &App, response: &mut http::Response<B>) {
        let status = response.status().as_u16();
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert(REQUEST_ID, id);
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NOTHING));
        app.hosts.open(self.page.as_ref(), headers);
        if !specials::is_watched(&self.path) {
            self.tell(app, status);
        }
    }

    fn tell(self, app: &App, status: u16) {
        let Self { id, what, notes, method, path, query, peer, page: _, started } = self;
        let Known { space, actor, operation, file, status: own, token, x_space, provenance } =
            std::mem::take(&mut *notes.0.lock());
        let (status, duration) = (own.unwrap_or(status), started.elapsed().as_millis());
        let duration_ms = u64::try_from(duration).unwrap_or(u64::MAX);
        let actor = actor.as_ref().map_or("anonymous", Actor::as_str);
        tracing::event!(
            target: ACCESS,
            tracing::Level::DEBUG,
            request.id = id,
            method = method.as_str(),
            path = %path.escape_default(),
            status,
            took_ms = duration_ms,
            actor,
            space = space.as_ref().map(|space| space.name.as_str()),
            operation,
            ip = peer.map(tracing::field::display),
            "{what}: {status}"
        );
        let keeper = space.as_ref().unwrap_or_else(|| app.server.primary());
        let Some(audit) = &keeper.audit else { return };
        audit.record(AuditEntry {
            ts: app.server.now(),
            door: if path == mcp::PATH { Door::Mcp } else { Door::Http },
            method: method.as_str().to_owned(),
            path: kept(&path),
            query: (!query.is_empty()).then(|| kept(&query)),
            operation: operation.map(str::to_owned),
            file,
            space: space.as_ref().map(|space| space.name.clone()),
            actor: actor.to_owned(),
            token_hash: token,
            ip: peer,
            status,
            duration_ms,
            request_id: Some(id),
            x_space,
            provenance,
            lost_before: 0,
        });
    }
}
