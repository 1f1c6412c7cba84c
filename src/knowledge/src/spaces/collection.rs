//! The spaces of one server: found by name, added and removed while it runs (contract 2.14, 4.20).
//!
//! One rule: spaces know nothing of each other. One that cannot be opened is there under its name, and says why; the others are served.

mod buckets;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use parking_lot::{Mutex, RwLock};
use svcfs_base::{Caller, Change, Fault, Kind, Protocol, TreePath};
use svcfs_vfs::DirtyBytes;
use svcfs_work::Supervisor;

use crate::kernel::Space;

/// How long background tasks may take to end (architecture.md 8).
const TASK_PATIENCE: Duration = Duration::from_secs(8);

/// What every root has.
const OWN: &str = ".svc";

/// Where the spaces that were made at run time are written down, below the first space's root.
const FILE: &str = ".svc/spaces.json";

/// A space with what runs for it.
pub struct RunningSpace {
    /// The space.
    pub space: Arc<Space>,
    /// Its background tasks.
    pub supervisor: Supervisor,
    /// What is to be let go of with the space.
    pub resource_guard: Option<Box<dyn Any + Send + Sync>>,
}

/// How a space is opened, by name and root; the server's program knows.
pub type SpaceOpener = Box<dyn Fn(&str, &Path) -> Result<RunningSpace, Fault> + Send + Sync>;

/// A space beside the first.
enum SpaceSlot {
    /// Answering.
    Open(RunningSpace),
    /// Could not be opened.
    Failed { name: String, root: PathBuf, why: Fault },
}

impl SpaceSlot {
    fn name(&self) -> &str {
        match self {
            Self::Open(live) => &live.space.name,
            Self::Failed { name, .. } => name,
        }
    }
    fn root(&self) -> &Path {
        match self {
            Self::Open(live) => live.space.vfs.root(),
            Self::Failed { root, .. } => root,
        }
    }
    fn known(&self) -> SpaceStatus {
        match self {
            Self::Open(live) => SpaceStatus::Open(Arc::clone(&live.space)),
            Self::Failed { name, root, why } => SpaceStatus::Failed(name.clone(), root.clone(), why.duplicate()),
        }
    }
}

/// What is known of one space.
pub enum SpaceStatus {
    /// It answers.
    Open(Arc<Space>),
    /// It could not be opened: name, root and why.
    Failed(String, PathBuf, Fault),
}

/// Every space of a server, the first of which answers when none is named and stays as long as the server does.
pub struct SpaceCollection {
    first: Arc<Space>,
    others: RwLock<Vec<SpaceSlot>>,
    /// Held while the list is changed, which takes longer than looking something up in it.
    changing: Mutex<()>,
    opener: Option<SpaceOpener>,
    /// Directories below which new roots may lie.
    parents: Vec<PathBuf>,
    /// What is written and not saved, in memory: one room for all of them.
    unpublished: Arc<DirtyBytes>,
}

impl SpaceCollection {
    /// Only this one, and no way to open more.
    pub fn single(first: Arc<Space>) -> Self {
        let (others, changing, parents, unpublished) = Default::default();
        first.vfs.share_dirty_bytes(&unpublished);
        Self { first, others, changing, opener: None, parents, unpublished }
    }
    /// The same, with a way to open more; below these directories when callers ask for it.
    #[must_use]
    pub fn with_opener(mut self, opener: SpaceOpener, parents: Vec<PathBuf>) -> Self {
        self.opener = Some(opener);
        self.parents = parents;
        self
    }
    /// Adds a space that is open.
    pub fn add(&self, live: RunningSpace) {
        self.others.write().push(self.joined(live));
    }
    /// A space that is one of these from now on.
    fn joined(&self, live: RunningSpace) -> SpaceSlot {
        live.space.vfs.share_dirty_bytes(&self.unpublished);
        SpaceSlot::Open(live)
    }
    /// The one that answers when none is named.
    pub fn first(&self) -> &Arc<Space> {
        &self.first
    }
    /// Those that answer, the first one first.
    pub fn list_open(&self) -> Vec<Arc<Space>> {
        let others = self.others.read();
        let open = others.iter().filter_map(|place| match place {
            SpaceSlot::Open(live) => Some(Arc::clone(&live.space)),
            SpaceSlot::Failed { .. } => None,
        });
        std::iter::once(Arc::clone(&self.first)).chain(open).collect()
    }
    /// All of them, the first one first.
    pub fn list_all(&self) -> Vec<SpaceStatus> {
        let others = self.others.read();
        std::iter::once(SpaceStatus::Open(Arc::clone(&self.first))).chain(others.iter().map(SpaceSlot::known)).collect()
    }
    /// What is known of the space of a name.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn status(&self, name: &str) -> Result<SpaceStatus, Fault> {
        if self.first.name == name {
            return Ok(SpaceStatus::Open(Arc::clone(&self.first)));
        }
        let others = self.others.read();
        others.iter().find(|place| place.name() == name).map(SpaceSlot::known).ok_or_else(|| not_found(name))
    }
    /// The space of a name.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Unavailable` with the reason when it could not be opened.
    pub fn find(&self, name: &str) -> Result<Arc<Space>, Fault> {
        match self.status(name)? {
            SpaceStatus::Open(space) => Ok(space),
            SpaceStatus::Failed(_, _, why) => {
                Err(Fault::unavailable(format!("the space `{name}` could not be opened: {why}")))
            }
        }
    }

    /// Opens what the settings name (`listed`) and what was made at run time before. What does not open is there under its name, and the log
    /// says why.
    ///
    /// # Errors
    /// `Invalid` and `Exists` for a name or root in `listed` that cannot be one, or is there already.
    pub fn open_configured(&self, listed: Vec<(String, PathBuf)>) -> Result<(), Fault> {
        let _changing = self.changing.lock();
        for (name, root) in listed {
            self.check_name(&name)?;
            self.check_root(&root)?;
            let is_there = if root.exists() { Ok(()) } else { Err(missing(&root)) };
            self.open_place(name, root, is_there)?;
        }
        let saved = self.saved().unwrap_or_else(|fault| {
            tracing::error!(error = ?fault, "the spaces that were made at run time are not served");
            BTreeMap::new()
        });
        for (name, root) in saved {
            // The settings have it by now.
            if self.check_name(&name).and_then(|()| self.check_root(&root)).is_ok() {
                // It was a root when it was made: an empty directory is where a disk is not mounted.
                let is_there = if root.join(OWN).exists() { Ok(()) } else { Err(missing(&root)) };
                self.open_place(name, root, is_there)?;
            }
        }
        Ok(())
    }

    /// Opens one that is known before; never in a place that `is_there` says is not the one that was meant.
    fn open_place(&self, name: String, root: PathBuf, is_there: Result<(), Fault>) -> Result<(), Fault> {
        let opener = self.opener()?;
        let place = match is_there.and_then(|()| opener(&name, &root)) {
            Ok(live) => self.joined(live),
            Err(why) => {
                tracing::error!(space = name, root = %root.display(), error = ?why, "a space could not be opened; the others are served");
                SpaceSlot::Failed { name, root, why }
            }
        };
        self.others.write().push(place);
        Ok(())
    }

    /// Makes a space of a root: below the first of the configured directories when `root` is relative or absent, else below one of them.
    /// The directory is made when it is not there; what is in it is adopted.
    ///
    /// # Errors
    /// `Invalid` for a name or root that cannot be one, `Forbidden` for a root elsewhere, `Exists` when the name or the root is taken; those of
    /// opening.
    pub fn create(&self, name: &str, root: Option<&str>) -> Result<Arc<Space>, Fault> {
        let _changing = self.changing.lock();
        self.check_name(name)?;
        let root = self.place_of(root.unwrap_or(name))?;
        self.check_root(&root)?;
        self.open_and_save(name, root)
    }

    /// Opens a root and records it among those that were made at run time, for a caller that changes the list.
    fn open_and_save(&self, name: &str, root: PathBuf) -> Result<Arc<Space>, Fault> {
        let live = self.opener()?(name, &root)?;
        let space = Arc::clone(&live.space);
        let mut saved = self.saved()?;
        saved.insert(name.to_owned(), root);
        if let Err(fault) = self.save(&saved) {
            close(live)?;
            return Err(fault);
        }
        self.add(live);
        Ok(space)
    }

    /// Takes a space away from the server; its files stay where they are. Requests in progress end as they began.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for the first space, which the server was started with, and for those that stand in its settings.
    pub fn remove(&self, name: &str) -> Result<(), Fault> {
        let _changing = self.changing.lock();
        self.take_away(name)
    }

    /// The same, for a caller that changes the list.
    fn take_away(&self, name: &str) -> Result<(), Fault> {
        if self.first.name == name {
            let told = format!("`{name}` is the space the server was started with; stop the server instead");
            return Err(Fault::new(Kind::Conflict, told));
        }
        let mut saved = self.saved()?;
        let at = self.others.read().iter().position(|place| place.name() == name).ok_or_else(|| not_found(name))?;
        if saved.remove(name).is_none() {
            let told = format!("the space `{name}` stands in the server's settings; take it out there and start anew");
            return Err(Fault::new(Kind::Conflict, told));
        }
        self.save(&saved)?;
        let place = self.others.write().remove(at);
        match place {
            SpaceSlot::Open(live) => close(live),
            SpaceSlot::Failed { .. } => Ok(()),
        }
    }

    /// Stops and closes all but the first; the first fault that stood in the way.
    ///
    /// # Errors
    /// Those of closing the log.
    pub fn close_secondary(&self) -> Result<(), Fault> {
        let others = std::mem::take(&mut *self.others.write());
        let closed: Vec<Result<(), Fault>> = others
            .into_iter()
            .map(|place| match place {
                SpaceSlot::Open(live) => close(live),
                SpaceSlot::Failed { .. } => Ok(()),
            })
            .collect();
        closed.into_iter().collect()
    }

    fn opener(&self) -> Result<&SpaceOpener, Fault> {
        self.opener.as_ref().ok_or_else(|| Fault::unavailable("this process opens no further spaces"))
    }

    /// The directory a caller means by `root`.
    fn place_of(&self, root: &str) -> Result<PathBuf, Fault> {
        let is_plain = |path: &Path| {
            use std::path::Component::{Normal, RootDir};
            path.components().all(|part| matches!(part, Normal(_) | RootDir))
        };
        let given = Path::new(root);
        if root.is_empty() || !is_plain(given) || root.contains(char::is_control) {
            let told = "must be a directory's path, without `.`, `..` and control characters";
            return Err(Fault::invalid("root", told));
        }
        let parent = self.parents.first().ok_or_else(|| Fault::unavailable("this process makes no spaces"))?;
        let path = if given.is_absolute() { given.to_owned() } else { parent.join(given) };
        // Where links lead decides, as far as the path is there; the rest is made below that.
        let there = path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
        let real = there.canonicalize().map_err(|error| Fault::invalid("root", error))?;
        let path = path.strip_prefix(there).map_or_else(|_| real.clone(), |rest| real.join(rest));
        let lies_below = |parent: &PathBuf| {
            let parent = parent.canonicalize().unwrap_or_else(|_| parent.clone());
            path != parent && path.starts_with(parent)
        };
        if self.parents.iter().any(lies_below) {
            return Ok(path);
        }
        let parents: Vec<String> = self.parents.iter().map(|parent| format!("`{}`", parent.display())).collect();
        let told = format!(
            "`root`: new spaces lie below {}; `server.space_parents` of the settings names other directories",
            parents.join(" or ")
        );
        Err(Fault::new(Kind::Forbidden, told))
    }

    /// Checks that a name can be one, and that no space has it.
    fn check_name(&self, name: &str) -> Result<(), Fault> {
        super::check_name(name)?;
        match self.status(name) {
            Ok(_) => Err(Fault::new(Kind::Exists, format!("there is a space `{name}` already"))),
            Err(_) => Ok(()),
        }
    }

    /// Checks that a root neither contains that of a space nor lies in it.
    fn check_root(&self, root: &Path) -> Result<(), Fault> {
        let others = self.others.read();
        let taken = others.iter().map(|place| (place.name(), place.root()));
        for (other, place) in std::iter::once((self.first.name.as_str(), self.first.vfs.root())).chain(taken) {
            if root.starts_with(place) || place.starts_with(root) {
                let told =
                    format!("`root`: the space `{other}` has `{}`, and one cannot lie in the other", place.display());
                return Err(Fault::new(Kind::Exists, told));
            }
        }
        Ok(())
    }

    /// What was made at run time. It stands in the first space's tree, where no door of the network sees it, and is a version there.
    fn saved(&self) -> Result<BTreeMap<String, PathBuf>, Fault> {
        let file = TreePath::parse(FILE)?;
        match self.first.vfs.read(Protocol::Internal, &file) {
            Ok(read) => understood(&read.content),
            Err(fault) if fault.kind() == Kind::NotFound => Ok(BTreeMap::new()),
            Err(fault) => Err(fault),
        }
    }

    fn save(&self, saved: &BTreeMap<String, PathBuf>) -> Result<(), Fault> {
        let text = serde_json::to_vec_pretty(saved).map_err(Fault::internal)?;
        let change = Change::put(TreePath::parse(FILE)?, text);
        self.first.vfs.apply(&Caller::new(Protocol::Internal), change).map(drop)
    }
}

impl SpaceStatus {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Open(space) => &space.name,
            Self::Failed(name, ..) => name,
        }
    }
}

/// The spaces that were made at run time beside the one of `root`, which nobody needs to serve: their names and roots.
///
/// # Errors
/// Those of reading the list; `Invalid` when it cannot be understood.
pub fn runtime_spaces(root: &Path) -> Result<BTreeMap<String, PathBuf>, Fault> {
    match fs::read(root.join(FILE)) {
        Ok(list) => understood(&list),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(BTreeMap::new())
        }
        Err(error) => Err(Fault::unavailable(format!("`{FILE}` of the first space cannot be read: {error}"))),
    }
}

fn understood(list: &[u8]) -> Result<BTreeMap<String, PathBuf>, Fault> {
    serde_json::from_slice(list).map_err(|error| {
        Fault::new(Kind::Invalid, format!("`{FILE}` of the first space cannot be understood: {error}"))
    })
}

/// A space that was there before would begin anew as an empty one, and look healthy.
fn missing(root: &Path) -> Fault {
    let shown = root.display();
    Fault::unavailable(format!(
        "its root `{shown}` is not there; mount its disk, or make the directory, and start the server again"
    ))
}

fn not_found(name: &str) -> Fault {
    Fault::not_found(format!("space not found: {}", svcfs_base::escape_unprintable(name)))
}

fn close(live: RunningSpace) -> Result<(), Fault> {
    let RunningSpace { space, supervisor, resource_guard: kept } = live;
    // Who lingers is named in the log by the supervisor.
    supervisor.stop(TASK_PATIENCE);
    // What is still open is saved now, by somebody.
    let closed = space.vfs.close();
    space.flush_audit();
    drop(kept);
    closed
}
