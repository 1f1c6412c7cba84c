//! The tree, as dav-server asks for it: convert in, one call, convert out.

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

/// The tree of whichever space a request is for.
#[derive(Clone)]
pub(crate) struct WebdavFileSystem;

/// A path of a request, in its space.
///
/// # Errors
/// `Invalid` for one that no tree has.
pub(crate) fn path_of(path: &DavPath) -> Result<TreePath, Fault> {
    let text = std::str::from_utf8(path.as_bytes()).map_err(|_| Fault::invalid("path", "must be UTF-8"))?;
    TreePath::parse(text)
}

fn boxed(metadata: ResourceMetadata) -> Box<dyn DavMetaData> {
    Box::new(metadata)
}

/// Runs blocking work about one path.
async fn about<T, W>(asked: &WebdavRequestContext, path: &DavPath, work: W) -> FsResult<T>
where
    T: Send + 'static,
    W: FnOnce(&WebdavRequestContext, TreePath) -> Result<T, Fault> + Send + 'static,
{
    let path = path_of(path).map_err(|fault| asked.refuse(fault))?;
    asked.run(move |asked| work(asked, path)).await
}

impl GuardedFileSystem<WebdavRequestContext> for WebdavFileSystem {
    fn open<'a>(
        &'a self,
        path: &'a DavPath,
        options: OpenOptions,
        asked: &'a WebdavRequestContext,
    ) -> FsFuture<'a, Box<dyn DavFile>> {
        Box::pin(async move {
            if let Some(reading) = asked.kept().filter(|_| !options.write) {
                return Ok(Box::new(reading) as Box<dyn DavFile>);
            }
            about(asked, path, move |asked, path| {
                if options.write {
                    let begin = UploadOptions {
                        keeps_content: !options.truncate,
                        at_end: options.append,
                        must_be_new: options.create_new,
                        must_be_there: !options.create,
                        length: options.size,
                    };
                    return Ok(Box::new(FileUpload::begin(asked, path, begin)?) as Box<dyn DavFile>);
                }
                Ok(Box::new(ReadableFile::open(asked, &path)?) as Box<dyn DavFile>)
            })
            .await
        })
    }

    fn read_dir<'a>(
        &'a self,
        path: &'a DavPath,
        _: ReadDirMeta,
        asked: &'a WebdavRequestContext,
    ) -> FsFuture<'a, FsStream<Box<dyn DavDirEntry>>> {
        Box::pin(async move {
            let entries = about(asked, path, |asked, path| listing(asked, &path)).await?;
            let entries = entries.into_iter().map(|entry| Ok(Box::new(entry) as Box<dyn DavDirEntry>));
            Ok(Box::pin(stream::iter(entries)) as FsStream<Box<dyn DavDirEntry>>)
        })
    }

    fn metadata<'a>(
        &'a self,
        path: &'a DavPath,
        asked: &'a WebdavRequestContext,
    ) -> FsFuture<'a, Box<dyn DavMetaData>> {
        if let Some(metadata) = read_at_once(asked, path) {
            return Box::pin(std::future::ready(Ok(boxed(metadata))));
        }
        Box::pin(about(asked, path, |asked, path| {
            if asked.is_reading(&path)
                && let Ok(reading) = ReadableFile::open(asked, &path)
            {
                // dav-server opens next what it asked about: that is then here, and no thread is woken for it.
                return Ok(boxed(asked.keep(reading)));
            }
            let metadata = known(asked, &path, || ResolvedResource::at(asked, &path))?.0;
            Ok(boxed(ResourceMetadata { is_whole: asked.copies_whole(&path), ..metadata }))
        }))
    }

    fn symlink_metadata<'a>(
        &'a self,
        path: &'a DavPath,
        asked: &'a WebdavRequestContext,
    ) -> FsFuture<'a, Box<dyn DavMetaData>> {
        Box::pin(about(asked, path, |asked, path| {
            let (metadata, is_link) = known(asked, &path, || ResolvedResource::itself(asked, &path))?;
            Ok(boxed(ResourceMetadata { is_whole: asked.takes_whole(), is_link, ..metadata }))
        }))
    }

    fn create_dir<'a>(&'a self, path: &'a DavPath, asked: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(about(asked, path, |asked, path| {
            let _unlocked = WebdavLocks::check_again(asked, &[&path])?;
            ResolvedResource::parent_of(asked, &path)?;
            let make = || {
                let make = if asked.is_to_replace(&path) { replace::by_empty_folder } else { folders::make };
                make(asked, &path)
            };
            locks::replacing(asked, &path, make).map_err(|fault| match fault.kind() {
                // dav-server takes a folder that is there already for the copy of another.
                Kind::Exists if asked.is_copy() => Fault::new(Kind::Conflict, fault.message()),
                _ => fault,
            })
        }))
    }

    fn remove_dir<'a>(&'a self, path: &'a DavPath, asked: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(about(asked, path, |asked, path| removed(asked, &path)))
    }

    fn remove_file<'a>(&'a self, path: &'a DavPath, asked: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(about(asked, path, |asked, path| {
            if asked.is_replacing() {
                asked.replaces(path);
                return Ok(());
            }
            removed(asked, &path)
        }))
    }

    fn rename<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, asked: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(async move {
            let to = path_of(to).map_err(|fault| asked.refuse(fault))?;
            about(asked, from, move |asked, from| {
                locks::replacing(asked, &to, || {
                    let _unlocked = WebdavLocks::check_again(asked, &[&from, &to])?;
                    folders::rename(asked, &from, &to)
                })
            })
            .await
        })
    }

    fn copy<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, asked: &'a WebdavRequestContext) -> FsFuture<'a, ()> {
        Box::pin(async move {
            let to = path_of(to).map_err(|fault| asked.refuse(fault))?;
            let copied = move |asked: &WebdavRequestContext, from: TreePath| {
                locks::replacing(asked, &to, || folders::copy(asked, &from, &to))
            };
            about(asked, from, copied).await
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
        asked: &'a WebdavRequestContext,
    ) -> FsFuture<'a, Vec<(StatusCode, DavProp)>> {
        Box::pin(about(asked, path, move |asked, path| {
            let _unlocked = WebdavLocks::check_it_again(asked, &path)?;
            match asked.of_windows() {
                Some(said) => said.set(asked, &path, patch),
                None => dead_properties::change(asked, &path, patch),
            }
        }))
    }
}

fn removed(asked: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    let _unlocked = WebdavLocks::check_again(asked, &[path])?;
    folders::remove(asked, path)
}

/// The file that is asked for, if no thread is needed to read it; what is known of it.
fn read_at_once(asked: &WebdavRequestContext, path: &DavPath) -> Option<ResourceMetadata> {
    let path = path_of(path).ok().filter(|path| asked.is_reading(path))?;
    ReadableFile::at_once(asked, &path).map(|reading| asked.keep(reading))
}

/// What is known of a path, and whether a link itself was found there. A file that conditions are about is looked at once.
fn known<'a>(
    asked: &'a WebdavRequestContext,
    path: &TreePath,
    find: impl FnOnce() -> Result<ResolvedResource<'a>, Fault>,
) -> Result<(ResourceMetadata, bool), Fault> {
    if let Some(look) = asked.seen(path) {
        return Ok((look.metadata(path)?, false));
    }
    let found = match find() {
        Err(fault) if fault.kind() == Kind::NotFound => {
            asked.saw(path, ObservedState::Nothing);
            return Err(fault);
        }
        found => found?,
    };
    if found.attributes.kind == EntryKind::File && asked.is_conditional() {
        return Ok((asked.saw(path, ObservedState::at(asked, &found)?).metadata(path)?, false));
    }
    Ok((found.metadata(asked)?, found.attributes.kind == EntryKind::Symlink))
}

/// What a folder holds, by the names it has there, and nothing that takes reading files; links as what they lead to, and none that lead nowhere or
/// out of what the caller may see.
pub(crate) fn listing(asked: &WebdavRequestContext, path: &TreePath) -> Result<Vec<ListedResource>, Fault> {
    let folder = ResolvedResource::at(asked, path)?;
    let mut listing = Vec::new();
    for (path, attributes) in folder.entries(asked)? {
        if attributes.kind != EntryKind::Symlink {
            let metadata = ResourceMetadata::without_etag(attributes);
            listing.push(ListedResource { place: path.clone(), path, metadata });
            continue;
        }
        match ResolvedResource::at(asked, &path) {
            Ok(found) => {
                let metadata = ResourceMetadata::without_etag(found.attributes.clone());
                listing.push(ListedResource { place: found.path.clone(), path, metadata });
            }
            Err(fault) if is_nothing(&fault) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(listing)
}

/// Whether this is said of something that a listing leaves out: it went meanwhile, or is not for who asks.
pub(crate) fn is_nothing(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::NotFound | Kind::Stale | Kind::Forbidden | Kind::Invalid)
}

/// A place in a file of this length.
pub(crate) fn sought(place: SeekFrom, now: u64, length: u64) -> FsResult<u64> {
    let place = match place {
        SeekFrom::Start(offset) => Some(offset),
        SeekFrom::Current(offset) => now.checked_add_signed(offset),
        SeekFrom::End(offset) => length.checked_add_signed(offset),
    };
    place.ok_or(FsError::GeneralFailure)
}
