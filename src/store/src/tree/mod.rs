//! The files of a knowledge root.
//!
//! Invariant: no path leaves the root. Everything is opened relative to the root's descriptor with
//! `openat2`, `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`. A caller that follows a link does so
//! explicitly and checks its target again.

mod attributes;
mod blocks;
mod extended;
mod flush;
mod install;
mod large_files;
mod nonblocking;
mod special;
mod staged_files;
mod stat;
mod temp_pool;
mod writeback;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use bytes::Bytes;
use rustix::fs::{self as sys, Access, AtFlags, Dir, FallocateFlags, Gid, Mode, OFlags, ResolveFlags, StatxFlags, Uid};
use rustix::io::Errno;
use svcfs_base::{MAX_FILE_BYTES, PathComponent, TreePath};
use svcfs_work::SerialExecutor;

pub use extended::{SetXattrMode, XattrProbe};
pub use install::{ExpectedFile, FileInstall, InstallResult};
pub use large_files::{LargeFileStaging, OpenFile};
pub use nonblocking::CachedFile;
pub use stat::{FileStat, SpecialFile, SpecialKind, StatKind, strip_setid};
pub(crate) use temp_pool::FILE_PREFIX as TEMP_POOL_PREFIX;

use self::stat::to_stat;
use crate::deferred_unlink::{DeferGuard, Reclaimer};
use crate::rename::rename_to_free;
use crate::{FailPoint, FailPoints, StatePaths, StoreError};

/// Size and free space of the disk below a root.
#[derive(Debug, Clone, Copy)]
pub struct DiskUsage {
    /// Bytes per block.
    pub block_size: u64,
    /// Total blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Blocks free for ordinary users.
    pub available: u64,
    /// Total inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
}

impl From<sys::StatVfs> for DiskUsage {
    fn from(stat: sys::StatVfs) -> Self {
        Self {
            block_size: stat.f_frsize,
            blocks: stat.f_blocks,
            free: stat.f_bfree,
            available: stat.f_bavail,
            files: stat.f_files,
            files_free: stat.f_ffree,
        }
    }
}

/// The tree of files below a knowledge root.
/// Methods fail with `StoreError::Disk` unless they say otherwise.
pub struct WorkTree {
    root: OwnedFd,
    temporary: Arc<OwnedFd>,
    counter: AtomicU64,
    // Dropped before `temp_pool`: files in the directories of the pool wait to be removed.
    reclaimer: Reclaimer,
    /// Starts writeback of large files.
    helper: Arc<SerialExecutor>,
    // Dropped before `temp_pool`, because its files are in the pool's directories.
    staged: staged_files::StagedFiles,
    temp_pool: temp_pool::TempFilePool,
    sync: flush::SyncState,
    is_root_user: bool,
    /// The mount of the temporary directory; none where the kernel does not report it.
    mount: Option<u64>,
    fail: FailPoints,
}

type TreeResult<T> = Result<T, StoreError>;

/// Paths resolve below the root and along no symbolic link.
const RESOLVE_FLAGS: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

impl WorkTree {
    /// Opens an existing root and creates the state directories below it.
    ///
    /// # Errors
    /// `State` when the root is no directory or cannot be written.
    pub fn open(root: &Path) -> TreeResult<Self> {
        let paths = StatePaths::new(root);
        let fail = FailPoints::new(root);
        fail.check(FailPoint::OpenTree)?;
        std::fs::create_dir_all(paths.temp_directory())?;
        std::fs::create_dir_all(paths.spool())?;
        let directory = |path: &Path| {
            sys::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let temporary = Arc::new(sys::open(paths.temp_directory(), flags, Mode::empty()).map_err(io::Error::from)?);
        sweep(&temporary)?;
        Ok(Self {
            root: directory(root)?,
            staged: staged_files::StagedFiles::new(&temporary),
            temp_pool: temp_pool::TempFilePool::new(&temporary),
            mount: mount_of(&temporary),
            temporary,
            counter: AtomicU64::new(0),
            reclaimer: Reclaimer::default(),
            helper: Arc::default(),
            sync: flush::SyncState::read(paths.sync_failed_marker()),
            is_root_user: rustix::process::geteuid().is_root(),
            fail,
        })
    }

    /// Postpones the removal of replaced files while a writer waits; it starts when the guard is
    /// dropped.
    pub fn defer_unlinks(&self) -> DeferGuard<'_> {
        self.reclaimer.defer_wakeups()
    }

    /// The stat of a path; a link at its end is not followed.
    ///
    /// # Errors
    /// `Disk` with `NotFound` when nothing exists, or a special file.
    pub fn stat(&self, path: &TreePath) -> TreeResult<FileStat> {
        let descriptor = self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let stat = sys::fstat(&descriptor).map_err(|error| disk(path, error))?;
        to_stat(&stat).ok_or_else(|| disk(path, Errno::NOENT))
    }

    /// The entries of a directory in name order, without special files and names that are not
    /// UTF-8.
    ///
    /// # Errors
    /// `Disk` when it is no directory or cannot be read.
    pub fn list(&self, path: &TreePath) -> TreeResult<Vec<(PathComponent, FileStat)>> {
        let descriptor = self.open_directory(path)?;
        let mut entries = Vec::new();
        let directory = Dir::read_from(&descriptor).map_err(|error| disk(path, error))?;
        for entry in directory {
            let entry = entry.map_err(|error| disk(path, error))?;
            let Some(name) = entry.file_name().to_str().ok().and_then(|text| PathComponent::parse(text).ok()) else {
                continue;
            };
            match sys::statat(&descriptor, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => entries.extend(to_stat(&stat).map(|stat| (name, stat))),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(disk(path, error)),
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }

    /// The content of a regular file.
    ///
    /// # Errors
    /// `SymlinkInPath` when it, or a directory above it, is a link; `Disk` with `IsADirectory`,
    /// `NotFound`, or `FileTooLarge` over 64 MiB.
    pub fn read(&self, path: &TreePath) -> TreeResult<(Bytes, FileStat)> {
        self.read_with(path, OFlags::empty())
    }

    /// The content that versions record: of a file its bytes, of a link its target.
    ///
    /// # Errors
    /// As [`WorkTree::read`].
    pub fn read_leaf(&self, path: &TreePath) -> TreeResult<(Bytes, FileStat)> {
        self.leaf(path, OFlags::NOFOLLOW)
    }

    /// As [`WorkTree::read_leaf`], without updating the access time: for reads by the server
    /// itself.
    ///
    /// # Errors
    /// As [`WorkTree::read_leaf`].
    pub fn inspect_leaf(&self, path: &TreePath) -> TreeResult<(Bytes, FileStat)> {
        match self.leaf(path, OFlags::NOFOLLOW | OFlags::NOATIME) {
            // `O_NOATIME` is permitted for the owner only.
            Err(StoreError::Disk { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                self.read_leaf(path)
            }
            outcome => outcome,
        }
    }

    fn leaf(&self, path: &TreePath, flags: OFlags) -> TreeResult<(Bytes, FileStat)> {
        let stat = self.stat(path)?;
        match stat.kind {
            StatKind::Symlink => Ok((self.read_link(path)?.into_bytes().into(), stat)),
            StatKind::File => self.read_with(path, flags),
            StatKind::Directory => Err(disk(path, Errno::ISDIR)),
            StatKind::Special(_) => Err(disk(path, Errno::NOENT)),
        }
    }

    fn read_with(&self, path: &TreePath, extra: OFlags) -> TreeResult<(Bytes, FileStat)> {
        // NONBLOCK: opening a FIFO must not wait for a writer.
        let descriptor = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | extra)?;
        let raw = sys::fstat(&descriptor).map_err(|error| disk(path, error))?;
        let stat = to_stat(&raw).ok_or_else(|| disk(path, Errno::NOENT))?;
        if stat.kind == StatKind::Directory {
            return Err(disk(path, Errno::ISDIR));
        }
        let too_large = || StoreError::Disk { path: path.clone(), source: io::ErrorKind::FileTooLarge.into() };
        let expected = usize::try_from(stat.size).map_err(|_| too_large())?;
        if expected > MAX_FILE_BYTES {
            return Err(too_large());
        }
        let mut content = Vec::with_capacity(expected + 1);
        let mut file = File::from(descriptor).take(MAX_FILE_BYTES as u64 + 1);
        file.read_to_end(&mut content).map_err(|source| StoreError::Disk { path: path.clone(), source })?;
        if content.len() > MAX_FILE_BYTES {
            return Err(too_large());
        }
        Ok((content.into(), stat))
    }

    /// A range of a regular file; fewer bytes at its end.
    ///
    /// # Errors
    /// As [`WorkTree::read`].
    pub fn read_range(&self, path: &TreePath, offset: u64, length: usize) -> TreeResult<Bytes> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let file = File::from(self.open_at(path, flags)?);
        large_files::read_up_to(&file, offset, length).map_err(|source| StoreError::Disk { path: path.clone(), source })
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `Disk` with the system error, or when it is not a regular file.
    pub fn open_file(&self, path: &TreePath) -> TreeResult<File> {
        let file = File::from(self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)?);
        let is_file = file.metadata().map(|metadata| metadata.is_file());
        match is_file {
            Ok(true) => Ok(file),
            Ok(false) => Err(disk(path, Errno::NOENT)),
            Err(source) => Err(StoreError::Disk { path: path.clone(), source }),
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Disk` with `InvalidInput` when it is no link, `InvalidData` when its target is not UTF-8.
    pub fn read_link(&self, path: &TreePath) -> TreeResult<String> {
        let (parent, name) = self.parent_of(path)?;
        let target = sys::readlinkat(&parent, name, Vec::new()).map_err(|error| disk(path, error))?;
        target
            .into_string()
            .map_err(|_| StoreError::Disk { path: path.clone(), source: io::ErrorKind::InvalidData.into() })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `Disk` with `DirectoryNotEmpty` or another system error.
    pub fn remove_directory(&self, path: &TreePath) -> TreeResult<()> {
        let (parent, name) = self.parent_of(path)?;
        sys::unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(|error| disk(path, error))
    }

    /// Creates a directory; its parent must exist. If the server runs as root, it belongs to the
    /// owner of the parent.
    ///
    /// # Errors
    /// `Disk` with `AlreadyExists` or another system error.
    pub fn make_directory(&self, path: &TreePath, mode: u32) -> TreeResult<()> {
        let (parent, name) = self.parent_of(path)?;
        self.check_fail_point(FailPoint::TreeParents).map_err(|error| disk(path, error))?;
        sys::mkdirat(&parent, name, Mode::from_raw_mode(mode & 0o7777)).map_err(|error| disk(path, error))?;
        if self.is_root_user {
            let owner = sys::fstat(&parent).map_err(|error| disk(path, error))?;
            let (uid, gid) = (Some(Uid::from_raw(owner.st_uid)), Some(Gid::from_raw(owner.st_gid)));
            sys::chownat(&parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| disk(path, error))?;
        }
        Ok(())
    }

    /// Creates the missing directories above a path; returns the created ones, outermost first.
    ///
    /// # Errors
    /// `Disk` with `NotADirectory` when a component is a file.
    pub fn make_parents(&self, path: &TreePath) -> TreeResult<Vec<TreePath>> {
        // Without recursion: a path may have 2,000 levels.
        let mut missing = Vec::new();
        for above in path.ancestors().filter(|above| !above.is_root()) {
            match self.stat(&above) {
                Ok(stat) if stat.kind == StatKind::Directory => break,
                Ok(_) => return Err(disk(&above, Errno::NOTDIR)),
                Err(StoreError::Disk { source, .. }) if source.kind() == io::ErrorKind::NotFound => missing.push(above),
                Err(error) => return Err(error),
            }
        }
        let mut created = Vec::with_capacity(missing.len());
        for directory in missing.into_iter().rev() {
            match self.make_directory(&directory, 0o755) {
                Err(StoreError::Disk { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
                outcome => {
                    outcome?;
                    created.push(directory);
                }
            }
        }
        Ok(created)
    }

    /// Checks that names in the directory of a path can be changed: its permissions and its mount.
    /// A missing directory passes.
    ///
    /// # Errors
    /// `Disk` with `ReadOnlyFilesystem`, `PermissionDenied`, or `CrossesDevices` below a mount
    /// point inside the root, where no file can be renamed to.
    pub fn check_writable(&self, path: &TreePath) -> TreeResult<()> {
        let Ok((parent, _)) = self.parent_of(path) else { return Ok(()) };
        match sys::accessat(&parent, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            Err(error @ (Errno::ROFS | Errno::ACCESS)) => Err(disk(path, error)),
            _ if self
                .mount
                .is_some_and(|mount| mount_of(&parent).is_some_and(|parent_mount| parent_mount != mount)) =>
            {
                Err(disk(path, Errno::XDEV))
            }
            // The change itself reports other errors.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Renames on the disk. `replace` false fails when the new name exists.
    pub fn rename(&self, from: &TreePath, to: &TreePath, replace: bool) -> TreeResult<()> {
        let (old_parent, old_name) = self.parent_of(from)?;
        let (new_parent, new_name) = self.parent_of(to)?;
        self.check_fail_point(FailPoint::TreeMove).map_err(|error| disk(to, error))?;
        let renamed = match replace {
            true => sys::renameat(&old_parent, old_name, &new_parent, new_name),
            false => rename_to_free((&old_parent, old_name), (&new_parent, new_name)),
        };
        renamed.map_err(|error| disk(to, error))
    }

    /// Stops background work, which uses file names that the next process uses again.
    pub fn close(&self) {
        self.staged.clear();
        self.reclaimer.wait_idle();
        self.temp_pool.clear();
    }

    /// When the machine was booted: files changed before may have lost content in a power failure.
    pub fn boot_time(&self) -> SystemTime {
        // To the millisecond: a virtual machine may boot within a second.
        let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let uptime = std::time::Duration::try_from(uptime).unwrap_or_default();
        SystemTime::now().checked_sub(uptime).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Size and free space of the disk.
    pub fn disk_usage(&self) -> TreeResult<DiskUsage> {
        Ok(DiskUsage::from(sys::fstatvfs(&self.temporary).map_err(io::Error::from)?))
    }

    fn open_at(&self, path: &TreePath, flags: OFlags) -> TreeResult<OwnedFd> {
        let text = if path.is_root() { "." } else { path.as_str() };
        // EAGAIN: a concurrent rename raced with the resolution; retry (openat2(2)).
        for _ in 0..64 {
            match sys::openat2(&self.root, text, flags | OFlags::CLOEXEC, Mode::empty(), RESOLVE_FLAGS) {
                Ok(descriptor) => return Ok(descriptor),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::XDEV | Errno::LOOP) => return Err(StoreError::SymlinkInPath(path.clone())),
                Err(error) => return Err(disk(path, error)),
            }
        }
        Err(disk(path, Errno::AGAIN))
    }

    /// Opens a directory for listing, without updating the access time.
    fn open_directory(&self, path: &TreePath) -> TreeResult<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match self.open_at(path, flags | OFlags::NOATIME) {
            // `O_NOATIME` is permitted for the owner only.
            Err(StoreError::Disk { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                self.open_at(path, flags)
            }
            outcome => outcome,
        }
    }

    fn parent_of<'a>(&self, path: &'a TreePath) -> TreeResult<(OwnedFd, &'a str)> {
        let parent = path.parent().ok_or_else(|| disk(path, Errno::BUSY))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok((self.open_at(&parent, flags)?, path.name()))
    }

    /// The fail points of this root.
    pub(crate) fn fail_points(&self) -> FailPoints {
        self.fail.clone()
    }

    fn check_fail_point(&self, point: FailPoint) -> rustix::io::Result<()> {
        self.fail.check(point).map_err(to_errno)
    }
}

/// Removes temporary files of a killed process.
fn sweep(temporary: &OwnedFd) -> TreeResult<()> {
    for entry in Dir::read_from(temporary).map_err(io::Error::from)? {
        let entry = entry.map_err(io::Error::from)?;
        let name = entry.file_name();
        if name.to_bytes().iter().all(|byte| *byte == b'.') {
            continue;
        }
        match sys::unlinkat(temporary, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                sweep(&sys::openat(temporary, name, flags, Mode::empty()).map_err(io::Error::from)?)?;
                sys::unlinkat(temporary, name, AtFlags::REMOVEDIR).map_err(io::Error::from)?;
            }
            outcome => outcome.map_err(io::Error::from)?,
        }
    }
    Ok(())
}

/// Allocates the blocks of a new file before it is written.
///
/// On a rename over an existing file, ext4 first writes out unallocated data (`auto_da_alloc`,
/// ext4(5)): half a millisecond per file for a flush that the log makes unnecessary. Allocated data
/// is written later.
///
/// # Errors
/// When the disk is full; a file system without preallocation is no error.
pub(crate) fn reserve(file: &File, length: usize) -> io::Result<()> {
    match sys::fallocate(file, FallocateFlags::empty(), 0, length as u64) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn disk(path: &TreePath, error: Errno) -> StoreError {
    StoreError::Disk { path: path.clone(), source: error.into() }
}

fn to_errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// The mount of a directory.
fn mount_of(directory: &impl AsFd) -> Option<u64> {
    let stat = sys::statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID).then_some(stat.stx_mnt_id)
}

#[cfg(test)]
mod tests;
