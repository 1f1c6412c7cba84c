//! Ownership of files in `.git`: a server running as root gives them to the owner of the
//! repository.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use git2::Repository;

/// As root, gives a file to the owner of its directory; a missing file is no error.
pub(crate) fn give_as_its_directory(file: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Some(directory) = file.parent() else { return Ok(()) };
    match fs::metadata(directory).and_then(|stat| give(file, (stat.uid(), stat.gid()))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// As root, gives the path components below a directory to that directory's owner.
pub(crate) fn give_below(directory: &Path, name: &str) -> io::Result<()> {
    let mut path = directory.to_owned();
    for part in Path::new(name) {
        path.push(part);
        give_as_its_directory(&path)?;
    }
    Ok(())
}

/// As root, gives a branch and its reflog to the owner of the repository, whose `git commit`
/// appends to them.
pub(super) fn give_branch(repository: &Repository, name: &str) -> io::Result<()> {
    give_below(repository.path(), "logs/HEAD")?;
    give_below(repository.commondir(), name)?;
    give_below(&repository.commondir().join("logs"), name)
}

/// As root, gives a directory with its contents to the owner of its parent directory.
pub(super) fn give_all(directory: &Path) -> io::Result<()> {
    give_as_its_directory(directory)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give_all(&entry.path())?;
        } else {
            give_as_its_directory(&entry.path())?;
        }
    }
    Ok(())
}

fn give(file: &Path, owner: (u32, u32)) -> io::Result<()> {
    let stat = fs::symlink_metadata(file)?;
    if (stat.uid(), stat.gid()) == owner {
        return Ok(());
    }
    lchown(file, Some(owner.0), Some(owner.1))
}
