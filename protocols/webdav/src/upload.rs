//! A file that is written: gathered as it comes, and put in place whole once all of it is there. One that breaks off changes nothing.

use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture, FsResult};
use svcfs_base::{Caller, Durability, Fault, FileKind, Kind, MAX_FILE_BYTES, Name, TreePath};
use svcfs_vfs::{EntryKind, HandleId, NodeId, Vfs, WriteAt};
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

use crate::asked::Asked;
use crate::found::Found;
use crate::look::{self, Look};
use crate::metadata::Metadata;
use crate::tree::sought;

/// KiB of memory that files on their way here may have together.
pub(crate) const ROOM: usize = 512 << 10;
/// Bytes that are written beside the place at once.
const PIECE: usize = 4 << 20;
/// How long one waits for room.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until there is room for a file of this length, or of any; it is given back with what is returned.
///
/// # Errors
/// `Unavailable` after half a minute.
pub(crate) async fn room(room: &Semaphore, length: Option<u64>) -> Result<SemaphorePermit<'_>, Fault> {
    let most = MAX_FILE_BYTES as u64;
    let kib = length.unwrap_or(most).min(most) / 1024 + 1;
    let permit = tokio::time::timeout(PATIENCE, room.acquire_many(kib as u32)).await;
    let permit =
        permit.map_err(|_| Fault::unavailable("too many files are on their way here; try again in a moment"))?;
    permit.map_err(Fault::internal)
}

/// How a file is opened.
pub(crate) struct Begin {
    /// A part of it is written, the rest stays.
    pub(crate) keeps_content: bool,
    /// That part comes at the end.
    pub(crate) at_end: bool,
    pub(crate) must_be_new: bool,
    pub(crate) must_be_there: bool,
    /// Bytes that were announced.
    pub(crate) length: Option<u64>,
}

/// A file on its way.
pub(crate) struct Upload {
    asked: Asked,
    path: TreePath,
    /// What it may be written over; anything, if none.
    over: Option<Look>,
    announced: Option<u64>,
    received: u64,
    position: u64,
    /// It is written at its end, wherever one seeks: dav-server seeks to the beginning of what it appends.
    at_end: bool,
    content: Content,
    /// What comes next beside its place: as it comes, it would be a call of the disk for every few KiB.
    ahead: Ahead,
    /// What became of it.
    outcome: Option<Metadata>,
}

/// Bytes to be written, and where.
#[derive(Default)]
struct Ahead {
    at: u64,
    bytes: Vec<u8>,
}

enum Content {
    /// As much as a version can hold.
    Here(Vec<u8>),
    /// More: beside its place, under a name of its own.
    Beside(Beside),
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes for {}", self.received, self.path)
    }
}

impl Upload {
    /// Begins to write the file that a path leads to, or a new one.
    ///
    /// # Errors
    /// `NotFound` without a folder to put it into, `IsDirectory`, `Exists`; `Forbidden` beyond the caller's reach.
    pub(crate) fn begin(asked: &Asked, path: TreePath, begin: Begin) -> Result<Self, Fault> {
        let Begin { keeps_content, at_end, must_be_new, must_be_there, length } = begin;
        let mut upload = Self {
            asked: asked.clone(),
            over: if must_be_new { Some(Look::Nothing) } else { asked.seen(&path) },
            announced: length,
            received: 0,
            position: 0,
            at_end,
            content: Content::Here(Vec::new()),
            ahead: Ahead::default(),
            outcome: None,
            path,
        };
        match Found::at(asked, &upload.path) {
            Ok(found) if found.attributes.kind != EntryKind::File => return Err(Fault::is_directory(&upload.path)),
            Ok(_) if must_be_new => return Err(Fault::exists(&upload.path)),
            Ok(found) => {
                if keeps_content {
                    if found.is_large() {
                        return Err(Fault::too_large("file of which a part is written", MAX_FILE_BYTES));
                    }
                    let file = asked.space().vfs.read(asked.caller().door, &found.path)?;
                    upload.over.as_ref().map_or(Ok(()), |over| over.admits(&found.path, file.etag))?;
                    upload.over = Some(Look::File(Metadata::of(file.attributes, file.etag), file.etag));
                    upload.position = if at_end { file.content.len() as u64 } else { 0 };
                    upload.content = Content::Here(file.content.to_vec());
                }
                upload.path = found.path.clone();
            }
            Err(fault) if fault.kind() == Kind::NotFound && !must_be_there => {
                Found::parent_of(asked, &upload.path)?;
            }
            Err(fault) => return Err(fault),
        }
        if asked.is_lock() {
            // Nothing will be written: the lock is on an empty file (RFC 4918 7.3).
            upload.over = Some(Look::Nothing);
            upload.put(Bytes::new())?;
        }
        Ok(upload)
    }

    async fn write(&mut self, data: Bytes) -> FsResult<()> {
        let end = self.position.saturating_add(data.len() as u64);
        let length = data.len() as u64;
        if let Content::Here(content) = &mut self.content {
            if end <= MAX_FILE_BYTES as u64 {
                let (begin, end) = (self.position as usize, end as usize);
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[begin..end].copy_from_slice(&data);
                self.position = end as u64;
                self.received += length;
                return Ok(());
            }
            let content = std::mem::take(content);
            let path = self.path.clone();
            let beside = self.asked.run(move |asked| {
                let beside = Beside::new(asked, &path)?;
                beside.write(0, &content)?;
                Ok(beside)
            });
            self.content = Content::Beside(beside.await?);
        }
        if self.ahead.at + self.ahead.bytes.len() as u64 != self.position || self.ahead.bytes.len() >= PIECE {
            self.write_ahead().await?;
        }
        self.ahead.bytes.extend_from_slice(&data);
        self.position = end;
        self.received += length;
        Ok(())
    }

    /// Writes what was gathered for it beside its place.
    async fn write_ahead(&mut self) -> FsResult<()> {
        let next = Ahead { at: self.position, bytes: Vec::new() };
        let Ahead { at, bytes } = std::mem::replace(&mut self.ahead, next);
        let Content::Beside(beside) = &self.content else { return Ok(()) };
        if bytes.is_empty() {
            return Ok(());
        }
        let (vfs, handle) = (Arc::clone(&beside.vfs), beside.handle);
        self.ahead.bytes = self
            .asked
            .run(move |_| {
                vfs.write_node(handle, WriteAt::Offset(at), &bytes)?;
                Ok(bytes)
            })
            .await?;
        self.ahead.bytes.clear();
        Ok(())
    }

    /// All of it is there.
    fn finish(&mut self) -> Result<(), Fault> {
        if let Some(announced) = self.announced.filter(|announced| *announced != self.received) {
            let told = format_args!("has {} bytes, and {announced} were announced; nothing was written", self.received);
            return Err(Fault::invalid("body", told));
        }
        match std::mem::replace(&mut self.content, Content::Here(Vec::new())) {
            Content::Here(content) => self.put(content.into()),
            Content::Beside(beside) => {
                beside.into_place(&self.asked, &self.path, self.over.as_ref())?;
                let found = Found::itself(&self.asked, &self.path)?;
                self.outcome = Some(Metadata::of_large(found.attributes.clone()));
                Ok(())
            }
        }
    }

    fn put(&mut self, content: Bytes) -> Result<(), Fault> {
        let (vfs, caller) = (&self.asked.space().vfs, self.asked.caller());
        look::check_large(&self.asked, self.over.as_ref(), &self.path)?;
        let saved = vfs.save(caller, self.path.clone(), content, look::expect(self.over.as_ref()))?;
        let found = Found::itself(&self.asked, &self.path)?;
        self.outcome = saved.etag.map(|etag| Metadata::of(found.attributes.clone(), etag));
        Ok(())
    }
}

impl DavFile for Upload {
    fn metadata(&mut self) -> FsFuture<'_, Box<dyn DavMetaData>> {
        let metadata = self.outcome.clone().map(|metadata| Box::new(metadata) as Box<dyn DavMetaData>);
        Box::pin(std::future::ready(metadata.ok_or(FsError::NotFound)))
    }
    fn write_buf(&mut self, mut data: Box<dyn Buf + Send>) -> FsFuture<'_, ()> {
        let data = data.copy_to_bytes(data.remaining());
        Box::pin(self.write(data))
    }
    fn write_bytes(&mut self, data: Bytes) -> FsFuture<'_, ()> {
        Box::pin(self.write(data))
    }
    fn read_bytes(&mut self, _: usize) -> FsFuture<'_, Bytes> {
        Box::pin(std::future::ready(Err(FsError::Forbidden)))
    }
    fn seek(&mut self, place: SeekFrom) -> FsFuture<'_, u64> {
        if self.at_end {
            return Box::pin(std::future::ready(Ok(self.position)));
        }
        // Behind the end of what can be recorded nothing is kept that could be written around.
        let sought = sought(place, self.position, self.position)
            .and_then(|place| if place <= MAX_FILE_BYTES as u64 { Ok(place) } else { Err(FsError::TooLarge) });
        if let Ok(place) = sought {
            self.position = place;
        }
        Box::pin(std::future::ready(sought))
    }
    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(async move {
            self.write_ahead().await?;
            let mut upload = Self {
                asked: self.asked.clone(),
                path: self.path.clone(),
                over: self.over.clone(),
                content: std::mem::replace(&mut self.content, Content::Here(Vec::new())),
                ahead: Ahead::default(),
                outcome: None,
                ..*self
            };
            let finish = move |_: &Asked| upload.finish().map(|()| upload.outcome);
            self.outcome = self.asked.run(finish).await?;
            Ok(())
        })
    }
}

/// A file of any length beside its place; gone when it is let go of.
pub(crate) struct Beside {
    vfs: Arc<Vfs>,
    caller: Caller,
    node: NodeId,
    handle: HandleId,
    /// Where it is; none once it is in its place.
    path: Option<TreePath>,
}

impl Beside {
    /// A new one, in the folder that `path` lies in.
    ///
    /// # Errors
    /// `NotFound` when there is no such folder.
    pub(crate) fn new(asked: &Asked, path: &TreePath) -> Result<Self, Fault> {
        let (vfs, caller) = (Arc::clone(&asked.space().vfs), asked.caller().clone());
        let folder = Found::parent_of(asked, path)?;
        let name = Name::parse(&format!(".svc-upload-{}.part", Uuid::new_v4().simple()))?;
        let (node, _, handle) = vfs.create(&caller, folder.node, &name, FileKind::Regular.git_mode() as u32 & 0o777)?;
        let path = Some(folder.path.join(&name));
        drop(folder);
        Ok(Self { vfs, caller, node, handle, path })
    }

    /// Writes a part of it.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Fault> {
        self.vfs.write_node(self.handle, WriteAt::Offset(offset), data).map(drop)
    }

    /// Puts it in its place, instead of what was looked at there, or of whatever stands there.
    ///
    /// # Errors
    /// `Conflict` when it is something else by now; those of the disk. Nothing is there then but what was.
    pub(crate) fn into_place(mut self, asked: &Asked, place: &TreePath, over: Option<&Look>) -> Result<(), Fault> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        look::check_large(asked, over, place)?;
        self.vfs.publish(&self.caller, self.node, Durability::Now)?;
        let folder = Found::parent_of(asked, place)?;
        let (old, new) = (Name::parse(path.name())?, Name::parse(place.name())?);
        let expect = look::expect_instead(over);
        self.vfs.rename_node_expecting(&self.caller, (folder.node, &old), (folder.node, &new), expect)?;
        self.path = None;
        self.vfs.settled().map(drop)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let mut outcome = Ok(());
        if let Some(path) = self.path.take() {
            outcome = self.remove(&path);
        }
        let released = self.vfs.release(&self.caller, self.handle);
        self.vfs.forget(self.node, 1);
        if let Err(fault) = outcome.and(released) {
            tracing::warn!(error = ?fault, "what came of an upload that broke off could not be removed");
        }
    }
}

impl Beside {
    fn remove(&self, path: &TreePath) -> Result<(), Fault> {
        let mut folder = NodeId::ROOT;
        let mut found = Vec::new();
        let parent = path.parent().unwrap_or_else(TreePath::root);
        let outcome = parent.components().try_for_each(|name| {
            folder = self.vfs.lookup(&self.caller, folder, &Name::parse(name)?)?.0;
            found.push(folder);
            Ok(())
        });
        let outcome = outcome.and_then(|()| self.vfs.unlink(&self.caller, folder, &Name::parse(path.name())?));
        found.into_iter().for_each(|node| self.vfs.forget(node, 1));
        outcome
    }
}
