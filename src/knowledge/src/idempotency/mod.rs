//! Requests that a client may send again without doing them twice.
//!
//! Invariant: a change and the mark of its request are one record of the log, so a crash leaves
//! both or none. The answer is stored when the change is done. A repeat gets that answer; if it was
//! lost, because the server was stopped before it was stored, the repeat is answered from the log.
//! A refused request leaves nothing, so that it can be corrected and sent again; so does a dry run,
//! after which the change has the same id.

mod answer;
mod content;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use svcfs_base::{Caller, ClientRequest, Fault, Kind, RequestKey, RequestMark, Timestamp};
use svcfs_store::{AnswerFile, StatePaths, StoreError, StoredAnswer};

use crate::kernel::{
    DRY_RUN_KEY, OperationContext, OperationEntry, OperationHandler, ResponseMeta, ServerState, Space,
};
pub use answer::RepeatableAnswer;

/// For how long a request can be repeated.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// A longer answer is not stored: a repeat is answered from the log.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Number of failed requests that are remembered.
const MAX_UNSETTLED: usize = 10_000;

/// The stored answers of a space. The file is opened for the first request that has an id.
pub struct RequestAnswers {
    path: PathBuf,
    file: Mutex<Option<Arc<AnswerFile>>>,
    /// Requests that failed although their change may still be made, as with a stalled disk.
    unsettled: Mutex<HashSet<[u8; 16]>>,
}

impl RequestAnswers {
    /// The answers of a root.
    pub(crate) fn new(root: &Path) -> Self {
        let (file, unsettled) = Default::default();
        Self { path: StatePaths::new(root).request_answers(), file, unsettled }
    }

    /// Remembers a failure of the server. With too many of them, the oldest knowledge is given up.
    fn mark_unsettled(&self, id: [u8; 16]) {
        let mut unsettled = self.unsettled.lock();
        if unsettled.len() >= MAX_UNSETTLED {
            unsettled.clear();
        }
        unsettled.insert(id);
    }

    fn open(&self) -> Result<Arc<AnswerFile>, Fault> {
        let mut file = self.file.lock();
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let opened = Arc::new(AnswerFile::open(&self.path).map_err(unreadable)?);
        *file = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

/// The hash of a request id and of who sent it.
pub fn request_id(caller: &Caller, key: &RequestKey) -> [u8; 16] {
    let mut hasher = Sha256::new();
    let credentials = caller.client.key.unwrap_or_default().to_be_bytes();
    let actor = caller.actor();
    for part in [caller.protocol.name().as_bytes(), &credentials, actor.as_str().as_bytes(), key.as_str().as_bytes()] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    content::first_half(hasher)
}

/// Runs a writing operation for a request with this [`request_id`], or returns the answer to the
/// earlier request. The caller of this function lets no other request with the id run meanwhile.
///
/// # Errors
/// Those of the operation; `Rejected` when the id was used for another request; `Conflict` when the
/// request was done and its answer is lost; `Unavailable` when the answers cannot be read.
pub fn run_once<T: RepeatableAnswer>(
    (server, space): (&ServerState, &Space),
    (entry, handler): (&OperationEntry, OperationHandler<T>),
    (id, caller): ([u8; 16], Caller),
    arguments: Value,
) -> Result<(T, ResponseMeta), Fault> {
    if arguments.get(DRY_RUN_KEY) == Some(&Value::Bool(true)) {
        // It changes nothing and uses up no id: the change itself may be sent with the same one.
        let cx = OperationContext::new(server, space, &caller);
        let output = handler(arguments, &cx)?;
        let meta = cx.response_meta();
        return Ok((output, meta));
    }
    let mark = RequestMark { id, content: content::hash(entry.name, &caller, &arguments) };
    let now = server.now();
    let expired = now.checked_sub(LIFETIME).unwrap_or(Timestamp::MIN);
    let answers = space.request_answers.open()?;
    if let Some(stored) = answers.find(&id, expired).map_err(unreadable)? {
        check_same(stored.mark, mark)?;
        return answer::parse(&stored.answer);
    }
    if space.request_answers.unsettled.lock().contains(&id) {
        // Its change is accepted, and not in the log yet.
        space.vfs.wait_applied()?;
        space.request_answers.unsettled.lock().remove(&id);
    }
    let sets = space.vfs.sets_of_request(&id, expired)?;
    if let Some(first) = sets.first() {
        check_same(first.mark, mark)?;
        return answer::recover(entry, &arguments, &sets);
    }
    let request =
        caller.request.as_ref().map(|request| ClientRequest { mark: Some(mark), ..ClientRequest::clone(request) });
    let caller = Caller { request: request.map(Arc::new), ..caller };
    let cx = OperationContext::new(server, space, &caller);
    let output = handler(arguments, &cx).inspect_err(|fault| {
        if fault.kind().http() >= 500 {
            space.request_answers.mark_unsettled(id);
        }
    })?;
    let meta = cx.response_meta();
    let (parts, text) = answer::serialize(output, &meta)?;
    let is_dry_run = parts.output.get(DRY_RUN_KEY).is_some_and(|shown| *shown != Value::Bool(false));
    if text.len() <= MAX_ANSWER_BYTES && !is_dry_run {
        let stored = StoredAnswer { mark, time: now, answer: text };
        if let Err(error) = answers.put(&stored, expired) {
            // The change is done: refusing now would be wrong, and a repeat finds it in the log.
            tracing::warn!(space = space.name, %error, "the answer to a request with an id could not be stored");
        }
    }
    Ok((T::from_parts(parts), meta))
}

fn check_same(earlier: RequestMark, mark: RequestMark) -> Result<(), Fault> {
    if earlier.content == mark.content {
        return Ok(());
    }
    let message = "this request id was used for another request in the last 24 h (other arguments, or another \
                   operation); use a new id for a new request";
    Err(Fault::new(Kind::Rejected, message))
}

fn unreadable(error: StoreError) -> Fault {
    Fault::unavailable(
        "the answers to earlier requests cannot be read, so it is not known whether this one is a repeat",
    )
    .with_source(error)
}
