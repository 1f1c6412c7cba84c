//! Handles open for writing, and who opened them.

use std::collections::HashMap;

use fuser::FileHandle;
use parking_lot::Mutex;
use svcfs_base::Actor;
use svcfs_vfs::NodeId;

/// A handle open for writing.
#[derive(Clone)]
pub(crate) struct WriteHandle {
    /// What it writes.
    pub(crate) node: NodeId,
    /// Who gets what is written: whoever opened it, until somebody writes. The kernel's RELEASE names nobody, at the
    /// end of the session there is no request at all, and a process that closes its files by ending has no environment any more.
    pub(crate) author: Actor,
    /// The thread that wrote last, once something was written.
    pub(crate) thread: Option<u32>,
}

impl WriteHandle {
    /// A handle that somebody opened and nobody wrote to.
    pub(crate) const fn new(node: NodeId, author: Actor) -> Self {
        Self { node, author, thread: None }
    }
}

/// The handles open for writing.
#[derive(Default)]
pub(crate) struct WriteHandles(Mutex<HashMap<u64, WriteHandle>>);

impl WriteHandles {
    /// Remembers a handle.
    pub(crate) fn add(&self, handle: FileHandle, writer: WriteHandle) {
        self.0.lock().insert(handle.0, writer);
    }
    /// Forgets a handle; none when it was not open for writing.
    pub(crate) fn remove(&self, handle: FileHandle) -> Option<WriteHandle> {
        self.0.lock().remove(&handle.0)
    }
    /// Notes which thread wrote last through a handle; `author` says whose it is, and is asked when the thread is another one.
    ///
    /// Thread 0 is the kernel, which writes back what somebody changed in memory: that is whose the handle is.
    pub(crate) fn wrote(&self, handle: FileHandle, thread: u32, author: impl FnOnce() -> Actor) {
        let is_new = |writer: &WriteHandle| thread != 0 && writer.thread != Some(thread);
        if !self.0.lock().get(&handle.0).is_some_and(is_new) {
            return;
        }
        let author = author();
        if let Some(writer) = self.0.lock().get_mut(&handle.0) {
            writer.author = author;
            writer.thread = Some(thread);
        }
    }
    /// Whether the process of a thread closes its own writing, and not a copy of the descriptor that it got by being forked in
    /// the middle of somebody else's save.
    pub(crate) fn is_own_close(&self, handle: FileHandle, thread: u32) -> bool {
        let wrote = self.0.lock().get(&handle.0).and_then(|writer| writer.thread);
        wrote.is_none_or(|wrote| wrote == thread || is_one_process(wrote, thread))
    }
    /// Who gets what was written through a handle; none when it was not open for writing.
    pub(crate) fn author(&self, handle: FileHandle) -> Option<Actor> {
        self.0.lock().get(&handle.0).map(|writer| writer.author.clone())
    }
    /// Those still open.
    pub(crate) fn all(&self) -> Vec<WriteHandle> {
        self.0.lock().values().cloned().collect()
    }
}

/// Whether two threads belong to one process; also when that cannot be told any more.
fn is_one_process(one: u32, other: u32) -> bool {
    match (process_of(one), process_of(other)) {
        (Some(one), Some(other)) => one == other,
        (Some(_) | None, _) => true,
    }
}

/// The process of a thread (proc_pid_status(5)).
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}
