//! A knowledge root, opened in this process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{User, geteuid};
use svcfs_base::{Actor, Caller, Door, Fault, SystemClock};
use svcfs_config::{Config, KeyDigest, Overrides, Settings, templates};
use svcfs_knowledge::kernel::{Server, Space};
use svcfs_knowledge::spaces::{self, Opening};
use svcfs_work::Supervisor;

use crate::credentials;
use crate::failure::{Exit, Failure};
use crate::progress::Watched;

/// Name of the one space this version serves (contract 2.14).
const SPACE: &str = "default";

/// How long background tasks may take to end (architecture.md 8).
const TASK_PATIENCE: Duration = Duration::from_secs(8);

/// How often somebody who waits for the index looks whether the indexer is in trouble.
const LOOK: Duration = Duration::from_millis(250);

/// A root whose space is open and whose index follows it; nobody else can open it meanwhile.
pub struct Root {
    server: Arc<Server>,
    key: String,
    supervisor: Supervisor,
}

impl Root {
    /// Opens a root, making the directory when it is absent: completes what was accepted and not finished, adopts what
    /// changed behind svcfs, starts the indexer, and with `watch` all that a served root needs. Takes as long as there is to adopt, and shows how far that is.
    ///
    /// # Errors
    /// `Conflict` with the other's `pid` when another process has it; those of [`spaces::open`].
    pub fn open(path: &Path, settings: Settings, watch: bool) -> Result<Self, Fault> {
        let clock = Arc::new(SystemClock);
        let watched = Watched::opening(path);
        let (name, root, progress) = (SPACE.to_owned(), path.to_owned(), Some(watched.listener()));
        let opened = spaces::open(Opening { name, root, clock: clock.clone(), watch, progress }, &settings);
        drop(watched);
        let space = opened?;
        let supervisor = Supervisor::new();
        spaces::start(&space, &supervisor)?;
        if watch {
            spaces::attend(&space, clock.clone(), &settings, &supervisor)?;
        }
        let key = credentials::fresh("").map_err(|failure| Fault::internal(failure.told(false)))?;
        let server = Server::new(space, clock, settings).opened_by(KeyDigest::of(&key));
        Ok(Self { server: Arc::new(server), key, supervisor })
    }

    /// Everything operations need.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// What opens the server whatever its settings; only who may read the server's files may know it.
    pub fn key(&self) -> &str {
        &self.key
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
        let accepted = self.space().vfs.last_seq().0;
        let started = std::time::Instant::now();
        while !self.space().indexed.wait(accepted, LOOK) {
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
        self.supervisor.stop(TASK_PATIENCE);
        if let Err(error) = self.space().usage.write(self.server.now()) {
            tracing::warn!(%error, "what was read and searched for could not be counted");
        }
        self.space().vfs.close()
    }
}

/// The settings of a root: `config` when it is named, else the root's own file, beaten by flags.
///
/// # Errors
/// Every complaint about the file and the flags at once.
pub fn settings(root: &Path, config: Option<&Path>, overrides: Overrides) -> Result<Settings, Failure> {
    must_be_no_file(root)?;
    let environment = |name: &str| std::env::var(name).ok();
    let config = match config {
        Some(file) => Config::read_named(file, &environment),
        None => Config::read(&root.join(templates::CONFIG.path), &environment),
    }?;
    Ok(Settings::resolve(config, overrides)?)
}

/// Refuses what is not a knowledge root yet, so that a slip in a path does not make a repository of somebody's directory.
///
/// # Errors
/// `Refused`, with what to do.
pub fn must_be_initialised(root: &Path) -> Result<(), Failure> {
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
    Err(Failure::saying(Exit::Refused, told))
}

/// Refuses a root that is there and cannot be one.
fn must_be_no_file(root: &Path) -> Result<(), Failure> {
    if svcfs_mount::is_mounted(root) {
        let text = root.display();
        let told = if svcfs_mount::is_dead_mount(root) {
            format!("`{text}` is covered by the mount of a server that was killed; `svcfs unmount {text}` uncovers it")
        } else {
            format!(
                "`{text}` is a mount of svcfs and no root; what a server mounts is asked over HTTP (`svcfs call --url`)"
            )
        };
        return Err(Failure::saying(Exit::Refused, told));
    }
    if root.exists() && !root.is_dir() {
        let told = format!("root `{}` is a file, not a directory; name a directory", root.display());
        return Err(Failure::saying(Exit::Refused, told));
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
    let caller = Caller::new(Door::Cli);
    match given.map(str::to_owned).or_else(login) {
        Some(name) => caller.named(Actor::new(&name)),
        None => caller,
    }
}

/// `$USER`, else the name of the process's user, as the mount would give it.
fn login() -> Option<String> {
    let said = std::env::var("USER").ok().filter(|name| !name.is_empty());
    said.or_else(|| Some(User::from_uid(geteuid()).ok()??.name))
}
