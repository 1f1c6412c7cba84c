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

use crate::failure::CommandFailure;
use crate::mounting::MountFlags;
use crate::mounts::RootMounts;
use crate::presence::MountedRoot;
use crate::protocols::BoundProtocol;
use crate::reloading::SettingsReloader;
use crate::root::{OpenRoot, is_new, settings, whoever};
use crate::signals::{self, SignalRuntime};
use crate::stop::{self, HttpServer, RunningServer};
use crate::{allocator, control, logging, open_files, output, presence, socket};

const EXAMPLES: &str = "\
Examples:
  svcfs serve                                 ./knowledge on http://127.0.0.1:3333
  svcfs serve -r notes --mount ~/notes        as a folder, too: an empty directory outside the root
  svcfs serve -r notes --mount notes          over the root itself: nothing else changes it
  svcfs serve -r notes --port 0               on any free port; the address is printed
  svcfs serve -r notes --s3                   over S3, too: http://127.0.0.1:3334
  svcfs serve -r notes --webdav               over WebDAV, too: http://127.0.0.1:3335
  svcfs serve -r notes --nfs                  over NFSv3, too: port 2049, this machine alone
  svcfs serve -r notes --config ./notes.toml  with settings from elsewhere
  SVC_LOG=debug svcfs serve                   with everything in the log

SIGTERM and SIGINT (Ctrl-C) finish every accepted write, unmount and exit with 0; a second one
exits at once with 130, and the next start completes what was accepted. SIGHUP reads [auth] again;
`svcfs check-config` says before whether the settings can be followed.

A socket that systemd hands over (svcfs.socket) takes the place of --host and --port.";

/// Serve a knowledge base over HTTP and, when asked to, as a mounted folder
///
/// One process for everything: REST and its documentation at /api/docs, agents at /mcp, changes at /events, and the folder
/// given by --mount. A root that is new or empty begins with the template `knowledge`; one that has pages is adopted as it is.
/// One server at a time has a root.
///
/// Flags beat the settings in `.svc/config.toml` of the root. Without `[auth]` settings whoever reaches the port reads and
/// writes, so it listens on the loopback address unless told otherwise; `svcfs token create` makes a key and closes the door.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Address or host name to listen on [default: 127.0.0.1]
    #[arg(long)]
    host: Option<String>,
    /// Port to listen on, 0 for any that is free [default: 3333]
    #[arg(short, long, env = "SVC_PORT", hide_env_values = true)]
    port: Option<u16>,
    /// Address under which clients reach this server, for links in answers
    #[arg(long, value_name = "URL", env = "SVC_PUBLIC_URL", hide_env_values = true)]
    public_url: Option<String>,
    /// How callers prove who they are; see `[auth]` of the settings
    #[arg(long, value_name = "TYPE", env = "SVC_AUTH_TYPE", hide_env_values = true, value_parser = AuthType::from_str)]
    auth: Option<AuthType>,
    /// The key of `--auth apikey`. Everybody on this machine can read a command line: `api_key = "${NAME}"` in the settings is
    /// safer
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// The identity provider of `--auth oidc`, as it stands in the `iss` of its tokens
    #[arg(long, value_name = "URL")]
    oidc_issuer: Option<String>,
    /// Whom the tokens of `--auth oidc` must be for: what stands in their `aud`
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// Also serve this root, which must be there, as a space of this name: at /api/svc/NAME, or with the header X-Svc-Space
    #[arg(long = "space", value_name = "NAME=DIR", value_parser = other_space)]
    spaces: Vec<(String, PathBuf)>,
    /// Also serve every space over S3, as a bucket of its name
    #[arg(long)]
    s3: bool,
    /// Port of S3, 0 for any that is free [default: 3334]
    #[arg(long, value_name = "PORT")]
    s3_port: Option<u16>,
    /// Also serve every space over WebDAV
    #[arg(long)]
    webdav: bool,
    /// Port of WebDAV, 0 for any that is free [default: 3335]
    #[arg(long, value_name = "PORT")]
    webdav_port: Option<u16>,
    /// Also serve every space over NFSv3
    #[arg(long)]
    nfs: bool,
    /// Port of NFS and MOUNT, 0 for any that is free [default: 2049]
    #[arg(long, value_name = "PORT")]
    nfs_port: Option<u16>,
    /// Addresses and networks that NFS serves, with commas between them [default: this machine]
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',')]
    nfs_allow: Option<Vec<String>>,
    /// Also mount it at this empty directory
    #[arg(short, long = "mount", value_name = "MOUNTPOINT")]
    mountpoint: Option<PathBuf>,
    #[command(flatten)]
    manner: MountFlags,
    /// Settings from this file instead of `.svc/config.toml` in the root
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// End, as after SIGTERM, when standard input is closed: a server that was started for something does not outlive it
    #[arg(long)]
    until_stdin_closes: bool,
}

impl ServeArgs {
    /// Serves until a signal asks for the end.
    ///
    /// # Errors
    /// What stands in the way of starting, or did not end as it should.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self {
            root,
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
            manner,
            config,
            until_stdin_closes,
        } = self;
        presence::uncover(&root)?;
        // A process that covers its root stands elsewhere.
        let mountpoint = mountpoint.map(std::path::absolute).transpose().context("the current directory is gone")?;
        // Before there is any other thread.
        let outside = mountpoint
            .as_ref()
            .map_or_else(|| Ok(MountNamespace::default()), |at| MountNamespace::for_mount(&root, at))?;
        let inherited = socket::inherited()?;
        let s3 = ProtocolFlags { enabled: s3, port: s3_port };
        let webdav = ProtocolFlags { enabled: webdav, port: webdav_port };
        let nfs = NfsFlags { enabled: nfs, port: nfs_port, allow: nfs_allow };
        let overrides =
            CliOverrides { host, port, public_url, auth, api_key, oidc_issuer, oidc_client_id, s3, webdav, nfs };
        let overrides = socket::named(overrides, inherited.as_ref())?;
        let settings = settings(&root, config.as_deref(), overrides.clone())?;
        let _logging = logging::start(&settings.log, LevelFilter::INFO)?;
        open_files::allow_many();
        let listening = signals::listen(until_stdin_closes)?;
        // Before the root is touched: what is taken is found out in a moment, adopting a large tree takes longer.
        let socket = inherited.map_or_else(|| socket::bind(&settings.server), Ok)?;
        let protocols = BoundProtocol::all(&settings)?;
        let left = presence::bury(&root)?;
        if let Some(mountpoint) = &mountpoint {
            svcfs_mount::check_mountpoint(mountpoint, &root, &outside)?;
        }
        if settings.auth == AuthSettings::None {
            warn_when_open(&settings.server);
        }
        let protocols = ServeContext { socket, protocols, mountpoint, manner, left, begins: is_new(&root) };
        stop::notify(&[NotifyState::Status("opening the root")]);
        tracing::info!(root = %root.display(), "opening the root; a large tree that is new to svcfs takes a while");
        let advice = "stop it first, or serve another root";
        let opened = OpenRoot::open(&root, settings, true).map_err(|fault| presence::taken(&root, fault, advice))?;
        // Nobody could be let in (gaps.md D12).
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

/// Waits for a signal, or for a door that ends by itself.
fn wait(
    http: &CancellationToken,
    (mounts, reloading): (&Arc<RootMounts>, &Arc<SettingsReloader>),
    listening: &SignalRuntime,
) {
    let tidy_up = async {
        loop {
            // Without a mount it serves on.
            mounts.all_over().await;
        }
    };
    let reloading = async {
        loop {
            listening.hangup.notified().await;
            let reloading = Arc::clone(reloading);
            // Elsewhere: an identity provider may take its time to answer, and the watchdog and an end that is asked for have none.
            if let Err(error) = tokio::task::spawn_blocking(move || reloading.now().ok()).await {
                tracing::error!(%error, "the settings could not be read again");
            }
        }
    };
    listening.runtime.block_on(async {
        tokio::select! {
            () = listening.end.cancelled() => {}
            () = http.cancelled() => tracing::error!("the HTTP server ended by itself"),
            never = say_alive() => match never {},
            never = allocator::give_back() => match never {},
            never = reloading => match never {},
            () = tidy_up => {}
        }
    });
}

/// What `--space` takes.
fn other_space(text: &str) -> Result<(String, PathBuf), String> {
    let (name, root) = text.split_once('=').ok_or("write it like `team=/srv/team`")?;
    if let Some(told) = svcfs_config::space_name_error(name) {
        return Err(format!("the name `{name}` {told}"));
    }
    let root = std::path::absolute(root).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), root))
}

/// Tells systemd's watchdog that this process lives, twice as often as it wants to hear. A killed server that hangs in its mount
/// (see [`presence::bury`]) looks alive to systemd in every other way.
async fn say_alive() -> Infallible {
    let Some(limit) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut beat = tokio::time::interval((limit / 2).max(Duration::from_millis(1)));
    loop {
        beat.tick().await;
        stop::notify(&[NotifyState::Watchdog]);
    }
}

/// What is opened once the root is.
struct ServeContext {
    socket: TcpListener,
    protocols: Vec<BoundProtocol>,
    mountpoint: Option<PathBuf>,
    manner: MountFlags,
    /// What a killed server had mounted.
    left: Vec<MountedRoot>,
    /// Whether the root begins with a template.
    begins: bool,
}

impl ServeContext {
    /// The reverse of the stop: template, mount, HTTP, announcement. What is open stands in `running` also when a later step
    /// fails. Gives the token that is cancelled when the HTTP door ends.
    fn open(
        self,
        running: &mut RunningServer,
        reloading: &Arc<SettingsReloader>,
        listening: &SignalRuntime,
    ) -> Result<CancellationToken, CommandFailure> {
        let Self { socket, protocols, mountpoint, manner, left, begins } = self;
        let space = Arc::clone(running.root.space());
        if begins && let Some(template) = Template::find(templates::DEFAULT) {
            let planted = spaces::write_template(&space, template, &whoever(None))?;
            let files = planted.written.len();
            tracing::info!(template = template.id, files, "the root is new; it begins with a template");
        }
        if let Some(mountpoint) = mountpoint {
            running.mounts.add(&mountpoint, manner)?;
        }
        running.mounts.take_up(left);
        let url = socket::url(&running.root.server().settings().server, &socket)?;
        let http = answer(socket, running, listening)?;
        let ended = http.stop.clone();
        running.http = Some(http);
        BoundProtocol::tell_of_others(&protocols, running.root.server());
        for protocol in protocols {
            running.protocols.push(protocol.open(running.root.server(), listening)?);
        }
        let reloading = Some(Arc::clone(reloading));
        running.control = Some(control::listen(&running.mounts, reloading, space.vfs.root(), &listening.runtime)?);
        running.mounts.announce(Some(url.clone()), running.root.key())?;
        tell(running, &url)?;
        Ok(ended)
    }
}

/// Starts answering requests. The door's token is cancelled also when it ends by itself.
fn answer(
    socket: TcpListener,
    running: &RunningServer,
    listening: &SignalRuntime,
) -> Result<HttpServer, CommandFailure> {
    let _inside = listening.runtime.enter();
    socket.set_nonblocking(true).context("the HTTP server's socket cannot be used")?;
    let listener = tokio::net::TcpListener::from_std(socket).context("the HTTP server's socket cannot be used")?;
    let server = Arc::clone(running.root.server());
    let stop = CancellationToken::new();
    let (asked, ended) = (stop.clone(), stop.clone().drop_guard());
    let task = listening.runtime.spawn(async move {
        let outcome = svcfs_http::serve(listener, server, asked).await;
        drop(ended);
        outcome
    });
    Ok(HttpServer { task, stop })
}

/// Says on standard output and to systemd that everything is there.
fn tell(running: &RunningServer, url: &str) -> Result<(), CommandFailure> {
    let root = running.root.space().vfs.root().display();
    let mounted = running.mounts.places();
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
            "listening on {} without authentication: everybody who reaches this port can read and change every page; \
             use --host 127.0.0.1 unless something in front of svcfs keeps others out",
            server.authority()
        );
    }
}
