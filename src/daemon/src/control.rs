//! What other processes of this machine ask a running server for: to mount its root at one more place, to take up keys that were made or
//! revoked, and to make its search index anew.
//!
//! They ask over a socket in the state directory, which the server's user and root may use and nobody else. Why not over the
//! server's port? Because everybody on the machine reaches that one, and whoever may mount may hide any directory of the server's
//! user. It is HTTP all the same: `POST /mounts`, `POST /keys` and `POST /indexes` with JSON both ways. Why not SIGHUP for keys? Because whoever made one is to know
//! whether it holds.

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

/// The longest request, in bytes: a path and a few flags.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

const ELSEWHERE: &str = "the server has mounts of its own that you would not see (a container, or a unit with a private /tmp); \
                         mount from inside, or let it share them";

/// A mount that is wanted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MountRequest {
    mountpoint: PathBuf,
    manner: MountFlags,
}

/// A mount that was made.
#[derive(Debug, Serialize, Deserialize)]
struct MountResponse {
    mountpoint: PathBuf,
}

/// Keys that were written down or taken out of the settings, by their ids.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysChange {
    ids: Vec<String>,
}

/// An index that is wanted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReindexRequest {
    /// Only compare.
    check: bool,
}

/// What holds once the settings were read again.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadResponse {
    /// The server's process.
    pub pid: u32,
    /// Whether it asks for keys at all.
    pub asks: bool,
    /// Which of the keys open it.
    pub ids: Vec<String>,
}

/// What is asked for here.
#[derive(Clone)]
struct ControlContext {
    mounts: Arc<RootMounts>,
    /// None where there is no HTTP, and nobody with a key.
    reloading: Option<Arc<SettingsReloader>>,
}

/// A request that was refused.
#[derive(Debug, Serialize, Deserialize)]
struct RefusedRequest {
    error: String,
}

/// The socket, for as long as this process answers.
pub struct ControlSocket {
    path: PathBuf,
    answering: JoinHandle<()>,
}

/// Begins to answer; only the server that has the root may call this.
///
/// # Errors
/// When no socket can be made in the state directory.
pub fn listen(
    mounts: &Arc<RootMounts>,
    reloading: Option<Arc<SettingsReloader>>,
    root: &Path,
    runtime: &Runtime,
) -> Result<ControlSocket, CommandFailure> {
    let path = StatePaths::new(root).directory().join(SOCKET);
    let _inside = runtime.enter();
    let bound = bind(&path).with_context(|| format!("cannot make the socket `{}`", path.display()))?;
    let answering = runtime.spawn(accept(bound, ControlContext { mounts: Arc::clone(mounts), reloading }));
    Ok(ControlSocket { path, answering })
}

impl Drop for ControlSocket {
    #[expect(clippy::disallowed_methods, reason = "state of this process, no part of the tree")]
    fn drop(&mut self) {
        self.answering.abort();
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
        // A killed server's.
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let (_directory, short) = short(path)?;
    let listener = UnixListener::bind(short)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// A socket's path is at most 107 bytes long (unix(7)), a root's may be longer: the directory is named by its descriptor, which must be
/// open meanwhile.
fn short(path: &Path) -> io::Result<(File, PathBuf)> {
    let directory = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()));
    Ok((directory, short))
}

async fn accept(listener: UnixListener, protocols: ControlContext) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, protocols.clone()))),
            Err(error) => {
                tracing::warn!(%error, "nobody can ask for mounts at the moment");
                // Descriptors that ran out come back when others close theirs.
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve(stream: UnixStream, protocols: ControlContext) {
    let refusal = refusal(&stream);
    let is_elsewhere = stream
        .peer_cred()
        .is_ok_and(|peer| peer.pid().is_some_and(|peer| sees_other_mounts(peer, protocols.mounts.outside())));
    let answer = service_fn(move |request: Request<Incoming>| {
        let protocols = protocols.clone();
        async move {
            match (refusal, request.uri().path()) {
                (Some(why), _) => told(StatusCode::FORBIDDEN, why),
                (None, MOUNTS) if is_elsewhere => told(StatusCode::FORBIDDEN, ELSEWHERE),
                (None, _) => answer(request, protocols).await,
            }
        }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(%error, "somebody who asked for something broke off the conversation");
    }
}

/// Why whoever is at the other end is not answered.
fn refusal(stream: &UnixStream) -> Option<&'static str> {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() != 0 && peer.uid() != nix::unistd::geteuid().as_raw() => {
            tracing::warn!(uid = peer.uid(), "a user asked for what only the server's user may");
            Some("the server is another user's: only that user and root may ask it")
        }
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(%error, "somebody unknown asked for what only the server's user may");
            Some("the server cannot tell who you are")
        }
    }
}

/// Whether a process would not see what this one mounts (mount_namespaces(7)).
fn sees_other_mounts(process: i32, outside: &MountNamespace) -> bool {
    let (theirs, ours) = (fs::read_link(format!("/proc/{process}/ns/mnt")), outside.name());
    theirs.is_ok_and(|theirs| ours.is_ok_and(|ours| theirs != ours))
}

async fn answer(request: Request<Incoming>, protocols: ControlContext) -> Result<Response<Full<Bytes>>, http::Error> {
    let path = request.uri().path().to_owned();
    if ![MOUNTS, KEYS, INDEXES].contains(&path.as_str()) {
        return told(
            StatusCode::NOT_FOUND,
            &format!("there are {MOUNTS}, {KEYS} and {INDEXES} here, and nothing else"),
        );
    }
    if request.method() != Method::POST {
        return told(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered");
    }
    let body = match Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return told(StatusCode::BAD_REQUEST, &format!("the request cannot be read: {error}")),
    };
    match path.as_str() {
        KEYS => keys(&body, protocols.reloading).await,
        INDEXES => index(&body, protocols.mounts).await,
        _ => mount(&body, protocols.mounts).await,
    }
}

async fn index(body: &[u8], mounts: Arc<RootMounts>) -> Result<Response<Full<Bytes>>, http::Error> {
    let ReindexRequest { check } = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(error) => {
            return told(StatusCode::BAD_REQUEST, &format!("the server does not know such an index: {error}"));
        }
    };
    let made = move || {
        let space = mounts.server().primary();
        // What it has not read yet is no fault of the old one.
        space.wait_for_index(space.vfs.last_seq(), indexing::PATIENCE);
        indexing::made_anew(space, check, |_, _| ())
    };
    match tokio::task::spawn_blocking(made).await {
        Ok(Ok(report)) => json(StatusCode::OK, &report),
        Ok(Err(failure)) => told(StatusCode::INTERNAL_SERVER_ERROR, failure.told(false).trim_start_matches("svcfs: ")),
        Err(error) => told(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn mount(body: &[u8], mounts: Arc<RootMounts>) -> Result<Response<Full<Bytes>>, http::Error> {
    let MountRequest { mountpoint, manner } = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(error) => return told(StatusCode::BAD_REQUEST, &format!("the server does not know such a mount: {error}")),
    };
    if !mountpoint.is_absolute() {
        return told(StatusCode::BAD_REQUEST, "`mountpoint` must begin with `/`");
    }
    let asked = Arc::clone(&mounts);
    match tokio::task::spawn_blocking(move || asked.add(&mountpoint, manner)).await {
        Ok(Ok(mountpoint)) => json(StatusCode::OK, &MountResponse { mountpoint }),
        // Whoever asked waits for the end.
        Ok(Err(_)) if mounts.is_stopping() => told(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
        Ok(Err(failure)) if failure.exit() == ExitStatus::Refused => {
            told(StatusCode::CONFLICT, failure.told(false).trim_start_matches("svcfs: "))
        }
        Ok(Err(failure)) => told(StatusCode::INTERNAL_SERVER_ERROR, failure.told(false).trim_start_matches("svcfs: ")),
        Err(error) => told(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn keys(body: &[u8], reloading: Option<Arc<SettingsReloader>>) -> Result<Response<Full<Bytes>>, http::Error> {
    let Some(reloading) = reloading else {
        return told(StatusCode::SERVICE_UNAVAILABLE, "nobody comes here with a key");
    };
    let KeysChange { ids } = match serde_json::from_slice(body) {
        Ok(changed) => changed,
        Err(error) => return told(StatusCode::BAD_REQUEST, &format!("the server does not know such keys: {error}")),
    };
    // Elsewhere: an identity provider may take its time to answer.
    let held = tokio::task::spawn_blocking(move || -> Result<ReloadResponse, String> {
        reloading.now()?;
        let (asks, ids) = reloading.good_of(ids);
        Ok(ReloadResponse { pid: std::process::id(), asks, ids })
    });
    match held.await {
        Ok(Ok(held)) => json(StatusCode::OK, &held),
        Ok(Err(refused)) => told(StatusCode::CONFLICT, &refused),
        Err(error) => told(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn told(status: StatusCode, error: &str) -> Result<Response<Full<Bytes>>, http::Error> {
    json(status, &RefusedRequest { error: error.to_owned() })
}

fn json(status: StatusCode, body: &impl Serialize) -> Result<Response<Full<Bytes>>, http::Error> {
    // Only a path that is not UTF-8 cannot be written, and such a one was not read either.
    let body = serde_json::to_vec(body).unwrap_or_default();
    Response::builder().status(status).header(CONTENT_TYPE, "application/json").body(Full::new(body.into()))
}

/// Whether a server has `root` that may be asked.
pub fn is_there(root: &Path) -> bool {
    let path = StatePaths::new(root).directory().join(SOCKET);
    short(&path).and_then(|(_directory, short)| std::os::unix::net::UnixStream::connect(short)).is_ok()
}

/// Asks the server that has `root` to mount it; where it is mounted then, without links. None when no server answers, or it is ending.
///
/// # Errors
/// `Refused` or `Failed` in the server's own words; `Refused` when this user may not ask.
pub fn ask(root: &Path, mountpoint: &Path, manner: &MountFlags) -> Result<Option<PathBuf>, CommandFailure> {
    let wanted = MountRequest { mountpoint: mountpoint.to_owned(), manner: manner.clone() };
    let body = serde_json::to_vec(&wanted).map_err(|error| {
        CommandFailure::new(
            ExitStatus::Usage,
            anyhow::Error::new(error).context(format!("`{}` is no name that can be sent", mountpoint.display())),
        )
    })?;
    let answer: Option<MountResponse> = post(root, MOUNTS, body)?;
    Ok(answer.map(|MountResponse { mountpoint }| mountpoint))
}

/// Lets the server that has `root` read its settings again, and tell which of these keys open it then. None when no server answers, or nobody comes
/// to it with keys.
///
/// # Errors
/// `Refused` when it does not take them up, in its own words.
pub fn take_up_keys(root: &Path, ids: &[&str]) -> Result<Option<ReloadResponse>, CommandFailure> {
    let changed = KeysChange { ids: ids.iter().map(|id| (*id).to_owned()).collect() };
    post(root, KEYS, serde_json::to_vec(&changed).context("the request cannot be written")?)
}

/// Lets the server that has `root` make its search index anew, or only compare it with a new one, while it answers questions; what it found. None
/// when no server answers.
///
/// # Errors
/// `Failed` in its own words.
pub fn index_anew(root: &Path, check: bool) -> Result<Option<Value>, CommandFailure> {
    post(root, INDEXES, serde_json::to_vec(&ReindexRequest { check }).context("the request cannot be written")?)
}

fn post<T: DeserializeOwned>(root: &Path, place: &str, body: Vec<u8>) -> Result<Option<T>, CommandFailure> {
    let path = StatePaths::new(root).directory().join(SOCKET);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    runtime.block_on(async {
        let stream = match connect(&path).await {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let told =
                    format!("the server of `{}` is another user's: only that user and root may ask it", root.display());
                return Err(CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(error).context(told)));
            }
            // It ended in this moment.
            Err(_) if !is_there(root) => return Ok(None),
            Err(error) => return Err(anyhow::Error::new(error).context("the server cannot be asked").into()),
        };
        let request =
            Request::post(place).body(Full::new(Bytes::from(body))).context("the request cannot be written")?;
        let (status, body) = match client::converse(stream, "svcfs", request).await {
            Ok(answer) => answer,
            // It ended in this moment.
            Err(_) if !is_there(root) => return Ok(None),
            Err(error) => return Err(error.context("the server broke off the conversation").into()),
        };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(client::refusal(status, &body));
        }
        Ok(Some(serde_json::from_slice(&body).context("the server's answer cannot be read")?))
    })
}

async fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_directory, short) = short(path)?;
    UnixStream::connect(short).await
}

#[cfg(test)]
mod tests {
    use svcfs_config::CliOverrides;

    use super::*;
    use crate::root::{OpenRoot, settings};

    #[test]
    fn who_asks_for_a_mount_when_the_last_one_is_over_waits_for_the_end() {
        let root = tempfile::tempdir().unwrap();
        let served = OpenRoot::open(root.path(), settings(root.path(), None, CliOverrides::default()).unwrap(), false);
        let served = served.unwrap();
        let mounts = RootMounts::of(served.server(), MountNamespace::default());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let control = listen(&mounts, None, root.path(), &runtime).unwrap();
        assert!(mounts.conceal_if_none(), "nothing is mounted");
        let place = root.path().join("mountpoint");
        assert_eq!(ask(root.path(), &place, &MountFlags::default()).unwrap(), None);
        drop(control);
        served.close().unwrap();
    }

    /// What is told to who asks a server that takes the question, does `then` with its socket and breaks off.
    fn asked_meanwhile(
        root: &Path,
        then: impl FnOnce(UnixListener) + Send + 'static,
    ) -> Result<Option<PathBuf>, CommandFailure> {
        let state = StatePaths::new(root).directory().to_owned();
        fs::create_dir_all(&state).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let inside = runtime.enter();
        let listener = bind(&state.join(SOCKET)).unwrap();
        drop(inside);
        runtime.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            then(listener);
            drop(stream);
        });
        ask(root, &root.join("mountpoint"), &MountFlags::default())
    }

    #[test]
    fn a_server_that_ends_while_it_is_asked_for_a_mount_is_as_good_as_none() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(asked_meanwhile(root.path(), drop).unwrap(), None);
    }

    #[test]
    fn a_server_that_breaks_off_and_is_still_there_is_told_of() {
        let root = tempfile::tempdir().unwrap();
        let (keeper, kept) = std::sync::mpsc::channel();
        let failure = asked_meanwhile(root.path(), move |listener| keeper.send(listener).unwrap()).unwrap_err();
        assert!(failure.told(false).contains("broke off the conversation"), "{}", failure.told(false));
        drop(kept);
    }
}
