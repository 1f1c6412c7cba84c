//! A file that is written: gathered as it comes, and put in place whole once all of it is there. One that breaks off changes nothing.

use std::io::SeekFrom;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture, FsResult};
use svcfs_base::{Caller, Durability, Fault, FileKind, Kind, MAX_FILE_BYTES, PathComponent, TreePath};
use svcfs_listener::{BlockBuffer, BlockSink, PipelineStage, SpillBuffer};
use svcfs_vfs::{EntryKind, HandleId, NodeId, UPLOAD_AFFIXES, Vfs, WriteAt};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use crate::context::WebdavRequestContext;
use crate::file_system::sought;
use crate::locks::WebdavLocks;
use crate::metadata::ResourceMetadata;
use crate::observed_state::{self, ObservedState};
use crate::resolved::ResolvedResource;

/// How a file is opened.
pub(crate) struct UploadOptions {
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
pub(crate) struct FileUpload {
    asked: WebdavRequestContext,
    path: TreePath,
    /// What it may be written over; anything, if none.
    over: Option<ObservedState>,
    announced: Option<u64>,
    received: u64,
    what: WriteRange,
    /// What has come, of what a version can hold.
    coming: SpillBuffer,
    /// What has come of a longer file, and is not handed to the disk.
    blocks: BlockBuffer,
    /// What came before that.
    beside: Option<PipelineStage<StagedResource>>,
    /// What became of it.
    outcome: Option<ResourceMetadata>,
}

/// What of a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteRange {
    All,
    /// A part of it, from here on; the rest stays.
    From(u64),
    /// More of it: at its end, wherever one seeks, for dav-server seeks to the beginning of what it appends.
    More,
}

impl std::fmt::Debug for FileUpload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes for {}", self.received, self.path)
    }
}

impl FileUpload {
    /// Begins to write the file that a path leads to, or a new one.
    ///
    /// # Errors
    /// `NotFound` without a folder to put it into, `IsDirectory`, `Exists`; `Forbidden` beyond the caller's reach.
    pub(crate) fn begin(asked: &WebdavRequestContext, path: TreePath, begin: UploadOptions) -> Result<Self, Fault> {
        let UploadOptions { keeps_content, at_end, must_be_new, must_be_there, length } = begin;
        let mut upload = Self {
            asked: asked.clone(),
            over: if must_be_new { Some(ObservedState::Nothing) } else { asked.seen(&path) },
            announced: length,
            received: 0,
            what: WriteRange::All,
            coming: gathering(asked),
            blocks: BlockBuffer::new(&asked.protocol().room),
            beside: None,
            outcome: None,
            path,
        };
        match ResolvedResource::at(asked, &upload.path) {
            Ok(found) if found.attributes.kind != EntryKind::File => return Err(Fault::is_directory(&upload.path)),
            Ok(_) if must_be_new => return Err(Fault::exists(&upload.path)),
            Ok(found) => {
                if keeps_content {
                    if found.is_large() {
                        return Err(Fault::too_large("file of which a part is written", MAX_FILE_BYTES));
                    }
                    let file = asked.space().vfs.read(asked.caller().protocol, &found.path)?;
                    upload.over.as_ref().map_or(Ok(()), |over| over.admits(&found.path, file.etag))?;
                    upload.over =
                        Some(ObservedState::File(ResourceMetadata::of(file.attributes, file.etag), file.etag));
                }
                upload.path = found.path.clone();
            }
            Err(fault) if fault.kind() == Kind::NotFound && !must_be_there => {
                ResolvedResource::parent_of(asked, &upload.path)?;
                if keeps_content {
                    upload.over = Some(ObservedState::Nothing);
                }
            }
            Err(fault) => return Err(fault),
        }
        if keeps_content {
            upload.what = if at_end { WriteRange::More } else { WriteRange::From(0) };
        }
        if asked.is_lock() {
            // Nothing will be written: the lock is on an empty file (RFC 4918 7.3).
            upload.over = Some(ObservedState::Nothing);
            upload.outcome = put(asked, (&upload.path, upload.over.as_ref()), Bytes::new())?;
        }
        Ok(upload)
    }

    async fn write(&mut self, data: Bytes) -> FsResult<()> {
        const LIMIT: u64 = MAX_FILE_BYTES as u64;
        self.received += data.len() as u64;
        let is_long = self.received > LIMIT || self.announced.is_some_and(|announced| announced > LIMIT);
        match self.what {
            WriteRange::All if is_long => return self.write_blocks(&data).await,
            WriteRange::From(_) | WriteRange::More if self.received > LIMIT => {
                return Err(self.asked.refuse(Fault::too_large("file of which a part is written", MAX_FILE_BYTES)));
            }
            WriteRange::All | WriteRange::From(_) | WriteRange::More => {}
        }
        self.coming.push(&data);
        if self.coming.is_full() {
            let mut coming = self.taken();
            self.coming = self
                .asked
                .run(move |_| {
                    coming.spill()?;
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
        self.asked.protocol().room.reserve_buffer(length).await.map_err(|fault| self.asked.refuse(fault))
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
                self.beside.insert(PipelineStage::new(&self.asked.protocol().lanes, beside))
            }
        };
        beside.write(block).await.map_err(|fault| self.asked.refuse(fault))
    }

    /// A file beside its place, with what was gathered before it was known to be long.
    async fn begin_beside(&mut self) -> FsResult<StagedResource> {
        let _room = if self.coming.is_on_disk() { Some(self.room(self.coming.length()).await?) } else { None };
        let (coming, path) = (self.taken(), self.path.clone());
        let begun = self.asked.run(move |asked| {
            let mut beside = StagedResource::new(asked, &path)?;
            if coming.length() > 0 {
                beside.append(&coming.into_bytes()?.0)?;
            }
            Ok(beside)
        });
        begun.await
    }

    /// The file beside its place, once all of it is written; none of a short one.
    async fn finish_beside(&mut self) -> FsResult<Option<StagedResource>> {
        if let Some(block) = self.blocks.take_partial() {
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
            (WriteRange::All, false) => None,
            (WriteRange::All, true) => Some(self.room(self.received).await?),
            // With the rest of the file.
            (WriteRange::From(_) | WriteRange::More, _) => Some(self.room(MAX_FILE_BYTES as u64).await?),
        };
        let (coming, what) = (self.taken(), self.what);
        let (path, over) = (self.path.clone(), self.over.clone());
        let finished = self.asked.run(move |asked| {
            let _room = room;
            if let Some(beside) = &beside {
                beside.flush()?;
            }
            let _unlocked = WebdavLocks::check_again(asked, &asked.path().into_iter().collect::<Vec<_>>())?;
            if let Some(beside) = beside {
                beside.into_place(asked, &path, over.as_ref())?;
                asked.set_time(&path);
                let found = ResolvedResource::itself(asked, &path)?;
                return Ok(Some(ResourceMetadata::of_large(found.attributes.clone())));
            }
            let (content, _taken) = coming.into_bytes()?;
            let content =
                if what == WriteRange::All { content } else { patched(asked, &path, (what, over.as_ref()), &content)? };
            put(asked, (&path, over.as_ref()), content)
        });
        self.outcome = finished.await?;
        Ok(())
    }
}

/// Something that bytes are gathered in.
fn gathering(asked: &WebdavRequestContext) -> SpillBuffer {
    SpillBuffer::new(&asked.protocol().room, &asked.space().vfs.state_directory())
}

/// A file of which a part is another one.
fn patched(
    asked: &WebdavRequestContext,
    path: &TreePath,
    (what, over): (WriteRange, Option<&ObservedState>),
    part: &[u8],
) -> Result<Bytes, Fault> {
    let mut content = Vec::new();
    if let Some(over @ ObservedState::File(..)) = over {
        let file = asked.space().vfs.read(asked.caller().protocol, path)?;
        over.admits(path, file.etag)?;
        content.extend_from_slice(&file.content);
    }
    let begin = match what {
        WriteRange::All | WriteRange::From(0) => 0,
        WriteRange::From(at) => usize::try_from(at).map_err(Fault::internal)?,
        WriteRange::More => content.len(),
    };
    let end = begin.saturating_add(part.len());
    if end > MAX_FILE_BYTES {
        return Err(Fault::too_large("file of which a part is written", MAX_FILE_BYTES));
    }
    content.resize(content.len().max(end), 0);
    content.get_mut(begin..end).unwrap_or_default().copy_from_slice(part);
    Ok(content.into())
}

fn put(
    asked: &WebdavRequestContext,
    (path, over): (&TreePath, Option<&ObservedState>),
    content: Bytes,
) -> Result<Option<ResourceMetadata>, Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let saved = vfs.save(caller, path.clone(), content, observed_state::expect(over))?;
    asked.set_time(path);
    let found = ResolvedResource::itself(asked, path)?;
    Ok(saved.etag.map(|etag| ResourceMetadata::of(found.attributes.clone(), etag)))
}

impl DavFile for FileUpload {
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
            (WriteRange::More, _) => Ok(0),
            // Behind the end of what can be recorded nothing is kept that could be written around.
            (WriteRange::From(_), Ok(place)) if place > MAX_FILE_BYTES as u64 => Err(FsError::TooLarge),
            (WriteRange::From(_), Ok(place)) if self.received == 0 => {
                self.what = WriteRange::From(place);
                Ok(place)
            }
            (WriteRange::All, Ok(0)) => Ok(0),
            (WriteRange::All | WriteRange::From(_), _) => Err(FsError::GeneralFailure),
        };
        Box::pin(std::future::ready(sought))
    }
    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(self.finish())
    }
}

/// A file of any length beside its place; gone when it is let go of.
pub(crate) struct StagedResource {
    vfs: Arc<Vfs>,
    caller: Caller,
    node: NodeId,
    handle: HandleId,
    /// Where it is; none once it is in its place.
    path: Option<TreePath>,
    length: u64,
}

impl StagedResource {
    /// A new one, in the folder that `path` lies in.
    ///
    /// # Errors
    /// `NotFound` when there is no such folder.
    pub(crate) fn new(asked: &WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        let (vfs, caller) = (Arc::clone(&asked.space().vfs), asked.caller().clone());
        let folder = ResolvedResource::parent_of(asked, path)?;
        let name =
            PathComponent::parse(&format!("{}{}{}", UPLOAD_AFFIXES.0, Uuid::new_v4().simple(), UPLOAD_AFFIXES.1))?;
        let (node, _, handle) = vfs.create(&caller, folder.node, &name, FileKind::Regular.git_mode() as u32 & 0o777)?;
        let path = Some(folder.path.join(&name));
        drop(folder);
        let beside = Self { vfs, caller, node, handle, path, length: 0 };
        beside.vfs.spill_to_disk(handle)?;
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
    pub(crate) fn into_place(
        mut self,
        asked: &WebdavRequestContext,
        place: &TreePath,
        over: Option<&ObservedState>,
    ) -> Result<(), Fault> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        self.flush()?;
        let (beside, folder) = (ResolvedResource::parent_of(asked, &path)?, ResolvedResource::parent_of(asked, place)?);
        let (old, new) = (PathComponent::parse(path.name())?, PathComponent::parse(place.name())?);
        let how = (observed_state::expect(over), Durability::Now);
        self.vfs.rename_node_expecting(&self.caller, (beside.node, &old), (folder.node, &new), how)?;
        self.path = None;
        // It is there; only its name may be nowhere but in memory.
        match self.vfs.flush_node(self.node) {
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::Stale) => Ok(()),
            flushed => flushed,
        }
    }
}

impl BlockSink for StagedResource {
    fn write_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.append(block)
    }
}

impl Drop for StagedResource {
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

impl StagedResource {
    fn remove(&self, path: &TreePath) -> Result<(), Fault> {
        let mut folder = NodeId::ROOT;
        let mut found = Vec::new();
        let parent = path.parent().unwrap_or_else(TreePath::root);
        let outcome = parent.components().try_for_each(|name| {
            folder = self.vfs.lookup(&self.caller, folder, &PathComponent::parse(name)?)?.0;
            found.push(folder);
            Ok(())
        });
        let outcome = outcome.and_then(|()| self.vfs.unlink(&self.caller, folder, &PathComponent::parse(path.name())?));
        found.into_iter().for_each(|node| self.vfs.forget(node, 1));
        outcome
    }
}
