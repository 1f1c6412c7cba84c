//! Backups as git bundles: a full one, then one per backup with what is new.
//!
//! Invariant: the manifest is written last and names every object with its SHA-256. What it does
//! not name, from an interrupted backup, is overwritten or removed by a later one.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use svcfs_base::Timestamp;
use tempfile::TempPath;

use crate::error::BackupError;
use crate::git::{Git, failure};
use crate::local_refs::{LocalRefs, RefMap, SCRATCH_REFS};
use crate::record;
use crate::run::BackupOutcome;
use crate::state_files::{self, BUNDLED};
use crate::stores::{BundleStore, MANIFEST};

const FORMAT: &str = "svcfs-backup";
const VERSION: u32 = 1;
/// After this many bundles with what is new, or when they are larger than the full one, the next
/// is a full one again.
const MAX_INCREMENTS: usize = 100;
const MIN_INCREMENT_BYTES: u64 = 64 << 20;
const BUFFER_BYTES: usize = 1 << 16;

/// The list of a backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: String,
    version: u32,
    pub created_at: Timestamp,
    /// The branch to check out.
    pub head: String,
    /// Every ref of the backup.
    pub refs: RefMap,
    /// A full bundle and those after it, oldest first.
    pub bundles: Vec<StoredObject>,
    /// Files of the state directory.
    #[serde(default)]
    pub files: Vec<StoredObject>,
    /// The objects of the chain of bundles before this one, as a second chance.
    #[serde(default)]
    pub previous: Vec<StoredObject>,
}

/// An object of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredObject {
    /// Its name at the remote.
    pub object: String,
    /// The name of the file of the state directory that it contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub bytes: u64,
    pub sha256: String,
}

impl Manifest {
    /// Reads the manifest; none if there is no backup yet.
    ///
    /// # Errors
    /// When it cannot be read or is of another program or version.
    pub fn read(store: &dyn BundleStore) -> Result<Option<Self>, BackupError> {
        let Some(text) = store.read(MANIFEST)? else { return Ok(None) };
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|error| BackupError::refused(format!("`{MANIFEST}` of the backup cannot be read: {error}")))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            let message =
                format!("`{MANIFEST}` has version {} of `{}`; use a newer svcfs", manifest.version, manifest.format);
            return Err(BackupError::refused(message));
        }
        // Names become paths and git arguments.
        let is_name = |name: &str| !name.is_empty() && !name.starts_with(['.', '-']) && !name.contains(['/', '\0']);
        let is_id = |id: &String| id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_ref =
            |name: &String| name.starts_with("refs/") && !name.contains([' ', '\n', '\0']) && !name.contains("..");
        if !manifest.objects().all(|stored| is_name(&stored.object))
            || !manifest.refs.iter().all(|(name, id)| is_ref(name) && is_id(id))
        {
            return Err(BackupError::refused(format!("`{MANIFEST}` of the backup has an invalid name")));
        }
        Ok(Some(manifest))
    }

    /// Everything that is stored beside the manifest.
    fn objects(&self) -> impl Iterator<Item = &StoredObject> {
        self.bundles.iter().chain(&self.files).chain(&self.previous)
    }

    fn next_number(&self) -> u64 {
        let number =
            |stored: &StoredObject| stored.object.split(['.', '-']).next().and_then(|it| it.parse::<u64>().ok());
        self.objects().filter_map(number).max().unwrap_or_default() + 1
    }

    fn needs_full_bundle(&self) -> bool {
        let Some((full, rest)) = self.bundles.split_first() else { return true };
        let bytes: u64 = rest.iter().map(|stored| stored.bytes).sum();
        rest.len() >= MAX_INCREMENTS || bytes > full.bytes.max(MIN_INCREMENT_BYTES)
    }
}

/// Stores what is new since the last backup, and checks that it can be read back.
///
/// # Errors
/// `refused` also for a place that had a backup at `last_verified` and has none now.
pub(crate) fn back_up(
    git: Git<'_>,
    store: &dyn BundleStore,
    local: &LocalRefs,
    last_verified: Option<Timestamp>,
) -> Result<BackupOutcome, BackupError> {
    let mut outcome = BackupOutcome::default();
    git.context().enter("reading the last backup");
    let old = Manifest::read(store)?;
    if let (None, Some(verified)) = (&old, last_verified) {
        return Err(BackupError::lost(verified, &format!("`{MANIFEST}`")));
    }
    if git.read(&["rev-parse", "--is-shallow-repository"])? == "true" {
        let message = "the repository is shallow, and bundles of it could not be restored; run `git fetch --unshallow`";
        return Err(BackupError::refused(message));
    }
    outcome.head = Some(local.tip().to_owned());
    if let Some(old) = &old {
        check_history(git, old)?;
    }
    let mut files = Vec::new();
    for name in BUNDLED {
        if let Some((scratch, copy)) = state_files::snapshot(git.directory(), name)? {
            files.push((name, digest(&copy)?.0, copy, scratch));
        }
    }
    let has_files = |old: &Manifest| {
        let is_stored = |sha256: &String| old.files.iter().any(|stored| stored.sha256 == *sha256);
        old.files.len() == files.len() && files.iter().all(|(_, sha256, _, _)| is_stored(sha256))
    };
    let is_complete = match &old {
        Some(old) => has_objects(store, old)?,
        None => false,
    };
    if let Some(old) = &old
        && is_complete
        && old.refs == local.refs
        && old.head == local.head
        && has_files(old)
    {
        return Ok(outcome);
    }
    let base = old.as_ref().filter(|old| is_complete && !old.needs_full_bundle());
    let mut number = old.as_ref().map_or(1, Manifest::next_number);
    // Bundles whose manifest was lost stay: they may be all that there is.
    while old.is_none() && store.size(&bundle_name(number))?.is_some() {
        number += 1;
    }
    git.context().enter(if base.is_some() { "writing a bundle with what is new" } else { "writing a full bundle" });
    set_snapshot_refs(git, &local.refs)?;
    let bundle = make_bundle(git, store, (&local.refs, base.map(|old| &old.refs)))?;
    let mut manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        created_at: Timestamp::now(),
        head: local.head.clone(),
        refs: local.refs.clone(),
        bundles: base.map(|old| old.bundles.clone()).unwrap_or_default(),
        files: Vec::new(),
        previous: match (&old, base) {
            (Some(old), None) => old.bundles.clone(),
            (Some(old), Some(_)) => old.previous.clone(),
            (None, _) => Vec::new(),
        },
    };
    if let Some(bundle) = bundle {
        manifest.bundles.push(store_checked(git, store, (&bundle_name(number), &bundle, None))?);
        outcome.sent_refs += 1;
    }
    for (name, _, copy, _) in &files {
        manifest.files.push(store_checked(git, store, (&format!("{number:06}-{name}"), copy, Some(name)))?);
    }
    outcome.sent_refs = outcome.sent_refs.max(1);
    git.context().check()?;
    write_manifest(store, &manifest)?;
    if let Some(old) = &old {
        remove_unnamed(store, old, &manifest);
    }
    Ok(outcome)
}

fn bundle_name(number: u64) -> String {
    format!("{number:06}.bundle")
}

/// Refuses to overwrite the backup of another knowledge base.
fn check_history(git: Git<'_>, old: &Manifest) -> Result<(), BackupError> {
    match old.refs.get(&old.head) {
        Some(tip) if !git.has_commit(tip)? => Err(BackupError::refused(
            "the remote has the backup of another knowledge base, or one with commits that are not here; use another \
             directory or prefix",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Whether all objects are there in full; a drill reads them.
fn has_objects(store: &dyn BundleStore, manifest: &Manifest) -> Result<bool, BackupError> {
    for stored in manifest.bundles.iter().chain(&manifest.files) {
        if store.size(&stored.object)? != Some(stored.bytes) {
            return Ok(false);
        }
    }
    Ok(!manifest.bundles.is_empty())
}

/// Refs with the state of this moment: writers move the others meanwhile. They stay until the next
/// backup, so that git does not remove the objects that the next bundle builds on.
fn set_snapshot_refs(git: Git<'_>, refs: &RefMap) -> Result<(), BackupError> {
    let prefix = format!("{SCRATCH_REFS}snapshot/");
    let listed = git.read(&["for-each-ref", "--format=%(refname)", &prefix])?;
    let wanted: Vec<String> = refs.keys().map(|name| snapshot_name(name)).collect();
    let removed = listed.lines().filter(|name| !wanted.iter().any(|wanted| wanted == name));
    let mut input: String = removed.map(|name| format!("delete {name}\n")).collect();
    refs.iter().for_each(|(name, id)| input.push_str(&format!("update {} {id}\n", snapshot_name(name))));
    git.command(["update-ref", "--stdin"]).input(input).read().map(drop)
}

fn snapshot_name(name: &str) -> String {
    format!("{SCRATCH_REFS}snapshot/{}", name.trim_start_matches("refs/"))
}

/// Makes a bundle of the objects that `refs` need and `base` has not; none if there are none.
fn make_bundle(
    git: Git<'_>,
    store: &dyn BundleStore,
    (refs, base): (&RefMap, Option<&RefMap>),
) -> Result<Option<TempPath>, BackupError> {
    let mut input: String = refs.keys().map(|name| format!("{}\n", snapshot_name(name))).collect();
    for id in base.into_iter().flat_map(RefMap::values) {
        if git.command(["cat-file", "-e", id]).run()?.is_success() {
            input.push_str(&format!("^{id}\n"));
        }
    }
    if base.is_some()
        && git.command(["rev-list", "--objects", "-n", "1", "--stdin"]).input(input.clone()).long().read()?.is_empty()
    {
        return Ok(None);
    }
    let state = record::directory(git.directory());
    let directory = store.staging_directory().unwrap_or(&state);
    let file = tempfile::Builder::new().prefix(".new-").suffix(".bundle").tempfile_in(directory);
    let path = file.map_err(|error| BackupError::io("write to", directory, &error))?.into_temp_path();
    let text = path.to_string_lossy();
    let made = git.command(["bundle", "create", "-q", &text, "--stdin"]).input(input).long().run()?;
    if !made.is_success() {
        // git removes nothing that it wrote with a lock file of its own.
        let _removed = std::fs::remove_file(format!("{text}.lock"));
        return Err(failure("bundle create", &made.error));
    }
    git.command(["bundle", "verify", "-q", &text]).long().read()?;
    Ok(Some(path))
}

/// Stores a file and reads it back, unless the run is to stop.
fn store_checked(
    git: Git<'_>,
    store: &dyn BundleStore,
    (object, path, file): (&str, &Path, Option<&str>),
) -> Result<StoredObject, BackupError> {
    git.context().check()?;
    let (sha256, bytes) = digest(path)?;
    let stored = StoredObject { object: object.to_owned(), file: file.map(str::to_owned), bytes, sha256 };
    git.context().enter("sending");
    store.store(object, path)?;
    git.context().check()?;
    git.context().enter("checking");
    fetch_checked(git.directory(), store, &stored)?;
    Ok(stored)
}

/// Fetches an object into a temporary file of a root's state and checks it.
pub(crate) fn fetch_checked(
    root: &Path,
    store: &dyn BundleStore,
    stored: &StoredObject,
) -> Result<TempPath, BackupError> {
    let directory = record::directory(root);
    std::fs::create_dir_all(&directory).map_err(|error| BackupError::io("create", &directory, &error))?;
    let file = tempfile::Builder::new().prefix("fetched-").tempfile_in(&directory);
    let path = file.map_err(|error| BackupError::io("write to", &directory, &error))?.into_temp_path();
    store.fetch(&stored.object, &path)?;
    let (sha256, bytes) = digest(&path)?;
    if sha256 == stored.sha256 && bytes == stored.bytes {
        return Ok(path);
    }
    Err(BackupError::failed(format!(
        "`{}` of the backup is damaged: it has {bytes} bytes with SHA-256 {sha256}, and should have {} with {}",
        stored.object, stored.bytes, stored.sha256
    )))
}

fn write_manifest(store: &dyn BundleStore, manifest: &Manifest) -> Result<(), BackupError> {
    let text = serde_json::to_vec_pretty(manifest).map_err(|error| BackupError::failed(error.to_string()))?;
    store.write(MANIFEST, &text)?;
    match store.read(MANIFEST)? {
        Some(read) if read == text => Ok(()),
        Some(_) | None => Err(BackupError::failed(format!(
            "`{MANIFEST}` was not stored as written; does another svcfs back up there?"
        ))),
    }
}

/// Removes what the new manifest does not name any more. A failure wastes only space.
fn remove_unnamed(store: &dyn BundleStore, old: &Manifest, new: &Manifest) {
    let all =
        |manifest: &'_ Manifest| -> Vec<String> { manifest.objects().map(|stored| stored.object.clone()).collect() };
    let named = all(new);
    for object in all(old).iter().filter(|object| !named.contains(object)) {
        if let Err(error) = store.remove(object) {
            tracing::warn!(%error, "an old part of the backup cannot be removed");
        }
    }
}

/// SHA-256 and size of a file.
fn digest(path: &Path) -> Result<(String, u64), BackupError> {
    let read = || -> io::Result<(String, u64)> {
        let (mut file, mut hasher, mut bytes) = (File::open(path)?, Sha256::new(), 0);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            bytes += count as u64;
        }
        Ok((svcfs_base::to_hex(&hasher.finalize()), bytes))
    };
    read().map_err(|error| BackupError::io("read", path, &error))
}
