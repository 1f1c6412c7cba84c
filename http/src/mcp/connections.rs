//! MCP connections of programs on this machine: one JSON message per line, over standard input and
//! output, or over the control socket of the process that has the root.
//!
//! Invariant: a connection that stops answers every message that it has read, and then says so with
//! [`DRAINED`]. A client that reads this line can send everything that is unanswered elsewhere,
//! because none of it was executed.

use std::sync::{Arc, OnceLock};

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use serde_json::{Value, json};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::ServerState;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::stdio::StdioTransport;
use super::{McpHandler, ToolSelection};
use crate::HttpError;
use crate::app::AppState;

/// Method of the last line of a connection that answered everything it has read. Its parameter
/// `handover` says whether a server takes the root over.
pub const DRAINED: &str = "notifications/svcfs/drained";

/// Why connections are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The process ends.
    Ended,
    /// A server takes the root over.
    HandedOver,
}

/// A stop of all connections.
#[derive(Clone, Default)]
pub(super) struct ConnectionStop {
    pub token: CancellationToken,
    reason: Arc<OnceLock<StopReason>>,
}

impl ConnectionStop {
    /// The last line.
    pub(super) fn drained_line(&self) -> Value {
        let handover = self.reason.get() == Some(&StopReason::HandedOver);
        json!({ "jsonrpc": "2.0", "method": DRAINED, "params": { "handover": handover } })
    }
}

/// Serves agents whose processes run as the user of this one, or as root: they have all
/// permissions.
#[derive(Clone)]
pub struct AgentConnections {
    handler: McpHandler,
    stop: ConnectionStop,
}

impl AgentConnections {
    /// For the spaces of `server`.
    ///
    /// # Errors
    /// [`HttpError::Routes`] when two operations have the same route.
    pub fn new(server: Arc<ServerState>) -> Result<Self, HttpError> {
        let stop = CancellationToken::new();
        Ok(Self::of(AppState::new(CATALOGUE, server, stop.clone())?, stop))
    }

    pub(crate) fn of(app: Arc<AppState>, stop: CancellationToken) -> Self {
        let stop = ConnectionStop { token: stop, reason: Arc::default() };
        Self { handler: McpHandler::new(app), stop }
    }

    /// The same for a client that has chosen its tools.
    #[must_use]
    pub fn with_tools(&self, selection: ToolSelection) -> Self {
        let handler = McpHandler { selection, ..self.handler.clone() };
        Self { handler, stop: self.stop.clone() }
    }

    /// Whether there is a space of this name; none is the first space.
    pub fn has_space(&self, space: Option<&str>) -> bool {
        self.handler.app.space(space).is_ok()
    }

    /// Serves one connection, in a space other than the first if it is named, until the client
    /// closes it or all connections stop. Messages that were read are answered before it ends.
    ///
    /// # Errors
    /// [`HttpError::Stdio`] when the connection fails.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        space: Option<String>,
    ) -> Result<(), HttpError> {
        let handler = McpHandler { space, subscriptions: Arc::default(), ..self.handler.clone() };
        let failure = |error: Box<dyn std::error::Error + Send + Sync>| HttpError::Stdio(error);
        let transport = StdioTransport::new(input, output, self.stop.clone());
        let closer = transport.closer();
        let connection = match handler.serve(transport).await {
            // Closed or stopped before the first message.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                closer.close().await;
                return Ok(());
            }
            outcome => outcome.map_err(|error| failure(error.into()))?,
        };
        drop(closer);
        connection.waiting().await.map_err(|error| failure(error.into()))?;
        Ok(())
    }

    /// Lets all connections finish what they have read, and end.
    pub fn stop(&self, reason: StopReason) {
        // The first reason counts.
        let _is_first = self.stop.reason.set(reason);
        self.stop.token.cancel();
    }
}
