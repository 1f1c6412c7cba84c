//! Spaces that are made and removed with their directory, as S3 clients make and remove buckets.
//!
//! Invariant: no file is adopted or removed. A directory that holds one is neither made a space here nor taken away.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use svcfs_base::{Caller, Change, Fault, Kind, Permissions, Precondition, Protocol, TreePath};
use svcfs_config::templates::CONFIG;

use super::{SpaceCollection, SpaceStatus};
use crate::kernel::Space;

/// What the server keeps in a root, beside what is kept of refused saves: no files of users.
const OF_SERVER: [&str; 3] = [".git", ".svc", ".versions"];
/// What was refused when it was saved, and is nowhere else.
const REJECTED: &str = ".svc/rejected";

impl SpaceCollection {
    /// Makes a space with settings and nothing else, in a directory of its name below the first of the configured ones.
    ///
    /// # Errors
    /// As [`Spaces::create`]; `Exists` where the directory holds a file.
    pub fn create_empty(&self, name: &str, caller: &Caller) -> Result<Arc<Space>, Fault> {
        let root = self.place_of(name)?;
        if let Some(file) = first_file(&root)? {
            let message = format!(
                "the directory `{}` is there already and holds `{}`; `POST /api/spaces` makes a space of what is there",
                root.display(),
                file.display()
            );
            return Err(Fault::new(Kind::Exists, message));
        }
        let space = self.create(name, None)?;
        let settings = TreePath::parse(CONFIG.path)?;
        // Settings are the server's own affair, not the caller's.
        let caller = Caller { protocol: Protocol::Internal, permissions: Permissions::FULL, ..caller.clone() };
        let written = Change::put(settings, CONFIG.content.as_bytes()).with_precondition(Precondition::Absent);
        match space.vfs.apply(&caller, written) {
            Err(fault) if fault.kind() != Kind::PreconditionFailed && fault.kind() != Kind::Exists => Err(fault),
            _ => Ok(space),
        }
    }

    /// Takes a space away from the server and removes its directory, where no file is in it.
    ///
    /// # Errors
    /// `NotEmpty`, and the space stays; as [`Spaces::remove`]; `Unavailable` where the directory cannot be removed.
    pub fn remove_empty(&self, name: &str) -> Result<(), Fault> {
        let _changing = self.changing.lock();
        let root = match self.status(name)? {
            SpaceStatus::Open(space) => {
                space.vfs.wait_committed()?;
                space.vfs.root().to_owned()
            }
            SpaceStatus::Failed(_, _, why) => {
                return Err(Fault::unavailable(format!("the space `{name}` could not be opened: {why}")));
            }
        };
        check_empty(name, &root)?;
        self.take_away(name)?;
        // What was written until it was closed.
        if let Err(fault) = check_empty(name, &root) {
            self.open_and_save(name, root)?;
            return Err(fault);
        }
        let gone = root.with_file_name(format!(".svc-removed-{}", svcfs_base::Timestamp::now().as_nanosecond()));
        let removed = svcfs_store::remove_root(&root, &gone);
        removed.map_err(|error| {
            Fault::unavailable(format!(
                "the space `{name}` is not served any more, but its directory `{}` could not be removed: {error}; remove it on the server's disk",
                root.display()
            ))
            .with_source(error)
        })
    }
}

fn check_empty(name: &str, root: &Path) -> Result<(), Fault> {
    match first_file(root)? {
        None => Ok(()),
        Some(file) => {
            let message = format!("the space `{name}` still holds `{}`; remove its files first", file.display());
            Err(Fault::new(Kind::NotEmpty, message))
        }
    }
}

/// The first that is found below a root of what is neither a directory nor the server's.
fn first_file(root: &Path) -> Result<Option<PathBuf>, Fault> {
    let mut directories = vec![root.to_owned(), root.join(REJECTED)];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| unreadable(&directory, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&directory, error))?;
            let kind = entry.file_type().map_err(|error| unreadable(&directory, error))?;
            let is_of_server = directory == root && OF_SERVER.iter().any(|name| entry.file_name() == *name);
            match kind.is_dir() {
                _ if is_of_server => {}
                true => directories.push(entry.path()),
                false => return Ok(entry.path().strip_prefix(root).map(Path::to_owned).ok()),
            }
        }
    }
    Ok(None)
}

fn unreadable(directory: &Path, error: io::Error) -> Fault {
    Fault::unavailable(format!("`{}` cannot be read: {error}", directory.display())).with_source(error)
}
