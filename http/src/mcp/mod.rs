//! The agent tool protocol at `/mcp` and on standard input and output (contract 4.21).
//!
//! One rule: a tool is an operation. The list is made from the operation table, a call goes through the one dispatcher, and
//! only what the protocol itself needs stands here. Everything that knows `rmcp` is in this folder, because that library moves.

mod resources;
mod tools;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::{ALLOW, CONTENT_TYPE};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::tower::StreamableHttpServerConfig;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use svcfs_base::{Door, Fault, Kind, McpError};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::access::Identity;
use svcfs_knowledge::audit::{self, Head, Notes};
use svcfs_knowledge::kernel::{Answer, Server, Space};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::app::{App, log};
use crate::bind::{Body, MAX_BODY_BYTES, from_arguments, header, read};
use crate::routes::SPACE;
use crate::sending::PIECE;
use crate::specials::VERSION;
use crate::visit::{self, Visit};
use crate::{Error, reply};
use tools::{Known, Tools};

/// Where it is served.
pub(crate) const PATH: &str = "/mcp";

const INSTRUCTIONS: &str = "A knowledge base: a tree of markdown pages with YAML frontmatter, each change a version in git. Paths are \
    relative, such as `notes/today.md`. Before writing, read the resource svc://schema (or the page SCHEMA.md): it tells what goes \
    where. Find pages with svc_search (all words must occur) or svc_query_meta (by frontmatter), look around with svc_tree; \
    svc_peek and svc_section show a part of a long page, svc_read all of it. svc_write replaces a whole page: read it first, and give \
    the ETag you read as if_match, so that nobody's change is lost; svc_append adds to the end. Pages link to each other with \
    [[name]]; svc_rename rewrites the links that lead to a page. Give your name as actor: it becomes the author of the version.";

/// The tool list as it is published in `http/tools.json`; ends with a newline.
pub fn tools() -> String {
    format!("{:#}\n", json!(Tools::of(CATALOGUE).list()))
}

/// The service behind `/mcp`.
pub(crate) type Service = StreamableHttpService<Agent, NeverSessionManager>;

/// The service behind `/mcp`: stateless, one JSON answer for each request.
pub(crate) fn service(app: Arc<App>) -> Service {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(app.stop.clone())
        // Hosts and origins are checked by `Visit::admit`, by one rule for every endpoint.
        .disable_allowed_hosts();
    let agent = Agent::new(app);
    StreamableHttpService::new(move || Ok(agent.clone()), Arc::default(), config)
}

/// Answers one request to `/mcp`.
pub(crate) async fn answer(
    app: &App,
    service: Service,
    request: Request<Incoming>,
    peer: IpAddr,
) -> http::Response<BoxBody<Bytes, BoxError>> {
    let mut visit = Visit::begin(app, (request.method(), PATH, ""), Some(peer));
    let is_preflight = request.method() == http::Method::OPTIONS;
    let identity = visit.admit(app, request.headers()).await;
    let own = |response: warp::reply::Response| response.map(|body| body.map_err(BoxError::from).boxed());
    let mut response = match identity {
        Ok(_) if is_preflight => own(visit.preflight(app, "POST, GET, DELETE, OPTIONS")),
        Ok(Ok(identity)) => match goes_on(app, &identity, request).await {
            Ok(mut request) => {
                request.extensions_mut().insert(identity);
                request.extensions_mut().insert(visit.notes.clone());
                let answer = svcfs_listener::unbroken(async { Ok(in_words(service.handle(request).await).await) });
                match answer.await {
                    Ok(Ok(answer)) if is_long(&answer) => match bounded(app, answer).await {
                        Ok(answer) => own(answer),
                        Err(fault) => own(visit.refuse(&fault)),
                    },
                    Ok(Ok(answer)) => answer.map(|body| body.map_err(|never| match never {}).boxed()),
                    Ok(Err(refusal)) => own(refusal),
                    Err(panicked) => own(visit.refuse(&panicked)),
                }
            }
            Err(fault) => own(visit.refuse(&fault)),
        },
        Ok(Err(fault)) | Err(fault) => own(visit.refuse(&fault)),
    };
    visit.end(app, &mut response);
    response
}

/// Whether an answer takes room while it is sent.
fn is_long(answer: &http::Response<BoxBody<Bytes, Infallible>>) -> bool {
    answer.body().size_hint().exact().is_some_and(|length| length > PIECE as u64)
}

/// A long answer, in the room that the long answers of all have. Which messages only ask is not known here: what was done is told in any case.
async fn bounded(
    app: &App,
    answer: http::Response<BoxBody<Bytes, Infallible>>,
) -> Result<warp::reply::Response, Fault> {
    let (head, body) = answer.into_parts();
    let Ok(content) = body.collect().await;
    let answer = warp::reply::Response::from_parts(head, content.to_bytes().into());
    app.bounded((Arc::clone(app.server.primary()), false), answer).await
}

/// What is no message of the protocol is refused by `rmcp` in plain text; here it has the form of every other refusal (contract 7).
async fn in_words(
    answer: http::Response<BoxBody<Bytes, Infallible>>,
) -> Result<http::Response<BoxBody<Bytes, Infallible>>, warp::reply::Response> {
    let is_json =
        answer.headers().get(CONTENT_TYPE).is_some_and(|mime| mime.as_bytes().starts_with(b"application/json"));
    let is_refusal = answer.status().is_client_error() || answer.status().is_server_error();
    if is_json || !is_refusal {
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    let Ok(text) = body.collect().await;
    let told = String::from_utf8_lossy(&text.to_bytes()).into_owned();
    let mut refusal = reply::json(head.status, &json!({ "error": told }));
    head.headers.get(ALLOW).into_iter().for_each(|allow| drop(refusal.headers_mut().insert(ALLOW, allow.clone())));
    Err(refusal)
}

/// The same request with its body in memory, when the space that its header names can be entered: no message needs to be looked at before.
async fn goes_on(app: &App, identity: &Identity, request: Request<Incoming>) -> Result<Request<Full<Bytes>>, Fault> {
    if let Some(name) = header(request.headers(), SPACE)? {
        app.enter(identity, Some(name.as_str()))?;
    }
    read_whole(request).await
}

/// The same request with its body in memory: read as every body is, bounded in size and time.
async fn read_whole(request: Request<Incoming>) -> Result<Request<Full<Bytes>>, Fault> {
    use futures_util::TryStreamExt;
    let (head, body) = request.into_parts();
    let parts = TryStreamExt::map_err(body.into_data_stream(), |error| error.to_string());
    let body = read(Body::new(Box::pin(parts), &head.headers), MAX_BODY_BYTES, "the body").await?;
    Ok(Request::from_parts(head, Full::new(body)))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Speaks the protocol on standard input and output until the other side closes it or `stop` is cancelled.
///
/// # Errors
/// [`Error::Routes`] for a contradictory catalogue; [`Error::Stdio`] when the conversation breaks off.
pub async fn serve_stdio(server: Arc<Server>, stop: CancellationToken) -> Result<(), Error> {
    let app = App::new(CATALOGUE, server, stop.clone())?;
    let (input, output) = rmcp::transport::stdio();
    converse(app, input, output, stop).await.map_err(Error::Stdio)
}

/// One conversation, a JSON message on each line.
pub(crate) async fn converse(
    app: Arc<App>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let conversation = match Agent::new(app).serve_with_ct((input, output), stop).await {
        // The other side left, or we were stopped, before anything was said.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        outcome => outcome?,
    };
    conversation.waiting().await?;
    Ok(())
}

/// What answers an agent.
#[derive(Clone)]
pub(crate) struct Agent {
    app: Arc<App>,
    tools: Arc<Tools>,
}

impl Agent {
    fn new(app: Arc<App>) -> Self {
        let tools = Arc::new(Tools::of(app.catalogue));
        Self { app, tools }
    }

    /// Who sent a request, and the space it is for: `X-Svc-Space` when it came over HTTP with one. Whoever talks to this process on its
    /// standard input started it.
    fn origin(&self, context: &RequestContext<RoleServer>, notes: &Notes) -> Result<(Identity, Arc<Space>), Fault> {
        let Some(parts) = context.extensions.get::<http::request::Parts>() else {
            let space = self.app.space(None)?;
            notes.enters(&space);
            return Ok((Identity::ANYBODY, space));
        };
        let identity = parts.extensions.get::<Identity>().cloned();
        let identity =
            identity.ok_or_else(|| Fault::new(Kind::Unauthenticated, "nobody looked at who sent this request"))?;
        let space = self.app.enter(&identity, header(&parts.headers, SPACE)?.as_deref())?;
        notes.enters(&space);
        Ok((identity, space))
    }

    async fn call(
        &self,
        tool: &Known,
        mut arguments: Map<String, Value>,
        (context, notes): (&RequestContext<RoleServer>, &Notes),
    ) -> Result<CallToolResult, Fault> {
        notes.leads_to(tool.entry.name);
        let (identity, space) = self.origin(context, notes)?;
        // Who may not ask is told so, not what is missing in the question.
        tool.entry.allow(&identity.reach)?;
        let inputs = &tool.inputs;
        let caller = if tool.entry.is_reading() {
            svcfs_base::Caller::new(svcfs_base::Door::Mcp)
        } else {
            from_arguments(&mut arguments, |name| inputs.get(name).is_some())?
        };
        let caller = identity.vouch(caller);
        notes.is_of(caller.actor());
        notes.asks(&arguments);
        inputs.check_names(&arguments, &tool.attribution)?;
        if let Some(missing) = tool.missing(&arguments) {
            return Err(Fault::new(Kind::Invalid, format!("{missing} is required")));
        }
        let (Answer { output, words }, remarks) =
            self.app.ask((tool.entry, tool.entry.tell), space, caller, arguments.into()).await?;
        let mut result = CallToolResult::structured(if tool.is_wrapped { json!({ "result": output }) } else { output });
        if let Some(words) = words {
            result.content = vec![ContentBlock::text(words)];
        }
        result.content.extend(remarks.lines().map(ContentBlock::text));
        Ok(result)
    }
}

impl ServerHandler for Agent {
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
            let message = format!("there is no tool `{}`; tools/list names them all", svcfs_base::plain(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        };
        let told = Told::of(&self.app, &context, ("tools/call", &request.name));
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

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let told = Told::of(&self.app, &context, ("resources/read", &request.uri));
        resources::named(&request.uri).iter().for_each(|file| told.notes().is_about(file));
        let outcome = match self.origin(&context, told.notes()) {
            Ok((identity, space)) => resources::read(&self.app, space, (&request.uri, identity.reach)).await,
            Err(fault) => Err(fault),
        };
        told.end(outcome.as_ref().err());
        outcome.map(Into::into).map_err(|fault| {
            let id = visit::new_id();
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
enum Told {
    /// With the request that it came in.
    Within(Notes),
    /// Here: it came on standard input.
    Here(audit::Request),
}

impl Told {
    /// Of a message that asks for something.
    fn of(app: &App, context: &RequestContext<RoleServer>, (method, path): (&str, &str)) -> Self {
        let within = || context.extensions.get::<http::request::Parts>()?.extensions.get::<Notes>();
        within().cloned().map_or_else(
            || {
                let (method, path) = (method.to_owned(), path.to_owned());
                let head = Head { door: Door::Mcp, method, path, query: String::new(), peer: None, id: None };
                Self::Here(audit::Request::begin(&app.server, head))
            },
            Self::Within,
        )
    }

    fn notes(&self) -> &Notes {
        match self {
            Self::Within(notes) => notes,
            Self::Here(request) => request.notes(),
        }
    }

    /// It is answered, or refused for this.
    fn end(self, refusal: Option<&Fault>) {
        let status = refusal.map_or(200, |fault| fault.kind().http());
        match self {
            Self::Within(notes) => notes.is_answered(status),
            Self::Here(request) => request.end(status),
        }
    }
}

/// A fault as an agent sees it: a result it can read and act on, except our own failure.
fn failure(fault: &Fault, tool: &str) -> Result<CallToolResponse, ErrorData> {
    let id = visit::new_id();
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
