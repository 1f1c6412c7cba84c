//! One request, as the tree sees it: who asks, what for, and what went wrong.

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
use svcfs_vfs::{Lease, SetAttributes};
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

/// What a request is about, as far as dav-server does not tell.
pub(crate) struct RequestDetails {
    method: Method,
    /// The path in its space; none for one that is none.
    path: Option<TreePath>,
    /// A folder without what is in it.
    is_shallow: bool,
    /// Whether hashes of files may be asked for.
    wants_etags: bool,
    /// Whether it is to be done only while things are as they were.
    is_conditional: bool,
    /// Its header `If`, which has the tokens of the client's locks.
    tokens: String,
    /// Properties that it sets.
    sent: Vec<PropertyUpdate>,
    /// When the file was written that it puts, as the client says (`X-OC-MTime`).
    modified: Option<SystemTime>,
}

impl RequestDetails {
    /// Of a request with this head and content, in the space whose paths begin with `prefix`.
    pub(crate) fn of(head: &Parts, content: &RequestBody, prefix: &str) -> Self {
        // As dav-server reads it, dots and all: what is asked about here is what is done there.
        let path = DavPath::new(head.uri.path()).ok();
        let path = path.and_then(|mut path| path.set_prefix(prefix).is_ok().then_some(path));
        Self {
            path: path.and_then(|path| path_of(&path).ok()),
            is_shallow: head.headers.get("depth").is_some_and(|depth| depth == "0"),
            wants_etags: head.method.as_str() != "PROPFIND" || may_name_etags(content.here()),
            is_conditional: is_conditional(&head.headers),
            tokens: head.headers.get("if").and_then(|tokens| tokens.to_str().ok()).unwrap_or_default().to_owned(),
            sent: if head.method.as_str() == "PROPPATCH" { PropertyUpdate::all(content.here()) } else { Vec::new() },
            modified: modified(&head.headers).filter(|_| head.method == Method::PUT),
            method: head.method.clone(),
        }
    }
}

impl RequestDetails {
    /// Of what a server before this one was asked for, of which no more is known.
    pub(crate) fn about(method: Method, path: TreePath) -> Self {
        let (is_shallow, wants_etags, is_conditional, tokens, sent, modified) = Default::default();
        Self { method, path: Some(path), is_shallow, wants_etags, is_conditional, tokens, sent, modified }
    }

    /// The path in its space; none for one that is none.
    pub(crate) const fn path(&self) -> Option<&TreePath> {
        self.path.as_ref()
    }
}

/// Whether the body of a PROPFIND may ask for hashes: everything is asked for by no body, by `allprop` and by `propname`.
fn may_name_etags(body: &[u8]) -> bool {
    let names = |name: &[u8]| body.windows(name.len()).any(|part| part == name);
    body.is_empty() || [&b"getetag"[..], b"allprop", b"propname"].into_iter().any(names)
}

/// The time that a client gives a file: seconds since 1970, of which some clients write parts.
fn modified(headers: &HeaderMap) -> Option<SystemTime> {
    let text = headers.get("x-oc-mtime")?.to_str().ok()?.trim();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = part.bytes().all(|digit| digit.is_ascii_digit());
    let seconds = whole.parse::<u64>().ok().filter(|seconds| is_number && (1..=LAST_SECOND).contains(seconds))?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn is_conditional(headers: &HeaderMap) -> bool {
    // The last bytes of a file are those of the file that was looked at.
    let is_from_the_end = headers.get("x-update-range").is_some_and(|range| range.as_bytes().starts_with(b"bytes=-"));
    let names = ["if", "if-match", "if-none-match", "if-unmodified-since"];
    is_from_the_end || names.iter().any(|name| headers.contains_key(*name))
}

/// A lock of another that a request met.
#[derive(Debug, Clone)]
pub(crate) struct LockConflict {
    pub(crate) lease: Lease,
    /// Whether a lock was asked for beside it, not something done under it.
    pub(crate) is_conflict: bool,
}

/// One request; handed to everything that dav-server asks of the tree.
#[derive(Clone)]
pub(crate) struct WebdavRequestContext(Arc<RequestState>);

struct RequestState {
    protocol: Arc<WebdavServer>,
    space: Arc<Space>,
    caller: Caller,
    question: RequestDetails,
    /// What went wrong last.
    fault: Mutex<Option<Fault>>,
    /// The lock of another that stands in the way.
    obstacle: Mutex<Option<LockConflict>>,
    /// What a copy or move takes the place of. It is removed in the same change.
    replaced: Mutex<Option<TreePath>>,
    /// What the request's conditions were judged by.
    seen: Mutex<HashMap<TreePath, ObservedState>>,
    /// The file that is asked for, open.
    reading: Mutex<Option<ReadableFile>>,
    /// What Windows says of a file, until it is done.
    of_windows: Mutex<Option<WindowsProperties>>,
    /// Whether the file has the time that the client gave it.
    has_set_time: AtomicBool,
}

impl WebdavRequestContext {
    pub(crate) fn new(
        protocol: Arc<WebdavServer>,
        space: Arc<Space>,
        caller: Caller,
        question: RequestDetails,
    ) -> Self {
        let (fault, obstacle, replaced, seen, reading) = Default::default();
        let (of_windows, has_set_time) = Default::default();
        Self(Arc::new(RequestState {
            protocol,
            space,
            caller,
            question,
            fault,
            obstacle,
            replaced,
            seen,
            reading,
            of_windows,
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
    /// The path that is asked about; none for one that is none.
    pub(crate) fn path(&self) -> Option<&TreePath> {
        self.0.question.path()
    }
    /// Properties that it sets, as they were written.
    pub(crate) fn sent(&self) -> &[PropertyUpdate] {
        &self.0.question.sent
    }
    /// Notes what Windows says of the file.
    pub(crate) fn is_told_by_windows(&self, said: Option<WindowsProperties>) {
        *self.0.of_windows.lock() = said;
    }
    /// What Windows says of it, once.
    pub(crate) fn of_windows(&self) -> Option<WindowsProperties> {
        self.0.of_windows.lock().take()
    }
    /// Gives a file that was put the time that the client says it has, if it does.
    pub(crate) fn set_time(&self, path: &TreePath) {
        let Some(modified) = self.0.question.modified else { return };
        let set = SetAttributes { modified: Some(modified), ..SetAttributes::default() };
        let outcome = ResolvedResource::itself(self, path)
            .and_then(|found| self.space().vfs.set_attributes(self.caller(), found.node, set).map(drop));
        match outcome {
            Ok(()) => self.0.has_set_time.store(true, Ordering::Relaxed),
            // The file is there; the client is not told that the time is.
            Err(error) => {
                tracing::warn!(page.path = %path, ?error, "the time that a client gave a file could not be set")
            }
        }
    }
    /// Whether it did.
    pub(crate) fn has_set_time(&self) -> bool {
        self.0.has_set_time.load(Ordering::Relaxed)
    }
    /// Whether hashes of files may be asked for.
    pub(crate) fn wants_etags(&self) -> bool {
        self.0.question.wants_etags
    }
    /// Whether an empty file is made for a lock.
    pub(crate) fn is_lock(&self) -> bool {
        self.0.question.method.as_str() == "LOCK"
    }
    /// Whether what is removed here is removed for what comes in its place.
    pub(crate) fn is_replacing(&self) -> bool {
        matches!(self.0.question.method.as_str(), "COPY" | "MOVE")
    }
    /// Whether something is copied.
    pub(crate) fn is_copy(&self) -> bool {
        self.0.question.method.as_str() == "COPY"
    }
    /// Whether whatever stands there itself, link or folder, is handled as one thing: it is removed or replaced as a whole.
    pub(crate) fn takes_whole(&self) -> bool {
        self.is_replacing() || self.0.question.method == Method::DELETE
    }
    /// Whether a folder is copied as one thing.
    pub(crate) fn copies_whole(&self, path: &TreePath) -> bool {
        let RequestDetails { method, path: source, is_shallow, .. } = &self.0.question;
        method.as_str() == "COPY" && !is_shallow && source.as_ref() == Some(path)
    }

    /// Whether it comes with a lock, and from whoever has that.
    pub(crate) fn holds(&self, lease: &Lease) -> bool {
        let is_told = self.0.question.tokens.contains(&format!("<{}>", lease.token));
        is_told && *self.caller().actor().as_str() == *lease.holder
    }

    /// Whether it makes the name of a path, or takes it away.
    pub(crate) fn is_naming(&self, path: &TreePath) -> bool {
        let RequestDetails { method, path: asked, .. } = &self.0.question;
        match method.as_str() {
            "DELETE" | "MOVE" | "MKCOL" => true,
            "COPY" => asked.as_ref() != Some(path),
            "PUT" | "PATCH" | "LOCK" => ResolvedResource::itself(self, path).is_err(),
            _ => false,
        }
    }

    /// Whether it only looks.
    pub(crate) fn is_looking(&self) -> bool {
        matches!(self.0.question.method.as_str(), "GET" | "HEAD" | "PROPFIND")
    }

    /// Whether it reads the file at a path, and no more.
    pub(crate) fn is_reading(&self, path: &TreePath) -> bool {
        let RequestDetails { method, path: asked, .. } = &self.0.question;
        matches!(*method, Method::GET | Method::HEAD) && asked.as_ref() == Some(path)
    }
    /// Keeps that file until it is opened; what is known of it.
    pub(crate) fn keep(&self, reading: ReadableFile) -> ResourceMetadata {
        let metadata = reading.metadata();
        *self.0.reading.lock() = Some(reading);
        metadata
    }
    /// The file that was kept, once.
    pub(crate) fn kept(&self) -> Option<ReadableFile> {
        self.0.reading.lock().take()
    }

    /// Whether it is to be done only while things are as they were.
    pub(crate) fn is_conditional(&self) -> bool {
        self.0.question.is_conditional
    }
    /// What stood at a path when a condition was first judged by it; none where no condition was.
    pub(crate) fn seen(&self, path: &TreePath) -> Option<ObservedState> {
        self.0.seen.lock().get(path).cloned()
    }
    /// Notes what stands at a path, for a request with conditions. The first look counts, and is given back.
    pub(crate) fn saw(&self, path: &TreePath, look: ObservedState) -> ObservedState {
        if !self.is_conditional() {
            return look;
        }
        self.0.seen.lock().entry(path.clone()).or_insert(look).clone()
    }
    /// Notes what will be replaced.
    pub(crate) fn replaces(&self, path: TreePath) {
        *self.0.replaced.lock() = Some(path);
    }
    /// Whether a path is to be replaced, and is not yet.
    pub(crate) fn is_about_to_replace(&self, path: &TreePath) -> bool {
        self.0.replaced.lock().as_ref() == Some(path)
    }
    /// Whether a path is to be replaced; asked once, by whoever replaces it.
    pub(crate) fn is_to_replace(&self, path: &TreePath) -> bool {
        self.0.replaced.lock().take_if(|replaced| replaced == path).is_some()
    }

    /// Notes the lock that stands in the way.
    pub(crate) fn met(&self, obstacle: LockConflict) {
        *self.0.obstacle.lock() = Some(obstacle);
    }
    /// The lock that stood in the way last.
    pub(crate) fn obstacle(&self) -> Option<LockConflict> {
        self.0.obstacle.lock().clone()
    }

    /// What went wrong last, if anything did.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.0.fault.lock().take()
    }
    /// Notes what went wrong, and gives what dav-server understands of it.
    pub(crate) fn refuse(&self, fault: Fault) -> FsError {
        let word = word(fault.kind());
        *self.0.fault.lock() = Some(fault);
        word
    }
    /// Runs blocking work for this request.
    pub(crate) async fn run<T, W>(&self, work: W) -> FsResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Self) -> Result<T, Fault> + Send + 'static,
    {
        let asked = self.clone();
        let outcome = svcfs_listener::run_blocking(&self.0.protocol.lanes, Lane::Quick, move || {
            let outcome = work(&asked)?;
            asked.0.space.wait_for_indexed_writes(&asked.0.caller);
            Ok(outcome)
        })
        .await;
        outcome.map_err(|fault| self.refuse(fault))
    }
}

/// dav-server's word for a kind of fault; where it has none, the answer is told in our own (`answer.rs`).
fn word(kind: Kind) -> FsError {
    match kind {
        Kind::NotFound | Kind::Stale => FsError::NotFound,
        Kind::Exists => FsError::Exists,
        Kind::NameTooLong => FsError::PathTooLong,
        Kind::TooLarge => FsError::TooLarge,
        Kind::NoSpace => FsError::InsufficientStorage,
        Kind::Disabled => FsError::NotImplemented,
        Kind::Conflict
        | Kind::Locked
        | Kind::PreconditionFailed
        | Kind::Invalid
        | Kind::Rejected
        | Kind::Unauthenticated
        | Kind::Forbidden
        | Kind::ReadOnly
        | Kind::NotDirectory
        | Kind::IsDirectory
        | Kind::NotEmpty
        | Kind::UnsupportedType => FsError::Forbidden,
        Kind::RateLimited | Kind::Unavailable | Kind::Upstream | Kind::DiskFailed | Kind::Internal => {
            FsError::GeneralFailure
        }
    }
}
