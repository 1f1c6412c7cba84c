//! A space, with what this protocol keeps of it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use svcfs_base::{Caller, Door, Fault, Kind, TreePath};
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{FileNumbers, NodeId, Vfs};

use crate::listing::Listings;
use crate::owed;
use crate::writers::Writers;

/// So many files are remembered that somebody looked at: what was told of their times stays true for them.
const MOST_FOUND: usize = 1024;

/// So many numbers are looked through at once.
const SOME: usize = 500;

/// A space that clients see.
pub(crate) struct Export {
    pub(crate) space: Arc<Space>,
    pub(crate) numbers: FileNumbers,
    pub(crate) writers: Writers,
    pub(crate) listings: Listings,
    /// Held while a name changes in the tree and its number with it; shared by whoever needs both to say the same.
    ///
    /// Never taken twice, nor by whoever holds a file that is being written: whoever renames waits for that file.
    pub(crate) names: RwLock<()>,
    found: Mutex<VecDeque<NodeId>>,
    /// Numbers whose names were gone when they were looked at last.
    gone: Mutex<HashSet<u64>>,
}

impl Export {
    /// Opens what is kept of a space, and does first what was promised by a server that died.
    fn open(space: Arc<Space>) -> Result<Arc<Self>, Fault> {
        let numbers = space.vfs.file_numbers()?;
        owed::settle(&space.vfs, &numbers)?;
        let (writers, listings, names, found, gone) = Default::default();
        let export = Arc::new(Self { space, numbers, writers, listings, names, found, gone });
        let weak = Arc::downgrade(&export);
        export.vfs().before_history(move || {
            if let Some(export) = weak.upgrade() {
                export.settle_all();
            }
        });
        Ok(export)
    }

    pub(crate) fn vfs(&self) -> &Vfs {
        &self.space.vfs
    }

    /// Waits until a name that was changed cannot be lost any more: clients do not ask for that (RFC 1813, 1.6 and 4.8).
    pub(crate) fn names_are_safe(&self) -> Result<(), Fault> {
        self.vfs().settled().map(drop)
    }

    /// The numbers of names in a directory.
    pub(crate) fn numbers(&self, directory: u64, names: &[&str]) -> Result<Vec<u64>, Fault> {
        Ok(self.numbers.numbers(directory, names)?)
    }

    /// Lets go of the numbers of files that other doors removed: those whose names were gone when they were looked at last, and are gone now.
    ///
    /// Twice, because a rename is two steps here: the tree's, and that of the numbers.
    ///
    /// # Errors
    /// Those of the numbers.
    pub(crate) fn tidy(&self) -> Result<(), Fault> {
        let caller = Caller::new(Door::Nfs);
        let is_gone = |path: &TreePath| match self.vfs().find(&caller, path) {
            Ok((node, _)) => {
                self.vfs().forget(node, 1);
                false
            }
            Err(fault) => matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory),
        };
        let (mut after, mut now) = (0, HashSet::new());
        loop {
            let some = self.numbers.given(after, SOME)?;
            let Some(last) = some.last() else { break };
            after = *last;
            let mut gone = Vec::new();
            for number in some {
                let path = self.numbers.path(number)?;
                if self.writers.node(number).is_none() && path.is_none_or(|path| is_gone(&path)) {
                    gone.push(number);
                }
            }
            let (twice, once): (Vec<_>, Vec<_>) =
                gone.into_iter().partition(|number| self.gone.lock().contains(number));
            now.extend(once);
            if !twice.is_empty() {
                self.numbers.forget(&twice, is_gone)?;
            }
        }
        *self.gone.lock() = now;
        Ok(())
    }

    /// Keeps a finding of a node, and gives back the oldest one.
    pub(crate) fn found(&self, node: NodeId) {
        let mut found = self.found.lock();
        found.push_back(node);
        let oldest = if found.len() > MOST_FOUND { found.pop_front() } else { None };
        drop(found);
        if let Some(oldest) = oldest {
            self.vfs().forget(oldest, 1);
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        for node in std::mem::take(&mut *self.found.lock()) {
            self.space.vfs.forget(node, 1);
        }
    }
}

impl crate::Door {
    /// The spaces that are served, the first one first.
    pub(crate) fn exports(&self) -> Result<Vec<Arc<Export>>, Fault> {
        let spaces = self.server.spaces().open();
        let mut exports = self.exports.lock();
        exports.retain(|export| spaces.iter().any(|space| Arc::ptr_eq(space, &export.space)));
        for space in &spaces {
            if !exports.iter().any(|export| Arc::ptr_eq(space, &export.space)) {
                exports.push(Export::open(Arc::clone(space))?);
            }
        }
        Ok(exports.clone())
    }
}
