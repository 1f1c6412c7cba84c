//! The callbacks of dav-server: convert the arguments, make one call, convert the result.

use std::io::SeekFrom;
use std::pin::Pin;

use dav_server::davpath::DavPath;
use dav_server::fs::{
    DavDirEntry, DavFile, DavMetaData, DavProp, FsError, FsFuture, FsResult, FsStream, GuardedFileSystem, OpenOptions,
    ReadDirMeta,
};
use futures_util::stream;
use http::StatusCode;
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_vfs::EntryKind;

use crate::context::WebdavRequestContext;
use crate::file::ReadableFile;
use crate::folders;
use crate::locks::{self, WebdavLocks};
use crate::metadata::{ListedResource, ResourceMetadata};
use crate::observed_state::ObservedState;
use crate::resolved::ResolvedResource;
use crate::upload::{FileUpload, UploadOptions};
use crate::{dead_properties, replace};

/// The file system of the space of a request.
#[derive(Clone)]
pub(crate) struct WebdavFileSystem;

/// The path of a request in its space. Errors: `Invalid`.
pub(crate) fn path_of(path: &DavPath) -> Result<TreePath, Fault> {
    let text = std::str::from_utf8(path.as_bytes()).map_err(|_| Fault::invalid("path", "must be UTF-8"))?;
    TreePath::parse(text)
}

fn boxed(metadata: ResourceMetadata) -> Box<dyn DavMetaData> {
    Box::new(metadata)
}

/// Runs blocking work on one path.
async fn run_for_path<T, W>(context: &WebdavRequestContext, path: &DavPath, work: W) -> FsResult<T>
where
    T: Send + 'static,
    W: FnOnce(&WebdavRequestContext, TreePath) -> Result<T, Fault> + Send + 'static,
{
    let path = path_of(path).map_err(|fault| context.record_fault(fault))?;
    context.run(move |context| work(context, path)).await
}

impl GuardedFileSystem<WebdavRequestContext> for WebdavFileSystem {
    fn open<'a>(
        &'a self,
        path: &'a DavPath,
        options: OpenOptions,
        context: &'a WebdavRequestContext,
    ) -> FsFuture<'a, Box<dyn DavFile>> {
        Box::pin(async move {
            if let Some(file) = context.take_open_file().filter(|_| !options.write) {
                return Ok(Box::new(file) as Box<dyn DavFile>);
            }
            run_for_path(context, path, move |context, path| {
                if options.write {
                    let upload = UploadOptions {
                        keeps_content: !options.truncate,
                        append: options.append,
                        create_new: options.create_new,
                        must_exist: !options.create,
                        length: options.size,
                    };
                    return Ok(Box::new(FileUpload::open(context, path, upload)?) as Box<dyn DavFile>);
                }
                Ok(Box::new(ReadableFile::open(context, &path)?) as Box<dyn DavFile>)
            })
            .await
        })
    }

    fn read_dir<'a>(
        &'a self,
        path: &'a DavPath,
        _: ReadDirMeta,
        context: &'a WebdavRequestContext,
    ) -> FsFuture<'a, FsStream<Box<dyn DavDirEntry>>> {
        Box::pin(async move {
            let entries = run_for_path(context, path, |context, path| list_folder(context, &path)).await?;
            let entries = entries.into_iter().map(|entry| Ok(Box::new(entry) as Box<dyn DavDirEntry>));
            Ok(Box::pin(stream::iter(entries)) as FsStream<Box<dyn DavDirEntry>>)
        })
    }

    fn metadata<'a>(
        &'a self,
        path: &'a DavPath,
        context: &'a WebdavRequestContext,
    ) -> FsFuture<'a, Box<dyn DavMetaData>> {
        if let Some(metadata) = try_open_cached(context, path) {
            return Box::pin(std::future::ready(Ok(boxed(metadata))));
        }
        Box::pin(run_for_path(context, path, |context, path| {
            if context.reads_file(&path)
                && let Ok(file) = ReadableFile::open(context, &path)
            {
                // dav-server opens the file next: keeping it open saves another thread switch.
                return Ok(boxed(context.keep_open_file(file)));
            }
            let metadata = metadata_of(context, &path, || ResolvedResource::at(context, &path))?.0;
            Ok(boxed(ResourceMetadata { is_opaque: context.is_opaque_copy(&path), ..metadata }))
        }))
    }

    fn symlink_metadata<'a>(
        &'a self,
        path: &'a DavPath,
        context: &'a WebdavRequestContext,
    ) -> FsFuture<'a, Box<dyn DavMetaData>> {
        Box::pin(run_for_path(context, path, |context, path| {
            let (metadata, is_link) = metadata_of(context, &path, || ResolvedResource::at_no_follow(context, &path))?;
            Ok(boxed(ResourceMetadata { is_opaque: context.is_opaque_operation(), is_link, ..metadata }))
        }))
    }

    fn create_dir<'a>(&'a self, path: &'a DavPath, context: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(run_for_path(context, path, |context, path| {
            let _barrier = WebdavLocks::recheck(context, &[&path])?;
            ResolvedResource::parent_of(context, &path)?;
            let work = || {
                let create =
                    if context.claim_replacement(&path) { replace::with_empty_folder } else { folders::create_folder };
                create(context, &path)
            };
            locks::run_replacing(context, &path, work).map_err(|fault| match fault.kind() {
                // Else dav-server would merge the copy into an existing folder.
                Kind::Exists if context.is_copy() => Fault::new(Kind::Conflict, fault.message()),
                _ => fault,
            })
        }))
    }

    fn remove_dir<'a>(&'a self, path: &'a DavPath, context: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(run_for_path(context, path, |context, path| remove(context, &path)))
    }

    fn remove_file<'a>(&'a self, path: &'a DavPath, context: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(run_for_path(context, path, |context, path| {
            if context.is_replacing() {
                context.mark_replaced(path);
                return Ok(());
            }
            remove(context, &path)
        }))
    }

    fn rename<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, context: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(async move {
            let to = path_of(to).map_err(|fault| context.record_fault(fault))?;
            run_for_path(context, from, move |context, from| {
                locks::run_replacing(context, &to, || {
                    let _barrier = WebdavLocks::recheck(context, &[&from, &to])?;
                    folders::rename(context, &from, &to)
                })
            })
            .await
        })
    }

    fn copy<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, context: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(async move {
            let to = path_of(to).map_err(|fault| context.record_fault(fault))?;
            let copy = move |context: &WebdavRequestContext, from: TreePath| {
                locks::run_replacing(context, &to, || folders::copy(context, &from, &to))
            };
            run_for_path(context, from, copy).await
        })
    }

    fn have_props<'a>(
        &'a self,
        _: &'a DavPath,
        _: &'a WebdavRequestContext,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(std::future::ready(true))
    }

    fn patch_props<'a>(
        &'a self,
        path: &'a DavPath,
        patch: Vec<(bool, DavProp)>,
        context: &'a WebdavRequestContext,
    ) -> FsFuture<'a, Vec<(StatusCode, DavProp)>> {
        Box::pin(run_for_path(context, path, move |context, path| {
            let _barrier = WebdavLocks::recheck_shallow(context, &path)?;
            match context.take_windows_properties() {
                Some(properties) => properties.set(context, &path, patch),
                None => dead_properties::update(context, &path, patch),
            }
        }))
    }
}

fn remove(context: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    let _barrier = WebdavLocks::recheck(context, &[path])?;
    folders::remove(context, path)
}

/// Opens the requested file from the caches, if that is possible without blocking.
fn try_open_cached(context: &WebdavRequestContext, path: &DavPath) -> Option<ResourceMetadata> {
    let path = path_of(path).ok().filter(|path| context.reads_file(path))?;
    ReadableFile::try_cached(context, &path).map(|file| context.keep_open_file(file))
}

/// The metadata of a path, and whether a link is at the path itself. With preconditions, a file is
/// read only once.
fn metadata_of<'a>(
    context: &'a WebdavRequestContext,
    path: &TreePath,
    find: impl FnOnce() -> Result<ResolvedResource<'a>, Fault>,
) -> Result<(ResourceMetadata, bool), Fault> {
    if let Some(observed) = context.observed(path) {
        return Ok((observed.metadata(path)?, false));
    }
    let resource = match find() {
        Err(fault) if fault.kind() == Kind::NotFound => {
            context.observe(path, ObservedState::Nothing);
            return Err(fault);
        }
        resource => resource?,
    };
    if resource.attributes.kind == EntryKind::File && context.is_conditional() {
        return Ok((context.observe(path, ObservedState::read(context, &resource)?).metadata(path)?, false));
    }
    Ok((resource.metadata(context)?, resource.attributes.kind == EntryKind::Symlink))
}

/// The visible entries of a folder, without reading files. Links are resolved; dangling ones and
/// those out of the caller's permissions are omitted.
pub(crate) fn list_folder(context: &WebdavRequestContext, path: &TreePath) -> Result<Vec<ListedResource>, Fault> {
    let folder = ResolvedResource::at(context, path)?;
    let mut list_folder = Vec::new();
    for (path, attributes) in folder.entries(context)? {
        if attributes.kind != EntryKind::Symlink {
            let metadata = ResourceMetadata::without_etag(attributes);
            list_folder.push(ListedResource { resolved_path: path.clone(), path, metadata });
            continue;
        }
        match ResolvedResource::at(context, &path) {
            Ok(resource) => {
                let metadata = ResourceMetadata::without_etag(resource.attributes.clone());
                list_folder.push(ListedResource { resolved_path: resource.path.clone(), path, metadata });
            }
            Err(fault) if is_omitted(&fault) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(list_folder)
}

/// Whether a listing omits an entry with this fault: it was removed since, or the caller may not
/// see it.
pub(crate) fn is_omitted(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::NotFound | Kind::Stale | Kind::Forbidden | Kind::Invalid)
}

/// The position in a file after a seek.
pub(crate) fn seek_position(resolved_path: SeekFrom, current: u64, length: u64) -> FsResult<u64> {
    let resolved_path = match resolved_path {
        SeekFrom::Start(offset) => Some(offset),
        SeekFrom::Current(offset) => current.checked_add_signed(offset),
        SeekFrom::End(offset) => length.checked_add_signed(offset),
    };
    resolved_path.ok_or(FsError::GeneralFailure)
}
