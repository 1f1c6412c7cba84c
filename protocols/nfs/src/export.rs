//! A space, with what this protocol keeps of it.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use svcfs_base::{Caller, Fault, Kind, Protocol, TreePath};
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{InodeTable, NodeId, Vfs};

use crate::listing::ListingCache;
use crate::rejected::RejectionTable;
use crate::stable_write_replay;
use crate::write_sessions::WriteSessions;

/// So many files are remembered that somebody looked at: what was told of their times stays true for them.
const MOST_FOUND: usize = 1024;

/// A space that could not be served is tried again after so long.
pub(crate) const AGAIN: Duration = Duration::from_secs(10);

/// So many numbers are looked through at once.
const SOME: usize = 500;

/// A space that clients see.
pub(crate) struct NfsExport {
    pub(crate) space: Arc<Space>,
    pub(crate) numbers: InodeTable,
    pub(crate) writers: WriteSessions,
    pub(crate) refused: RejectionTable,
    pub(crate) listings: ListingCache,
    /// Held while a name changes in the tree and its number with it; shared by whoever needs both to say the same.
    ///
    /// Never taken twice, nor by whoever holds a file that is being written: whoever renames waits for that file.
    pub(crate) names: RwLock<()>,
    found: Mutex<VecDeque<NodeId>>,
    /// Numbers whose names were gone when they were looked at last.
    gone: Mutex<HashSet<u64>>,
}

impl NfsExport {
    /// Opens what is kept of a space, and does first what was promised by a server that died.
    pub(crate) fn open(space: Arc<Space>) -> Result<Arc<Self>, Fault> {
        let numbers = space.vfs.inode_table()?;
        stable_write_replay::settle(&space.vfs, &numbers)?;
        let (writers, refused, listings, names, found, gone) = Default::default();
        let export = Arc::new(Self { space, numbers, writers, refused, listings, names, found, gone });
        let weak = Arc::downgrade(&export);
        export.vfs().add_write_flusher(move || {
            if let Some(export) = weak.upgrade() {
                export.settle_all();
            }
        });
        Ok(export)
    }

    pub(crate) fn vfs(&self) -> &Vfs {
        &self.space.vfs
    }

    /// Waits until a name that was changed cannot be lost any more: clients do not ask for that (RFC 1813, 1.6 and 4.8).
    pub(crate) fn names_are_safe(&self) -> Result<(), Fault> {
        self.vfs().wait_applied().map(drop)
    }

    /// The numbers of names in a directory.
    pub(crate) fn numbers(&self, directory: u64, names: &[&str]) -> Result<Vec<u64>, Fault> {
        Ok(self.numbers.inodes(directory, names)?)
    }

    /// Lets go of the numbers of files that other doors removed: those whose names were gone when they were looked at last, and are gone now.
    ///
    /// Twice, because a rename is two steps here: the tree's, and that of the numbers.
    ///
    /// # Errors
    /// Those of the numbers.
    pub(crate) fn tidy(&self) -> Result<(), Fault> {
        let caller = Caller::new(Protocol::Nfs);
        let is_gone = |path: &TreePath| match self.vfs().lookup_path(&caller, path) {
            Ok((node, _)) => {
                self.vfs().forget(node, 1);
                false
            }
            Err(fault) => matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory),
        };
        let (mut after, mut now) = (0, HashSet::new());
        loop {
            let some = self.numbers.list_inodes(after, SOME)?;
            let Some(last) = some.last() else { break };
            after = *last;
            let mut gone = Vec::new();
            for number in some {
                let path = self.numbers.path(number)?;
                if self.writers.node(number).is_none() && path.is_none_or(|path| is_gone(&path)) {
                    gone.push(number);
                }
            }
            let (twice, once): (Vec<_>, Vec<_>) =
                gone.into_iter().partition(|number| self.gone.lock().contains(number));
            now.extend(once);
            if !twice.is_empty() {
                self.numbers.remove_inodes(&twice, is_gone)?;
            }
        }
        *self.gone.lock() = now;
        Ok(())
    }

    /// Keeps a finding that is kept already as if it were new; whether there is one.
    pub(crate) fn found_again(&self, node: NodeId) -> bool {
        let mut found = self.found.lock();
        let Some(at) = found.iter().position(|known| *known == node) else { return false };
        found.remove(at);
        found.push_back(node);
        true
    }

    /// Keeps a finding of a node, and gives back the oldest one.
    pub(crate) fn found(&self, node: NodeId) {
        let mut found = self.found.lock();
        found.push_back(node);
        let oldest = if found.len() > MOST_FOUND { found.pop_front() } else { None };
        drop(found);
        if let Some(oldest) = oldest {
            self.vfs().forget(oldest, 1);
        }
    }
}

impl Drop for NfsExport {
    fn drop(&mut self) {
        for node in std::mem::take(&mut *self.found.lock()) {
            self.space.vfs.forget(node, 1);
        }
    }
}

/// The spaces that are served. One that cannot be does not keep the others.
#[derive(Default)]
pub(crate) struct ExportTable {
    /// The first one first.
    pub(crate) open: Vec<Arc<NfsExport>>,
    /// Those that cannot be served, when that was tried last, and why; none while it is tried.
    broken: Vec<(Arc<Space>, Option<Instant>, Fault)>,
}

impl ExportTable {
    /// The one that is meant; nothing when there is none.
    ///
    /// # Errors
    /// Why one cannot be served that may be it.
    pub(crate) fn find(
        &self,
        is_it: impl Fn(&NfsExport) -> bool,
        may_be: impl Fn(&Space) -> bool,
    ) -> Result<Option<Arc<NfsExport>>, Fault> {
        let broken = || self.broken.iter().find(|(space, ..)| may_be(space));
        match self.open.iter().find(|export| is_it(export)) {
            Some(export) => Ok(Some(Arc::clone(export))),
            None => broken().map_or(Ok(None), |(.., fault)| Err(fault.duplicate())),
        }
    }

    /// The one of a name.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub(crate) fn named(&self, name: &str) -> Result<Option<Arc<NfsExport>>, Fault> {
        self.find(|export| export.space.name == name, |space| space.name == name)
    }

    /// The only one; nothing when there are several.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub(crate) fn only(&self) -> Result<Option<Arc<NfsExport>>, Fault> {
        if self.open.len() + self.broken.len() == 1 { self.find(|_| true, |_| true) } else { Ok(None) }
    }

    /// Opens those that are not open, and keeps nobody waiting who asks for others; one that could not be is tried again after a while.
    pub(crate) fn follow(exports: &Mutex<Self>, spaces: &[Arc<Space>], now: Instant) {
        Self::follow_by(exports, spaces, now, NfsExport::open);
    }

    /// The same with whoever opens one. A panic there is a refusal like any other: it costs neither that space its next try nor others their request.
    pub(crate) fn follow_by(
        exports: &Mutex<Self>,
        spaces: &[Arc<Space>],
        now: Instant,
        open: impl Fn(Arc<Space>) -> Result<Arc<NfsExport>, Fault>,
    ) {
        loop {
            let due = exports.lock().due(spaces, now);
            let Some((space, is_first)) = due else { return };
            let outcome = catch_unwind(AssertUnwindSafe(|| open(Arc::clone(&space)))).unwrap_or_else(|_| {
                let told = format!("the space `{}` could not be opened; it is tried again in a moment", space.name);
                Err(Fault::unavailable(told).with_context("whoever opened it panicked"))
            });
            if let Err(fault) = &outcome
                && is_first
            {
                tracing::error!(space = space.name, error = ?fault, "a space cannot be served over NFS");
            }
            let mut exports = exports.lock();
            // It may have been closed meanwhile.
            let Some(at) = exports.broken.iter().position(|(broken, ..)| Arc::ptr_eq(broken, &space)) else { continue };
            match outcome {
                Ok(export) => {
                    exports.broken.swap_remove(at);
                    exports.open.push(export);
                }
                Err(fault) => exports.broken[at] = (space, Some(now.max(Instant::now())), fault),
            }
        }
    }

    /// The next one that is to be opened now, noted as such; and whether for the first time.
    fn due(&mut self, spaces: &[Arc<Space>], now: Instant) -> Option<(Arc<Space>, bool)> {
        let is_served = |space: &Arc<Space>| spaces.iter().any(|served| Arc::ptr_eq(served, space));
        self.open.retain(|export| is_served(&export.space));
        self.broken.retain(|(space, ..)| is_served(space));
        for space in spaces.iter().filter(|space| !self.open.iter().any(|export| Arc::ptr_eq(&export.space, space))) {
            let known = self.broken.iter().position(|(broken, ..)| Arc::ptr_eq(broken, space));
            let is_due = |at: usize| self.broken[at].1.is_some_and(|tried| now >= tried + AGAIN);
            if !known.is_none_or(is_due) {
                continue;
            }
            known.map(|at| self.broken.swap_remove(at));
            let fault =
                Fault::unavailable(format!("the space `{}` is being opened; ask again in a moment", space.name));
            self.broken.push((Arc::clone(space), None, fault));
            return Some((Arc::clone(space), known.is_none()));
        }
        None
    }
}

impl crate::NfsServer {
    /// The spaces that are served in this moment.
    pub(crate) fn exports(&self) -> ExportTable {
        ExportTable::follow(&self.exports, &self.server.spaces().list_open(), Instant::now());
        let exports = self.exports.lock();
        let broken = exports.broken.iter().map(|(space, tried, fault)| (Arc::clone(space), *tried, fault.duplicate()));
        ExportTable { open: exports.open.clone(), broken: broken.collect() }
    }
}
