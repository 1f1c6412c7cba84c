//! Signals to a running command.
//!
//! SIGINT and SIGTERM request a clean stop; the second one exits immediately, which loses no
//! acknowledged write. SIGHUP notifies a waiting task; without one it is ignored, so that the
//! command survives its terminal.

use std::io;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::failure::{CommandFailure, ExitStatus};
use crate::output;

/// The async runtime of the protocols, and the stop that signals request.
pub struct SignalRuntime {
    /// Runs the protocols.
    pub runtime: Runtime,
    /// Cancelled by the first SIGINT or SIGTERM.
    pub end: CancellationToken,
    /// Notified by SIGHUP.
    pub hangup: Arc<Notify>,
}

/// Starts the runtime and handles signals from here on, so that a stop during a long start is not
/// lost. With `until_stdin_closes`, the end of standard input requests a stop too.
///
/// # Errors
/// Errors of the operating system.
pub fn listen(until_stdin_closes: bool) -> Result<SignalRuntime, CommandFailure> {
    let runtime = Builder::new_multi_thread().enable_all().thread_name("protocol").build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let end = CancellationToken::new();
    let request = {
        let _inside = runtime.enter();
        StopRequest::catch().context("signals cannot be caught")?
    };
    let hangup = Arc::new(Notify::new());
    runtime.spawn(request.follow(end.clone(), Arc::clone(&hangup)));
    if until_stdin_closes {
        let end = end.clone();
        runtime.spawn(async move {
            // A read error counts as the end.
            let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
            end.cancel();
        });
    }
    Ok(SignalRuntime { runtime, end, hangup })
}

struct StopRequest {
    interrupt: Signal,
    terminate: Signal,
    /// Handled so that it does not end the process; see the module documentation.
    hangup: Signal,
}

impl StopRequest {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn follow(mut self, end: CancellationToken, hangup: Arc<Notify>) {
        self.next(&hangup).await;
        end.cancel();
        self.next(&hangup).await;
        let message = "svcfs: ended by a second signal; accepted changes are completed at the next start";
        tracing::warn!("{message}");
        output::complain(message);
        std::process::exit(ExitStatus::Interrupted as i32);
    }

    async fn next(&mut self, hangup: &Notify) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hangup.recv() => hangup.notify_one(),
            }
        }
    }
}
