//! `svcfs serve`

use std::convert::Infallible;
use std::net::TcpListener;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use sd_notify::NotifyState;
use svcfs_config::templates::{self, Template};
use svcfs_config::{AuthSettings, AuthType, CliOverrides, NfsFlags, ProtocolFlags, ServerSettings};
use svcfs_knowledge::spaces;
use svcfs_mount::MountNamespace;
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;

use crate::adoption::AdoptFlag;
use crate::control::ControlRole;
use crate::failure::CommandFailure;
use crate::mounting::MountFlags;
use crate::mounts::RootMounts;
use crate::presence::MountedRoot;
use crate::protocols::BoundProtocol;
use crate::reloading::SettingsReloader;
use crate::root::{OpenRoot, backup_overrides, cli_caller, is_new, settings};
use crate::root_flag::{RootFlag, require_directory};
use crate::signals::{self, SignalRuntime};
use crate::stop::{self, HttpServer, RunningServer};
use crate::{allocator, control, handover, logging, open_files, output, presence, socket};

const EXAMPLES: &str = "\
Examples:
  svcfs serve                                 the root around the current directory, on port 3333
  svcfs serve -r notes --mount ~/notes        also mounted at an empty directory outside the root
  svcfs serve -r notes --mount notes          over the root itself: all changes pass svcfs
  svcfs serve -r notes --port 0               on a free port; the URL is printed
  svcfs serve -r notes --s3                   also over S3: http://127.0.0.1:3334
  svcfs serve -r notes --webdav               also over WebDAV: http://127.0.0.1:3335
  svcfs serve -r notes --nfs                  also over NFSv3: port 2049, local clients only
  svcfs serve -r notes --config ./notes.toml  with another settings file
  SVC_LOG=debug svcfs serve                   with debug logs

SIGTERM and SIGINT (Ctrl-C) finish every accepted write, unmount and exit with 0; a second one
exits immediately with 130, and the next start completes accepted writes. SIGHUP reloads [auth]; run
`svcfs check-config` before to validate the settings.

A socket from systemd (svcfs.socket) replaces --host and --port.";

/// Serve a knowledge base over HTTP and, with --mount, as a folder
///
/// One process serves REST with its documentation at /api/docs, agents at /mcp, change events at
/// /api/svc/events, and the mount. A new or empty root gets the template `knowledge`; existing
/// pages are used as they are. A root has one server at a time. The first time in a git repository
/// with uncommitted changes, the command lists them and needs consent, as `svcfs init` does.
///
/// Flags override the settings in `.svc/config.toml` of the root. Without `[auth]` settings every
/// client that reaches the port can read and write, so the server listens on the loopback address
/// by default; `svcfs token create` creates a key and enables authentication.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    #[command(flatten)]
    root: RootFlag,
    /// Create the directory if it does not exist
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    adopt: AdoptFlag,
    /// Address or host name to listen on [default: 127.0.0.1]
    #[arg(long)]
    host: Option<String>,
    /// Port to listen on, 0 for a free one [default: 3333]
    #[arg(short, long, env = "SVC_PORT", hide_env_values = true)]
    port: Option<u16>,
    /// URL under which clients reach this server, for links in responses
    #[arg(long, value_name = "URL", env = "SVC_PUBLIC_URL", hide_env_values = true)]
    public_url: Option<String>,
    /// Type of authentication; see `[auth]` of the settings
    #[arg(long, value_name = "TYPE", env = "SVC_AUTH_TYPE", hide_env_values = true, value_parser = AuthType::from_str)]
    auth: Option<AuthType>,
    /// Key of `--auth apikey`; command lines are visible to all local users, so prefer
    /// `api_key = "${NAME}"` in the settings
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Identity provider of `--auth oidc`: the `iss` of its tokens
    #[arg(long, value_name = "URL")]
    oidc_issuer: Option<String>,
    /// Client id of `--auth oidc`: the `aud` of its tokens
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// Also serve this existing root as a space: at /api/svc/NAME, or with the header X-Svc-Space
    #[arg(long = "space", value_name = "NAME=DIR", value_parser = parse_space)]
    spaces: Vec<(String, PathBuf)>,
    /// Also serve every space over S3, as a bucket of its name
    #[arg(long)]
    s3: bool,
    /// Port of S3, 0 for a free one [default: 3334]
    #[arg(long, value_name = "PORT")]
    s3_port: Option<u16>,
    /// Also serve every space over WebDAV
    #[arg(long)]
    webdav: bool,
    /// Port of WebDAV, 0 for a free one [default: 3335]
    #[arg(long, value_name = "PORT")]
    webdav_port: Option<u16>,
    /// Also serve every space over NFSv3
    #[arg(long)]
    nfs: bool,
    /// Port of NFS and MOUNT, 0 for a free one [default: 2049]
    #[arg(long, value_name = "PORT")]
    nfs_port: Option<u16>,
    /// Comma-separated addresses and networks that NFS serves [default: this machine]
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',')]
    nfs_allow: Option<Vec<String>>,
    /// Also mount it at this empty directory
    #[arg(short, long = "mount", value_name = "MOUNTPOINT")]
    mountpoint: Option<PathBuf>,
    #[command(flatten)]
    flags: MountFlags,
    /// Settings from this file instead of `.svc/config.toml` in the root
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Stop, as after SIGTERM, when standard input is closed
    #[arg(long)]
    until_stdin_closes: bool,
}

impl ServeArgs {
    /// Serves until a signal stops it.
    ///
    /// # Errors
    /// When starting or stopping fails.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self {
            root,
            create,
            adopt,
            host,
            port,
            public_url,
            auth,
            api_key,
            oidc_issuer,
            oidc_client_id,
            spaces,
            s3,
            s3_port,
            webdav,
            webdav_port,
            nfs,
            nfs_port,
            nfs_allow,
            mountpoint,
            flags,
            config,
            until_stdin_closes,
        } = self;
        let root = root.find()?;
        presence::unmount_stale(&root)?;
        if !create {
            require_directory(&root)?;
        }
        // A process whose mount hides its root changes its working directory.
        let mountpoint =
            mountpoint.map(std::path::absolute).transpose().context("the current directory does not exist any more")?;
        // Before the first thread starts.
        let outside = mountpoint
            .as_ref()
            .map_or_else(|| Ok(MountNamespace::default()), |at| MountNamespace::for_mount(&root, at))?;
        let inherited = socket::inherited()?;
        let s3 = ProtocolFlags { enabled: s3, port: s3_port };
        let webdav = ProtocolFlags { enabled: webdav, port: webdav_port };
        let nfs = NfsFlags { enabled: nfs, port: nfs_port, allow: nfs_allow };
        let overrides = CliOverrides {
            host,
            port,
            public_url,
            auth,
            api_key,
            oidc_issuer,
            oidc_client_id,
            s3,
            webdav,
            nfs,
            backup: backup_overrides(),
        };
        let overrides = socket::with_inherited_address(overrides, inherited.as_ref())?;
        let settings = settings(&root, config.as_deref(), overrides.clone())?;
        let _logging = logging::start(&settings.log, LevelFilter::INFO)?;
        open_files::allow_many();
        let listening = signals::listen(until_stdin_closes)?;
        // Before the root is opened: binding ports fails fast, adopting a large tree takes long.
        let socket = inherited.map_or_else(|| socket::bind(&settings.server), Ok)?;
        let protocols = BoundProtocol::bind_all(&settings)?;
        let stale_mounts = presence::abort_hung_server(&root)?;
        if let Some(mountpoint) = &mountpoint {
            svcfs_mount::check_mountpoint(mountpoint, &root, &outside)?;
        }
        if settings.auth == AuthSettings::None {
            warn_when_open(&settings.server);
        }
        adopt.prepare(&root, &settings, true)?;
        let protocols = ServeContext { socket, protocols, mountpoint, flags, stale_mounts, is_new_root: is_new(&root) };
        stop::notify(&[NotifyState::Status("opening the root")]);
        tracing::info!(root = %root.display(), "opening the root; the first start on a large tree takes a while");
        let opened = handover::open(&root, || OpenRoot::open(&root, settings.clone(), true))
            .map_err(|fault| handover::failure(&root, fault, "stop it first, or serve another root"))?;
        // Without the keys of the provider no caller could be authenticated.
        opened.server().access().fetch_issuer_keys()?;
        let url = socket::url(&opened.server().settings().server, &protocols.socket)?;
        opened.open_others(&url, spaces)?;
        let mut running = RunningServer::with(opened, outside);
        let (server, end) = (Arc::clone(running.root.server()), listening.end.clone());
        let reloading = Arc::new(SettingsReloader::new(server, (root, config), overrides, end));
        let outcome = protocols.open(&mut running, &reloading, &listening);
        let outcome = outcome.map(|http| wait(&http, (&running.mounts, &reloading), &listening));
        stop::after(outcome, running, listening)
    }
}

/// Waits for a signal, or for the HTTP server to fail.
fn wait(
    http: &CancellationToken,
    (mounts, reloading): (&Arc<RootMounts>, &Arc<SettingsReloader>),
    listening: &SignalRuntime,
) {
    let unmount_watch = async {
        loop {
            // The server keeps running without a mount.
            mounts.wait_for_unmount().await;
        }
    };
    let reloading = async {
        loop {
            listening.hangup.notified().await;
            let reloading = Arc::clone(reloading);
            // On a blocking thread: an identity provider may answer slowly; the watchdog and a stop
            // cannot wait.
            if let Err(error) = tokio::task::spawn_blocking(move || reloading.reload().ok()).await {
                tracing::error!(%error, "the settings could not be reloaded");
            }
        }
    };
    listening.runtime.block_on(async {
        tokio::select! {
            () = listening.end.cancelled() => {}
            () = http.cancelled() => tracing::error!("the HTTP server ended by itself"),
            never = send_watchdog() => match never {},
            never = allocator::release_periodically() => match never {},
            never = reloading => match never {},
            () = unmount_watch => {}
        }
    });
}

/// Parses `--space`.
fn parse_space(text: &str) -> Result<(String, PathBuf), String> {
    let (name, root) = text.split_once('=').ok_or("use NAME=DIR, such as `team=/srv/team`")?;
    if let Some(message) = svcfs_config::space_name_error(name) {
        return Err(format!("the name `{name}` {message}"));
    }
    let root = std::path::absolute(root).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), root))
}

/// Notifies the watchdog of systemd at half its interval. A killed server that hangs in its mount
/// (see [`presence::abort_hung_server`]) looks alive to systemd in every other way.
async fn send_watchdog() -> Infallible {
    let Some(limit) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut interval = tokio::time::interval((limit / 2).max(Duration::from_millis(1)));
    loop {
        interval.tick().await;
        stop::notify(&[NotifyState::Watchdog]);
    }
}

/// What is opened after the root.
struct ServeContext {
    socket: TcpListener,
    protocols: Vec<BoundProtocol>,
    mountpoint: Option<PathBuf>,
    flags: MountFlags,
    /// Mounts of a killed server.
    stale_mounts: Vec<MountedRoot>,
    /// Whether the root gets a template.
    is_new_root: bool,
}

impl ServeContext {
    /// Opens in the reverse order of the stop: template, mount, HTTP, announcement. Everything that
    /// was opened is in `running`, also when a later step fails. Returns the token that is
    /// cancelled when the HTTP server ends.
    fn open(
        self,
        running: &mut RunningServer,
        reloading: &Arc<SettingsReloader>,
        listening: &SignalRuntime,
    ) -> Result<CancellationToken, CommandFailure> {
        let Self { socket, protocols, mountpoint, flags, stale_mounts, is_new_root } = self;
        let space = Arc::clone(running.root.space());
        if is_new_root && let Some(template) = Template::find(templates::DEFAULT) {
            let installed = spaces::write_template(&space, template, &cli_caller(None))?;
            let files = installed.written.len();
            tracing::info!(template = template.id, files, "the root is new; a template was installed");
        }
        if let Some(mountpoint) = mountpoint {
            running.mounts.add(&mountpoint, flags)?;
        }
        running.mounts.restore(stale_mounts);
        let url = socket::url(&running.root.server().settings().server, &socket)?;
        let http = start_http(socket, running, listening)?;
        let ended = http.stop.clone();
        running.http = Some(http);
        BoundProtocol::report_disabled(&protocols, running.root.server());
        for protocol in protocols {
            running.protocols.push(protocol.open(running.root.server(), listening)?);
        }
        let role = ControlRole::Server(Arc::clone(reloading));
        running.control = Some(control::listen(&running.mounts, role, space.vfs.root(), &listening.runtime)?);
        running.mounts.announce(Some(url.clone()), running.root.key())?;
        announce(running, &url)?;
        Ok(ended)
    }
}

/// Starts the HTTP server. Its token is cancelled also when the server ends by itself.
fn start_http(
    socket: TcpListener,
    running: &RunningServer,
    listening: &SignalRuntime,
) -> Result<HttpServer, CommandFailure> {
    let _guard = listening.runtime.enter();
    socket.set_nonblocking(true).context("the HTTP server's socket cannot be used")?;
    let listener = tokio::net::TcpListener::from_std(socket).context("the HTTP server's socket cannot be used")?;
    let server = Arc::clone(running.root.server());
    let stop = CancellationToken::new();
    let (stop_token, ended) = (stop.clone(), stop.clone().drop_guard());
    let task = listening.runtime.spawn(async move {
        let outcome = svcfs_http::serve(listener, server, stop_token).await;
        drop(ended);
        outcome
    });
    Ok(HttpServer { task, stop })
}

/// Reports on standard output and to systemd that the server is ready.
fn announce(running: &RunningServer, url: &str) -> Result<(), CommandFailure> {
    let root = running.root.space().vfs.root().display();
    let mounted = running.mounts.mountpoints();
    tracing::info!(root = %root, url, mountpoints = ?mounted, "serving");
    let mut text = format!("svcfs serves {root}\n  http    {url}\n  docs    {url}/api/docs\n  agents  {url}/mcp\n");
    for protocol in &running.protocols {
        text.push_str(&format!("  {:<7} {}\n", protocol.name, protocol.url()));
    }
    for mounted in mounted {
        text.push_str(&format!("  folder  {}\n", mounted.display()));
    }
    output::say(&text)?;
    stop::notify(&[NotifyState::Ready, NotifyState::Status(&format!("serving {root} at {url}"))]);
    Ok(())
}

/// gaps.md D13
fn warn_when_open(server: &ServerSettings) {
    if !server.host.is_loopback() {
        tracing::warn!(
            "listening on {} without authentication: every client that reaches this port can read and change every \
             page; use --host 127.0.0.1 unless something in front of svcfs keeps others out",
            server.authority()
        );
    }
}
