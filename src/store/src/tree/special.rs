//! Pipes, sockets, devices and files too large to be recorded: on the disk of the root, and nobody's but the disk's.

use rustix::fs::{self as sys, AtFlags, Dir, Mode, OFlags};
use svcfs_base::{PathComponent, TreePath};

use super::stat::to_any_stat;
use super::{FileStat, SpecialFile, TreeResult, WorkTree, disk};
use crate::StoreError;

impl WorkTree {
    /// What stands at a path when it is a special file, which [`WorkTree::stat`] does not see, or a file too large to be recorded.
    ///
    /// # Errors
    /// `Disk` with what the system said, other than that nothing is there.
    pub fn stat_special(&self, path: &TreePath) -> TreeResult<Option<FileStat>> {
        let descriptor = match self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(descriptor) => descriptor,
            Err(StoreError::Disk { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = sys::fstat(&descriptor).map_err(|error| disk(path, error))?;
        Ok(to_any_stat(&stat).filter(|stat| stat.is_special() || stat.is_large()))
    }

    /// The special files of a directory.
    ///
    /// # Errors
    /// `Disk` when it is no directory or cannot be read.
    pub fn list_special(&self, path: &TreePath) -> TreeResult<Vec<(PathComponent, FileStat)>> {
        let descriptor = self.open_directory(path)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&descriptor).map_err(|error| disk(path, error))? {
            let entry = entry.map_err(|error| disk(path, error))?;
            // Most entries are no special files, and the listing says so.
            let is_other = matches!(
                entry.file_type(),
                sys::FileType::RegularFile | sys::FileType::Directory | sys::FileType::Symlink
            );
            let name = entry.file_name().to_str().ok().filter(|_| !is_other);
            let Some(name) = name.and_then(|text| PathComponent::parse(text).ok()) else { continue };
            // One that went meanwhile is not there.
            let Ok(stat) = sys::statat(&descriptor, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            entries.extend(to_any_stat(&stat).filter(FileStat::is_special).map(|stat| (name, stat)));
        }
        Ok(entries)
    }

    /// The directories in a directory, in no order. Other entries are not read: the listing says what most of them are.
    ///
    /// # Errors
    /// As [`WorkTree::list`].
    pub fn list_directories(&self, path: &TreePath) -> TreeResult<Vec<PathComponent>> {
        let descriptor = self.open_directory(path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&descriptor).map_err(|error| disk(path, error))? {
            let entry = entry.map_err(|error| disk(path, error))?;
            let is_directory = || match entry.file_type() {
                sys::FileType::Directory => true,
                sys::FileType::Unknown => sys::statat(&descriptor, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| sys::FileType::from_raw_mode(stat.st_mode) == sys::FileType::Directory),
                _ => false,
            };
            let name = entry.file_name().to_str().ok().and_then(|text| PathComponent::parse(text).ok());
            names.extend(name.filter(|_| is_directory()));
        }
        Ok(names)
    }

    /// Whether a directory holds something whose name no tree has, and which no listing tells: one such name.
    ///
    /// # Errors
    /// As [`Tree::list`].
    pub fn find_invalid_name(&self, path: &TreePath) -> TreeResult<Option<String>> {
        let descriptor = self.open_directory(path)?;
        for entry in Dir::read_from(&descriptor).map_err(|error| disk(path, error))? {
            let entry = entry.map_err(|error| disk(path, error))?;
            let name = entry.file_name().to_string_lossy();
            let is_named = entry.file_name().to_str().is_ok_and(|text| PathComponent::parse(text).is_ok());
            if !is_named && !matches!(&*name, "." | "..") {
                return Ok(Some(name.into_owned()));
            }
        }
        Ok(None)
    }

    /// Makes a special file; its directory must exist.
    ///
    /// # Errors
    /// `Disk` with `AlreadyExists`, `PermissionDenied` for a device that this process may not make, or what else the system said.
    pub fn make_special(&self, path: &TreePath, special: SpecialFile, mode: u32) -> TreeResult<()> {
        let (parent, name) = self.parent_of(path)?;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        sys::mknodat(&parent, name, special.kind.file_type(), mode, special.device)
            .map_err(|error| disk(path, error))?;
        // `mknod` takes the umask away, which the caller has taken into account.
        self.set_mode(path, mode.as_raw_mode())
    }

    /// Gives a special file one more name.
    ///
    /// # Errors
    /// `Disk` with `AlreadyExists`, or what else the system said.
    pub fn link_special(&self, path: &TreePath, name: &TreePath) -> TreeResult<()> {
        let (from, old) = self.parent_of(path)?;
        let (to, new) = self.parent_of(name)?;
        sys::linkat(&from, old, &to, new, AtFlags::empty()).map_err(|error| disk(name, error))
    }
}
