//! Replacings that a kill or a power cut interrupts.
//!
//! What is beside its place while something else takes it is written down, below `.svc/state/webdav`, and is put back or taken away when the space is
//! opened again: before any door is, so that nobody meets it. Where that fails, people may work at either place from then on, and nothing of what
//! stands there is taken away any more.
//!
//! Why is a replacing not one change set, of which nothing could be left over? Most are ([`replaced`](crate::replaced)). But a set has room for as
//! much as one version, and what no version has is in none: files over 64 MiB, empty folders, pipes. Why does the log not end it, which ends all
//! that it has begun? It has: each step is whole. That they are one is known here alone.

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
use crate::folders::{remove, take_away};
use crate::resolved::ResolvedResource;

/// Where it is written down, in the folder of the server's state.
const FOLDER: &str = "webdav";
/// How a note ends, how one of which a server could not make an end, and how one that is being written.
const NOTE: &str = "json";
const OLD: &str = "old";
const FRESH: &str = "new";

/// A replacing.
#[derive(Debug, Serialize, Deserialize)]
struct ReplaceOperation {
    /// What is replaced, and where that is meanwhile.
    place: TreePath,
    beside: TreePath,
    /// What takes its place, as it was asked for.
    from: TreePath,
    /// Whether that is copied, and not moved.
    is_copy: bool,
    actor: String,
    /// Whether it is there, and nothing is left to do but to remove what was replaced.
    is_done: bool,
}

/// One that is written down.
pub(crate) struct ReplaceRecord {
    file: PathBuf,
    of: ReplaceOperation,
}

impl ReplaceRecord {
    /// Writes down what is about to be beside its place. It is on the disk then.
    ///
    /// # Errors
    /// `NoSpace`; those of the disk.
    pub(crate) fn begin(asked: &WebdavRequestContext, place: &TreePath, beside: &TreePath) -> Result<Self, Fault> {
        let folder = asked.space().vfs.state_directory().join(FOLDER);
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let note = Self {
            file: folder.join(format!("{}.{NOTE}", Uuid::new_v4().simple())),
            of: ReplaceOperation {
                place: place.clone(),
                beside: beside.clone(),
                from: asked.path().unwrap_or(place).clone(),
                is_copy: asked.is_copy(),
                actor: asked.caller().actor().to_string(),
                is_done: false,
            },
        };
        note.write()?;
        Ok(note)
    }

    /// What takes the place is there.
    ///
    /// # Errors
    /// As [`Note::begin`].
    pub(crate) fn done(&mut self) -> Result<(), Fault> {
        self.of.is_done = true;
        self.write()
    }

    /// Nothing is beside its place any more.
    pub(crate) fn over(self) {
        forget(&self.file);
    }

    /// What is beside its place is nobody's to put back. On the disk when it returns, if the disk takes it.
    pub(crate) fn withdrawn(self) {
        let folder = self.file.parent().map(File::open);
        self.over();
        if let Some(Err(error)) = folder.map(|folder| folder?.sync_all()) {
            tracing::warn!(%error, "the note of a replacing that is over could not be removed from the disk");
        }
    }

    /// From here on people may work where something was to be replaced.
    #[expect(clippy::disallowed_methods, reason = "the server's own state, which no door shows")]
    fn grows_old(self) {
        if let Err(error) = std::fs::rename(&self.file, self.file.with_extension(OLD)) {
            tracing::error!(%error, "that a replacing could not be ended cannot be noted");
        }
    }

    fn is_old(&self) -> bool {
        self.file.extension().is_some_and(|extension| extension == OLD)
    }

    #[expect(clippy::disallowed_methods, reason = "the server's own state, which no door shows")]
    fn write(&self) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(&self.of).map_err(Fault::internal)?;
        let fresh = self.file.with_extension(FRESH);
        let written = || {
            let mut file = File::create(&fresh)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&fresh, &self.file)?;
            File::open(self.file.parent().unwrap_or(&self.file))?.sync_all()
        };
        written().map_err(failed)
    }
}

#[expect(clippy::disallowed_methods, reason = "the server's own state, which no door shows")]
fn forget(file: &Path) {
    if let Err(error) = std::fs::remove_file(file) {
        // Whoever goes by it finds nothing left to do.
        tracing::debug!(%error, "the note of a replacing that is over could not be removed");
    }
}

fn failed(error: io::Error) -> Fault {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Fault::new(Kind::NoSpace, "no space left on the disk to note what is replaced; nothing was changed")
                .with_source(error)
        }
        _ => Fault::internal(error),
    }
}

/// Ends what servers before this one began to replace in a space, and did not end. To be called where the space is opened, before any door is. What fails
/// is left for the next start, and the log says why.
pub fn recover_replacements(server: &Arc<ServerState>, space: &Arc<Space>) {
    let protocol = Arc::new(WebdavServer::of(Arc::clone(server)));
    let notes = notes(&space.vfs.state_directory().join(FOLDER)).unwrap_or_else(|error| {
        tracing::error!(space = space.name, %error, "what a killed server was replacing cannot be looked up");
        Vec::new()
    });
    for note in notes {
        match end(&protocol, space, &note) {
            Ok(()) => note.over(),
            Err(fault) => {
                let ReplaceOperation { place, beside, .. } = &note.of;
                tracing::error!(space = space.name, page.path = %place, error = ?fault, "what a killed server was replacing is still at `{beside}`; the next start tries again");
                note.grows_old();
            }
        }
    }
}

/// All that is written down in a folder; what is half written is of what had not begun, or is there as a whole, too, and goes.
fn notes(folder: &Path) -> io::Result<Vec<ReplaceRecord>> {
    let files = match std::fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut notes = Vec::new();
    for file in files {
        let file = file?.path();
        if file.extension().is_some_and(|extension| extension == FRESH) {
            forget(&file);
            continue;
        }
        let read = std::fs::read(&file).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        match read {
            Ok(of) => notes.push(ReplaceRecord { file, of }),
            Err(error) => {
                tracing::error!(note = %file.display(), %error, "what a killed server was replacing cannot be read; look for `.svc-replaced-…` in the tree");
            }
        }
    }
    Ok(notes)
}

/// Puts back what is beside its place, or takes it away where something else has that by now.
fn end(protocol: &Arc<WebdavServer>, space: &Arc<Space>, note: &ReplaceRecord) -> Result<(), Fault> {
    let ReplaceOperation { place, beside, from, is_copy, actor, is_done } = &note.of;
    let method = if *is_copy { "COPY" } else { "MOVE" };
    let method = Method::from_bytes(method.as_bytes()).map_err(Fault::internal)?;
    let caller = Caller { actor: Some(Actor::new(actor)), ..Caller::new(svcfs_base::Protocol::WebDav) };
    let asked = WebdavRequestContext::new(
        Arc::clone(protocol),
        Arc::clone(space),
        caller,
        RequestDetails::about(method, from.clone()),
    );
    let is_there = |path: &TreePath| match ResolvedResource::itself(&asked, path) {
        Ok(_) => Ok(true),
        Err(fault) if fault.kind() == Kind::NotFound => Ok(false),
        Err(fault) => Err(fault),
    };
    if !is_there(beside)? {
        return Ok(());
    }
    // What is moved goes in one step: it is there if it is not where it was.
    let is_moved = || Ok::<_, Fault>(!is_copy && !note.is_old() && !is_there(from)?);
    if is_there(place)? && (*is_done || is_moved()?) {
        remove(&asked, beside)?;
        tracing::warn!(page.path = %place, "a server was killed after it had replaced this; what it replaced is removed");
        return Ok(());
    }
    if *is_copy && !note.is_old() && is_there(place)? {
        take_away(&asked, from, place)?;
    }
    if is_there(place)? {
        tracing::error!(page.path = %place, "a server was killed while it replaced this, and something else is there now; what it was to replace is at `{beside}`");
        return Ok(());
    }
    let folder = ResolvedResource::parent_of(&asked, place)?;
    let [old, new] = [beside, place].map(|path| PathComponent::parse(path.name()));
    space.vfs.rename_node(asked.caller(), (folder.node, &old?), (folder.node, &new?), false)?;
    tracing::warn!(page.path = %place, "a server was killed while it replaced this; it is back");
    space.vfs.wait_applied().map(drop)
}
