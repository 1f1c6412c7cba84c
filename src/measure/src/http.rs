//! The smallest HTTP client that keeps its connections.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use svcfs_work::StopToken;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::machine::{self, ProcessMemory};
use crate::pages::RoundWork;
use crate::run::BenchRun;
use crate::series::MeasuredRound;
use crate::server::ServerProcess;

/// Timeout of every request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of names under which the writers write, in turn.
pub const ACTOR_COUNT: usize = 8;

/// A client with one persistent connection.
pub struct BenchClient {
    runtime: Runtime,
    connection: HttpConnection,
}

/// Concurrent writers.
#[derive(Debug, Clone, Copy)]
pub struct WriterCrowd {
    /// Number of clients, each with its own connection.
    pub clients: usize,
    /// Number of author names, used in turn.
    pub actors: usize,
    /// The writes.
    pub work: RoundWork,
}

/// Result of concurrent writers.
#[derive(Debug)]
pub struct CrowdResult {
    /// Latencies of the clients.
    pub round: MeasuredRound,
    /// Peak memory of the server.
    pub memory: ProcessMemory,
    /// Processor time of the server.
    pub cpu_time: Duration,
}

impl BenchClient {
    /// Connects.
    ///
    /// # Errors
    /// When no server listens there.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(HttpConnection::open(address))?;
        Ok(Self { runtime, connection })
    }

    /// Sends a GET request; returns the body of the response.
    ///
    /// # Errors
    /// On a timeout, or a response other than success.
    pub fn get(&mut self, target: &str) -> Result<Bytes> {
        self.runtime.block_on(self.connection.send("GET", target, "text/plain", Bytes::new()))
    }

    /// Sends a POST request with a JSON body; returns the body of the response.
    pub fn post(&mut self, target: &str, body: &Value) -> Result<Bytes> {
        let body = body.to_string().into();
        self.runtime.block_on(self.connection.send("POST", target, "application/json", body))
    }

    /// Sends a request with a JSON body as an actor; returns the body of the response.
    pub fn send_as(&mut self, actor: &str, method: &str, target: &str, body: &Value) -> Result<Bytes> {
        self.runtime.block_on(async {
            let request = self.connection.request(method, target).header("X-Actor", actor);
            let request = request.header("Content-Type", "application/json");
            self.connection.read_response(request.body(Full::new(body.to_string().into()))?).await
        })
    }

    /// Sends a PUT request with a file; returns the body of the response.
    pub fn put(&mut self, target: &str, content: impl Into<Bytes>) -> Result<Bytes> {
        self.runtime.block_on(self.connection.send("PUT", target, "application/octet-stream", content.into()))
    }

    /// Searches; returns at most `limit` paths, best first.
    pub fn search(&mut self, q: &str, limit: usize) -> Result<Vec<String>> {
        let target = format!("/api/svc/search?limit={limit}&q={}", percent_encode(q));
        let hits: Value = serde_json::from_slice(&self.get(&target)?)?;
        let hits = hits.as_array().context("a search did not answer with a list")?;
        Ok(hits.iter().filter_map(|hit| hit["path"].as_str().map(str::to_owned)).collect())
    }

    /// Writes several pages in one request, durably.
    pub fn write_many(&mut self, files: impl Iterator<Item = (String, String)>) -> Result<()> {
        let files: Vec<Value> = files.map(|(path, content)| json!({ "path": path, "content": content })).collect();
        let body = json!({ "files": files, "actor": "agent-0" }).to_string().into();
        self.runtime.block_on(self.connection.send("POST", "/api/svc/bulk", "application/json", body)).map(drop)
    }

    /// Writes one page, durably.
    pub fn write(&mut self, path: &str, text: String) -> Result<()> {
        self.runtime.block_on(self.connection.write(path, "agent-0", text))
    }
}

/// Rewrites pages throughout a tree, one request per write.
///
/// # Errors
/// When a write fails, or when the run is stopped.
pub fn write_all(run: &BenchRun, server: &ServerProcess, many_clients: WriterCrowd) -> Result<CrowdResult> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let cpu_before = machine::processor_time(server.pid())?;
    let peak = Arc::new(Mutex::new(server.memory()?));
    let round = runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..many_clients.clients {
            connections.push(HttpConnection::open(server.address()).await?);
        }
        let next = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        let started = Instant::now();
        let watcher = tokio::spawn(watch_peak_memory(server.pid(), Arc::clone(&peak)));
        for connection in connections {
            writers.spawn(write_until(connection, many_clients, Arc::clone(&next), run.stop_token().clone()));
        }
        let mut latencies = Vec::new();
        while let Some(writer) = writers.join_next().await {
            latencies.extend(writer??);
        }
        let elapsed = started.elapsed();
        watcher.abort();
        anyhow::Ok(MeasuredRound { latencies, elapsed })
    })?;
    run.check_stop()?;
    let memory = *peak.lock().map_err(|_| anyhow!("watching the server's memory failed"))?;
    Ok(CrowdResult { round, memory, cpu_time: machine::processor_time(server.pid())?.saturating_sub(cpu_before) })
}

async fn watch_peak_memory(process: u32, peak: Arc<Mutex<ProcessMemory>>) {
    let mut polls = tokio::time::interval(Duration::from_millis(50));
    loop {
        polls.tick().await;
        // The clients notice when the process ends.
        if let (Ok(memory), Ok(mut peak)) = (machine::memory(process), peak.lock())
            && memory.resident > peak.resident
        {
            *peak = memory;
        }
    }
}

async fn write_until(
    mut connection: HttpConnection,
    many_clients: WriterCrowd,
    next: Arc<AtomicUsize>,
    stop: StopToken,
) -> Result<Vec<Duration>> {
    let WriterCrowd { clients: _, actors, work: RoundWork { pages, bound, first_write: first } } = many_clients;
    let (started, mut latencies) = (Instant::now(), Vec::new());
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= bound.count || started.elapsed() >= bound.time || stop.is_requested() {
            return Ok(latencies);
        }
        let write = first + number;
        let (path, text) = pages.rewrite(write);
        let actor = format!("agent-{}", write % actors);
        let write_start = Instant::now();
        connection.write(&path, &actor, text).await?;
        latencies.push(write_start.elapsed());
    }
}

struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl HttpConnection {
    async fn open(address: SocketAddr) -> Result<Self> {
        ensure!(address.ip().is_loopback(), "`{address}` is not on this machine");
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the sender; its errors are reported by the requests.
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string() })
    }

    async fn write(&mut self, path: &str, actor: &str, text: String) -> Result<()> {
        let target = format!("/api/svc/file?path={}", percent_encode(path));
        let request = self.request("PUT", &target).header("X-Actor", actor).header("Content-Type", "text/markdown");
        self.read_response(request.body(Full::new(text.into()))?).await.map(drop)
    }

    async fn send(&mut self, method: &str, target: &str, kind: &str, body: Bytes) -> Result<Bytes> {
        let request = self.request(method, target).header("Content-Type", kind).body(Full::new(body))?;
        self.read_response(request).await
    }

    fn request(&self, method: &str, target: &str) -> hyper::http::request::Builder {
        Request::builder().method(method).uri(target).header("Host", &self.host)
    }

    async fn read_response(&mut self, request: Request<Full<Bytes>>) -> Result<Bytes> {
        let request_line = format!("{} {}", request.method(), request.uri());
        let read_response = async {
            self.sender.ready().await?;
            let response = self.sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        let (status, body) = tokio::time::timeout(REQUEST_TIMEOUT, read_response)
            .await
            .with_context(|| format!("{request_line}: no answer within {} s", REQUEST_TIMEOUT.as_secs()))??;
        if !status.is_success() {
            bail!("{request_line}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }
}

/// Encodes a text for a query string.
pub fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
