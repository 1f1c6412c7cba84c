//! The smallest HTTP client that keeps its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::machine;
use crate::measure::{Bound, Round};
use crate::pages::Pages;

/// Nothing that is asked here may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writers take turns under so many names.
pub const ACTORS: usize = 8;

/// One who asks a server, over one kept connection.
pub struct Client {
    runtime: Runtime,
    connection: Connection,
}

/// Many who write at once.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    /// How many, each over a connection of its own.
    pub clients: usize,
    /// When they stop.
    pub bound: Bound,
    /// How many writes came before: no content is written twice.
    pub first: usize,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(Connection::open(address))?;
        Ok(Self { runtime, connection })
    }

    /// Asks; the body of the answer.
    ///
    /// # Errors
    /// When no answer comes, or one that is no success.
    pub fn get(&mut self, target: &str) -> Result<Bytes> {
        self.runtime.block_on(self.connection.send("GET", target, "", Bytes::new()))
    }

    /// Paths of the pages that a search finds, best first.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn search(&mut self, q: &str) -> Result<Vec<String>> {
        let target = format!("/api/svc/search?limit=50&q={}", encoded(q));
        let hits: Value = serde_json::from_slice(&self.get(&target)?)?;
        let hits = hits.as_array().context("a search did not answer with a list")?;
        Ok(hits.iter().filter_map(|hit| hit["path"].as_str().map(str::to_owned)).collect())
    }

    /// Writes one page, durably.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn write(&mut self, path: &str, text: String) -> Result<()> {
        self.runtime.block_on(self.connection.write(path, "agent-0", text))
    }
}

/// Rewrites pages all over a tree, each write a request of its own; beside what was measured, the most memory that process
/// `watched` had meanwhile, in bytes.
///
/// # Errors
/// When a single write is refused.
pub fn write_all(address: SocketAddr, pages: Pages, crowd: Crowd, watched: u32) -> Result<(Round, u64)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..crowd.clients {
            connections.push(Connection::open(address).await?);
        }
        let next = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        let started = Instant::now();
        let most = Arc::new(AtomicU64::new(0));
        let watching = tokio::spawn(most_memory(watched, Arc::clone(&most)));
        for connection in connections {
            writers.spawn(write_until(connection, pages, crowd, Arc::clone(&next)));
        }
        let mut latencies = Vec::new();
        while let Some(writer) = writers.join_next().await {
            latencies.extend(writer??);
        }
        let elapsed = started.elapsed();
        watching.abort();
        Ok((Round { latencies, elapsed }, most.load(Ordering::Relaxed)))
    })
}

async fn most_memory(process: u32, most: Arc<AtomicU64>) {
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    loop {
        looks.tick().await;
        // A process that is gone is noticed by those who talk to it.
        if let Ok(memory) = machine::memory(process) {
            most.fetch_max(memory.resident, Ordering::Relaxed);
        }
    }
}

async fn write_until(
    mut connection: Connection,
    pages: Pages,
    crowd: Crowd,
    next: Arc<AtomicUsize>,
) -> Result<Vec<Duration>> {
    let (started, mut latencies) = (Instant::now(), Vec::new());
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= crowd.bound.count || started.elapsed() >= crowd.bound.time {
            return Ok(latencies);
        }
        let write = crowd.first + number;
        let page = pages.scattered(write);
        let (path, text) = (pages.path(page), pages.text(page, write + 1));
        let actor = format!("agent-{}", write % ACTORS);
        let begun = Instant::now();
        connection.write(&path, &actor, text).await?;
        latencies.push(begun.elapsed());
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self> {
        ensure!(address.ip().is_loopback(), "`{address}` is not on this machine");
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the sender; what it fails of, requests fail of too.
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string() })
    }

    async fn write(&mut self, path: &str, actor: &str, text: String) -> Result<()> {
        let target = format!("/api/svc/file?path={}", encoded(path));
        self.send("PUT", &target, actor, text.into()).await.map(drop)
    }

    async fn send(&mut self, method: &str, target: &str, actor: &str, body: Bytes) -> Result<Bytes> {
        let mut request = hyper::Request::builder().method(method).uri(target).header("Host", &self.host);
        if !actor.is_empty() {
            request = request.header("X-Actor", actor).header("Content-Type", "text/markdown");
        }
        let request = request.body(Full::new(body))?;
        let answered = async {
            self.sender.ready().await?;
            let response = self.sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        let (status, body) = tokio::time::timeout(PATIENCE, answered)
            .await
            .with_context(|| format!("{method} {target}: no answer within {} s", PATIENCE.as_secs()))??;
        if !status.is_success() {
            bail!("{method} {target}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }
}

/// A text as it may stand in a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
