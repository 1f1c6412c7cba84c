//! The shares of a space in memory, and their durable copy.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use svcfs_base::{Fault, Kind, Timestamp, TreePath};
use svcfs_store::{Share, ShareFile, ShareWrite, StatePaths, StoreError};
use svcfs_vfs::Relocation;

/// Limit of shares in a space.
const MAX_SHARES: usize = 10_000;

/// Shares by id. Every change but a view is durable before it is answered.
pub struct ShareRegistry {
    file: ShareFile,
    state: Mutex<ShareState>,
}

#[derive(Default)]
struct ShareState {
    by_id: BTreeMap<String, Share>,
    /// Shares whose views are not stored yet.
    viewed: BTreeSet<String>,
}

impl ShareRegistry {
    /// Opens the shares of a root.
    ///
    /// # Errors
    /// Those of [`ShareFile::open`].
    pub fn open(paths: &StatePaths) -> Result<Self, StoreError> {
        let (file, shares) = ShareFile::open(&paths.shares())?;
        let by_id = shares.into_iter().map(|share| (share.id.clone(), share)).collect();
        Ok(Self { file, state: Mutex::new(ShareState { by_id, viewed: BTreeSet::new() }) })
    }

    /// The hash of a token.
    pub(super) fn token_hash(token: &str) -> [u8; 32] {
        Sha256::digest(token.as_bytes()).into()
    }

    /// The active share of a token. All are compared, each in constant time.
    pub(super) fn find(&self, token: &str, now: Timestamp) -> Option<Share> {
        let hash = Self::token_hash(token);
        let state = self.state.lock();
        let mut found = None;
        for share in state.by_id.values() {
            if bool::from(share.token_hash.ct_eq(&hash)) {
                found = Some(share);
            }
        }
        found.filter(|share| is_active(share, now)).cloned()
    }

    /// The active shares of a page, the oldest first.
    pub(super) fn of_page(&self, path: &TreePath, now: Timestamp) -> Vec<Share> {
        let state = self.state.lock();
        let of_page = state.by_id.values().filter(|share| share.path == *path && is_active(share, now));
        let mut shares: Vec<Share> = of_page.cloned().collect();
        shares.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        shares
    }

    pub(super) fn get(&self, id: &str, now: Timestamp) -> Option<Share> {
        self.state.lock().by_id.get(id).filter(|share| is_active(share, now)).cloned()
    }

    /// Adds a share.
    ///
    /// # Errors
    /// `Conflict` when there are too many; those of the disk.
    pub(super) fn add(&self, share: Share) -> Result<(), Fault> {
        let mut state = self.state.lock();
        if state.by_id.len() >= MAX_SHARES {
            let message = format!("this space has {MAX_SHARES} shares; revoke some of them first");
            return Err(Fault::new(Kind::Conflict, message));
        }
        self.file.write(&[ShareWrite::Put(share.clone())]).map_err(not_stored)?;
        state.by_id.insert(share.id.clone(), share);
        Ok(())
    }

    /// Ends a share.
    ///
    /// # Errors
    /// Those of the disk; the share stays then.
    pub(super) fn remove(&self, id: &str) -> Result<(), Fault> {
        let mut state = self.state.lock();
        self.file.write(&[ShareWrite::Remove(id.to_owned())]).map_err(not_stored)?;
        state.by_id.remove(id);
        Ok(())
    }

    pub(super) fn count_view(&self, id: &str) {
        let mut state = self.state.lock();
        if let Some(share) = state.by_id.get_mut(id) {
            share.views = share.views.saturating_add(1);
            state.viewed.insert(id.to_owned());
        }
    }

    /// Follows renames and removals of pages.
    pub(crate) fn follow(&self, relocations: &[Relocation]) {
        let mut state = self.state.lock();
        if state.by_id.is_empty() {
            return;
        }
        let mut writes = Vec::new();
        for relocation in relocations {
            match relocation {
                Relocation::Moved { from, to } => {
                    for share in state.by_id.values_mut() {
                        if let Some(target) = share.path.rebase(from, to) {
                            share.path = target;
                            writes.push(ShareWrite::Put(share.clone()));
                        }
                    }
                }
                Relocation::Removed(path) => {
                    let ended: Vec<String> = state
                        .by_id
                        .values()
                        .filter(|share| share.path == *path)
                        .map(|share| share.id.clone())
                        .collect();
                    for id in ended {
                        state.by_id.remove(&id);
                        writes.push(ShareWrite::Remove(id));
                    }
                }
            }
        }
        if !writes.is_empty()
            && let Err(error) = self.file.write(&writes)
        {
            tracing::error!(%error, "the renamed or removed pages of shares could not be stored; until then a restart shows the old ones");
        }
    }

    /// Stores the views, and removes expired shares.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn flush(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let expired: Vec<String> =
            state.by_id.values().filter(|share| !is_active(share, now)).map(|share| share.id.clone()).collect();
        let viewed = state.viewed.iter().filter_map(|id| state.by_id.get(id).cloned()).map(ShareWrite::Put);
        let writes: Vec<ShareWrite> = viewed.chain(expired.iter().cloned().map(ShareWrite::Remove)).collect();
        if writes.is_empty() {
            return Ok(());
        }
        self.file.write(&writes)?;
        state.viewed.clear();
        expired.iter().for_each(|id| drop(state.by_id.remove(id)));
        Ok(())
    }
}

fn is_active(share: &Share, now: Timestamp) -> bool {
    share.expires_at.is_none_or(|expires_at| expires_at > now)
}

fn not_stored(error: StoreError) -> Fault {
    Fault::unavailable(format!("the share could not be stored: {error}"))
}
