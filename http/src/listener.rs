//! The accept loop: connections in, warp and the agent protocol behind one port, a graceful end.

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

/// Longest head of a request (line and headers), in bytes; what is read in the same go as its last part may exceed it.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long a client may take to send a head, and how long a kept-alive connection may rest.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may take none of an answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// How long requests in progress may take once the server goes down.
const GRACE: Duration = Duration::from_secs(15);
/// The pause after the system refused to hand out a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Numbers connections, for the life of the process.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

type ListenerError = Box<dyn std::error::Error + Send + Sync>;
type ListenerResponse = http::Response<UnsyncBoxBody<Bytes, ListenerError>>;

/// Answers requests on a bound listener until `stop` is cancelled, then lets those in progress end (15 s at most, gaps.md 8). Event
/// streams end at once.
///
/// # Errors
/// [`Error::Routes`] when the catalogue is contradictory.
pub async fn serve(listener: TcpListener, server: Arc<ServerState>, stop: CancellationToken) -> Result<(), HttpError> {
    let app = AppState::new(CATALOGUE, server, stop.clone())?;
    accept(listener, app, stop).await;
    Ok(())
}

/// The accept loop.
pub(crate) async fn accept(listener: TcpListener, app: Arc<AppState>, stop: CancellationToken) {
    let crowd = ConnectionLimiter::default();
    let graceful = GracefulShutdown::new();
    let agents = mcp::service(Arc::clone(&app));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let room = crowd.wait_for_slot().await;
            (room, listener.accept().await)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            (room, accepted) = next => match (room, accepted) {
                (Some(room), Ok((stream, peer))) => {
                    let Some(place) = crowd.admit(room, peer.ip()) else {
                        tracing::debug!(%peer, "a connection was closed: there are too many from its address");
                        continue;
                    };
                    let stream = (stream, peer.ip());
                    connections.spawn(converse(stream, Arc::clone(&app), agents.clone(), place, graceful.watcher()));
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
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!(connections = connections.len(), "requests still in progress were cut off");
    }
    connections.shutdown().await;
}

/// One connection, to its end.
async fn converse(
    (stream, peer): (TcpStream, IpAddr),
    app: Arc<AppState>,
    agents: mcp::McpService,
    place: ConnectionPermit,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _held_to_the_end = place;
    // Answers are written whole; waiting to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_PATIENCE));
    let pages = warp::service(request_handler::filter(
        Arc::clone(&app),
        (peer, NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed)),
    ));
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (app, agents, mut pages) = (Arc::clone(&app), agents.clone(), pages.clone());
        async move {
            let (begun, method) = (Instant::now(), request.method().clone());
            let response: ListenerResponse = if let Err(fault) = svcfs_listener::validate_request(&request) {
                request_handler::misshapen(&app, &request, (&fault, peer)).map(boxed)
            } else if request.uri().path() == mcp::PATH {
                mcp::answer(&app, agents, request, peer).await.map(boxed)
            } else {
                Service::call(&mut pages, request).await?.map(boxed)
            };
            let measures = &app.server.metrics().requests;
            measures.record_http_response(method.as_str(), response.status().as_u16(), begun.elapsed());
            Ok::<ListenerResponse, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn boxed<B>(body: B) -> UnsyncBoxBody<Bytes, ListenerError>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<ListenerError>,
{
    BodyExt::map_err(body, Into::into).boxed_unsync()
}
