//! What the operating system asks of a running command.
//!
//! SIGINT and SIGTERM ask for an orderly end; the second one ends the process at once, which loses nothing that was
//! acknowledged. SIGHUP is told to whoever waits for it; a command that does not outlives the terminal it was started from all the
//! same.

use std::io;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::failure::{CommandFailure, ExitStatus};
use crate::output;

/// A runtime for the doors that are asynchronous, and the end that signals ask for.
pub struct SignalRuntime {
    /// Where the doors run.
    pub runtime: Runtime,
    /// Cancelled by the first SIGINT or SIGTERM.
    pub end: CancellationToken,
    /// Rung by SIGHUP.
    pub hangup: Arc<Notify>,
}

/// Starts the runtime and catches signals from here on, so that an end asked for during a long start is not lost. A standard input
/// that closes asks for it, too, where that is agreed.
///
/// # Errors
/// What the operating system refuses.
pub fn listen(until_stdin_closes: bool) -> Result<SignalRuntime, CommandFailure> {
    let runtime = Builder::new_multi_thread().enable_all().thread_name("protocol").build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let end = CancellationToken::new();
    let asked = {
        let _inside = runtime.enter();
        StopRequest::catch().context("signals cannot be caught")?
    };
    let hangup = Arc::new(Notify::new());
    runtime.spawn(asked.follow(end.clone(), Arc::clone(&hangup)));
    if until_stdin_closes {
        let end = end.clone();
        runtime.spawn(async move {
            // What cannot be read any more is closed, too.
            let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
            end.cancel();
        });
    }
    Ok(SignalRuntime { runtime, end, hangup })
}

struct StopRequest {
    interrupt: Signal,
    terminate: Signal,
    /// Caught so that it does not end the process; see the module's documentation.
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
        let told = "svcfs: ended by a second signal; what was accepted and not finished is completed at the next start";
        tracing::warn!("{told}");
        output::complain(told);
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
