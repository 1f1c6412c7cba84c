//! Spaces that are created and removed with their directory, as S3 buckets.
//!
//! Invariant: no file is adopted or removed. A directory with a file is neither made a space here
//! nor removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use svcfs_base::{Caller, Change, Fault, Kind, Precondition, TreePath};
use svcfs_config::templates::CONFIG;

use super::{SpaceCollection, SpaceStatus};
use crate::kernel::Space;

/// Directories of the server in a root; they contain no user files.
const SERVER_FOLDERS: [&str; 3] = [".git", ".svc", ".versions"];
/// Rejected saves: user content that is stored nowhere else.
const REJECTED_FOLDER: &str = ".svc/rejected";

impl SpaceCollection {
    /// Creates a space with only a settings file, in a directory with its name below the first
    /// configured one.
    ///
    /// # Errors
    /// As [`create`](Self::create); `Exists` if the directory has a file.
    pub fn create_empty(&self, name: &str, caller: &Caller) -> Result<Arc<Space>, Fault> {
        let root = self.resolve_root(name)?;
        if let Some(file) = first_file(&root)? {
            let message = format!(
                "the directory `{}` already exists and contains `{}`; use `POST /api/spaces` to make a space of existing files",
                root.display(),
                file.display()
            );
            return Err(Fault::new(Kind::Exists, message));
        }
        // The server writes the settings, whatever the caller's permissions.
        let caller = caller.as_server();
        self.create((name, None), |space| {
            let settings = TreePath::parse(CONFIG.path)?;
            let change = Change::put(settings, CONFIG.content.as_bytes()).with_precondition(Precondition::Absent);
            match space.vfs.apply(&caller, change) {
                Err(fault) if fault.kind() != Kind::PreconditionFailed && fault.kind() != Kind::Exists => Err(fault),
                _ => Ok(()),
            }
        })
    }

    /// Removes a space from the server, and its directory if it has no files.
    ///
    /// # Errors
    /// `NotEmpty`, and the space stays; as [`remove`](Self::remove); `Unavailable` if the directory
    /// cannot be removed.
    pub fn remove_empty(&self, name: &str) -> Result<(), Fault> {
        let _guard = self.change_lock.lock();
        let root = match self.status(name)? {
            SpaceStatus::Open(space) => {
                space.vfs.wait_committed()?;
                space.vfs.root().to_owned()
            }
            SpaceStatus::Failed(_, _, error) => {
                return Err(Fault::unavailable(format!("the space `{name}` cannot be opened: {error}")));
            }
        };
        check_empty(name, &root)?;
        self.remove_locked(name)?;
        // Files may have been written until the space was closed.
        if let Err(fault) = check_empty(name, &root) {
            self.open_and_save((name, root), |_| Ok(()))?;
            return Err(fault);
        }
        let trash = root.with_file_name(format!(".svc-removed-{}", svcfs_base::Timestamp::now().as_nanosecond()));
        let removed = svcfs_store::remove_root(&root, &trash);
        removed.map_err(|error| {
            Fault::unavailable(format!(
                "the space `{name}` was removed from the server, but not its directory `{}`: {error}; remove it on the server's disk",
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
            let message = format!("the space `{name}` still contains `{}`; remove its files first", file.display());
            Err(Fault::new(Kind::NotEmpty, message))
        }
    }
}

/// Any file below a root that is not the server's.
fn first_file(root: &Path) -> Result<Option<PathBuf>, Fault> {
    let mut directories = vec![root.to_owned(), root.join(REJECTED_FOLDER)];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| unreadable(&directory, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&directory, error))?;
            let kind = entry.file_type().map_err(|error| unreadable(&directory, error))?;
            let is_server_folder = directory == root && SERVER_FOLDERS.iter().any(|name| entry.file_name() == *name);
            match kind.is_dir() {
                _ if is_server_folder => {}
                true => directories.push(entry.path()),
                false => return Ok(entry.path().strip_prefix(root).map(Path::to_owned).ok()),
            }
        }
    }
    Ok(None)
}

fn unreadable(directory: &Path, error: io::Error) -> Fault {
    Fault::unavailable(format!("cannot read `{}`: {error}", directory.display())).with_source(error)
}
