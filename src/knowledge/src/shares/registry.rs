//! The shares of a space in memory, and their durable copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use svcfs_base::{Fault, Kind, Seq, Timestamp, TreePath};
use svcfs_store::{Share, ShareFile, ShareWrite, StatePaths, StoreError};
use svcfs_vfs::Vfs;

use super::follower::{self, BackupRename};

/// Limit of shares in a space.
const MAX_SHARES: usize = 10_000;
/// After so many events, the position in the feed is stored although no share has changed.
const MAX_UNSTORED_EVENTS: u64 = 10_000;

/// Shares by id. Every change but a view is durable before it is answered; how shares follow their
/// pages is worked out from the feed, again after a crash.
pub struct ShareRegistry {
    file: ShareFile,
    vfs: Arc<Vfs>,
    state: Mutex<ShareState>,
}

#[derive(Default)]
pub(super) struct ShareState {
    pub by_id: BTreeMap<String, Share>,
    /// Shares that changed and are not stored yet.
    pub changed: BTreeSet<String>,
    /// Shares that ended and are still stored.
    pub ended: BTreeSet<String>,
    /// Pages that were renamed to a backup a short time ago.
    pub backups: Vec<BackupRename>,
    /// SHA-256 of the passwords that were right, by share.
    right_passwords: BTreeMap<String, [u8; 32]>,
    /// The position in the feed.
    followed: Seq,
    stored_position: Seq,
}

impl ShareRegistry {
    /// Opens the shares of a root.
    ///
    /// # Errors
    /// Those of [`ShareFile::open`].
    pub fn open(paths: &StatePaths, vfs: Arc<Vfs>) -> Result<Self, StoreError> {
        let (file, stored) = ShareFile::open(&paths.shares())?;
        let by_id = stored.shares.into_iter().map(|share| (share.id.clone(), share)).collect();
        let (followed, stored_position) = (stored.followed, stored.followed);
        let state = ShareState { by_id, followed, stored_position, ..ShareState::default() };
        Ok(Self { file, vfs, state: Mutex::new(state) })
    }

    /// The hash of a token.
    pub(super) fn token_hash(token: &str) -> [u8; 32] {
        Sha256::digest(token.as_bytes()).into()
    }

    /// The active share of a token. All are compared, each in constant time.
    pub(super) fn find(&self, token: &str, now: Timestamp) -> Option<Share> {
        let hash = Self::token_hash(token);
        let state = self.current();
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
        let state = self.current();
        let of_page = state.by_id.values().filter(|share| share.path == *path && is_active(share, now));
        let mut shares: Vec<Share> = of_page.cloned().collect();
        shares.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        shares
    }

    pub(super) fn get(&self, id: &str, now: Timestamp) -> Option<Share> {
        self.current().by_id.get(id).filter(|share| is_active(share, now)).cloned()
    }

    /// Adds a share of a page that the caller has read.
    ///
    /// # Errors
    /// `Conflict` when there are too many; those of the disk.
    pub(super) fn add(&self, share: Share) -> Result<(), Fault> {
        let mut state = self.current();
        if state.by_id.len() >= MAX_SHARES {
            let message = format!("this space has {MAX_SHARES} shares; revoke some of them first");
            return Err(Fault::new(Kind::Conflict, message));
        }
        let position = state.followed;
        self.file.write(&[ShareWrite::Put(share.clone()), ShareWrite::Followed(position)]).map_err(not_stored)?;
        state.stored_position = position;
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
        state.changed.remove(id);
        Ok(())
    }

    pub(super) fn count_view(&self, id: &str) {
        let mut state = self.state.lock();
        if let Some(share) = state.by_id.get_mut(id) {
            share.views = share.views.saturating_add(1);
            state.changed.insert(id.to_owned());
        }
    }

    /// Whether this password was verified for the share before, which takes no time.
    pub(super) fn was_right(&self, id: &str, password: &str) -> bool {
        let hash = Self::token_hash(password);
        self.state.lock().right_passwords.get(id).is_some_and(|right| bool::from(right.ct_eq(&hash)))
    }

    pub(super) fn add_right_password(&self, id: &str, password: &str) {
        self.state.lock().right_passwords.insert(id.to_owned(), Self::token_hash(password));
    }

    /// The shares, which follow every change of their pages that was answered.
    fn current(&self) -> MutexGuard<'_, ShareState> {
        let mut state = self.state.lock();
        if let Err(fault) = self.follow(&mut state) {
            tracing::error!(error = ?fault, "the renames and removals of shared pages cannot be read; links to these pages show nothing, or what has their old name now");
        }
        state
    }

    fn follow(&self, state: &mut ShareState) -> Result<(), Fault> {
        let feed = self.vfs.feed();
        if state.by_id.is_empty() {
            state.followed = feed.last_seq();
            return Ok(());
        }
        let mut position = state.followed;
        let outcome = feed.follow(&mut position, |event| follower::apply(state, &self.vfs, event));
        state.followed = position;
        outcome
    }

    /// Stores the views and what changed with the pages, and removes expired shares.
    ///
    /// # Errors
    /// Those of the disk; the changes are stored by the next call then.
    pub fn flush(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut state = self.current();
        if state.backups.iter().any(|backup| backup.is_pending(now)) {
            // After a crash, the rename to the backup must be read together with what follows it.
            return Ok(());
        }
        let expired: Vec<String> =
            state.by_id.values().filter(|share| !is_active(share, now)).map(|share| share.id.clone()).collect();
        state.ended.extend(expired.iter().cloned());
        let changed = state.changed.iter().filter_map(|id| state.by_id.get(id).cloned()).map(ShareWrite::Put);
        let mut writes: Vec<ShareWrite> = changed.chain(state.ended.iter().cloned().map(ShareWrite::Remove)).collect();
        let unstored_events = state.followed.0.saturating_sub(state.stored_position.0);
        if writes.is_empty() && (state.by_id.is_empty() || unstored_events < MAX_UNSTORED_EVENTS) {
            return Ok(());
        }
        writes.push(ShareWrite::Followed(state.followed));
        self.file.write(&writes)?;
        state.stored_position = state.followed;
        state.changed.clear();
        for id in std::mem::take(&mut state.ended) {
            state.by_id.remove(&id);
            state.right_passwords.remove(&id);
        }
        Ok(())
    }
}

fn is_active(share: &Share, now: Timestamp) -> bool {
    share.expires_at.is_none_or(|expires_at| expires_at > now)
}

fn not_stored(error: StoreError) -> Fault {
    Fault::unavailable(format!("the share could not be stored: {error}"))
}
