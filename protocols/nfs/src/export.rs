//! A space with its NFS state.

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

/// Number of nodes that stay pinned after a lookup, so that the times reported for them stay the
/// same.
const MAX_PINNED_NODES: usize = 1024;

/// How long until opening a failed space is retried.
pub(crate) const REOPEN_INTERVAL: Duration = Duration::from_secs(10);

const INODE_BATCH: usize = 500;

pub(crate) struct NfsExport {
    pub(crate) space: Arc<Space>,
    pub(crate) inode_table: InodeTable,
    pub(crate) sessions: WriteSessions,
    pub(crate) rejections: RejectionTable,
    pub(crate) listings: ListingCache,
    /// Write-locked while a name changes in the tree and in the inode table; read-locked by
    /// operations that need both to agree.
    ///
    /// Never locked recursively, nor while a write session is locked: a rename waits for that
    /// session.
    pub(crate) names_lock: RwLock<()>,
    pinned: Mutex<VecDeque<NodeId>>,
    /// Inodes whose path was missing at the last check.
    missing: Mutex<HashSet<u64>>,
}

impl NfsExport {
    /// Opens the NFS state of a space and replays the stable writes of a crashed server.
    pub(crate) fn open(space: Arc<Space>) -> Result<Arc<Self>, Fault> {
        let inode_table = space.vfs.inode_table()?;
        stable_write_replay::replay(&space.vfs, &inode_table)?;
        let (sessions, rejections, listings, names_lock, pinned, missing) = Default::default();
        let export = Arc::new(Self { space, inode_table, sessions, rejections, listings, names_lock, pinned, missing });
        let weak = Arc::downgrade(&export);
        export.vfs().add_write_flusher(move || {
            if let Some(export) = weak.upgrade() {
                export.save_all();
            }
        });
        Ok(export)
    }

    pub(crate) fn vfs(&self) -> &Vfs {
        &self.space.vfs
    }

    /// Waits until a name change is durable; clients do not request that (RFC 1813, 1.6 and 4.8).
    pub(crate) fn sync_names(&self) -> Result<(), Fault> {
        self.vfs().wait_applied().map(drop)
    }

    pub(crate) fn child_inodes(&self, directory: u64, names: &[&str]) -> Result<Vec<u64>, Fault> {
        Ok(self.inode_table.inodes(directory, names)?)
    }

    /// Removes the inodes of files that were removed through other protocols: those missing at the
    /// last check and now.
    ///
    /// Two checks, because a rename is not atomic here: first the tree changes, then the inode
    /// table. Errors: those of the inode table.
    pub(crate) fn remove_stale_inodes(&self) -> Result<(), Fault> {
        let caller = Caller::new(Protocol::Nfs);
        let is_missing = |path: &TreePath| match self.vfs().lookup_path(&caller, path) {
            Ok((node, _)) => {
                self.vfs().forget(node, 1);
                false
            }
            Err(fault) => matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory),
        };
        let (mut after, mut now) = (0, HashSet::new());
        loop {
            let batch = self.inode_table.list_inodes(after, INODE_BATCH)?;
            let Some(last) = batch.last() else { break };
            after = *last;
            let mut missing = Vec::new();
            for inode in batch {
                let path = self.inode_table.path(inode)?;
                if self.sessions.node(inode).is_none() && path.is_none_or(|path| is_missing(&path)) {
                    missing.push(inode);
                }
            }
            let (still_missing, newly_missing): (Vec<_>, Vec<_>) =
                missing.into_iter().partition(|inode| self.missing.lock().contains(inode));
            now.extend(newly_missing);
            if !still_missing.is_empty() {
                self.inode_table.remove_inodes(&still_missing, is_missing)?;
            }
        }
        *self.missing.lock() = now;
        Ok(())
    }

    /// Moves a pinned node to the end of the eviction order; false when it is not pinned.
    pub(crate) fn touch_pinned(&self, node: NodeId) -> bool {
        let mut pinned = self.pinned.lock();
        let Some(at) = pinned.iter().position(|entry| *entry == node) else { return false };
        pinned.remove(at);
        pinned.push_back(node);
        true
    }

    /// Pins a node and releases the oldest one beyond the limit.
    pub(crate) fn pin_node(&self, node: NodeId) {
        let mut pinned = self.pinned.lock();
        pinned.push_back(node);
        let oldest = if pinned.len() > MAX_PINNED_NODES { pinned.pop_front() } else { None };
        drop(pinned);
        if let Some(oldest) = oldest {
            self.vfs().forget(oldest, 1);
        }
    }
}

impl Drop for NfsExport {
    fn drop(&mut self) {
        for node in std::mem::take(&mut *self.pinned.lock()) {
            self.space.vfs.forget(node, 1);
        }
    }
}

/// The exported spaces. One that fails to open does not affect the others.
#[derive(Default)]
pub(crate) struct ExportTable {
    /// In the order in which they were opened.
    pub(crate) open: Vec<Arc<NfsExport>>,
    /// Spaces that failed to open, with the time of the last try (`None` while one is in progress)
    /// and the error.
    failed: Vec<(Arc<Space>, Option<Instant>, Fault)>,
}

impl ExportTable {
    /// The open export that matches; `None` when there is none. Errors: why a space that may match
    /// could not be opened.
    pub(crate) fn find(
        &self,
        matches: impl Fn(&NfsExport) -> bool,
        may_match: impl Fn(&Space) -> bool,
    ) -> Result<Option<Arc<NfsExport>>, Fault> {
        let failed = || self.failed.iter().find(|(space, ..)| may_match(space));
        match self.open.iter().find(|export| matches(export)) {
            Some(export) => Ok(Some(Arc::clone(export))),
            None => failed().map_or(Ok(None), |(.., fault)| Err(fault.duplicate())),
        }
    }

    /// Finds an export by name. Errors: why it could not be opened.
    pub(crate) fn by_name(&self, name: &str) -> Result<Option<Arc<NfsExport>>, Fault> {
        self.find(|export| export.space.name == name, |space| space.name == name)
    }

    /// The export, if there is exactly one. Errors: why it could not be opened.
    pub(crate) fn single(&self) -> Result<Option<Arc<NfsExport>>, Fault> {
        if self.open.len() + self.failed.len() == 1 { self.find(|_| true, |_| true) } else { Ok(None) }
    }

    /// Opens the spaces that are not open, without blocking requests for others; failures are
    /// retried after [`REOPEN_INTERVAL`].
    pub(crate) fn sync_with(exports: &Mutex<Self>, spaces: &[Arc<Space>], now: Instant) {
        Self::sync_with_opener(exports, spaces, now, NfsExport::open);
    }

    /// As `sync_with`, with the function that opens a space. A panic in it counts as a failure: it
    /// stops neither the retry nor the request of another client.
    pub(crate) fn sync_with_opener(
        exports: &Mutex<Self>,
        spaces: &[Arc<Space>],
        now: Instant,
        open: impl Fn(Arc<Space>) -> Result<Arc<NfsExport>, Fault>,
    ) {
        loop {
            let next_to_open = exports.lock().next_to_open(spaces, now);
            let Some((space, is_first_try)) = next_to_open else { return };
            let outcome = catch_unwind(AssertUnwindSafe(|| open(Arc::clone(&space)))).unwrap_or_else(|_| {
                let message = format!("space `{}` could not be opened; the server retries every 10 s", space.name);
                Err(Fault::unavailable(message).with_context("opening it panicked"))
            });
            if let Err(fault) = &outcome
                && is_first_try
            {
                tracing::error!(space = space.name, error = ?fault, "cannot serve a space over NFS; the server retries every 10 s");
            }
            let mut exports = exports.lock();
            // The space may have been closed in the meantime.
            let Some(at) = exports.failed.iter().position(|(failed, ..)| Arc::ptr_eq(failed, &space)) else { continue };
            match outcome {
                Ok(export) => {
                    exports.failed.swap_remove(at);
                    exports.open.push(export);
                }
                Err(fault) => exports.failed[at] = (space, Some(now.max(Instant::now())), fault),
            }
        }
    }

    /// The next space to open, marked as in progress, and whether this is the first try.
    fn next_to_open(&mut self, spaces: &[Arc<Space>], now: Instant) -> Option<(Arc<Space>, bool)> {
        let is_served = |space: &Arc<Space>| spaces.iter().any(|served| Arc::ptr_eq(served, space));
        self.open.retain(|export| is_served(&export.space));
        self.failed.retain(|(space, ..)| is_served(space));
        for space in spaces.iter().filter(|space| !self.open.iter().any(|export| Arc::ptr_eq(&export.space, space))) {
            let entry = self.failed.iter().position(|(failed, ..)| Arc::ptr_eq(failed, space));
            let is_due = |at: usize| self.failed[at].1.is_some_and(|tried| now >= tried + REOPEN_INTERVAL);
            if !entry.is_none_or(is_due) {
                continue;
            }
            entry.map(|at| self.failed.swap_remove(at));
            let fault = Fault::unavailable(format!("space `{}` is being opened; retry in a moment", space.name));
            self.failed.push((Arc::clone(space), None, fault));
            return Some((Arc::clone(space), entry.is_none()));
        }
        None
    }
}

impl crate::NfsServer {
    pub(crate) fn exports(&self) -> ExportTable {
        ExportTable::sync_with(&self.exports, &self.server.spaces().list_open(), Instant::now());
        let exports = self.exports.lock();
        let failed = exports.failed.iter().map(|(space, tried, fault)| (Arc::clone(space), *tried, fault.duplicate()));
        ExportTable { open: exports.open.clone(), failed: failed.collect() }
    }
}
