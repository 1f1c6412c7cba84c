//! The kernel's words into the vfs's, and back.

use std::ffi::OsStr;
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileHandle, FileType, INodeNo, OpenAccMode, OpenFlags, TimeOrNow, WriteFlags};
use nix::libc::{SEEK_DATA, SEEK_HOLE};
use rustix::fs::{FallocateFlags, OFlags};
use svcfs_base::{Clock, Fault, Kind, PathComponent};
use svcfs_vfs::{Allocation, EntryKind, HandleId, NodeId, OpenMode, PathAttributes, SpecialKind, WriteAt};

use crate::views::is_ours;

/// How long the kernel may believe a name or attributes without asking; the follower takes back earlier what other doors change.
pub(crate) const KNOWN_TTL: Duration = Duration::from_secs(1);

/// For how long the kernel may keep what is known of a file: of pipes and their like not at all, since one may have another name, under which
/// it is changed.
pub(crate) const fn kept_for(attributes: &FileAttr) -> Duration {
    match attributes.kind {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => KNOWN_TTL,
        FileType::NamedPipe | FileType::Socket | FileType::CharDevice | FileType::BlockDevice => Duration::ZERO,
    }
}

/// How long the kernel may believe that nothing is there. Shorter: directories made by other doors are not in the change feed.
pub(crate) const ABSENT_TTL: Duration = Duration::from_millis(100);

/// Permission bits, with set-user-id, set-group-id and sticky.
pub(crate) const PERMISSIONS: u32 = 0o7777;

/// The entry without an inode: nothing is there.
pub(crate) const NOTHING: FileAttr = blank(INodeNo(0), FileType::RegularFile);

/// Attributes of which only the number and the kind are known, as a listing gives them for `.` and `..`.
pub(crate) const fn blank(inode: INodeNo, kind: FileType) -> FileAttr {
    FileAttr {
        ino: inode,
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Attributes as `stat` shows them.
pub(crate) fn file_attr(node: NodeId, attributes: &PathAttributes) -> FileAttr {
    let PathAttributes { kind, size, blocks, mode, uid, gid, modified, changed, accessed, links } = *attributes;
    FileAttr {
        size,
        blocks,
        atime: accessed,
        mtime: modified,
        ctime: changed,
        crtime: modified,
        perm: (mode & PERMISSIONS) as u16,
        nlink: links,
        uid,
        gid,
        rdev: match kind {
            // The kernel's protocol has 32 bits for it, which hold all that Linux numbers.
            EntryKind::Special(special) => special.device as u32,
            EntryKind::Directory | EntryKind::File | EntryKind::Symlink => 0,
        },
        ..blank(inode(node), file_type(kind))
    }
}

/// The kernel's word for a kind of entry.
pub(crate) const fn file_type(kind: EntryKind) -> FileType {
    match kind {
        EntryKind::Directory => FileType::Directory,
        EntryKind::File => FileType::RegularFile,
        EntryKind::Symlink => FileType::Symlink,
        EntryKind::Special(special) => match special.kind {
            SpecialKind::Fifo => FileType::NamedPipe,
            SpecialKind::Socket => FileType::Socket,
            SpecialKind::CharacterDevice => FileType::CharDevice,
            SpecialKind::BlockDevice => FileType::BlockDevice,
        },
    }
}

/// Between two inodes of one node: see `passing`. Below it are the numbers of nodes.
pub(crate) const NEXT_INODE: u64 = 1 << 44;

/// The kernel's first number for a node: the same; 1 is the root in both.
pub(crate) const fn inode(node: NodeId) -> INodeNo {
    INodeNo(node.0)
}

/// The node behind the kernel's number.
pub(crate) const fn node(inode: INodeNo) -> NodeId {
    NodeId(if is_ours(inode.0) { inode.0 } else { inode.0 % NEXT_INODE })
}

/// Attributes of a file that the kernel asked for by number.
pub(crate) fn attr_of(asked: INodeNo, attributes: &PathAttributes) -> FileAttr {
    FileAttr { ino: asked, ..file_attr(node(asked), attributes) }
}

/// The vfs handle behind the kernel's.
pub(crate) const fn handle(handle: FileHandle) -> HandleId {
    HandleId(handle.0)
}

/// A name from the kernel.
///
/// # Errors
/// `Invalid` when it is not UTF-8 or not a name of the tree; `NameTooLong` over 255 bytes.
pub(crate) fn name(text: &OsStr) -> Result<PathComponent, Fault> {
    PathComponent::parse(utf8(text)?)
}

/// Text from the kernel.
///
/// # Errors
/// `Invalid` when it is not UTF-8.
pub(crate) fn utf8(text: &OsStr) -> Result<&str, Fault> {
    text.to_str().ok_or_else(|| {
        let shown = text.as_encoded_bytes().escape_ascii();
        Fault::new(Kind::Invalid, format!("path denied: `{shown}` is not UTF-8; give the file another name"))
    })
}

/// `open(2)` flags, as far as a file keeps them.
pub(crate) fn open_mode(flags: OpenFlags) -> OpenMode {
    let truncate = flag_bits(flags.0).contains(OFlags::TRUNC);
    OpenMode { write: flags.acc_mode() != OpenAccMode::O_RDONLY, truncate }
}

/// Where a write goes. The kernel appends at the length it knows; another door may have made the file longer since. Pages of a
/// shared mapping go where they belong, through whichever handle the kernel finds.
pub(crate) fn write_at(offset: u64, flags: OpenFlags, kind: WriteFlags) -> WriteAt {
    if kind.contains(WriteFlags::FUSE_WRITE_CACHE) {
        WriteAt::Mapped(offset)
    } else if flag_bits(flags.0).contains(OFlags::APPEND) {
        WriteAt::End
    } else {
        WriteAt::Offset(offset)
    }
}

/// What `fallocate(2)` asks for; none for what only a few filesystems offer (to take parts out of files, or to put them in).
pub(crate) fn allocation(offset: u64, length: u64, mode: i32) -> Option<Allocation> {
    let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
    let keeps_length = mode.contains(FallocateFlags::KEEP_SIZE);
    let (is_zeroed, grows) = match mode.difference(FallocateFlags::KEEP_SIZE) {
        FallocateFlags::PUNCH_HOLE if keeps_length => (true, false),
        FallocateFlags::ZERO_RANGE => (true, !keeps_length),
        rest if rest.is_empty() => (false, !keeps_length),
        _ => return None,
    };
    Some(Allocation { offset, length, is_zeroed, grows })
}

/// From where on `lseek(2)` looks, and whether for a hole or for data; none for what the kernel does by itself.
pub(crate) fn hole_search(offset: i64, whence: i32) -> Option<(u64, bool)> {
    let to_hole = match whence {
        SEEK_HOLE => true,
        SEEK_DATA => false,
        _ => return None,
    };
    Some((u64::try_from(offset).ok()?, to_hole))
}

/// `open(2)` flags by name.
pub(crate) const fn flag_bits(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned())
}

/// A point in time, where the kernel may say "now".
pub(crate) fn moment(clock: &dyn Clock, time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => counted_forward(time),
        TimeOrNow::Now => clock.now().into(),
    }
}

/// A moment as it was meant: fuser counts the nanoseconds before 1970 back, as it does the seconds; the kernel means them forward.
fn counted_forward(time: SystemTime) -> SystemTime {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => time,
        Err(before) => {
            let back = before.duration();
            SystemTime::UNIX_EPOCH - Duration::from_secs(back.as_secs())
                + Duration::from_nanos(u64::from(back.subsec_nanos()))
        }
    }
}
