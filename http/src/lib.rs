//! The HTTP door: REST, agent tools, event stream, documentation; all of them loops over the operation table.
//!
//! One rule: this crate translates and decides nothing. What an operation is and does stands in `svcfs-knowledge`; here a
//! request becomes its input and its output or fault becomes an answer.
#![warn(missing_docs)]

pub mod access;
mod active_request;
mod app;
mod bind;
mod hosts;
mod listener;
pub mod mcp;
mod media;
pub mod openapi;
mod reply;
mod request_handler;
mod response_budget;
mod routes;
mod schema_patterns;
mod specials;
#[cfg(test)]
mod tests;

pub use listener::serve;
pub use mcp::serve_stdio;
pub use specials::{RoutePrefix, SPECIAL_ROUTES, SpecialRoute};

/// Why a door could not be opened or kept open.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Two routes of the catalogue cannot be told apart.
    #[error("the route table is contradictory: {0}")]
    Routes(#[from] matchit::InsertError),
    /// The conversation with an agent on standard input and output broke off.
    #[error("the agent protocol on standard input and output failed: {0}")]
    Stdio(#[source] Box<dyn std::error::Error + Send + Sync>),
}
