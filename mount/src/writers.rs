//! Handles open for writing, and who opened them.

use std::collections::HashMap;

use fuser::FileHandle;
use parking_lot::Mutex;
use svcfs_vfs::NodeId;

/// A handle open for writing.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    /// What it writes.
    pub(crate) node: NodeId,
    /// Who opened it: the kernel's RELEASE names nobody, and at the end of the session there is no request at all.
    pub(crate) uid: u32,
}

/// The handles open for writing.
#[derive(Default)]
pub(crate) struct Writers(Mutex<HashMap<u64, Writer>>);

impl Writers {
    /// Remembers a handle.
    pub(crate) fn add(&self, handle: FileHandle, writer: Writer) {
        self.0.lock().insert(handle.0, writer);
    }
    /// Forgets a handle; none when it was not open for writing.
    pub(crate) fn remove(&self, handle: FileHandle) -> Option<Writer> {
        self.0.lock().remove(&handle.0)
    }
    /// Those still open.
    pub(crate) fn all(&self) -> Vec<Writer> {
        self.0.lock().values().copied().collect()
    }
}
