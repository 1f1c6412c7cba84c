//! The virtual filesystem: write path, reading by path, nodes and handles, adoption of edits.
//!
//! Invariant: nothing else in the workspace changes the tree. Protocols and operations pass a
//! `ChangeSet` to [`Vfs::apply`]. Edits made outside svcfs are recorded by adoption, never refused.
#![warn(missing_docs)]

mod adopt;
mod adoption_plan;
mod apply;
mod audit_hook;
mod claims;
mod comment_files;
mod committer;
mod core;
mod drafts;
mod feed;
mod gate;
mod leases;
mod links;
mod messages;
mod nodes;
mod overlay;
mod past;
mod path_class;
mod path_locks;
mod plan;
mod precondition;
mod preview;
mod progress;
mod queue;
mod queue_load;
mod recovery;
mod uncommitted;
mod versioned;
mod view;
mod watch;

pub use adopt::EXTERNAL_EDIT_TRAILER;
pub use adoption_plan::AdoptionPlan;
pub use audit_hook::{ChangeOutcome, OnAccepted, OnChange, RequestedChange};
pub use claims::{ClaimAttempt, ClaimEvent, ClaimEventKind, ClaimPolicy, StartedClaim};
pub use comment_files::{COMMENTS_DIRECTORY, comment_file, commented_page, is_backup};
pub use committer::CommitPolicy;
pub use drafts::{AcceptedPage, CallerTree, DraftMerge, DraftView};
pub use feed::{ChangeFeed, EventChange, FeedEvent};
pub use gate::{ProposedFile, ReadPresent, WriteGate};
pub use leases::LeaseBarrier;
pub use links::{LinkResolver, RelinkedPage};
pub use nodes::{
    Allocation, CachedRead, DirtyBytes, DiskSpace, FileContent, FileReader, HandleId, NodeId, OpenMode, OpenedFile,
    RejectedBuffer, RejectedText, SET_GROUP_ID, SetAttributes, StagedFile, WriteAt, is_upload_name, rejected_path,
};
pub use past::{
    BlameLine, ChangeFeedPage, ChangeRecord, NewestVersion, PageState, PageStep, PageSteps, PageTrail, PageVersion,
    PastFile, PastName, PastState, PathAction, PathTimeline, RemovedFile, SetOrigin, StoredContent, StoredVersion,
    TimelineEvent,
};
pub use preview::{ChangePreview, PreviewedFile};
pub use progress::{OnProgress, OpenProgress};
pub use queue_load::{FlushKind, OnFlush, QueueLoad};
pub use svcfs_store::{
    ChangeFilter, DayActivity, DraftContents, InodeTable, Lease, NamePeriod, PageActivity, SetXattrMode, SpecialFile,
    SpecialKind, StableOperation, StableWrite, TotalActivity, UncommittedFile, UncommittedKind, VersionStrategy,
    changed_lines,
};
pub use view::{DirectoryEntry, EntryKind, FileView, PathAttributes};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use svcfs_base::{Clock, Fault, HiddenFiles, Kind, OriginId, Seq};
use svcfs_store::{FailPoints, History, StatePaths, StoreError, UntrackedFiles, VersionStore, WorkTree};
use svcfs_work::{PidLock, PidLockError, SerialExecutor};

use crate::core::VfsCore;
use crate::nodes::SpaceNodes;
use crate::path_class::PathClassifier;
use crate::progress::ProgressReporter;
use crate::recovery::RootStores;

/// How to open a space.
pub struct VfsOptions {
    /// The knowledge root on the server's disk; created when absent.
    pub root: PathBuf,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Checks that every written page must pass, in order.
    pub gates: Vec<Box<dyn WriteGate>>,
    /// How earlier versions of the tree are stored.
    pub strategy: VersionStrategy,
    /// Names that are stored but never versioned, as globs on single path components.
    pub scratch_patterns: Vec<String>,
    /// Which hidden files REST, MCP, search and export serve.
    pub hidden_files: HiddenFiles,
    /// When accepted changes become commits.
    pub commit_policy: CommitPolicy,
    /// Whether external edits are watched for while the space is open (opening always rescans).
    pub watch: bool,
    /// Listener for the progress of opening; dropped when opening ends.
    pub progress: Option<OnProgress>,
}

/// Saves the writes that a protocol still buffers.
type WriteFlusher = Arc<dyn Fn() + Send + Sync>;

/// One space's tree: read it by path or by node, change it through [`Vfs::apply`].
pub struct Vfs {
    core: Arc<VfsCore>,
    commit_leader: Arc<committer::CommitLeader>,
    gates: Vec<Box<dyn WriteGate>>,
    nodes: SpaceNodes,
    write_flushers: Mutex<Vec<WriteFlusher>>,
    /// Makes the git branches of drafts, after the answers to their writers.
    draft_branches: SerialExecutor,
    committer: Mutex<Option<JoinHandle<()>>>,
    watcher: Mutex<Option<watch::RootWatcher>>,
    /// Held while this process serves the root.
    root_lock: Mutex<Option<PidLock>>,
}

/// Flushes new stores before any write is acknowledged: flushing the log syncs its records, but not
/// git's `HEAD`, and not on every filesystem the directory entries of the log.
fn flush_new_stores(tree: &WorkTree, versions: &VersionStore, is_new_log: bool) -> Result<(), StoreError> {
    if is_new_log {
        // A new log has no record whose file could have been lost.
        tree.mark_rewritten();
    }
    if tree.has_sync_failed() { Ok(()) } else { tree.flush(versions.other_disks()) }
}

impl Vfs {
    /// Opens a space: locks the root, recovers the log, adopts external edits. Writes that were
    /// accepted under another version strategy are completed under that one first.
    ///
    /// # Errors
    /// `Conflict`, naming the process id, when another server has this root, or another work tree
    /// of its repository; `NotDirectory` when the root is a file; `ReadOnly`, `NoSpace`,
    /// `Forbidden` when the state directory cannot be written; `Internal` when the log or git is
    /// damaged.
    pub fn open(options: VfsOptions) -> Result<Arc<Self>, Fault> {
        let root = prepare_root(&options.root)?;
        let RootStores { tree, log, is_new_log, lock } = RootStores::open(&options, &root)?;
        let (tree, log) = (Arc::new(tree), Arc::new(log));
        let VfsOptions { clock, gates, strategy, scratch_patterns, commit_policy, watch, progress, .. } = options;
        // Without commits there is nothing to coalesce.
        let commit_policy = if strategy == VersionStrategy::Git { commit_policy } else { CommitPolicy::PerSet };
        let mut reporter = ProgressReporter::new(progress);
        let path_classes = PathClassifier::new(&scratch_patterns, options.hidden_files)?;
        if strategy == VersionStrategy::Git && log.has_commits()? {
            // A new repository would prevent the user from restoring the lost one.
            History::check_repository(&root)?;
        }
        let (versions, are_new_versions) = VersionStore::open(strategy, &root, (&tree, &log), &scratch_patterns)
            .map_err(|error| with_root(&root, error))?;
        if is_new_log || are_new_versions {
            flush_new_stores(&tree, &versions, is_new_log).map_err(|error| with_root(&root, error))?;
        }
        let untracked = UntrackedFiles::load(&StatePaths::new(&root))?;
        let core = Arc::new(VfsCore {
            claims: claims::ClaimRegistry::open(&StatePaths::new(&root))?,
            claim_policy: OnceLock::new(),
            drafts: drafts::DraftRegistry::open(&StatePaths::new(&root))?,
            leases: leases::LeaseRegistry::open(&StatePaths::new(&root))?,
            feed: ChangeFeed::new(Arc::clone(&log), log.last_seq()),
            refusals: nodes::RecentRefusals::open(&tree),
            fail_points: FailPoints::new(&root),
            root,
            path_classes,
            tree,
            log,
            versions,
            clock,
            commit_policy,
            path_locks: crate::path_locks::PathLocks::default(),
            overlay: crate::overlay::Overlay::default(),
            uncommitted: crate::uncommitted::UncommittedPaths::default(),
            queue: crate::queue::CommitQueue::default(),
            messages: messages::SaveMessages::default(),
            pending_removals: Mutex::default(),
            write_error: Mutex::default(),
            stalled_since: Mutex::default(),
            checkpoint_error: Mutex::default(),
            lost_writes: Mutex::default(),
            tickets: AtomicU64::new(1),
            is_first_scan: AtomicBool::new(is_new_log),
            untracked,
            rescan_hook: Mutex::default(),
            uncheckpointed_bytes: AtomicU64::new(0),
            dirty_bytes: OnceLock::new(),
            on_flush: OnceLock::new(),
            on_change: OnceLock::new(),
            on_accepted: OnceLock::new(),
            link_resolver: OnceLock::new(),
        });
        let committer =
            recovery::recover(&core, is_new_log, &mut reporter).map_err(|fault| with_root(&core.root, fault))?;
        recovery::switch_strategy(&core, strategy).map_err(|fault| with_root(&core.root, fault))?;
        core.feed.restart(committer.last_seq);
        core.sync_draft_branches();
        let commit_leader = Arc::new(committer::CommitLeader::new(committer));
        let leader = Arc::clone(&commit_leader);
        let thread = std::thread::Builder::new().name("committer".to_owned());
        let thread = thread.spawn(move || leader.run()).map_err(Fault::internal)?;
        let vfs = Arc::new(Self {
            core,
            commit_leader,
            gates,
            nodes: SpaceNodes::default(),
            write_flushers: Mutex::default(),
            draft_branches: SerialExecutor::new(),
            committer: Mutex::new(Some(thread)),
            watcher: Mutex::default(),
            root_lock: Mutex::new(Some(lock)),
        });
        if watch {
            // Before the rescan, so that no edit between them is missed.
            *vfs.watcher.lock() = Some(watch::RootWatcher::start(&vfs)?);
        }
        vfs.rescan_with_progress(&mut reporter)?;
        vfs.core.is_first_scan.store(false, Ordering::Relaxed);
        Ok(vfs)
    }

    /// Completes accepted writes, publishes open handles, flushes, and unlocks the root.
    ///
    /// # Errors
    /// The disk's error, with the paths, when asynchronous saves could not be written and are lost.
    /// The log's error when it cannot be closed; it has every acknowledged write then.
    pub fn close(&self) -> Result<(), Fault> {
        drop(self.watcher.lock().take());
        self.publish_all();
        self.core.queue.close();
        if let Some(thread) = self.committer.lock().take()
            && thread.join().is_err()
        {
            return Err(Fault::internal("the committer thread panicked"));
        }
        self.wait_draft_branches();
        self.core.versions.close();
        self.core.tree.close();
        let closed = self.core.log.close();
        drop(self.root_lock.lock().take());
        self.check_lost_writes()?;
        closed.map_err(|error| {
            let fault = Fault::from(error);
            let text = format!(
                "the log could not be closed; it has every acknowledged write, and the next start continues from it: {fault}"
            );
            Fault::new(fault.kind(), text).with_source(fault)
        })
    }

    /// Reports the asynchronous saves that could not be written before the end.
    fn check_lost_writes(&self) -> Result<(), Fault> {
        let paths: Vec<_> =
            std::mem::take(&mut *self.core.lost_writes.lock()).iter().map(|path| format!("`{path}`")).collect();
        if paths.is_empty() {
            return Ok(());
        }
        let error = self.core.write_error.lock().as_ref().map(Fault::duplicate);
        let error = error.unwrap_or_else(|| Fault::unavailable("the disk refused them"));
        let text = format!(
            "these saves could not be written before the space was closed and are lost: {}: {error}",
            paths.join(", ")
        );
        Err(Fault::new(error.kind(), text).with_source(error))
    }

    /// The knowledge root on the server's disk.
    pub fn root(&self) -> &Path {
        &self.core.root
    }

    /// The server's state directory of this space, inside the root; no protocol shows it.
    pub fn state_directory(&self) -> PathBuf {
        self.core.root.join(svcfs_store::STATE_DIRECTORY)
    }

    /// The change feed.
    pub fn feed(&self) -> &ChangeFeed {
        &self.core.feed
    }

    /// Inode numbers that survive a restart. Only one table may be open at a time.
    ///
    /// # Errors
    /// The disk's error when the table cannot be stored.
    pub fn inode_table(&self) -> Result<InodeTable, Fault> {
        Ok(InodeTable::open(&StatePaths::new(&self.core.root).inode_table())?)
    }

    /// Calls `flush`, which saves a protocol's buffered writes, before each history query.
    pub fn add_write_flusher(&self, flush: impl Fn() + Send + Sync + 'static) {
        self.write_flushers.lock().push(Arc::new(flush));
    }

    /// A new origin id, for a protocol with several mounts: its events say which one made a change.
    pub fn new_origin_id(&self) -> OriginId {
        OriginId(self.core.next_ticket())
    }

    /// Position of the newest announced change set. [`Vfs::wait_applied`] includes accepted ones.
    pub fn last_seq(&self) -> Seq {
        self.core.feed.last_seq()
    }

    /// Whether writes are accepted at present.
    ///
    /// # Errors
    /// The fault a writer would get now.
    pub fn health(&self) -> Result<(), Fault> {
        if let Some(error) = self.core.write_error.lock().as_ref() {
            return Err(error.duplicate());
        }
        if let Some(error) = self.core.checkpoint_error.lock().as_ref() {
            return Err(error.duplicate());
        }
        self.core.queue.health()?;
        self.core.tree.stat(&svcfs_base::TreePath::root())?;
        if self.committer.lock().as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(Fault::unavailable("the write path has stopped"));
        }
        Ok(())
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        if self.committer.lock().is_some()
            && let Err(fault) = self.close()
        {
            tracing::error!(error = ?fault, "closing a space failed");
        }
    }
}

/// Prevents a server from opening a root while an offline command works on it.
#[must_use = "the root can be served again when this is dropped"]
pub struct OfflineRootLock {
    _lock: PidLock,
}

impl OfflineRootLock {
    /// Locks a root whose state directory exists.
    ///
    /// # Errors
    /// As [`Vfs::open`]: `Conflict`, naming the process id, when another process holds the lock.
    pub fn acquire(root: &Path) -> Result<Self, Fault> {
        Ok(Self { _lock: lock_root(root)? })
    }
}

fn prepare_root(root: &Path) -> Result<PathBuf, Fault> {
    let to_fault = |error| root_fault(root, error);
    fs::create_dir_all(root).map_err(to_fault)?;
    let root = root.canonicalize().map_err(to_fault)?;
    fs::create_dir_all(StatePaths::new(&root).directory()).map_err(to_fault)?;
    Ok(root)
}

/// Why a root, or its state directory, cannot be used.
fn root_fault(root: &Path, error: std::io::Error) -> Fault {
    use std::io::ErrorKind as E;
    let text = root.display();
    match error.kind() {
        E::ReadOnlyFilesystem => Fault::new(Kind::ReadOnly, format!("root `{text}` is on a read-only filesystem")),
        E::PermissionDenied => Fault::new(Kind::Forbidden, format!("root `{text}`: permission denied")),
        E::StorageFull | E::QuotaExceeded => Fault::disk_full(format_args!("root `{text}`")),
        E::NotADirectory | E::AlreadyExists => {
            Fault::new(Kind::NotDirectory, format!("root `{text}` is a file, not a directory; name a directory"))
        }
        E::InvalidFilename | E::NotFound | E::InvalidInput => Fault::invalid("root", format_args!("`{text}`: {error}")),
        _ => Fault::internal(error).with_context(format!("root `{text}`")),
    }
}

/// Adds the root to a disk error: one command may open many roots.
fn with_root(root: &Path, error: impl Into<Fault>) -> Fault {
    let fault = error.into();
    if !matches!(fault.kind(), Kind::NoSpace | Kind::ReadOnly | Kind::Forbidden | Kind::DiskFailed) {
        return fault;
    }
    Fault::new(fault.kind(), format!("root `{}`: {fault}", root.display())).with_source(fault)
}

fn lock_root(root: &Path) -> Result<PidLock, Fault> {
    match PidLock::acquire(&StatePaths::new(root).lock(), "") {
        Ok(lock) => Ok(lock),
        Err(PidLockError::Locked { owner: pid }) => {
            let message = format!("root `{}` is served already by process {pid}; stop it first", root.display());
            Err(Fault::new(Kind::Conflict, message).with_detail("pid", &*pid))
        }
        Err(PidLockError::Io(error)) => Err(root_fault(root, error)),
    }
}

#[cfg(test)]
mod tests;
