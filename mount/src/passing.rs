//! Files that the kernel reads by itself, from the disk of the root (FUSE passthrough, Linux 6.9): no request comes here for their content.
//!
//! One rule: only what is not written in place. Such a handle goes on with the file it has opened when the file is replaced, which for
//! a picture is what any disk does, and for a database would be wrong. So it is large files of kinds that programs write as a whole, those
//! that nobody has open otherwise, and those too large to be recorded, which are changed where they are on the disk.
//!
//! The kernel wants one backing file for all handles of an inode, and none that it caches itself beside them: while one handle passes
//! things on, every other one is answered here, past the cache.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{BackingId, FileHandle, FopenFlags, INodeNo, ReplyOpen};
use parking_lot::Mutex;
use svcfs_base::{MAX_FILE_BYTES, TreePath};

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
pub(crate) struct Passing {
    /// Whether this kernel can and lets us.
    is_on: AtomicBool,
    open: Mutex<HashMap<u64, Open>>,
}

#[derive(Default)]
struct Open {
    handles: usize,
    backing: Option<Backing>,
}

struct Backing {
    id: BackingId,
    /// Which file of the disk it is, and as of when.
    identity: Option<Identity>,
}

/// Device, inode, size and time of the last change.
type Identity = (u64, u64, u64, i64, i64);

/// A handle about to be told to the kernel.
pub(crate) struct Opened {
    /// Its number.
    pub(crate) handle: FileHandle,
    /// How the kernel is to cache it, where nothing is passed on.
    pub(crate) flags: FopenFlags,
    /// Whether nothing can be written through it.
    pub(crate) is_reader: bool,
}

impl Passing {
    /// The kernel can.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Answers that a file is open. `file` is the file of the disk that has exactly what is to be read; none when there is no such file now, or
    /// when it is not fit to be passed on.
    pub(crate) fn give(&self, reply: ReplyOpen, inode: INodeNo, opened: Opened, file: impl FnOnce() -> Option<File>) {
        let Opened { handle, flags, is_reader } = opened;
        if !self.is_on.load(Ordering::Relaxed) {
            return reply.opened(handle, flags);
        }
        let mut all = self.open.lock();
        let open = all.entry(inode.0).or_default();
        open.handles += 1;
        let file = if is_reader && (open.handles == 1 || open.backing.is_some()) { file() } else { None };
        if open.handles == 1
            && let Some(file) = &file
        {
            match reply.open_backing(file) {
                Ok(id) => open.backing = Some(Backing { id, identity: identity(file) }),
                Err(error) => {
                    // Not as root, or a disk that lies upon others.
                    tracing::debug!(%error, "files are not passed on to the disk");
                    self.is_on.store(false, Ordering::Relaxed);
                }
            }
        }
        match &open.backing {
            Some(backing) => {
                let is_same = file.and_then(|file| identity(&file)) == backing.identity && backing.identity.is_some();
                // Asked for beside passing on, it has the last word for reading and writing.
                let ours = if is_same { FopenFlags::empty() } else { FopenFlags::FOPEN_DIRECT_IO };
                let flags = ours | (flags & FopenFlags::FOPEN_NOFLUSH);
                reply.opened_passthrough(handle, flags, &backing.id);
            }
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

fn identity(file: &File) -> Option<Identity> {
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
