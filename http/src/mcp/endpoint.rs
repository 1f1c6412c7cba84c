//! `/mcp`: what comes in over HTTP is let in, read, handed to `rmcp` message by message, and answered in the form the client takes.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header as names};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::tower::StreamableHttpServerConfig;
use serde_json::{Value, json};
use svcfs_base::Fault;
use svcfs_knowledge::access::CallerIdentity;

use super::messages::{self, MessageBody, ResponseFormat};
use super::{BoxError, McpHandler, PATH};
use crate::active_request::ActiveRequest;
use crate::app::AppState;
use crate::bind::{MAX_BODY_BYTES, UnreadBody, header, read};
use crate::response_budget::{PIECE, unbuffered};
use crate::routes::SPACE;
use crate::{media, reply};

/// What `rmcp` wants a client to accept; what the client does accept is decided here.
const ANY_FORM: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// A message for `rmcp`, and what it answers.
type McpRequest = Request<Full<Bytes>>;
type McpResponse = Response<BoxBody<Bytes, Infallible>>;

/// The service behind `/mcp`.
pub(crate) type McpService = StreamableHttpService<McpHandler, NeverSessionManager>;

/// The service behind `/mcp`: stateless, one JSON answer for each request.
pub(crate) fn service(app: Arc<AppState>) -> McpService {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(app.stop.clone())
        // Hosts and origins are checked by `Visit::admit`, by one rule for every endpoint.
        .disable_allowed_hosts();
    let agent = McpHandler::new(app);
    StreamableHttpService::new(move || Ok(agent.clone()), Arc::default(), config)
}

/// Answers one request to `/mcp`.
pub(crate) async fn answer(
    app: &AppState,
    service: McpService,
    request: Request<Incoming>,
    peer: IpAddr,
) -> Response<BoxBody<Bytes, BoxError>> {
    let mut visit = ActiveRequest::begin(app, (request.method(), PATH, ""), Some(peer));
    let is_preflight = request.method() == Method::OPTIONS;
    let identity = visit.admit(app, request.headers()).await;
    let own = |response: warp::reply::Response| response.map(|body| body.map_err(BoxError::from).boxed());
    let mut response = match identity {
        Ok(_) if is_preflight => own(visit.preflight(app, "POST, GET, DELETE, OPTIONS")),
        Ok(Ok(identity)) => match exchange(app, &service, (identity, request), (&visit, peer)).await {
            Ok(answer) if is_long(&answer) => match bounded(app, answer).await {
                Ok(answer) => own(answer),
                Err(fault) => own(visit.refuse(&fault)),
            },
            Ok(answer) => answer.map(|body| body.map_err(|never| match never {}).boxed()),
            Err(fault) => own(visit.refuse(&fault)),
        },
        Ok(Err(fault)) | Err(fault) => own(visit.refuse(&fault)),
    };
    if media_type(&response) == media::EVENTS {
        unbuffered(response.headers_mut());
    }
    visit.end(app, &mut response);
    response
}

/// Reads what was sent and answers it. Which space its header names is checked first: no message needs to be looked at before.
async fn exchange(
    app: &AppState,
    service: &McpService,
    (identity, request): (CallerIdentity, Request<Incoming>),
    (visit, peer): (&ActiveRequest, IpAddr),
) -> Result<McpResponse, Fault> {
    if let Some(name) = header(request.headers(), SPACE)? {
        app.enter(&identity, Some(name.as_str()))?;
    }
    let (mut head, body) = read_whole(request).await?;
    head.extensions.insert(identity);
    head.extensions.insert(visit.notes.clone());
    if head.method != Method::POST {
        return deliver(service, head, body).await;
    }
    let Some(form) = ResponseFormat::of(&head.headers) else {
        let text = "`Accept` allows neither application/json nor text/event-stream";
        return Ok(of_json(StatusCode::NOT_ACCEPTABLE, &json!({ "error": text })));
    };
    let answer = match messages::content(&head.headers, &body) {
        MessageBody::Message => deliver(service, head, body).await?,
        MessageBody::Batch(messages) => batch(app, service, (&head, peer), messages).await,
        MessageBody::Wrong(error) => of_json(StatusCode::BAD_REQUEST, &error),
    };
    Ok(if form == ResponseFormat::Events { as_events(answer).await } else { answer })
}

/// Hands one message to `rmcp`.
///
/// # Errors
/// `Internal` when its handling panicked.
async fn deliver(service: &McpService, mut head: Parts, body: Bytes) -> Result<McpResponse, Fault> {
    head.headers.insert(names::ACCEPT, ANY_FORM);
    let is_json = messages::is_json(&head.headers);
    let id = body.clone();
    let asked: McpRequest = Request::from_parts(head, Full::new(body));
    let answer = svcfs_listener::catch_panic(async { Ok(service.handle(asked).await) }).await?;
    if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
        // Its type is right, so it is what `rmcp` could not read as a message.
        let message = serde_json::from_slice(&id).unwrap_or(Value::Null);
        let error = messages::invalid(messages::NO_MESSAGE, messages::id_of(&message));
        return Ok(of_json(StatusCode::BAD_REQUEST, &error));
    }
    Ok(in_words(answer).await)
}

/// Answers the messages of a batch, one after the other, each let in, counted and recorded as if it had come alone.
async fn batch(app: &AppState, service: &McpService, (head, peer): (&Parts, IpAddr), batch: Vec<Value>) -> McpResponse {
    let (mut answers, mut length) = (Vec::new(), 0);
    for message in batch {
        let id = messages::id_of(&message);
        let answer = match messages::misplaced(&message) {
            Some(error) => error.to_string().into(),
            None if length > MAX_BODY_BYTES => {
                let text = "the answers before this one are long enough; send this message again by itself";
                messages::failure(messages::SERVER_ERROR, text, id).to_string().into()
            }
            None => one_of_batch(app, service, (head, peer), message).await,
        };
        length += answer.len();
        answers.extend((!answer.is_empty()).then_some(answer));
    }
    if answers.is_empty() {
        let mut answer = Response::new(Full::default().boxed());
        *answer.status_mut() = StatusCode::ACCEPTED;
        return answer;
    }
    let mut body = Vec::with_capacity(length + answers.len() + 1);
    for (index, answer) in answers.iter().enumerate() {
        body.push(if index == 0 { b'[' } else { b',' });
        body.extend_from_slice(answer);
    }
    body.push(b']');
    json_body(StatusCode::OK, body.into())
}

/// The answer to one message of a batch, as JSON; empty for one that wants none.
async fn one_of_batch(app: &AppState, service: &McpService, (head, peer): (&Parts, IpAddr), message: Value) -> Bytes {
    let mut visit = ActiveRequest::begin(app, (&head.method, PATH, ""), Some(peer));
    let id = messages::id_of(&message);
    let failure = |code, text: &str| messages::failure(code, text, id.clone()).to_string().into();
    let mut head = head.clone();
    let outcome = match visit.admit(app, &head.headers).await {
        Ok(Ok(identity)) => {
            head.extensions.insert(identity);
            head.extensions.insert(visit.notes.clone());
            deliver(service, head, message.to_string().into()).await
        }
        Ok(Err(fault)) | Err(fault) => Err(fault),
    };
    let mut answer = outcome.unwrap_or_else(|fault| {
        let refusal = visit.refuse(&fault);
        let text = if reply::is_generic(fault.kind()) { reply::generic(&visit.id) } else { fault.message().to_owned() };
        let error = messages::failure(messages::SERVER_ERROR, &text, Value::Null);
        of_json(refusal.status(), &error)
    });
    let is_json = media_type(&answer) == media::JSON;
    visit.end(app, &mut answer);
    let (head, body) = answer.into_parts();
    let Ok(body) = body.collect().await;
    let body = body.to_bytes();
    match serde_json::from_slice::<Value>(&body) {
        _ if body.is_empty() => body,
        // An error of a request that was refused as a whole has no id of its own.
        Ok(mut error) if head.status.is_client_error() && error.get("jsonrpc").is_some() => {
            error["id"] = id;
            error.to_string().into()
        }
        Ok(error) if head.status.is_client_error() => {
            failure(messages::INVALID_REQUEST, error["error"].as_str().unwrap_or("the message is refused"))
        }
        _ if is_json => body,
        _ => failure(messages::SERVER_ERROR, "the answer is a stream, which a batch has no place for"),
    }
}

/// Whether an answer takes room while it is sent.
fn is_long(answer: &McpResponse) -> bool {
    answer.body().size_hint().exact().is_some_and(|length| length > PIECE as u64)
}

/// A long answer, in the room that the long answers of all have. Which messages only ask is not known here: what was done is told in any case.
async fn bounded(app: &AppState, answer: McpResponse) -> Result<warp::reply::Response, Fault> {
    let (head, body) = answer.into_parts();
    let Ok(content) = body.collect().await;
    let answer = warp::reply::Response::from_parts(head, content.to_bytes().into());
    app.bounded((Arc::clone(app.server.primary()), false), answer).await
}

/// What is refused by `rmcp` in plain text has the form of every other refusal (contract 7).
async fn in_words(answer: McpResponse) -> McpResponse {
    let is_refusal = answer.status().is_client_error() || answer.status().is_server_error();
    if media_type(&answer) == media::JSON || !is_refusal {
        return answer;
    }
    let (status, allow) = (answer.status(), answer.headers().get(ALLOW).cloned());
    let mut words = of_json(status, &json!({ "error": refusal(answer).await }));
    allow.into_iter().for_each(|allow| drop(words.headers_mut().insert(ALLOW, allow)));
    words
}

/// What `rmcp` says in plain text.
async fn refusal(answer: McpResponse) -> String {
    let Ok(text) = answer.into_body().collect().await;
    String::from_utf8_lossy(&text.to_bytes()).into_owned()
}

/// The same JSON as the one event of a stream. An answer without content stays as it is, and so does a refusal.
async fn as_events(answer: McpResponse) -> McpResponse {
    if media_type(&answer) != media::JSON || !answer.status().is_success() {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    let Ok(content) = body.collect().await;
    // JSON as it is written here has no line ends.
    let event = [b"event: message\ndata: ", &*content.to_bytes(), b"\n\n"].concat();
    head.headers.remove(names::CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media::EVENTS));
    head.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Response::from_parts(head, Full::from(event).boxed())
}

fn of_json(status: StatusCode, body: &Value) -> McpResponse {
    json_body(status, body.to_string().into())
}

fn json_body(status: StatusCode, body: Bytes) -> McpResponse {
    let mut answer = Response::new(Full::new(body).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
    answer
}

/// The media type of an answer, without its parameters.
fn media_type<B>(answer: &Response<B>) -> &str {
    let mime = answer.headers().get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok());
    mime.and_then(|mime| mime.split(';').next()).unwrap_or_default()
}

/// A request with its body in memory: read as every body is, bounded in size and time.
async fn read_whole(request: Request<Incoming>) -> Result<(Parts, Bytes), Fault> {
    use futures_util::TryStreamExt;
    let (head, body) = request.into_parts();
    let parts = TryStreamExt::map_err(body.into_data_stream(), |error| error.to_string());
    let body = read(UnreadBody::new(Box::pin(parts), &head.headers), MAX_BODY_BYTES, "the body").await?;
    Ok((head, body))
}
