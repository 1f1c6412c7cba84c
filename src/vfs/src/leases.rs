//! Leases: paths that clients of one protocol lock against other protocols for some time.
//!
//! Invariant: a lease is enforced here against other protocols, and by its own protocol among its
//! clients, as only that knows the holder. External edits are not bound, and are recorded as usual.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use parking_lot::{Condvar, Mutex, RwLock};
use svcfs_base::{Caller, Change, Fault, Kind, Timestamp, TreePath};
use svcfs_store::{Lease, LeaseFile, StatKind, StatePaths};

use crate::Vfs;
use crate::core::{EffectiveState, VfsCore};

const MAX_LEASES: usize = 4096;
/// Maximum size of a protocol's note on a lease.
const MAX_NOTE_BYTES: usize = 4096;

pub(crate) struct LeaseRegistry {
    file: LeaseFile,
    /// Number of leases: nearly always none, which is checked without a lock.
    count: AtomicUsize,
    by_path: RwLock<BTreeMap<TreePath, Vec<Lease>>>,
    /// Paths where no lease may start, because a protocol checked its leases and writes there. Held
    /// while a lease starts, after path locks.
    barriers: Mutex<Vec<TreePath>>,
    pub(crate) barrier_dropped: Condvar,
}

/// While it exists, no lease starts at some paths, above or below them.
pub struct LeaseBarrier<'a> {
    leases: &'a LeaseRegistry,
    paths: Vec<TreePath>,
}

impl Drop for LeaseBarrier<'_> {
    fn drop(&mut self) {
        let mut barriers = self.leases.barriers.lock();
        for path in &self.paths {
            if let Some(by_path) = barriers.iter().position(|existing| existing == path) {
                barriers.swap_remove(by_path);
            }
        }
        self.leases.barrier_dropped.notify_all();
    }
}

impl LeaseRegistry {
    pub(crate) fn open(paths: &StatePaths) -> Result<Self, Fault> {
        let (file, leases) = LeaseFile::open(&paths.leases())?;
        let mut by_path: BTreeMap<TreePath, Vec<Lease>> = BTreeMap::new();
        let count = AtomicUsize::new(leases.len());
        for lease in leases {
            by_path.entry(lease.path.clone()).or_default().push(lease);
        }
        let (barriers, barrier_dropped) = Default::default();
        Ok(Self { file, count, by_path: RwLock::new(by_path), barriers, barrier_dropped })
    }

    /// Leases that cover a path: its own, and deep ones above it.
    fn covering(&self, path: &TreePath, now: SystemTime) -> Vec<Lease> {
        let by_path = self.by_path.read();
        let own = by_path.get(path).into_iter().flatten();
        let above = path.ancestors().filter_map(|above| by_path.get(&above)).flatten().filter(|lease| lease.is_deep);
        own.chain(above).filter(|lease| now < lease.expires_at).cloned().collect()
    }

    fn below(&self, path: &TreePath, now: SystemTime) -> Vec<Lease> {
        let by_path = self.by_path.read();
        let below = by_path
            .iter()
            .filter(|(leased_path, _)| *leased_path != path && leased_path.is_under(path))
            .flat_map(|(_, leases)| leases);
        below.filter(|lease| now < lease.expires_at).cloned().collect()
    }

    fn remove_where(&self, is_expired: impl Fn(&Lease) -> bool) -> Result<(), Fault> {
        let mut expired = Vec::new();
        {
            let mut by_path = self.by_path.write();
            by_path.retain(|_, leases| {
                expired.extend(leases.extract_if(.., |lease| is_expired(lease)));
                !leases.is_empty()
            });
            self.count.fetch_sub(expired.len(), Ordering::Relaxed);
        }
        Ok(expired.iter().try_for_each(|lease| self.file.remove(&lease.token))?)
    }
}

impl VfsCore {
    fn lease_time(&self) -> SystemTime {
        self.clock.now().into()
    }

    /// Refuses to write a path leased by another protocol. `is_new` when it changes its folder,
    /// too.
    pub(crate) fn check_not_leased(&self, caller: &Caller, path: &TreePath, is_new: bool) -> Result<(), Fault> {
        if self.leases.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let now = self.lease_time();
        let mut covering = self.leases.covering(path, now);
        if is_new && let Some(folder) = path.parent() {
            covering.extend(self.leases.covering(&folder, now));
        }
        check_other_protocols(path, caller, &covering)
    }

    /// Checks all changes of a set.
    pub(crate) fn check_no_leases(&self, caller: &Caller, changes: &[Change]) -> Result<(), Fault> {
        if self.leases.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        for change in changes {
            match change {
                Change::Put { path, .. } => {
                    let is_new = matches!(self.effective_state(path)?, EffectiveState::Absent);
                    self.check_not_leased(caller, path, is_new)?;
                }
                Change::MakeDir { path } => self.check_not_leased(caller, path, true)?,
                Change::Remove { path, .. } | Change::RemoveDir { path } => self.check_no_leases_below(caller, path)?,
                Change::Move { from, to, .. } => {
                    self.check_no_leases_below(caller, from)?;
                    self.check_no_leases_below(caller, to)?;
                }
            }
        }
        Ok(())
    }

    fn check_no_leases_below(&self, caller: &Caller, path: &TreePath) -> Result<(), Fault> {
        self.check_not_leased(caller, path, true)?;
        check_other_protocols(path, caller, &self.leases.below(path, self.lease_time()))
    }
}

fn check_other_protocols(path: &TreePath, caller: &Caller, leases: &[Lease]) -> Result<(), Fault> {
    let Some(lease) = leases.iter().find(|lease| lease.protocol != caller.protocol) else { return Ok(()) };
    let subject = if lease.path == *path {
        format!("`{path}` is locked")
    } else if lease.path.is_root() {
        format!("`{path}` cannot be changed: the whole space is locked")
    } else {
        format!("`{path}` cannot be changed: `{}` is locked", lease.path)
    };
    let until = Timestamp::try_from(lease.expires_at).map(|until| format!("{until:.0}")).unwrap_or_default();
    let (protocol, holder) = (lease.protocol.name(), &lease.holder);
    let message = format!(
        "{subject} by `{holder}` over {protocol} until {until}; try again then, or ask the holder to unlock it"
    );
    Err(Fault::new(Kind::Locked, message))
}

impl Vfs {
    /// Starts a lease, unless conflicting ones exist, which are returned then.
    ///
    /// # Errors
    /// `TooLarge` for a note over 4 KiB; `Unavailable` while there are 4,096; those of the disk.
    pub fn acquire_lease(&self, lease: Lease) -> Result<Result<(), Vec<Lease>>, Fault> {
        if lease.note.len() > MAX_NOTE_BYTES {
            let message = format!("the owner text of the lock has {} bytes; the limit is 4 KiB", lease.note.len());
            return Err(Fault::new(Kind::TooLarge, message));
        }
        let leases = &self.core.leases;
        let is_blocked = |barriers: &mut Vec<TreePath>| {
            barriers.iter().any(|by_path| by_path.is_under(&lease.path) || lease.path.is_under(by_path))
        };
        // Current writers finish first; later ones see the lease.
        let (_lock, _barriers) = loop {
            leases.barrier_dropped.wait_while(&mut leases.barriers.lock(), is_blocked);
            let is_folder = self.core.tree.stat(&lease.path).is_ok_and(|stat| stat.kind == StatKind::Directory);
            let lock = if is_folder {
                (Some(self.core.path_locks.lock_tree()), None)
            } else {
                (None, Some(self.core.path_locks.lock([lease.path.clone()].into())))
            };
            let mut barriers = leases.barriers.lock();
            if !is_blocked(&mut barriers) {
                break (lock, barriers);
            }
        };
        let now = self.core.lease_time();
        if leases.count.load(Ordering::Relaxed) > 0 {
            leases.remove_where(|lease| lease.expires_at <= now)?;
        }
        let mut by_path = leases.by_path.write();
        if leases.count.load(Ordering::Relaxed) >= MAX_LEASES {
            return Err(Fault::unavailable(format!(
                "{MAX_LEASES} files are locked in this space; unlock some of them first"
            )));
        }
        let conflicts = |existing: &Lease| {
            let covers = existing.path == lease.path || existing.is_deep && lease.path.is_under(&existing.path);
            let is_covered = lease.is_deep && existing.path.is_under(&lease.path);
            (covers || is_covered) && !(lease.is_shared && existing.is_shared)
        };
        let conflicting: Vec<Lease> =
            by_path.values().flatten().filter(|existing| conflicts(existing)).cloned().collect();
        if !conflicting.is_empty() {
            return Ok(Err(conflicting));
        }
        leases.file.put(&lease)?;
        by_path.entry(lease.path.clone()).or_default().push(lease);
        leases.count.fetch_add(1, Ordering::Relaxed);
        Ok(Ok(()))
    }

    /// Blocks new leases at, above or below these paths until the guard is dropped: a protocol
    /// checks its leases and writes under it. Does not wait for a lease that waits to start.
    pub fn block_new_leases(&self, paths: &[&TreePath]) -> LeaseBarrier<'_> {
        let paths: Vec<TreePath> = paths.iter().copied().cloned().collect();
        self.core.leases.barriers.lock().extend(paths.iter().cloned());
        LeaseBarrier { leases: &self.core.leases, paths }
    }

    /// Sets the end of a lease that covers a path; none when there is no such lease.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn renew_lease(&self, path: &TreePath, token: &str, until: SystemTime) -> Result<Option<Lease>, Fault> {
        let Some(mut lease) = self.leases_at(path).into_iter().find(|lease| lease.token == token) else {
            return Ok(None);
        };
        let mut by_path = self.core.leases.by_path.write();
        let leases =
            by_path.get_mut(&lease.path).and_then(|leases| leases.iter_mut().find(|leases| leases.token == token));
        let Some(leases) = leases else { return Ok(None) };
        lease.expires_at = until;
        self.core.leases.file.put(&lease)?;
        leases.clone_from(&lease);
        Ok(Some(lease))
    }

    /// Ends a lease that covers a path; false when there is none with this token.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn end_lease(&self, path: &TreePath, token: &str) -> Result<bool, Fault> {
        let exists = self.leases_at(path).iter().any(|lease| lease.token == token);
        self.core.leases.remove_where(|lease| exists && lease.token == token)?;
        Ok(exists)
    }

    /// Leases that cover a path: its own, and deep ones above it.
    pub fn leases_at(&self, path: &TreePath) -> Vec<Lease> {
        if self.core.leases.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        self.core.leases.covering(path, self.core.lease_time())
    }

    /// Leases below a path.
    pub fn leases_below(&self, path: &TreePath) -> Vec<Lease> {
        if self.core.leases.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        self.core.leases.below(path, self.core.lease_time())
    }

    /// The end of a lease that starts now.
    pub fn lease_expiry(&self, length: std::time::Duration) -> SystemTime {
        self.core.lease_time() + length
    }
}
