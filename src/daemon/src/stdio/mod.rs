//! `svcfs mcp`: one agent, whichever process has the root.
//!
//! Invariant: the lock of the root decides. The process that gets it opens the root and listens on
//! the control socket; all others are its clients. When it ends, the next one takes the root, and
//! the session of every agent goes on.

mod http_proxy;
mod relay;
mod session;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use svcfs_base::Fault;
use svcfs_config::CliOverrides;
use svcfs_http::{StopReason, ToolSelection};
use svcfs_mount::MountNamespace;
use svcfs_store::StatePaths;
use tokio_util::sync::CancellationToken;

use crate::control::{self, ControlRole};
use crate::failure::CommandFailure;
use crate::root::{OpenRoot, settings};
use crate::signals::SignalRuntime;
use crate::stop::{self, RunningServer};
use crate::{adoption, handover, presence};
pub use http_proxy::HttpProxy;
use relay::AgentRelay;
use session::ConnectionEnd;

/// Bytes in flight between the relay and the server in one process.
const BUFFER_BYTES: usize = 1 << 16;

/// How long a process that has the root may not answer before requests are refused.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// For how long only the server that asked for the root opens it.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between the first two attempts to find a server, and its limit, in milliseconds.
const RETRY_INTERVAL_MS: u32 = 20;
const MAX_RETRY_INTERVAL_MS: u32 = 100;

/// How long answers may take after a signal.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// An agent on standard input and output.
pub struct AgentProcess {
    root: PathBuf,
    config: Option<PathBuf>,
    /// The profile of tools; none is that of the settings.
    profile: Option<String>,
    listening: SignalRuntime,
    relay: AgentRelay,
    /// Until when a server may take the root over.
    handover_until: Option<Instant>,
    /// The state directory, which a server may cover with its mount.
    state: Option<File>,
}

/// Where the agent's requests run.
enum AgentServer {
    /// In this process.
    Local(Box<OpenRoot>),
    /// In another process.
    Process(TokioIo<Upgraded>),
}

/// The outcome of an attempt to open the root.
enum RootAttempt {
    Opened(Box<OpenRoot>),
    /// Another process has it.
    InUse(Fault),
    /// A server is about to open it.
    Reserved,
}

/// Waits longer with each attempt, and a random part, so that several agents do not try at the same
/// time.
fn wait_for_retry(attempt: u32) {
    let limit = (RETRY_INTERVAL_MS * attempt.min(MAX_RETRY_INTERVAL_MS)).min(MAX_RETRY_INTERVAL_MS);
    let interval = limit / 2 + getrandom::u32().unwrap_or_default() % limit;
    // File locks of other processes have no wait with a timeout.
    std::thread::park_timeout(Duration::from_millis(interval.into()));
}

impl AgentProcess {
    /// Starts to read standard input.
    pub fn new(root: PathBuf, (config, profile): (Option<PathBuf>, Option<String>), listening: SignalRuntime) -> Self {
        let relay = AgentRelay::start(&listening.runtime, listening.end.clone());
        Self { root, config, profile, listening, relay, handover_until: None, state: None }
    }

    /// Serves the agent until it closes standard input, or a signal.
    ///
    /// # Errors
    /// The root cannot be opened or closed; another user's process has it.
    pub fn run(mut self) -> Result<(), CommandFailure> {
        let outcome = self.serve();
        // Standard input may still be read.
        self.listening.runtime.shutdown_background();
        outcome
    }

    fn serve(&mut self) -> Result<(), CommandFailure> {
        let mut is_first = true;
        while let Some(server) = self.find_server(is_first)? {
            is_first = false;
            if self.state.is_none() {
                self.state = File::open(StatePaths::new(&self.root).directory()).ok();
            }
            let end = match server {
                AgentServer::Local(root) => self.serve_root(*root)?,
                AgentServer::Process(connection) => self.connect(connection),
            };
            let Some(end) = end else { return Ok(()) };
            if self.listening.end.is_cancelled() || self.relay.is_finished() {
                return Ok(());
            }
            let is_handover = end == ConnectionEnd::Drained { handover: true };
            self.handover_until = is_handover.then(|| Instant::now() + HANDOVER_TIMEOUT);
        }
        Ok(())
    }

    /// Finds the process that has the root, or opens it. None when the agent or a signal ends this.
    fn find_server(&mut self, is_first: bool) -> Result<Option<AgentServer>, CommandFailure> {
        let mut waiting_since = Instant::now();
        for attempt in 1.. {
            let connected = control::connect_agent(&self.root, self.state.as_ref(), self.profile.as_deref());
            if let Some(connection) = self.listening.runtime.block_on(connected)? {
                return Ok(Some(AgentServer::Process(connection)));
            }
            let fault = match self.open_root(is_first)? {
                RootAttempt::Opened(root) => return Ok(Some(AgentServer::Local(root))),
                RootAttempt::InUse(fault) => Some(fault),
                RootAttempt::Reserved => None,
            };
            if self.listening.end.is_cancelled() || (attempt > 1 && self.relay.is_finished()) {
                return Ok(None);
            }
            if let Some(fault) = fault
                && waiting_since.elapsed() >= ANSWER_TIMEOUT
            {
                let failure = handover::failure(&self.root, fault, "it does not answer on its control socket");
                if is_first {
                    return Err(failure);
                }
                let message = failure.message(false);
                tracing::warn!("{message}");
                let refused = self.relay.refuse_pending(message.trim_start_matches("svcfs: "));
                if self.listening.runtime.block_on(refused).is_err() {
                    return Ok(None);
                }
                waiting_since = Instant::now();
            }
            wait_for_retry(attempt);
        }
        Ok(None)
    }

    fn open_root(&mut self, is_first: bool) -> Result<RootAttempt, CommandFailure> {
        // The server that asked for the root comes first; it may cover the root with its mount.
        let is_reserved = self.handover_until.is_some_and(|until| Instant::now() < until);
        if is_reserved || (!is_first && svcfs_mount::is_mounted(&self.root)) {
            return Ok(RootAttempt::Reserved);
        }
        let settings = settings(&self.root, self.config.as_deref(), CliOverrides::default())?;
        adoption::refuse_uncommitted(&self.root, &settings)?;
        match OpenRoot::open(&self.root, settings, true) {
            Ok(root) => Ok(RootAttempt::Opened(Box::new(root))),
            Err(fault) if presence::holder(&self.root, &fault).is_some() => Ok(RootAttempt::InUse(fault)),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Is a client of another process until one of both ends. None when this process ends.
    fn connect(&mut self, connection: TokioIo<Upgraded>) -> Option<ConnectionEnd> {
        if self.config.is_some() {
            tracing::warn!("another process has the root, so its settings apply, and not those of --config");
        }
        let Self { listening, relay, .. } = self;
        let ended = async {
            listening.end.cancelled().await;
            tokio::time::sleep(END_TIMEOUT).await;
        };
        listening.runtime.block_on(async {
            tokio::select! {
                outcome = relay.run(connection) => outcome.ok(),
                () = ended => None,
            }
        })
    }

    /// Serves the root to this agent and to others, until the agent ends, a signal comes or a
    /// server takes the root over; then closes it. None when the agent reads no more.
    fn serve_root(&mut self, root: OpenRoot) -> Result<Option<ConnectionEnd>, CommandFailure> {
        let mut running = RunningServer::with(root, MountNamespace::default());
        let release = CancellationToken::new();
        let outcome = self.serve_agents(&mut running, &release);
        let stopped = stop::finish(running, &self.listening);
        let end = outcome?;
        stopped?;
        Ok(end)
    }

    fn serve_agents(
        &mut self,
        running: &mut RunningServer,
        release: &CancellationToken,
    ) -> Result<Option<ConnectionEnd>, CommandFailure> {
        let Self { listening, relay, profile, .. } = self;
        let selection = profile.as_deref().and_then(ToolSelection::of_profile).unwrap_or_default();
        let path = running.root.space().vfs.root().to_owned();
        let role = ControlRole::Agent(release.clone());
        let control = control::listen(&running.mounts, role, &path, &listening.runtime)?;
        let agents = control.agents().clone();
        running.control = Some(control);
        running.mounts.announce(None, running.root.key())?;
        listening.runtime.block_on(async {
            let (near, far) = tokio::io::duplex(BUFFER_BYTES);
            let (input, output) = tokio::io::split(far);
            let local = agents.with_tools(selection);
            let serving = tokio::spawn(async move { local.serve(input, output, None).await });
            let stopping = async {
                tokio::select! {
                    () = listening.end.cancelled() => agents.stop(StopReason::Ended),
                    () = release.cancelled() => agents.stop(StopReason::HandedOver),
                }
                tokio::time::sleep(handover::TIMEOUT).await;
            };
            let outcome = tokio::select! {
                outcome = relay.run(near) => outcome,
                // The agent does not read its answers.
                () = stopping => {
                    serving.abort();
                    return Ok(None);
                }
            };
            // The first message was no handshake, for example.
            serving.await.context("the session of the agent died")?.map_err(anyhow::Error::new)?;
            Ok(match (outcome, release.is_cancelled()) {
                (Ok(_), true) => Some(ConnectionEnd::Drained { handover: true }),
                (outcome, _) => outcome.ok(),
            })
        })
    }
}
