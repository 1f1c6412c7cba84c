//! Parts of uploads on the disk, below `.svc/state`: they survive the server, and no door shows them.
//!
//! A part is written under a name of its own, then named in one step by its description; one that is sent again replaces the one before.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind};
use svcfs_listener::BlockSink;
use uuid::Uuid;

use crate::checksums::ContentChecksums;
use crate::multipart_checksum::MultipartChecksum;
use crate::object_metadata::ObjectMetadata;

/// Where uploads are, below the root of their space.
const FOLDER: &str = ".svc/state/s3";
/// The description of an upload, in its folder.
const UPLOAD: &str = "upload.json";
/// What became of one that is completed, in its folder.
const COMPLETED: &str = "completed.json";
/// How long that is told to clients that ask again, and how long what tells nothing is left alone: somebody may be about to begin an upload there.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an upload may take.
pub(crate) const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// An upload that has begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PendingUpload {
    /// Its name.
    pub(crate) id: String,
    /// What it will be.
    pub(crate) key: String,
    /// Whose it is.
    pub(crate) actor: String,
    pub(crate) began: SystemTime,
    /// What the client said of the object.
    pub(crate) record: ObjectMetadata,
    /// The checksum of it, and of each part.
    #[serde(default)]
    pub(crate) checksum: Option<MultipartChecksum>,
}

/// What became of an upload that is completed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CompletedUpload {
    pub(crate) key: String,
    /// The parts it was made of.
    pub(crate) parts: Vec<(i32, [u8; 16])>,
    pub(crate) etag: String,
    pub(crate) version: Option<String>,
    #[serde(default)]
    pub(crate) sums: ContentChecksums,
    when: SystemTime,
}

impl CompletedUpload {
    /// What became of an upload; none of one that is not completed, or was long ago.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn find(root: &Path, id: &str) -> Result<Option<Self>, Fault> {
        if is_name(id) { read(&folder(root).join(id).join(COMPLETED)) } else { Ok(None) }
    }
}

/// A part of one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredPart {
    pub(crate) number: i32,
    /// Its file, beside this description.
    file: String,
    pub(crate) size: u64,
    pub(crate) md5: [u8; 16],
    pub(crate) sums: ContentChecksums,
    pub(crate) modified: SystemTime,
}

/// A part that is being written; gone when it is let go of.
pub(crate) struct PartWriter {
    folder: PathBuf,
    name: String,
    file: File,
    is_named: bool,
}

/// Whether this can be the name of an upload. It becomes part of a path.
fn is_name(id: &str) -> bool {
    id.len() == 32 && Uuid::try_parse(id).is_ok()
}

fn folder(root: &Path) -> PathBuf {
    root.join(FOLDER)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Fault + '_ {
    move |error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Fault::new(Kind::NoSpace, "no space left on the disk for a part").with_source(error)
        }
        // Aborted, completed or over: with its folder.
        ErrorKind::NotFound => Fault::not_found("there is no such upload any more").with_source(error),
        _ => Fault::internal(error).with_context(format!("at `{}`", path.display())),
    }
}

/// Reads a description; none when there is none, or it is half written.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Fault> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path)(error)),
    }
}

/// Writes a description: whole, or not at all.
#[expect(clippy::disallowed_methods, reason = "the server's own state, which no door shows")]
fn describe(path: &Path, description: &impl Serialize) -> Result<(), Fault> {
    let bytes = serde_json::to_vec(description).map_err(Fault::internal)?;
    let fresh = path.with_extension(format!("{}.new", Uuid::new_v4().simple()));
    let written = || {
        let mut file = File::create(&fresh)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)
    };
    written().map_err(failed(path))
}

#[expect(clippy::disallowed_methods, reason = "the server's own state, which no door shows")]
fn remove_file(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(%error, path = %path.display(), "what is left of a part could not be removed");
    }
}

#[expect(clippy::disallowed_methods, reason = "the server's own state, which no door shows")]
fn remove_folder(folder: &Path) -> Result<(), Fault> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(folder)(error)),
        _ => Ok(()),
    }
}

/// Whether nothing has come into a folder for as long as anything is remembered.
fn is_left(folder: &Path) -> bool {
    let modified = std::fs::metadata(folder).and_then(|folder| folder.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > REMEMBERED))
}

impl PendingUpload {
    /// Begins one.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn begin(
        root: &Path,
        key: &str,
        actor: &str,
        record: ObjectMetadata,
        checksum: Option<MultipartChecksum>,
    ) -> Result<Self, Fault> {
        let id = Uuid::new_v4().simple().to_string();
        let (key, actor) = (key.to_owned(), actor.to_owned());
        let upload = Self { id, key, actor, began: SystemTime::now(), record, checksum };
        let folder = folder(root).join(&upload.id);
        std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
        describe(&folder.join(UPLOAD), &upload)?;
        Ok(upload)
    }

    /// The one of this name; none when there is none any more.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn find(root: &Path, id: &str) -> Result<Option<Self>, Fault> {
        if is_name(id) { read(&folder(root).join(id).join(UPLOAD)) } else { Ok(None) }
    }

    /// All of a space, in the order of their keys.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>, Fault> {
        let mut all = Vec::new();
        for id in Self::names(root)? {
            all.extend(Self::find(root, &id)?);
        }
        all.sort_by(|one, other| (&one.key, &one.id).cmp(&(&other.key, &other.id)));
        Ok(all)
    }

    /// The names of all that are here, completed or not.
    fn names(root: &Path) -> Result<Vec<String>, Fault> {
        let folder = folder(root);
        let names = match std::fs::read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&folder)(error)),
        };
        let name = |entry: std::io::Result<std::fs::DirEntry>| match entry {
            Ok(entry) => Ok(entry.file_name().into_string().ok()),
            Err(error) => Err(failed(&folder)(error)),
        };
        names.filter_map(|entry| name(entry).transpose()).collect()
    }

    /// The checksum that each part has.
    pub(crate) fn algorithm(&self) -> Option<&str> {
        self.checksum.as_ref().map(|checksum| checksum.algorithm.as_str())
    }

    /// Whether it has taken too long.
    pub(crate) fn is_over(&self) -> bool {
        self.began.elapsed().is_ok_and(|age| age > LIFETIME)
    }

    /// Begins to write a part.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn part(&self, root: &Path, number: i32) -> Result<PartWriter, Fault> {
        let folder = folder(root).join(&self.id);
        let name = format!("{number:05}-{}.data", Uuid::new_v4().simple());
        let path = folder.join(&name);
        let file = File::options().write(true).create_new(true).open(&path).map_err(failed(&path))?;
        Ok(PartWriter { folder, name, file, is_named: false })
    }

    /// Its parts, in their order.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn parts(&self, root: &Path) -> Result<Vec<StoredPart>, Fault> {
        let folder = folder(root).join(&self.id);
        let mut parts: Vec<StoredPart> = Vec::new();
        for name in std::fs::read_dir(&folder).map_err(failed(&folder))? {
            let path = name.map_err(failed(&folder))?.path();
            let is_part = path.extension().is_some_and(|extension| extension == "json")
                && path.file_name().is_some_and(|name| name != UPLOAD);
            if is_part {
                parts.extend(read(&path)?);
            }
        }
        parts.sort_by_key(|part: &StoredPart| part.number);
        Ok(parts)
    }

    /// Hands the content of a part on, piece by piece.
    ///
    /// # Errors
    /// Those of the disk and of `take`.
    pub(crate) fn read(
        &self,
        root: &Path,
        part: &StoredPart,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let path = folder(root).join(&self.id).join(&part.file);
        let mut file = File::open(&path).map_err(failed(&path))?;
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece).map_err(failed(&path))? {
                0 => return Ok(()),
                length => take(piece.get(..length).unwrap_or_default())?,
            }
        }
    }

    /// Lets go of its parts, and remembers what became of it: a client that has not heard of it asks again.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn completed(
        &self,
        root: &Path,
        parts: &[(i32, [u8; 16])],
        (etag, version, sums): (&str, Option<&str>, &ContentChecksums),
    ) -> Result<(), Fault> {
        let completed = CompletedUpload {
            key: self.key.clone(),
            parts: parts.to_vec(),
            etag: etag.to_owned(),
            version: version.map(str::to_owned),
            sums: sums.clone(),
            when: SystemTime::now(),
        };
        let folder = folder(root).join(&self.id);
        describe(&folder.join(COMPLETED), &completed)?;
        // From here on it is no upload any more.
        remove_file(&folder.join(UPLOAD));
        for name in std::fs::read_dir(&folder).map_err(failed(&folder))? {
            let path = name.map_err(failed(&folder))?.path();
            if path.file_name().is_some_and(|name| name != COMPLETED) {
                remove_file(&path);
            }
        }
        Ok(())
    }

    /// Removes uploads that have taken too long, what is remembered of those that were completed long ago, and what belongs to none; says of which
    /// keys.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn expire(root: &Path) -> Result<Vec<String>, Fault> {
        let mut expired = Vec::new();
        for id in Self::names(root)? {
            match (Self::find(root, &id)?, CompletedUpload::find(root, &id)?) {
                (Some(upload), _) if upload.is_over() => {
                    upload.remove(root)?;
                    expired.push(upload.key);
                }
                (None, Some(completed)) if completed.when.elapsed().is_ok_and(|age| age > REMEMBERED) => {
                    remove_folder(&folder(root).join(&id))?;
                }
                // Of a server that died before it had said what this is, or after.
                (None, None) if is_name(&id) && is_left(&folder(root).join(&id)) => {
                    remove_folder(&folder(root).join(&id))?;
                }
                (Some(_), _) | (None, _) => {}
            }
        }
        Ok(expired)
    }

    /// Removes it with its parts.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn remove(&self, root: &Path) -> Result<(), Fault> {
        remove_folder(&folder(root).join(&self.id))
    }
}

impl PartWriter {
    /// Adds to it.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.file.write_all(data).map_err(failed(&self.folder))
    }

    /// Makes it the part of its number, in place of the one before.
    ///
    /// # Errors
    /// `NotFound` when its upload is gone; those of the disk.
    pub(crate) fn finish(mut self, number: i32, size: u64, md5: [u8; 16], sums: ContentChecksums) -> Result<(), Fault> {
        self.file.sync_all().map_err(failed(&self.folder))?;
        let description = self.folder.join(format!("{number:05}.json"));
        let before: Option<StoredPart> = read(&description)?;
        let part = StoredPart { number, file: self.name.clone(), size, md5, sums, modified: SystemTime::now() };
        describe(&description, &part)?;
        self.is_named = true;
        if let Some(before) = before {
            remove_file(&self.folder.join(before.file));
        }
        Ok(())
    }
}

impl BlockSink for PartWriter {
    fn write_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.append(block)
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        if !self.is_named {
            remove_file(&self.folder.join(&self.name));
        }
    }
}
