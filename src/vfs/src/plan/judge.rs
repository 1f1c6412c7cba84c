//! What a file that is put meets: what stands there, the condition, the gates.
//!
//! Each of many files is judged by itself, so that they are divided among the processors: a page that ten thousand link to is renamed
//! in half the time. What another change of the set has a part in waits for its turn.

use std::collections::HashMap;

use bytes::Bytes;
use svcfs_base::{Change, Expect, Fault, FileKind, MAX_FILE_BYTES, TreePath};

use super::{Plan, check, leaf_of};
use crate::overlay::Leaf;

/// Changes judged before the first of them is added: what stood there is kept so long.
const SLICE: usize = 512;
/// Fewer are judged in their turn.
const FEW: usize = 32;

/// A file that passed.
pub(super) struct Judged {
    /// Whether what stood there may be a change that is only accepted.
    pub(super) is_pending: bool,
    /// What stood there; true when it was read from the tree.
    pub(super) before: Option<(Leaf, bool)>,
    /// What the gates made of it.
    pub(super) leaf: Leaf,
}

impl Plan<'_> {
    /// Adds the changes of a set, in order.
    pub(crate) fn add_all(&mut self, changes: Vec<Change>) -> Result<(), Fault> {
        let mut changes = changes.into_iter();
        loop {
            let slice: Vec<Change> = changes.by_ref().take(SLICE).collect();
            if slice.is_empty() {
                return Ok(());
            }
            let judged = self.judged_ahead(&slice);
            for (change, judged) in slice.into_iter().zip(judged) {
                self.add(change, judged)?;
            }
        }
    }

    fn judged_ahead(&self, slice: &[Change]) -> Vec<Option<Result<Judged, Fault>>> {
        if slice.len() < FEW {
            return slice.iter().map(|_| None).collect();
        }
        let changes: Vec<(&Change, bool)> = slice.iter().zip(are_alone(slice)).collect();
        svcfs_work::each(&changes, |(change, is_alone)| match change {
            Change::Put { path, content, expect, kind, .. } if *is_alone => {
                Some(self.judge(path, content, expect, *kind))
            }
            Change::Put { .. }
            | Change::Remove { .. }
            | Change::Move { .. }
            | Change::MakeDir { .. }
            | Change::RemoveDir { .. } => None,
        })
    }

    /// Judges a file by what stands at its path now, changes of this set that were added counted.
    pub(super) fn judge(
        &self,
        path: &TreePath,
        content: &Bytes,
        expect: &Expect,
        kind: Option<FileKind>,
    ) -> Result<Judged, Fault> {
        let is_pending = self.is_pending(path);
        let before = leaf_of(path, self.present(path)?)?;
        check(path, before.as_ref().map(|(leaf, _)| leaf.etag), expect)?;
        let kept = before.as_ref().map(|(leaf, _)| leaf.kind).filter(|kind| *kind != FileKind::Symlink);
        let kind = kind.or(kept).unwrap_or(FileKind::Regular);
        if content.len() > MAX_FILE_BYTES {
            return Err(Fault::too_large("file", MAX_FILE_BYTES));
        }
        let content = self.gated(path, content.clone(), kind, before.as_ref())?;
        Ok(Judged { is_pending, before, leaf: Leaf::new(content, kind) })
    }
}

/// For each change, whether no other one of the slice has a part in its path.
fn are_alone(slice: &[Change]) -> Vec<bool> {
    let mut puts: HashMap<&TreePath, usize> = HashMap::new();
    let mut others = Vec::new();
    for change in slice {
        match change {
            Change::Put { path, .. } => *puts.entry(path).or_default() += 1,
            Change::Move { from, to, .. } => others.extend([from, to]),
            Change::Remove { path, .. } | Change::MakeDir { path } | Change::RemoveDir { path } => others.push(path),
        }
    }
    let is_alone = |path: &TreePath| {
        puts.get(path) == Some(&1) && !others.iter().any(|other| path == *other || path.is_under(other))
    };
    slice.iter().map(|change| is_alone(change.path())).collect()
}
