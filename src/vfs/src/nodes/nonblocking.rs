//! Non-blocking lookups and reads, for protocols on the async runtime.
//!
//! Invariant: results are those of [`Vfs::lookup_path`] and [`Vfs::read_node`]. Anything pending,
//! dirty or locked returns `None`: the caller then uses those.

use bytes::Bytes;
use svcfs_base::{Caller, TreePath};

use super::NodeId;
use crate::Vfs;
use crate::view::{EntryKind, PathAttributes};

/// Result of a non-blocking lookup.
#[derive(Debug)]
pub struct CachedRead {
    /// Its attributes.
    pub attributes: PathAttributes,
    /// The requested bytes; empty when none were requested.
    pub data: Bytes,
    /// A node whose reported times are pinned: they stay the same while the node has lookups.
    pub pinned_node: Option<NodeId>,
}

impl Vfs {
    /// Attributes of a path and a range (offset, length), without blocking or lookup.
    pub fn try_lookup_cached(
        &self,
        caller: &Caller,
        path: &TreePath,
        range: Option<(u64, usize)>,
    ) -> Option<CachedRead> {
        if !self.core.is_surely_visible(caller.protocol, path) {
            return None;
        }
        let node = self.nodes.at(path);
        let shared = match node {
            Some(node) => Some(self.nodes.shared(node).ok()?),
            None => None,
        };
        // Locked while it is published, renamed or removed.
        let mut shared = match &shared {
            Some(shared) => Some(shared.try_lock()?),
            None => None,
        };
        if shared.as_ref().is_some_and(|shared| !shared.is_plain()) || self.core.overlay.get(path).is_some() {
            return None;
        }
        let (stat, range) = match range {
            Some(range) => self.core.tree.try_read_range(path, range)?,
            None => (self.core.tree.try_stat_cached(path)?, Bytes::new()),
        };
        let (mut attributes, mut pinned_node) = (PathAttributes::from(stat), None);
        if attributes.kind == EntryKind::Directory {
            let names = shared.as_ref().and_then(|shared| shared.names_changed);
            self.merge_pending_times(path, names, &mut attributes);
            pinned_node = names.and(node);
        }
        if let Some(shared) = &mut shared
            && let Some(times) = &mut shared.reported_times
        {
            pinned_node = node;
            match times.reported_ctime(&attributes, false) {
                Some(changed) => attributes.changed = changed,
                None => shared.reported_times = None,
            }
        }
        drop(shared);
        // Another file may have taken the name meanwhile.
        (self.nodes.at(path) == node).then_some(CachedRead { attributes, data: range, pinned_node })
    }
}
