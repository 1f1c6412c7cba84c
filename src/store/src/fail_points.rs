//! Fail points: the named moments of the write path at which a test may break things off (habit H15).
//!
//! One rule: the list below is the only one. A step that is not in it cannot be broken, and a name in it that no test walks
//! fails the tests. Without the feature `fail-points`, which only tests switch on, nothing of this is compiled into the program.
//!
//! The machinery is the crate `fail`. Its points belong to the whole process; ours are named by root and point, so that tests
//! run beside each other.

use std::io;
use std::path::Path;

/// What may go wrong at a point beside the end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailPointKind {
    /// Between two steps: nothing is asked of the disk.
    Marker,
    /// Something is asked of the disk, and a writer waits for it.
    Syscall,
    /// Something is asked of the disk that no write depends on: it is tried again later, or left.
    Housekeeping,
}

macro_rules! fail_points {
    ($($point:ident $name:literal $nature:ident $meaning:literal)*) => {
        /// A named moment of the write path. Steps are numbered as in ARCHITECTURE.md.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FailPoint { $(#[doc = $meaning] $point,)* }

        impl FailPoint {
            /// Every point, in the order of the write path.
            pub const ALL: &'static [Self] = &[$(Self::$point),*];
            /// Its name: `<step>.<what>`.
            pub const fn name(self) -> &'static str { match self { $(Self::$point => $name),* } }
            /// What it stands for.
            pub const fn description(self) -> &'static str { match self { $(Self::$point => $meaning),* } }
            /// What may go wrong there.
            pub const fn kind(self) -> FailPointKind { match self { $(Self::$point => FailPointKind::$nature),* } }
        }
    };
}

fail_points! {
    AcceptLocked         "accept.held"          Marker       "2: the paths are held, nothing is looked at"
    AcceptPlanned      "accept.planned"       Marker       "4: conditions and gates are passed, nothing is queued"
    AcceptQueued       "accept.queued"        Marker       "5: the set stands in the queue and every reader sees it"
    StageCommit        "stage.commit"         Syscall         "6: the objects of a commit are about to be made in memory"
    LogSpool           "log.spool"            Syscall         "6: a large content is about to be written beside the log"
    LogSpoolFlush      "log.spool_flush"      Syscall         "6: it is written and about to be flushed"
    LogWrite           "log.write"            Syscall         "6: a batch is about to be written into the journal"
    LogFlush           "log.flush"            Syscall         "6: it is written, and about to be flushed"
    LogFlushed         "log.flushed"          Marker       "6: the batch is in the log: it will happen"
    RowsWrite          "rows.write"           Housekeeping "rows: what the journal has is about to be written into the database"
    RowsCommit         "rows.commit"          Housekeeping "rows: it is written, and about to be flushed"
    RowsApplied           "rows.made"            Marker       "rows: the database has it, and the journal still has it, too"
    TreeParents        "tree.parents"         Syscall         "7: a directory is about to be made"
    TreeWrite          "tree.write"           Syscall         "7: a file is about to be written under a temporary name"
    TreeRename         "tree.rename"          Syscall         "7: it is written and about to get its own name"
    TreeRemove         "tree.remove"          Syscall         "7: a file is about to be removed"
    TreeMove           "tree.move"            Syscall         "7: a directory is about to be renamed"
    TreeDone           "tree.done"            Marker       "7: the tree has the batch, what remembers it has not"
    PackWrite          "pack.write"           Syscall         "8: a file of a pack is about to be written under a temporary name"
    PackRename         "pack.rename"          Syscall         "8: it is written and about to get its own name"
    PackDone           "pack.done"            Marker       "8: the pack is whole, no branch shows it"
    BranchMove         "branch.move"          Syscall         "8: the branch is about to move"
    BranchRename       "branch.rename"        Syscall         "8: the branch is locked, its new commit is written and about to get its place"
    BranchMoved        "branch.moved"         Marker       "8: the branch shows the batch, nobody has heard of it"
    SnapshotWrite      "snapshot.write"       Syscall         "8: the snapshot of a file is about to be written"
    SnapshotDrop       "snapshot.drop"        Housekeeping "8: a snapshot more than are kept is about to be removed"
    PackMerge          "merge.begin"          Housekeeping "merging: packs are about to become one"
    PackCopy           "merge.copy"           Housekeeping "merging: a stretch of them is about to be copied"
    PackFlush          "merge.flush"          Housekeeping "merging: the new pack is written and about to be flushed; or one that is written anew"
    PackInstall          "merge.place"          Housekeeping "merging: it is about to get its own name"
    PackMerged         "merge.done"            Marker       "merging: it is in place, and they are still there beside it"
    PackDrop           "merge.drop"           Housekeeping "merging: a pack that is in another now is about to be removed"
    FeedAnswered       "feed.answered"        Marker       "9: followers and writers have heard of the batch"
    CheckpointIndex    "checkpoint.index"     Housekeeping "checkpoint: `.git/index` is about to be written"
    CheckpointFlush    "checkpoint.flush"     Housekeeping "checkpoint: tree and packs are about to be flushed"
    CheckpointFlushed  "checkpoint.flushed"   Marker       "checkpoint: they are flushed, the log does not know"
    CheckpointRelease   "checkpoint.settle"    Housekeeping "checkpoint: the log is about to let go of contents"
    CheckpointRecorded  "checkpoint.settled"   Marker       "checkpoint: it need not have them any more, and still has them"
    CheckpointSpool    "checkpoint.spool"     Housekeeping "checkpoint: a spool file is about to be removed"
    AdoptFlush         "adopt.flush"          Syscall         "adoption: what somebody else committed is about to be flushed"
    AdoptCompared        "adopt.looked"         Marker       "adoption: what differs is known, nothing is queued"
    OpenTree           "open.tree"            Syscall         "opening: the state directories are about to be made"
    OpenLog            "open.log"             Syscall         "opening: the log is about to be opened"
    OpenHistory        "open.history"         Syscall         "opening: the repository is about to be opened"
    OpenPending      "open.unsettled"       Syscall         "opening: what was not settled is about to be read"
    OpenSweep          "open.sweep"           Syscall         "opening: what a crash tore is about to be taken away"
    OpenCommits        "open.commits"         Marker       "opening: the commits are there, the files may not be"
    OpenRenumber       "open.renumber"        Syscall         "opening: the log is about to be told the commits"
    OpenRestore        "open.restore"         Marker       "opening: it is known which files are behind, none of them is changed"
    OpenFiles          "open.files"           Marker       "opening: the files are there, too"
    OpenReconciled       "open.followed"        Marker       "opening: log, branch and tree agree again"
    CloseLog           "close.log"            Housekeeping "closing: everything is in place, the log is about to be closed"
}

/// How often somebody was refused at each point, by its name.
#[cfg(feature = "fail-points")]
static REFUSALS: parking_lot::Mutex<std::collections::BTreeMap<String, usize>> =
    parking_lot::Mutex::new(std::collections::BTreeMap::new());

/// The points of one root. Nothing, in a program that is not a test.
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

    /// Passes a point.
    ///
    /// # Errors
    /// None.
    #[inline(always)]
    pub const fn check(&self, _: FailPoint) -> io::Result<()> {
        Ok(())
    }

    /// Passes a point at which nothing is asked of the disk.
    #[inline(always)]
    pub const fn hit(&self, _: FailPoint) {}
}

#[cfg(feature = "fail-points")]
impl FailPoints {
    /// The points of a root.
    pub fn new(root: &Path) -> Self {
        Self { scope: root.to_string_lossy().into() }
    }

    /// Passes a point, or does there what a test wants to be done.
    ///
    /// # Errors
    /// What a test wants the disk to say.
    pub fn check(&self, point: FailPoint) -> io::Result<()> {
        let name = self.name_of(point);
        fail::fail_point!(&name, |number| {
            *REFUSALS.lock().entry(name.clone()).or_default() += 1;
            Err(said(number))
        });
        Ok(())
    }

    /// Passes a point at which nothing is asked of the disk.
    pub fn hit(&self, point: FailPoint) {
        fail::fail_point!(&self.name_of(point));
    }

    /// What the disk says at a point from now on, as the number of an error.
    pub fn inject_error(&self, point: FailPoint, errno: i32) {
        self.set(point, &format!("return({errno})"));
    }

    /// How often somebody was refused at a point: what no writer hears of is known to have happened.
    pub fn injected_errors(&self, point: FailPoint) -> usize {
        REFUSALS.lock().get(&self.name_of(point)).copied().unwrap_or(0)
    }

    /// Whoever comes to a point stays there until [`FailPoints::clear`].
    pub fn pause(&self, point: FailPoint) {
        self.set(point, "pause");
    }

    /// Calls a function at a point from now on, on the thread that comes there.
    ///
    /// # Panics
    /// When `fail` does not take it.
    pub fn set_callback(&self, point: FailPoint, function: impl Fn() + Send + Sync + 'static) {
        if let Err(error) = fail::cfg_callback(self.name_of(point), function) {
            panic!("{}: {error}", point.name());
        }
    }

    /// A point is passed again as if it were not there.
    pub fn clear(&self, point: FailPoint) {
        // Not only removed: whoever pauses there must hear of it.
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
fn said(number: Option<String>) -> io::Error {
    let number = number.and_then(|text| text.parse().ok());
    number.map_or_else(|| io::Error::other("a fail point without a number"), io::Error::from_raw_os_error)
}
