//! Answers to changes that must not be made twice.
//!
//! A client whose connection broke asks again, by the same number. A file that it removed would be missing then, a name that it made taken.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use parking_lot::Mutex;

/// So many answers are remembered.
const MOST: usize = 2048;

/// What tells one question from others: who asked, by which number, and a hash of the question.
pub(crate) type Question = (IpAddr, u32, u64);

/// What is known of a question.
pub(crate) enum Heard {
    /// It is new, and to be answered by whoever asked for this.
    New,
    /// It is being answered.
    Now,
    /// It was answered so.
    Before(Vec<u8>),
}

#[derive(Default)]
struct Inner {
    answers: HashMap<Question, Option<Vec<u8>>>,
    order: VecDeque<Question>,
}

/// The newest answers.
#[derive(Default)]
pub(crate) struct Replies(Mutex<Inner>);

impl Replies {
    pub(crate) fn hear(&self, question: Question) -> Heard {
        let mut inner = self.0.lock();
        match inner.answers.get(&question) {
            Some(Some(answer)) => return Heard::Before(answer.clone()),
            Some(None) => return Heard::Now,
            None => {}
        }
        inner.answers.insert(question, None);
        inner.order.push_back(question);
        if inner.order.len() > MOST
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.answers.remove(&oldest);
        }
        Heard::New
    }

    pub(crate) fn answered(&self, question: Question, answer: &[u8]) {
        if let Some(kept) = self.0.lock().answers.get_mut(&question) {
            *kept = Some(answer.to_vec());
        }
    }
}
