//! Control socket of a running server: other commands add mounts, reload keys and rebuild the
//! index.
//!
//! Only the user of the server and root may use the socket in the state directory. The server's
//! port is open to all local users, and a user who may mount could hide any directory of the
//! server's user. The protocol is HTTP: `POST /mounts`, `POST /keys` and `POST /indexes` with JSON.
//! SIGHUP is not enough for keys: the command must know whether the server loaded them.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_mount::MountNamespace;
use svcfs_store::StatePaths;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;
use crate::mounts::RootMounts;
use crate::reloading::SettingsReloader;
use crate::{client, indexing};

const SOCKET: &str = "control.sock";
const MOUNTS: &str = "/mounts";
const KEYS: &str = "/keys";
const INDEXES: &str = "/indexes";

/// Maximum request size in bytes: a path and a few flags.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

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
    /// None without HTTP, where no caller has a key.
    reloading: Option<Arc<SettingsReloader>>,
}

/// A request that was refused.
#[derive(Debug, Serialize, Deserialize)]
struct RefusedRequest {
    error: String,
}

/// The open socket; dropping it closes and removes the socket.
pub struct ControlSocket {
    path: PathBuf,
    accept_task: JoinHandle<()>,
}

/// Starts to answer; only the server that has the root lock may call this.
///
/// # Errors
/// When no socket can be created in the state directory.
pub fn listen(
    mounts: &Arc<RootMounts>,
    reloading: Option<Arc<SettingsReloader>>,
    root: &Path,
    runtime: &Runtime,
) -> Result<ControlSocket, CommandFailure> {
    let path = StatePaths::new(root).directory().join(SOCKET);
    let _guard = runtime.enter();
    let bound = bind(&path).with_context(|| format!("cannot create the socket `{}`", path.display()))?;
    let accept_task = runtime.spawn(accept(bound, ControlContext { mounts: Arc::clone(mounts), reloading }));
    Ok(ControlSocket { path, accept_task })
}

impl Drop for ControlSocket {
    #[expect(clippy::disallowed_methods, reason = "state of this process, no part of the tree")]
    fn drop(&mut self) {
        self.accept_task.abort();
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

async fn accept(listener: UnixListener, context: ControlContext) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, context.clone()))),
            Err(error) => {
                tracing::warn!(%error, "the control socket accepts no connections at the moment");
                // Wait until other connections have closed their descriptors.
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve(stream: UnixStream, context: ControlContext) {
    let refusal = refusal(&stream);
    let has_other_namespace = stream
        .peer_cred()
        .is_ok_and(|peer| peer.pid().is_some_and(|peer| sees_other_mounts(peer, context.mounts.outside())));
    let handler = service_fn(move |request: Request<Incoming>| {
        let context = context.clone();
        async move {
            match (refusal, request.uri().path()) {
                (Some(reason), _) => error(StatusCode::FORBIDDEN, reason),
                (None, MOUNTS) if has_other_namespace => error(StatusCode::FORBIDDEN, OTHER_NAMESPACE),
                (None, _) => handle(request, context).await,
            }
        }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), handler).await {
        tracing::debug!(%error, "a client of the control socket disconnected early");
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
    if ![MOUNTS, KEYS, INDEXES].contains(&path.as_str()) {
        return error(StatusCode::NOT_FOUND, &format!("unknown path; the socket has {MOUNTS}, {KEYS} and {INDEXES}"));
    }
    if request.method() != Method::POST {
        return error(StatusCode::METHOD_NOT_ALLOWED, "use POST");
    }
    let body = match Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(cause) => return error(StatusCode::BAD_REQUEST, &format!("the request cannot be read: {cause}")),
    };
    match path.as_str() {
        KEYS => keys(&body, context.reloading).await,
        INDEXES => index(&body, context.mounts).await,
        _ => mount(&body, context.mounts).await,
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

async fn keys(body: &[u8], reloading: Option<Arc<SettingsReloader>>) -> Result<Response<Full<Bytes>>, http::Error> {
    let Some(reloading) = reloading else {
        return error(StatusCode::SERVICE_UNAVAILABLE, "the server does not serve HTTP, so it has no keys");
    };
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

/// Whether a server of `root` answers on its control socket.
pub fn is_served(root: &Path) -> bool {
    let path = StatePaths::new(root).directory().join(SOCKET);
    short_path(&path).and_then(|(_directory, short)| std::os::unix::net::UnixStream::connect(short)).is_ok()
}

/// Lets the server of `root` mount it; returns the mountpoint with links resolved. None when no
/// server answers, or it is stopping.
///
/// # Errors
/// `Refused` or `Failed` with the message of the server; `Refused` when this user may not use it.
pub fn request_mount(root: &Path, mountpoint: &Path, flags: &MountFlags) -> Result<Option<PathBuf>, CommandFailure> {
    let request = MountRequest { mountpoint: mountpoint.to_owned(), flags: flags.clone() };
    let body = serde_json::to_vec(&request).map_err(|error| {
        CommandFailure::new(
            ExitStatus::Usage,
            anyhow::Error::new(error).context(format!("`{}` is not UTF-8 and cannot be sent", mountpoint.display())),
        )
    })?;
    let response: Option<MountResponse> = post(root, MOUNTS, body)?;
    Ok(response.map(|MountResponse { mountpoint }| mountpoint))
}

/// Lets the server of `root` reload its settings and report which of these keys are valid then.
/// None when no server answers, or the server has no keys.
///
/// # Errors
/// `Refused` with the message of the server when the reload fails.
pub fn reload_keys(root: &Path, ids: &[&str]) -> Result<Option<ReloadResponse>, CommandFailure> {
    let change = KeysChange { ids: ids.iter().map(|id| (*id).to_owned()).collect() };
    post(root, KEYS, serde_json::to_vec(&change).context("the request cannot be serialised")?)
}

/// Lets the server of `root` rebuild its search index, or compare it with a new one, and returns
/// the report. None when no server answers.
///
/// # Errors
/// `Failed` with the message of the server.
pub fn reindex(root: &Path, check: bool) -> Result<Option<Value>, CommandFailure> {
    post(root, INDEXES, serde_json::to_vec(&ReindexRequest { check }).context("the request cannot be serialised")?)
}

fn post<T: DeserializeOwned>(root: &Path, path: &str, body: Vec<u8>) -> Result<Option<T>, CommandFailure> {
    let socket = StatePaths::new(root).directory().join(SOCKET);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    runtime.block_on(async {
        let stream = match connect(&socket).await {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let message = format!(
                    "the server of `{}` runs as another user; only that user and root may use it",
                    root.display()
                );
                return Err(CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(error).context(message)));
            }
            // The server has just stopped.
            Err(_) if !is_served(root) => return Ok(None),
            Err(error) => return Err(anyhow::Error::new(error).context("the server cannot be reached").into()),
        };
        let request =
            Request::post(path).body(Full::new(Bytes::from(body))).context("the request cannot be serialised")?;
        let (status, body) = match client::exchange(stream, "svcfs", request).await {
            Ok(answer) => answer,
            // The server has just stopped.
            Err(_) if !is_served(root) => return Ok(None),
            Err(error) => return Err(error.context("the server closed the connection without an answer").into()),
        };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(client::refusal(status, &body));
        }
        Ok(Some(serde_json::from_slice(&body).context("the response of the server cannot be parsed")?))
    })
}

async fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_directory, short) = short_path(path)?;
    UnixStream::connect(short).await
}

#[cfg(test)]
mod tests {
    use svcfs_config::CliOverrides;

    use super::*;
    use crate::root::{OpenRoot, settings};

    #[test]
    fn a_mount_request_to_a_stopping_server_gets_no_server() {
        let root = tempfile::tempdir().unwrap();
        let served = OpenRoot::open(root.path(), settings(root.path(), None, CliOverrides::default()).unwrap(), false);
        let served = served.unwrap();
        let mounts = RootMounts::new(served.server(), MountNamespace::default());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let control = listen(&mounts, None, root.path(), &runtime).unwrap();
        assert!(mounts.stop_if_unmounted(), "nothing is mounted");
        let mountpoint = root.path().join("mountpoint");
        assert_eq!(request_mount(root.path(), &mountpoint, &MountFlags::default()).unwrap(), None);
        drop(control);
        served.close().unwrap();
    }

    /// Sends a request to a server that accepts it, does `then` with its socket and disconnects.
    fn request_while(
        root: &Path,
        then: impl FnOnce(UnixListener) + Send + 'static,
    ) -> Result<Option<PathBuf>, CommandFailure> {
        let state = StatePaths::new(root).directory().to_owned();
        fs::create_dir_all(&state).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let guard = runtime.enter();
        let listener = bind(&state.join(SOCKET)).unwrap();
        drop(guard);
        runtime.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            then(listener);
            drop(stream);
        });
        request_mount(root, &root.join("mountpoint"), &MountFlags::default())
    }

    #[test]
    fn a_server_that_stops_during_a_request_counts_as_no_server() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(request_while(root.path(), drop).unwrap(), None);
    }

    #[test]
    fn a_running_server_that_disconnects_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let (sender, listener) = std::sync::mpsc::channel();
        let failure = request_while(root.path(), move |listener| sender.send(listener).unwrap()).unwrap_err();
        assert!(failure.message(false).contains("closed the connection"), "{}", failure.message(false));
        drop(listener);
    }
}
