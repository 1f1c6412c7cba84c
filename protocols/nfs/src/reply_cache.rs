//! Duplicate request cache: replies to calls that must not be executed twice.
//!
//! A client whose connection broke retransmits with the same id. A second REMOVE would fail with
//! NOENT, a second CREATE with EXIST.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum number of cached replies.
const MOST: usize = 2048;
/// How long a reply is valid. The same id later is another call: ids restart with the client
/// program.
const KEPT: Duration = Duration::from_secs(120);

/// Identifies a call: client address, id, and a hash of the message.
pub(crate) type RequestKey = (IpAddr, u32, u64);

/// Result of a lookup.
pub(crate) enum ReplyLookup<'a> {
    /// Not seen before; the caller executes it.
    New(PendingReply<'a>),
    Now,
    /// The reply sent before.
    Before(Vec<u8>),
}

/// A call in progress. If it is dropped without a reply (a panic), a retransmission counts as new.
pub(crate) struct PendingReply<'a> {
    replies: &'a ReplyCache,
    question: RequestKey,
}

impl PendingReply<'_> {
    pub(crate) fn answered(self, answer: &[u8]) {
        if let Some(kept) = self.replies.0.lock().answers.get_mut(&self.question) {
            *kept = Some((Instant::now(), answer.to_vec()));
        }
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        let mut inner = self.replies.0.lock();
        if inner.answers.get(&self.question).is_some_and(Option::is_none) {
            inner.answers.remove(&self.question);
            inner.order.retain(|question| *question != self.question);
        }
    }
}

#[derive(Default)]
struct ReplyTable {
    answers: HashMap<RequestKey, Option<(Instant, Vec<u8>)>>,
    order: VecDeque<RequestKey>,
}

#[derive(Default)]
pub(crate) struct ReplyCache(Mutex<ReplyTable>);

impl ReplyCache {
    pub(crate) fn hear(&self, question: RequestKey) -> ReplyLookup<'_> {
        self.hear_at(question, Instant::now())
    }

    fn hear_at(&self, question: RequestKey, now: Instant) -> ReplyLookup<'_> {
        let mut inner = self.0.lock();
        match inner.answers.get(&question) {
            Some(Some((then, answer))) if now < *then + KEPT => return ReplyLookup::Before(answer.clone()),
            Some(Some(_)) => inner.order.retain(|known| *known != question),
            Some(None) => return ReplyLookup::Now,
            None => {}
        }
        inner.answers.insert(question, None);
        inner.order.push_back(question);
        if inner.order.len() > MOST
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.answers.remove(&oldest);
        }
        ReplyLookup::New(PendingReply { replies: self, question })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_question_is_answered_once_and_asked_anew_when_answering_it_went_wrong() {
        let replies = ReplyCache::default();
        let question = (IpAddr::from(Ipv4Addr::LOCALHOST), 1, 2);
        let ReplyLookup::New(asking) = replies.hear(question) else { panic!("it is new") };
        assert!(matches!(replies.hear(question), ReplyLookup::Now));
        drop(asking);
        let ReplyLookup::New(asking) = replies.hear(question) else { panic!("nobody answers it") };
        asking.answered(b"yes");
        assert!(matches!(replies.hear(question), ReplyLookup::Before(answer) if answer == b"yes"));
        let ReplyLookup::New(asking) = replies.hear_at(question, Instant::now() + KEPT) else {
            panic!("it is another one")
        };
        asking.answered(b"no");
        assert!(matches!(replies.hear(question), ReplyLookup::Before(answer) if answer == b"no"));
        assert_eq!(replies.0.lock().order.len(), 1);
    }
}
