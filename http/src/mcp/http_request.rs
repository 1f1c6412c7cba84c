//! What the handler of a message must know of the HTTP request that contained it.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
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

/// Whether a request is of version 2026-07-28 or later.
pub(super) fn is_new_version(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}
