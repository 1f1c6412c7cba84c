//! MCP, the protocol for agent tools, at `/mcp` and on stdio.
//!
//! Invariant: a tool is an operation. The tool list comes from the operation table and calls go
//! through the one dispatcher; here is only what the protocol itself needs. Only this folder uses
//! `rmcp`, because its API changes often.

mod answers;
mod coerce;
mod completion;
mod connections;
mod descriptions;
mod elicitation;
mod endpoint;
mod http_request;
mod job_tasks;
mod messages;
mod names;
mod next_call;
mod oversized;
mod profiles;
mod prompts;
mod repair;
mod requests;
mod resources;
mod schema;
mod stdio;
mod subscriptions;
mod tool_calls;
mod tool_search;
mod tools;

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use svcfs_base::{Caller, Fault, Kind, Protocol};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::audit::{self, RequestHead, RequestNotes};
use svcfs_knowledge::kernel::Space;

use crate::active_request;
use crate::app::{AppState, log};
use crate::bind::header;
use crate::reply;
use crate::routes::SPACE;
use crate::specials::VERSION;
pub use connections::{AgentConnections, DRAINED, StopReason};
use elicitation::ConfirmationKey;
pub(crate) use endpoint::{McpService, handle, service};
pub(crate) use profiles::is_endpoint;
pub use profiles::{ToolSelection, profile_names};
pub use stdio::next_line;
use subscriptions::ConnectionSubscriptions;
use tools::ToolList;

/// Path of the endpoint.
pub(crate) const PATH: &str = "/mcp";

/// The methods with params.
const METHODS: [&str; 16] = [
    "completion/complete",
    "initialize",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// Instructions that every agent gets at initialization.
pub(crate) const INSTRUCTIONS: &str = "A knowledge base: a tree of markdown pages with YAML frontmatter, each change a version in git. Paths are \
    relative, such as `notes/today.md`. Before writing, call svc_context or read the resource svc://schema: \
    they say which page belongs where. Ask questions with svc_recall (cited excerpts); find pages with svc_search (all words must occur) or svc_query_meta \
    (by frontmatter), look around with svc_tree; \
    svc_peek and svc_section show a part of a long page, svc_read all of it or some lines of it (offset and limit). \
    svc_write replaces a whole page: read it first, and give \
    the ETag you read as if_match, so that no other change is lost; svc_edit changes parts of it, svc_append adds to the end. Pages link to each other with \
    [[name]]; svc_rename rewrites the links that lead to a page. Give your name as actor: it becomes the author of the version. A failure ends with `Next call:`, a call that \
    succeeds when you send it unchanged; if it has a `confirm` token, ask your user first. svc_tool_search finds tools that your list does not have.";

/// The tool list as published in `http/tools.json`; ends with a newline.
pub fn tools() -> String {
    format!("{:#}\n", json!(ToolList::of(CATALOGUE).all()))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The MCP server.
#[derive(Clone)]
pub(crate) struct McpHandler {
    app: Arc<AppState>,
    tools: Arc<ToolList>,
    /// Space of a local client; none is the first one.
    space: Option<String>,
    /// The tools that a local client has chosen.
    selection: ToolSelection,
    /// Subscriptions of the connection, over stdio.
    subscriptions: Arc<ConnectionSubscriptions>,
    confirmations: Arc<ConfirmationKey>,
}

impl McpHandler {
    fn new(app: Arc<AppState>) -> Self {
        let tools = Arc::new(ToolList::of(app.catalogue));
        Self {
            app,
            tools,
            space: None,
            selection: ToolSelection::default(),
            subscriptions: Arc::default(),
            confirmations: Arc::default(),
        }
    }

    /// Who sent a request. A local client (see [`AgentConnections`]) has all permissions.
    fn identity(&self, context: &RequestContext<RoleServer>) -> Result<CallerIdentity, Fault> {
        let Some(parts) = context.extensions.get::<http::request::Parts>() else {
            return Ok(CallerIdentity::UNRESTRICTED);
        };
        let identity = parts.extensions.get::<CallerIdentity>().cloned();
        identity.ok_or_else(|| Fault::new(Kind::Unauthenticated, "this request was not authenticated"))
    }

    /// The caller of a request and its space: that of `X-Svc-Space`, or the primary one.
    fn authenticate(
        &self,
        context: &RequestContext<RoleServer>,
        notes: &RequestNotes,
    ) -> Result<(CallerIdentity, Arc<Space>), Fault> {
        let identity = self.identity(context)?;
        let space = match context.extensions.get::<http::request::Parts>() {
            Some(parts) => self.app.enter_space(&identity, header(&parts.headers, SPACE)?.as_deref())?,
            None => self.app.space(self.space.as_deref())?,
        };
        notes.set_space(&space);
        Ok((identity, space))
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> InitializeResult {
        InitializeResult::new(requests::capabilities())
            .with_server_info(Implementation::new("svcfs", VERSION))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.listed_tools(&context)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.run_tool(request, context).await
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.initialize_connection(request, &context)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(request, &context).await.map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let caller = self.caller_of(&context)?;
        completion::complete(self, caller, request).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(subscriptions::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        subscriptions::listen(self, &context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        requests::check_stream("resources/subscribe", &context)?;
        self.subscriptions.add(self, (&request.uri, &context))
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        requests::check_stream("resources/unsubscribe", &context)?;
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.find_task(&request.task_id, self.caller_of(&context)?).await
    }

    /// Tasks ask nothing: there is no question to answer.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.find_task(&request.task_id, self.caller_of(&context)?).await.map(drop)
    }

    /// What has begun is completed: a change is never left half done.
    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.find_task(&request.task_id, self.caller_of(&context)?).await.map(drop)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::static_resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::resource_templates()))
    }

    /// Called for unknown methods, and for known ones whose params `rmcp` could not parse.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = svcfs_base::escape_unprintable(&request.method);
        if METHODS.contains(&request.method.as_str()) && !requests::is_removed(&request.method, &context) {
            let message = format!("the params of `{method}` are missing or invalid");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let audit_target = AuditTarget::of(&self.app, &context, ("resources/read", &request.uri));
        resources::file_path(&request.uri).iter().for_each(|file| audit_target.notes().set_file(file));
        let outcome = match self.authenticate(&context, audit_target.notes()) {
            Ok((identity, space)) => {
                resources::read(&self.app, space, (&request.uri, identity.apply_to(Caller::new(Protocol::Mcp)))).await
            }
            Err(fault) => Err(fault),
        };
        audit_target.end(outcome.as_ref().err());
        outcome.map(Into::into).map_err(|fault| {
            let id = active_request::new_id();
            log(&fault, &request.uri, &id);
            if reply::is_generic(fault.kind()) {
                ErrorData::internal_error(reply::generic(&id), None)
            } else if fault.kind() == Kind::NotFound {
                ErrorData::resource_not_found(fault.message().to_owned(), Some(json!({ "uri": request.uri })))
            } else {
                ErrorData::invalid_params(fault.message().to_owned(), None)
            }
        })
    }
}

/// Where the outcome of a message is recorded.
enum AuditTarget {
    /// In the HTTP request that contained it.
    HttpRequest(RequestNotes),
    /// In a record of its own: it came over stdio.
    Standalone(audit::TrackedRequest),
}

impl AuditTarget {
    fn of(app: &AppState, context: &RequestContext<RoleServer>, (method, path): (&str, &str)) -> Self {
        let notes_of_request = || context.extensions.get::<http::request::Parts>()?.extensions.get::<RequestNotes>();
        notes_of_request().cloned().map_or_else(
            || {
                let (method, path) = (method.to_owned(), path.to_owned());
                let head =
                    RequestHead { protocol: Protocol::Mcp, method, path, query: String::new(), peer: None, id: None };
                Self::Standalone(audit::TrackedRequest::start(&app.server, head))
            },
            Self::HttpRequest,
        )
    }

    fn notes(&self) -> &RequestNotes {
        match self {
            Self::HttpRequest(notes) => notes,
            Self::Standalone(request) => request.notes(),
        }
    }

    /// Records success, or the fault.
    fn end(self, fault: Option<&Fault>) {
        let status = fault.map_or(200, |fault| fault.kind().http());
        match self {
            Self::HttpRequest(notes) => notes.set_status(status),
            Self::Standalone(request) => request.finish(status),
        }
    }
}
