//! Serves REST and MCP on one port.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::ServerState;
use svcfs_listener::ClientConnection;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use crate::app::AppState;
use crate::{HttpError, mcp, request_handler};

type ListenerError = Box<dyn std::error::Error + Send + Sync>;
type ListenerResponse = http::Response<UnsyncBoxBody<Bytes, ListenerError>>;

/// Serves a bound listener until `stop` is cancelled, then waits up to 15 s for requests in
/// progress. Event streams end immediately.
///
/// # Errors
/// [`HttpError::Routes`] when two operations have the same route.
pub async fn serve(listener: TcpListener, server: Arc<ServerState>, stop: CancellationToken) -> Result<(), HttpError> {
    let app = AppState::new(CATALOGUE, server, stop.clone())?;
    accept(listener, app, stop).await;
    Ok(())
}

pub(crate) async fn accept(listener: TcpListener, app: Arc<AppState>, stop: CancellationToken) {
    let mcp_service = mcp::service(Arc::clone(&app));
    svcfs_listener::serve(listener, stop, move |connection| {
        let (app, mcp_service) = (Arc::clone(&app), mcp_service.clone());
        // warp composes the filter once for each connection, not for each request.
        let rest_service = warp::service(request_handler::filter(Arc::clone(&app), connection));
        move |request| {
            let (app, mcp_service, mut rest_service) = (Arc::clone(&app), mcp_service.clone(), rest_service.clone());
            let rest = |request| async move {
                let Ok(response) = rest_service.call(request).await;
                response.map(boxed)
            };
            async move { answer(&app, mcp_service, (request, connection), rest).await }
        }
    })
    .await;
}

/// Answers one request and counts the response.
async fn answer<F: Future<Output = ListenerResponse>>(
    app: &AppState,
    mcp_service: mcp::McpService,
    (request, connection): (http::Request<Incoming>, ClientConnection),
    rest: impl FnOnce(http::Request<Incoming>) -> F,
) -> ListenerResponse {
    let (started, method) = (Instant::now(), request.method().clone());
    let response = if let Err(fault) = svcfs_listener::validate_request(&request) {
        request_handler::reject_malformed(app, &request, (&fault, connection.peer)).map(boxed)
    } else if mcp::is_endpoint(request.uri().path()) {
        mcp::handle(app, mcp_service, request, connection.peer).await.map(boxed)
    } else {
        rest(request).await
    };
    app.server.metrics().requests.record_http_response(method.as_str(), response.status().as_u16(), started.elapsed());
    response
}

fn boxed<B>(body: B) -> UnsyncBoxBody<Bytes, ListenerError>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<ListenerError>,
{
    BodyExt::map_err(body, Into::into).boxed_unsync()
}
