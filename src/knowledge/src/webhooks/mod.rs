//! Webhooks: notifications of other servers about changes.
//!
//! Invariant: each event is delivered at least once, or given up after its retries; the events of a
//! page arrive in their order. A webhook has its own position in the change feed, which is stored
//! together with the notifications up to it. When too many of them wait, it reads no further: the
//! feed is durable, so nothing is dropped and memory stays bounded.

mod dispatcher;
mod events;
mod hook;
mod operations;
mod outcome;
mod registry;
mod schedule;
mod signature;
#[cfg(test)]
mod tests;
mod workers;

pub use dispatcher::WebhookDispatcher;
pub use operations::AREA;
pub use registry::{WebhookCounts, Webhooks};
