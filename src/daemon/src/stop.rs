//! Stops a running command, in the reverse order of the start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use sd_notify::NotifyState;
use svcfs_mount::MountNamespace;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::control::ControlSocket;
use crate::failure::CommandFailure;
use crate::mounts::RootMounts;
use crate::protocols::ServedProtocol;
use crate::root::OpenRoot;
use crate::signals::SignalRuntime;

/// How long the index may take to read the last changes; it continues at the next start.
const INDEX_TIMEOUT: Duration = Duration::from_secs(5);

/// All running components, in the order of their start.
pub struct RunningServer {
    /// Stopped last.
    pub root: OpenRoot,
    /// The mounts and the announcement of the server.
    pub mounts: Arc<RootMounts>,
    /// The HTTP server, if there is one.
    pub http: Option<HttpServer>,
    /// The other protocol servers.
    pub protocols: Vec<ServedProtocol>,
    /// The control socket, if there is one.
    pub control: Option<ControlSocket>,
}

impl RunningServer {
    /// A root without protocols, and the namespace of its mounts.
    pub fn with(root: OpenRoot, outside: MountNamespace) -> Self {
        let mounts = RootMounts::new(root.server(), outside);
        Self { root, mounts, http: None, protocols: Vec::new(), control: None }
    }
}

/// The running HTTP server.
pub struct HttpServer {
    /// Completes when the server has ended.
    pub task: JoinHandle<Result<(), svcfs_http::HttpError>>,
    /// Requests the end.
    pub stop: CancellationToken,
}

/// Stops after `outcome` and returns the first failure.
///
/// # Errors
/// The failure of the outcome, else those of [`finish`].
pub fn after(
    outcome: Result<(), CommandFailure>,
    running: RunningServer,
    listening: SignalRuntime,
) -> Result<(), CommandFailure> {
    let stopped = finish(running, &listening);
    // Background work (reading standard input, work of an aborted connection) is not waited for.
    listening.runtime.shutdown_background();
    match (outcome, stopped) {
        (Ok(()), stopped) => stopped,
        (Err(failure), Ok(())) => Err(failure),
        (Err(failure), Err(second)) => {
            tracing::error!("and while stopping: {}", second.message(true));
            Err(failure)
        }
    }
}

/// Finishes all accepted writes and releases all resources.
///
/// # Errors
/// The first component that failed to stop; the others are stopped too.
pub fn finish(running: RunningServer, listening: &SignalRuntime) -> Result<(), CommandFailure> {
    let RunningServer { root, mounts, http, protocols, control } = running;
    let started = Instant::now();
    notify(&[NotifyState::Stopping, NotifyState::Status("finishing accepted writes")]);
    tracing::info!("stopping: finishing accepted writes; a second signal exits immediately");
    // 0 agents of other processes have their answers, and look for the next process of the root
    control.into_iter().for_each(|control| control.close(&listening.runtime));
    mounts.stop_and_withdraw();
    let accepting = http.map_or(Ok(()), |http| stop_http(http, listening)); // 1 no new requests, those in progress end
    let leaving = protocols.into_iter().map(|protocol| protocol.stop(listening)).collect::<Vec<_>>();
    let unmounting = mounts.stop(); // 2 unmount; what is open is published
    if let Err(fault) = root.index_to_cursor(INDEX_TIMEOUT, || {}) {
        // 3: the index reads to the end, so that the next start need not catch up
        tracing::warn!(error = ?fault, "the index is not up to date; it catches up at the next start");
    }
    let closing = root.close(); // 4 tasks end, 5 handles publish, the committer drains, databases close
    tracing::info!(took_ms = started.elapsed().as_millis() as u64, "stopped");
    accepting?;
    leaving.into_iter().collect::<Result<(), _>>()?;
    unmounting?;
    closing?;
    Ok(())
}

fn stop_http(http: HttpServer, listening: &SignalRuntime) -> Result<(), CommandFailure> {
    http.stop.cancel();
    let outcome = listening.runtime.block_on(http.task).context("the HTTP server died")?;
    outcome.context("the HTTP server failed")?;
    Ok(())
}

/// Notifies systemd, if it started this process.
pub fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd could not be notified");
    }
}
