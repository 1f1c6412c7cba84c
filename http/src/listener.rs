//! The accept loop: serves REST and MCP on one port and shuts down gracefully.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::ServerState;
use svcfs_listener::{ConnectionLimiter, ConnectionPermit};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use crate::app::AppState;
use crate::{HttpError, mcp, request_handler};

/// Maximum size of request line and headers, in bytes; the last read may exceed it.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Time to send the headers, and maximum idle time of a connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time in which a client reads nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for requests in progress to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after `accept` failed (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Ids of connections, unique in the process.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

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
    let limiter = ConnectionLimiter::default();
    let graceful = GracefulShutdown::new();
    let mcp_service = mcp::service(Arc::clone(&app));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let slot = limiter.wait_for_slot().await;
            (slot, listener.accept().await)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            (slot, accepted) = next => match (slot, accepted) {
                (Some(slot), Ok((stream, peer))) => {
                    let Some(permit) = limiter.admit(slot, peer.ip()) else {
                        tracing::debug!(%peer, "closed a connection: too many from its address");
                        continue;
                    };
                    let stream = (stream, peer.ip());
                    connections.spawn(serve_connection(stream, Arc::clone(&app), mcp_service.clone(), permit, graceful.watcher()));
                }
                (_, Err(error)) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                (None, Ok(_)) => break,
            },
        }
    }
    drop(listener);
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!(connections = connections.len(), "requests in progress were aborted: shutdown took too long");
    }
    connections.shutdown().await;
}

/// Serves one connection.
async fn serve_connection(
    (stream, peer): (TcpStream, IpAddr),
    app: Arc<AppState>,
    mcp_service: mcp::McpService,
    permit: ConnectionPermit,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _permit = permit;
    // Responses are written completely; waiting to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let rest_service = warp::service(request_handler::filter(
        Arc::clone(&app),
        (peer, NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed)),
    ));
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (app, mcp_service, mut rest_service) = (Arc::clone(&app), mcp_service.clone(), rest_service.clone());
        async move {
            let (started, method) = (Instant::now(), request.method().clone());
            let response: ListenerResponse = if let Err(fault) = svcfs_listener::validate_request(&request) {
                request_handler::reject_malformed(&app, &request, (&fault, peer)).map(boxed)
            } else if request.uri().path() == mcp::PATH {
                mcp::handle(&app, mcp_service, request, peer).await.map(boxed)
            } else {
                Service::call(&mut rest_service, request).await?.map(boxed)
            };
            let metrics = &app.server.metrics().requests;
            metrics.record_http_response(method.as_str(), response.status().as_u16(), started.elapsed());
            Ok::<ListenerResponse, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection failed");
    }
}

fn boxed<B>(body: B) -> UnsyncBoxBody<Bytes, ListenerError>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<ListenerError>,
{
    BodyExt::map_err(body, Into::into).boxed_unsync()
}
