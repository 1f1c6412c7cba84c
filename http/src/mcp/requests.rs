//! Requests besides calls of tools: their callers and errors.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResult, InitializeRequestParams, InitializeResult, ServerCapabilities,
};
use rmcp::service::RequestContext;
use svcfs_base::{Fault, Kind};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::Space;

use super::http_request::{McpHttpRequest, is_new_version, notes_of};
use super::{AuditTarget, McpHandler, prompts, subscriptions};
use crate::app::log;
use crate::{active_request, reply};

/// What the server offers in version 2026-07-28.
pub(super) fn capabilities() -> ServerCapabilities {
    ServerCapabilities::builder()
        .enable_tools()
        .enable_prompts()
        .enable_completions()
        .enable_resources()
        .enable_resources_list_changed()
        .enable_resources_subscribe()
        .enable_tasks()
        .build()
}

/// Methods that version 2026-07-28 does not have any more.
const REMOVED_METHODS: [&str; 3] = ["initialize", "resources/subscribe", "resources/unsubscribe"];

/// Whether the version of a request has removed a method.
pub(super) fn is_removed(method: &str, context: &RequestContext<RoleServer>) -> bool {
    is_new_version(context) && REMOVED_METHODS.contains(&method)
}

/// Checks that there is a connection on which the server can send messages. Errors: over HTTP.
pub(super) fn check_stream(method: &str, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    McpHttpRequest::of(context).map_or(Ok(()), |_| Err(subscriptions::needs_stream(method)))
}

impl McpHandler {
    /// The handshake of the versions of 2025. Over HTTP these have no stream for notifications
    /// without sessions; over stdio there are subscriptions to single resources.
    pub(super) fn initialize_connection(
        &self,
        request: InitializeRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request);
        if let Some(resources) = &mut result.capabilities.resources {
            resources.list_changed = None;
            resources.subscribe = resources.subscribe.filter(|_| McpHttpRequest::of(context).is_none());
        }
        Ok(result)
    }

    /// The caller of a request and its space.
    pub(super) fn caller_of(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<(CallerIdentity, Arc<Space>), ErrorData> {
        self.authenticate(context, &notes_of(context)).map_err(|fault| to_error(&fault, "the request"))
    }

    /// Makes a prompt.
    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResult, ErrorData> {
        let audit_target = AuditTarget::of(&self.app, context, ("prompts/get", &request.name));
        let name = request.name.clone();
        let outcome = match self.authenticate(context, audit_target.notes()) {
            Ok(caller) => prompts::get(self, caller, request).await,
            Err(fault) => Err(fault),
        };
        audit_target.end(outcome.as_ref().err());
        outcome.map_err(|fault| to_error(&fault, &name))
    }
}

/// A fault as an error of the protocol.
pub(super) fn to_error(fault: &Fault, what: &str) -> ErrorData {
    let id = active_request::new_id();
    log(fault, what, &id);
    if reply::is_generic(fault.kind()) {
        return ErrorData::internal_error(reply::generic(&id), None);
    }
    match fault.kind() {
        Kind::Unavailable => ErrorData::internal_error(fault.message().to_owned(), None),
        _ => ErrorData::invalid_params(fault.message().to_owned(), None),
    }
}
