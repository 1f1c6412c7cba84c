//! One request as every door sees it: counted, and told of when it is over.
//!
//! One rule: what is counted and what is kept is the same for all doors. A door says what it knows, when it knows it, and decides nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use svcfs_base::{Actor, AuditEntry, Fault, Protocol};
use svcfs_config::KeyDigest;

use crate::access::CallerIdentity;
use crate::kernel::{ServerState, Space};

/// Under which the log tells of every request, at the level `debug`: `SVC_LOG=info,access=debug` shows them.
const ACCESS: &str = "access";
/// Who asks, where that is not known.
const NOBODY: &str = "anonymous";
/// Longest text of a caller's own that is kept, in bytes.
const MAX_WORDS: usize = 1024;
/// The status of what nobody waited for to be answered, as nginx has it: the client went away. What it asked for may be done.
const GONE: u16 = 499;
/// Bytes of a key's digest that are kept (gaps.md 4.17).
const TOKEN_BYTES: usize = 4;

/// What a door knows of a request as soon as it is there.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// The door.
    pub protocol: Protocol,
    /// What is to be done, in the protocol's word.
    pub method: String,
    /// To what, in the protocol's writing.
    pub path: String,
    /// What was said about it, as it was sent; empty when nothing was.
    pub query: String,
    /// Where it comes from; none where it came over no connection.
    pub peer: Option<IpAddr>,
    /// Under which the log tells of it, where the protocol has such an id.
    pub id: Option<String>,
}

/// A request in progress. It is told of when it is over, at the latest when it is dropped: whoever goes away before the answer may have had done what they
/// asked for.
pub struct TrackedRequest {
    server: Arc<ServerState>,
    head: RequestHead,
    notes: RequestNotes,
    is_counted: AtomicBool,
    is_over: AtomicBool,
    begun: Instant,
}

impl std::fmt::Debug for TrackedRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Request").field("head", &self.head).field("notes", &self.notes).finish_non_exhaustive()
    }
}

impl Drop for TrackedRequest {
    fn drop(&mut self) {
        self.finish(GONE);
    }
}

/// What becomes known of a request while it is answered, by whoever finds it out.
#[derive(Debug, Clone, Default)]
pub struct RequestNotes(Arc<Mutex<RequestFacts>>);

/// See [`Notes`].
#[derive(Default)]
struct RequestFacts {
    space: Option<Arc<Space>>,
    actor: Option<Actor>,
    operation: Option<String>,
    file: Option<String>,
    status: Option<u16>,
    token: Option<String>,
    x_space: Option<String>,
    provenance: Option<String>,
}

impl std::fmt::Debug for RequestFacts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Known").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl RequestNotes {
    /// It is for this space.
    pub fn set_space(&self, space: &Arc<Space>) {
        self.0.lock().space = Some(Arc::clone(space));
    }
    /// It is this caller's.
    pub fn set_actor(&self, actor: Actor) {
        self.0.lock().actor = Some(actor);
    }
    /// It leads to this operation.
    pub fn set_operation(&self, operation: &str) {
        self.0.lock().operation = Some(operation.to_owned());
    }
    /// It is about this file.
    pub fn set_file(&self, file: &str) {
        self.0.lock().file = Some(kept(file));
    }
    /// These are the inputs of its operation.
    pub fn set_arguments(&self, arguments: &Map<String, Value>) {
        let file = ["path", "from"].iter().find_map(|name| arguments.get(*name)?.as_str());
        file.iter().for_each(|file| self.set_file(file));
    }
    /// It is answered so, whatever the protocol above says.
    pub fn set_status(&self, status: u16) {
        self.0.lock().status = Some(status);
    }
    /// It says of itself that it is for this space, and comes from there.
    pub fn set_claims(&self, x_space: Option<&str>, provenance: Option<&str>) {
        let mut known = self.0.lock();
        known.x_space = x_space.map(kept);
        known.provenance = provenance.map(kept);
    }
}

/// As much of a caller's own words as is kept.
fn kept(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_WORDS)].to_owned()
}

impl TrackedRequest {
    /// A request that has just come in.
    pub fn start(server: &Arc<ServerState>, head: RequestHead) -> Self {
        let (notes, is_counted, is_over) = Default::default();
        Self { server: Arc::clone(server), head, notes, is_counted, is_over, begun: Instant::now() }
    }

    /// It is told of nowhere.
    pub fn suppress_log(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// What becomes known of it.
    pub const fn notes(&self) -> &RequestNotes {
        &self.notes
    }

    /// Notes who sent it, none when that is not known, and the key that came with it, right or wrong. Then counts it: for whoever has a good
    /// key, else for the address. What comes over no connection is not counted.
    ///
    /// # Errors
    /// `RateLimited`, with the seconds to wait.
    pub fn admit(&self, identity: Option<&CallerIdentity>, sent: Option<&str>) -> Result<(), Fault> {
        let good = identity.and_then(|identity| identity.token);
        let token = good.or_else(|| sent.map(KeyDigest::from_key));
        let mut known = self.notes.0.lock();
        known.token = token.map(|token| token.short_hex(TOKEN_BYTES));
        if let Some(actor) = identity.and_then(|identity| identity.actor.clone()) {
            known.actor = Some(actor);
        }
        drop(known);
        self.is_counted.store(true, Ordering::Relaxed);
        self.head.peer.map_or(Ok(()), |peer| self.server.check_rate_limit(good.as_ref(), peer))
    }

    /// Whether it was looked at who sent it.
    pub fn is_admitted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    /// Tells of it, now that it is answered: in the log and, where there is one, in the audit log of its space. Once.
    pub fn finish(&self, status: u16) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        let server = &*self.server;
        let RequestHead { protocol, method, path, query, peer, id } = self.head.clone();
        let known = std::mem::take(&mut *self.notes.0.lock());
        let RequestFacts { space, actor, operation, file, status: own, token, x_space, provenance } = known;
        let status = own.unwrap_or(status);
        if matches!(protocol, Protocol::WebDav | Protocol::S3) {
            // What comes over HTTP and MCP is counted where operations are.
            let named = (operation.as_deref(), method.as_str());
            server.metrics().requests.requested(protocol, named, status, self.begun.elapsed());
        }
        let duration_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let actor = actor.as_ref().map_or(NOBODY, Actor::as_str);
        let escaped = path.escape_default();
        tracing::event!(
            target: ACCESS,
            tracing::Level::DEBUG,
            request.id = id,
            protocol = protocol.name(),
            method,
            path = %escaped,
            status,
            took_ms = duration_ms,
            actor,
            space = space.as_ref().map(|space| space.name.as_str()),
            operation,
            ip = peer.map(tracing::field::display),
            "{method} {escaped}: {status}"
        );
        let keeper = space.as_ref().unwrap_or_else(|| server.primary());
        let Some(audit) = &keeper.audit else { return };
        audit.record(AuditEntry {
            ts: server.now(),
            protocol,
            method: kept(&method),
            path: kept(&path),
            query: (!query.is_empty()).then(|| kept(&query)),
            operation,
            file,
            space: space.as_ref().map(|space| space.name.clone()),
            actor: actor.to_owned(),
            token_hash: token,
            ip: peer,
            status,
            duration_ms,
            request_id: id,
            x_space,
            provenance,
            lost_before: 0,
        });
    }
}
