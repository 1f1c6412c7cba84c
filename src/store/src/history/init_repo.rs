//! A repository where there is none.

use std::fs;
use std::io;
use std::path::Path;

use git2::{Repository, RepositoryInitOptions};

use super::{HistoryResult, owner};
use crate::STATE_DIRECTORY;

const INITIAL_BRANCH: &str = "main";

/// Makes a repository, whole or not at all: a power cut in the middle would leave one that nobody can open.
pub(super) fn repository(root: &Path) -> HistoryResult<Repository> {
    let place = root.join(".git");
    let repository = if place.symlink_metadata().is_ok() {
        // Something of somebody's that is no repository yet: made one where it stands.
        init_at(root)?
    } else {
        let nursery = root.join(STATE_DIRECTORY).join("git.new");
        match fs::remove_dir_all(&nursery) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir_all(&nursery)?;
        owner::give_below(root, STATE_DIRECTORY)?;
        drop(init_at(&nursery)?);
        rustix::fs::syncfs(fs::File::open(&nursery)?).map_err(io::Error::from)?;
        fs::rename(nursery.join(".git"), place)?;
        fs::remove_dir(nursery)?;
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
    // Bytes are kept as written, whatever the platform's habit (gaps.md 4.4).
    config.set_bool("core.autocrlf", false)?;
    fs::create_dir_all(repository.path().join("info"))?;
    fs::write(repository.path().join("info/attributes"), "* -text\n")?;
    Ok(repository)
}
