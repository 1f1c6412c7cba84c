//! The spaces of one server: found by name, added and removed at run time.
//!
//! Invariant: spaces are independent. One that cannot be opened is listed with the error; the
//! others are served.

mod buckets;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use parking_lot::{Mutex, RwLock};
use svcfs_base::{Caller, Change, Fault, Kind, Protocol, Timestamp, TreePath};
use svcfs_config::templates::CONFIG;
use svcfs_vfs::DirtyBytes;
use svcfs_work::Supervisor;

use crate::kernel::Space;

const TASK_STOP_TIMEOUT: Duration = Duration::from_secs(8);

const STATE_FOLDER: &str = ".svc";

/// The list of spaces created at run time, relative to the first space's root.
const LIST_PATH: &str = ".svc/spaces.json";

/// A space with its tasks.
pub struct RunningSpace {
    /// The space.
    pub space: Arc<Space>,
    /// Its background tasks.
    pub supervisor: Supervisor,
    /// Dropped after the space is closed.
    pub resource_guard: Option<Box<dyn Any + Send + Sync>>,
}

/// Opens a space by name and root; provided by the daemon.
pub type SpaceOpener = Box<dyn Fn(&str, &Path) -> Result<RunningSpace, Fault> + Send + Sync>;

/// A space other than the first.
enum SpaceSlot {
    Open(RunningSpace),
    Failed { name: String, root: PathBuf, error: Fault },
}

impl SpaceSlot {
    fn name(&self) -> &str {
        match self {
            Self::Open(running) => &running.space.name,
            Self::Failed { name, .. } => name,
        }
    }
    fn root(&self) -> &Path {
        match self {
            Self::Open(running) => running.space.vfs.root(),
            Self::Failed { root, .. } => root,
        }
    }
    fn status(&self) -> SpaceStatus {
        match self {
            Self::Open(running) => SpaceStatus::Open(Arc::clone(&running.space)),
            Self::Failed { name, root, error } => SpaceStatus::Failed(name.clone(), root.clone(), error.duplicate()),
        }
    }
}

/// The status of a space.
pub enum SpaceStatus {
    /// It is served.
    Open(Arc<Space>),
    /// It could not be opened: name, root and error.
    Failed(String, PathBuf, Fault),
}

/// The spaces of a server. The first one serves requests that name none, and is never removed.
pub struct SpaceCollection {
    first: Arc<Space>,
    secondary: RwLock<Vec<SpaceSlot>>,
    /// Serializes changes of the list, which take longer than the lock on it is held.
    change_lock: Mutex<()>,
    opener: Option<SpaceOpener>,
    parents: Vec<PathBuf>,
    /// Shared limit of dirty buffers in memory.
    dirty_bytes: Arc<DirtyBytes>,
}

impl SpaceCollection {
    /// A collection with one space that cannot open more.
    pub fn single(first: Arc<Space>) -> Self {
        let (secondary, change_lock, parents, dirty_bytes) = Default::default();
        first.vfs.share_dirty_bytes(&dirty_bytes);
        Self { first, secondary, change_lock, opener: None, parents, dirty_bytes }
    }
    /// Sets how to open more spaces, and the directories for those that callers create.
    #[must_use]
    pub fn with_opener(mut self, opener: SpaceOpener, parents: Vec<PathBuf>) -> Self {
        self.opener = Some(opener);
        self.parents = parents;
        self
    }
    /// Adds an open space.
    pub fn add(&self, running: RunningSpace) {
        self.secondary.write().push(self.to_slot(running));
    }
    fn to_slot(&self, running: RunningSpace) -> SpaceSlot {
        running.space.vfs.share_dirty_bytes(&self.dirty_bytes);
        SpaceSlot::Open(running)
    }
    /// The primary space.
    pub fn first(&self) -> &Arc<Space> {
        &self.first
    }
    /// The served spaces; the primary one first.
    pub fn list_open(&self) -> Vec<Arc<Space>> {
        let secondary = self.secondary.read();
        let open = secondary.iter().filter_map(|slot| match slot {
            SpaceSlot::Open(running) => Some(Arc::clone(&running.space)),
            SpaceSlot::Failed { .. } => None,
        });
        std::iter::once(Arc::clone(&self.first)).chain(open).collect()
    }
    /// All spaces; the primary one first.
    pub fn list_all(&self) -> Vec<SpaceStatus> {
        let secondary = self.secondary.read();
        std::iter::once(SpaceStatus::Open(Arc::clone(&self.first)))
            .chain(secondary.iter().map(SpaceSlot::status))
            .collect()
    }
    /// The status of a space by name.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn status(&self, name: &str) -> Result<SpaceStatus, Fault> {
        if self.first.name == name {
            return Ok(SpaceStatus::Open(Arc::clone(&self.first)));
        }
        let secondary = self.secondary.read();
        secondary.iter().find(|slot| slot.name() == name).map(SpaceSlot::status).ok_or_else(|| not_found(name))
    }
    /// A served space by name.
    ///
    /// # Errors
    /// `NotFound` if there is none, `Unavailable` with the reason if it could not be opened.
    pub fn find(&self, name: &str) -> Result<Arc<Space>, Fault> {
        match self.status(name)? {
            SpaceStatus::Open(space) => Ok(space),
            SpaceStatus::Failed(_, _, error) => {
                Err(Fault::unavailable(format!("the space `{name}` cannot be opened: {error}")))
            }
        }
    }

    /// Opens the spaces in the settings (`listed`) and those created at run time. A space that
    /// cannot be opened is listed as failed, and the error is logged.
    ///
    /// # Errors
    /// `Invalid` and `Exists` for a name or root in `listed` that is invalid or in use.
    pub fn open_configured(&self, listed: Vec<(String, PathBuf)>) -> Result<(), Fault> {
        let _guard = self.change_lock.lock();
        for (name, root) in listed {
            self.check_name(&name)?;
            self.check_root(&root)?;
            let check = if root.exists() { Ok(()) } else { Err(missing_root(&root)) };
            self.open_slot(name, root, check)?;
        }
        let saved_spaces = self.saved_spaces().unwrap_or_else(|fault| {
            tracing::error!(error = ?fault, "cannot load the spaces created at run time");
            BTreeMap::new()
        });
        for (name, root) in saved_spaces {
            // Skip spaces that are in the settings by now.
            if self.check_name(&name).and_then(|()| self.check_root(&root)).is_ok() {
                // An existing root has this directory; without it the disk is probably not mounted.
                let check = if root.join(STATE_FOLDER).exists() { Ok(()) } else { Err(missing_root(&root)) };
                self.open_slot(name, root, check)?;
            }
        }
        Ok(())
    }

    /// Opens a configured space, unless `check` failed: then the root is not the right directory.
    fn open_slot(&self, name: String, root: PathBuf, check: Result<(), Fault>) -> Result<(), Fault> {
        let opener = self.opener()?;
        let slot = match check.and_then(|()| opener(&name, &root)) {
            Ok(running) => self.to_slot(running),
            Err(error) => {
                tracing::error!(space = name, root = %root.display(), error = ?error, "cannot open a space; the others are served");
                SpaceSlot::Failed { name, root, error }
            }
        };
        self.secondary.write().push(slot);
        Ok(())
    }

    /// Creates a space at a root: a relative `root` (default: the name) is below the first
    /// configured directory, an absolute one must be below any of them. A missing directory is
    /// created; existing files are adopted. `install` writes the first files.
    ///
    /// # Errors
    /// `Invalid` for a bad name or root, `Forbidden` for a root elsewhere, `Exists` if the name or
    /// the root is in use; those of opening and of `install`.
    pub fn create(
        &self,
        (name, root): (&str, Option<&str>),
        install: impl FnOnce(&Space) -> Result<(), Fault>,
    ) -> Result<Arc<Space>, Fault> {
        let _guard = self.change_lock.lock();
        self.check_name(name)?;
        let root = self.resolve_root(root.unwrap_or(name))?;
        self.check_root(&root)?;
        self.open_and_save((name, root), install)
    }

    /// Opens a root and saves it in the list. The caller holds `change_lock`.
    fn open_and_save(
        &self,
        (name, root): (&str, PathBuf),
        install: impl FnOnce(&Space) -> Result<(), Fault>,
    ) -> Result<Arc<Space>, Fault> {
        let settings = TreePath::parse(CONFIG.path)?;
        let has_settings = root.join(CONFIG.path).exists();
        let mut running = self.opener()?(name, &root)?;
        if let Err(fault) = install(&running.space) {
            close(running)?;
            return Err(fault);
        }
        if !has_settings && running.space.vfs.stat(Protocol::Internal, &settings).is_ok() {
            // They are in effect from now on, and not only after a restart.
            close(running)?;
            running = self.opener()?(name, &root)?;
        }
        let space = Arc::clone(&running.space);
        let mut saved_spaces = self.saved_spaces()?;
        saved_spaces.insert(name.to_owned(), root);
        if let Err(fault) = self.save(&saved_spaces) {
            close(running)?;
            return Err(fault);
        }
        self.add(running);
        Ok(space)
    }

    /// Removes a space from the server; its files stay. Requests in progress finish.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for the first space and for those in the settings.
    pub fn remove(&self, name: &str) -> Result<(), Fault> {
        let _guard = self.change_lock.lock();
        self.remove_locked(name)
    }

    /// The same; the caller holds `change_lock`.
    fn remove_locked(&self, name: &str) -> Result<(), Fault> {
        if self.first.name == name {
            let message = format!("`{name}` is the space that the server was started with; stop the server instead");
            return Err(Fault::new(Kind::Conflict, message));
        }
        let mut saved_spaces = self.saved_spaces()?;
        let at = self.secondary.read().iter().position(|slot| slot.name() == name).ok_or_else(|| not_found(name))?;
        if saved_spaces.remove(name).is_none() {
            let message =
                format!("the space `{name}` is in the server's settings; remove it there and restart the server");
            return Err(Fault::new(Kind::Conflict, message));
        }
        self.save(&saved_spaces)?;
        let slot = self.secondary.write().remove(at);
        match slot {
            SpaceSlot::Open(running) => close(running),
            SpaceSlot::Failed { .. } => Ok(()),
        }
    }

    /// Stops and closes all spaces but the first; returns the first error.
    ///
    /// # Errors
    /// Those of closing the log.
    pub fn close_secondary(&self) -> Result<(), Fault> {
        let secondary = std::mem::take(&mut *self.secondary.write());
        let closed: Vec<Result<(), Fault>> = secondary
            .into_iter()
            .map(|slot| match slot {
                SpaceSlot::Open(running) => close(running),
                SpaceSlot::Failed { .. } => Ok(()),
            })
            .collect();
        closed.into_iter().collect()
    }

    fn opener(&self) -> Result<&SpaceOpener, Fault> {
        self.opener.as_ref().ok_or_else(|| Fault::unavailable("this process cannot open more spaces"))
    }

    fn resolve_root(&self, root: &str) -> Result<PathBuf, Fault> {
        let is_plain = |path: &Path| {
            use std::path::Component::{Normal, RootDir};
            path.components().all(|part| matches!(part, Normal(_) | RootDir))
        };
        let requested = Path::new(root);
        if root.is_empty() || !is_plain(requested) || root.contains(char::is_control) {
            let message = "must be the path of a directory, without `.`, `..` and control characters";
            return Err(Fault::invalid("root", message));
        }
        let parent = self.parents.first().ok_or_else(|| Fault::unavailable("this process cannot create spaces"))?;
        let path = if requested.is_absolute() { requested.to_owned() } else { parent.join(requested) };
        // Symbolic links are resolved in the existing part of the path.
        let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
        let canonical = existing.canonicalize().map_err(|error| Fault::invalid("root", error))?;
        let path = path.strip_prefix(existing).map_or_else(|_| canonical.clone(), |rest| canonical.join(rest));
        let is_below = |parent: &PathBuf| {
            let parent = parent.canonicalize().unwrap_or_else(|_| parent.clone());
            path != parent && path.starts_with(parent)
        };
        if self.parents.iter().any(is_below) {
            return Ok(path);
        }
        let parents: Vec<String> = self.parents.iter().map(|parent| format!("`{}`", parent.display())).collect();
        let message = format!(
            "`root`: new spaces must be below {}; add directories in the setting `server.space_parents`",
            parents.join(" or ")
        );
        Err(Fault::new(Kind::Forbidden, message))
    }

    fn check_name(&self, name: &str) -> Result<(), Fault> {
        super::check_name(name)?;
        match self.status(name) {
            Ok(_) => Err(Fault::new(Kind::Exists, format!("the space `{name}` already exists"))),
            Err(_) => Ok(()),
        }
    }

    /// Checks that a root neither contains nor is inside that of another space.
    fn check_root(&self, root: &Path) -> Result<(), Fault> {
        let secondary = self.secondary.read();
        let used = secondary.iter().map(|slot| (slot.name(), slot.root()));
        for (name, slot) in std::iter::once((self.first.name.as_str(), self.first.vfs.root())).chain(used) {
            if root.starts_with(slot) || slot.starts_with(root) {
                let message = format!(
                    "`root`: the space `{name}` has root `{}`; roots must not contain each other",
                    slot.display()
                );
                return Err(Fault::new(Kind::Exists, message));
            }
        }
        Ok(())
    }

    /// The spaces created at run time. The list is a versioned file in the first space's tree,
    /// hidden from network protocols.
    fn saved_spaces(&self) -> Result<BTreeMap<String, PathBuf>, Fault> {
        let file = TreePath::parse(LIST_PATH)?;
        match self.first.vfs.read(Protocol::Internal, &file) {
            Ok(read) => parse_list(&read.content),
            Err(fault) if fault.kind() == Kind::NotFound => Ok(BTreeMap::new()),
            Err(fault) => Err(fault),
        }
    }

    fn save(&self, saved_spaces: &BTreeMap<String, PathBuf>) -> Result<(), Fault> {
        let text = serde_json::to_vec_pretty(saved_spaces).map_err(Fault::internal)?;
        let change = Change::put(TreePath::parse(LIST_PATH)?, text);
        self.first.vfs.apply(&Caller::new(Protocol::Internal), change).map(drop)
    }
}

impl SpaceStatus {
    /// Name of the space.
    pub fn name(&self) -> &str {
        match self {
            Self::Open(space) => &space.name,
            Self::Failed(name, ..) => name,
        }
    }
}

/// Names and roots of the spaces created at run time, read from the first space's root; no server
/// needs to run.
pub fn runtime_spaces(root: &Path) -> Result<BTreeMap<String, PathBuf>, Fault> {
    match fs::read(root.join(LIST_PATH)) {
        Ok(list) => parse_list(&list),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(BTreeMap::new())
        }
        Err(error) => Err(Fault::unavailable(format!("cannot read `{LIST_PATH}` of the first space: {error}"))),
    }
}

fn parse_list(list: &[u8]) -> Result<BTreeMap<String, PathBuf>, Fault> {
    serde_json::from_slice(list)
        .map_err(|error| Fault::new(Kind::Invalid, format!("cannot parse `{LIST_PATH}` of the first space: {error}")))
}

/// Opening a missing root would create an empty space that looks healthy.
fn missing_root(root: &Path) -> Fault {
    let displayed = root.display();
    Fault::unavailable(format!(
        "its root `{displayed}` does not exist; mount its disk or create the directory, and restart the server"
    ))
}

fn not_found(name: &str) -> Fault {
    Fault::not_found(format!("space not found: {}", svcfs_base::escape_unprintable(name)))
}

fn close(running: RunningSpace) -> Result<(), Fault> {
    let RunningSpace { space, supervisor, resource_guard: guard } = running;
    // The supervisor logs tasks that do not stop.
    supervisor.stop(TASK_STOP_TIMEOUT);
    // Open dirty buffers are saved, possibly without their author.
    let closed = space.vfs.close();
    space.flush_records();
    space.backup.finish(&space, Timestamp::now());
    drop(guard);
    closed
}
