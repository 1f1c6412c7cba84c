//! `svcfs mcp` beside the process that has the root: both sides of its connection.
//!
//! A request to `/mcp` with `Upgrade: svcfs-mcp` makes the connection one of JSON messages, one per
//! line, exactly as on standard input and output. So an agent has one session with all of MCP,
//! whichever process has the root.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use svcfs_http::{AgentConnections, ToolSelection, profile_names};
use tokio::net::UnixStream;

use super::{AGENTS, SOCKET, error, requests};
use crate::failure::CommandFailure;
use crate::{client, presence};

/// Name of the protocol.
const PROTOCOL: &str = "svcfs-mcp";

/// How long the process may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Names a space other than the first.
const SPACE: &str = "X-Svc-Space";

/// Names the profile of tools, if the agent has chosen one.
const PROFILE: &str = "X-Svc-Profile";

/// An agent whose connection is about to change its protocol.
pub(super) struct ArrivingAgent {
    upgrade: OnUpgrade,
    space: Option<String>,
    tools: ToolSelection,
}

impl ArrivingAgent {
    /// Serves it to the end.
    pub(super) async fn serve(self, agents: &AgentConnections) {
        let Self { upgrade, space, tools } = self;
        let outcome = match upgrade.await {
            Ok(connection) => {
                let (input, output) = tokio::io::split(TokioIo::new(connection));
                agents.with_tools(tools).serve(input, output, space).await.map_err(anyhow::Error::new)
            }
            Err(cause) => Err(anyhow::Error::new(cause)),
        };
        if let Err(cause) = outcome {
            tracing::debug!(error = %cause, "the connection of an agent failed");
        }
    }
}

/// Accepts an agent, which is put into `arriving`.
pub(super) fn accept(
    mut request: Request<Incoming>,
    agents: &AgentConnections,
    arriving: &Mutex<Option<ArrivingAgent>>,
) -> Result<Response<Full<Bytes>>, http::Error> {
    let value = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if value("upgrade").as_deref() != Some(PROTOCOL) {
        return error(StatusCode::UPGRADE_REQUIRED, &format!("{AGENTS} needs the header `Upgrade: {PROTOCOL}`"));
    }
    let space = value(SPACE);
    if !agents.has_space(space.as_deref()) {
        return error(StatusCode::NOT_FOUND, &format!("space not found: {}", space.unwrap_or_default()));
    }
    let profile = value(PROFILE);
    let Some(tools) = profile.as_deref().map_or_else(|| Some(ToolSelection::default()), ToolSelection::of_profile)
    else {
        let message = format!("there is no profile `{}`; use {}", profile.unwrap_or_default(), profile_names());
        return error(StatusCode::BAD_REQUEST, &message);
    };
    *arriving.lock() = Some(ArrivingAgent { upgrade: hyper::upgrade::on(&mut request), space, tools });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    response.header(CONNECTION, "upgrade").header(UPGRADE, PROTOCOL).body(Full::default())
}

/// Connects to the process that has `root`, with a profile of tools, through its `state` directory
/// if a mount covers the root. None when none answers, or it is stopping, or it does not serve this
/// root.
///
/// # Errors
/// `Refused` when this user may not use the socket, or the process is older than this program.
pub async fn connect(
    root: &Path,
    state: Option<&File>,
    profile: Option<&str>,
) -> Result<Option<TokioIo<Upgraded>>, CommandFailure> {
    let (socket, space) = match state.filter(|_| svcfs_mount::is_mounted(root)) {
        Some(state) => (PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", state.as_raw_fd())), None),
        None => presence::control_socket(root),
    };
    let Some(stream) = requests::connect(root, &socket).await? else { return Ok(None) };
    let mut request = Request::post(AGENTS).header(HOST, "svcfs").header(CONNECTION, "upgrade");
    if let Some(space) = &space {
        request = request.header(SPACE, space);
    }
    if let Some(profile) = profile {
        request = request.header(PROFILE, profile);
    }
    let request = request.header(UPGRADE, PROTOCOL).body(Full::<Bytes>::default());
    let request = request.context("the request cannot be serialised")?;
    // A process that was stopped by a signal does not answer.
    tokio::time::timeout(CONNECT_TIMEOUT, upgrade(stream, request, space.is_some())).await.unwrap_or(Ok(None))
}

async fn upgrade(
    stream: UnixStream,
    request: Request<Full<Bytes>>,
    has_space: bool,
) -> Result<Option<TokioIo<Upgraded>>, CommandFailure> {
    // A failure without a response means that the process has just ended.
    let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(stream)).await else { return Ok(None) };
    tokio::spawn(connection.with_upgrades());
    let Ok(response) = sender.send_request(request).await else { return Ok(None) };
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => Ok(hyper::upgrade::on(response).await.ok().map(TokioIo::new)),
        StatusCode::SERVICE_UNAVAILABLE => Ok(None),
        StatusCode::NOT_FOUND if has_space => Ok(None),
        status => {
            let body = response.into_body().collect().await.context("the response cannot be read")?.to_bytes();
            Err(client::refusal(status, &body))
        }
    }
}
