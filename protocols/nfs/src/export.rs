//! A space, with what this protocol keeps of it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_base::Fault;
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{FileNumbers, NodeId, Vfs};

use crate::Door;
use crate::listing::Listings;
use crate::owed;
use crate::writers::Writers;

/// So many files are remembered that somebody looked at: what was told of their times stays true for them.
const MOST_FOUND: usize = 1024;

/// A space that clients see.
pub(crate) struct Export {
    pub(crate) space: Arc<Space>,
    pub(crate) numbers: FileNumbers,
    pub(crate) writers: Writers,
    pub(crate) listings: Listings,
    found: Mutex<VecDeque<NodeId>>,
}

impl Export {
    /// Opens what is kept of a space, and does first what was promised by a server that died.
    fn open(space: Arc<Space>) -> Result<Arc<Self>, Fault> {
        let numbers = space.vfs.file_numbers()?;
        owed::settle(&space.vfs, &numbers)?;
        let (writers, listings, found) = Default::default();
        let export = Arc::new(Self { space, numbers, writers, listings, found });
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

    /// The numbers of names in a directory.
    pub(crate) fn numbers(&self, directory: u64, names: &[&str]) -> Result<Vec<u64>, Fault> {
        Ok(self.numbers.numbers(directory, names)?)
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

impl Door {
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
