//! FUSE passthrough (Linux 6.9): the kernel reads these files directly from the root's disk,
//! without requests to svcfs.
//!
//! Invariant: only files that are not edited in place. An open passthrough handle keeps its backing
//! file when the file is replaced, as on any disk; for a database that would be wrong. Eligible are
//! large files of types that programs replace on save and that have no other open handle, and files
//! too large for versions, which are changed on disk.
//!
//! The kernel uses one backing file for all handles of an inode, also for mappings. A mapping would
//! bypass a newer file, gates, authors and the log. So while an inode has passthrough handles, an
//! open for writing, or after the file was replaced, gets `ESTALE`. The kernel then looks the name
//! up again, once, and gets another inode of the same node (another number: see [`node`]), on which
//! passthrough is suspended for [`RETRY_WINDOW`]. The previous inode belongs to its open handles
//! only.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fuser::{BackingId, Errno, FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, ReplyOpen};
use parking_lot::Mutex;
use svcfs_base::{MAX_FILE_BYTES, TreePath};
use svcfs_vfs::NodeId;

use crate::convert::{GENERATION_STRIDE, inode, node};

/// Maximum inodes of a node. After that it is not eligible for passthrough.
const MAX_GENERATIONS: u64 = 1 << 16;

/// Longer than the kernel takes from an `ESTALE` to the next open of the same program.
const RETRY_WINDOW: Duration = Duration::from_secs(1);

/// Smaller files, in bytes, are served faster by a page cache that survives from open to open.
const MIN_FILE_BYTES: u64 = 1 << 20;

/// Types that programs replace on save, besides images, audio, video and fonts.
const REPLACED_ON_SAVE: [&str; 8] = [
    "application/pdf",
    "application/zip",
    "application/epub+zip",
    "application/gzip",
    "application/x-bzip2",
    "application/x-7z-compressed",
    "application/x-tar",
    "application/x-xz",
];

/// Open files of a mount, with their backing files.
#[derive(Default)]
pub(crate) struct PassthroughFiles {
    /// Whether the kernel supports and permits passthrough.
    is_enabled: AtomicBool,
    open: Mutex<HashMap<u64, PassthroughNode>>,
    /// Nodes with another inode than their first.
    generations: Mutex<HashMap<u64, InodeGeneration>>,
    /// Whether `generations` was ever used: mostly it was not.
    has_generations: AtomicBool,
    /// Threads whose open was answered with `ESTALE`, and when: they look the name up again.
    retrying_threads: Mutex<HashMap<u32, Instant>>,
}

/// Number of a node's inode, from 0, and when a lookup was last directed to it.
#[derive(Clone, Copy)]
struct InodeGeneration {
    number: u64,
    last_retry: Instant,
}

#[derive(Default)]
struct PassthroughNode {
    handles: usize,
    backing: Option<BackingFile>,
}

struct BackingFile {
    id: BackingId,
    /// Identifies the backing file and its state.
    identity: Option<DiskIdentity>,
}

/// Device, inode, size and change time.
type DiskIdentity = (u64, u64, u64, i64, i64);

/// A handle for the reply to an open.
pub(crate) struct OpenReply {
    pub(crate) handle: FileHandle,
    /// Cache flags to use without passthrough.
    pub(crate) flags: FopenFlags,
    /// Whether the handle is read-only.
    pub(crate) is_reader: bool,
}

impl PassthroughFiles {
    pub(crate) fn enable(&self) {
        self.is_enabled.store(true, Ordering::Relaxed);
    }

    /// Flags for a file opened only to write: bypasses the page cache if readers use passthrough.
    /// They would not read those pages, and filling them takes as long as writing the file.
    pub(crate) fn write_open_flags(&self, flags: OpenFlags, name: &str) -> FopenFlags {
        let is_eligible = flags.acc_mode() == OpenAccMode::O_WRONLY && is_replaced_on_save(name);
        if is_eligible && self.is_enabled.load(Ordering::Relaxed) {
            FopenFlags::FOPEN_DIRECT_IO
        } else {
            FopenFlags::empty()
        }
    }

    /// The inode that names of a node resolve to now.
    pub(crate) fn current_inode(&self, target: NodeId) -> INodeNo {
        let number = self.generation(target).map_or(0, |generation| generation.number);
        INodeNo(inode(target).0 + number * GENERATION_STRIDE)
    }

    fn generation(&self, target: NodeId) -> Option<InodeGeneration> {
        if self.has_generations() { self.generations.lock().get(&target.0).copied() } else { None }
    }

    /// The inode for a lookup by a thread. A thread that just got `ESTALE` gets an inode without
    /// passthrough, so that it does not get `ESTALE` again.
    pub(crate) fn inode_for_lookup(&self, target: NodeId, thread: u32) -> INodeNo {
        if self.retrying_threads.lock().get(&thread).is_none_or(|at| at.elapsed() >= RETRY_WINDOW) {
            return self.current_inode(target);
        }
        self.advance_generation(target, &self.open.lock());
        self.current_inode(target)
    }

    /// Gives a node an inode without passthrough, and suspends passthrough on it for a moment.
    fn advance_generation(&self, target: NodeId, nodes: &HashMap<u64, PassthroughNode>) {
        let has_backing = nodes.get(&self.current_inode(target).0).is_some_and(|open| open.backing.is_some());
        let number = self.generation(target).map_or(0, |generation| generation.number) + u64::from(has_backing);
        self.generations.lock().insert(target.0, InodeGeneration { number, last_retry: Instant::now() });
        self.has_generations.store(true, Ordering::Release);
    }

    /// Remembers that a thread's open gets `ESTALE`, upon which the kernel looks the name up once
    /// more. Threads of another PID namespace all have number 0 and cannot be recognized.
    pub(crate) fn retry_lookup(&self, thread: u32) -> Errno {
        let mut retrying_threads = self.retrying_threads.lock();
        retrying_threads.retain(|_, at| at.elapsed() < RETRY_WINDOW);
        if thread != 0 {
            retrying_threads.insert(thread, Instant::now());
        }
        Errno::ESTALE
    }

    /// Forgets a node that the kernel does not reference any more.
    pub(crate) fn forget(&self, target: NodeId) {
        self.generations.lock().remove(&target.0);
    }

    /// Whether some node may have another inode than its first.
    pub(crate) fn has_generations(&self) -> bool {
        self.has_generations.load(Ordering::Acquire)
    }

    /// Admits an open by a thread; `file` as for [`Self::reply_open`], which must follow, or
    /// [`Self::close`].
    ///
    /// # Errors
    /// `ESTALE` when another inode must be opened, which the kernel then looks up.
    pub(crate) fn admit_open(
        &self,
        inode: INodeNo,
        (thread, is_reader): (u32, bool),
        file: impl FnOnce() -> Option<File>,
    ) -> Result<(), Errno> {
        if !self.is_enabled.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut nodes = self.open.lock();
        let is_admitted = match nodes.get(&inode.0) {
            _ if self.current_inode(node(inode)) != inode => false,
            Some(PassthroughNode { backing: Some(backing), .. }) => {
                let current = if is_reader { file().and_then(|file| identity(&file)) } else { None };
                current.is_some() && current == backing.identity
            }
            Some(_) | None => true,
        };
        if !is_admitted {
            if thread == 0 {
                // Its next lookup cannot be recognized.
                self.advance_generation(node(inode), &nodes);
            }
            return Err(self.retry_lookup(thread));
        }
        nodes.entry(inode.0).or_default().handles += 1;
        Ok(())
    }

    /// Replies to an open. `file` is the file on disk with exactly the content to read; none when
    /// there is no such file now, or it is not eligible.
    pub(crate) fn reply_open(
        &self,
        reply: ReplyOpen,
        inode: INodeNo,
        opened: OpenReply,
        file: impl FnOnce() -> Option<File>,
    ) {
        let OpenReply { handle, flags, is_reader } = opened;
        let mut nodes = self.open.lock();
        let Some(open) = nodes.get_mut(&inode.0) else { return reply.opened(handle, flags) };
        // Concurrent opens are counted already.
        let is_first = is_reader && open.handles == 1 && open.backing.is_none();
        if is_first
            && self.generation(node(inode)).is_none_or(|generation| generation.last_retry.elapsed() >= RETRY_WINDOW)
            && inode.0 / GENERATION_STRIDE < MAX_GENERATIONS
            && self.is_enabled.load(Ordering::Relaxed)
            && let Some(file) = file()
        {
            match reply.open_backing(&file) {
                Ok(id) => open.backing = Some(BackingFile { id, identity: identity(&file) }),
                Err(error) => {
                    // Not root, or a stacked filesystem.
                    tracing::debug!(%error, "passthrough is off: the kernel refused a backing file");
                    self.is_enabled.store(false, Ordering::Relaxed);
                }
            }
        }
        match &open.backing {
            Some(backing) => reply.opened_passthrough(handle, flags & FopenFlags::FOPEN_NOFLUSH, &backing.id),
            None => reply.opened(handle, flags),
        }
    }

    /// Counts a handle that is not opened by [`Self::reply_open`].
    pub(crate) fn register_open(&self, inode: INodeNo) {
        if self.is_enabled.load(Ordering::Relaxed) {
            self.open.lock().entry(inode.0).or_default().handles += 1;
        }
    }

    pub(crate) fn close(&self, inode: INodeNo) {
        let mut nodes = self.open.lock();
        if let Some(open) = nodes.get_mut(&inode.0) {
            open.handles = open.handles.saturating_sub(1);
            if open.handles == 0 {
                nodes.remove(&inode.0);
            }
        }
    }
}

fn identity(file: &File) -> Option<DiskIdentity> {
    let stat = file.metadata().ok()?;
    Some((stat.dev(), stat.ino(), stat.size(), stat.mtime(), stat.mtime_nsec()))
}

/// Whether a file is large enough, and either replaced on save or too large for versions.
pub(crate) fn is_eligible(path: &TreePath, size: u64) -> bool {
    size > MAX_FILE_BYTES as u64 || (size >= MIN_FILE_BYTES && is_replaced_on_save(path.name()))
}

fn is_replaced_on_save(name: &str) -> bool {
    mime_guess::from_path(name).first_raw().is_some_and(|kind| {
        let (family, _) = kind.split_once('/').unwrap_or((kind, ""));
        matches!(family, "image" | "audio" | "video" | "font") || REPLACED_ON_SAVE.contains(&kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_another_namespace_are_not_taken_for_a_retry() {
        let files = PassthroughFiles::default();
        for (thread, is_noted) in [(0, false), (17, true)] {
            files.retry_lookup(thread);
            files.inode_for_lookup(NodeId(5), thread);
            assert_eq!(files.has_generations(), is_noted, "{thread}");
        }
    }

    #[test]
    fn only_large_files_written_entirely_use_passthrough() {
        let mebibyte = 1 << 20;
        for (name, size, expected) in [
            ("a/film.mp4", mebibyte, true),
            ("scan.PDF", 5 * mebibyte, true),
            ("photo.jpeg", mebibyte, true),
            ("backup.tar.gz", mebibyte, true),
            ("film.mp4", mebibyte - 1, false),
            ("page.md", 5 * mebibyte, false),
            ("notes.db", 60 * mebibyte, false),
            ("data.sqlite3", 60 * mebibyte, false),
            ("server.log", 60 * mebibyte, false),
            ("core", 60 * mebibyte, false),
            ("core", 65 * mebibyte, true),
        ] {
            assert_eq!(is_eligible(&TreePath::parse(name).unwrap(), size), expected, "{name}, {size}");
        }
    }
}
