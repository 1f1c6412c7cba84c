//! Duplicate request cache: replies to calls that must not be executed twice.
//!
//! A client whose connection broke retransmits with the same id. A second REMOVE would fail with
//! NOENT, a second CREATE with EXIST.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

const MAX_REPLIES: usize = 2048;
/// How long a reply is valid. The same id later is another call: ids restart with the client
/// program.
const REPLY_TTL: Duration = Duration::from_secs(120);

/// Identifies a call: client address, id, and a hash of the message.
pub(crate) type RequestKey = (IpAddr, u32, u64);

pub(crate) enum ReplyLookup<'a> {
    /// Not seen before; the caller executes it.
    New(PendingReply<'a>),
    InProgress,
    Cached(Vec<u8>),
}

/// A call in progress. If it is dropped without a reply (a panic), a retransmission counts as new.
pub(crate) struct PendingReply<'a> {
    replies: &'a ReplyCache,
    key: RequestKey,
}

impl PendingReply<'_> {
    pub(crate) fn complete(self, reply: &[u8]) {
        if let Some(slot) = self.replies.0.lock().replies.get_mut(&self.key) {
            *slot = Some((Instant::now(), reply.to_vec()));
        }
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        let mut inner = self.replies.0.lock();
        if inner.replies.get(&self.key).is_some_and(Option::is_none) {
            inner.replies.remove(&self.key);
            inner.order.retain(|key| *key != self.key);
        }
    }
}

#[derive(Default)]
struct ReplyTable {
    replies: HashMap<RequestKey, Option<(Instant, Vec<u8>)>>,
    order: VecDeque<RequestKey>,
}

#[derive(Default)]
pub(crate) struct ReplyCache(Mutex<ReplyTable>);

impl ReplyCache {
    pub(crate) fn lookup(&self, key: RequestKey) -> ReplyLookup<'_> {
        self.lookup_at(key, Instant::now())
    }

    fn lookup_at(&self, key: RequestKey, now: Instant) -> ReplyLookup<'_> {
        let mut inner = self.0.lock();
        match inner.replies.get(&key) {
            Some(Some((stored_at, reply))) if now < *stored_at + REPLY_TTL => {
                return ReplyLookup::Cached(reply.clone());
            }
            Some(Some(_)) => inner.order.retain(|cached| *cached != key),
            Some(None) => return ReplyLookup::InProgress,
            None => {}
        }
        inner.replies.insert(key, None);
        inner.order.push_back(key);
        if inner.order.len() > MAX_REPLIES
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.replies.remove(&oldest);
        }
        ReplyLookup::New(PendingReply { replies: self, key })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_request_is_answered_once_and_retried_after_a_failure() {
        let replies = ReplyCache::default();
        let key = (IpAddr::from(Ipv4Addr::LOCALHOST), 1, 2);
        let ReplyLookup::New(pending) = replies.lookup(key) else { panic!("it is new") };
        assert!(matches!(replies.lookup(key), ReplyLookup::InProgress));
        drop(pending);
        let ReplyLookup::New(pending) = replies.lookup(key) else { panic!("nobody answers it") };
        pending.complete(b"yes");
        assert!(matches!(replies.lookup(key), ReplyLookup::Cached(reply) if reply == b"yes"));
        let ReplyLookup::New(pending) = replies.lookup_at(key, Instant::now() + REPLY_TTL) else {
            panic!("it is another one")
        };
        pending.complete(b"no");
        assert!(matches!(replies.lookup(key), ReplyLookup::Cached(reply) if reply == b"no"));
        assert_eq!(replies.0.lock().order.len(), 1);
    }
}
