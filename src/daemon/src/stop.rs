//! How a running command ends. The order is the code (architecture.md 8), and the reverse of the start.

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

/// How long the index may take to read what was accepted last; it goes on at the next start.
const INDEX_PATIENCE: Duration = Duration::from_secs(5);

/// Everything that runs, in the order it was started.
pub struct RunningServer {
    /// Last to end.
    pub root: OpenRoot,
    /// The kernel door: as many mounts as were asked for, and how others find us.
    pub mounts: Arc<RootMounts>,
    /// The HTTP door, if there is one.
    pub http: Option<HttpServer>,
    /// The protocols beside it.
    pub protocols: Vec<ServedProtocol>,
    /// How others ask for mounts, if they can.
    pub control: Option<ControlSocket>,
}

impl RunningServer {
    /// A root without any doors, and where it may be mounted.
    pub fn with(root: OpenRoot, outside: MountNamespace) -> Self {
        let mounts = RootMounts::of(root.server(), outside);
        Self { root, mounts, http: None, protocols: Vec::new(), control: None }
    }
}

/// The HTTP door, answering.
pub struct HttpServer {
    /// Ends when it has ended.
    pub task: JoinHandle<Result<(), svcfs_http::HttpError>>,
    /// Asks it to end.
    pub stop: CancellationToken,
}

/// Stops after `outcome`, and tells what went wrong first.
///
/// # Errors
/// The outcome's own, else those of [`stop`].
pub fn after(
    outcome: Result<(), CommandFailure>,
    running: RunningServer,
    listening: SignalRuntime,
) -> Result<(), CommandFailure> {
    let stopped = stop(running, &listening);
    // What still runs in the background (reading standard input, work of a connection that was cut off) is not waited for.
    listening.runtime.shutdown_background();
    match (outcome, stopped) {
        (Ok(()), stopped) => stopped,
        (Err(failure), Ok(())) => Err(failure),
        (Err(failure), Err(second)) => {
            tracing::error!("and while stopping: {}", second.told(true));
            Err(failure)
        }
    }
}

/// Finishes every accepted write and lets go of everything.
///
/// # Errors
/// The first thing that did not end as it should; everything else is stopped all the same.
fn stop(running: RunningServer, listening: &SignalRuntime) -> Result<(), CommandFailure> {
    let RunningServer { root, mounts, http, protocols, control } = running;
    let started = Instant::now();
    notify(&[NotifyState::Stopping, NotifyState::Status("finishing accepted writes")]);
    tracing::info!("stopping: finishing accepted writes; a second signal ends at once");
    drop(control);
    mounts.conceal();
    let accepting = http.map_or(Ok(()), |http| stop_http(http, listening)); // 1 no new requests, those in progress end
    let leaving = protocols.into_iter().map(|protocol| protocol.stop(listening)).collect::<Vec<_>>();
    let unmounting = mounts.stop(); // 2 unmount; what is open is published
    if let Err(fault) = root.index_to_cursor(INDEX_PATIENCE, || {}) {
        // 3 the index reads to the end, so that the next start has nothing to catch up on
        tracing::warn!(error = ?fault, "the index is left behind; it catches up at the next start");
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
    let ended = listening.runtime.block_on(http.task).context("the HTTP server died")?;
    ended.context("the HTTP server failed")?;
    Ok(())
}

/// Tells systemd, if that started us.
pub fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd could not be told");
    }
}
