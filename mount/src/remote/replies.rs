//! What is found, as the kernel is told of it, and for how long it may believe that.

use std::time::Duration;

use fuser::{Errno, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyEntry};
use svcfs_base::{Fault, Kind};

use super::tree::AttributeReply;
use crate::convert::NO_ENTRY;
use crate::reply::{RequestFailure, ValueReply};

/// How files are opened: past the kernel's pages, which all readers of a file share. What a program reads is then the version that it
/// opened, whole, and the one that it is held to when it saves; the content is in our memory anyway.
pub(super) const PAST_PAGES: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

/// Of a file the kernel named by number: gone since it looked the name up. Told so, the kernel looks again.
pub(super) fn missing_as_stale(fault: Fault) -> RequestFailure {
    if matches!(fault.kind(), Kind::NotFound | Kind::Stale) {
        RequestFailure::Errno(Errno::ESTALE)
    } else {
        RequestFailure::Fault(fault)
    }
}

impl ValueReply<AttributeReply> for ReplyAttr {
    fn send_value(self, told: AttributeReply) {
        self.attr(&told.lasts, &told.attributes);
    }
}

impl ValueReply<AttributeReply> for ReplyEntry {
    fn send_value(self, told: AttributeReply) {
        self.entry(&told.lasts, &told.attributes, Generation(0));
    }
}

/// None tells the kernel how long it may believe that nothing is there.
impl ValueReply<Result<AttributeReply, Duration>> for ReplyEntry {
    fn send_value(self, found: Result<AttributeReply, Duration>) {
        match found {
            Ok(told) => self.send_value(told),
            Err(lasts) => self.entry(&lasts, &NO_ENTRY, Generation(0)),
        }
    }
}

impl ValueReply<(AttributeReply, FileHandle)> for ReplyCreate {
    fn send_value(self, (told, handle): (AttributeReply, FileHandle)) {
        self.created(&told.lasts, &told.attributes, Generation(0), handle, PAST_PAGES);
    }
}
