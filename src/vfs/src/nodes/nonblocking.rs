//! What stands at a path, looked at without waiting: for doors that are async, and answer where they are asked.
//!
//! One rule: what is told here is what [`Vfs::find`] and [`Vfs::read_node`] would tell. Whatever is not plainly in the tree, or held by somebody,
//! is theirs.

use bytes::Bytes;
use svcfs_base::{Caller, TreePath};

use super::NodeId;
use crate::Vfs;
use crate::view::{EntryKind, PathAttributes};

/// What was found at once.
#[derive(Debug)]
pub struct CachedRead {
    /// What is known of it.
    pub attributes: PathAttributes,
    /// The bytes that were asked for; none where none were.
    pub data: Bytes,
    /// The node of which it was told when it, or its names, changed: that is told again for as long as somebody has found it.
    pub pinned_node: Option<NodeId>,
}

impl Vfs {
    /// What stands at a path, and of a file some of its bytes, by offset and length, if nothing must be waited for. Does not count as a finding.
    pub fn try_lookup_cached(
        &self,
        caller: &Caller,
        path: &TreePath,
        part: Option<(u64, usize)>,
    ) -> Option<CachedRead> {
        if !self.core.places.is_visible(caller.protocol, path) {
            return None;
        }
        let node = self.nodes.at(path);
        let shared = match node {
            Some(node) => Some(self.nodes.shared(node).ok()?),
            None => None,
        };
        // Held by whoever publishes, renames or removes it, until that is done.
        let mut shared = match &shared {
            Some(shared) => Some(shared.try_lock()?),
            None => None,
        };
        if shared.as_ref().is_some_and(|shared| !shared.is_plain()) || self.core.overlay.get(path).is_some() {
            return None;
        }
        let (stat, part) = match part {
            Some(part) => self.core.tree.try_read_range(path, part)?,
            None => (self.core.tree.try_stat_cached(path)?, Bytes::new()),
        };
        let (mut attributes, mut told) = (PathAttributes::from(stat), None);
        if attributes.kind == EntryKind::Directory {
            let names = shared.as_ref().and_then(|shared| shared.names_changed);
            self.count_pending(path, names, &mut attributes);
            told = names.and(node);
        }
        if let Some(shared) = &mut shared
            && let Some(of) = &mut shared.told
        {
            told = node;
            match of.of(&attributes, false) {
                Some(changed) => attributes.changed = changed,
                None => shared.told = None,
            }
        }
        drop(shared);
        // Another file may have come there between the looks.
        (self.nodes.at(path) == node).then_some(CachedRead { attributes, data: part, pinned_node: told })
    }
}
