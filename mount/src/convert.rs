//! Conversions between kernel and vfs types.

use std::ffi::OsStr;
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileHandle, FileType, INodeNo, OpenAccMode, OpenFlags, TimeOrNow, WriteFlags};
use nix::libc::{SEEK_DATA, SEEK_HOLE};
use rustix::fs::{FallocateFlags, OFlags};
use svcfs_base::{Clock, Fault, Kind, PathComponent};
use svcfs_vfs::{Allocation, EntryKind, HandleId, NodeId, OpenMode, PathAttributes, SpecialKind, WriteAt};

use crate::drafts::is_draft_id;
use crate::views::is_view_id;

/// Whether an inode or a handle is none of the tree.
pub(crate) const fn is_virtual_id(number: u64) -> bool {
    is_view_id(number) || is_draft_id(number)
}

/// The part of a content that a read returns.
pub(crate) fn read_range(length: usize, offset: u64, requested: u32) -> std::ops::Range<usize> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(length);
    start..start.saturating_add(requested as usize).min(length)
}

/// How long the kernel may cache a name or attributes; the follower invalidates changes of other
/// protocols earlier.
pub(crate) const ENTRY_TTL: Duration = Duration::from_secs(1);

/// How long the kernel may cache attributes: not at all for special files, which may be changed
/// under another hard link, and not for those of drafts.
pub(crate) const fn attr_ttl(attributes: &FileAttr) -> Duration {
    match attributes.kind {
        _ if is_draft_id(attributes.ino.0) => Duration::ZERO,
        FileType::RegularFile | FileType::Directory | FileType::Symlink => ENTRY_TTL,
        FileType::NamedPipe | FileType::Socket | FileType::CharDevice | FileType::BlockDevice => Duration::ZERO,
    }
}

/// How long the kernel may cache the name of a new entry.
pub(crate) const fn name_ttl(attributes: &FileAttr) -> Duration {
    if is_draft_id(attributes.ino.0) { Duration::ZERO } else { ENTRY_TTL }
}

/// How long the kernel may cache that a name does not exist. Shorter, because directories made by
/// other protocols are not in the change feed.
pub(crate) const NEGATIVE_TTL: Duration = Duration::from_millis(100);

/// Permission bits, with set-user-id, set-group-id and sticky.
pub(crate) const MODE_BITS: u32 = 0o7777;

/// Reply for a name that does not exist.
pub(crate) const NO_ENTRY: FileAttr = minimal_attr(INodeNo(0), FileType::RegularFile);

/// Attributes with only number and kind set.
pub(crate) const fn minimal_attr(inode: INodeNo, kind: FileType) -> FileAttr {
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
        perm: (mode & MODE_BITS) as u16,
        nlink: links,
        uid,
        gid,
        rdev: match kind {
            // FUSE has 32 bits for it, enough for Linux device numbers.
            EntryKind::Special(special) => special.device as u32,
            EntryKind::Directory | EntryKind::File | EntryKind::Symlink => 0,
        },
        ..minimal_attr(inode(node), file_type(kind))
    }
}

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

/// Distance between two inodes of one node: see `passthrough`. Node numbers are smaller.
pub(crate) const GENERATION_STRIDE: u64 = 1 << 44;

/// The first inode of a node has the node's number; 1 is the root in both.
pub(crate) const fn inode(node: NodeId) -> INodeNo {
    INodeNo(node.0)
}

pub(crate) const fn node(inode: INodeNo) -> NodeId {
    NodeId(if is_virtual_id(inode.0) { inode.0 } else { inode.0 % GENERATION_STRIDE })
}

/// Attributes under the inode number that the kernel used.
pub(crate) fn attr_of(inode_number: INodeNo, attributes: &PathAttributes) -> FileAttr {
    FileAttr { ino: inode_number, ..file_attr(node(inode_number), attributes) }
}

pub(crate) const fn handle(handle: FileHandle) -> HandleId {
    HandleId(handle.0)
}

/// Parses a name.
///
/// # Errors
/// `Invalid` when it is not UTF-8 or not allowed in the tree; `NameTooLong` over 255 bytes.
pub(crate) fn name(text: &OsStr) -> Result<PathComponent, Fault> {
    PathComponent::parse(utf8(text)?)
}

/// Checks that text is UTF-8.
///
/// # Errors
/// `Invalid` when it is not.
pub(crate) fn utf8(text: &OsStr) -> Result<&str, Fault> {
    text.to_str().ok_or_else(|| {
        let escaped = text.as_encoded_bytes().escape_ascii();
        Fault::new(Kind::Invalid, format!("path denied: `{escaped}` is not UTF-8; give the file another name"))
    })
}

pub(crate) fn open_mode(flags: OpenFlags) -> OpenMode {
    let truncate = flag_bits(flags.0).contains(OFlags::TRUNC);
    OpenMode { write: flags.acc_mode() != OpenAccMode::O_RDONLY, truncate }
}

/// Where a write goes. The kernel appends at the size it knows, which another protocol may have
/// increased since. Pages of a shared mapping keep their offset, through whichever handle the
/// kernel chooses.
pub(crate) fn write_at(offset: u64, flags: OpenFlags, kind: WriteFlags) -> WriteAt {
    if kind.contains(WriteFlags::FUSE_WRITE_CACHE) {
        WriteAt::Mapped(offset)
    } else if flag_bits(flags.0).contains(OFlags::APPEND) {
        WriteAt::End
    } else {
        WriteAt::Offset(offset)
    }
}

/// What `fallocate(2)` asks for; none for the modes that shift data, which few filesystems support.
pub(crate) fn allocation(offset: u64, length: u64, mode: i32) -> Option<Allocation> {
    let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
    let keeps_length = mode.contains(FallocateFlags::KEEP_SIZE);
    let (is_zeroed, grows) = match mode.difference(FallocateFlags::KEEP_SIZE) {
        FallocateFlags::PUNCH_HOLE if keeps_length => (true, false),
        FallocateFlags::ZERO_RANGE => (true, !keeps_length),
        other if other.is_empty() => (false, !keeps_length),
        _ => return None,
    };
    Some(Allocation { offset, length, is_zeroed, grows })
}

/// Start offset of `lseek(2)`, and whether it seeks a hole; none for what the kernel does itself.
pub(crate) fn hole_search(offset: i64, whence: i32) -> Option<(u64, bool)> {
    let to_hole = match whence {
        SEEK_HOLE => true,
        SEEK_DATA => false,
        _ => return None,
    };
    Some((u64::try_from(offset).ok()?, to_hole))
}

pub(crate) const fn flag_bits(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned())
}

pub(crate) fn resolve_time(clock: &dyn Clock, time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => fix_pre_epoch(time),
        TimeOrNow::Now => clock.now().into(),
    }
}

/// Corrects times before 1970: fuser subtracts the nanoseconds, the kernel means them to be added.
fn fix_pre_epoch(time: SystemTime) -> SystemTime {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => time,
        Err(before) => {
            let distance = before.duration();
            SystemTime::UNIX_EPOCH - Duration::from_secs(distance.as_secs())
                + Duration::from_nanos(u64::from(distance.subsec_nanos()))
        }
    }
}
