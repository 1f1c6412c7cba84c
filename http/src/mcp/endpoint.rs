//! `/mcp`: admits requests over HTTP, passes each message to `rmcp`, and encodes the response in
//! the format that the client accepts.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header as header_names};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::tower::StreamableHttpServerConfig;
use serde_json::{Value, json};
use svcfs_base::{Fault, Scope};
use svcfs_knowledge::access::CallerIdentity;
use tokio_util::sync::CancellationToken;

use super::http_request::McpHttpRequest;
use super::messages::{self, MessageBody, ResponseFormat};
use super::profiles::ToolSelection;
use super::{BoxError, McpHandler};
use crate::active_request::ActiveRequest;
use crate::app::AppState;
use crate::bind::{MAX_BODY_BYTES, UnreadBody, header, read};
use crate::response_budget::{PIECE, unbuffered};
use crate::routes::SPACE;
use crate::{media, oauth, reply};

/// `rmcp` requires clients to accept both; the real `Accept` is checked here.
const ACCEPT_BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
type McpRequest = Request<Full<Bytes>>;
type McpResponse = Response<BoxBody<Bytes, Infallible>>;

/// The `rmcp` service behind `/mcp`.
pub(crate) type McpService = StreamableHttpService<McpHandler, NeverSessionManager>;

/// Creates the service: stateless, one JSON response per request.
pub(crate) fn service(app: Arc<AppState>) -> McpService {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        // Not `app.stop`: handlers end their streams themselves at shutdown, with a last message.
        .with_cancellation_token(CancellationToken::new())
        // `ActiveRequest::admit` checks hosts and origins for all endpoints.
        .disable_allowed_hosts();
    let agent = McpHandler::new(app);
    StreamableHttpService::new(move || Ok(agent.clone()), Arc::default(), config)
}

/// Handles one request to `/mcp`.
pub(crate) async fn handle(
    app: &AppState,
    service: McpService,
    request: Request<Incoming>,
    peer: IpAddr,
) -> Response<BoxBody<Bytes, BoxError>> {
    let mut active = ActiveRequest::start(app, (request.method(), request.uri().path(), ""), Some(peer));
    let is_preflight = request.method() == Method::OPTIONS;
    // For the challenge, which only an identity provider makes useful.
    let challenged = app.server.access().issuer().map(|_| request.headers().clone());
    let identity = active.admit(app, request.headers()).await;
    let boxed = |response: warp::reply::Response| response.map(|body| body.map_err(BoxError::from).boxed());
    let mut response = match identity {
        Ok(_) if is_preflight => boxed(active.preflight(app, "POST, GET, DELETE, OPTIONS")),
        Ok(Ok(identity)) => match handle_body(app, &service, (identity, request), (&active, peer)).await {
            Ok(response) if is_large(&response) => match bounded(app, response).await {
                Ok(response) => boxed(response),
                Err(fault) => boxed(active.fault_response(&fault)),
            },
            Ok(response) => response.map(|body| body.map_err(|never| match never {}).boxed()),
            Err(fault) => boxed(active.fault_response(&fault)),
        },
        Ok(Err(fault)) | Err(fault) => boxed(active.fault_response(&fault)),
    };
    let missing_scope = response.extensions().get::<Arc<OnceLock<Scope>>>().and_then(|scope| scope.get().copied());
    if let Some(headers) = challenged {
        if missing_scope.is_some() {
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        if missing_scope.is_some() || response.status() == StatusCode::UNAUTHORIZED {
            oauth::challenge(app, &headers, missing_scope, response.headers_mut());
        }
    }
    if media_type(&response) == media::EVENTS {
        unbuffered(response.headers_mut());
    }
    active.finish(app, &mut response);
    response
}

/// Reads and handles the body. The space in the header is checked first, before any message is
/// parsed.
async fn handle_body(
    app: &AppState,
    service: &McpService,
    (identity, request): (CallerIdentity, Request<Incoming>),
    (active, peer): (&ActiveRequest, IpAddr),
) -> Result<McpResponse, Fault> {
    let name = header(request.headers(), SPACE)?;
    let space = app.enter_space(&identity, name.as_deref());
    // Without a name, each message answers for itself.
    let position = match name {
        Some(_) => Some(space?.vfs.last_seq()),
        None => space.ok().map(|space| space.vfs.last_seq()),
    };
    let selection = ToolSelection::of_url(request.uri().path(), request.uri().query(), app.catalogue)?;
    let (mut head, body) = read_request(request).await?;
    head.extensions.insert(selection);
    head.extensions.insert(identity);
    head.extensions.insert(active.notes.clone());
    if head.method != Method::POST {
        return call_rmcp(service, head, body).await;
    }
    let missing_scope: Arc<OnceLock<Scope>> = Arc::default();
    let accepts_events = ResponseFormat::accepts_events(&head.headers);
    head.extensions.insert(McpHttpRequest {
        peer,
        accepts_events,
        position,
        missing_scope: Arc::clone(&missing_scope),
    });
    let Some(format) = ResponseFormat::of(&head.headers) else {
        let text = "`Accept` allows neither application/json nor text/event-stream";
        return Ok(json_response(StatusCode::NOT_ACCEPTABLE, &json!({ "error": text })));
    };
    let response = match messages::classify(&head.headers, &body) {
        MessageBody::Message => {
            let mut response = call_rmcp(service, head, body).await?;
            response.extensions_mut().insert(missing_scope);
            response
        }
        MessageBody::Batch(messages) => batch(app, service, (&head, peer), messages).await,
        MessageBody::Invalid(error) => json_response(StatusCode::BAD_REQUEST, &error),
    };
    Ok(if format == ResponseFormat::Events { to_events(response).await } else { response })
}

/// Passes one message to `rmcp`. Errors: `Internal` when the handler panicked.
async fn call_rmcp(service: &McpService, mut head: Parts, body: Bytes) -> Result<McpResponse, Fault> {
    head.headers.insert(header_names::ACCEPT, ACCEPT_BOTH);
    let is_json = messages::is_json(&head.headers);
    let id = body.clone();
    let mcp_request: McpRequest = Request::from_parts(head, Full::new(body));
    let response = svcfs_listener::catch_panic(async { Ok(service.handle(mcp_request).await) }).await?;
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
        // The content type is right, so `rmcp` could not parse the message.
        let message = serde_json::from_slice(&id).unwrap_or(Value::Null);
        let error = messages::invalid(messages::NOT_A_MESSAGE, messages::id_of(&message));
        return Ok(json_response(StatusCode::BAD_REQUEST, &error));
    }
    Ok(errors_as_json(response).await)
}

/// Handles the messages of a batch in order. Each is admitted, counted and recorded like a single
/// message.
async fn batch(app: &AppState, service: &McpService, (head, peer): (&Parts, IpAddr), batch: Vec<Value>) -> McpResponse {
    let (mut replies, mut length) = (Vec::new(), 0);
    for message in batch {
        let id = messages::id_of(&message);
        let response = match messages::batch_member_error(&message) {
            Some(error) => error.to_string().into(),
            None if length > MAX_BODY_BYTES => {
                let text = "the replies before this one reached the size limit; send this message again by itself";
                messages::rpc_error(messages::SERVER_ERROR, text, id).to_string().into()
            }
            None => batch_reply(app, service, (head, peer), message).await,
        };
        length += response.len();
        replies.extend((!response.is_empty()).then_some(response));
    }
    if replies.is_empty() {
        let mut response = Response::new(Full::default().boxed());
        *response.status_mut() = StatusCode::ACCEPTED;
        return response;
    }
    let mut body = Vec::with_capacity(length + replies.len() + 1);
    for (index, response) in replies.iter().enumerate() {
        body.push(if index == 0 { b'[' } else { b',' });
        body.extend_from_slice(response);
    }
    body.push(b']');
    json_body(StatusCode::OK, body.into())
}

/// The response to one message of a batch, as JSON; empty for a notification.
async fn batch_reply(app: &AppState, service: &McpService, (head, peer): (&Parts, IpAddr), message: Value) -> Bytes {
    let mut active = ActiveRequest::start(app, (&head.method, head.uri.path(), ""), Some(peer));
    let id = messages::id_of(&message);
    let failure = |code, text: &str| messages::rpc_error(code, text, id.clone()).to_string().into();
    let mut head = head.clone();
    let outcome = match active.admit(app, &head.headers).await {
        Ok(Ok(identity)) => {
            head.extensions.insert(identity);
            head.extensions.insert(active.notes.clone());
            call_rmcp(service, head, message.to_string().into()).await
        }
        Ok(Err(fault)) | Err(fault) => Err(fault),
    };
    let mut response = outcome.unwrap_or_else(|fault| {
        let error_response = active.fault_response(&fault);
        let text =
            if reply::is_generic(fault.kind()) { reply::generic(&active.id) } else { fault.message().to_owned() };
        let error = messages::rpc_error(messages::SERVER_ERROR, &text, Value::Null);
        json_response(error_response.status(), &error)
    });
    let is_json = media_type(&response) == media::JSON;
    active.finish(app, &mut response);
    let (head, body) = response.into_parts();
    let Ok(body) = body.collect().await;
    let body = body.to_bytes();
    match serde_json::from_slice::<Value>(&body) {
        _ if body.is_empty() => body,
        // An error for a whole request has no message id.
        Ok(mut error) if head.status.is_client_error() && error.get("jsonrpc").is_some() => {
            error["id"] = id;
            error.to_string().into()
        }
        Ok(error) if head.status.is_client_error() => {
            failure(messages::INVALID_REQUEST, error["error"].as_str().unwrap_or("the message is refused"))
        }
        _ if is_json => body,
        _ => failure(messages::SERVER_ERROR, "the reply is a stream, which a batch cannot contain"),
    }
}

/// Whether a response needs memory from the budget.
fn is_large(response: &McpResponse) -> bool {
    response.body().size_hint().exact().is_some_and(|length| length > PIECE as u64)
}

/// Sends a large response within the budget. Whether the messages were read-only is unknown here,
/// so a response is always sent.
async fn bounded(app: &AppState, response: McpResponse) -> Result<warp::reply::Response, Fault> {
    let (head, body) = response.into_parts();
    let Ok(content) = body.collect().await;
    let response = warp::reply::Response::from_parts(head, content.to_bytes().into());
    app.bounded((Arc::clone(app.server.primary()), false), response).await
}

/// Converts plain-text errors of `rmcp` to the JSON form of all other errors.
async fn errors_as_json(response: McpResponse) -> McpResponse {
    let is_refusal = response.status().is_client_error() || response.status().is_server_error();
    if media_type(&response) == media::JSON || !is_refusal {
        return response;
    }
    let (status, allow) = (response.status(), response.headers().get(ALLOW).cloned());
    let mut json_error = json_response(status, &json!({ "error": plain_text(response).await }));
    allow.into_iter().for_each(|allow| drop(json_error.headers_mut().insert(ALLOW, allow)));
    json_error
}

async fn plain_text(response: McpResponse) -> String {
    let Ok(text) = response.into_body().collect().await;
    String::from_utf8_lossy(&text.to_bytes()).into_owned()
}

/// Wraps JSON as the only event of a stream. Empty responses and errors stay unchanged.
async fn to_events(response: McpResponse) -> McpResponse {
    if media_type(&response) != media::JSON || !response.status().is_success() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(content) = body.collect().await;
    // JSON is written without line breaks here.
    let event = [b"event: message\ndata: ", &*content.to_bytes(), b"\n\n"].concat();
    head.headers.remove(header_names::CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media::EVENTS));
    head.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Response::from_parts(head, Full::from(event).boxed())
}

fn json_response(status: StatusCode, body: &Value) -> McpResponse {
    json_body(status, body.to_string().into())
}

fn json_body(status: StatusCode, body: Bytes) -> McpResponse {
    let mut response = Response::new(Full::new(body).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
    response
}

/// The media type of a response without parameters.
fn media_type<B>(response: &Response<B>) -> &str {
    let mime = response.headers().get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok());
    mime.map(media::without_parameters).unwrap_or_default()
}

/// Reads the body into memory, limited in size and time.
async fn read_request(request: Request<Incoming>) -> Result<(Parts, Bytes), Fault> {
    use futures_util::TryStreamExt;
    let (head, body) = request.into_parts();
    let parts = TryStreamExt::map_err(body.into_data_stream(), |error| error.to_string());
    let body = read(UnreadBody::new(Box::pin(parts), &head.headers), MAX_BODY_BYTES, "the body").await?;
    Ok((head, body))
}
