//! Replies with the TTL of the remote mount.

use std::time::Duration;

use fuser::{Errno, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyEntry};
use svcfs_base::{Fault, Kind};

use super::tree::AttributeReply;
use crate::convert::NO_ENTRY;
use crate::reply::{RequestFailure, ValueReply};

/// Files bypass the page cache, which all readers of a file share. A program then reads the
/// complete version it opened, on which its save is based. The content is in memory here anyway.
pub(super) const DIRECT_IO: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

/// Maps a missing file to `ESTALE` for requests by inode: the kernel then looks the name up again.
pub(super) fn or_stale(fault: Fault) -> RequestFailure {
    if matches!(fault.kind(), Kind::NotFound | Kind::Stale) {
        RequestFailure::Errno(Errno::ESTALE)
    } else {
        RequestFailure::Fault(fault)
    }
}

impl ValueReply<AttributeReply> for ReplyAttr {
    fn send_value(self, reply: AttributeReply) {
        self.attr(&reply.ttl, &reply.attributes);
    }
}

impl ValueReply<AttributeReply> for ReplyEntry {
    fn send_value(self, reply: AttributeReply) {
        self.entry(&reply.ttl, &reply.attributes, Generation(0));
    }
}

/// `Err` is how long the kernel may cache that the name does not exist.
impl ValueReply<Result<AttributeReply, Duration>> for ReplyEntry {
    fn send_value(self, entry: Result<AttributeReply, Duration>) {
        match entry {
            Ok(reply) => self.send_value(reply),
            Err(ttl) => self.entry(&ttl, &NO_ENTRY, Generation(0)),
        }
    }
}

impl ValueReply<(AttributeReply, FileHandle)> for ReplyCreate {
    fn send_value(self, (reply, handle): (AttributeReply, FileHandle)) {
        self.created(&reply.ttl, &reply.attributes, Generation(0), handle, DIRECT_IO);
    }
}
