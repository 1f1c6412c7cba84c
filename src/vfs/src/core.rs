//! What the faces of a [`crate::Vfs`] and its committer share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use svcfs_base::{Actor, Clock, DiskAttributes, Door, Fault, FileKind, TreePath};
use svcfs_store::{History, Log, StatKind, StoreError, WorkTree};

use crate::feed::Feed;
use crate::locks::Locks;
use crate::overlay::{Leaf, Overlay};
use crate::place::Places;
use crate::queue::{Before, Queue};

/// How long a page renamed to a scratch name may be missing before its removal is recorded: an editor that keeps a backup
/// writes the page anew within this time, and one save is then one version.
pub(crate) const DEPARTURE: Duration = Duration::from_secs(2);

pub(crate) struct Core {
    pub(crate) root: PathBuf,
    pub(crate) places: Places,
    pub(crate) tree: WorkTree,
    pub(crate) log: Arc<Log>,
    pub(crate) history: History,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) locks: Locks,
    pub(crate) overlay: Overlay,
    pub(crate) queue: Queue,
    pub(crate) feed: Feed,
    /// Pages that were renamed to a scratch name, until their removal is recorded.
    pub(crate) departures: Mutex<BTreeMap<TreePath, Departure>>,
    /// Why the committer cannot go on, while it cannot.
    pub(crate) trouble: Mutex<Option<Fault>>,
    pub(crate) stamps: AtomicU64,
}

/// A page that went away under another, unversioned name.
pub(crate) struct Departure {
    pub(crate) before: Before,
    pub(crate) actor: Actor,
    pub(crate) door: Door,
    pub(crate) due: Instant,
}

/// What stands at a path now, counting changes that are accepted and not installed.
pub(crate) enum Present {
    Absent,
    Directory,
    /// A file or link; true when it was read from the tree.
    Leaf(Leaf, bool),
}

impl Core {
    pub(crate) fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::Relaxed)
    }

    /// What stands at a path now; links are not followed.
    pub(crate) fn present(&self, path: &TreePath) -> Result<Present, Fault> {
        match self.overlay.get(path) {
            Some(pending) => match pending.leaf {
                Some(leaf) => return Ok(Present::Leaf(leaf, false)),
                // A directory may have taken the place of a file whose removal is pending.
                None => {
                    return Ok(match self.tree.stat(path) {
                        Ok(stat) if stat.kind == StatKind::Directory => Present::Directory,
                        Ok(_) | Err(_) => Present::Absent,
                    });
                }
            },
            None if path.is_root() => return Ok(Present::Directory),
            None => {}
        }
        match self.tree.stat(path) {
            Ok(stat) if stat.kind == StatKind::Directory => Ok(Present::Directory),
            Ok(_) => match self.tree.read_leaf(path) {
                Ok((content, stat)) => {
                    let kind = stat.file_kind().unwrap_or(FileKind::Regular);
                    let disk = DiskAttributes {
                        mode: Some(stat.mode),
                        owner: Some((stat.uid, stat.gid)),
                        modified: Some(stat.modified),
                    };
                    Ok(Present::Leaf(Leaf { disk, ..Leaf::new(content, kind) }, true))
                }
                Err(error) if is_missing(&error) => Ok(Present::Absent),
                Err(error) => Err(error.into()),
            },
            Err(error) if is_missing(&error) => Ok(Present::Absent),
            Err(error) => Err(error.into()),
        }
    }

    /// The moment a change happens, for a file's modification time.
    pub(crate) fn file_time(&self) -> SystemTime {
        self.clock.now().into()
    }
}

/// Nothing is there, or cannot be: a part of the way is a file.
pub(crate) fn is_missing(error: &StoreError) -> bool {
    use std::io::ErrorKind as E;
    matches!(error, StoreError::Disk { source, .. } if matches!(source.kind(), E::NotFound | E::NotADirectory))
}
