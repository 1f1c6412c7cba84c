//! One request of any protocol: rate limit, access log, audit log and metrics.
//!
//! Invariant: counting and recording is the same for all protocols. A protocol reports what it
//! knows as soon as it knows it, and decides nothing.

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

/// Target of the access log, at level `debug`: `SVC_LOG=info,access=debug` shows it.
const ACCESS_LOG_TARGET: &str = "access";
const ANONYMOUS: &str = "anonymous";
const MAX_TEXT_BYTES: usize = 1024;
/// Status if the client disconnected before the response (as in nginx). It may have succeeded.
const CLIENT_CLOSED_REQUEST: u16 = 499;
const TOKEN_BYTES: usize = 4;

/// What a protocol knows of a request when it arrives.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// The protocol of the request.
    pub protocol: Protocol,
    /// The protocol's name of the operation, such as `GET`.
    pub method: String,
    /// The target, in the protocol's notation.
    pub path: String,
    /// The query as sent; may be empty.
    pub query: String,
    /// Address of the client; none if there is no connection.
    pub peer: Option<IpAddr>,
    /// Request id for the log, if the protocol has one.
    pub id: Option<String>,
}

/// A request in progress. It is recorded when it finishes, at the latest when it is dropped: even
/// if the client disconnects, the operation may have been done.
pub struct TrackedRequest {
    server: Arc<ServerState>,
    head: RequestHead,
    notes: RequestNotes,
    is_counted: AtomicBool,
    is_finished: AtomicBool,
    started_at: Instant,
}

impl std::fmt::Debug for TrackedRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TrackedRequest")
            .field("head", &self.head)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

impl Drop for TrackedRequest {
    fn drop(&mut self) {
        self.finish(CLIENT_CLOSED_REQUEST);
    }
}

/// Facts about a request that become known while it is processed. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct RequestNotes(Arc<Mutex<RequestFacts>>);

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
        formatter.debug_struct("RequestFacts").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl RequestNotes {
    /// Sets the space of the request.
    pub fn set_space(&self, space: &Arc<Space>) {
        self.0.lock().space = Some(Arc::clone(space));
    }
    /// Sets the authenticated actor.
    pub fn set_actor(&self, actor: Actor) {
        self.0.lock().actor = Some(actor);
    }
    /// Sets the operation that the request runs.
    pub fn set_operation(&self, operation: &str) {
        self.0.lock().operation = Some(operation.to_owned());
    }
    /// Sets the file that the request is about.
    pub fn set_file(&self, file: &str) {
        self.0.lock().file = Some(truncate(file));
    }
    /// Sets the file from the arguments of the operation.
    pub fn set_arguments(&self, arguments: &Map<String, Value>) {
        let file = ["path", "from"].iter().find_map(|name| arguments.get(*name)?.as_str());
        file.iter().for_each(|file| self.set_file(file));
    }
    /// Sets the status of the operation, which overrides the protocol's status.
    pub fn set_status(&self, status: u16) {
        self.0.lock().status = Some(status);
    }
    /// Sets the space and the provenance that the client claims.
    pub fn set_claims(&self, x_space: Option<&str>, provenance: Option<&str>) {
        let mut facts = self.0.lock();
        facts.x_space = x_space.map(truncate);
        facts.provenance = provenance.map(truncate);
    }
}

fn truncate(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned()
}

impl TrackedRequest {
    /// Starts to track a request that has just arrived.
    pub fn start(server: &Arc<ServerState>, head: RequestHead) -> Self {
        let (notes, is_counted, is_finished) = Default::default();
        Self { server: Arc::clone(server), head, notes, is_counted, is_finished, started_at: Instant::now() }
    }

    /// Suppresses the log entry of this request.
    pub fn suppress_log(&self) {
        self.is_finished.store(true, Ordering::Relaxed);
    }

    /// The facts known so far.
    pub const fn notes(&self) -> &RequestNotes {
        &self.notes
    }

    /// Records the identity, if known, and the key that was sent, valid or not. Then counts the
    /// request against the rate limit: of the valid key, else of the address. A request without a
    /// connection is not counted.
    pub fn admit(&self, identity: Option<&CallerIdentity>, sent: Option<&str>) -> Result<(), Fault> {
        let valid_token = identity.and_then(|identity| identity.token);
        let token = valid_token.or_else(|| sent.map(KeyDigest::from_key));
        let mut facts = self.notes.0.lock();
        facts.token = token.map(|token| token.short_hex(TOKEN_BYTES));
        if let Some(actor) = identity.and_then(|identity| identity.actor.clone()) {
            facts.actor = Some(actor);
        }
        drop(facts);
        self.is_counted.store(true, Ordering::Relaxed);
        self.head.peer.map_or(Ok(()), |peer| self.server.check_rate_limit(valid_token.as_ref(), peer))
    }

    /// Whether the credentials of the request were checked.
    pub fn is_admitted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    /// Records the finished request, once: in the access log and, if enabled, the audit log.
    pub fn finish(&self, status: u16) {
        if self.is_finished.swap(true, Ordering::Relaxed) {
            return;
        }
        let server = &*self.server;
        let RequestHead { protocol, method, path, query, peer, id } = self.head.clone();
        let facts = std::mem::take(&mut *self.notes.0.lock());
        let RequestFacts { space, actor, operation, file, status: operation_status, token, x_space, provenance } =
            facts;
        let status = operation_status.unwrap_or(status);
        if matches!(protocol, Protocol::WebDav | Protocol::S3) {
            // Requests over HTTP and MCP are counted where operations run.
            let name = (operation.as_deref(), method.as_str());
            server.metrics().requests.record_request(protocol, name, status, self.started_at.elapsed());
        }
        let duration_ms = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let actor = actor.as_ref().map_or(ANONYMOUS, Actor::as_str);
        let escaped = path.escape_default();
        tracing::event!(
            target: ACCESS_LOG_TARGET,
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
        let audited_space = space.as_ref().unwrap_or_else(|| server.primary());
        let Some(audit) = &audited_space.audit else { return };
        audit.record(AuditEntry {
            ts: server.now(),
            protocol,
            method: truncate(&method),
            path: truncate(&path),
            query: (!query.is_empty()).then(|| truncate(&query)),
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
