//! A knowledge root, opened in this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use nix::unistd::{User, geteuid};
use serde_json::{Map, Value};
use svcfs_base::{Actor, Caller, ETag, Fault, Kind, Precondition, Protocol, SystemClock};
use svcfs_config::{CliOverrides, Config, ConfigError, KeyDigest, NetSettings, Settings, SpaceSettings, templates};
use svcfs_knowledge::access::AccessControl;
use svcfs_knowledge::audit::{RequestHead, TrackedRequest};
use svcfs_knowledge::kernel::{OperationContext, OperationEntry, ServerState, Space};
use svcfs_knowledge::spaces::{self, RunningSpace, SpaceCollection, SpaceOpener, SpaceOptions};
use svcfs_work::Supervisor;

use crate::failure::{CommandFailure, ExitStatus};
use crate::progress::OpeningProgress;
use crate::{adoption, control, credentials, handover, presence, root_flag};

/// How long background tasks may take to end.
const TASK_STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// How often a command that waits for the index checks whether the indexer has failed.
const INDEX_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A root whose space is open and indexed; no other process can open it meanwhile.
pub struct OpenRoot {
    server: Arc<ServerState>,
    announced: Arc<AnnouncedSpaces>,
    supervisor: Supervisor,
}

impl OpenRoot {
    /// Opens a root and creates the directory if it is missing: completes accepted changes, adopts
    /// external edits, starts the indexer, and with `watch` the service tasks of a served root.
    /// Shows progress, because adoption can take long.
    ///
    /// # Errors
    /// `Conflict` with the `pid` when another process uses the root; those of [`spaces::open`].
    pub fn open(path: &Path, settings: Settings, watch: bool) -> Result<Self, Fault> {
        let clock = Arc::new(SystemClock);
        let opening = OpeningProgress::opening(path);
        let (name, root, progress) = (presence::FIRST.to_owned(), path.to_owned(), Some(opening.listener()));
        let opened = spaces::open(
            SpaceOptions { name, root, clock: clock.clone(), is_watched: watch, on_progress: progress },
            &settings,
        );
        drop(opening);
        let space = opened?;
        let supervisor = Supervisor::new();
        spaces::start_indexer(&space, &supervisor)?;
        if watch {
            spaces::start_service_tasks(&space, clock.clone(), &settings, &supervisor)?;
        }
        let key = credentials::generate_key("").map_err(|failure| Fault::internal(failure.message(false)))?;
        let control = control::socket_path(space.vfs.root());
        let announced = Arc::new(AnnouncedSpaces { url: OnceLock::new(), key, control });
        let parents = parents(&space, &settings);
        let access = AccessControl::new(settings.auth.clone(), Some(KeyDigest::from_key(&announced.key)));
        let server = Arc::new_cyclic(|server| {
            let listed = (settings.spaces.clone(), settings.net.clone());
            let opener = opener((Arc::clone(&announced), Weak::clone(server)), listed);
            ServerState::new(SpaceCollection::single(space).with_opener(opener, parents), clock, access)
        });
        // Also when WebDAV is off now: only its own journal knows of interrupted replacements.
        svcfs_webdav::recover_replacements(&server, server.primary());
        Ok(Self { server, announced, supervisor })
    }

    /// The state that operations need.
    pub fn server(&self) -> &Arc<ServerState> {
        &self.server
    }

    /// A key that the server accepts whatever its settings; only users who can read the server's
    /// files know it.
    pub fn key(&self) -> &str {
        &self.announced.key
    }

    /// Opens the secondary spaces: those of the settings and those that were created at run time.
    /// Announces to other commands that they are served at `url`.
    ///
    /// # Errors
    /// Those of [`SpaceCollection::open_configured`].
    pub fn open_others(&self, url: &str, listed: Vec<(String, PathBuf)>) -> Result<(), Fault> {
        let _first_time = self.announced.url.set(url.to_owned());
        let configured = self.server.settings().spaces.iter().map(|space| (space.name.clone(), space.root.clone()));
        self.server.spaces().open_configured(listed.into_iter().chain(configured).collect())
    }

    /// The first space.
    pub fn space(&self) -> &Arc<Space> {
        self.server.primary()
    }

    /// Waits up to `timeout` until all accepted changes are indexed; calls `on_wait` while waiting.
    ///
    /// # Errors
    /// `Unavailable` after the timeout, or with the error of the indexer.
    pub fn index_to_cursor(&self, timeout: Duration, mut on_wait: impl FnMut()) -> Result<(), Fault> {
        let accepted = self.space().vfs.last_seq();
        let started = std::time::Instant::now();
        while !self.space().wait_for_index(accepted, INDEX_POLL_INTERVAL) {
            on_wait();
            let failure = self.supervisor.status().into_iter().find_map(|task| task.last_error);
            if let Some(error) = failure {
                return Err(Fault::unavailable(format!("the index cannot be updated: {error}")));
            }
            if started.elapsed() >= timeout {
                return Err(Fault::unavailable(
                    "the index is not up to date yet; indexing continues at the next start",
                ));
            }
        }
        Ok(())
    }

    /// Stops the background tasks, completes accepted writes and releases the root.
    ///
    /// # Errors
    /// Those of closing the log; accepted changes are in the log then.
    pub fn close(self) -> Result<(), Fault> {
        // The supervisor logs the tasks that did not end; the process exits anyway.
        let secondary = self.server.spaces().close_secondary();
        self.supervisor.stop(TASK_STOP_TIMEOUT);
        if let Err(error) = self.space().usage.flush(self.server.now()) {
            tracing::warn!(%error, "usage counts could not be written");
        }
        // Open files are saved now; that must be in the audit log.
        let closed = self.space().vfs.close();
        self.space().flush_records();
        closed?;
        secondary
    }
}

/// What is announced to other commands about secondary spaces.
struct AnnouncedSpaces {
    /// Address of the HTTP server, once there is one.
    url: OnceLock<String>,
    /// The key for local commands.
    key: String,
    /// The control socket.
    control: PathBuf,
}

/// Parent directories of new spaces: those of the settings, else a directory next to the root.
fn parents(first: &Space, settings: &Settings) -> Vec<PathBuf> {
    if !settings.server.space_parents.is_empty() {
        return settings.server.space_parents.clone();
    }
    let mut default_parent = first.vfs.root().as_os_str().to_owned();
    default_parent.push(".spaces");
    vec![default_parent.into()]
}

/// Opens secondary spaces; the server's settings override their own.
fn opener(
    (announced, server): (Arc<AnnouncedSpaces>, Weak<ServerState>),
    (listed, net): (Vec<SpaceSettings>, NetSettings),
) -> SpaceOpener {
    Box::new(move |name, path| {
        let mut settings = of_space(path)
            .map_err(|failure| Fault::new(Kind::Invalid, failure.message(false).trim_start_matches("svcfs: ")))?;
        settings.net = net.clone();
        let fixed = listed.iter().find(|space| space.name == name).and_then(|space| space.visibility);
        if let Some(visibility) = fixed {
            settings.visibility = visibility;
            settings.visibility_is_fixed = true;
        }
        adoption::refuse_uncommitted(path, &settings)?;
        let clock = Arc::new(SystemClock);
        let space = handover::open(path, || {
            let (name, root) = (name.to_owned(), path.to_owned());
            let clock = clock.clone();
            spaces::open(SpaceOptions { name, root, clock, is_watched: true, on_progress: None }, &settings)
        })?;
        let supervisor = Supervisor::new();
        spaces::start_indexer(&space, &supervisor)?;
        spaces::start_service_tasks(&space, clock, &settings, &supervisor)?;
        if let Some(server) = server.upgrade() {
            svcfs_webdav::recover_replacements(&server, &space);
        }
        let presence = presence::announce(
            space.vfs.root(),
            (&space.name, Some(announced.control.clone())),
            (announced.url.get().cloned(), &announced.key),
            Vec::new(),
        );
        let presence = presence.map_err(|failure| Fault::internal(failure.message(false)))?;
        Ok(RunningSpace { space, supervisor, resource_guard: Some(Box::new(presence)) })
    })
}

/// Whether a server with these settings has a space of this name; `created` are those created at
/// run time.
pub fn is_space(name: &str, settings: &Settings, created: &BTreeMap<String, PathBuf>) -> bool {
    name == presence::FIRST || settings.spaces.iter().any(|space| space.name == name) || created.contains_key(name)
}

/// The settings of a secondary space. Settings of the server have no effect there and are refused:
/// a user who writes `[auth]` there would believe that it is in effect.
///
/// # Errors
/// As [`settings`]; `Refused` for a section without effect.
pub fn of_space(root: &Path) -> Result<Settings, CommandFailure> {
    let settings = settings(root, None, CliOverrides::default())?;
    let default = Settings::resolve(Config::default(), CliOverrides::default())?;
    let sections = [
        ("auth", settings.auth != default.auth),
        ("server", settings.server != default.server),
        ("tracing", settings.log != default.log),
        ("s3", settings.s3 != default.s3),
        ("webdav", settings.webdav != default.webdav),
        ("nfs", settings.nfs != default.nfs),
        ("net", settings.net != default.net),
        ("spaces", settings.spaces != default.spaces),
    ];
    match sections.into_iter().find(|(_, differs)| *differs) {
        Some((section, _)) => {
            let message = format!(
                "`{section}` in `{}` has no effect in a secondary space; move it to the settings of the first space",
                root.join(templates::CONFIG.path).display()
            );
            Err(CommandFailure::saying(ExitStatus::Refused, message))
        }
        None => Ok(settings),
    }
}

/// The settings of a root: the file `config`, else the root's own file; flags override it.
///
/// # Errors
/// All problems of the file and the flags.
pub fn settings(root: &Path, config: Option<&Path>, overrides: CliOverrides) -> Result<Settings, CommandFailure> {
    refuse_invalid_root(root)?;
    Ok(read_settings(root, config, overrides)?)
}

/// Like [`settings`], without checking the root and with separate problems.
///
/// # Errors
/// All problems of the file and the flags.
pub fn read_settings(root: &Path, config: Option<&Path>, overrides: CliOverrides) -> Result<Settings, ConfigError> {
    let environment = |name: &str| std::env::var(name).ok();
    let read = match config {
        Some(file) => Config::read_existing(file, &environment),
        None => Config::read(&root.join(templates::CONFIG.path), &environment),
    }?;
    Ok(Settings { config_file: config.map(Path::to_owned), ..Settings::resolve(read, overrides)? })
}

/// Refuses a directory that is not a knowledge root, so that a typo in a path does not create a
/// repository in another directory.
///
/// # Errors
/// `Refused`, with what to do.
pub fn require_initialised(root: &Path) -> Result<(), CommandFailure> {
    refuse_invalid_root(root)?;
    if root.join(".svc").is_dir() {
        return Ok(());
    }
    let (text, shown, choice) = (root.display(), root_flag::shown(root), root_flag::choice(root));
    let message = if root.is_dir() {
        format!("{shown} is not a knowledge root; run `svcfs init --root {text}`, which keeps existing files")
    } else {
        format!("root {shown} does not exist; create it with `svcfs init --root {text}`, or {choice}")
    };
    Err(CommandFailure::saying(ExitStatus::Refused, message))
}

/// Refuses a path that exists and cannot be a root.
///
/// # Errors
/// `Refused`, with what to do.
pub fn refuse_invalid_root(root: &Path) -> Result<(), CommandFailure> {
    if svcfs_mount::is_mounted(root) {
        let text = root.display();
        let message = if svcfs_mount::is_dead_mount(root) {
            format!("`{text}` is hidden by the stale mount of a killed server; run `svcfs unmount {text}`")
        } else {
            format!("`{text}` is a mount of svcfs, not a root; name its server with `--url URL`")
        };
        return Err(CommandFailure::saying(ExitStatus::Refused, message));
    }
    if root.exists() && !root.is_dir() {
        let message = format!("root {} is a file; give a directory", root_flag::shown(root));
        return Err(CommandFailure::saying(ExitStatus::Refused, message));
    }
    Ok(())
}

/// Whether a root is empty, so that a template can be installed. A start that was interrupted
/// before its template was written leaves only a repository and a state directory.
pub fn is_new(root: &Path) -> bool {
    let names = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    let entries = names(root);
    let is_interrupted =
        || entries.iter().all(|name| name == ".git" || name == ".svc") && names(&root.join(".svc")) == ["state"];
    entries.is_empty() || is_interrupted()
}

/// The caller of a command, as commits name it: the given name, else the login name.
pub fn cli_caller(given: Option<&str>) -> Caller {
    let caller = Caller::new(Protocol::Cli);
    match given.map(str::to_owned).or_else(login_name) {
        Some(name) => caller.with_actor(Actor::new(&name)),
        None => caller,
    }
}

/// The precondition of `--if-match`.
///
/// # Errors
/// `Invalid` for a text that is no ETag.
pub fn expectation(text: &str) -> Result<Precondition, Fault> {
    if text.trim() == "*" {
        return Ok(Precondition::Present);
    }
    ETag::parse("--if-match", text).map(|etag| Precondition::OneOf(vec![etag]))
}

/// Runs an operation in this process and records it in the audit log; returns its output and the
/// lines about it.
///
/// # Errors
/// Those of the operation.
pub fn run_operation(
    (server, space): (&Arc<ServerState>, &Arc<Space>),
    (entry, caller): (&'static OperationEntry, &Caller),
    arguments: Map<String, Value>,
) -> Result<(Value, Vec<String>), Fault> {
    let (method, path, query) = ("call".to_owned(), entry.name.to_owned(), String::new());
    let head = RequestHead { protocol: caller.protocol, method, path, query, peer: None, id: None };
    let request = TrackedRequest::start(server, head);
    let notes = request.notes();
    notes.set_space(space);
    notes.set_operation(entry.name);
    notes.set_actor(caller.actor());
    notes.set_arguments(&arguments);
    let cx = OperationContext::new(server, space, caller);
    let outcome = (entry.call)(arguments.into(), &cx);
    let lines = cx.response_meta().lines().collect();
    request.finish(outcome.as_ref().map_or_else(|fault| fault.kind().http(), |_| 200));
    Ok((outcome?, lines))
}

/// `$USER`, else the name of the process's user, as the mount does.
fn login_name() -> Option<String> {
    let name = std::env::var("USER").ok().filter(|name| !name.is_empty());
    name.or_else(|| Some(User::from_uid(geteuid()).ok()??.name))
}
