//! Recovery of replacements that a crash interrupted.
//!
//! Before the target is renamed to its backup, a record is written below `.svc/state/webdav`. When
//! the space is opened, before any protocol serves it, the backup is restored or removed. If that
//! fails, clients may use either path from then on, so later attempts remove nothing any more.
//!
//! Most replacements are one change set ([`replace`](crate::replace)) and need no record. But a set
//! is limited in size, and files over 64 MiB, empty folders and pipes are in none. The log recovers
//! each step; that the steps belong together is known only here.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Method;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Caller, Fault, Kind, PathComponent, TreePath};
use svcfs_knowledge::kernel::{ServerState, Space};
use uuid::Uuid;

use crate::WebdavServer;
use crate::context::{RequestDetails, WebdavRequestContext};
use crate::folders::{remove, undo_copy};
use crate::resolved::ResolvedResource;

/// The folder of the records, in the state directory.
const RECORDS_FOLDER: &str = "webdav";
/// Extensions of a record, of one whose recovery failed, and of one being written.
const RECORD_EXTENSION: &str = "json";
const FAILED_EXTENSION: &str = "old";
const TEMP_EXTENSION: &str = "new";

/// A replacement.
#[derive(Debug, Serialize, Deserialize)]
struct ReplaceOperation {
    /// The path of the target, and of its backup.
    place: TreePath,
    beside: TreePath,
    /// The requested source.
    from: TreePath,
    /// Whether the source is copied, not moved.
    is_copy: bool,
    actor: String,
    /// Whether the new resource is in place; only the backup is to be removed.
    is_done: bool,
}

/// A stored record.
pub(crate) struct ReplaceRecord {
    file: PathBuf,
    operation: ReplaceOperation,
}

impl ReplaceRecord {
    /// Writes and flushes a record, before the target is renamed. Errors: `NoSpace`.
    pub(crate) fn create(context: &WebdavRequestContext, place: &TreePath, beside: &TreePath) -> Result<Self, Fault> {
        let folder = context.space().vfs.state_directory().join(RECORDS_FOLDER);
        std::fs::create_dir_all(&folder).map_err(io_fault)?;
        let record = Self {
            file: folder.join(format!("{}.{RECORD_EXTENSION}", Uuid::new_v4().simple())),
            operation: ReplaceOperation {
                place: place.clone(),
                beside: beside.clone(),
                from: context.path().unwrap_or(place).clone(),
                is_copy: context.is_copy(),
                actor: context.caller().actor().to_string(),
                is_done: false,
            },
        };
        record.write()?;
        Ok(record)
    }

    /// Records that the new resource is in place.
    pub(crate) fn mark_done(&mut self) -> Result<(), Fault> {
        self.operation.is_done = true;
        self.write()
    }

    /// The backup is gone: removes the record.
    pub(crate) fn finish(self) {
        remove_record(&self.file);
    }

    /// Removes the record durably, as far as the disk allows: recovery must not restore the backup.
    pub(crate) fn discard(self) {
        let folder = self.file.parent().map(File::open);
        self.finish();
        if let Some(Err(error)) = folder.map(|folder| folder?.sync_all()) {
            tracing::warn!(%error, "could not flush the removal of a replacement record");
        }
    }

    /// Marks that recovery failed: from here on, clients may use either path.
    #[expect(clippy::disallowed_methods, reason = "server state, hidden from all protocols")]
    fn mark_failed(self) {
        if let Err(error) = std::fs::rename(&self.file, self.file.with_extension(FAILED_EXTENSION)) {
            tracing::error!(%error, "could not mark the record of a failed recovery");
        }
    }

    fn has_failed_before(&self) -> bool {
        self.file.extension().is_some_and(|extension| extension == FAILED_EXTENSION)
    }

    #[expect(clippy::disallowed_methods, reason = "server state, hidden from all protocols")]
    fn write(&self) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(&self.operation).map_err(Fault::internal)?;
        let temp = self.file.with_extension(TEMP_EXTENSION);
        let write = || {
            let mut file = File::create(&temp)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&temp, &self.file)?;
            File::open(self.file.parent().unwrap_or(&self.file))?.sync_all()
        };
        write().map_err(io_fault)
    }
}

#[expect(clippy::disallowed_methods, reason = "server state, hidden from all protocols")]
fn remove_record(file: &Path) {
    if let Err(error) = std::fs::remove_file(file) {
        // Recovery of a finished replacement finds nothing to do.
        tracing::debug!(%error, "could not remove the record of a finished replacement");
    }
}

fn io_fault(error: io::Error) -> Fault {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Fault::disk_full("the record of the replacement; nothing was changed").with_source(error)
        }
        _ => Fault::internal(error),
    }
}

/// Recovers the interrupted replacements of a space. Call it when the space is opened, before any
/// protocol serves it. A failure is logged, and retried at the next start.
pub fn recover_replacements(server: &Arc<ServerState>, space: &Arc<Space>) {
    let protocol = Arc::new(WebdavServer::new(Arc::clone(server)));
    let records = read_records(&space.vfs.state_directory().join(RECORDS_FOLDER)).unwrap_or_else(|error| {
        tracing::error!(space = space.name, %error, "could not list interrupted replacements");
        Vec::new()
    });
    for record in records {
        match recover(&protocol, space, &record) {
            Ok(()) => record.finish(),
            Err(fault) => {
                let ReplaceOperation { place, beside, .. } = &record.operation;
                tracing::error!(space = space.name, page.path = %place, error = ?fault, "could not recover an interrupted replacement; its backup is at `{beside}`; the next start retries");
                record.mark_failed();
            }
        }
    }
}

/// Reads all records of a folder. An unfinished file is removed: either its replacement had not
/// started, or the complete record exists, too.
fn read_records(folder: &Path) -> io::Result<Vec<ReplaceRecord>> {
    let files = match std::fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut records = Vec::new();
    for file in files {
        let file = file?.path();
        if file.extension().is_some_and(|extension| extension == TEMP_EXTENSION) {
            remove_record(&file);
            continue;
        }
        let read = std::fs::read(&file).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        match read {
            Ok(operation) => records.push(ReplaceRecord { file, operation }),
            Err(error) => {
                tracing::error!(record = %file.display(), %error, "could not read the record of an interrupted replacement; look for `.svc-replaced-…` in the tree");
            }
        }
    }
    Ok(records)
}

/// Restores the backup, or removes it if the new resource is in place.
fn recover(protocol: &Arc<WebdavServer>, space: &Arc<Space>, record: &ReplaceRecord) -> Result<(), Fault> {
    let ReplaceOperation { place, beside, from, is_copy, actor, is_done } = &record.operation;
    let method = if *is_copy { "COPY" } else { "MOVE" };
    let method = Method::from_bytes(method.as_bytes()).map_err(Fault::internal)?;
    let caller = Caller { actor: Some(Actor::new(actor)), ..Caller::new(svcfs_base::Protocol::WebDav) };
    let context = WebdavRequestContext::new(
        Arc::clone(protocol),
        Arc::clone(space),
        caller,
        RequestDetails::for_recovery(method, from.clone()),
    );
    let exists = |path: &TreePath| match ResolvedResource::at_no_follow(&context, path) {
        Ok(_) => Ok(true),
        Err(fault) if fault.kind() == Kind::NotFound => Ok(false),
        Err(fault) => Err(fault),
    };
    if !exists(beside)? {
        return Ok(());
    }
    // A move is atomic: it is done if the source is gone.
    let is_moved = || Ok::<_, Fault>(!is_copy && !record.has_failed_before() && !exists(from)?);
    if exists(place)? && (*is_done || is_moved()?) {
        remove(&context, beside)?;
        tracing::warn!(page.path = %place, "completed an interrupted replacement; removed the backup");
        return Ok(());
    }
    if *is_copy && !record.has_failed_before() && exists(place)? {
        undo_copy(&context, from, place)?;
    }
    if exists(place)? {
        tracing::error!(page.path = %place, "an interrupted replacement was not reverted, because something else is there now; the backup is at `{beside}`");
        return Ok(());
    }
    let folder = ResolvedResource::parent_of(&context, place)?;
    let [old, new] = [beside, place].map(|path| PathComponent::parse(path.name()));
    let folder = folder.node(&context)?;
    space.vfs.rename_node(context.caller(), (folder, &old?), (folder, &new?), false)?;
    tracing::warn!(page.path = %place, "reverted an interrupted replacement");
    space.vfs.wait_applied().map(drop)
}
