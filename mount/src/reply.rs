//! The one way a request is answered: call, log a fault once, reply.

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

use crate::convert::{ABSENT_TTL, KNOWN_TTL, NOTHING, kept_for};

/// Why a request is not answered with a value.
pub(crate) enum RequestFailure {
    /// The vfs refused or failed; logged at its own severity.
    Fault(Fault),
    /// An ordinary word of the protocol, such as "no such attribute"; not logged.
    Word(Errno),
}

impl From<Fault> for RequestFailure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Errno> for RequestFailure {
    fn from(errno: Errno) -> Self {
        Self::Word(errno)
    }
}

/// Of a node the kernel named by number: its file is gone since it looked the name up. Told so, the kernel looks again, and makes
/// the file when it was asked to; `ENOENT` it would hand to the program.
pub(crate) fn gone(fault: Fault) -> RequestFailure {
    if fault.kind() == Kind::NotFound { RequestFailure::Word(Errno::ESTALE) } else { RequestFailure::Fault(fault) }
}

/// A reply that can carry an error number.
pub(crate) trait ErrorReply: Sized {
    /// Answers with an error number.
    fn refuse(self, errno: Errno);
}

/// A reply that can carry a `T`.
pub(crate) trait ValueReply<T>: ErrorReply {
    /// Answers with a value.
    fn give(self, value: T);
}

/// Told of each request that was answered: which one, how (`ok`, `word` for an ordinary no of the protocol, or the kind of the fault), and how
/// long that took. Called before the kernel hears it; must not block.
pub type OnAnswer = Arc<dyn Fn(&'static str, &'static str, Duration) + Send + Sync>;

/// What is asked, and who is told of it.
pub(crate) struct FuseRequest<'a> {
    pub(crate) operation: &'static str,
    pub(crate) told: Option<&'a OnAnswer>,
}

impl From<&'static str> for FuseRequest<'_> {
    fn from(operation: &'static str) -> Self {
        Self { operation, told: None }
    }
}

/// Makes the call and answers the kernel with its outcome.
pub(crate) fn answer<'a, T, E: Into<RequestFailure>, R: ValueReply<T>>(
    asked: impl Into<FuseRequest<'a>>,
    reply: R,
    call: impl FnOnce() -> Result<T, E>,
) {
    answer_with(asked, reply, call, R::give);
}

/// Like [`answer`], for replies that are filled rather than given a value.
///
/// A panic in the call costs its caller `EIO` and not the mount one of its threads: a session whose threads are gone would hang
/// every process that touches the mount.
pub(crate) fn answer_with<'a, T, E: Into<RequestFailure>, R: ErrorReply>(
    asked: impl Into<FuseRequest<'a>>,
    reply: R,
    call: impl FnOnce() -> Result<T, E>,
    give: impl FnOnce(R, T),
) {
    let (FuseRequest { operation, told }, begun) = (asked.into(), Instant::now());
    let outcome = catch_unwind(AssertUnwindSafe(|| call().map_err(E::into)));
    let outcome = outcome.unwrap_or_else(|_| Err(Fault::internal("the request panicked").into()));
    if let Some(told) = told {
        let how = match &outcome {
            Ok(_) => "ok",
            Err(RequestFailure::Word(_)) => "word",
            Err(RequestFailure::Fault(fault)) => fault.kind().name(),
        };
        told(operation, how, begun.elapsed());
    }
    match outcome {
        Ok(value) => give(reply, value),
        Err(RequestFailure::Word(errno)) => reply.refuse(errno),
        Err(RequestFailure::Fault(fault)) => {
            log(operation, &fault);
            reply.refuse(Errno::from_i32(fault.kind().errno()));
        }
    }
}

/// Tells the log of a fault, at the fault's own severity.
pub(crate) fn log(operation: &'static str, fault: &Fault) {
    let kind = fault.kind().name();
    match fault.kind().level() {
        LogLevel::Debug => tracing::debug!(operation, kind, error = ?fault, "`{operation}` on the mount failed"),
        LogLevel::Info => tracing::info!(operation, kind, error = ?fault, "`{operation}` on the mount refused"),
        LogLevel::Error => tracing::error!(operation, kind, error = ?fault, "`{operation}` on the mount failed"),
    }
}

macro_rules! refuse {
    ($($reply:ty),*) => { $(impl ErrorReply for $reply {
        fn refuse(self, errno: Errno) { self.error(errno); }
    })* };
}

refuse! {
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr
}

impl ValueReply<()> for ReplyEmpty {
    fn give(self, (): ()) {
        self.ok();
    }
}

impl ValueReply<FileAttr> for ReplyAttr {
    fn give(self, attributes: FileAttr) {
        self.attr(&kept_for(&attributes), &attributes);
    }
}

impl ValueReply<FileAttr> for ReplyEntry {
    fn give(self, attributes: FileAttr) {
        self.entry_with_ttls(&kept_for(&attributes), &KNOWN_TTL, &attributes, Generation(0));
    }
}

/// What was found, and for how long the kernel may keep its name at most; that nothing is there it remembers for a moment.
pub(crate) struct LookupReply(pub(crate) Option<FileAttr>, pub(crate) Duration);

impl ValueReply<LookupReply> for ReplyEntry {
    fn give(self, LookupReply(found, kept): LookupReply) {
        match found {
            Some(attributes) => {
                self.entry_with_ttls(&kept_for(&attributes), &kept.min(KNOWN_TTL), &attributes, Generation(0));
            }
            None => self.entry(&kept.min(ABSENT_TTL), &NOTHING, Generation(0)),
        }
    }
}

impl ValueReply<Bytes> for ReplyData {
    fn give(self, content: Bytes) {
        self.data(&content);
    }
}

impl ValueReply<(FileHandle, FopenFlags)> for ReplyOpen {
    fn give(self, (handle, flags): (FileHandle, FopenFlags)) {
        self.opened(handle, flags);
    }
}

impl ValueReply<(FileAttr, FileHandle, FopenFlags)> for ReplyCreate {
    fn give(self, (attributes, handle, flags): (FileAttr, FileHandle, FopenFlags)) {
        self.created(&KNOWN_TTL, &attributes, Generation(0), handle, flags);
    }
}

impl ValueReply<u32> for ReplyWrite {
    fn give(self, written: u32) {
        self.written(written);
    }
}

impl ValueReply<u64> for ReplyLseek {
    fn give(self, offset: u64) {
        // Every offset the kernel asked from is a number of its own kind.
        self.offset(offset.cast_signed());
    }
}

impl ValueReply<DiskSpace> for ReplyStatfs {
    fn give(self, disk: DiskSpace) {
        let DiskSpace { block_size, blocks, free, available, files, files_free } = disk;
        self.statfs(blocks, free, available, files, files_free, block_size, 255, block_size);
    }
}

/// The value, and the room the caller has for it; no room asks for the size.
impl ValueReply<(Vec<u8>, u32)> for ReplyXattr {
    fn give(self, (value, room): (Vec<u8>, u32)) {
        match u32::try_from(value.len()) {
            Ok(size) if room == 0 => self.size(size),
            Ok(size) if size <= room => self.data(&value),
            Ok(_) | Err(_) => self.error(Errno::ERANGE),
        }
    }
}
