//! A root from a backup.
//!
//! Invariant: the directory appears under its name when it is complete, and not before.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use svcfs_store::StatePaths;

use crate::bundles::{Manifest, fetch_checked};
use crate::error::BackupError;
use crate::git::{Git, RunContext};
use crate::local_refs::{BACKED_UP, RefMap, read_refs};
use crate::push;
use crate::state_files::{BUNDLED, restore_drafts, write_state};
use crate::stores::BundleStore;
use crate::target::{BackupTarget, GitRemote, TargetUse, absolute};

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RestoreReport {
    /// The branch that was checked out.
    pub branch: String,
    /// Its newest commit.
    pub head: String,
    /// Number of commits of all branches.
    pub commits: u64,
    /// Number of files.
    pub files: u64,
    /// Number of branches, tags and other refs.
    pub refs: usize,
    /// Files of the state directory, such as open drafts.
    pub state: Vec<String>,
    /// Duration in milliseconds.
    pub took_ms: u64,
}

/// Restores a root from a git remote, a directory of bundles or `s3://BUCKET/PREFIX`, with its
/// complete history, into a directory that is empty or does not exist.
///
/// # Errors
/// When the backup cannot be read or is damaged, or the directory has files. Nothing is left then.
pub fn restore(
    from: &str,
    to: &Path,
    (branch, context): (Option<&str>, RunContext<'_>),
) -> Result<RestoreReport, BackupError> {
    let started = Instant::now();
    let to = std::path::absolute(to).map_err(|error| BackupError::io("find", to, &error))?;
    check_destination(&to)?;
    let target = BackupTarget::parse(&absolute(from), TargetUse::Restore)?;
    // The password, and whether there is a backup, before anything is created.
    let backup = find_backup(&target, context)?;
    let parent = to.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(|error| BackupError::io("create", parent, &error))?;
    let scratch = tempfile::Builder::new().prefix(".svcfs-restore-").tempdir_in(parent);
    let scratch = scratch.map_err(|error| BackupError::io("write to", parent, &error))?;
    let root = scratch.path().join("root");
    let mut report = restore_into(backup, &root, (branch, context))?;
    install(&root, &to, parent).map_err(|error| BackupError::io("write", &to, &error))?;
    report.took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

fn check_destination(to: &Path) -> Result<(), BackupError> {
    let shown = to.display();
    match to.read_dir().map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(BackupError::refused(format!("`{shown}` is not empty; give a new directory"))),
        Ok(false) if is_fixed(to) => Err(BackupError::refused(format!(
            "`{shown}` is a link or a mount point and cannot be replaced; give a new directory, such as `{shown}/notes`"
        ))),
        Ok(false) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::io("use", to, &error)),
    }
}

/// A target that has a backup.
pub(crate) enum FoundBackup<'a> {
    Git(&'a GitRemote),
    Bundles(&'a dyn BundleStore, Manifest),
}

/// Checks that a target can be read and has a backup.
///
/// # Errors
/// `refused` without a backup.
pub(crate) fn find_backup<'a>(
    target: &'a BackupTarget,
    context: RunContext<'_>,
) -> Result<FoundBackup<'a>, BackupError> {
    context.enter("asking the remote");
    match target {
        BackupTarget::Git(remote) => match push::list(Git::new(Path::new("/"), context), remote)?.is_empty() {
            true => Err(BackupError::refused("the remote has no branch")),
            false => Ok(FoundBackup::Git(remote)),
        },
        BackupTarget::Bundles(store) => match Manifest::read(&**store)? {
            Some(manifest) => Ok(FoundBackup::Bundles(&**store, manifest)),
            None => Err(BackupError::refused("there is no backup: `manifest.json` is missing")),
        },
    }
}

/// Whether a directory cannot be replaced by another one: it is a link, or something is mounted
/// there, perhaps of the same file system.
fn is_fixed(directory: &Path) -> bool {
    let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
    let parent = directory.parent().unwrap_or(directory);
    let mount = |path: &Path| statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok().map(|found| found.stx_mnt_id);
    directory.is_symlink() || device(directory) != device(parent) || mount(directory) != mount(parent)
}

/// Flushes the complete directory, and gives it its name.
fn install(root: &Path, to: &Path, parent: &Path) -> std::io::Result<()> {
    rustix::fs::syncfs(File::open(root)?)?;
    // An empty directory of that name is replaced.
    fs::rename(root, to)?;
    File::open(parent)?.sync_all()
}

/// The same into a directory that does not exist, without the care for its name.
pub(crate) fn restore_into(
    backup: FoundBackup<'_>,
    root: &Path,
    (branch, context): (Option<&str>, RunContext<'_>),
) -> Result<RestoreReport, BackupError> {
    fs::create_dir(root).map_err(|error| BackupError::io("create", root, &error))?;
    let git = Git::new(root, context);
    git.read(&["init", "-q"])?;
    // The files must be those of the commits on every machine.
    git.read(&["config", "core.autocrlf", "false"])?;
    let (head, mut state) = match backup {
        FoundBackup::Git(remote) => (fetch_all(git, remote)?, Vec::new()),
        FoundBackup::Bundles(store, manifest) => unbundle(git, store, &manifest)?,
    };
    let refs = read_refs(git)?;
    let branch = choose_branch(&refs, head, branch)?;
    context.enter("checking out the files");
    git.read(&["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])?;
    git.command(["reset", "-q", "--hard"]).long().read()?;
    check_state_directory(root)?;
    if restore_drafts(git)? {
        state.insert(0, crate::state_files::DRAFTS.to_owned());
    }
    let scratch = crate::record::directory(root);
    if scratch.exists() {
        fs::remove_dir_all(&scratch).map_err(|error| BackupError::io("remove", &scratch, &error))?;
    }
    context.enter("checking the objects");
    let checked = git.command(["fsck", "--connectivity-only", "--no-dangling", "--no-progress"]).long().run()?;
    if !checked.is_success() {
        let problems = checked.text().lines().take(3).collect::<Vec<_>>().join("; ");
        return Err(BackupError::failed(format!("the backup is incomplete: {problems} {}", checked.error)));
    }
    let commits = git.command(["rev-list", "--count", "--all"]).long().read()?.parse().unwrap_or_default();
    let files = git.command(["ls-files", "-z"]).long().run()?.stdout.iter().filter(|byte| **byte == 0).count() as u64;
    let head = git.read(&["rev-parse", "HEAD"])?;
    Ok(RestoreReport { branch, head, commits, files, refs: refs.len(), state, took_ms: 0 })
}

/// Refuses a backup whose files make the state directory a link: what is written and removed there
/// would be outside the root.
fn check_state_directory(root: &Path) -> Result<(), BackupError> {
    let state = StatePaths::new(root);
    for directory in [state.directory().parent().unwrap_or(root), state.directory()] {
        if fs::symlink_metadata(directory).is_ok_and(|found| !found.is_dir()) {
            let name = directory.strip_prefix(root).unwrap_or(directory).display();
            return Err(BackupError::refused(format!("`{name}` of the backup is a link or a file, not a directory")));
        }
    }
    Ok(())
}

/// Fetches every ref of a remote; returns the branch that it checks out itself.
fn fetch_all(git: Git<'_>, remote: &GitRemote) -> Result<Option<String>, BackupError> {
    git.context().enter("asking the remote");
    let credentials = remote.credentials.as_ref();
    let head = git.command(["ls-remote", "--symref", "--", &remote.url, "HEAD"]).credentials(credentials).read()?;
    let head =
        head.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.split('\t').next().map(str::to_owned));
    git.context().enter("fetching");
    let arguments =
        ["-c", "fetch.fsckObjects=true", "fetch", "-q", "--no-tags", "--no-write-fetch-head", "--update-head-ok", "--"];
    let refspecs = BACKED_UP.map(|prefix| format!("+{prefix}*:{prefix}*"));
    let arguments = arguments.into_iter().chain([remote.url.as_str()]).chain(refspecs.iter().map(String::as_str));
    git.command(arguments).credentials(credentials).long().read()?;
    Ok(head)
}

/// Unpacks all bundles; returns the branch to check out, and the restored files of the state.
fn unbundle(
    git: Git<'_>,
    store: &dyn BundleStore,
    manifest: &Manifest,
) -> Result<(Option<String>, Vec<String>), BackupError> {
    for (index, stored) in manifest.bundles.iter().enumerate() {
        git.context().enter(&format!("reading bundle {} of {}", index + 1, manifest.bundles.len()));
        let bundle = fetch_checked(git.directory(), store, stored)?;
        git.command(["bundle", "unbundle", &bundle.to_string_lossy()]).long().read()?;
    }
    let updates: String = manifest.refs.iter().map(|(name, id)| format!("create {name} {id}\n")).collect();
    git.command(["update-ref", "--stdin"]).input(updates).read()?;
    let mut state = Vec::new();
    for stored in &manifest.files {
        let Some(name) = BUNDLED.into_iter().find(|name| stored.file.as_deref() == Some(name)) else { continue };
        let copy = fetch_checked(git.directory(), store, stored)?;
        let content = fs::read(&copy).map_err(|error| BackupError::io("read", &copy, &error))?;
        write_state(git.directory(), name, &content)?;
        state.push(name.to_owned());
    }
    Ok((manifest.head.strip_prefix("refs/heads/").map(str::to_owned), state))
}

/// The branch to check out: the one that was asked for, else that of the backup, else the only one.
fn choose_branch(refs: &RefMap, head: Option<String>, asked_for: Option<&str>) -> Result<String, BackupError> {
    let branches = || refs.keys().filter_map(|name| name.strip_prefix("refs/heads/"));
    let exists = |branch: &str| branches().any(|name| name == branch);
    let is_draft = |name: &&str| name.starts_with("draft/") || name.starts_with("lost-draft/");
    let main: Vec<&str> = branches().filter(|name| !is_draft(name)).collect();
    let names = || main.iter().take(10).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (asked_for, head, main.as_slice()) {
        (Some(branch), _, _) if exists(branch) => Ok(branch.to_owned()),
        (Some(branch), _, _) => {
            Err(BackupError::refused(format!("the backup has no branch `{branch}`; it has {}", names())))
        }
        (None, Some(head), _) if exists(&head) => Ok(head),
        (None, _, [only]) => Ok((*only).to_owned()),
        (None, _, _) if exists("main") => Ok("main".to_owned()),
        (None, _, []) => Err(BackupError::refused("the backup has no branch")),
        (None, _, _) => Err(BackupError::refused(format!(
            "the backup has several branches; choose one with `--branch`: {}",
            names()
        ))),
    }
}

/// Where a scratch copy of the backup fits.
pub(crate) fn scratch_root(directory: &Path) -> Result<(tempfile::TempDir, PathBuf), BackupError> {
    let scratch = tempfile::Builder::new().prefix("drill-").tempdir_in(directory);
    let scratch = scratch.map_err(|error| BackupError::io("write to", directory, &error))?;
    let root = scratch.path().join("root");
    Ok((scratch, root))
}
