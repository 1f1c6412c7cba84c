use std::collections::HashMap;

use fuser::FileHandle;
use parking_lot::Mutex;
use svcfs_base::Actor;
use svcfs_vfs::NodeId;

/// A handle open for writing.
#[derive(Clone)]
pub(crate) struct WriteHandle {
    pub(crate) node: NodeId,
    /// Author of what is written: the opener, until a thread writes. RELEASE names no process, the
    /// end of the session is no request at all, and an exiting process has no environment any more.
    pub(crate) author: Actor,
    /// The thread that wrote last.
    pub(crate) thread: Option<u32>,
}

impl WriteHandle {
    pub(crate) const fn new(node: NodeId, author: Actor) -> Self {
        Self { node, author, thread: None }
    }
}

/// The handles open for writing.
#[derive(Default)]
pub(crate) struct WriteHandles(Mutex<HashMap<u64, WriteHandle>>);

impl WriteHandles {
    pub(crate) fn add(&self, handle: FileHandle, writer: WriteHandle) {
        self.0.lock().insert(handle.0, writer);
    }
    /// Removes a handle; none when it was not open for writing.
    pub(crate) fn remove(&self, handle: FileHandle) -> Option<WriteHandle> {
        self.0.lock().remove(&handle.0)
    }
    /// Records the thread that wrote last through a handle; `author` is called when it is another
    /// thread.
    ///
    /// Thread 0 is the kernel writing back a shared mapping: the author stays that of the handle.
    pub(crate) fn record_write(&self, handle: FileHandle, thread: u32, author: impl FnOnce() -> Actor) {
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
    /// Whether the process that closes the handle has written to it. A forked child closes a copy
    /// of the descriptor in the middle of its parent's save.
    pub(crate) fn is_writer_close(&self, handle: FileHandle, thread: u32) -> bool {
        let last_writer = self.0.lock().get(&handle.0).and_then(|writer| writer.thread);
        last_writer.is_none_or(|writer| writer == thread || is_same_process(writer, thread))
    }
    /// The author of a handle; none when it was not open for writing.
    pub(crate) fn author(&self, handle: FileHandle) -> Option<Actor> {
        self.0.lock().get(&handle.0).map(|writer| writer.author.clone())
    }
    pub(crate) fn all(&self) -> Vec<WriteHandle> {
        self.0.lock().values().cloned().collect()
    }
}

/// Whether two threads belong to one process; also true when that is unknown.
fn is_same_process(a: u32, b: u32) -> bool {
    match (process_of(a), process_of(b)) {
        (Some(a), Some(b)) => a == b,
        (Some(_) | None, _) => true,
    }
}

/// The process of a thread (proc_pid_status(5)).
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}
