//! What a root is like from outside, before anybody opens it: whose it is, whether it can be written, how full its disk is.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::tree::BLANK_PREFIX;
use crate::{DiskUsage, StatePaths};

/// Refused saves, relative to the root; they are their writers' until somebody takes them away.
const REJECTED: &str = ".svc/rejected";

const SUPERUSER: u32 = 0;

/// Of the root, and what svcfs must be able to change below it, those that this process may not write, and why.
pub fn unwritable_paths(root: &Path) -> Vec<(PathBuf, io::Error)> {
    let state = StatePaths::new(root);
    let git = root.join(".git");
    let places = [
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
    let refused = |place: PathBuf| match rustix::fs::accessat(CWD, &place, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(error) if error != Errno::NOENT => Some((place, error.into())),
        Ok(()) | Err(_) => None,
    };
    let mut found: Vec<_> = places.into_iter().filter_map(refused).collect();
    if found.is_empty()
        && let Err(error) = tried(root)
    {
        found.push((root.to_owned(), error));
    }
    found
}

/// Makes a file without a name: a disk that became read-only after an error says so only to whoever writes.
fn tried(root: &Path) -> io::Result<()> {
    let state = StatePaths::new(root).temp_directory();
    let directory = if state.is_dir() { &state } else { root };
    match rustix::fs::open(directory, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        // A disk that knows no such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Files of `.git` and of our state that belong to the superuser in a root that does not, because a command was run here with
/// more rights than it needs: a server of anybody else cannot change them. Other owners are somebody's arrangement.
pub fn misowned_files(root: &Path) -> Vec<PathBuf> {
    let Ok(owner) = fs::metadata(root).map(|stat| stat.uid()) else { return Vec::new() };
    let mut found = Vec::new();
    if owner == SUPERUSER {
        return found;
    }
    for start in [root.join(".git"), StatePaths::new(root).directory().to_owned()] {
        collect(&start, &mut |path, stat| {
            if stat.uid() == SUPERUSER {
                found.push(path.to_owned());
            }
        });
    }
    found
}

/// Gives files to the owner of the root.
///
/// # Errors
/// What the system said; only the superuser may.
pub fn restore_owner(root: &Path, files: &[PathBuf]) -> io::Result<()> {
    let stat = fs::metadata(root)?;
    files.iter().try_for_each(|file| lchown(file, Some(stat.uid()), Some(stat.gid())))
}

/// Size and free space of the disk of a root.
///
/// # Errors
/// What the system said.
pub fn disk_usage(root: &Path) -> io::Result<DiskUsage> {
    Ok(DiskUsage::from(rustix::fs::statvfs(root)?))
}

/// Files that were on their way into the tree when their server was killed. The log has what matters of them.
pub fn leftover_temp_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&StatePaths::new(root).temp_directory(), &mut |path, stat| {
        let is_blank = path.file_name().is_some_and(|name| name.as_bytes().starts_with(BLANK_PREFIX.as_bytes()));
        if !stat.is_dir() && !is_blank {
            found.push(path.to_owned());
        }
    });
    found
}

/// Texts of refused saves.
pub fn rejected_saves(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&root.join(REJECTED), &mut |path, stat| {
        if !stat.is_dir() {
            found.push(path.to_owned());
        }
    });
    found
}

/// Removes files that nobody needs any more.
///
/// # Errors
/// What the system said; one that is gone already is no error.
pub fn remove_files(files: &[PathBuf]) -> io::Result<()> {
    files.iter().try_for_each(|file| match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    })
}

fn collect(start: &Path, note: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let Ok(stat) = fs::symlink_metadata(start) else { return };
    note(start, &stat);
    if stat.is_dir() {
        let mut below: Vec<_> = fs::read_dir(start).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        below.sort();
        below.iter().for_each(|path| collect(path, note));
    }
}
