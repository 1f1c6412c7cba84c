//! The context of a request: caller, space, parameters, and the last fault.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use dav_server::davpath::DavPath;
use dav_server::fs::{FsError, FsResult};
use http::request::Parts;
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use svcfs_base::{Caller, Fault, Kind, TreePath};
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{CallerTree, Lease, SetAttributes};
use svcfs_work::Lane;

use crate::WebdavServer;
use crate::body::RequestBody;
use crate::file::ReadableFile;
use crate::file_system::path_of;
use crate::metadata::ResourceMetadata;
use crate::observed_state::ObservedState;
use crate::proppatch::{PropertyUpdate, WindowsProperties};
use crate::resolved::ResolvedResource;

/// The last second of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// Parameters of a request that dav-server does not pass on.
pub(crate) struct RequestDetails {
    method: Method,
    /// The path in its space; `None` if it is invalid.
    path: Option<TreePath>,
    /// `Depth: 0`: a folder without its content.
    is_shallow: bool,
    /// Whether the request may need hashes of files.
    needs_etags: bool,
    /// Whether it has preconditions.
    is_conditional: bool,
    /// The header `If`, with the tokens of the client's locks.
    tokens: String,
    /// Properties that it sets.
    property_updates: Vec<PropertyUpdate>,
    /// The modification time of an uploaded file, from the client (`X-OC-MTime`).
    client_mtime: Option<SystemTime>,
}

impl RequestDetails {
    /// Parses a request for the space whose paths start with `prefix`.
    pub(crate) fn of(head: &Parts, content: &RequestBody, prefix: &str) -> Self {
        // Parsed by dav-server, so that both see the same path.
        let path = DavPath::new(head.uri.path()).ok();
        let path = path.and_then(|mut path| path.set_prefix(prefix).is_ok().then_some(path));
        Self {
            path: path.and_then(|path| path_of(&path).ok()),
            is_shallow: head.headers.get("depth").is_some_and(|depth| depth == "0"),
            needs_etags: head.method.as_str() != "PROPFIND" || may_request_etags(content.buffered()),
            is_conditional: is_conditional(&head.headers),
            tokens: head.headers.get("if").and_then(|tokens| tokens.to_str().ok()).unwrap_or_default().to_owned(),
            property_updates: if head.method.as_str() == "PROPPATCH" {
                PropertyUpdate::all(content.buffered())
            } else {
                Vec::new()
            },
            client_mtime: client_mtime(&head.headers).filter(|_| head.method == Method::PUT),
            method: head.method.clone(),
        }
    }
}

impl RequestDetails {
    /// Details for recovery, where the request itself is gone.
    pub(crate) fn for_recovery(method: Method, path: TreePath) -> Self {
        let (is_shallow, needs_etags, is_conditional, tokens, property_updates, client_mtime) = Default::default();
        Self {
            method,
            path: Some(path),
            is_shallow,
            needs_etags,
            is_conditional,
            tokens,
            property_updates,
            client_mtime,
        }
    }

    pub(crate) const fn path(&self) -> Option<&TreePath> {
        self.path.as_ref()
    }
}

/// Whether the body of a PROPFIND may request hashes: an empty body, `allprop` and `propname`
/// request everything.
fn may_request_etags(body: &[u8]) -> bool {
    let names = |name: &[u8]| body.windows(name.len()).any(|part| part == name);
    body.is_empty() || [&b"getetag"[..], b"allprop", b"propname"].into_iter().any(names)
}

/// Parses `X-OC-MTime`: seconds since 1970, from some clients with fractions.
fn client_mtime(headers: &HeaderMap) -> Option<SystemTime> {
    let text = headers.get("x-oc-mtime")?.to_str().ok()?.trim();
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = fraction.bytes().all(|digit| digit.is_ascii_digit());
    let seconds = integer.parse::<u64>().ok().filter(|seconds| is_number && (1..=LAST_SECOND).contains(seconds))?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn is_conditional(headers: &HeaderMap) -> bool {
    // A range from the end depends on the length of the file that was read.
    let is_from_the_end = headers.get("x-update-range").is_some_and(|range| range.as_bytes().starts_with(b"bytes=-"));
    let names = ["if", "if-match", "if-none-match", "if-unmodified-since"];
    is_from_the_end || names.iter().any(|name| headers.contains_key(*name))
}

/// A lock of another client that blocks a request.
#[derive(Debug, Clone)]
pub(crate) struct LockConflict {
    pub(crate) lease: Lease,
    /// Whether it blocks a new lock, not a change.
    pub(crate) is_conflict: bool,
}

/// The context of a request; passed to all callbacks of dav-server.
#[derive(Clone)]
pub(crate) struct WebdavRequestContext(Arc<RequestState>);

struct RequestState {
    protocol: Arc<WebdavServer>,
    space: Arc<Space>,
    caller: Caller,
    details: RequestDetails,
    /// The last fault.
    fault: Mutex<Option<Fault>>,
    /// The lock that blocked the request.
    lock_conflict: Mutex<Option<LockConflict>>,
    /// The target that a copy or move replaces. It is removed in the same change.
    replaced: Mutex<Option<TreePath>>,
    /// The states that the preconditions were checked against.
    observed: Mutex<HashMap<TreePath, ObservedState>>,
    /// The requested file, already open.
    open_file: Mutex<Option<ReadableFile>>,
    /// File attributes set by Windows, until they are applied.
    windows_properties: Mutex<Option<WindowsProperties>>,
    /// Whether the modification time of the client was applied.
    has_set_time: AtomicBool,
}

impl WebdavRequestContext {
    pub(crate) fn new(protocol: Arc<WebdavServer>, space: Arc<Space>, caller: Caller, details: RequestDetails) -> Self {
        let (fault, lock_conflict, replaced, observed, open_file) = Default::default();
        let (windows_properties, has_set_time) = Default::default();
        Self(Arc::new(RequestState {
            protocol,
            space,
            caller,
            details,
            fault,
            lock_conflict,
            replaced,
            observed,
            open_file,
            windows_properties,
            has_set_time,
        }))
    }
    pub(crate) fn protocol(&self) -> &Arc<WebdavServer> {
        &self.0.protocol
    }
    pub(crate) fn space(&self) -> &Space {
        &self.0.space
    }
    pub(crate) fn caller(&self) -> &Caller {
        &self.0.caller
    }
    /// The tree as the caller sees it: with its draft over it, if it may only propose changes.
    pub(crate) fn tree(&self) -> CallerTree<'_> {
        self.space().vfs.tree_of(self.caller())
    }
    /// Whether the caller's changes go into a draft.
    pub(crate) fn is_proposing(&self) -> bool {
        self.caller().permissions.is_proposing()
    }
    /// The requested path; `None` if it is invalid.
    pub(crate) fn path(&self) -> Option<&TreePath> {
        self.0.details.path()
    }
    /// The properties that it sets, as sent.
    pub(crate) fn property_updates(&self) -> &[PropertyUpdate] {
        &self.0.details.property_updates
    }
    /// Stores the file attributes that Windows sets.
    pub(crate) fn set_windows_properties(&self, properties: Option<WindowsProperties>) {
        *self.0.windows_properties.lock() = properties;
    }
    /// Takes them.
    pub(crate) fn take_windows_properties(&self) -> Option<WindowsProperties> {
        self.0.windows_properties.lock().take()
    }
    /// Applies the modification time that the client sent, if any.
    pub(crate) fn apply_client_mtime(&self, path: &TreePath) {
        // A draft has the times of its changes.
        let Some(client_mtime) = self.0.details.client_mtime.filter(|_| !self.is_proposing()) else { return };
        let set = SetAttributes { modified: Some(client_mtime), ..SetAttributes::default() };
        let outcome = ResolvedResource::at_no_follow(self, path)
            .and_then(|resource| self.space().vfs.set_attributes(self.caller(), resource.node(self)?, set).map(drop));
        match outcome {
            Ok(()) => self.0.has_set_time.store(true, Ordering::Relaxed),
            // The file is stored; the response does not confirm the time.
            Err(error) => {
                tracing::warn!(page.path = %path, ?error, "could not set the modification time that the client sent")
            }
        }
    }
    pub(crate) fn has_set_time(&self) -> bool {
        self.0.has_set_time.load(Ordering::Relaxed)
    }
    pub(crate) fn needs_etags(&self) -> bool {
        self.0.details.needs_etags
    }
    /// A LOCK request may create an empty file.
    pub(crate) fn is_lock_request(&self) -> bool {
        self.0.details.method.as_str() == "LOCK"
    }
    /// COPY and MOVE remove an existing target first.
    pub(crate) fn is_replacing(&self) -> bool {
        matches!(self.0.details.method.as_str(), "COPY" | "MOVE")
    }
    pub(crate) fn is_copy(&self) -> bool {
        self.0.details.method.as_str() == "COPY"
    }
    /// Whether the request acts on the resource at the path itself, link or folder, as a unit.
    pub(crate) fn is_opaque_operation(&self) -> bool {
        self.is_replacing() || self.0.details.method == Method::DELETE
    }
    /// Whether this folder is copied as a unit.
    pub(crate) fn is_opaque_copy(&self, path: &TreePath) -> bool {
        let RequestDetails { method, path: source, is_shallow, .. } = &self.0.details;
        method.as_str() == "COPY" && !is_shallow && source.as_ref() == Some(path)
    }

    /// Whether the request has the token of a lock, and the caller owns it.
    pub(crate) fn holds_lease(&self, lease: &Lease) -> bool {
        let has_token = self.0.details.tokens.contains(&format!("<{}>", lease.token));
        has_token && *self.caller().actor().as_str() == *lease.holder
    }

    /// Whether the request creates or removes the name of a path.
    pub(crate) fn changes_name(&self, path: &TreePath) -> bool {
        let RequestDetails { method, path: requested, .. } = &self.0.details;
        match method.as_str() {
            "DELETE" | "MOVE" | "MKCOL" => true,
            "COPY" => requested.as_ref() != Some(path),
            "PUT" | "PATCH" | "LOCK" => ResolvedResource::at_no_follow(self, path).is_err(),
            _ => false,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.0.details.method.as_str(), "GET" | "HEAD" | "PROPFIND")
    }

    /// Whether the request reads the content of this file.
    pub(crate) fn reads_file(&self, path: &TreePath) -> bool {
        let RequestDetails { method, path: requested, .. } = &self.0.details;
        matches!(*method, Method::GET | Method::HEAD) && requested.as_ref() == Some(path)
    }
    /// Keeps the open file until dav-server opens it.
    pub(crate) fn keep_open_file(&self, open_file: ReadableFile) -> ResourceMetadata {
        let metadata = open_file.metadata();
        *self.0.open_file.lock() = Some(open_file);
        metadata
    }
    /// Takes that file.
    pub(crate) fn take_open_file(&self) -> Option<ReadableFile> {
        self.0.open_file.lock().take()
    }

    pub(crate) fn is_conditional(&self) -> bool {
        self.0.details.is_conditional
    }
    /// The state of a path when a precondition was first checked; `None` if none was.
    pub(crate) fn observed(&self, path: &TreePath) -> Option<ObservedState> {
        self.0.observed.lock().get(path).cloned()
    }
    /// Records the state of a path, if the request has preconditions. The first state wins, and is
    /// returned.
    pub(crate) fn observe(&self, path: &TreePath, state: ObservedState) -> ObservedState {
        if !self.is_conditional() {
            return state;
        }
        self.0.observed.lock().entry(path.clone()).or_insert(state).clone()
    }
    /// Marks a path to be replaced.
    pub(crate) fn mark_replaced(&self, path: TreePath) {
        *self.0.replaced.lock() = Some(path);
    }
    /// Whether a path is marked.
    pub(crate) fn will_replace(&self, path: &TreePath) -> bool {
        self.0.replaced.lock().as_ref() == Some(path)
    }
    /// Whether a path is marked; clears the mark, as the caller replaces it now.
    pub(crate) fn claim_replacement(&self, path: &TreePath) -> bool {
        self.0.replaced.lock().take_if(|replaced| replaced == path).is_some()
    }

    /// Records a lock that blocks the request.
    pub(crate) fn record_lock_conflict(&self, conflict: LockConflict) {
        *self.0.lock_conflict.lock() = Some(conflict);
    }
    /// The lock that blocked it last.
    pub(crate) fn lock_conflict(&self) -> Option<LockConflict> {
        self.0.lock_conflict.lock().clone()
    }

    /// Takes the last fault.
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        self.0.fault.lock().take()
    }
    /// Records a fault, and converts it for dav-server.
    pub(crate) fn record_fault(&self, fault: Fault) -> FsError {
        let error = fs_error(fault.kind());
        *self.0.fault.lock() = Some(fault);
        error
    }
    /// Runs blocking work for this request.
    pub(crate) async fn run<T, W>(&self, work: W) -> FsResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Self) -> Result<T, Fault> + Send + 'static,
    {
        let context = self.clone();
        let outcome = svcfs_listener::run_blocking(&self.0.protocol.lanes, Lane::Quick, move || {
            let outcome = work(&context)?;
            context.0.space.wait_for_indexed_writes(&context.0.caller);
            Ok(outcome)
        })
        .await;
        outcome.map_err(|fault| self.record_fault(fault))
    }
}

/// The closest error of dav-server; the response may be improved later in `request_handler.rs`.
fn fs_error(kind: Kind) -> FsError {
    match kind {
        Kind::NotFound | Kind::Stale => FsError::NotFound,
        Kind::Exists => FsError::Exists,
        Kind::NameTooLong => FsError::PathTooLong,
        Kind::TooLarge => FsError::TooLarge,
        Kind::NoSpace => FsError::InsufficientStorage,
        Kind::Disabled | Kind::NotEnabled => FsError::NotImplemented,
        Kind::Conflict
        | Kind::Locked
        | Kind::PreconditionFailed
        | Kind::Invalid
        | Kind::Rejected
        | Kind::NotAllowed
        | Kind::Unauthenticated
        | Kind::Forbidden
        | Kind::ReadOnly
        | Kind::NotDirectory
        | Kind::IsDirectory
        | Kind::NotEmpty
        | Kind::UnsupportedType => FsError::Forbidden,
        Kind::RateLimited
        | Kind::Unavailable
        | Kind::Upstream
        | Kind::FetchFailed
        | Kind::DiskFailed
        | Kind::Internal => FsError::GeneralFailure,
    }
}
