//! State shared by [`crate::Vfs`] and its committer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use svcfs_base::{Actor, Clock, DiskAttributes, Fault, FileKind, Kind, LargeFile, Protocol, TreePath};
use svcfs_store::{
    ExpectedFile, FailPoints, FileInstall, History, InstallResult, Log, StatKind, StoreError, UntrackedFiles,
    VersionStore, WorkTree,
};
use tracing::warn;

use crate::audit_hook::{OnAccepted, OnChange};
use crate::claims::{ClaimPolicy, ClaimRegistry};
use crate::committer::CommitPolicy;
use crate::drafts::DraftRegistry;
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

/// Grace period before the removal of a page that was renamed to a scratch name is recorded: an
/// editor that keeps a backup writes the page again within this time, so that one save is one
/// version.
pub(crate) const RENAME_SAVE_GRACE: Duration = Duration::from_secs(2);

/// How often a thread that waits for the disk checks for write errors.
pub(crate) const DISK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Permission bits of a new file when the writer gives none.
pub(crate) const DEFAULT_FILE_MODE: u32 = 0o644;

pub(crate) struct VfsCore {
    pub(crate) root: PathBuf,
    pub(crate) path_classes: PathClassifier,
    pub(crate) tree: Arc<WorkTree>,
    pub(crate) log: Arc<Log>,
    pub(crate) versions: VersionStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) commit_policy: CommitPolicy,
    pub(crate) path_locks: PathLocks,
    /// Write leases of actors on pages.
    pub(crate) claims: ClaimRegistry,
    pub(crate) claim_policy: OnceLock<ClaimPolicy>,
    pub(crate) drafts: DraftRegistry,
    /// Leases that clients of one protocol hold against the others.
    pub(crate) leases: LeaseRegistry,
    pub(crate) overlay: Overlay,
    pub(crate) uncommitted: UncommittedPaths,
    pub(crate) queue: CommitQueue,
    pub(crate) feed: ChangeFeed,
    /// Commit messages set for the next save of a path.
    pub(crate) messages: SaveMessages,
    pub(crate) refusals: RecentRefusals,
    /// Pages that were renamed to a scratch name; their removal is recorded after a grace period.
    pub(crate) pending_removals: Mutex<BTreeMap<TreePath, PendingRemoval>>,
    /// Why the committer cannot write now, if it cannot.
    pub(crate) write_error: Mutex<Option<Fault>>,
    /// When logged changes began to wait for a failing disk. While set, no write is accepted.
    pub(crate) stalled_since: Mutex<Option<Instant>>,
    /// Why the last checkpoint failed. Writes are accepted still, and the log grows.
    pub(crate) checkpoint_error: Mutex<Option<Fault>>,
    /// Paths of asynchronous saves that the log could not take before shutdown.
    pub(crate) lost_writes: Mutex<BTreeSet<TreePath>>,
    pub(crate) tickets: AtomicU64,
    /// Whether the tree is compared with history for the first time: what is found was there before
    /// svcfs.
    pub(crate) is_first_scan: AtomicBool,
    /// Files that a person left untracked when the root was set up.
    pub(crate) untracked: UntrackedFiles,
    pub(crate) fail_points: FailPoints,
    /// Rescans paths that an external commit changed; none where the root is not watched.
    pub(crate) rescan_hook: Mutex<Option<RescanHook>>,
    /// Content bytes in the log since the last checkpoint, as last reported by the committer.
    pub(crate) uncheckpointed_bytes: AtomicU64,
    /// Memory used by dirty buffers, shared with other spaces.
    pub(crate) dirty_bytes: OnceLock<Arc<DirtyBytes>>,
    pub(crate) on_flush: OnceLock<OnFlush>,
    pub(crate) on_change: OnceLock<OnChange>,
    pub(crate) on_accepted: OnceLock<OnAccepted>,
    /// Finds the pages whose links follow a rename, if configured.
    pub(crate) link_resolver: OnceLock<Box<dyn LinkResolver>>,
}

pub(crate) type RescanHook = Box<dyn Fn(Vec<TreePath>) + Send>;

/// A page that was renamed to an unversioned name.
pub(crate) struct PendingRemoval {
    pub(crate) before: StateBefore,
    pub(crate) actor: Actor,
    pub(crate) protocol: Protocol,
    pub(crate) due: Instant,
}

/// Effective state of a path, including accepted changes that are not installed.
pub(crate) enum EffectiveState {
    Absent,
    Directory,
    /// A file or link; true when it was read from the tree, false when it is in the overlay.
    Leaf(OverlayFile, bool),
    Large(LargeFile),
}

impl VfsCore {
    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// git's history, for queries that only git can answer.
    pub(crate) fn git(&self) -> Result<&History, StoreError> {
        let missing = || StoreError::Repository("versions of this space are not stored in git".to_owned());
        self.versions.git().ok_or_else(missing)
    }

    /// Requests a rescan on another thread, without waiting for it.
    pub(crate) fn request_rescan(&self, paths: Vec<TreePath>) {
        if let Some(hook) = &*self.rescan_hook.lock() {
            hook(paths);
        }
    }

    /// Updates `.git/index` for paths whose file on disk is the recorded one; staged entries stay.
    pub(crate) fn refresh_index<'a>(
        &self,
        paths: impl Iterator<Item = &'a TreePath>,
    ) -> Result<Vec<TreePath>, StoreError> {
        self.versions.refresh_index(paths, |path, content| self.log.has_content(path, content))
    }

    /// Whether a page that was missing from `.git/index` is back or within its grace period.
    pub(crate) fn may_reappear(&self, path: &TreePath) -> bool {
        self.pending_removals.lock().contains_key(path) || self.tree.stat(path).is_ok()
    }

    /// The effective state of a path; links are not followed.
    pub(crate) fn effective_state(&self, path: &TreePath) -> Result<EffectiveState, Fault> {
        match self.overlay.get(path) {
            Some(pending) => match pending.leaf {
                Some(leaf) => return Ok(EffectiveState::Leaf(leaf, false)),
                // A directory may have replaced a file whose removal is pending.
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

    /// Attributes of an accepted file on disk, including those inherited from the replaced file.
    pub(crate) fn resulting_attributes(&self, path: &TreePath, disk: DiskAttributes) -> Result<DiskAttributes, Fault> {
        if disk.mode.is_some() && disk.owner.is_some() {
            return Ok(disk);
        }
        let replaced = match self.tree.stat(path) {
            Ok(stat) if stat.kind != StatKind::Directory => Some(stat),
            Ok(_) => None,
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error.into()),
        };
        let mode =
            replaced.filter(|stat| stat.kind == StatKind::File).map_or(DEFAULT_FILE_MODE, |stat| stat.preserved_mode());
        let owner = match replaced {
            Some(stat) => Some((stat.uid, stat.gid)),
            None => self.new_file_owner(path)?,
        };
        Ok(DiskAttributes { mode: disk.mode.or(Some(mode)), owner: disk.owner.or(owner), ..disk })
    }

    /// The owner that a new file gets; none where its directory does not exist yet.
    pub(crate) fn new_file_owner(&self, path: &TreePath) -> Result<Option<(u32, u32)>, Fault> {
        match self.tree.stat(&path.parent().unwrap_or_else(TreePath::root)) {
            Ok(directory) => Ok(Some((directory.uid, directory.gid))),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The file or link in the tree at a path, without accepted changes; links in the path are not
    /// followed. None also where the entry cannot have versions: a file too large, a pipe.
    pub(crate) fn read_worktree(&self, path: &TreePath) -> Result<Option<OverlayFile>, StoreError> {
        match self.tree.inspect_leaf(path) {
            Ok((content, stat)) => Ok(Some(OverlayFile::new(content, stat.file_kind().unwrap_or(FileKind::Regular)))),
            Err(error) if error.is_missing() || error.is_type_conflict() || error.is_too_large() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Installs a logged file: over `expected`, or anything. Replaces an empty directory.
    ///
    /// # Errors
    /// The disk's error. A type conflict with an external edit is no error: the edit is kept.
    pub(crate) fn install_logged(
        &self,
        path: &TreePath,
        leaf: &OverlayFile,
        expected: Option<ExpectedFile<'_>>,
    ) -> Result<InstallResult, StoreError> {
        let try_install = || match expected {
            Some(expected) => self.tree.replace(&file_install(path, leaf), expected),
            None => self.install(path, leaf).map(|()| InstallResult::Done),
        };
        match try_install() {
            Err(error) if error.is_type_conflict() => {
                match self.tree.remove_directory(path).and_then(|()| try_install()) {
                    Err(_) => tolerate_type_conflict(path, Err(error)).map(|()| InstallResult::Done),
                    outcome => outcome,
                }
            }
            outcome => outcome,
        }
    }

    /// Stages a file that will replace one of known content: writes it under a temporary name.
    pub(crate) fn stage(&self, path: &TreePath, leaf: &OverlayFile) {
        self.tree.stage_file(&file_install(path, leaf));
    }

    pub(crate) fn install(&self, path: &TreePath, leaf: &OverlayFile) -> Result<(), StoreError> {
        self.tree.install(&file_install(path, leaf))
    }

    /// Waits until everything accepted so far is durable, in the tree and announced.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly` from the disk; `Unavailable` when it does not answer in time.
    pub(crate) fn wait_applied(&self, timeout: Duration) -> Result<(), Fault> {
        self.wait_for_barrier(WriteBarrier::Applied, timeout)
    }

    /// Also waits until history has it: coalesced commits are made now.
    pub(crate) fn wait_committed(&self, timeout: Duration) -> Result<(), Fault> {
        self.wait_for_barrier(WriteBarrier::Committed, timeout)
    }

    fn wait_for_barrier(&self, barrier: WriteBarrier, timeout: Duration) -> Result<(), Fault> {
        let deadline = Instant::now() + timeout;
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if self.queue.wait_for(barrier, remaining.min(DISK_POLL_INTERVAL)) {
                return Ok(());
            }
            let error = self.write_error.lock().as_ref().map(Fault::duplicate);
            match error {
                // A disk error may last for hours.
                Some(fault) if is_disk_error(&fault) => return Err(fault),
                error if remaining.is_zero() => {
                    return Err(error.unwrap_or_else(|| Fault::unavailable("the disk does not answer")));
                }
                Some(_) | None => {}
            }
        }
    }

    pub(crate) fn file_time(&self) -> SystemTime {
        self.clock.now().into()
    }
}

pub(crate) fn is_disk_error(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::NoSpace | Kind::ReadOnly | Kind::DiskFailed)
}

impl VfsCore {
    /// The fault for the writer of a logged change that is not applied yet.
    pub(crate) fn deferred_write_error(&self, fault: &Fault) -> Fault {
        if fault.kind() == Kind::NoSpace && self.log.file_exists() {
            // Programs and clients know what to do about a full disk.
            let text = format!("{fault}; this write is recorded and will be completed");
            return Fault::new(Kind::NoSpace, text).with_context(format!("{fault:?}"));
        }
        let text = if self.log.file_exists() {
            format!("the write is recorded and will be completed later: {fault}")
        } else {
            "`.svc/state` was removed while the server runs, and the write is not stored: stop the server, restore \
             the directory if you can, and start it again; earlier acknowledged writes are in the tree"
                .to_owned()
        };
        Fault::unavailable(text).with_context(format!("{fault:?}"))
    }
}

fn file_install<'a>(path: &'a TreePath, leaf: &'a OverlayFile) -> FileInstall<'a> {
    let OverlayFile { content, kind, disk, etag: _ } = leaf;
    FileInstall { path, content, kind: *kind, attributes: *disk }
}

/// Tolerates a type conflict: an external process put a directory where a logged file belongs, or
/// the other way round. History has the change; the edit stays and is recorded by the next rescan.
pub(crate) fn tolerate_type_conflict(path: &TreePath, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
    match outcome {
        Err(error) if error.is_type_conflict() => {
            warn!(page.path = %path, %error, "an external edit put another file type here; it is kept, the logged change is in history");
            Ok(())
        }
        outcome => outcome,
    }
}
