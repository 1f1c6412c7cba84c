//! Stores the parts of uploads below `.svc/state`, hidden from all protocols; they survive a
//! restart.
//!
//! A part is written under a unique name, then published atomically by its description; a part that
//! is sent again replaces the earlier one.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use svcfs_base::Fault;
use svcfs_listener::BlockSink;
use uuid::Uuid;

use crate::checksums::ContentChecksums;
use crate::multipart_checksum::MultipartChecksum;
use crate::object_metadata::ObjectMetadata;

/// The folder of all uploads, below the root of the space.
const UPLOADS_FOLDER: &str = ".svc/state/s3";
/// The description of an upload, in its folder.
const UPLOAD_FILE: &str = "upload.json";
/// The result of a completed upload, in its folder.
const COMPLETED_FILE: &str = "completed.json";
/// How long results are available for retries, and minimum age of a folder without description
/// before it is removed: an upload may be about to start there.
const COMPLETED_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an upload may take.
pub(crate) const UPLOAD_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// An upload in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PendingUpload {
    pub(crate) id: String,
    pub(crate) key: String,
    /// The actor that created it.
    pub(crate) actor: String,
    pub(crate) began: SystemTime,
    /// The metadata of the object.
    pub(crate) record: ObjectMetadata,
    /// The checksum of the upload and of each part.
    #[serde(default)]
    pub(crate) checksum: Option<MultipartChecksum>,
}

/// The result of a completed upload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CompletedUpload {
    pub(crate) key: String,
    /// Number and MD5 of the parts.
    pub(crate) parts: Vec<(i32, [u8; 16])>,
    pub(crate) etag: String,
    pub(crate) version: Option<String>,
    #[serde(default)]
    pub(crate) sums: ContentChecksums,
    when: SystemTime,
}

impl CompletedUpload {
    /// The result of an upload; `None` when it is not completed, or too long ago.
    pub(crate) fn find(root: &Path, id: &str) -> Result<Option<Self>, Fault> {
        if is_upload_id(id) { read_json(&folder(root).join(id).join(COMPLETED_FILE)) } else { Ok(None) }
    }
}

/// A stored part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredPart {
    pub(crate) number: i32,
    /// The file name, in the folder of this description.
    file: String,
    pub(crate) size: u64,
    pub(crate) md5: [u8; 16],
    pub(crate) sums: ContentChecksums,
    pub(crate) modified: SystemTime,
}

/// A part being written; removed when dropped before it is finished.
pub(crate) struct PartWriter {
    folder: PathBuf,
    name: String,
    file: File,
    is_published: bool,
}

/// Whether this is a valid id. It becomes part of a path.
fn is_upload_id(id: &str) -> bool {
    id.len() == 32 && Uuid::try_parse(id).is_ok()
}

fn folder(root: &Path) -> PathBuf {
    root.join(UPLOADS_FOLDER)
}

fn io_fault(path: &Path) -> impl FnOnce(std::io::Error) -> Fault + '_ {
    move |error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Fault::disk_full("the part").with_source(error),
        // The upload was aborted, completed or expired, and its folder removed.
        ErrorKind::NotFound => {
            Fault::not_found("no such upload: it was completed, aborted or expired").with_source(error)
        }
        _ => Fault::internal(error).with_context(format!("at `{}`", path.display())),
    }
}

/// Reads a JSON file; `None` when it is missing or incomplete.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Fault> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_fault(path)(error)),
    }
}

/// Writes a JSON file atomically.
#[expect(clippy::disallowed_methods, reason = "server state, hidden from all protocols")]
fn write_json(path: &Path, description: &impl Serialize) -> Result<(), Fault> {
    let bytes = serde_json::to_vec(description).map_err(Fault::internal)?;
    let temp = path.with_extension(format!("{}.new", Uuid::new_v4().simple()));
    let write = || {
        let mut file = File::create(&temp)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&temp, path)
    };
    write().map_err(io_fault(path))
}

#[expect(clippy::disallowed_methods, reason = "server state, hidden from all protocols")]
fn remove_file(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(%error, path = %path.display(), "could not remove the file of a part");
    }
}

#[expect(clippy::disallowed_methods, reason = "server state, hidden from all protocols")]
fn remove_folder(folder: &Path) -> Result<(), Fault> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_fault(folder)(error)),
        _ => Ok(()),
    }
}

/// Whether a folder without description was not changed for [`COMPLETED_LIFETIME`].
fn is_abandoned(folder: &Path) -> bool {
    let modified = std::fs::metadata(folder).and_then(|folder| folder.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > COMPLETED_LIFETIME))
}

impl PendingUpload {
    /// Creates an upload.
    pub(crate) fn create(
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
        std::fs::create_dir_all(&folder).map_err(io_fault(&folder))?;
        write_json(&folder.join(UPLOAD_FILE), &upload)?;
        Ok(upload)
    }

    /// Finds an upload in progress by its id.
    pub(crate) fn find(root: &Path, id: &str) -> Result<Option<Self>, Fault> {
        if is_upload_id(id) { read_json(&folder(root).join(id).join(UPLOAD_FILE)) } else { Ok(None) }
    }

    /// All uploads of a space, in key order.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>, Fault> {
        let mut all = Vec::new();
        for id in Self::ids(root)? {
            all.extend(Self::find(root, &id)?);
        }
        all.sort_by(|a, b| (&a.key, &a.id).cmp(&(&b.key, &b.id)));
        Ok(all)
    }

    /// The ids of all uploads, completed or not.
    fn ids(root: &Path) -> Result<Vec<String>, Fault> {
        let folder = folder(root);
        let names = match std::fs::read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_fault(&folder)(error)),
        };
        let name = |entry: std::io::Result<std::fs::DirEntry>| match entry {
            Ok(entry) => Ok(entry.file_name().into_string().ok()),
            Err(error) => Err(io_fault(&folder)(error)),
        };
        names.filter_map(|entry| name(entry).transpose()).collect()
    }

    /// The checksum algorithm of the parts.
    pub(crate) fn algorithm(&self) -> Option<&str> {
        self.checksum.as_ref().map(|checksum| checksum.algorithm.as_str())
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.began.elapsed().is_ok_and(|age| age > UPLOAD_LIFETIME)
    }

    /// Starts to write a part.
    pub(crate) fn start_part(&self, root: &Path, number: i32) -> Result<PartWriter, Fault> {
        let folder = folder(root).join(&self.id);
        let name = format!("{number:05}-{}.data", Uuid::new_v4().simple());
        let path = folder.join(&name);
        let file = File::options().write(true).create_new(true).open(&path).map_err(io_fault(&path))?;
        Ok(PartWriter { folder, name, file, is_published: false })
    }

    /// The stored parts in order.
    pub(crate) fn parts(&self, root: &Path) -> Result<Vec<StoredPart>, Fault> {
        let folder = folder(root).join(&self.id);
        let mut parts: Vec<StoredPart> = Vec::new();
        for name in std::fs::read_dir(&folder).map_err(io_fault(&folder))? {
            let path = name.map_err(io_fault(&folder))?.path();
            let is_part = path.extension().is_some_and(|extension| extension == "json")
                && path.file_name().is_some_and(|name| name != UPLOAD_FILE);
            if is_part {
                parts.extend(read_json(&path)?);
            }
        }
        parts.sort_by_key(|part: &StoredPart| part.number);
        Ok(parts)
    }

    /// Passes the content of a part on, piece by piece. Errors: I/O errors, and those of `consume`.
    pub(crate) fn read(
        &self,
        root: &Path,
        part: &StoredPart,
        consume: &mut dyn FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let path = folder(root).join(&self.id).join(&part.file);
        let mut file = File::open(&path).map_err(io_fault(&path))?;
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece).map_err(io_fault(&path))? {
                0 => return Ok(()),
                length => consume(piece.get(..length).unwrap_or_default())?,
            }
        }
    }

    /// Removes the parts and stores the result for a client that retries.
    pub(crate) fn complete(
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
        write_json(&folder.join(COMPLETED_FILE), &completed)?;
        // From here on, the upload is completed.
        remove_file(&folder.join(UPLOAD_FILE));
        for name in std::fs::read_dir(&folder).map_err(io_fault(&folder))? {
            let path = name.map_err(io_fault(&folder))?.path();
            if path.file_name().is_some_and(|name| name != COMPLETED_FILE) {
                remove_file(&path);
            }
        }
        Ok(())
    }

    /// Removes expired uploads, old results, and folders without description; returns the keys of
    /// the expired uploads.
    pub(crate) fn expire(root: &Path) -> Result<Vec<String>, Fault> {
        let mut expired = Vec::new();
        for id in Self::ids(root)? {
            match (Self::find(root, &id)?, CompletedUpload::find(root, &id)?) {
                (Some(upload), _) if upload.is_expired() => {
                    upload.remove(root)?;
                    expired.push(upload.key);
                }
                (None, Some(completed)) if completed.when.elapsed().is_ok_and(|age| age > COMPLETED_LIFETIME) => {
                    remove_folder(&folder(root).join(&id))?;
                }
                // The process was killed before it wrote the description, or while it removed it.
                (None, None) if is_upload_id(&id) && is_abandoned(&folder(root).join(&id)) => {
                    remove_folder(&folder(root).join(&id))?;
                }
                (Some(_), _) | (None, _) => {}
            }
        }
        Ok(expired)
    }

    /// Removes the upload with its parts.
    pub(crate) fn remove(&self, root: &Path) -> Result<(), Fault> {
        remove_folder(&folder(root).join(&self.id))
    }
}

impl PartWriter {
    /// Appends data.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.file.write_all(data).map_err(io_fault(&self.folder))
    }

    /// Publishes the part, replacing an earlier one of its number. Errors: `NotFound` when the
    /// upload is gone.
    pub(crate) fn finish(mut self, number: i32, size: u64, md5: [u8; 16], sums: ContentChecksums) -> Result<(), Fault> {
        self.file.sync_all().map_err(io_fault(&self.folder))?;
        let description = self.folder.join(format!("{number:05}.json"));
        let earlier: Option<StoredPart> = read_json(&description)?;
        let part = StoredPart { number, file: self.name.clone(), size, md5, sums, modified: SystemTime::now() };
        write_json(&description, &part)?;
        self.is_published = true;
        if let Some(earlier) = earlier {
            remove_file(&self.folder.join(earlier.file));
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
        if !self.is_published {
            remove_file(&self.folder.join(&self.name));
        }
    }
}
