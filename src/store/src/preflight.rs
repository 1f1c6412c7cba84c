//! Checks on a root that is not open: owner, write permission, free space, leftover files.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::tree::TEMP_POOL_PREFIX;
use crate::{DiskUsage, StatePaths};

/// Texts of rejected saves, relative to the root. They stay until a person removes them.
const REJECTED_DIRECTORY: &str = ".svc/rejected";

const SUPERUSER: u32 = 0;

/// The paths that svcfs must write and this process may not, each with the error: the root, its
/// `.git` and its state.
pub fn unwritable_paths(root: &Path) -> Vec<(PathBuf, io::Error)> {
    let state = StatePaths::new(root);
    let git = root.join(".git");
    let paths = [
        root.to_owned(),
        state.directory().to_owned(),
        state.log(),
        state.index(),
        state.spool(),
        state.temp_directory(),
        git.join("objects"),
        git.join("objects/pack"),
        git.join("refs/heads"),
        git,
    ];
    let check = |path: PathBuf| match rustix::fs::accessat(CWD, &path, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(error) if error != Errno::NOENT => Some((path, error.into())),
        Ok(()) | Err(_) => None,
    };
    let mut unwritable: Vec<_> = paths.into_iter().filter_map(check).collect();
    if unwritable.is_empty()
        && let Err(error) = try_write(root)
    {
        unwritable.push((root.to_owned(), error));
    }
    unwritable
}

/// Creates an unnamed file: after an I/O error a remounted read-only disk is noticed only by
/// writing.
fn try_write(root: &Path) -> io::Result<()> {
    let state = StatePaths::new(root).temp_directory();
    let directory = if state.is_dir() { &state } else { root };
    match rustix::fs::open(directory, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        // The file system does not support unnamed files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Files of `.git` and of the state that belong to root (user 0) although the root directory does
/// not. A command was run with `sudo`; the server of another user cannot change them. Other owners
/// are deliberate.
pub fn misowned_files(root: &Path) -> Vec<PathBuf> {
    let Ok(owner) = fs::metadata(root).map(|stat| stat.uid()) else { return Vec::new() };
    let mut files = Vec::new();
    if owner == SUPERUSER {
        return files;
    }
    for start in [root.join(".git"), StatePaths::new(root).directory().to_owned()] {
        collect(&start, &mut |path, stat| {
            if stat.uid() == SUPERUSER {
                files.push(path.to_owned());
            }
        });
    }
    files
}

/// Gives files to the owner of the root directory.
///
/// # Errors
/// The error of lchown(2); only user 0 may.
pub fn restore_owner(root: &Path, files: &[PathBuf]) -> io::Result<()> {
    let stat = fs::metadata(root)?;
    files.iter().try_for_each(|file| lchown(file, Some(stat.uid()), Some(stat.gid())))
}

/// Size and free space of the disk of a root.
///
/// # Errors
/// The error of statvfs(2).
pub fn disk_usage(root: &Path) -> io::Result<DiskUsage> {
    Ok(DiskUsage::from(rustix::fs::statvfs(root)?))
}

/// Temporary files of a killed server. Their contents are in the log as far as they were accepted.
pub fn leftover_temp_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(&StatePaths::new(root).temp_directory(), &mut |path, stat| {
        let is_pooled = path.file_name().is_some_and(|name| name.as_bytes().starts_with(TEMP_POOL_PREFIX.as_bytes()));
        if !stat.is_dir() && !is_pooled {
            files.push(path.to_owned());
        }
    });
    files
}

/// Texts of rejected saves.
pub fn rejected_saves(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(&root.join(REJECTED_DIRECTORY), &mut |path, stat| {
        if !stat.is_dir() {
            files.push(path.to_owned());
        }
    });
    files
}

/// Removes files.
///
/// # Errors
/// The error of unlink(2); a file that does not exist is no error.
pub fn remove_files(files: &[PathBuf]) -> io::Result<()> {
    files.iter().try_for_each(|file| match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    })
}

fn collect(start: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let mut pending = vec![start.to_owned()];
    while let Some(path) = pending.pop() {
        let Ok(stat) = fs::symlink_metadata(&path) else { continue };
        visit(&path, &stat);
        if stat.is_dir() {
            let mut below: Vec<_> =
                fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            below.sort_by(|a, b| b.cmp(a));
            pending.append(&mut below);
        }
    }
}
