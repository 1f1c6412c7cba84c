//! The accept loop: connections in, each served to its end, a graceful stop.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
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

/// Answers requests, each with the address it comes from, on a bound listener until `stop` is cancelled, then lets those in progress end (15 s at most, gaps.md 8).
pub async fn serve<A, F, B>(listener: TcpListener, stop: CancellationToken, answer: A)
where
    A: Fn(Request<Incoming>, IpAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + fmt::Debug,
{
    let crowd = ConnectionLimiter::default();
    let graceful = GracefulShutdown::new();
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
                    connections.spawn(converse(stream, answer.clone(), place, graceful.watcher()));
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
async fn converse<A, F, B>((stream, peer): (TcpStream, IpAddr), answer: A, place: ConnectionPermit, watcher: Watcher)
where
    A: Fn(Request<Incoming>, IpAddr) -> F,
    F: Future<Output = Response<B>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let _held_to_the_end = place;
    // Answers are written whole; waiting to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_PATIENCE));
    let service = service_fn(move |request| {
        let answering = answer(request, peer);
        async move { Ok::<_, Infallible>(answering.await) }
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
