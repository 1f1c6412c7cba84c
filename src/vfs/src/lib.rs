//! The virtual filesystem: the one write path, the reading faces, nodes and handles, adoption of outside edits.
//!
//! One rule: nothing else in the workspace changes the tree. Doors and operations hand a `ChangeSet` to [`Vfs::apply`]; edits
//! made behind us come in through adoption, which records and never refuses.
#![warn(missing_docs)]

mod adopt;
mod apply;
mod audit_hook;
mod committer;
mod core;
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
mod progress;
mod queue;
mod queue_load;
mod recovery;
mod uncommitted;
mod view;
mod watch;

pub use audit_hook::{ChangeOutcome, OnAccepted, OnChange, RequestedChange};
pub use committer::CommitPolicy;
pub use feed::{ChangeFeed, EventChange, FeedEvent};
pub use gate::{ProposedFile, WriteGate};
pub use leases::LeaseBarrier;
pub use links::{LinkResolver, RelinkedPage};
pub use nodes::{
    Allocation, CachedRead, DirtyBytes, DiskSpace, FileContent, FileReader, HandleId, NodeId, OpenMode, OpenedFile,
    RejectedBuffer, RejectedText, SET_GROUP_ID, SetAttributes, UPLOAD_AFFIXES, WriteAt, rejected_path,
};
pub use past::{
    BlameLine, ChangeFeedPage, ChangeRecord, NewestVersion, PageVersion, PastName, PastState, PathAction, PathTimeline,
    StoredContent, StoredVersion, TimelineEvent,
};
pub use progress::{OnProgress, OpenProgress};
pub use queue_load::{FlushKind, OnFlush, QueueLoad};
pub use svcfs_store::{
    ChangeFilter, DayActivity, InodeTable, Lease, PageActivity, SetXattrMode, SpecialFile, SpecialKind,
    StableOperation, StableWrite, TotalActivity, VersionStrategy,
};
pub use view::{DirectoryEntry, EntryKind, FileView, PathAttributes};

use std::fs::{self, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use svcfs_base::{Clock, Fault, Kind, OriginId, Seq};
use svcfs_store::{FailPoints, History, StatePaths, VersionStore};

use crate::core::VfsCore;
use crate::nodes::SpaceNodes;
use crate::path_class::PathClassifier;
use crate::progress::ProgressReporter;
use crate::recovery::RootStores;

/// What a space is opened with.
pub struct VfsOptions {
    /// The knowledge root on the server's disk; made when absent.
    pub root: PathBuf,
    /// Where the present moment comes from.
    pub clock: Arc<dyn Clock>,
    /// What every written page must pass, in order.
    pub gates: Vec<Box<dyn WriteGate>>,
    /// What remembers earlier states of the tree.
    pub strategy: VersionStrategy,
    /// Names that are stored but never versioned (gaps.md D8), as globs on single path components.
    pub scratch_patterns: Vec<String>,
    /// When accepted changes become commits.
    pub commit_policy: CommitPolicy,
    /// Whether edits made behind the server are looked for while it runs (at opening they always are).
    pub watch: bool,
    /// Who hears how far the opening is; let go when it ends.
    pub progress: Option<OnProgress>,
}

/// Brings what a door holds back into the tree.
type WriteFlusher = Arc<dyn Fn() + Send + Sync>;

/// One space's tree: read it by path or by node, change it through [`Vfs::apply`].
pub struct Vfs {
    core: Arc<VfsCore>,
    seat: Arc<committer::CommitLeader>,
    gates: Vec<Box<dyn WriteGate>>,
    nodes: SpaceNodes,
    /// Called before a question about history is answered.
    before_history: Mutex<Vec<WriteFlusher>>,
    committer: Mutex<Option<JoinHandle<()>>>,
    watcher: Mutex<Option<watch::RootWatcher>>,
    /// Held for as long as this root is ours.
    lock: Mutex<Option<RootLock>>,
}

impl Vfs {
    /// Opens a space: takes its lock, completes what was logged and not settled, adopts what changed behind us. What was accepted
    /// under another strategy is completed under that one before.
    ///
    /// # Errors
    /// `Conflict`, naming the other's process id, when a server has this root already, or another work tree of its repository;
    /// `NotDirectory` when the root is a file;
    /// `ReadOnly`, `NoSpace`, `Forbidden` when state cannot be kept below it; `Internal` when log or git are damaged.
    pub fn open(options: VfsOptions) -> Result<Arc<Self>, Fault> {
        let root = prepare_root(&options.root)?;
        let RootStores { tree, log, is_new_log, lock } = RootStores::open(&options, &root)?;
        let (tree, log) = (Arc::new(tree), Arc::new(log));
        let VfsOptions {
            root: _,
            clock,
            gates,
            strategy,
            scratch_patterns: scratch,
            commit_policy: commits,
            watch,
            progress,
        } = options;
        // There is nothing to be gathered where there are no commits.
        let commits = if strategy == VersionStrategy::Git { commits } else { CommitPolicy::PerSet };
        let mut reporter = ProgressReporter::new(progress);
        let places = PathClassifier::new(&scratch)?;
        if strategy == VersionStrategy::Git && log.has_commits()? {
            // Another one in its place would stand in the way of whoever puts the lost one back.
            History::check_repository(&root)?;
        }
        let (memory, is_new_memory) =
            VersionStore::open(strategy, &root, (&tree, &log), &scratch).map_err(|error| at_root(&root, error))?;
        if is_new_log || is_new_memory {
            // Before anything is promised: the log's flushes bring its records to the disk, not git's `HEAD`, nor everywhere the
            // directories that name the log.
            if is_new_log {
                // Nothing that could have been lost is logged.
                tree.mark_rewritten();
            }
            if !tree.has_sync_failed() {
                tree.flush(memory.other_disks()).map_err(|error| at_root(&root, error))?;
            }
        }
        let feed = ChangeFeed::new(Arc::clone(&log), log.last_seq());
        let leases = leases::LeaseRegistry::open(&StatePaths::new(&root))?;
        let core = Arc::new(VfsCore {
            leases,
            refusals: nodes::RecentRefusals::of_tree(&tree),
            fail: FailPoints::new(&root),
            root,
            places,
            tree,
            log,
            memory,
            clock,
            commits,
            locks: crate::path_locks::PathLocks::default(),
            overlay: crate::overlay::Overlay::default(),
            uncommitted: crate::uncommitted::UncommittedPaths::default(),
            queue: crate::queue::CommitQueue::default(),
            feed,
            messages: messages::SaveMessages::default(),
            departures: Mutex::default(),
            trouble: Mutex::default(),
            stuck: Mutex::default(),
            unflushed: Mutex::default(),
            lost: Mutex::default(),
            stamps: AtomicU64::new(1),
            doubter: Mutex::default(),
            unsettled_bytes: AtomicU64::new(0),
            unpublished: OnceLock::new(),
            on_flush: OnceLock::new(),
            on_change: OnceLock::new(),
            on_accepted: OnceLock::new(),
            linking: OnceLock::new(),
        });
        let committer =
            recovery::recover(&core, is_new_log, &mut reporter).map_err(|fault| at_root(&core.root, fault))?;
        recovery::begin(&core, strategy).map_err(|fault| at_root(&core.root, fault))?;
        core.feed.restart(committer.last);
        let seat = Arc::new(committer::CommitLeader::new(committer));
        let own = Arc::clone(&seat);
        let thread = std::thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || own.run())
            .map_err(Fault::internal)?;
        let vfs = Arc::new(Self {
            core,
            seat,
            gates,
            nodes: SpaceNodes::default(),
            before_history: Mutex::default(),
            committer: Mutex::new(Some(thread)),
            watcher: Mutex::default(),
            lock: Mutex::new(Some(lock)),
        });
        if watch {
            // Before the rescan, so that nothing falls between them.
            *vfs.watcher.lock() = Some(watch::RootWatcher::start(&vfs)?);
        }
        vfs.rescan_and_tell(&mut reporter)?;
        Ok(vfs)
    }

    /// Finishes every accepted write, flushes and lets go of the root. Handles that are still open publish what they hold.
    ///
    /// # Errors
    /// What the disk said, with the paths, when it refused saves that nobody waited for until the end: they are lost. What it said
    /// when the log cannot be closed; everything acknowledged is in it then.
    pub fn close(&self) -> Result<(), Fault> {
        drop(self.watcher.lock().take());
        self.publish_all();
        self.core.queue.close();
        if let Some(thread) = self.committer.lock().take()
            && thread.join().is_err()
        {
            return Err(Fault::internal("the committer died"));
        }
        self.core.memory.close();
        self.core.tree.close();
        let closed = self.core.log.close();
        if let Some(lock) = self.lock.lock().take() {
            lock.0.unlock().map_err(Fault::internal)?;
        }
        self.nothing_lost()?;
        closed.map_err(|error| {
            let fault = Fault::from(error);
            let text = format!(
                "the log could not be closed; everything acknowledged is in it, and the next start goes on from there: {fault}"
            );
            Fault::new(fault.kind(), text).with_source(fault)
        })
    }

    /// Names the saves that nobody waited for and that the disk refused until the end.
    fn nothing_lost(&self) -> Result<(), Fault> {
        let lost: Vec<_> = std::mem::take(&mut *self.core.lost.lock()).iter().map(|path| format!("`{path}`")).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let trouble = self.core.trouble.lock().as_ref().map(Fault::duplicate);
        let trouble = trouble.unwrap_or_else(|| Fault::unavailable("the disk refused them"));
        let text = format!(
            "saved without waiting for the disk, and lost as the space was closed: {}: {trouble}",
            lost.join(", ")
        );
        Err(Fault::new(trouble.kind(), text).with_source(trouble))
    }

    /// The knowledge root on the server's disk.
    pub fn root(&self) -> &Path {
        &self.core.root
    }

    /// Where the server keeps its own of this space, beside the tree: no door shows it.
    pub fn state_directory(&self) -> PathBuf {
        self.core.root.join(svcfs_store::STATE_DIRECTORY)
    }

    /// The change feed.
    pub fn feed(&self) -> &ChangeFeed {
        &self.core.feed
    }

    /// Numbers of files that outlive the server, for doors whose clients keep them. One at a time may be open.
    ///
    /// # Errors
    /// What the disk says when they cannot be kept.
    pub fn inode_table(&self) -> Result<InodeTable, Fault> {
        Ok(InodeTable::open(&StatePaths::new(&self.core.root).inode_table())?)
    }

    /// Has `settle` called before each question about history is answered, for doors that hold writes back. It must not ask such a question
    /// itself.
    pub fn add_write_flusher(&self, settle: impl Fn() + Send + Sync + 'static) {
        self.before_history.lock().push(Arc::new(settle));
    }

    /// A new entrance, for a door that has several: its events say which of them a change came through.
    pub fn new_origin_id(&self) -> OriginId {
        OriginId(self.core.stamp())
    }

    /// Position of the newest announced change set. To count accepted ones too, ask [`Vfs::settled`].
    pub fn last_seq(&self) -> Seq {
        self.core.feed.last_seq()
    }

    /// Whether writes can be taken: the fault a writer would get now.
    ///
    /// # Errors
    /// Why not.
    pub fn health(&self) -> Result<(), Fault> {
        if let Some(trouble) = self.core.trouble.lock().as_ref() {
            return Err(trouble.duplicate());
        }
        if let Some(trouble) = self.core.unflushed.lock().as_ref() {
            return Err(trouble.duplicate());
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

/// A root that is kept from being served for as long as somebody looks at it.
#[must_use = "the root can be served again when this is dropped"]
pub struct OfflineRootLock {
    _lock: RootLock,
}

impl OfflineRootLock {
    /// Takes the lock of a root whose state directory exists.
    ///
    /// # Errors
    /// As [`Vfs::open`]: `Conflict`, naming the other's process id, when somebody has it.
    pub fn acquire(root: &Path) -> Result<Self, Fault> {
        Ok(Self { _lock: take_lock(root)? })
    }
}

fn prepare_root(root: &Path) -> Result<PathBuf, Fault> {
    let told = |error| refused(root, error);
    fs::create_dir_all(root).map_err(told)?;
    let root = root.canonicalize().map_err(told)?;
    fs::create_dir_all(StatePaths::new(&root).directory()).map_err(told)?;
    Ok(root)
}

/// Why a root cannot be used, by what the system said of it or of the state below it.
fn refused(root: &Path, error: std::io::Error) -> Fault {
    use std::io::ErrorKind as E;
    let text = root.display();
    match error.kind() {
        E::ReadOnlyFilesystem => Fault::new(Kind::ReadOnly, format!("root `{text}` lies on a read-only disk")),
        E::PermissionDenied => Fault::new(Kind::Forbidden, format!("root `{text}`: permission denied")),
        E::StorageFull | E::QuotaExceeded => {
            Fault::new(Kind::NoSpace, format!("root `{text}`: no space left on the disk"))
        }
        E::NotADirectory | E::AlreadyExists => {
            Fault::new(Kind::NotDirectory, format!("root `{text}` is a file, not a directory; name a directory"))
        }
        E::InvalidFilename | E::NotFound | E::InvalidInput => Fault::invalid("root", format_args!("`{text}`: {error}")),
        _ => Fault::internal(error).with_context(format!("root `{text}`")),
    }
}

/// What the disk refuses while a root is opened is told with the root: one command may open many.
fn at_root(root: &Path, error: impl Into<Fault>) -> Fault {
    let fault = error.into();
    if !matches!(fault.kind(), Kind::NoSpace | Kind::ReadOnly | Kind::Forbidden | Kind::DiskFailed) {
        return fault;
    }
    Fault::new(fault.kind(), format!("root `{}`: {fault}", root.display())).with_source(fault)
}

/// The lock of a root, given back also when an opening fails.
struct RootLock(fs::File);

impl Drop for RootLock {
    fn drop(&mut self) {
        // Not by closing alone: a process forked in this moment would hold on to it until it executes its program.
        let _ = self.0.unlock();
    }
}

fn take_lock(root: &Path) -> Result<RootLock, Fault> {
    let path = StatePaths::new(root).lock();
    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| refused(root, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut other = String::new();
            file.read_to_string(&mut other).map_err(Fault::internal)?;
            let text = root.display();
            return Err(Fault::new(
                Kind::Conflict,
                format!("root `{text}` is served already by process {}; stop it first", other.trim()),
            )
            .with_detail("pid", other.trim()));
        }
        Err(TryLockError::Error(error)) => return Err(Fault::internal(error)),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(|error| refused(root, error))?;
    Ok(RootLock(file))
}

#[cfg(test)]
mod tests;
