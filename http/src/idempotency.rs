//! Requests with an id (`Idempotency-Key`, `request_id`): one at a time, and each once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use svcfs_base::{Caller, Fault, Kind};
use svcfs_knowledge::access::RETRY_AFTER_KEY;
use svcfs_knowledge::idempotency::{self, RepeatableAnswer};
use svcfs_knowledge::kernel::{OperationEntry, OperationHandler, ResponseMeta, Space};

use crate::app::AppState;

/// How long a repeat waits for the request that is in flight.
const MAX_WAIT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });

/// When a repeat may be tried that found the request still in flight.
const RETRY_AFTER: Duration = Duration::from_secs(2);

impl AppState {
    /// As [`AppState::run_operation`]. A write whose caller gave an id is done once: a repeat waits
    /// for the first one and gets its answer. A dry run does not use up the id. Errors: `Rejected`
    /// when the id was used for another request; `Conflict` when the first one takes too long.
    pub(crate) async fn run_once<T: RepeatableAnswer + Send + 'static>(
        &self,
        (entry, handler): (&'static OperationEntry, OperationHandler<T>),
        space: Arc<Space>,
        caller: Caller,
        arguments: Value,
    ) -> Result<(T, ResponseMeta), Fault> {
        let id = match &caller.request {
            Some(request) if !entry.is_read_only() => idempotency::request_id(&caller, &request.key),
            Some(_) | None => return self.run_operation((entry, handler), space, caller, arguments).await,
        };
        let turn = self.requests_in_flight.wait_turn((space.name.clone(), id));
        let turn = tokio::time::timeout(MAX_WAIT, turn).await.map_err(|_| {
            let message = "the first request with this id is still in progress; send it again later";
            Fault::new(Kind::Conflict, message).with_detail(RETRY_AFTER_KEY, RETRY_AFTER.as_secs())
        })?;
        let server = Arc::clone(&self.server);
        let work = move || {
            // The turn ends with the work, not with the connection of the client.
            let _turn = turn;
            idempotency::run_once((&server, &space), (entry, handler), (id, caller), arguments)
        };
        self.blocking(entry.lane, work).await
    }
}
