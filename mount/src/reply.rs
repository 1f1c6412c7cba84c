//! Answers every request in one way: call, log a fault once, reply.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use svcfs_base::{Fault, Kind, LogLevel};
use svcfs_vfs::DiskSpace;

use crate::convert::{ENTRY_TTL, NEGATIVE_TTL, NO_ENTRY, attr_ttl, name_ttl};

/// Why a request fails.
pub(crate) enum RequestFailure {
    /// Refused or failed in the vfs; logged at its own severity.
    Fault(Fault),
    /// An expected error of the protocol, such as "no such attribute"; not logged.
    Errno(Errno),
}

impl From<Fault> for RequestFailure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Errno> for RequestFailure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Maps `NotFound` to `ESTALE` for requests by inode. On `ESTALE` the kernel looks the name up
/// again, and creates the file if the program asked for that; `ENOENT` would go to the program.
pub(crate) fn or_stale(fault: Fault) -> RequestFailure {
    if fault.kind() == Kind::NotFound { RequestFailure::Errno(Errno::ESTALE) } else { RequestFailure::Fault(fault) }
}

/// Maps `NotAllowed` to `EPERM` for removals: `rm -f` takes `EINVAL` for a missing file, and would
/// report success.
pub(crate) fn or_not_permitted(fault: Fault) -> RequestFailure {
    if fault.kind() == Kind::NotAllowed { RequestFailure::Errno(Errno::EPERM) } else { RequestFailure::Fault(fault) }
}

/// A reply that can carry an error number.
pub(crate) trait ErrorReply: Sized {
    fn send_error(self, errno: Errno);
}

/// A reply that can carry a `T`.
pub(crate) trait ValueReply<T>: ErrorReply {
    fn send_value(self, value: T);
}

/// Called for each answered request with its name, its outcome (`ok`, `word` for an expected error
/// number, else the kind of the fault) and its duration. Runs before the reply is sent; must not
/// block.
pub type OnAnswer = Arc<dyn Fn(&'static str, &'static str, Duration) + Send + Sync>;

/// The name of a request, and the hook to call for it.
pub(crate) struct FuseRequest<'a> {
    pub(crate) operation: &'static str,
    pub(crate) on_answer: Option<&'a OnAnswer>,
}

impl From<&'static str> for FuseRequest<'_> {
    fn from(operation: &'static str) -> Self {
        Self { operation, on_answer: None }
    }
}

/// Makes the call and replies with its outcome.
pub(crate) fn answer<'a, T, E: Into<RequestFailure>, R: ValueReply<T>>(
    request: impl Into<FuseRequest<'a>>,
    reply: R,
    call: impl FnOnce() -> Result<T, E>,
) {
    answer_with(request, reply, call, R::send_value);
}

/// Like [`answer`], with a closure that fills the reply.
///
/// A panic in the call becomes `EIO` and does not end the thread: a session without threads would
/// hang every process that touches the mount.
pub(crate) fn answer_with<'a, T, E: Into<RequestFailure>, R: ErrorReply>(
    request: impl Into<FuseRequest<'a>>,
    reply: R,
    call: impl FnOnce() -> Result<T, E>,
    send: impl FnOnce(R, T),
) {
    let (FuseRequest { operation, on_answer }, started) = (request.into(), Instant::now());
    let outcome = catch_unwind(AssertUnwindSafe(|| call().map_err(E::into)));
    let outcome = outcome.unwrap_or_else(|_| Err(Fault::internal("the request panicked").into()));
    if let Some(on_answer) = on_answer {
        let outcome_name = match &outcome {
            Ok(_) => "ok",
            Err(RequestFailure::Errno(_)) => "word",
            Err(RequestFailure::Fault(fault)) => fault.kind().name(),
        };
        on_answer(operation, outcome_name, started.elapsed());
    }
    match outcome {
        Ok(value) => send(reply, value),
        Err(RequestFailure::Errno(errno)) => reply.send_error(errno),
        Err(RequestFailure::Fault(fault)) => {
            log(operation, &fault);
            reply.send_error(Errno::from_i32(fault.kind().errno()));
        }
    }
}

/// Logs a fault at its own severity.
pub(crate) fn log(operation: &'static str, fault: &Fault) {
    let kind = fault.kind().name();
    match fault.kind().level() {
        LogLevel::Debug => tracing::debug!(operation, kind, error = ?fault, "`{operation}` on the mount failed"),
        LogLevel::Info => tracing::info!(operation, kind, error = ?fault, "`{operation}` on the mount refused"),
        LogLevel::Error => tracing::error!(operation, kind, error = ?fault, "`{operation}` on the mount failed"),
    }
}

macro_rules! impl_error_reply {
    ($($reply:ty),*) => { $(impl ErrorReply for $reply {
        fn send_error(self, errno: Errno) { self.error(errno); }
    })* };
}

impl_error_reply! {
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr
}

impl ValueReply<()> for ReplyEmpty {
    fn send_value(self, (): ()) {
        self.ok();
    }
}

impl ValueReply<FileAttr> for ReplyAttr {
    fn send_value(self, attributes: FileAttr) {
        self.attr(&attr_ttl(&attributes), &attributes);
    }
}

impl ValueReply<FileAttr> for ReplyEntry {
    fn send_value(self, attributes: FileAttr) {
        self.entry_with_ttls(&attr_ttl(&attributes), &name_ttl(&attributes), &attributes, Generation(0));
    }
}

/// Attributes (none: no such entry), and how long the kernel may cache the name at most.
pub(crate) struct LookupReply(pub(crate) Option<FileAttr>, pub(crate) Duration);

impl ValueReply<LookupReply> for ReplyEntry {
    fn send_value(self, LookupReply(entry, ttl): LookupReply) {
        match entry {
            Some(attributes) => {
                self.entry_with_ttls(&attr_ttl(&attributes), &ttl.min(ENTRY_TTL), &attributes, Generation(0));
            }
            None => self.entry(&ttl.min(NEGATIVE_TTL), &NO_ENTRY, Generation(0)),
        }
    }
}

impl ValueReply<Bytes> for ReplyData {
    fn send_value(self, content: Bytes) {
        self.data(&content);
    }
}

impl ValueReply<(FileHandle, FopenFlags)> for ReplyOpen {
    fn send_value(self, (handle, flags): (FileHandle, FopenFlags)) {
        self.opened(handle, flags);
    }
}

impl ValueReply<(FileAttr, FileHandle, FopenFlags)> for ReplyCreate {
    fn send_value(self, (attributes, handle, flags): (FileAttr, FileHandle, FopenFlags)) {
        self.created(&name_ttl(&attributes), &attributes, Generation(0), handle, flags);
    }
}

impl ValueReply<u32> for ReplyWrite {
    fn send_value(self, written: u32) {
        self.written(written);
    }
}

impl ValueReply<u64> for ReplyLseek {
    fn send_value(self, offset: u64) {
        // The kernel asked from an `i64` offset, so the result fits.
        self.offset(offset.cast_signed());
    }
}

impl ValueReply<DiskSpace> for ReplyStatfs {
    fn send_value(self, disk: DiskSpace) {
        let DiskSpace { block_size, blocks, free, available, files, files_free } = disk;
        self.statfs(blocks, free, available, files, files_free, block_size, 255, block_size);
    }
}

/// The value, and the caller's buffer size; 0 asks for the length.
impl ValueReply<(Vec<u8>, u32)> for ReplyXattr {
    fn send_value(self, (value, capacity): (Vec<u8>, u32)) {
        match u32::try_from(value.len()) {
            Ok(size) if capacity == 0 => self.size(size),
            Ok(size) if size <= capacity => self.data(&value),
            Ok(_) | Err(_) => self.error(Errno::ERANGE),
        }
    }
}
