//! The HTTP server: REST, MCP, event stream and documentation, all derived from the operation
//! table.
//!
//! Invariant: this crate only translates. `svcfs-knowledge` defines the operations; here a request
//! becomes an operation's input, and its output or fault becomes a response.
#![warn(missing_docs)]

pub mod access;
mod active_request;
mod app;
mod bind;
mod hosts;
mod idempotency;
mod listener;
pub mod mcp;
mod media;
mod oauth;
pub mod openapi;
mod reply;
mod request_handler;
mod response_budget;
mod routes;
mod schema_patterns;
mod single_flight;
mod specials;
#[cfg(test)]
mod tests;

pub use listener::serve;
pub use mcp::{AgentConnections, DRAINED, StopReason, ToolSelection, next_line, profile_names};
pub use specials::{RoutePrefix, SPECIAL_ROUTES, SpecialRoute};

/// Why the HTTP or MCP server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Two operations have the same route.
    #[error("two operations have the same route: {0}")]
    Routes(#[from] matchit::InsertError),
    /// The MCP connection over stdio failed.
    #[error("MCP over stdio failed: {0}")]
    Stdio(#[source] Box<dyn std::error::Error + Send + Sync>),
}
