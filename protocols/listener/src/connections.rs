//! The accept loop of all protocols over HTTP, with a graceful stop.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use crate::connection_limiter::{ConnectionLimiter, ConnectionPermit};

/// Longest request head (line and headers), in bytes; the last read may exceed it.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Longest time for sending a head, and for idling on a kept-alive connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time in which a client takes none of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for requests in progress after the stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after `accept` failed (out of file descriptors).
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The next [`ClientConnection::id`].
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// A connection of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientConnection {
    /// Address of the client.
    pub peer: IpAddr,
    /// Unique in the process.
    pub id: u64,
}

/// Answers requests on a bound listener until `stop` is cancelled; then waits up to 15 s for
/// requests in progress. `connect` makes the function that answers the requests of one connection.
pub async fn serve<C, A, F, B>(listener: TcpListener, stop: CancellationToken, connect: C)
where
    C: Fn(ClientConnection) -> A,
    A: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + fmt::Debug,
{
    let limiter = ConnectionLimiter::default();
    let graceful = GracefulShutdown::new();
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
                        tracing::debug!(%peer, "connection closed: too many from this address");
                        continue;
                    };
                    let id = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
                    let answer = connect(ClientConnection { peer: peer.ip(), id });
                    connections.spawn(serve_connection(stream, answer, permit, graceful.watcher()));
                }
                (_, Err(error)) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
                (None, Ok(_)) => break,
            },
        }
    }
    drop(listener);
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!(connections = connections.len(), "requests still in progress were aborted");
    }
    connections.shutdown().await;
}

/// Serves one connection to its end.
async fn serve_connection<A, F, B>(stream: TcpStream, answer: A, permit: ConnectionPermit, watcher: Watcher)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let _permit = permit;
    // Responses are written in full; waiting to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let service = service_fn(move |request| {
        let response = answer(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}
