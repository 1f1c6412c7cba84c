//! What the faces of a [`crate::Vfs`] and its committer share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use svcfs_base::{Actor, Clock, DiskAttributes, Fault, FileKind, Kind, LargeFile, Protocol, TreePath};
use svcfs_store::{
    ExpectedFile, FailPoints, FileInstall, History, InstallResult, Log, StatKind, StoreError, VersionStore, WorkTree,
};
use tracing::warn;

use crate::audit_hook::{OnAccepted, OnChange};
use crate::committer::CommitPolicy;
use crate::feed::ChangeFeed;
use crate::leases::LeaseRegistry;
use crate::links::LinkResolver;
use crate::messages::SaveMessages;
use crate::nodes::{DirtyBytes, RecentRefusals};
use crate::overlay::{Overlay, OverlayFile};
use crate::path_class::PathClassifier;
use crate::path_locks::PathLocks;
use crate::queue::{CommitQueue, StateBefore, WriteBarrier};
use crate::queue_load::OnFlush;
use crate::uncommitted::UncommittedPaths;

/// How long a page renamed to a scratch name may be missing before its removal is recorded: an editor that keeps a backup
/// writes the page anew within this time, and one save is then one version.
pub(crate) const DEPARTURE: Duration = Duration::from_secs(2);

/// How often somebody who waits for the disk looks whether it refuses.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Permission bits of a new file that nobody gave any.
pub(crate) const NEW_MODE: u32 = 0o644;

pub(crate) struct VfsCore {
    pub(crate) root: PathBuf,
    pub(crate) places: PathClassifier,
    pub(crate) tree: Arc<WorkTree>,
    pub(crate) log: Arc<Log>,
    pub(crate) memory: VersionStore,
    pub(crate) clock: Arc<dyn Clock>,
    /// When accepted changes become commits.
    pub(crate) commits: CommitPolicy,
    pub(crate) locks: PathLocks,
    /// What clients of one door have for themselves.
    pub(crate) leases: LeaseRegistry,
    pub(crate) overlay: Overlay,
    pub(crate) uncommitted: UncommittedPaths,
    pub(crate) queue: CommitQueue,
    pub(crate) feed: ChangeFeed,
    /// What writers said of their next saves.
    pub(crate) messages: SaveMessages,
    /// Saves that were refused.
    pub(crate) refusals: RecentRefusals,
    /// Pages that were renamed to a scratch name, until their removal is recorded.
    pub(crate) departures: Mutex<BTreeMap<TreePath, PendingRemoval>>,
    /// Why the committer cannot go on, while it cannot.
    pub(crate) trouble: Mutex<Option<Fault>>,
    /// Since when logged changes wait for a disk that refuses, while they do: nothing else is taken.
    pub(crate) stuck: Mutex<Option<Instant>>,
    /// Why the last checkpoint failed, until one does not: writes are taken, and the log grows.
    pub(crate) unflushed: Mutex<Option<Fault>>,
    /// Paths of saves that nobody waited for and that the log could not take before the end.
    pub(crate) lost: Mutex<BTreeSet<TreePath>>,
    pub(crate) stamps: AtomicU64,
    pub(crate) fail: FailPoints,
    /// Who compares paths with the tree that a person's commit has something to say about; nobody where nothing is watched.
    pub(crate) doubter: Mutex<Option<RescanHook>>,
    /// What the log holds until the next checkpoint, in bytes, as the committer last said.
    pub(crate) unsettled_bytes: AtomicU64,
    /// How many bytes of files that are not published are in memory, with those of other spaces that share it.
    pub(crate) unpublished: OnceLock<Arc<DirtyBytes>>,
    /// Who is told how long the disk took.
    pub(crate) on_flush: OnceLock<OnFlush>,
    /// Who is told of changes.
    pub(crate) on_change: OnceLock<OnChange>,
    /// The observer of accepted change sets, if any.
    pub(crate) on_accepted: OnceLock<OnAccepted>,
    /// Who knows the links that follow a rename; nobody where they do not.
    pub(crate) linking: OnceLock<Box<dyn LinkResolver>>,
}

pub(crate) type RescanHook = Box<dyn Fn(Vec<TreePath>) + Send>;

/// A page that went away under another, unversioned name.
pub(crate) struct PendingRemoval {
    pub(crate) before: StateBefore,
    pub(crate) actor: Actor,
    pub(crate) protocol: Protocol,
    pub(crate) due: Instant,
}

/// What stands at a path now, counting changes that are accepted and not installed.
pub(crate) enum EffectiveState {
    Absent,
    Directory,
    /// A file or link; true when it was read from the tree.
    Leaf(OverlayFile, bool),
    /// A file too large for any version.
    Large(LargeFile),
}

impl VfsCore {
    pub(crate) fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::Relaxed)
    }

    /// git's history, for what only it can answer.
    ///
    /// # Errors
    /// `Repository` when versions are not kept by git.
    pub(crate) fn git(&self) -> Result<&History, StoreError> {
        let missing = || StoreError::Repository("versions of this space are not kept by git".to_owned());
        self.memory.git().ok_or_else(missing)
    }

    /// Has paths compared with the tree, soon and elsewhere.
    pub(crate) fn doubt(&self, paths: Vec<TreePath>) {
        if let Some(doubter) = &*self.doubter.lock() {
            doubter(paths);
        }
    }

    /// Brings `.git/index` up to date for paths whose file on disk is what is recorded; what a person staged is left alone.
    ///
    /// # Errors
    /// As [`History::refresh_index`].
    pub(crate) fn refresh_index<'a>(
        &self,
        paths: impl Iterator<Item = &'a TreePath>,
    ) -> Result<Vec<TreePath>, StoreError> {
        self.memory.refresh_index(paths, |path, content| self.log.has_content(path, content))
    }

    /// Whether a page that was away when `.git/index` was written is back, or has two seconds left for that.
    pub(crate) fn may_come_back(&self, path: &TreePath) -> bool {
        self.departures.lock().contains_key(path) || self.tree.stat(path).is_ok()
    }

    /// What stands at a path now; links are not followed.
    pub(crate) fn present(&self, path: &TreePath) -> Result<EffectiveState, Fault> {
        match self.overlay.get(path) {
            Some(pending) => match pending.leaf {
                Some(leaf) => return Ok(EffectiveState::Leaf(leaf, false)),
                // A directory may have taken the place of a file whose removal is pending.
                None => {
                    return Ok(match self.tree.stat(path) {
                        Ok(stat) if stat.kind == StatKind::Directory => EffectiveState::Directory,
                        Ok(_) | Err(_) => EffectiveState::Absent,
                    });
                }
            },
            None if path.is_root() => return Ok(EffectiveState::Directory),
            None => {}
        }
        match self.tree.stat(path) {
            Ok(stat) if stat.kind == StatKind::Directory => Ok(EffectiveState::Directory),
            Ok(stat) if let Some(large) = stat.large_file() => Ok(EffectiveState::Large(large)),
            Ok(_) => match self.tree.read_leaf(path) {
                Ok((content, stat)) => {
                    let kind = stat.file_kind().unwrap_or(FileKind::Regular);
                    let disk = DiskAttributes {
                        mode: Some(stat.mode),
                        owner: Some((stat.uid, stat.gid)),
                        modified: Some(stat.modified),
                        accessed: Some(stat.accessed),
                    };
                    Ok(EffectiveState::Leaf(OverlayFile { disk, ..OverlayFile::new(content, kind) }, true))
                }
                Err(error) if error.is_missing() => Ok(EffectiveState::Absent),
                Err(error) => Err(error.into()),
            },
            Err(error) if error.is_missing() => Ok(EffectiveState::Absent),
            Err(error) => Err(error.into()),
        }
    }

    /// What an accepted file will have on the disk at its path, with what it keeps there of the file that it replaces.
    pub(crate) fn attributes_to_be(&self, path: &TreePath, disk: DiskAttributes) -> Result<DiskAttributes, Fault> {
        if disk.mode.is_some() && disk.owner.is_some() {
            return Ok(disk);
        }
        let replaced = match self.tree.stat(path) {
            Ok(stat) if stat.kind != StatKind::Directory => Some(stat),
            Ok(_) => None,
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error.into()),
        };
        let mode = replaced.filter(|stat| stat.kind == StatKind::File).map_or(NEW_MODE, |stat| stat.preserved_mode());
        let owner = match replaced {
            Some(stat) => Some((stat.uid, stat.gid)),
            None => self.owner_of_new(path)?,
        };
        Ok(DiskAttributes { mode: disk.mode.or(Some(mode)), owner: disk.owner.or(owner), ..disk })
    }

    /// The owner that a new file gets at a path, where its directory exists already.
    pub(crate) fn owner_of_new(&self, path: &TreePath) -> Result<Option<(u32, u32)>, Fault> {
        match self.tree.stat(&path.parent().unwrap_or_else(TreePath::root)) {
            Ok(directory) => Ok(Some((directory.uid, directory.gid))),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The file or link that stands in the tree at a path, accepted changes not counted; links on the way are not followed. None also
    /// where something stands that no version can have: a file too large, a pipe.
    pub(crate) fn standing(&self, path: &TreePath) -> Result<Option<OverlayFile>, StoreError> {
        match self.tree.inspect_leaf(path) {
            Ok((content, stat)) => Ok(Some(OverlayFile::new(content, stat.file_kind().unwrap_or(FileKind::Regular)))),
            Err(error) if error.is_missing() || error.is_type_conflict() || error.is_too_large() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Installs what is logged: over what is `known`, or over whatever stands there. An empty directory gives way: it
    /// is nobody's work.
    ///
    /// # Errors
    /// What the disk said; something of another kind that a person put there is kept and no error.
    pub(crate) fn put_in_place(
        &self,
        path: &TreePath,
        leaf: &OverlayFile,
        known: Option<ExpectedFile<'_>>,
    ) -> Result<InstallResult, StoreError> {
        let put = || match known {
            Some(known) => self.tree.replace(&installing(path, leaf), known),
            None => self.install(path, leaf).map(|()| InstallResult::Done),
        };
        match put() {
            Err(error) if error.is_type_conflict() => match self.tree.remove_directory(path).and_then(|()| put()) {
                Err(_) => kept_if_in_the_way(path, Err(error)).map(|()| InstallResult::Done),
                outcome => outcome,
            },
            outcome => outcome,
        }
    }

    /// Writes a file that is about to be put in place over one of known content, under a name of our own: its time has not come.
    pub(crate) fn prepare(&self, path: &TreePath, leaf: &OverlayFile) {
        self.tree.stage_file(&installing(path, leaf));
    }

    /// Puts a file in place, whatever stands there.
    pub(crate) fn install(&self, path: &TreePath, leaf: &OverlayFile) -> Result<(), StoreError> {
        self.tree.install(&installing(path, leaf))
    }

    /// Waits until everything accepted so far is durable, in the tree and announced.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly` when the disk takes nothing now; `Unavailable` when it does not answer in time.
    pub(crate) fn wait_settled(&self, at_most: Duration) -> Result<(), Fault> {
        self.wait_until(WriteBarrier::Settled, at_most)
    }

    /// The same, and until history has it: commits that would have come later are made now.
    ///
    /// # Errors
    /// As [`Core::wait_settled`].
    pub(crate) fn wait_committed(&self, at_most: Duration) -> Result<(), Fault> {
        self.wait_until(WriteBarrier::Committed, at_most)
    }

    fn wait_until(&self, until: WriteBarrier, at_most: Duration) -> Result<(), Fault> {
        let deadline = Instant::now() + at_most;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.queue.settle(until, left.min(LOOK)) {
                return Ok(());
            }
            let trouble = self.trouble.lock().as_ref().map(Fault::duplicate);
            match trouble {
                // It may last for hours.
                Some(fault) if is_of_disk(&fault) => return Err(fault),
                trouble if left.is_zero() => {
                    return Err(trouble.unwrap_or_else(|| Fault::unavailable("the disk does not answer")));
                }
                Some(_) | None => {}
            }
        }
    }

    /// The moment a change happens, for a file's modification time.
    pub(crate) fn file_time(&self) -> SystemTime {
        self.clock.now().into()
    }
}

/// Whether the disk refused, which may last for hours.
pub(crate) fn is_of_disk(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::NoSpace | Kind::ReadOnly | Kind::DiskFailed)
}

impl VfsCore {
    /// What the writer of a logged change is told that is not in place yet.
    pub(crate) fn recorded_only(&self, fault: &Fault) -> Fault {
        let text = if self.log.file_exists() {
            format!("the write is recorded and will be completed, but not at this moment: {fault}")
        } else {
            "`.svc/state` was taken away while the server runs, and the write is not kept: stop the server, put the \
             directory back if you can, and start it again; what was acknowledged before is in the tree"
                .to_owned()
        };
        Fault::unavailable(text).with_context(format!("{fault:?}"))
    }
}

fn installing<'a>(path: &'a TreePath, leaf: &'a OverlayFile) -> FileInstall<'a> {
    let OverlayFile { content, kind, disk, etag: _ } = leaf;
    FileInstall { path, content, kind: *kind, attributes: *disk }
}

/// Somebody put something of another kind where a logged change belongs. History has the change; theirs is an edit on top of it,
/// which the next look at the tree records.
pub(crate) fn kept_if_in_the_way(path: &TreePath, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
    match outcome {
        Err(error) if error.is_type_conflict() => {
            warn!(page.path = %path, %error, "something made behind the server is in the way; it is kept");
            Ok(())
        }
        outcome => outcome,
    }
}
