//! What clients of one door have for themselves for a while: other doors leave it alone.
//!
//! One rule: a lease binds the other doors here, and the clients of its own door there: only that door knows which of them has it. Edits made
//! behind the server are bound by nothing, and are recorded as ever.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use parking_lot::{Condvar, Mutex, RwLock};
use svcfs_base::{Caller, Change, Fault, Kind, Timestamp, TreePath};
use svcfs_store::{Lease, LeaseFile, StatKind, StatePaths};

use crate::Vfs;
use crate::core::{EffectiveState, VfsCore};

/// So many may be had in a space at once.
const MOST: usize = 4096;
/// Bytes that a door may keep with one.
const LONGEST_NOTE: usize = 4096;

/// The leases of a space.
pub(crate) struct LeaseRegistry {
    file: LeaseFile,
    /// How many there are: nearly always none, and nobody waits for a lock to learn that.
    count: AtomicUsize,
    at: RwLock<BTreeMap<TreePath, Vec<Lease>>>,
    /// Where clients of the doors write that looked whether they may: none begins there. Held while one begins, after the locks of paths.
    writing: Mutex<Vec<TreePath>>,
    /// Told when one of these writes is over.
    pub(crate) written: Condvar,
}

/// No lease begins at some paths, above and below them, until this is dropped.
pub struct LeaseBarrier<'a> {
    leases: &'a LeaseRegistry,
    paths: Vec<TreePath>,
}

impl Drop for LeaseBarrier<'_> {
    fn drop(&mut self) {
        let mut writing = self.leases.writing.lock();
        for path in &self.paths {
            if let Some(at) = writing.iter().position(|other| other == path) {
                writing.swap_remove(at);
            }
        }
        self.leases.written.notify_all();
    }
}

impl LeaseRegistry {
    /// Those that outlived the last server.
    pub(crate) fn open(paths: &StatePaths) -> Result<Self, Fault> {
        let (file, known) = LeaseFile::open(&paths.leases())?;
        let mut at: BTreeMap<TreePath, Vec<Lease>> = BTreeMap::new();
        let count = AtomicUsize::new(known.len());
        for lease in known {
            at.entry(lease.path.clone()).or_default().push(lease);
        }
        let (writing, written) = Default::default();
        Ok(Self { file, count, at: RwLock::new(at), writing, written })
    }

    /// Those that hold at a path: its own, and deep ones above it.
    fn covering(&self, path: &TreePath, now: SystemTime) -> Vec<Lease> {
        let at = self.at.read();
        let own = at.get(path).into_iter().flatten();
        let above = path.ancestors().filter_map(|above| at.get(&above)).flatten().filter(|lease| lease.is_deep);
        own.chain(above).filter(|lease| now < lease.expires_at).cloned().collect()
    }

    /// Those of what lies below a path.
    fn below(&self, path: &TreePath, now: SystemTime) -> Vec<Lease> {
        let at = self.at.read();
        let below =
            at.iter().filter(|(place, _)| *place != path && place.is_under(path)).flat_map(|(_, leases)| leases);
        below.filter(|lease| now < lease.expires_at).cloned().collect()
    }

    fn forget(&self, is_over: impl Fn(&Lease) -> bool) -> Result<(), Fault> {
        let mut over = Vec::new();
        {
            let mut at = self.at.write();
            at.retain(|_, leases| {
                over.extend(leases.extract_if(.., |lease| is_over(lease)));
                !leases.is_empty()
            });
            self.count.fetch_sub(over.len(), Ordering::Relaxed);
        }
        Ok(over.iter().try_for_each(|lease| self.file.remove(&lease.token))?)
    }
}

impl VfsCore {
    /// The present moment, for leases.
    fn lease_time(&self) -> SystemTime {
        self.clock.now().into()
    }

    /// Refuses to write a file that clients of another door have for themselves. `is_new` when its folder gets a name more or less by it.
    ///
    /// # Errors
    /// `Locked`, saying by whom and until when.
    pub(crate) fn not_leased(&self, caller: &Caller, path: &TreePath, is_new: bool) -> Result<(), Fault> {
        if self.leases.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let now = self.lease_time();
        let mut binding = self.leases.covering(path, now);
        if is_new && let Some(folder) = path.parent() {
            binding.extend(self.leases.covering(&folder, now));
        }
        refuse(path, caller, &binding)
    }

    /// The same for all that a set changes.
    ///
    /// # Errors
    /// As [`Core::not_leased`].
    pub(crate) fn none_leased(&self, caller: &Caller, changes: &[Change]) -> Result<(), Fault> {
        if self.leases.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        for change in changes {
            match change {
                Change::Put { path, .. } => {
                    let is_new = matches!(self.present(path)?, EffectiveState::Absent);
                    self.not_leased(caller, path, is_new)?;
                }
                Change::MakeDir { path } => self.not_leased(caller, path, true)?,
                Change::Remove { path, .. } | Change::RemoveDir { path } => self.all_below_free(caller, path)?,
                Change::Move { from, to, .. } => {
                    self.all_below_free(caller, from)?;
                    self.all_below_free(caller, to)?;
                }
            }
        }
        Ok(())
    }

    fn all_below_free(&self, caller: &Caller, path: &TreePath) -> Result<(), Fault> {
        self.not_leased(caller, path, true)?;
        refuse(path, caller, &self.leases.below(path, self.lease_time()))
    }
}

fn refuse(path: &TreePath, caller: &Caller, leases: &[Lease]) -> Result<(), Fault> {
    let Some(lease) = leases.iter().find(|lease| lease.protocol != caller.protocol) else { return Ok(()) };
    let what = if lease.path == *path {
        format!("`{path}` is locked")
    } else if lease.path.is_root() {
        format!("`{path}` cannot be changed: the whole space is locked")
    } else {
        format!("`{path}` cannot be changed: `{}` is locked", lease.path)
    };
    let until = Timestamp::try_from(lease.expires_at).map(|until| format!("{until:.0}")).unwrap_or_default();
    let (protocol, holder) = (lease.protocol.name(), &lease.holder);
    let told = format!("{what} by `{holder}` over {protocol} until {until}; try again then, or ask them to unlock it");
    Err(Fault::new(Kind::Locked, told))
}

impl Vfs {
    /// Gives a client of a door something for itself, unless somebody of that door has it: then those who do are given back.
    ///
    /// # Errors
    /// `TooLarge` for a note over 4 KiB; `Unavailable` while 4,096 are had; those of the disk.
    pub fn acquire_lease(&self, lease: Lease) -> Result<Result<(), Vec<Lease>>, Fault> {
        if lease.note.len() > LONGEST_NOTE {
            let told = format!("what a lock says of its owner is {} bytes long; the limit is 4 KiB", lease.note.len());
            return Err(Fault::new(Kind::TooLarge, told));
        }
        let leases = &self.core.leases;
        let is_written =
            |writing: &mut Vec<TreePath>| writing.iter().any(|at| at.is_under(&lease.path) || lease.path.is_under(at));
        // Whoever is writing there now is done before, and sees the lease after.
        let (_held, _writing) = loop {
            leases.written.wait_while(&mut leases.writing.lock(), is_written);
            let is_folder = self.core.tree.stat(&lease.path).is_ok_and(|stat| stat.kind == StatKind::Directory);
            let held = if is_folder {
                (Some(self.core.locks.hold_tree()), None)
            } else {
                (None, Some(self.core.locks.hold([lease.path.clone()].into())))
            };
            let mut writing = leases.writing.lock();
            if !is_written(&mut writing) {
                break (held, writing);
            }
        };
        let now = self.core.lease_time();
        if leases.count.load(Ordering::Relaxed) > 0 {
            leases.forget(|lease| lease.expires_at <= now)?;
        }
        let mut at = leases.at.write();
        if leases.count.load(Ordering::Relaxed) >= MOST {
            return Err(Fault::unavailable(format!(
                "{MOST} files are locked in this space; unlock some of them first"
            )));
        }
        let stands_in_the_way = |other: &Lease| {
            let covers = other.path == lease.path || other.is_deep && lease.path.is_under(&other.path);
            let is_covered = lease.is_deep && other.path.is_under(&lease.path);
            (covers || is_covered) && !(lease.is_shared && other.is_shared)
        };
        let others: Vec<Lease> = at.values().flatten().filter(|other| stands_in_the_way(other)).cloned().collect();
        if !others.is_empty() {
            return Ok(Err(others));
        }
        leases.file.put(&lease)?;
        at.entry(lease.path.clone()).or_default().push(lease);
        leases.count.fetch_add(1, Ordering::Relaxed);
        Ok(Ok(()))
    }

    /// No lease begins at these paths, above or below them, until what is given here is dropped: a door that looks whether its own clients may write
    /// there does so in the meantime. Waits for no lease that waits.
    pub fn block_new_leases(&self, paths: &[&TreePath]) -> LeaseBarrier<'_> {
        let paths: Vec<TreePath> = paths.iter().copied().cloned().collect();
        self.core.leases.writing.lock().extend(paths.iter().cloned());
        LeaseBarrier { leases: &self.core.leases, paths }
    }

    /// Lets a lease that holds at a path end at another moment; none when there is no such lease.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn renew_lease(&self, path: &TreePath, token: &str, until: SystemTime) -> Result<Option<Lease>, Fault> {
        let Some(mut lease) = self.leases_at(path).into_iter().find(|lease| lease.token == token) else {
            return Ok(None);
        };
        let mut at = self.core.leases.at.write();
        let known = at.get_mut(&lease.path).and_then(|leases| leases.iter_mut().find(|known| known.token == token));
        let Some(known) = known else { return Ok(None) };
        lease.expires_at = until;
        self.core.leases.file.put(&lease)?;
        known.clone_from(&lease);
        Ok(Some(lease))
    }

    /// Ends a lease that holds at a path; false when there is none of that token.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn end_lease(&self, path: &TreePath, token: &str) -> Result<bool, Fault> {
        let is_there = self.leases_at(path).iter().any(|lease| lease.token == token);
        self.core.leases.forget(|lease| is_there && lease.token == token)?;
        Ok(is_there)
    }

    /// Those that hold at a path: its own, and deep ones above it.
    pub fn leases_at(&self, path: &TreePath) -> Vec<Lease> {
        if self.core.leases.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        self.core.leases.covering(path, self.core.lease_time())
    }

    /// Those of what lies below a path.
    pub fn leases_below(&self, path: &TreePath) -> Vec<Lease> {
        if self.core.leases.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        self.core.leases.below(path, self.core.lease_time())
    }

    /// The moment at which a lease of this length ends that begins now.
    pub fn lease_expiry(&self, length: std::time::Duration) -> SystemTime {
        self.core.lease_time() + length
    }
}
