//! A file that is written: received completely, then installed. An incomplete upload changes
//! nothing.

use std::io::SeekFrom;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture, FsResult};
use svcfs_base::{Fault, Kind, MAX_FILE_BYTES, PathComponent, TreePath};
use svcfs_listener::{BlockBuffer, BlockSink, PipelineStage, SpillBuffer};
use svcfs_vfs::{EntryKind, StagedFile};
use tokio::sync::OwnedSemaphorePermit;

use crate::context::WebdavRequestContext;
use crate::file_system::seek_position;
use crate::locks::WebdavLocks;
use crate::metadata::ResourceMetadata;
use crate::observed_state::{self, ObservedState};
use crate::resolved::ResolvedResource;

/// How a file is opened for writing.
pub(crate) struct UploadOptions {
    /// Write a part and keep the rest.
    pub(crate) keeps_content: bool,
    /// Append to the file.
    pub(crate) append: bool,
    pub(crate) create_new: bool,
    pub(crate) must_exist: bool,
    /// The declared length in bytes.
    pub(crate) length: Option<u64>,
}

/// An upload in progress.
pub(crate) struct FileUpload {
    context: WebdavRequestContext,
    path: TreePath,
    /// The state that the target must have; `None` accepts any.
    expected: Option<ObservedState>,
    declared: Option<u64>,
    received: u64,
    range: WriteRange,
    /// Received bytes of a file that fits into a version.
    buffer: SpillBuffer,
    /// Received bytes of a longer file, not passed to `stage` yet.
    blocks: BlockBuffer,
    /// Writes a longer file to disk.
    stage: Option<PipelineStage<StagedResource>>,
    /// The metadata of the written file.
    outcome: Option<ResourceMetadata>,
}

/// The part of a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteRange {
    Full,
    /// From this offset; the rest is kept.
    At(u64),
    /// At the end of the file. Seeks are ignored: dav-server seeks to the start before it appends.
    Append,
}

impl std::fmt::Debug for FileUpload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes for {}", self.received, self.path)
    }
}

impl FileUpload {
    /// Starts to write a file, existing or new. Errors: `NotFound` without a parent folder,
    /// `IsDirectory`, `Exists`; `Forbidden` outside the caller's permissions.
    pub(crate) fn open(context: &WebdavRequestContext, path: TreePath, options: UploadOptions) -> Result<Self, Fault> {
        let UploadOptions { keeps_content, append, create_new, must_exist, length } = options;
        let mut upload = Self {
            context: context.clone(),
            expected: if create_new { Some(ObservedState::Nothing) } else { context.observed(&path) },
            declared: length,
            received: 0,
            range: WriteRange::Full,
            buffer: new_buffer(context),
            blocks: BlockBuffer::new(&context.protocol().memory),
            stage: None,
            outcome: None,
            path,
        };
        match ResolvedResource::at(context, &upload.path) {
            Ok(resource) if resource.attributes.kind != EntryKind::File => {
                return Err(Fault::is_directory(&upload.path));
            }
            Ok(_) if create_new => return Err(Fault::exists(&upload.path)),
            Ok(resource) => {
                if keeps_content {
                    if resource.is_large() {
                        return Err(Fault::too_large("file of which a part is written", MAX_FILE_BYTES));
                    }
                    let file = context.tree().read(context.caller().protocol, &resource.path)?;
                    upload
                        .expected
                        .as_ref()
                        .map_or(Ok(()), |expected| expected.check_unchanged(&resource.path, file.etag))?;
                    upload.expected =
                        Some(ObservedState::File(ResourceMetadata::of(file.attributes, file.etag), file.etag));
                }
                upload.path = resource.path.clone();
            }
            Err(fault) if fault.kind() == Kind::NotFound && !must_exist => {
                ResolvedResource::parent_of(context, &upload.path)?;
                if keeps_content {
                    upload.expected = Some(ObservedState::Nothing);
                }
            }
            Err(fault) => return Err(fault),
        }
        if keeps_content {
            upload.range = if append { WriteRange::Append } else { WriteRange::At(0) };
        }
        if context.is_lock_request() {
            // LOCK on an unmapped URL creates an empty file (RFC 4918 7.3).
            upload.expected = Some(ObservedState::Nothing);
            upload.outcome = save(context, (&upload.path, upload.expected.as_ref()), Bytes::new())?;
        }
        Ok(upload)
    }

    async fn write(&mut self, data: Bytes) -> FsResult<()> {
        const LIMIT: u64 = MAX_FILE_BYTES as u64;
        self.received += data.len() as u64;
        let is_long = self.received > LIMIT || self.declared.is_some_and(|declared| declared > LIMIT);
        match self.range {
            WriteRange::Full if is_long => return self.write_blocks(&data).await,
            WriteRange::At(_) | WriteRange::Append if self.received > LIMIT => {
                return Err(self
                    .context
                    .record_fault(Fault::too_large("file of which a part is written", MAX_FILE_BYTES)));
            }
            WriteRange::Full | WriteRange::At(_) | WriteRange::Append => {}
        }
        self.buffer.push(&data);
        if self.buffer.is_full() {
            let mut buffer = self.take_buffer();
            self.buffer = self
                .context
                .run(move |_| {
                    buffer.spill()?;
                    Ok(buffer)
                })
                .await?;
        }
        Ok(())
    }

    /// Takes the buffer and leaves an empty one.
    fn take_buffer(&mut self) -> SpillBuffer {
        std::mem::replace(&mut self.buffer, new_buffer(&self.context))
    }

    /// Memory for data that is read back from disk.
    async fn reserve_memory(&self, length: u64) -> FsResult<OwnedSemaphorePermit> {
        self.context.protocol().memory.reserve_buffer(length).await.map_err(|fault| self.context.record_fault(fault))
    }

    /// Writes data of a long file on another thread, while the next block is received.
    async fn write_blocks(&mut self, mut data: &[u8]) -> FsResult<()> {
        while let Some(block) = self.blocks.push(&mut data) {
            self.write_block(block).await?;
        }
        Ok(())
    }

    async fn write_block(&mut self, block: Arc<Vec<u8>>) -> FsResult<()> {
        let stage = match &mut self.stage {
            Some(stage) => stage,
            None => {
                let staged = self.create_staged().await?;
                self.stage.insert(PipelineStage::new(&self.context.protocol().lanes, staged))
            }
        };
        stage.write(block).await.map_err(|fault| self.context.record_fault(fault))
    }

    /// Creates the staged file, with the data that was buffered so far.
    async fn create_staged(&mut self) -> FsResult<StagedResource> {
        let _memory =
            if self.buffer.is_on_disk() { Some(self.reserve_memory(self.buffer.length()).await?) } else { None };
        let (buffer, path) = (self.take_buffer(), self.path.clone());
        let created = self.context.run(move |context| {
            let mut staged = StagedResource::new(context, &path)?;
            if buffer.length() > 0 {
                staged.append(&buffer.into_bytes()?.0)?;
            }
            Ok(staged)
        });
        created.await
    }

    /// Completes the staged file; `None` for a short file.
    async fn finish_staged(&mut self) -> FsResult<Option<StagedResource>> {
        if let Some(block) = self.blocks.take_partial() {
            self.write_block(block).await?;
        }
        let Some(stage) = self.stage.take() else { return Ok(None) };
        stage.finish().await.map(Some).map_err(|fault| self.context.record_fault(fault))
    }

    /// Installs the complete file.
    async fn finish(&mut self) -> FsResult<()> {
        if let Some(declared) = self.declared.filter(|declared| *declared != self.received) {
            let message =
                format_args!("has {} bytes, but {declared} were declared; nothing was written", self.received);
            return Err(self.context.record_fault(Fault::invalid("body", message)));
        }
        let staged = self.finish_staged().await?;
        let memory = match (self.range, self.buffer.is_on_disk()) {
            (WriteRange::Full, false) => None,
            (WriteRange::Full, true) => Some(self.reserve_memory(self.received).await?),
            // Includes the rest of the file.
            (WriteRange::At(_) | WriteRange::Append, _) => Some(self.reserve_memory(MAX_FILE_BYTES as u64).await?),
        };
        let (buffer, range) = (self.take_buffer(), self.range);
        let (path, expected) = (self.path.clone(), self.expected.clone());
        let installed = self.context.run(move |context| {
            let _memory = memory;
            if let Some(staged) = &staged {
                staged.flush()?;
            }
            let _barrier = WebdavLocks::recheck(context, &context.path().into_iter().collect::<Vec<_>>())?;
            if let Some(staged) = staged {
                staged.install(context, &path, expected.as_ref())?;
                context.apply_client_mtime(&path);
                let resource = ResolvedResource::at_no_follow(context, &path)?;
                return Ok(Some(ResourceMetadata::of_large(resource.attributes.clone())));
            }
            let (content, _permit) = buffer.into_bytes()?;
            let content = if range == WriteRange::Full {
                content
            } else {
                apply_patch(context, &path, (range, expected.as_ref()), &content)?
            };
            save(context, (&path, expected.as_ref()), content)
        });
        self.outcome = installed.await?;
        Ok(())
    }
}

/// A buffer for an upload.
fn new_buffer(context: &WebdavRequestContext) -> SpillBuffer {
    SpillBuffer::new(&context.protocol().memory, &context.space().vfs.state_directory())
}

/// Reads the file and replaces a part of it.
fn apply_patch(
    context: &WebdavRequestContext,
    path: &TreePath,
    (range, expected): (WriteRange, Option<&ObservedState>),
    part: &[u8],
) -> Result<Bytes, Fault> {
    let mut content = Vec::new();
    if let Some(expected @ ObservedState::File(..)) = expected {
        let file = context.tree().read(context.caller().protocol, path)?;
        expected.check_unchanged(path, file.etag)?;
        content.extend_from_slice(&file.content);
    }
    let start = match range {
        WriteRange::Full | WriteRange::At(0) => 0,
        WriteRange::At(at) => usize::try_from(at).map_err(Fault::internal)?,
        WriteRange::Append => content.len(),
    };
    let end = start.saturating_add(part.len());
    if end > MAX_FILE_BYTES {
        return Err(Fault::too_large("file of which a part is written", MAX_FILE_BYTES));
    }
    content.resize(content.len().max(end), 0);
    content.get_mut(start..end).unwrap_or_default().copy_from_slice(part);
    Ok(content.into())
}

fn save(
    context: &WebdavRequestContext,
    (path, expected): (&TreePath, Option<&ObservedState>),
    content: Bytes,
) -> Result<Option<ResourceMetadata>, Fault> {
    let (vfs, caller) = (&context.space().vfs, context.caller());
    let saved = vfs.save(caller, path.clone(), content, observed_state::to_precondition(expected))?;
    context.apply_client_mtime(path);
    let resource = ResolvedResource::at_no_follow(context, path)?;
    Ok(saved.etag.map(|etag| ResourceMetadata::of(resource.attributes.clone(), etag)))
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
    fn seek(&mut self, position: SeekFrom) -> FsFuture<'_, u64> {
        let seek_position = match (self.range, seek_position(position, 0, 0)) {
            (WriteRange::Append, _) => Ok(0),
            // No file with versions is that long.
            (WriteRange::At(_), Ok(position)) if position > MAX_FILE_BYTES as u64 => Err(FsError::TooLarge),
            (WriteRange::At(_), Ok(position)) if self.received == 0 => {
                self.range = WriteRange::At(position);
                Ok(position)
            }
            (WriteRange::Full, Ok(0)) => Ok(0),
            (WriteRange::Full | WriteRange::At(_), _) => Err(FsError::GeneralFailure),
        };
        Box::pin(std::future::ready(seek_position))
    }
    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(self.finish())
    }
}

/// A file that is being uploaded; removed when dropped before it is installed.
pub(crate) struct StagedResource(StagedFile);

impl StagedResource {
    /// Creates one in the folder of `path`. Errors: `NotFound` when there is no such folder.
    pub(crate) fn new(context: &WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        if context.is_proposing() {
            return Err(Fault::too_large("file in a draft", MAX_FILE_BYTES));
        }
        let folder = ResolvedResource::parent_of(context, path)?;
        let parent = (folder.node(context)?, &folder.path);
        StagedFile::create(&context.space().vfs, context.caller(), parent).map(Self)
    }

    /// Appends data.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.0.append(data)
    }

    /// Flushes the file to disk, which may take long.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        self.0.flush()
    }

    /// Installs the file, if the target is in the expected state. Errors: `Conflict` when the
    /// target is in another state. The target is unchanged then.
    pub(crate) fn install(
        mut self,
        context: &WebdavRequestContext,
        target: &TreePath,
        expected: Option<&ObservedState>,
    ) -> Result<(), Fault> {
        let Some(path) = self.0.path().cloned() else { return Ok(()) };
        self.flush()?;
        let (staging_folder, folder) =
            (ResolvedResource::parent_of(context, &path)?, ResolvedResource::parent_of(context, target)?);
        let name = PathComponent::parse(target.name())?;
        let target = (folder.node(context)?, &name);
        self.0.install(staging_folder.node(context)?, target, observed_state::to_precondition(expected))
    }
}

impl BlockSink for StagedResource {
    fn write_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.append(block)
    }
}
