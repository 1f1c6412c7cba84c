//! A knowledge root, opened in this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use nix::unistd::{User, geteuid};
use svcfs_base::{Actor, Caller, Fault, Kind, Protocol, SystemClock};
use svcfs_config::{CliOverrides, Config, ConfigError, KeyDigest, Settings, SpaceSettings, templates};
use svcfs_knowledge::access::AccessControl;
use svcfs_knowledge::kernel::{ServerState, Space};
use svcfs_knowledge::spaces::{self, RunningSpace, SpaceCollection, SpaceOpener, SpaceOptions};
use svcfs_work::Supervisor;

use crate::failure::{CommandFailure, ExitStatus};
use crate::progress::OpeningProgress;
use crate::{credentials, presence};

/// How long background tasks may take to end (architecture.md 8).
const TASK_PATIENCE: Duration = Duration::from_secs(8);

/// How often somebody who waits for the index looks whether the indexer is in trouble.
const LOOK: Duration = Duration::from_millis(250);

/// A root whose space is open and whose index follows it; nobody else can open it meanwhile.
pub struct OpenRoot {
    server: Arc<ServerState>,
    told: Arc<AnnouncedSpaces>,
    supervisor: Supervisor,
}

impl OpenRoot {
    /// Opens a root, making the directory when it is absent: completes what was accepted and not finished, adopts what
    /// changed behind svcfs, starts the indexer, and with `watch` all that a served root needs. Takes as long as there is to adopt, and shows how far that is.
    ///
    /// # Errors
    /// `Conflict` with the other's `pid` when another process has it; those of [`spaces::open`].
    pub fn open(path: &Path, settings: Settings, watch: bool) -> Result<Self, Fault> {
        let clock = Arc::new(SystemClock);
        let watched = OpeningProgress::opening(path);
        let (name, root, progress) = (presence::FIRST.to_owned(), path.to_owned(), Some(watched.listener()));
        let opened = spaces::open(
            SpaceOptions { name, root, clock: clock.clone(), is_watched: watch, on_progress: progress },
            &settings,
        );
        drop(watched);
        let space = opened?;
        let supervisor = Supervisor::new();
        spaces::start_indexer(&space, &supervisor)?;
        if watch {
            spaces::start_service_tasks(&space, clock.clone(), &settings, &supervisor)?;
        }
        let key = credentials::fresh("").map_err(|failure| Fault::internal(failure.told(false)))?;
        let told = Arc::new(AnnouncedSpaces { url: OnceLock::new(), key });
        let parents = parents(&space, &settings);
        let access = AccessControl::new(settings.auth.clone(), Some(KeyDigest::from_key(&told.key)));
        let server = Arc::new_cyclic(|server| {
            let opener = opener((Arc::clone(&told), Weak::clone(server)), settings.spaces.clone());
            ServerState::new(SpaceCollection::single(space).with_opener(opener, parents), clock, access)
        });
        // Also where WebDAV is not served this time: nobody but it knows what it left.
        svcfs_webdav::recover_replacements(&server, server.primary());
        Ok(Self { server, told, supervisor })
    }

    /// Everything operations need.
    pub fn server(&self) -> &Arc<ServerState> {
        &self.server
    }

    /// What opens the server whatever its settings; only who may read the server's files may know it.
    pub fn key(&self) -> &str {
        &self.told.key
    }

    /// Opens the spaces beside the first: those of the settings, and those that were made at run time before. Others on this machine are
    /// told that they are served at `url`.
    ///
    /// # Errors
    /// Those of [`Spaces::open_listed`].
    pub fn open_others(&self, url: &str, listed: Vec<(String, PathBuf)>) -> Result<(), Fault> {
        let _first_time = self.told.url.set(url.to_owned());
        let configured = self.server.settings().spaces.iter().map(|space| (space.name.clone(), space.root.clone()));
        self.server.spaces().open_configured(listed.into_iter().chain(configured).collect())
    }

    /// The one space.
    pub fn space(&self) -> &Arc<Space> {
        self.server.primary()
    }

    /// Waits until the index has read everything accepted so far, at most this long; `look` is called now and then.
    ///
    /// # Errors
    /// `Unavailable` when the time is up, or with the indexer's own words when it fails.
    pub fn index_to_cursor(&self, at_most: Duration, mut look: impl FnMut()) -> Result<(), Fault> {
        let accepted = self.space().vfs.last_seq();
        let started = std::time::Instant::now();
        while !self.space().wait_for_index(accepted, LOOK) {
            look();
            let trouble = self.supervisor.status().into_iter().find_map(|task| task.last_error);
            if let Some(error) = trouble {
                return Err(Fault::unavailable(format!("the index cannot be brought up to date: {error}")));
            }
            if started.elapsed() >= at_most {
                return Err(Fault::unavailable("the index is not up to date yet; it goes on at the next start"));
            }
        }
        Ok(())
    }

    /// Stops the background tasks, finishes every accepted write and lets go of the root.
    ///
    /// # Errors
    /// Those of closing the log; everything accepted is in it then.
    pub fn close(self) -> Result<(), Fault> {
        // Who lingers is named in the log by the supervisor; the process ends anyway.
        let others = self.server.spaces().close_secondary();
        self.supervisor.stop(TASK_PATIENCE);
        if let Err(error) = self.space().usage.flush(self.server.now()) {
            tracing::warn!(%error, "what was read and searched for could not be counted");
        }
        // What is still open is saved now, by somebody.
        let closed = self.space().vfs.close();
        self.space().flush_audit();
        closed?;
        others
    }
}

/// What other commands on this machine are told of the spaces beside the first.
struct AnnouncedSpaces {
    /// Address of the HTTP server, once there is one.
    url: OnceLock<String>,
    /// What opens it.
    key: String,
}

/// Where new spaces may be made: where the settings say, else in a directory beside the root.
fn parents(first: &Space, settings: &Settings) -> Vec<PathBuf> {
    if !settings.server.space_parents.is_empty() {
        return settings.server.space_parents.clone();
    }
    let mut beside = first.vfs.root().as_os_str().to_owned();
    beside.push(".spaces");
    vec![beside.into()]
}

/// How a space beside the first is opened; what the server's settings say of it beats its own.
fn opener((told, server): (Arc<AnnouncedSpaces>, Weak<ServerState>), listed: Vec<SpaceSettings>) -> SpaceOpener {
    Box::new(move |name, path| {
        let mut settings = of_space(path).map_err(|failure| Fault::new(Kind::Invalid, failure.told(false)))?;
        let said = listed.iter().find(|space| space.name == name).and_then(|space| space.visibility);
        if let Some(visibility) = said {
            settings.visibility = visibility;
            settings.visibility_is_fixed = true;
        }
        let clock = Arc::new(SystemClock);
        let (name, root) = (name.to_owned(), path.to_owned());
        let space = spaces::open(
            SpaceOptions { name, root, clock: clock.clone(), is_watched: true, on_progress: None },
            &settings,
        )?;
        let supervisor = Supervisor::new();
        spaces::start_indexer(&space, &supervisor)?;
        spaces::start_service_tasks(&space, clock, &settings, &supervisor)?;
        if let Some(server) = server.upgrade() {
            svcfs_webdav::recover_replacements(&server, &space);
        }
        let announced =
            presence::announce(space.vfs.root(), &space.name, (told.url.get().cloned(), &told.key), Vec::new());
        let announced = announced.map_err(|failure| Fault::internal(failure.told(false)))?;
        Ok(RunningSpace { space, supervisor, resource_guard: Some(Box::new(announced)) })
    })
}

/// Whether a server with these settings has a space of this name; `made` are those that were made at run time.
pub fn is_space(name: &str, settings: &Settings, made: &BTreeMap<String, PathBuf>) -> bool {
    name == presence::FIRST || settings.spaces.iter().any(|space| space.name == name) || made.contains_key(name)
}

/// The settings of a space beside the first. What is the server's affair has no effect there, and is refused: who wrote `[auth]` believes the
/// door closed by it.
///
/// # Errors
/// As [`settings`]; `Refused` for a section without effect.
pub fn of_space(root: &Path) -> Result<Settings, CommandFailure> {
    let settings = settings(root, None, CliOverrides::default())?;
    let plain = Settings::resolve(Config::default(), CliOverrides::default())?;
    let sections = [
        ("auth", settings.auth != plain.auth),
        ("server", settings.server != plain.server),
        ("tracing", settings.log != plain.log),
        ("s3", settings.s3 != plain.s3),
        ("webdav", settings.webdav != plain.webdav),
        ("nfs", settings.nfs != plain.nfs),
        ("spaces", settings.spaces != plain.spaces),
    ];
    match sections.into_iter().find(|(_, differs)| *differs) {
        Some((section, _)) => {
            let told = format!(
                "`{section}` in `{}` has no effect in a space beside the first; it belongs into the settings of the first one's root",
                root.join(templates::CONFIG.path).display()
            );
            Err(CommandFailure::saying(ExitStatus::Refused, told))
        }
        None => Ok(settings),
    }
}

/// The settings of a root: `config` when it is named, else the root's own file, beaten by flags.
///
/// # Errors
/// Every complaint about the file and the flags at once.
pub fn settings(root: &Path, config: Option<&Path>, overrides: CliOverrides) -> Result<Settings, CommandFailure> {
    must_be_no_file(root)?;
    Ok(understood(root, config, overrides)?)
}

/// The same, with each complaint by itself, and whatever is in the place of the root.
///
/// # Errors
/// Every complaint about the file and the flags at once.
pub fn understood(root: &Path, config: Option<&Path>, overrides: CliOverrides) -> Result<Settings, ConfigError> {
    let environment = |name: &str| std::env::var(name).ok();
    let read = match config {
        Some(file) => Config::read_existing(file, &environment),
        None => Config::read(&root.join(templates::CONFIG.path), &environment),
    }?;
    Ok(Settings { config_file: config.map(Path::to_owned), ..Settings::resolve(read, overrides)? })
}

/// Refuses what is not a knowledge root yet, so that a slip in a path does not make a repository of somebody's directory.
///
/// # Errors
/// `Refused`, with what to do.
pub fn must_be_initialised(root: &Path) -> Result<(), CommandFailure> {
    must_be_no_file(root)?;
    if root.join(".svc").is_dir() {
        return Ok(());
    }
    let text = root.display();
    let told = if root.is_dir() {
        format!("`{text}` is not a knowledge root; `svcfs init --root {text}` makes it one and keeps what is in it")
    } else {
        format!("root `{text}` does not exist; `svcfs init --root {text}` makes it, or name another with --root")
    };
    Err(CommandFailure::saying(ExitStatus::Refused, told))
}

/// Refuses a root that is there and cannot be one.
///
/// # Errors
/// `Refused`, with what to do.
pub fn must_be_no_file(root: &Path) -> Result<(), CommandFailure> {
    if svcfs_mount::is_mounted(root) {
        let text = root.display();
        let told = if svcfs_mount::is_dead_mount(root) {
            format!("`{text}` is covered by the mount of a server that was killed; `svcfs unmount {text}` uncovers it")
        } else {
            format!(
                "`{text}` is a mount of svcfs and no root; what a server mounts is asked over HTTP (`svcfs call --url`)"
            )
        };
        return Err(CommandFailure::saying(ExitStatus::Refused, told));
    }
    if root.exists() && !root.is_dir() {
        let told = format!("root `{}` is a file, not a directory; name a directory", root.display());
        return Err(CommandFailure::saying(ExitStatus::Refused, told));
    }
    Ok(())
}

/// Whether nothing is there yet that a template could get in the way of. A start that was interrupted before its template
/// was written leaves a repository and a state directory behind, and nothing else.
pub fn is_new(root: &Path) -> bool {
    let names = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    let found = names(root);
    let is_interrupted =
        || found.iter().all(|name| name == ".git" || name == ".svc") && names(&root.join(".svc")) == ["state"];
    found.is_empty() || is_interrupted()
}

/// Who runs this program, as commits name them: the name given, else that of the login.
pub fn whoever(given: Option<&str>) -> Caller {
    let caller = Caller::new(Protocol::Cli);
    match given.map(str::to_owned).or_else(login) {
        Some(name) => caller.with_actor(Actor::new(&name)),
        None => caller,
    }
}

/// `$USER`, else the name of the process's user, as the mount would give it.
fn login() -> Option<String> {
    let said = std::env::var("USER").ok().filter(|name| !name.is_empty());
    said.or_else(|| Some(User::from_uid(geteuid()).ok()??.name))
}
