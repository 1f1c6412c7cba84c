//! The agent tool protocol at `/mcp` and on standard input and output (contract 4.21).
//!
//! One rule: a tool is an operation. The list is made from the operation table, a call goes through the one dispatcher, and
//! only what the protocol itself needs stands here. Everything that knows `rmcp` is in this folder, because that library moves.

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
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind, McpError, Protocol, TreePath};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::audit::{self, RequestHead, RequestNotes};
use svcfs_knowledge::kernel::{OperationAnswer, ServerState, Space};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::active_request;
use crate::app::{AppState, log};
use crate::bind::{from_arguments, header};
use crate::routes::SPACE;
use crate::specials::VERSION;
use crate::{HttpError, media, reply};
pub(crate) use endpoint::{McpService, answer, service};
use stdio::StdioTransport;
use tools::{ToolEntry, ToolList};

/// Where it is served.
pub(crate) const PATH: &str = "/mcp";

/// The methods that take params.
const METHODS: [&str; 6] =
    ["initialize", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"];

/// The member of a request's `_meta` by which our own command line asks for the output as it is.
const STRUCTURE: &str = "svcfs/structure";

/// What every agent is told at the beginning.
pub(crate) const INSTRUCTIONS: &str = "A knowledge base: a tree of markdown pages with YAML frontmatter, each change a version in git. Paths are \
    relative, such as `notes/today.md`. Before writing, read the resource svc://schema: it tells what goes \
    where. Find pages with svc_search (all words must occur) or svc_query_meta (by frontmatter), look around with svc_tree; \
    svc_peek and svc_section show a part of a long page, svc_read all of it or some lines of it (offset and limit). \
    svc_write replaces a whole page: read it first, and give \
    the ETag you read as if_match, so that nobody's change is lost; svc_append adds to the end. Pages link to each other with \
    [[name]]; svc_rename rewrites the links that lead to a page. Give your name as actor: it becomes the author of the version.";

/// The tool list as it is published in `http/tools.json`; ends with a newline.
pub fn tools() -> String {
    format!("{:#}\n", json!(ToolList::of(CATALOGUE).list()))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Speaks the protocol on standard input and output until the other side closes it or `stop` is cancelled.
///
/// # Errors
/// [`Error::Routes`] for a contradictory catalogue; [`Error::Stdio`] when the conversation breaks off.
pub async fn serve_stdio(server: Arc<ServerState>, stop: CancellationToken) -> Result<(), HttpError> {
    let app = AppState::new(CATALOGUE, server, stop.clone())?;
    let (input, output) = rmcp::transport::stdio();
    converse(app, input, output, stop).await.map_err(HttpError::Stdio)
}

/// One conversation, a JSON message on each line.
pub(crate) async fn converse(
    app: Arc<AppState>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let conversation = match McpHandler::new(app).serve_with_ct(StdioTransport::new(input, output), stop).await {
        // The other side left, or we were stopped, before anything was said.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        outcome => outcome?,
    };
    conversation.waiting().await?;
    Ok(())
}

/// What answers an agent.
#[derive(Clone)]
pub(crate) struct McpHandler {
    app: Arc<AppState>,
    tools: Arc<ToolList>,
}

impl McpHandler {
    fn new(app: Arc<AppState>) -> Self {
        let tools = Arc::new(ToolList::of(app.catalogue));
        Self { app, tools }
    }

    /// Who sent a request, and the space it is for: `X-Svc-Space` when it came over HTTP with one. Whoever talks to this process on its
    /// standard input started it.
    fn origin(
        &self,
        context: &RequestContext<RoleServer>,
        notes: &RequestNotes,
    ) -> Result<(CallerIdentity, Arc<Space>), Fault> {
        let Some(parts) = context.extensions.get::<http::request::Parts>() else {
            let space = self.app.space(None)?;
            notes.set_space(&space);
            return Ok((CallerIdentity::UNRESTRICTED, space));
        };
        let identity = parts.extensions.get::<CallerIdentity>().cloned();
        let identity =
            identity.ok_or_else(|| Fault::new(Kind::Unauthenticated, "nobody looked at who sent this request"))?;
        let space = self.app.enter(&identity, header(&parts.headers, SPACE)?.as_deref())?;
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
        let (identity, space) = self.origin(context, notes)?;
        // Who may not ask is told so, not what is missing in the question.
        tool.entry.check_permissions(&identity.permissions)?;
        let is_for_agent = !wants_structure(&context.meta);
        arguments = tool.decoded(arguments)?;
        let inputs = &tool.inputs;
        let caller = if tool.entry.is_read_only() {
            svcfs_base::Caller::new(svcfs_base::Protocol::Mcp)
        } else {
            from_arguments(&mut arguments, |name| inputs.get(name).is_some())?
        };
        let caller = identity.apply_to(caller);
        notes.set_actor(caller.actor());
        notes.set_arguments(&arguments);
        inputs.check_names(&arguments, &tool.attribution)?;
        if let Some(missing) = tool.missing(&arguments) {
            return Err(Fault::new(Kind::Invalid, format!("{missing} is required")));
        }
        let (mut result, remarks) = if is_for_agent {
            let ask = (tool.entry, tool.entry.call_for_agent);
            let (answer, remarks) = self.app.ask(ask, space, caller, arguments.into()).await?;
            (answered(tool, answer), remarks)
        } else {
            let ask = (tool.entry, tool.entry.call);
            let (output, remarks) = self.app.ask(ask, space, caller, arguments.into()).await?;
            let mut result = CallToolResult::success(vec![ContentBlock::text("See the structure")]);
            result.structured_content = Some(tool.wrapped(output));
            (result, remarks)
        };
        result.content.extend(remarks.lines().map(ContentBlock::text));
        Ok(result)
    }
}

/// Whether a caller asked for the output of the operation as it is, and for no text: our own command line does.
fn wants_structure(meta: &Map<String, Value>) -> bool {
    meta.get(STRUCTURE).is_some_and(|wanted| wanted == true)
}

/// An answer as an agent reads it. Either the text is the whole answer, or the structure is, and the text says the same (gaps.md
/// 4.21): clients that read one of them miss nothing.
fn answered(tool: &ToolEntry, OperationAnswer { output, text: words }: OperationAnswer) -> CallToolResult {
    if tool.entry.is_text_only {
        return CallToolResult::success(match words {
            Some(words) => vec![ContentBlock::text(words)],
            None => bytes(&output),
        });
    }
    let mut result = CallToolResult::structured(tool.structured(output));
    if let Some(words) = words {
        result.content = vec![ContentBlock::text(words)];
    }
    result
}

/// A content that is no text: what it is in words, and the bytes as a client shows them.
fn bytes(output: &Value) -> Vec<ContentBlock> {
    let text = |name: &str| output[name].as_str().unwrap_or_default();
    let encoded = output.pointer("/content/base64").and_then(Value::as_str);
    let (Some(encoded), Ok(path)) = (encoded, TreePath::parse(text("path"))) else {
        return vec![ContentBlock::text(output.to_string())];
    };
    let mime = media::of(&path, &STANDARD.decode(encoded).unwrap_or_default());
    let mime = mime.split(';').next().unwrap_or_default().to_owned();
    let etag = if text("etag").is_empty() { String::new() } else { format!("[ETag: {}]\n\n", text("etag")) };
    let about = ContentBlock::text(format!("{etag}{path} is not text but {mime}; its bytes follow"));
    let content = match mime.split('/').next() {
        Some("image") => ContentBlock::image(encoded, mime),
        Some("audio") => ContentBlock::audio(encoded, mime),
        _ => {
            let contents = ResourceContents::blob(encoded, resources::address(&path)).with_mime_type(mime);
            ContentBlock::resource(contents)
        }
    };
    vec![about, content]
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
        let told = AuditTarget::of(&self.app, &context, ("tools/call", &request.name));
        let outcome = self.call(tool, arguments, (&context, told.notes())).await;
        told.end(outcome.as_ref().err());
        outcome.map(Into::into).or_else(|fault| failure(&fault, &request.name))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::fixed()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    /// What `rmcp` does not know: another method, or one of ours whose params it could not read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = svcfs_base::escape_unprintable(&request.method);
        if METHODS.contains(&request.method.as_str()) {
            let message = format!("the params of `{method}` are missing, or not what this method takes");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let told = AuditTarget::of(&self.app, &context, ("resources/read", &request.uri));
        resources::named(&request.uri).iter().for_each(|file| told.notes().set_file(file));
        let outcome = match self.origin(&context, told.notes()) {
            Ok((identity, space)) => resources::read(&self.app, space, (&request.uri, identity.permissions)).await,
            Err(fault) => Err(fault),
        };
        told.end(outcome.as_ref().err());
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

/// Where it is told what became of a message.
enum AuditTarget {
    /// With the request that it came in.
    Within(RequestNotes),
    /// Here: it came on standard input.
    Here(audit::TrackedRequest),
}

impl AuditTarget {
    /// Of a message that asks for something.
    fn of(app: &AppState, context: &RequestContext<RoleServer>, (method, path): (&str, &str)) -> Self {
        let within = || context.extensions.get::<http::request::Parts>()?.extensions.get::<RequestNotes>();
        within().cloned().map_or_else(
            || {
                let (method, path) = (method.to_owned(), path.to_owned());
                let head =
                    RequestHead { protocol: Protocol::Mcp, method, path, query: String::new(), peer: None, id: None };
                Self::Here(audit::TrackedRequest::start(&app.server, head))
            },
            Self::Within,
        )
    }

    fn notes(&self) -> &RequestNotes {
        match self {
            Self::Within(notes) => notes,
            Self::Here(request) => request.notes(),
        }
    }

    /// It is answered, or refused for this.
    fn end(self, refusal: Option<&Fault>) {
        let status = refusal.map_or(200, |fault| fault.kind().http());
        match self {
            Self::Within(notes) => notes.set_status(status),
            Self::Here(request) => request.finish(status),
        }
    }
}

/// A fault as an agent sees it: a result it can read and act on, except our own failure.
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
