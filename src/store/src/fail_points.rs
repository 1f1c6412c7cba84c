//! Fail points: named steps of the write path at which a test can inject an error, pause or kill.
//!
//! Invariant: the list below is complete. A name in it that no test uses fails the tests. Without
//! the feature `fail-points`, which only tests enable, nothing of this is compiled.
//!
//! The crate `fail` has points of the process; svcfs names them by root and point, so that tests
//! run in parallel.

use std::io;
use std::path::Path;

/// What can be injected at a point, besides the end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailPointKind {
    /// Between two steps: no system call.
    Marker,
    /// A system call that a writer waits for.
    Syscall,
    /// A system call that no write depends on: it is retried later, or skipped.
    Housekeeping,
}

macro_rules! fail_points {
    ($($point:ident $name:literal $kind_of_point:ident $description:literal)*) => {
        /// A step of the write path. Steps are numbered as in ARCHITECTURE.md.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FailPoint { $(#[doc = $description] $point,)* }

        impl FailPoint {
            /// Every point, in the order of the write path.
            pub const ALL: &'static [Self] = &[$(Self::$point),*];
            /// Its name: `<step>.<what>`.
            pub const fn name(self) -> &'static str { match self { $(Self::$point => $name),* } }
            /// A description of the step.
            pub const fn description(self) -> &'static str { match self { $(Self::$point => $description),* } }
            /// What can be injected there.
            pub const fn kind(self) -> FailPointKind { match self { $(Self::$point => FailPointKind::$kind_of_point),* } }
        }
    };
}

fail_points! {
    AcceptLocked         "accept.held"          Marker       "2: the paths are locked, nothing is checked"
    AcceptPlanned      "accept.planned"       Marker       "4: preconditions and gates have passed, nothing is queued"
    AcceptQueued       "accept.queued"        Marker       "5: the set is queued and visible to every reader"
    StageCommit        "stage.commit"         Syscall         "6: before the objects of a commit are built in memory"
    LogSpool           "log.spool"            Syscall         "6: before a large content is written to the spool"
    LogSpoolFlush      "log.spool_flush"      Syscall         "6: before a spooled content is flushed"
    LogWrite           "log.write"            Syscall         "6: before a batch is written to the journal"
    LogFlush           "log.flush"            Syscall         "6: before the journal is flushed"
    LogFlushed         "log.flushed"          Marker       "6: the batch is logged and durable"
    RowsWrite          "rows.write"           Housekeeping "rows: before the journal tail is written to the database"
    RowsCommit         "rows.commit"          Housekeeping "rows: before the transaction is committed"
    RowsApplied           "rows.made"            Marker       "rows: the tail is in the database, and still in the journal"
    TreeParents        "tree.parents"         Syscall         "7: before a directory is created"
    TreeWrite          "tree.write"           Syscall         "7: before a temporary file is written"
    TreeRename         "tree.rename"          Syscall         "7: before a file is renamed into place"
    TreeRemove         "tree.remove"          Syscall         "7: before a file is removed"
    TreeMove           "tree.move"            Syscall         "7: before a directory is renamed"
    TreeDone           "tree.done"            Marker       "7: the tree has the batch, the version store does not"
    PackWrite          "pack.write"           Syscall         "8: before a temporary pack file is written"
    PackRename         "pack.rename"          Syscall         "8: before a pack is renamed into place"
    PackDone           "pack.done"            Marker       "8: the pack is complete, no branch refers to it"
    BranchMove         "branch.move"          Syscall         "8: before the branch moves"
    BranchRename       "branch.rename"        Syscall         "8: the branch is locked; before the reference is renamed into place"
    BranchMoved        "branch.moved"         Marker       "8: the branch has the batch, nothing is announced"
    SnapshotWrite      "snapshot.write"       Syscall         "8: before a snapshot is written"
    SnapshotDrop       "snapshot.drop"        Housekeeping "8: before an excess snapshot is removed"
    PackMerge          "merge.begin"          Housekeeping "compaction: before packs are merged"
    PackCopy           "merge.copy"           Housekeeping "compaction: before a range of a pack is copied"
    PackFlush          "merge.flush"          Housekeeping "compaction: before a merged or rewritten pack is flushed"
    PackInstall          "merge.place"          Housekeeping "compaction: before the new pack is renamed into place"
    PackMerged         "merge.done"            Marker       "compaction: the new pack is installed, the old ones still exist"
    PackDrop           "merge.drop"           Housekeeping "compaction: before a merged pack is removed"
    FeedAnswered       "feed.answered"        Marker       "9: followers and writers are notified"
    CheckpointIndex    "checkpoint.index"     Housekeeping "checkpoint: before `.git/index` is written"
    CheckpointFlush    "checkpoint.flush"     Housekeeping "checkpoint: before tree and packs are flushed"
    CheckpointFlushed  "checkpoint.flushed"   Marker       "checkpoint: tree and packs are flushed, the log does not know it"
    CheckpointRelease   "checkpoint.settle"    Housekeeping "checkpoint: before the log drops contents"
    CheckpointRecorded  "checkpoint.settled"   Marker       "checkpoint: recorded, the contents still exist"
    CheckpointSpool    "checkpoint.spool"     Housekeeping "checkpoint: before a spool file is removed"
    AdoptFlush         "adopt.flush"          Syscall         "adoption: before external commits are flushed"
    AdoptCompared        "adopt.looked"         Marker       "adoption: differences are known, nothing is queued"
    OpenTree           "open.tree"            Syscall         "opening: before the state directories are created"
    OpenLog            "open.log"             Syscall         "opening: before the log is opened"
    OpenHistory        "open.history"         Syscall         "opening: before the repository is opened"
    OpenPending      "open.unsettled"       Syscall         "opening: before the records since the checkpoint are read"
    OpenSweep          "open.sweep"           Syscall         "opening: before torn packs are removed"
    OpenCommits        "open.commits"         Marker       "opening: the commits are restored, the files may not be"
    OpenRenumber       "open.renumber"        Syscall         "opening: before new commit ids are written to the log"
    OpenRestore        "open.restore"         Marker       "opening: outdated files are known, none is changed"
    OpenFiles          "open.files"           Marker       "opening: the files are restored"
    OpenReconciled       "open.followed"        Marker       "opening: log, branch and tree agree"
    CloseLog           "close.log"            Housekeeping "closing: before the log is closed"
}

/// Number of injected errors, by point.
#[cfg(feature = "fail-points")]
static INJECTED_ERRORS: parking_lot::Mutex<std::collections::BTreeMap<String, usize>> =
    parking_lot::Mutex::new(std::collections::BTreeMap::new());

/// The points of one root; without the feature `fail-points`, nothing.
#[derive(Debug, Clone)]
pub struct FailPoints {
    #[cfg(feature = "fail-points")]
    scope: std::sync::Arc<str>,
}

#[cfg(not(feature = "fail-points"))]
impl FailPoints {
    /// The points of a root.
    #[inline(always)]
    pub const fn new(_: &Path) -> Self {
        Self {}
    }

    /// Reaches a point.
    ///
    /// # Errors
    /// None.
    #[inline(always)]
    pub const fn check(&self, _: FailPoint) -> io::Result<()> {
        Ok(())
    }

    /// Reaches a point without a system call.
    #[inline(always)]
    pub const fn hit(&self, _: FailPoint) {}
}

#[cfg(feature = "fail-points")]
impl FailPoints {
    /// The points of a root.
    pub fn new(root: &Path) -> Self {
        Self { scope: root.to_string_lossy().into() }
    }

    /// Reaches a point, and runs what a test configured there.
    ///
    /// # Errors
    /// The error that a test injects.
    pub fn check(&self, point: FailPoint) -> io::Result<()> {
        let name = self.name_of(point);
        fail::fail_point!(&name, |number| {
            *INJECTED_ERRORS.lock().entry(name.clone()).or_default() += 1;
            Err(injected_error(number))
        });
        Ok(())
    }

    /// Reaches a point without a system call.
    pub fn hit(&self, point: FailPoint) {
        fail::fail_point!(&self.name_of(point));
    }

    /// From now on, fails at a point with this error number.
    pub fn inject_error(&self, point: FailPoint, errno: i32) {
        self.set(point, &format!("return({errno})"));
    }

    /// How many errors were injected at a point; shows that a step failed which no writer waits
    /// for.
    pub fn injected_errors(&self, point: FailPoint) -> usize {
        INJECTED_ERRORS.lock().get(&self.name_of(point)).copied().unwrap_or(0)
    }

    /// Blocks every thread that reaches a point until [`FailPoints::clear`].
    pub fn pause(&self, point: FailPoint) {
        self.set(point, "pause");
    }

    /// Calls a function from now on on each thread that reaches a point.
    ///
    /// # Panics
    /// When the crate `fail` rejects it.
    pub fn set_callback(&self, point: FailPoint, function: impl Fn() + Send + Sync + 'static) {
        if let Err(error) = fail::cfg_callback(self.name_of(point), function) {
            panic!("{}: {error}", point.name());
        }
    }

    /// Removes the configuration of a point.
    pub fn clear(&self, point: FailPoint) {
        // Removing it alone would not wake paused threads.
        self.set(point, "off");
        fail::remove(self.name_of(point));
    }

    fn set(&self, point: FailPoint, action: &str) {
        if let Err(error) = fail::cfg(self.name_of(point), action) {
            panic!("{}: {error}", point.name());
        }
    }

    fn name_of(&self, point: FailPoint) -> String {
        format!("{}|{}", self.scope, point.name())
    }
}

#[cfg(feature = "fail-points")]
fn injected_error(number: Option<String>) -> io::Error {
    let number = number.and_then(|text| text.parse().ok());
    number.map_or_else(|| io::Error::other("a fail point without an error number"), io::Error::from_raw_os_error)
}
