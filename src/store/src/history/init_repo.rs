//! Creation of a repository.

use std::fs;
use std::io;
use std::path::Path;

use git2::{Repository, RepositoryInitOptions};

use super::{HistoryResult, owner};
use crate::STATE_DIRECTORY;

const INITIAL_BRANCH: &str = "main";

/// Creates a repository, completely or not at all: a partial one after a power failure could not be
/// opened.
pub(super) fn create(root: &Path) -> HistoryResult<Repository> {
    let git_dir = root.join(".git");
    let repository = if git_dir.symlink_metadata().is_ok() {
        // `.git` exists, but is no repository yet: initialize it in place.
        init_at(root)?
    } else {
        let temporary = root.join(STATE_DIRECTORY).join("git.new");
        match fs::remove_dir_all(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir_all(&temporary)?;
        owner::give_below(root, STATE_DIRECTORY)?;
        drop(init_at(&temporary)?);
        rustix::fs::syncfs(fs::File::open(&temporary)?).map_err(io::Error::from)?;
        fs::rename(temporary.join(".git"), git_dir)?;
        fs::remove_dir(temporary)?;
        Repository::open(root)?
    };
    owner::give_all(repository.path())?;
    Ok(repository)
}

fn init_at(root: &Path) -> HistoryResult<Repository> {
    let mut options = RepositoryInitOptions::new();
    options.initial_head(INITIAL_BRANCH).external_template(false);
    let repository = Repository::init_opts(root, &options)?;
    let mut config = repository.config()?;
    // Contents are stored unchanged on every platform.
    config.set_bool("core.autocrlf", false)?;
    fs::create_dir_all(repository.path().join("info"))?;
    fs::write(repository.path().join("info/attributes"), "* -text\n")?;
    Ok(repository)
}
