//! Structural checks: parents, children, and what may accompany a directory rename.

use std::ops::Bound;

use svcfs_base::{Change, Fault, Kind, TreePath};
use svcfs_store::StatKind;

use super::ChangePlan;
use crate::overlay::PendingState;

impl ChangePlan<'_> {
    /// With a directory rename, a set may only write files: moved by it, or unrelated.
    pub(super) fn check_allowed_with_rename(&self, change: &Change) -> Result<(), Fault> {
        let Some((from, to)) = self.moves.first() else { return Ok(()) };
        let path = change.path();
        let is_allowed = match change {
            Change::Put { .. } if path.is_under(to) => self.effect_index.contains_key(path),
            Change::Put { .. } => !path.is_under(from) && !to.is_under(path),
            Change::Remove { .. } | Change::Move { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => false,
        };
        if is_allowed {
            return Ok(());
        }
        let message = format!("`{path}`: a change set that renames a directory may only write existing files");
        Err(Fault::new(Kind::Invalid, message))
    }

    /// Refuses a path below a file, also below a pending one.
    pub(super) fn check_parents(&self, path: &TreePath) -> Result<(), Fault> {
        for above in path.ancestors().filter(|above| !above.is_root()) {
            if let Some(Some(_)) = self.planned.get(&above) {
                return Err(Fault::not_directory(&above));
            }
            match self.core.overlay.get(&above) {
                Some(PendingState { leaf: Some(_), .. }) => return Err(Fault::not_directory(&above)),
                // A file whose removal is pending.
                Some(PendingState { leaf: None, .. }) => continue,
                None => {}
            }
            match self.core.tree.stat(&above) {
                Ok(stat) if stat.kind == StatKind::Directory => return Ok(()),
                Ok(_) => return Err(Fault::not_directory(&above)),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Refuses a file where an earlier change of this set wrote below the path.
    pub(super) fn check_children(&self, path: &TreePath) -> Result<(), Fault> {
        let mut after = self
            .planned
            .range((Bound::Excluded(path), Bound::Unbounded))
            .take_while(|(path_below, _)| path_below.as_str().starts_with(path.as_str()));
        if after.any(|(path_below, leaf)| leaf.is_some() && path_below.is_under(path)) {
            return Err(Fault::is_directory(path));
        }
        Ok(())
    }
}
