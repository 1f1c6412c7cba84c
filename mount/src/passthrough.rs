//! Files that the kernel reads by itself, from the disk of the root (FUSE passthrough, Linux 6.9): no request comes here for their content.
//!
//! One rule: only what is not written in place. Such a handle goes on with the file it has opened when the file is replaced, which for
//! a picture is what any disk does, and for a database would be wrong. So it is large files of kinds that programs write as a whole, those
//! that nobody has open otherwise, and those too large to be recorded, which are changed where they are on the disk.
//!
//! The kernel wants one backing file for all handles of an inode, and maps that one for whoever maps the file, past all of ours: past the
//! newer file that took its place, and past gates, authors and the log. So while some handles of an inode are passed on, whoever opens the
//! file to write, or after it was replaced, is told that the inode is stale. The kernel looks the name up again, once, and finds another inode
//! of the same node (another number: see [`node`]) of which nothing is passed on, nor will be for a moment. The one before is its open
//! handles' alone.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fuser::{BackingId, Errno, FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, ReplyOpen};
use parking_lot::Mutex;
use svcfs_base::{MAX_FILE_BYTES, TreePath};
use svcfs_vfs::NodeId;

use crate::convert::{NEXT_INODE, inode, node};

/// So often a node gets another inode. After that nothing of it is passed on.
const MAX_INODES: u64 = 1 << 16;

/// Longer than it takes the kernel from an opening that was sent back to the next one of the same program.
const AGAIN: Duration = Duration::from_secs(1);

/// Smaller files are better kept in the system's cache from one opening to the next, in bytes.
const MIN_BYTES: u64 = 1 << 20;

/// Kinds beside pictures, sound, films and fonts that are written as a whole.
const WHOLE: [&str; 8] = [
    "application/pdf",
    "application/zip",
    "application/epub+zip",
    "application/gzip",
    "application/x-bzip2",
    "application/x-7z-compressed",
    "application/x-tar",
    "application/x-xz",
];

/// The open files of a mount, and those that are passed on.
#[derive(Default)]
pub(crate) struct PassthroughFiles {
    /// Whether this kernel can and lets us.
    is_on: AtomicBool,
    open: Mutex<HashMap<u64, PassthroughNode>>,
    /// Nodes that somebody who was sent back looked up: which inode they have.
    inodes: Mutex<HashMap<u64, InodeGeneration>>,
    /// Whether there is any such node: most often there is none.
    has_others: AtomicBool,
    /// Threads whose opening was answered with `ESTALE`, and when: they look once more.
    sent_back: Mutex<HashMap<u32, Instant>>,
}

/// Which inode of its node it is, counted from the first; and when somebody was last sent to it, who must not be sent back again.
#[derive(Clone, Copy)]
struct InodeGeneration {
    number: u64,
    sought: Instant,
}

#[derive(Default)]
struct PassthroughNode {
    handles: usize,
    backing: Option<BackingFile>,
}

struct BackingFile {
    id: BackingId,
    /// Which file of the disk it is, and as of when.
    identity: Option<DiskIdentity>,
}

/// Device, inode, size and time of the last change.
type DiskIdentity = (u64, u64, u64, i64, i64);

/// A handle about to be told to the kernel.
pub(crate) struct OpenReply {
    /// Its number.
    pub(crate) handle: FileHandle,
    /// How the kernel is to cache it, where nothing is passed on.
    pub(crate) flags: FopenFlags,
    /// Whether nothing can be written through it.
    pub(crate) is_reader: bool,
}

impl PassthroughFiles {
    /// The kernel can.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// How a file is opened to be written only: past the page cache, if it is one that is passed on to its readers. They would find nothing there,
    /// and to fill it takes as long as to write the file.
    pub(crate) fn to_write(&self, flags: OpenFlags, name: &str) -> FopenFlags {
        let is_fit = flags.acc_mode() == OpenAccMode::O_WRONLY && is_written_whole(name);
        if is_fit && self.is_on.load(Ordering::Relaxed) { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() }
    }

    /// The inode of a node that names lead to now.
    pub(crate) fn present(&self, of: NodeId) -> INodeNo {
        let number = self.turn(of).map_or(0, |turn| turn.number);
        INodeNo(inode(of).0 + number * NEXT_INODE)
    }

    fn turn(&self, of: NodeId) -> Option<InodeGeneration> {
        if self.has_others() { self.inodes.lock().get(&of.0).copied() } else { None }
    }

    /// The same for a thread that looks a name up. One that was sent back a moment ago is not sent back again: it finds an inode of which nothing
    /// is passed on.
    pub(crate) fn looked_up(&self, of: NodeId, thread: u32) -> INodeNo {
        if self.sent_back.lock().get(&thread).is_none_or(|at| at.elapsed() >= AGAIN) {
            return self.present(of);
        }
        self.another(of, &self.open.lock());
        self.present(of)
    }

    /// Gives a node an inode of which nothing is passed on, nor will be for a moment.
    fn another(&self, of: NodeId, all: &HashMap<u64, PassthroughNode>) {
        let is_passed_on = all.get(&self.present(of).0).is_some_and(|open| open.backing.is_some());
        let number = self.turn(of).map_or(0, |turn| turn.number) + u64::from(is_passed_on);
        self.inodes.lock().insert(of.0, InodeGeneration { number, sought: Instant::now() });
        self.has_others.store(true, Ordering::Release);
    }

    /// A thread's opening is answered with this: the kernel looks the name up once more for it. Threads of another namespace all have the
    /// number 0, which says nothing of who looks up.
    pub(crate) fn send_back(&self, thread: u32) -> Errno {
        let mut sent_back = self.sent_back.lock();
        sent_back.retain(|_, at| at.elapsed() < AGAIN);
        if thread != 0 {
            sent_back.insert(thread, Instant::now());
        }
        Errno::ESTALE
    }

    /// The kernel does not know a node any more, nor does anybody.
    pub(crate) fn forgotten(&self, of: NodeId) {
        self.inodes.lock().remove(&of.0);
    }

    /// Whether some node may have another inode than its first.
    pub(crate) fn has_others(&self) -> bool {
        self.has_others.load(Ordering::Acquire)
    }

    /// A file is about to be opened by a thread, by somebody who only reads or not; `file` as for [`Passing::give`], which comes next, or
    /// [`Passing::closed`].
    ///
    /// # Errors
    /// `ESTALE` when it must be opened by another inode, which the kernel then looks up.
    pub(crate) fn enter(
        &self,
        inode: INodeNo,
        (thread, is_reader): (u32, bool),
        file: impl FnOnce() -> Option<File>,
    ) -> Result<(), Errno> {
        if !self.is_on.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut all = self.open.lock();
        let is_good = match all.get(&inode.0) {
            _ if self.present(node(inode)) != inode => false,
            Some(PassthroughNode { backing: Some(backing), .. }) => {
                let now = if is_reader { file().and_then(|file| identity(&file)) } else { None };
                now.is_some() && now == backing.identity
            }
            Some(_) | None => true,
        };
        if !is_good {
            if thread == 0 {
                // It cannot be known again when it looks the name up.
                self.another(node(inode), &all);
            }
            return Err(self.send_back(thread));
        }
        all.entry(inode.0).or_default().handles += 1;
        Ok(())
    }

    /// Answers that a file is open. `file` is the file of the disk that has exactly what is to be read; none when there is no such file now, or
    /// when it is not fit to be passed on.
    pub(crate) fn give(
        &self,
        reply: ReplyOpen,
        inode: INodeNo,
        opened: OpenReply,
        file: impl FnOnce() -> Option<File>,
    ) {
        let OpenReply { handle, flags, is_reader } = opened;
        let mut all = self.open.lock();
        let Some(open) = all.get_mut(&inode.0) else { return reply.opened(handle, flags) };
        // Whoever else is about to open it is counted already.
        let is_first = is_reader && open.handles == 1 && open.backing.is_none();
        if is_first
            && self.turn(node(inode)).is_none_or(|turn| turn.sought.elapsed() >= AGAIN)
            && inode.0 / NEXT_INODE < MAX_INODES
            && self.is_on.load(Ordering::Relaxed)
            && let Some(file) = file()
        {
            match reply.open_backing(&file) {
                Ok(id) => open.backing = Some(BackingFile { id, identity: identity(&file) }),
                Err(error) => {
                    // Not as root, or a disk that lies upon others.
                    tracing::debug!(%error, "files are not passed on to the disk");
                    self.is_on.store(false, Ordering::Relaxed);
                }
            }
        }
        match &open.backing {
            Some(backing) => reply.opened_passthrough(handle, flags & FopenFlags::FOPEN_NOFLUSH, &backing.id),
            None => reply.opened(handle, flags),
        }
    }

    /// A handle that the kernel has, and that is none of [`Passing::give`].
    pub(crate) fn opened(&self, inode: INodeNo) {
        if self.is_on.load(Ordering::Relaxed) {
            self.open.lock().entry(inode.0).or_default().handles += 1;
        }
    }

    /// A handle is closed.
    pub(crate) fn closed(&self, inode: INodeNo) {
        let mut all = self.open.lock();
        if let Some(open) = all.get_mut(&inode.0) {
            open.handles = open.handles.saturating_sub(1);
            if open.handles == 0 {
                all.remove(&inode.0);
            }
        }
    }
}

fn identity(file: &File) -> Option<DiskIdentity> {
    let stat = file.metadata().ok()?;
    Some((stat.dev(), stat.ino(), stat.size(), stat.mtime(), stat.mtime_nsec()))
}

/// Whether a file is one that programs write as a whole, or that is changed where it is on the disk, and worth being passed on.
pub(crate) fn is_fit(path: &TreePath, size: u64) -> bool {
    size > MAX_FILE_BYTES as u64 || (size >= MIN_BYTES && is_written_whole(path.name()))
}

fn is_written_whole(name: &str) -> bool {
    mime_guess::from_path(name).first_raw().is_some_and(|kind| {
        let (family, _) = kind.split_once('/').unwrap_or((kind, ""));
        matches!(family, "image" | "audio" | "video" | "font") || WHOLE.contains(&kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_another_namespace_are_not_taken_for_one_that_was_sent_back() {
        let passing = PassthroughFiles::default();
        for (thread, is_noted) in [(0, false), (17, true)] {
            passing.send_back(thread);
            passing.looked_up(NodeId(5), thread);
            assert_eq!(passing.has_others(), is_noted, "{thread}");
        }
    }

    #[test]
    fn large_files_that_are_written_as_a_whole_are_passed_on_and_no_others() {
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
            assert_eq!(is_fit(&TreePath::parse(name).unwrap(), size), expected, "{name}, {size}");
        }
    }
}
