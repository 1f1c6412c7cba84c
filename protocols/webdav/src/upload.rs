//! A file that is written: gathered as it comes, and put in place whole once all of it is there. One that breaks off changes nothing.

use std::io::SeekFrom;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture, FsResult};
use svcfs_base::{Caller, Durability, Fault, FileKind, Kind, MAX_FILE_BYTES, Name, TreePath};
use svcfs_listener::{BlockBuffer, BlockSink, PipelineStage, SpillBuffer};
use svcfs_vfs::{EntryKind, HandleId, NodeId, UPLOAD, Vfs, WriteAt};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use crate::asked::Asked;
use crate::found::Found;
use crate::locks::Locks;
use crate::look::{self, Look};
use crate::metadata::Metadata;
use crate::tree::sought;

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
    what: What,
    /// What has come, of what a version can hold.
    coming: SpillBuffer,
    /// What has come of a longer file, and is not handed to the disk.
    blocks: BlockBuffer,
    /// What came before that.
    beside: Option<PipelineStage<Beside>>,
    /// What became of it.
    outcome: Option<Metadata>,
}

/// What of a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    All,
    /// A part of it, from here on; the rest stays.
    From(u64),
    /// More of it: at its end, wherever one seeks, for dav-server seeks to the beginning of what it appends.
    More,
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
            what: What::All,
            coming: gathering(asked),
            blocks: BlockBuffer::new(&asked.door().room),
            beside: None,
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
                }
                upload.path = found.path.clone();
            }
            Err(fault) if fault.kind() == Kind::NotFound && !must_be_there => {
                Found::parent_of(asked, &upload.path)?;
                if keeps_content {
                    upload.over = Some(Look::Nothing);
                }
            }
            Err(fault) => return Err(fault),
        }
        if keeps_content {
            upload.what = if at_end { What::More } else { What::From(0) };
        }
        if asked.is_lock() {
            // Nothing will be written: the lock is on an empty file (RFC 4918 7.3).
            upload.over = Some(Look::Nothing);
            upload.outcome = put(asked, (&upload.path, upload.over.as_ref()), Bytes::new())?;
        }
        Ok(upload)
    }

    async fn write(&mut self, data: Bytes) -> FsResult<()> {
        const LIMIT: u64 = MAX_FILE_BYTES as u64;
        self.received += data.len() as u64;
        let is_long = self.received > LIMIT || self.announced.is_some_and(|announced| announced > LIMIT);
        match self.what {
            What::All if is_long => return self.write_blocks(&data).await,
            What::From(_) | What::More if self.received > LIMIT => {
                return Err(self.asked.refuse(Fault::too_large("file of which a part is written", MAX_FILE_BYTES)));
            }
            What::All | What::From(_) | What::More => {}
        }
        self.coming.push(&data);
        if self.coming.is_full() {
            let mut coming = self.taken();
            self.coming = self
                .asked
                .run(move |_| {
                    coming.write_out()?;
                    Ok(coming)
                })
                .await?;
        }
        Ok(())
    }

    /// What has come, to go on with an empty one.
    fn taken(&mut self) -> SpillBuffer {
        std::mem::replace(&mut self.coming, gathering(&self.asked))
    }

    /// Room for what came back from the disk.
    async fn room(&self, length: u64) -> FsResult<OwnedSemaphorePermit> {
        self.asked.door().room.whole(length).await.map_err(|fault| self.asked.refuse(fault))
    }

    /// Writes more of a long file beside its place: by another thread, while the next block comes.
    async fn write_blocks(&mut self, mut data: &[u8]) -> FsResult<()> {
        while let Some(block) = self.blocks.push(&mut data) {
            self.write_block(block).await?;
        }
        Ok(())
    }

    async fn write_block(&mut self, block: Arc<Vec<u8>>) -> FsResult<()> {
        let beside = match &mut self.beside {
            Some(beside) => beside,
            None => {
                let beside = self.begin_beside().await?;
                self.beside.insert(PipelineStage::new(&self.asked.door().lanes, beside))
            }
        };
        beside.write(block).await.map_err(|fault| self.asked.refuse(fault))
    }

    /// A file beside its place, with what was gathered before it was known to be long.
    async fn begin_beside(&mut self) -> FsResult<Beside> {
        let _room = if self.coming.is_on_disk() { Some(self.room(self.coming.length()).await?) } else { None };
        let (coming, path) = (self.taken(), self.path.clone());
        let begun = self.asked.run(move |asked| {
            let mut beside = Beside::new(asked, &path)?;
            if coming.length() > 0 {
                beside.append(&coming.into_bytes()?.0)?;
            }
            Ok(beside)
        });
        begun.await
    }

    /// The file beside its place, once all of it is written; none of a short one.
    async fn finish_beside(&mut self) -> FsResult<Option<Beside>> {
        if let Some(block) = self.blocks.last() {
            self.write_block(block).await?;
        }
        let Some(beside) = self.beside.take() else { return Ok(None) };
        beside.finish().await.map(Some).map_err(|fault| self.asked.refuse(fault))
    }

    /// All of it is there.
    async fn finish(&mut self) -> FsResult<()> {
        if let Some(announced) = self.announced.filter(|announced| *announced != self.received) {
            let told = format_args!("has {} bytes, and {announced} were announced; nothing was written", self.received);
            return Err(self.asked.refuse(Fault::invalid("body", told)));
        }
        let beside = self.finish_beside().await?;
        let room = match (self.what, self.coming.is_on_disk()) {
            (What::All, false) => None,
            (What::All, true) => Some(self.room(self.received).await?),
            // With the rest of the file.
            (What::From(_) | What::More, _) => Some(self.room(MAX_FILE_BYTES as u64).await?),
        };
        let (coming, what) = (self.taken(), self.what);
        let (path, over) = (self.path.clone(), self.over.clone());
        let finished = self.asked.run(move |asked| {
            let _room = room;
            if let Some(beside) = &beside {
                beside.flush()?;
            }
            let _unlocked = Locks::check_again(asked, &asked.path().into_iter().collect::<Vec<_>>())?;
            if let Some(beside) = beside {
                beside.into_place(asked, &path, over.as_ref())?;
                asked.set_time(&path);
                let found = Found::itself(asked, &path)?;
                return Ok(Some(Metadata::of_large(found.attributes.clone())));
            }
            let (content, _taken) = coming.into_bytes()?;
            let content =
                if what == What::All { content } else { patched(asked, &path, (what, over.as_ref()), &content)? };
            put(asked, (&path, over.as_ref()), content)
        });
        self.outcome = finished.await?;
        Ok(())
    }
}

/// Something that bytes are gathered in.
fn gathering(asked: &Asked) -> SpillBuffer {
    SpillBuffer::new(&asked.door().room, &asked.space().vfs.state_directory())
}

/// A file of which a part is another one.
fn patched(asked: &Asked, path: &TreePath, (what, over): (What, Option<&Look>), part: &[u8]) -> Result<Bytes, Fault> {
    let mut content = Vec::new();
    if let Some(over @ Look::File(..)) = over {
        let file = asked.space().vfs.read(asked.caller().door, path)?;
        over.admits(path, file.etag)?;
        content.extend_from_slice(&file.content);
    }
    let begin = match what {
        What::All | What::From(0) => 0,
        What::From(at) => usize::try_from(at).map_err(Fault::internal)?,
        What::More => content.len(),
    };
    let end = begin.saturating_add(part.len());
    if end > MAX_FILE_BYTES {
        return Err(Fault::too_large("file of which a part is written", MAX_FILE_BYTES));
    }
    content.resize(content.len().max(end), 0);
    content.get_mut(begin..end).unwrap_or_default().copy_from_slice(part);
    Ok(content.into())
}

fn put(asked: &Asked, (path, over): (&TreePath, Option<&Look>), content: Bytes) -> Result<Option<Metadata>, Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let saved = vfs.save(caller, path.clone(), content, look::expect(over))?;
    asked.set_time(path);
    let found = Found::itself(asked, path)?;
    Ok(saved.etag.map(|etag| Metadata::of(found.attributes.clone(), etag)))
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
        let sought = match (self.what, sought(place, 0, 0)) {
            (What::More, _) => Ok(0),
            // Behind the end of what can be recorded nothing is kept that could be written around.
            (What::From(_), Ok(place)) if place > MAX_FILE_BYTES as u64 => Err(FsError::TooLarge),
            (What::From(_), Ok(place)) if self.received == 0 => {
                self.what = What::From(place);
                Ok(place)
            }
            (What::All, Ok(0)) => Ok(0),
            (What::All | What::From(_), _) => Err(FsError::GeneralFailure),
        };
        Box::pin(std::future::ready(sought))
    }
    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(self.finish())
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
    length: u64,
}

impl Beside {
    /// A new one, in the folder that `path` lies in.
    ///
    /// # Errors
    /// `NotFound` when there is no such folder.
    pub(crate) fn new(asked: &Asked, path: &TreePath) -> Result<Self, Fault> {
        let (vfs, caller) = (Arc::clone(&asked.space().vfs), asked.caller().clone());
        let folder = Found::parent_of(asked, path)?;
        let name = Name::parse(&format!("{}{}{}", UPLOAD.0, Uuid::new_v4().simple(), UPLOAD.1))?;
        let (node, _, handle) = vfs.create(&caller, folder.node, &name, FileKind::Regular.git_mode() as u32 & 0o777)?;
        let path = Some(folder.path.join(&name));
        drop(folder);
        let beside = Self { vfs, caller, node, handle, path, length: 0 };
        beside.vfs.expect_large(handle)?;
        Ok(beside)
    }

    /// Writes more of it.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.vfs.write_node(&self.caller, self.handle, WriteAt::Offset(self.length), data)?;
        self.length += data.len() as u64;
        Ok(())
    }

    /// Sees to it that all of it is on the disk, which takes its time.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        self.vfs.publish(&self.caller, self.node, Durability::Now)
    }

    /// Puts it in its place, instead of what was looked at there, or of whatever stands there.
    ///
    /// # Errors
    /// `Conflict` when it is something else by now; those of the disk. Nothing is there then but what was.
    pub(crate) fn into_place(mut self, asked: &Asked, place: &TreePath, over: Option<&Look>) -> Result<(), Fault> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        self.flush()?;
        let (beside, folder) = (Found::parent_of(asked, &path)?, Found::parent_of(asked, place)?);
        let (old, new) = (Name::parse(path.name())?, Name::parse(place.name())?);
        let how = (look::expect(over), Durability::Now);
        self.vfs.rename_node_expecting(&self.caller, (beside.node, &old), (folder.node, &new), how)?;
        self.path = None;
        // It is there; only its name may be nowhere but in memory.
        match self.vfs.flush_node(self.node) {
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::Stale) => Ok(()),
            flushed => flushed,
        }
    }
}

impl BlockSink for Beside {
    fn write_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.append(block)
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
