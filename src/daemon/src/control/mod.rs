//! Control socket of the process that has a root: other commands add mounts, reload keys, rebuild
//! the index, run operations, and connect agents.
//!
//! Only the user of the process and root may use the socket in the state directory. The server's
//! port is open to all local users, and a user who may mount could hide any directory of the
//! server's user. The protocol is HTTP with JSON: `POST /mounts`, `/keys`, `/indexes`,
//! `/operations` and `/release`; `/mcp` changes to a protocol of its own (see [`agents`]). SIGHUP
//! is not enough for keys: the command must know whether the server loaded them.

mod agents;
mod operations;
mod requests;

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use svcfs_http::{AgentConnections, StopReason};
use svcfs_mount::MountNamespace;
use svcfs_store::StatePaths;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::failure::{CommandFailure, ExitStatus};
use crate::indexing;
use crate::mounting::MountFlags;
use crate::mounts::RootMounts;
use crate::reloading::SettingsReloader;
use agents::ArrivingAgent;
pub use agents::connect as connect_agent;
pub use operations::{OperationRequest, OperationResponse};
pub use requests::{is_served, reindex, reload_keys, request_mount, request_release, run_operation};

const SOCKET: &str = "control.sock";
const MOUNTS: &str = "/mounts";
const KEYS: &str = "/keys";
const INDEXES: &str = "/indexes";
const OPERATIONS: &str = "/operations";
const RELEASE: &str = "/release";
const AGENTS: &str = "/mcp";

/// Maximum request size in bytes: a path and a few flags.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// Maximum size of an operation in bytes: that of `--input`, with escapes.
const MAX_OPERATION_BYTES: usize = 128 << 20;

/// Time between attempts to accept connections after a failure.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long agents and requests in flight may take when the socket is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

const OTHER_NAMESPACE: &str = "the server has another mount namespace, so its mounts are invisible to you (a container, or a \
                               unit with a private /tmp); mount from inside, or share the namespace";

/// A requested mount.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MountRequest {
    mountpoint: PathBuf,
    #[serde(rename = "manner")]
    flags: MountFlags,
}

/// A created mount.
#[derive(Debug, Serialize, Deserialize)]
struct MountResponse {
    mountpoint: PathBuf,
}

/// Ids of keys that were added to or removed from the settings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysChange {
    ids: Vec<String>,
}

/// A request to rebuild the index.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReindexRequest {
    /// Only compare.
    check: bool,
}

/// State of authentication after the settings were reloaded.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadResponse {
    /// The server's process.
    pub pid: u32,
    /// Whether it requires keys.
    #[serde(rename = "asks")]
    pub requires_key: bool,
    /// The valid ones of the given keys.
    pub ids: Vec<String>,
}

/// What the handlers need.
#[derive(Clone)]
struct ControlContext {
    mounts: Arc<RootMounts>,
    agents: AgentConnections,
    role: ControlRole,
}

/// What the process does for other commands.
#[derive(Clone)]
pub enum ControlRole {
    /// `svcfs serve`.
    Server(Arc<SettingsReloader>),
    /// `svcfs mount`: without HTTP, where no caller has a key.
    Mount,
    /// `svcfs mcp`: makes no mounts, because it ends with its agent, and hands the root over to a
    /// server when this token is cancelled.
    Agent(CancellationToken),
}

/// A request that was refused.
#[derive(Debug, Serialize, Deserialize)]
struct RefusedRequest {
    error: String,
}

/// The open socket; dropping it closes and removes the socket.
pub struct ControlSocket {
    path: PathBuf,
    agents: AgentConnections,
    stop: CancellationToken,
    accept_task: Option<JoinHandle<()>>,
}

/// The path of the socket of a root.
pub fn socket_path(root: &Path) -> PathBuf {
    StatePaths::new(root).directory().join(SOCKET)
}

/// Starts to answer; only the process that has the root lock may call this.
///
/// # Errors
/// When no socket can be created in the state directory.
pub fn listen(
    mounts: &Arc<RootMounts>,
    role: ControlRole,
    root: &Path,
    runtime: &Runtime,
) -> Result<ControlSocket, CommandFailure> {
    let path = socket_path(root);
    let _guard = runtime.enter();
    let agents = AgentConnections::new(Arc::clone(mounts.server())).map_err(anyhow::Error::new)?;
    let bound = bind(&path).with_context(|| format!("cannot create the socket `{}`", path.display()))?;
    let context = ControlContext { mounts: Arc::clone(mounts), agents: agents.clone(), role };
    let stop = CancellationToken::new();
    let accept_task = Some(runtime.spawn(accept(bound, context, stop.clone())));
    Ok(ControlSocket { path, agents, stop, accept_task })
}

impl ControlSocket {
    /// The agents that are connected, and that of this process.
    pub const fn agents(&self) -> &AgentConnections {
        &self.agents
    }

    /// Closes the socket after everything that was received is answered.
    pub fn close(mut self, runtime: &Runtime) {
        self.agents.stop(StopReason::Ended);
        self.stop.cancel();
        let Some(mut accept_task) = self.accept_task.take() else { return };
        let closed = async { tokio::time::timeout(CLOSE_TIMEOUT, &mut accept_task).await };
        if runtime.block_on(closed).is_err() {
            tracing::warn!("requests on the control socket are still in flight; their clients get no answer");
            accept_task.abort();
        }
    }
}

impl Drop for ControlSocket {
    #[expect(clippy::disallowed_methods, reason = "state of this process, no part of the tree")]
    fn drop(&mut self) {
        self.accept_task.iter().for_each(JoinHandle::abort);
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, "`{}` could not be removed", self.path.display());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "state of this process, no part of the tree")]
fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        // Left by a killed server.
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let (_directory, short) = short_path(path)?;
    let listener = UnixListener::bind(short)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// A path of at most 107 bytes (unix(7)) for a socket whose own path may be longer: the directory
/// is named by its descriptor, which must stay open.
fn short_path(path: &Path) -> io::Result<(File, PathBuf)> {
    let directory = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()));
    Ok((directory, short))
}

async fn accept(listener: UnixListener, context: ControlContext, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, context.clone(), stop.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "the control socket accepts no connections at the moment");
                    // Wait until other connections have closed their descriptors.
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve(stream: UnixStream, context: ControlContext, stop: CancellationToken) {
    let refusal = refusal(&stream);
    let has_other_namespace = stream
        .peer_cred()
        .is_ok_and(|peer| peer.pid().is_some_and(|peer| sees_other_mounts(peer, context.mounts.outside())));
    let arriving: Arc<Mutex<Option<ArrivingAgent>>> = Arc::default();
    let (agents, upgraded) = (context.agents.clone(), Arc::clone(&arriving));
    let handler = service_fn(move |request: Request<Incoming>| {
        let (context, arriving) = (context.clone(), Arc::clone(&arriving));
        async move {
            match (refusal, request.uri().path()) {
                (Some(reason), _) => error(StatusCode::FORBIDDEN, reason),
                (None, MOUNTS) if has_other_namespace => error(StatusCode::FORBIDDEN, OTHER_NAMESPACE),
                (None, AGENTS) => agents::accept(request, &context.agents, &arriving),
                (None, _) => handle(request, context).await,
            }
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), handler).with_upgrades();
    let mut connection = pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a client of the control socket disconnected early");
    }
    let agent = upgraded.lock().take();
    if let Some(agent) = agent {
        agent.serve(&agents).await;
    }
}

/// Why the peer is refused.
fn refusal(stream: &UnixStream) -> Option<&'static str> {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() != 0 && peer.uid() != nix::unistd::geteuid().as_raw() => {
            tracing::warn!(uid = peer.uid(), "refused a user on the control socket");
            Some("the server runs as another user; only that user and root may use its control socket")
        }
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(%error, "refused an unknown user on the control socket");
            Some("the server cannot identify the user")
        }
    }
}

/// Whether a process has another mount namespace (mount_namespaces(7)).
fn sees_other_mounts(process: i32, outside: &MountNamespace) -> bool {
    let (peer, own) = (fs::read_link(format!("/proc/{process}/ns/mnt")), outside.name());
    peer.is_ok_and(|peer| own.is_ok_and(|own| peer != own))
}

async fn handle(request: Request<Incoming>, context: ControlContext) -> Result<Response<Full<Bytes>>, http::Error> {
    let path = request.uri().path().to_owned();
    if ![MOUNTS, KEYS, INDEXES, OPERATIONS, RELEASE].contains(&path.as_str()) {
        let known = format!("{MOUNTS}, {KEYS}, {INDEXES}, {OPERATIONS}, {RELEASE} and {AGENTS}");
        return error(StatusCode::NOT_FOUND, &format!("unknown path; the socket has {known}"));
    }
    if request.method() != Method::POST {
        return error(StatusCode::METHOD_NOT_ALLOWED, "use POST");
    }
    let limit = if path == OPERATIONS { MAX_OPERATION_BYTES } else { MAX_REQUEST_BYTES };
    let body = match Limited::new(request.into_body(), limit).collect().await {
        Ok(body) => body.to_bytes(),
        Err(cause) => return error(StatusCode::BAD_REQUEST, &format!("the request cannot be read: {cause}")),
    };
    match (path.as_str(), context.role) {
        (KEYS, ControlRole::Server(reloading)) => keys(&body, reloading).await,
        (KEYS, ControlRole::Mount | ControlRole::Agent(_)) => {
            error(StatusCode::SERVICE_UNAVAILABLE, "the process does not serve HTTP, so it has no keys")
        }
        (INDEXES, _) => index(&body, context.mounts).await,
        (OPERATIONS, _) => operations::run(&body, Arc::clone(context.mounts.server())).await,
        (RELEASE, ControlRole::Agent(release)) => {
            release.cancel();
            json(StatusCode::ACCEPTED, &serde_json::json!({}))
        }
        (RELEASE, ControlRole::Server(_) | ControlRole::Mount) => {
            error(StatusCode::CONFLICT, "the process serves the root; stop it first")
        }
        (_, ControlRole::Agent(_)) => {
            error(StatusCode::SERVICE_UNAVAILABLE, "the process of an agent makes no mounts; it hands the root over")
        }
        (_, ControlRole::Server(_) | ControlRole::Mount) => mount(&body, context.mounts).await,
    }
}

async fn index(body: &[u8], mounts: Arc<RootMounts>) -> Result<Response<Full<Bytes>>, http::Error> {
    let ReindexRequest { check } = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(cause) => return error(StatusCode::BAD_REQUEST, &format!("invalid request: {cause}")),
    };
    let rebuild = move || {
        let space = mounts.server().primary();
        // Changes that are not indexed yet are not differences.
        space.wait_for_index(space.vfs.last_seq(), indexing::INDEX_TIMEOUT);
        indexing::rebuild(space, check, |_, _| ())
    };
    match tokio::task::spawn_blocking(rebuild).await {
        Ok(Ok(report)) => json(StatusCode::OK, &report),
        Ok(Err(failure)) => {
            error(StatusCode::INTERNAL_SERVER_ERROR, failure.message(false).trim_start_matches("svcfs: "))
        }
        Err(cause) => error(StatusCode::INTERNAL_SERVER_ERROR, &cause.to_string()),
    }
}

async fn mount(body: &[u8], mounts: Arc<RootMounts>) -> Result<Response<Full<Bytes>>, http::Error> {
    let MountRequest { mountpoint, flags } = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(cause) => return error(StatusCode::BAD_REQUEST, &format!("invalid request: {cause}")),
    };
    if !mountpoint.is_absolute() {
        return error(StatusCode::BAD_REQUEST, "`mountpoint` must start with `/`");
    }
    let target = Arc::clone(&mounts);
    match tokio::task::spawn_blocking(move || target.add(&mountpoint, flags)).await {
        Ok(Ok(mountpoint)) => json(StatusCode::OK, &MountResponse { mountpoint }),
        // The command waits until the server has stopped.
        Ok(Err(_)) if mounts.is_stopping() => error(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
        Ok(Err(failure)) if failure.exit() == ExitStatus::Refused => {
            error(StatusCode::CONFLICT, failure.message(false).trim_start_matches("svcfs: "))
        }
        Ok(Err(failure)) => {
            error(StatusCode::INTERNAL_SERVER_ERROR, failure.message(false).trim_start_matches("svcfs: "))
        }
        Err(cause) => error(StatusCode::INTERNAL_SERVER_ERROR, &cause.to_string()),
    }
}

async fn keys(body: &[u8], reloading: Arc<SettingsReloader>) -> Result<Response<Full<Bytes>>, http::Error> {
    let KeysChange { ids } = match serde_json::from_slice(body) {
        Ok(change) => change,
        Err(cause) => return error(StatusCode::BAD_REQUEST, &format!("invalid request: {cause}")),
    };
    // On a blocking thread: an identity provider may answer slowly.
    let reloaded = tokio::task::spawn_blocking(move || -> Result<ReloadResponse, String> {
        reloading.reload()?;
        let (requires_key, ids) = reloading.valid_keys(ids);
        Ok(ReloadResponse { pid: std::process::id(), requires_key, ids })
    });
    match reloaded.await {
        Ok(Ok(response)) => json(StatusCode::OK, &response),
        Ok(Err(refused)) => error(StatusCode::CONFLICT, &refused),
        Err(cause) => error(StatusCode::INTERNAL_SERVER_ERROR, &cause.to_string()),
    }
}

fn error(status: StatusCode, message: &str) -> Result<Response<Full<Bytes>>, http::Error> {
    json(status, &RefusedRequest { error: message.to_owned() })
}

fn json(status: StatusCode, body: &impl Serialize) -> Result<Response<Full<Bytes>>, http::Error> {
    // Only a path that is not UTF-8 cannot be serialised, and such a path cannot be requested.
    let body = serde_json::to_vec(body).unwrap_or_default();
    Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(Full::new(body.into()))
}

#[cfg(test)]
mod tests;
