//! What the disk says of a path, in our words.

use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat as RawStat, Timespec, Timestamps, UTIME_OMIT};
use svcfs_base::FileKind;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device.
    Special(SpecialFile),
}

/// What is neither file, directory nor link: no version, index or network door knows of it, a mount passes it through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialFile {
    /// What kind.
    pub kind: SpecialKind,
    /// The device's number as `stat(2)` tells it (`st_rdev`); 0 where it is none.
    pub device: u64,
}

/// Kinds of special files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialKind {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

impl SpecialKind {
    /// The kind that `mknod(2)` is asked for by the type bits of `mode`; none for what is not special.
    pub const fn from_mode(mode: u32) -> Option<Self> {
        match FileType::from_raw_mode(mode) {
            FileType::Fifo => Some(Self::Fifo),
            FileType::Socket => Some(Self::Socket),
            FileType::CharacterDevice => Some(Self::CharacterDevice),
            FileType::BlockDevice => Some(Self::BlockDevice),
            _ => None,
        }
    }

    pub(super) const fn file_type(self) -> FileType {
        match self {
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
            Self::CharacterDevice => FileType::CharacterDevice,
            Self::BlockDevice => FileType::BlockDevice,
        }
    }
}

/// What the disk knows of a path.
#[derive(Debug, Clone, Copy)]
pub struct FileStat {
    /// What it is.
    pub kind: StatKind,
    /// Length in bytes.
    pub size: u64,
    /// Room it takes on the disk, in blocks of 512 bytes.
    pub blocks: u64,
    /// Permission bits (`0o7777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub links: u32,
    /// Last modification.
    pub modified: SystemTime,
    /// Last change of attributes.
    pub changed: SystemTime,
    /// Last access.
    pub accessed: SystemTime,
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// Permission bits without set-user-id and set-group-id.
pub const fn strip_setid(mode: u32) -> u32 {
    mode & 0o1777
}

impl FileStat {
    /// Permission bits that a file keeps when its content is replaced: new content is not what somebody gave the rights of another
    /// user to (set-user-id, set-group-id).
    pub const fn preserved_mode(&self) -> u32 {
        strip_setid(self.mode)
    }

    /// Whether it is a pipe, socket or device.
    pub const fn is_special(&self) -> bool {
        matches!(self.kind, StatKind::Special(_))
    }

    /// The kind git records for this file; none for a directory and a special file.
    pub const fn file_kind(&self) -> Option<FileKind> {
        match self.kind {
            StatKind::Directory | StatKind::Special(_) => None,
            StatKind::Symlink => Some(FileKind::Symlink),
            StatKind::File if self.mode & 0o100 != 0 => Some(FileKind::Executable),
            StatKind::File => Some(FileKind::Regular),
        }
    }
}

/// What the disk says; nothing for what no kernel of ours makes.
pub(super) fn to_any_stat(stat: &RawStat) -> Option<FileStat> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => StatKind::Directory,
        FileType::RegularFile => StatKind::File,
        FileType::Symlink => StatKind::Symlink,
        _ => {
            let kind = SpecialKind::from_mode(stat.st_mode)?;
            StatKind::Special(SpecialFile { kind, device: stat.st_rdev })
        }
    };
    Some(FileStat {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        modified: to_time(stat.st_mtime, stat.st_mtime_nsec),
        changed: to_time(stat.st_ctime, stat.st_ctime_nsec),
        accessed: to_time(stat.st_atime, stat.st_atime_nsec),
        device: stat.st_dev,
        inode: stat.st_ino,
    })
}

/// What the disk says of what a tree holds; nothing for special files.
pub(super) fn to_stat(stat: &RawStat) -> Option<FileStat> {
    to_any_stat(stat).filter(|stat| !stat.is_special())
}

fn to_time(seconds: i64, nanoseconds: impl TryInto<u32>) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(nanoseconds.try_into().unwrap_or(0)));
    match u64::try_from(seconds) {
        Ok(after) => SystemTime::UNIX_EPOCH + Duration::from_secs(after) + nanoseconds,
        Err(_) => SystemTime::UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + nanoseconds,
    }
}

fn to_timespec(time: SystemTime) -> Timespec {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Timespec {
            tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(after.subsec_nanos()),
        },
        Err(before) => {
            let before = before.duration();
            let borrow = i64::from(before.subsec_nanos() > 0);
            Timespec {
                tv_sec: -i64::try_from(before.as_secs()).unwrap_or(i64::MAX) - borrow,
                tv_nsec: borrow * 1_000_000_000 - i64::from(before.subsec_nanos()),
            }
        }
    }
}

/// Times to set; those that are none stay.
pub(super) fn times(accessed: Option<SystemTime>, modified: Option<SystemTime>) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Timestamps {
        last_access: accessed.map_or(omit, to_timespec),
        last_modification: modified.map_or(omit, to_timespec),
    }
}
