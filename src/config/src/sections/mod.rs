//! One file per section of `.svc/config.toml`.
//!
//! A section that needs no validation is public and used in both forms.

pub(crate) mod agents;
pub(crate) mod assets;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod backup;
pub(crate) mod claims;
pub(crate) mod cors;
pub(crate) mod dataview;
pub(crate) mod drafts;
pub(crate) mod files;
pub(crate) mod janitor;
pub(crate) mod links;
pub(crate) mod lint;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod net;
pub(crate) mod nfs;
pub(crate) mod protocols;
pub(crate) mod publish;
pub(crate) mod render;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod server;
pub(crate) mod space;
pub(crate) mod tracing;
pub(crate) mod ui;
pub(crate) mod vector;
pub(crate) mod versioning;
pub(crate) mod webhooks;
pub(crate) mod workflow;

/// A length of time such as `30d` or `1h 30m`; days have 24 hours. None for other texts and
/// negative lengths.
pub(crate) fn parse_time(text: &str) -> Option<std::time::Duration> {
    let span: jiff::Span = text.trim().parse().ok()?;
    span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}
