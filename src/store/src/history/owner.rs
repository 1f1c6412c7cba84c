//! Whose the files of `.git` are: a server that runs as root leaves them to whom the repository belongs.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use git2::Repository;

/// As the root user, gives a file to the owner of the directory it is in; a file that is gone is nobody's.
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

/// As the root user, gives what is on the way from a directory to a file below it to the directory's owner.
pub(crate) fn give_below(directory: &Path, name: &str) -> io::Result<()> {
    let mut path = directory.to_owned();
    for part in Path::new(name) {
        path.push(part);
        give_as_its_directory(&path)?;
    }
    Ok(())
}

/// As the root user, gives a branch and its log to the owner of the repository: a person's `git commit` appends to them.
pub(super) fn give_branch(repository: &Repository, name: &str) -> io::Result<()> {
    give_below(repository.path(), "logs/HEAD")?;
    give_below(repository.commondir(), name)?;
    give_below(&repository.commondir().join("logs"), name)
}

/// As the root user, gives a directory and all that is in it to the owner of the directory it is in.
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
