//! MCP, the protocol for agent tools, at `/mcp` and on stdio.
//!
//! Invariant: a tool is an operation. The tool list comes from the operation table and calls go
//! through the one dispatcher; here is only what the protocol itself needs. Only this folder uses
//! `rmcp`, because its API changes often.

mod connections;
mod endpoint;
mod messages;
mod resources;
mod schema;
mod stdio;
mod tools;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
    Implementation, InitializeResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ResourceContents, ServerCapabilities,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use svcfs_base::{Caller, Fault, Kind, McpError, Protocol, TreePath};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::audit::{self, RequestHead, RequestNotes};
use svcfs_knowledge::kernel::{OperationAnswer, Space};

use crate::active_request;
use crate::app::{AppState, log};
use crate::bind::{from_arguments, header};
use crate::routes::SPACE;
use crate::specials::VERSION;
use crate::{media, reply};
pub use connections::{AgentConnections, DRAINED, StopReason};
pub(crate) use endpoint::{McpService, handle, service};
pub use stdio::next_line;
use tools::{ToolEntry, ToolList};

/// Path of the endpoint.
pub(crate) const PATH: &str = "/mcp";

/// The methods with params.
const METHODS: [&str; 6] =
    ["initialize", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"];

/// Member of a request's `_meta` with which the svcfs command line requests the unchanged output.
const RAW_OUTPUT_FLAG: &str = "svcfs/structure";

/// Instructions that every agent gets at initialization.
pub(crate) const INSTRUCTIONS: &str = "A knowledge base: a tree of markdown pages with YAML frontmatter, each change a version in git. Paths are \
    relative, such as `notes/today.md`. Before writing, read the resource svc://schema: it says which page \
    belongs where. Find pages with svc_search (all words must occur) or svc_query_meta (by frontmatter), look around with svc_tree; \
    svc_peek and svc_section show a part of a long page, svc_read all of it or some lines of it (offset and limit). \
    svc_write replaces a whole page: read it first, and give \
    the ETag you read as if_match, so that no other change is lost; svc_append adds to the end. Pages link to each other with \
    [[name]]; svc_rename rewrites the links that lead to a page. Give your name as actor: it becomes the author of the version.";

/// The tool list as published in `http/tools.json`; ends with a newline.
pub fn tools() -> String {
    format!("{:#}\n", json!(ToolList::of(CATALOGUE).list()))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The MCP server.
#[derive(Clone)]
pub(crate) struct McpHandler {
    app: Arc<AppState>,
    tools: Arc<ToolList>,
    /// Space of a local client; none is the first one.
    space: Option<String>,
}

impl McpHandler {
    fn new(app: Arc<AppState>) -> Self {
        let tools = Arc::new(ToolList::of(app.catalogue));
        Self { app, tools, space: None }
    }

    /// The caller of a request and its space: that of `X-Svc-Space`, or the primary one. A local
    /// client (see [`AgentConnections`]) has all permissions.
    fn authenticate(
        &self,
        context: &RequestContext<RoleServer>,
        notes: &RequestNotes,
    ) -> Result<(CallerIdentity, Arc<Space>), Fault> {
        let Some(parts) = context.extensions.get::<http::request::Parts>() else {
            let space = self.app.space(self.space.as_deref())?;
            notes.set_space(&space);
            return Ok((CallerIdentity::UNRESTRICTED, space));
        };
        let identity = parts.extensions.get::<CallerIdentity>().cloned();
        let identity =
            identity.ok_or_else(|| Fault::new(Kind::Unauthenticated, "this request was not authenticated"))?;
        let space = self.app.enter_space(&identity, header(&parts.headers, SPACE)?.as_deref())?;
        notes.set_space(&space);
        Ok((identity, space))
    }

    async fn call(
        &self,
        tool: &ToolEntry,
        mut arguments: Map<String, Value>,
        (context, notes): (&RequestContext<RoleServer>, &RequestNotes),
    ) -> Result<CallToolResult, Fault> {
        notes.set_operation(tool.entry.name);
        let (identity, space) = self.authenticate(context, notes)?;
        // Before validation: a caller without permission gets no other error.
        tool.entry.check_permissions(&identity.permissions)?;
        let is_for_agent = !wants_raw_output(&context.meta);
        arguments = tool.decode(arguments)?;
        let inputs = &tool.inputs;
        let caller = if tool.entry.is_read_only() {
            svcfs_base::Caller::new(svcfs_base::Protocol::Mcp)
        } else {
            from_arguments(&mut arguments, |name| inputs.get(name).is_some())?
        };
        let mut caller = identity.apply_to(caller);
        caller.is_limited |= is_for_agent && !identity.is_admin_key();
        notes.set_actor(caller.actor());
        notes.set_arguments(&arguments);
        inputs.check_names(&arguments, &tool.extra_arguments)?;
        if let Some(missing) = tool.missing_argument(&arguments) {
            return Err(Fault::new(Kind::Invalid, format!("{missing} is required")));
        }
        let (mut result, meta) = if is_for_agent {
            let operation = (tool.entry, tool.entry.call_for_agent);
            let (answer, meta) = self.app.run_once(operation, space, caller, arguments.into()).await?;
            (to_tool_result(tool, answer), meta)
        } else {
            let operation = (tool.entry, tool.entry.call);
            let (output, meta) = self.app.run_once(operation, space, caller, arguments.into()).await?;
            let mut result = CallToolResult::success(vec![ContentBlock::text("See structuredContent")]);
            result.structured_content = Some(tool.wrap(output));
            (result, meta)
        };
        if let Some(structure) = result.structured_content.as_mut().and_then(Value::as_object_mut)
            && meta.is_replayed
        {
            structure.insert("replayed".to_owned(), true.into());
        }
        result.content.extend(meta.lines().map(ContentBlock::text));
        Ok(result)
    }
}

/// Whether the caller requested the output unchanged and without text, as the svcfs command line
/// does.
fn wants_raw_output(meta: &Map<String, Value>) -> bool {
    meta.get(RAW_OUTPUT_FLAG).is_some_and(|wanted| wanted == true)
}

/// An answer for agents. Either the text is the full answer, or the structure is and the text
/// repeats it, so clients that read only one of them miss nothing.
fn to_tool_result(tool: &ToolEntry, OperationAnswer { output, text }: OperationAnswer) -> CallToolResult {
    if tool.entry.is_text_only {
        return CallToolResult::success(match text {
            Some(text) => vec![ContentBlock::text(text)],
            None => binary_content(&output),
        });
    }
    let mut result = CallToolResult::structured(tool.to_structured(output));
    if let Some(text) = text {
        result.content = vec![ContentBlock::text(text)];
    }
    result
}

/// Binary content: a description, and the bytes in a form that clients can show.
fn binary_content(output: &Value) -> Vec<ContentBlock> {
    let text = |name: &str| output[name].as_str().unwrap_or_default();
    let encoded = output.pointer("/content/base64").and_then(Value::as_str);
    let (Some(encoded), Ok(path)) = (encoded, TreePath::parse(text("path"))) else {
        return vec![ContentBlock::text(output.to_string())];
    };
    let mime = media::of(&path, &STANDARD.decode(encoded).unwrap_or_default());
    let mime = media::without_parameters(&mime).to_owned();
    let etag = if text("etag").is_empty() { String::new() } else { format!("[ETag: {}]\n\n", text("etag")) };
    let description = ContentBlock::text(format!("{etag}{path} is not text but {mime}; its bytes follow"));
    let content = match mime.split('/').next() {
        Some("image") => ContentBlock::image(encoded, mime),
        Some("audio") => ContentBlock::audio(encoded, mime),
        _ => {
            let contents = ResourceContents::blob(encoded, resources::file_uri(&path)).with_mime_type(mime);
            ContentBlock::resource(contents)
        }
    };
    vec![description, content]
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        InitializeResult::new(capabilities)
            .with_server_info(Implementation::new("svcfs", VERSION))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let Some(tool) = self.tools.find(&request.name) else {
            let message = format!(
                "there is no tool `{}`; tools/list names them all",
                svcfs_base::escape_unprintable(&request.name)
            );
            return Err(ErrorData::invalid_params(message, None));
        };
        let audit_target = AuditTarget::of(&self.app, &context, ("tools/call", &request.name));
        let outcome = self.call(tool, arguments, (&context, audit_target.notes())).await;
        audit_target.end(outcome.as_ref().err());
        outcome.map(Into::into).or_else(|fault| failure(&fault, &request.name))
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
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = svcfs_base::escape_unprintable(&request.method);
        if METHODS.contains(&request.method.as_str()) {
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
                ErrorData::resource_not_found(fault.message().to_owned(), None)
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

/// A fault for an agent: a tool result that it can read and act on, except for internal errors.
fn failure(fault: &Fault, tool: &str) -> Result<CallToolResponse, ErrorData> {
    let id = active_request::new_id();
    log(fault, tool, &id);
    let is_generic = reply::is_generic(fault.kind());
    let mut text = if is_generic { reply::generic(&id) } else { fault.message().to_owned() };
    match fault.kind().mcp() {
        McpError::Internal => Err(ErrorData::internal_error(text, None)),
        McpError::Tool => {
            if !is_generic && !fault.detail().is_empty() {
                text.push_str(&format!("\n{}", json!(fault.detail())));
            }
            Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
        }
    }
}
