//! What happened to the place of a page, for state beside the tree that belongs to it.

use svcfs_base::{Change, TreePath};

use crate::Vfs;
use crate::core::VfsCore;

/// A file or directory that was renamed or removed through svcfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relocation {
    /// It has another name now.
    Moved {
        /// The old name.
        from: TreePath,
        /// The new name.
        to: TreePath,
    },
    /// It is gone.
    Removed(TreePath),
}

/// Called after accepted change sets that rename or remove something; must not use the tree.
pub type OnRelocated = Box<dyn Fn(&[Relocation]) + Send + Sync>;

impl Vfs {
    /// Registers the one observer of renames and removals; later ones are ignored. Changes beside
    /// svcfs are not reported.
    pub fn on_relocated(&self, observer: OnRelocated) {
        let _only_the_first = self.core.on_relocated.set(observer);
    }
}

impl VfsCore {
    /// The renames and removals in a set. A page that is renamed to an unversioned name is about to
    /// be replaced by its editor, and stays where it is.
    pub(crate) fn relocations(&self, changes: &[Change]) -> Vec<Relocation> {
        if self.on_relocated.get().is_none() {
            return Vec::new();
        }
        let relocation = |change: &Change| match change {
            Change::Remove { path, .. } => Some(Relocation::Removed(path.clone())),
            Change::Move { from, to, .. } if self.is_versioned(to) => {
                Some(Relocation::Moved { from: from.clone(), to: to.clone() })
            }
            Change::Move { .. } | Change::Put { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => None,
        };
        changes.iter().filter_map(relocation).collect()
    }

    pub(crate) fn report_relocations(&self, relocations: &[Relocation]) {
        if let Some(observer) = self.on_relocated.get().filter(|_| !relocations.is_empty()) {
            observer(relocations);
        }
    }
}
