//! Requests of other commands to the process that has a root.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use super::operations::{OperationRequest, OperationResponse};
use super::{
    INDEXES, KEYS, KeysChange, MOUNTS, MountRequest, MountResponse, OPERATIONS, RELEASE, ReindexRequest,
    ReloadResponse, short_path, socket_path,
};
use crate::client;
use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;

/// Whether a server of `root` answers on its control socket.
pub fn is_served(root: &Path) -> bool {
    is_listening(&socket_path(root))
}

fn is_listening(socket: &Path) -> bool {
    short_path(socket).and_then(|(_directory, short)| std::os::unix::net::UnixStream::connect(short)).is_ok()
}

/// Lets the server of `root` mount it; returns the mountpoint with links resolved. None when no
/// server answers, or it is stopping, or it makes no mounts.
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

/// Runs an operation in the process that has `root`. None when none answers; it has not run then.
///
/// # Errors
/// The refusal of the operation; `Failed` when the process does not answer, or ended before.
pub fn run_operation(root: &Path, request: &OperationRequest) -> Result<Option<OperationResponse>, CommandFailure> {
    let body = serde_json::to_vec(request).context("the request cannot be serialised")?;
    let response = async { post_async(root, OPERATIONS, body).await };
    // A process that was stopped by a signal does not answer.
    runtime()?.block_on(async {
        tokio::time::timeout(client::REQUEST_TIMEOUT, response).await.unwrap_or_else(|_| {
            let seconds = client::REQUEST_TIMEOUT.as_secs();
            let message = format!(
                "the process that uses `{}` did not answer within {seconds} s; `svcfs status` shows it",
                root.display()
            );
            Err(CommandFailure::saying(ExitStatus::Failed, message))
        })
    })
}

/// Lets the process of an agent hand `root` over; it does so soon. None when no process answers
/// within the timeout.
///
/// # Errors
/// `Refused` for every other process; a server keeps its root.
pub fn request_release(root: &Path, timeout: Duration) -> Result<Option<()>, CommandFailure> {
    let response = async { post_async::<Value>(root, RELEASE, json!({}).to_string().into_bytes()).await };
    let response = runtime()?.block_on(async { tokio::time::timeout(timeout, response).await });
    // A process that was stopped by a signal does not answer.
    Ok(response.unwrap_or(Ok(None))?.map(drop))
}

fn post<T: DeserializeOwned>(root: &Path, path: &str, body: Vec<u8>) -> Result<Option<T>, CommandFailure> {
    runtime()?.block_on(post_async(root, path, body))
}

fn runtime() -> anyhow::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the asynchronous runtime cannot be started")
}

async fn post_async<T: DeserializeOwned>(root: &Path, path: &str, body: Vec<u8>) -> Result<Option<T>, CommandFailure> {
    let socket = socket_path(root);
    let Some(stream) = connect(root, &socket).await? else { return Ok(None) };
    let request = Request::post(path).body(Full::new(Bytes::from(body))).context("the request cannot be serialised")?;
    let (status, body) = match client::exchange(stream, "svcfs", request).await {
        Ok(answer) => answer,
        // The server has just stopped. An operation may have run.
        Err(_) if path != OPERATIONS && !is_listening(&socket) => return Ok(None),
        Err(error) => return Err(error.context("the server closed the connection without an answer").into()),
    };
    if status == StatusCode::SERVICE_UNAVAILABLE && path != OPERATIONS {
        return Ok(None);
    }
    if !status.is_success() {
        return Err(client::refusal(status, &body));
    }
    Ok(Some(serde_json::from_slice(&body).context("the response of the server cannot be parsed")?))
}

/// Connects to the process that has a root; none when no process listens.
///
/// # Errors
/// `Refused` when this user may not use the socket.
pub(super) async fn connect(root: &Path, socket: &Path) -> Result<Option<UnixStream>, CommandFailure> {
    let connected = async {
        let (_directory, short) = short_path(socket)?;
        UnixStream::connect(short).await
    };
    match connected.await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let message = format!(
                "the process that uses `{}` runs as another user; only that user and root may use it",
                root.display()
            );
            Err(CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(error).context(message)))
        }
        // The server has just stopped.
        Err(_) if !is_listening(socket) => Ok(None),
        Err(error) => Err(anyhow::Error::new(error).context("the server cannot be reached").into()),
    }
}
