//! What the handler of a message must know of the HTTP request that contained it.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use svcfs_base::{Scope, Seq};
use svcfs_knowledge::audit::RequestNotes;

/// Facts about an HTTP request; [`endpoint`](super::endpoint) adds them to it.
#[derive(Debug, Clone)]
pub(super) struct McpHttpRequest {
    /// Address of the client.
    pub peer: IpAddr,
    /// Whether the client reads event streams, so that notifications may precede the response.
    pub accepts_events: bool,
    /// The position of the feed when the request arrived: a subscription begins there, because its
    /// client may change something as soon as it reads the acknowledgement.
    pub position: Option<Seq>,
    /// The scope that the token of the caller lacks for what it requested.
    pub missing_scope: Arc<OnceLock<Scope>>,
}

impl McpHttpRequest {
    /// That of a message; none for a message over stdio.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<&Self> {
        context.extensions.get::<http::request::Parts>()?.extensions.get()
    }
}

/// The notes of the HTTP request; those of a message over stdio are not recorded.
pub(super) fn notes_of(context: &RequestContext<RoleServer>) -> RequestNotes {
    let notes = context.extensions.get::<http::request::Parts>().and_then(|parts| parts.extensions.get());
    notes.cloned().unwrap_or_default()
}
