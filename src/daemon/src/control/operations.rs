//! Operations for `svcfs call` and its relatives, when the process that has the root answers over
//! no port.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{Caller, Fault};
use svcfs_knowledge::kernel::ServerState;

use super::{error, json};
use crate::manual;
use crate::root::{self, cli_caller};

/// An operation to run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationRequest {
    /// Its name.
    pub operation: String,
    /// Its inputs.
    pub arguments: Map<String, Value>,
    /// Author of the commit.
    pub actor: Option<String>,
    /// Required ETag of the page.
    pub if_match: Option<String>,
    /// The space; none for the first.
    pub space: Option<String>,
}

/// The output of an operation.
#[derive(Debug, Serialize, Deserialize)]
pub struct OperationResponse {
    /// The exact output.
    pub output: Value,
    /// Lines for standard error.
    pub notes: Vec<String>,
}

/// Runs an operation as a command does that opens the root itself.
pub(super) async fn run(body: &[u8], server: Arc<ServerState>) -> Result<Response<Full<Bytes>>, http::Error> {
    let request: OperationRequest = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(cause) => return error(StatusCode::BAD_REQUEST, &format!("invalid request: {cause}")),
    };
    let entry = match manual::find(&request.operation) {
        Ok(entry) => entry,
        Err(failure) => return error(StatusCode::NOT_FOUND, failure.message(false).trim_start_matches("svcfs: ")),
    };
    let work = move || -> Result<OperationResponse, Fault> {
        let OperationRequest { operation: _, arguments, actor, if_match, space } = request;
        let precondition = if_match.as_deref().map(root::expectation).transpose()?.unwrap_or_default();
        let caller = Caller { precondition, ..cli_caller(actor.as_deref()) };
        let space = space.map_or_else(|| Ok(Arc::clone(server.primary())), |name| server.spaces().find(&name))?;
        let (output, notes) = root::run_operation((&server, &space), (entry, &caller), arguments)?;
        Ok(OperationResponse { output, notes })
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(response)) => json(StatusCode::OK, &response),
        Ok(Err(fault)) => {
            let status = StatusCode::from_u16(fault.kind().http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut body = fault.detail().clone();
            body.insert("error".to_owned(), fault.message().into());
            json(status, &body)
        }
        Err(cause) => error(StatusCode::INTERNAL_SERVER_ERROR, &cause.to_string()),
    }
}
