//! The tree as programs see it: cached or fetched server state, overlaid with unsaved changes.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{FileAttr, FileType, INodeNo, OpenAccMode, OpenFlags};
use svcfs_base::{ETag, Fault, Kind, PathComponent, TreePath};

use super::cache::{CacheLookup, RemoteCache};
use super::client::{ApiClient, EntryType, ExpectedVersion, RemoteEntry, VersionedContent};
use super::dirty_buffers::DirtyBufferPool;
use super::nodes::{RemoteHandle, RemoteNodes, UnsavedChange};
use super::read_versions::ReadVersions;
use super::rejected::RejectedSaves;
use crate::convert::{minimal_attr, open_mode, read_range};
use crate::listings::{DirectoryListing, ListingEntry};

/// How long the kernel may cache an entry while the event stream is open; changes invalidate it
/// earlier.
const FOLLOWED_TTL: Duration = Duration::from_secs(5);

/// Attributes, and how long the kernel may cache them.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttributeReply {
    pub(super) attributes: FileAttr,
    pub(super) ttl: Duration,
}

/// A mounted space of a remote server.
pub(super) struct RemoteTree {
    pub(super) client: ApiClient,
    pub(super) cache: RemoteCache,
    pub(super) nodes: RemoteNodes,
    pub(super) dirty_buffers: DirtyBufferPool,
    pub(super) rejected: RejectedSaves,
    pub(super) read_versions: ReadVersions,
    /// Owner of all files: the API has none.
    pub(super) owner: (u32, u32),
    /// Time shown for what has no time of its own.
    pub(super) mounted_at: SystemTime,
}

impl RemoteTree {
    /// How long the kernel may cache a reply sent now.
    pub(super) fn ttl(&self) -> Duration {
        if self.cache.is_followed() { FOLLOWED_TTL } else { Duration::ZERO }
    }

    /// Looks up a name; a hit increments the lookup count.
    pub(super) fn lookup(&self, parent: INodeNo, name: &PathComponent) -> Result<Option<AttributeReply>, Fault> {
        let path = self.nodes.path(parent)?.join(name);
        match self.effective_attributes(&path) {
            Ok(effective) => {
                let inode = self.nodes.inode_for(&path, 1);
                Ok(Some(self.attr_reply(inode, effective)))
            }
            Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// # Errors
    /// `Stale` when the file was replaced, `NotFound` when it is gone from the server.
    pub(super) fn attributes(&self, inode: INodeNo) -> Result<AttributeReply, Fault> {
        match self.nodes.path(inode) {
            Ok(path) => Ok(self.attr_reply(inode, self.effective_attributes(&path)?)),
            Err(fault) => {
                // Unlinked and still open.
                let unsaved = self.unsaved(inode);
                let content = || self.nodes.open_content(inode).map(|content| content.bytes.len() as u64);
                let effective = match unsaved {
                    Some(effective) => effective,
                    None => EffectiveAttributes::file(content().ok_or(fault)?, self.mounted_at),
                };
                Ok(AttributeReply {
                    attributes: FileAttr { nlink: 0, ..self.attr_reply(inode, effective).attributes },
                    ttl: Duration::ZERO,
                })
            }
        }
    }

    fn effective_attributes(&self, path: &TreePath) -> Result<EffectiveAttributes, Fault> {
        if let Some(unsaved) = self.nodes.known_inode(path).and_then(|inode| self.unsaved(inode)) {
            return Ok(unsaved);
        }
        if path.is_root() || RejectedSaves::is_parent(path) || self.nodes.is_local_directory(path) {
            return Ok(EffectiveAttributes::directory(self.mounted_at));
        }
        if RejectedSaves::contains(path) {
            let metadata = self.rejected.stat(path)?;
            return Ok(if metadata.is_directory {
                EffectiveAttributes::directory(metadata.modified)
            } else {
                EffectiveAttributes::file(metadata.size, metadata.modified)
            });
        }
        match self.entry(path)? {
            Some(entry) => Ok(EffectiveAttributes::of(&entry)),
            None => Err(Fault::file_not_found(path)),
        }
    }

    /// Attributes of the unsaved change of a file.
    fn unsaved(&self, inode: INodeNo) -> Option<EffectiveAttributes> {
        let shared = self.nodes.shared(inode).ok()?;
        let shared = shared.lock();
        let UnsavedChange { buffer, modified, .. } = shared.unsaved.as_ref()?;
        Some(EffectiveAttributes { is_unsaved: true, ..EffectiveAttributes::file(buffer.length() as u64, *modified) })
    }

    fn attr_reply(&self, inode: INodeNo, effective: EffectiveAttributes) -> AttributeReply {
        let EffectiveAttributes { kind, permissions, size, modified, is_unsaved } = effective;
        let ttl = if is_unsaved { Duration::ZERO } else { self.ttl() };
        let attributes = FileAttr {
            size,
            blocks: size.div_ceil(512),
            atime: modified,
            mtime: modified,
            ctime: modified,
            crtime: modified,
            perm: permissions,
            uid: self.owner.0,
            gid: self.owner.1,
            ..minimal_attr(inode, kind)
        };
        AttributeReply { attributes, ttl }
    }

    /// The server's entry at a path.
    pub(super) fn entry(&self, path: &TreePath) -> Result<Option<RemoteEntry>, Fault> {
        let Some(directory) = path.parent() else { return Ok(None) };
        match self.cache.entry(&directory, path.name()) {
            CacheLookup::Present(entry) => Ok(Some(entry)),
            CacheLookup::Absent => Ok(None),
            CacheLookup::Stale => self.refresh_entry(path),
            CacheLookup::Unknown => {
                let entries = match self.list(&directory) {
                    Err(fault) if fault.kind() == Kind::NotFound => Vec::new(),
                    listed => listed?,
                };
                Ok(entries.into_iter().find(|entry| *entry.name == *path.name()))
            }
        }
    }

    /// Fetches the entry of a file.
    pub(super) fn refresh_entry(&self, path: &TreePath) -> Result<Option<RemoteEntry>, Fault> {
        let stamp = self.cache.stamp();
        let entry = self.client.stat(path)?;
        self.cache.store_entry(path, entry.clone(), stamp);
        Ok(entry)
    }

    fn list(&self, directory: &TreePath) -> Result<Vec<RemoteEntry>, Fault> {
        if let Some(entries) = self.cache.listing(directory) {
            let refresh = |entry: RemoteEntry| match PathComponent::parse(&entry.name) {
                Ok(name) => self.refresh_entry(&directory.join(&name)).transpose(),
                Err(fault) => Some(Err(fault)),
            };
            return entries
                .into_iter()
                .filter_map(|(entry, is_stale)| if is_stale { refresh(entry) } else { Some(Ok(entry)) })
                .collect();
        }
        let stamp = self.cache.stamp();
        match self.client.list(directory) {
            Ok(entries) => {
                self.cache.store_listing(directory, &entries, stamp);
                Ok(entries)
            }
            Err(fault) if fault.kind() == Kind::NotFound && self.nodes.is_local_directory(directory) => Ok(Vec::new()),
            Err(fault) => {
                if let (Kind::NotFound, Some(parent)) = (fault.kind(), directory.parent()) {
                    self.cache.drop_listing(&parent);
                }
                Err(fault)
            }
        }
    }

    /// Whether a directory is empty, on the server and locally.
    pub(super) fn is_empty(&self, directory: &TreePath) -> Result<bool, Fault> {
        let (directories, files) = self.nodes.local_entries(directory);
        Ok(directories.is_empty() && files.is_empty() && self.list(directory)?.is_empty())
    }

    pub(super) fn listing(&self, inode: INodeNo) -> Result<DirectoryListing, Fault> {
        let directory = self.nodes.path(inode)?;
        let parent = directory.parent().map_or(INodeNo::ROOT, |path| self.nodes.inode_for(&path, 0));
        let dots = [(".", inode), ("..", parent)].map(|(name, inode)| ListingEntry {
            name: name.into(),
            inode,
            kind: FileType::Directory,
            attributes: None,
        });
        let mut entries: Vec<ListingEntry> = dots.into();
        for (name, entry) in self.merged_names(&directory)? {
            let Ok(path) = PathComponent::parse(&name).map(|name| directory.join(&name)) else { continue };
            let unsaved = self.nodes.known_inode(&path).and_then(|inode| self.unsaved(inode));
            let effective = match (unsaved, entry) {
                (Some(unsaved), _) => unsaved,
                // Not fetched again: the server may be slow, and the directory long.
                (None, Some(entry)) => EffectiveAttributes::of(&entry),
                (None, None) => match self.effective_attributes(&path) {
                    Ok(effective) => effective,
                    // Removed concurrently.
                    Err(fault) if fault.kind() == Kind::NotFound => continue,
                    Err(fault) => return Err(fault),
                },
            };
            let inode = self.nodes.inode_for(&path, 0);
            let attributes = self.attr_reply(inode, effective).attributes;
            entries.push(ListingEntry {
                name: name.into(),
                inode,
                kind: attributes.kind,
                attributes: Some(attributes),
            });
        }
        Ok(entries.into_iter().collect())
    }

    /// The names in a directory, each with the server's entry; none for local ones.
    fn merged_names(&self, directory: &TreePath) -> Result<BTreeMap<String, Option<RemoteEntry>>, Fault> {
        if RejectedSaves::contains(directory) {
            return Ok(self.rejected.list(directory).into_iter().map(|name| (name, None)).collect());
        }
        let listed = match self.list(directory) {
            // Rejected saves must be readable while the server is unreachable.
            Err(_) if RejectedSaves::is_parent(directory) => Vec::new(),
            listed => listed?,
        };
        let (directories, files) = self.nodes.local_entries(directory);
        let own = directories.iter().chain(&files).map(|path| (path.name().to_owned(), None));
        let listed = listed.into_iter().map(|entry| (entry.name.to_string(), Some(entry)));
        let mut merged_names: BTreeMap<_, _> = own.chain(listed).collect();
        if RejectedSaves::is_parent(directory) {
            merged_names.insert(RejectedSaves::dir_name().to_owned(), None);
        }
        Ok(merged_names)
    }

    /// A file's content, fetched unless the cache is certainly current; `known` is a version to
    /// revalidate.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge` over 64 MiB, those of the request.
    pub(super) fn content(&self, path: &TreePath, known: Option<&VersionedContent>) -> Result<VersionedContent, Fault> {
        if RejectedSaves::contains(path) {
            let bytes = self.rejected.read(path)?;
            return Ok(VersionedContent { etag: ETag::from_content(&bytes), bytes });
        }
        let cached = match self.cache.content(path) {
            Some((content, true)) => return Ok(content),
            Some((content, false)) => Some(content),
            None => known.cloned(),
        };
        let stamp = self.cache.stamp();
        let answer = self.client.read(path, cached.as_ref().map(|content| content.etag));
        if answer.as_ref().is_err_and(|fault| fault.kind() == Kind::NotFound) {
            // Removed, and not announced yet.
            self.cache.on_removed(path);
        }
        match (answer?, cached) {
            (Some(content), _) => {
                self.cache.store_content(path, content.clone(), stamp);
                Ok(content)
            }
            (None, Some(content)) => {
                self.cache.store_content(path, content.clone(), stamp);
                Ok(content)
            }
            (None, None) => Err(Fault::new(Kind::Upstream, "the server answered 304 to an unconditional request")),
        }
    }

    /// The current version of a file, fetched without its content unless that is cached.
    ///
    /// # Errors
    /// `NotFound`, those of the request.
    pub(super) fn version(&self, path: &TreePath) -> Result<ETag, Fault> {
        match self.cache.content(path) {
            Some((content, true)) => Ok(content.etag),
            Some((_, false)) | None => self.client.version(path),
        }
    }

    /// Opens a file for a process. One that opens a file only to write it does not learn what is in
    /// it.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `ReadOnly` for a rejected text, those of the request.
    pub(super) fn open(&self, (inode, process): (INodeNo, Option<u32>), access: OpenAccess) -> Result<u64, Fault> {
        let path = self.nodes.path(inode)?;
        let is_writing = access != OpenAccess::Read;
        if is_writing {
            RejectedSaves::check_writable(&path)?;
        }
        let shared = self.nodes.shared(inode)?;
        let mut shared = shared.lock();
        let mut opened = RemoteHandle::new(inode, is_writing);
        let reader = process.filter(|_| matches!(access, OpenAccess::Read | OpenAccess::ReadWrite));
        if access == OpenAccess::Replace {
            let base = self.base_of_new_text(shared.unsaved.as_ref(), process, &path)?;
            shared.unsaved = Some(UnsavedChange::of(base, self.dirty_buffers.empty()));
            return Ok(self.nodes.open(opened));
        }
        if let Some(unsaved) = &shared.unsaved {
            // Unsaved bytes may become a version, or not, or be incomplete.
            if let Some(process) = reader {
                self.read_versions.record_read(process, &path, unsaved.buffer.etag()?);
            }
            return Ok(self.nodes.open(opened));
        }
        let content = self.content(&path, None)?;
        if let Some(process) = reader {
            self.read_versions.record_read(process, &path, content.etag);
        }
        self.check_listed(&path, &content);
        opened.content = Some(content);
        Ok(self.nodes.open(opened))
    }

    /// The version on which a complete new text of a file is based: the one that the process has
    /// read, else the current one.
    pub(super) fn base_of_new_text(
        &self,
        unsaved: Option<&UnsavedChange>,
        process: Option<u32>,
        path: &TreePath,
    ) -> Result<ExpectedVersion, Fault> {
        if let Some(unsaved) = unsaved {
            return Ok(unsaved.base);
        }
        let read = process.and_then(|process| self.read_versions.version(process, path));
        Ok(ExpectedVersion::Version(read.map_or_else(|| self.version(path), Ok)?))
    }

    /// Starts an empty dirty buffer for a file that is truncated after it was opened, as `O_TRUNC`
    /// does.
    pub(super) fn begin_new_text(&self, process: Option<u32>, inode: INodeNo) -> Result<(), Fault> {
        let (shared, path) = (self.nodes.shared(inode)?, self.nodes.path(inode));
        let mut shared = shared.lock();
        // A removed file is saved nowhere.
        if let (None, Ok(path)) = (&shared.unsaved, path) {
            let base = self.base_of_new_text(None, process, &path)?;
            shared.unsaved = Some(UnsavedChange::of(base, self.dirty_buffers.empty()));
        }
        Ok(())
    }

    /// Fetches an entry whose size does not match the content.
    fn check_listed(&self, path: &TreePath, content: &VersionedContent) {
        let Some(directory) = path.parent() else { return };
        if let CacheLookup::Present(entry) = self.cache.entry(&directory, path.name())
            && entry.kind != EntryType::Symlink
            && entry.size != content.bytes.len() as u64
        {
            // The result is only for the cache; the next reader repeats a failed fetch.
            drop(self.refresh_entry(path));
        }
    }

    /// Reads from the version that was current at the open. At its end, a reader also sees what was
    /// appended since.
    ///
    /// # Errors
    /// Those of the request, for a file that was not read before.
    pub(super) fn read(&self, inode: INodeNo, handle: u64, (offset, length): (u64, u32)) -> Result<Bytes, Fault> {
        if let Some(unsaved) = &self.nodes.shared(inode)?.lock().unsaved {
            let range = read_range(unsaved.buffer.length(), offset, length);
            return unsaved.buffer.read((range.start, range.end));
        }
        let content = match self.nodes.handle(handle)?.content {
            Some(opened) if offset < opened.bytes.len() as u64 => opened,
            Some(opened) => self.appended_content(inode, opened),
            None => self.content(&self.nodes.path(inode)?, None)?,
        };
        self.nodes.record_read(handle, &content);
        let range = read_range(content.bytes.len(), offset, length);
        Ok(content.bytes.slice(range))
    }

    /// The current content if it extends the opened content, else the latter.
    fn appended_content(&self, inode: INodeNo, opened: VersionedContent) -> VersionedContent {
        let current = self.nodes.path(inode).ok().and_then(|path| {
            self.cache.content(&path).or_else(|| {
                // Not cached: it was changed.
                self.content(&path, Some(&opened)).ok().map(|content| (content, true))
            })
        });
        match current {
            Some((current, _)) if current.bytes.starts_with(&opened.bytes) => current,
            Some(_) | None => opened,
        }
    }

    pub(super) fn target(&self, inode: INodeNo) -> Result<Bytes, Fault> {
        self.client.target(&self.nodes.path(inode)?)
    }
}

/// What a program opens a file for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenAccess {
    Read,
    Write,
    ReadWrite,
    /// To write a new text (`O_TRUNC`).
    Replace,
}

impl OpenAccess {
    pub(super) fn of(flags: OpenFlags) -> Self {
        match (flags.acc_mode(), open_mode(flags).truncate) {
            (OpenAccMode::O_RDONLY, _) => Self::Read,
            (_, true) => Self::Replace,
            (OpenAccMode::O_WRONLY, false) => Self::Write,
            (OpenAccMode::O_RDWR, false) => Self::ReadWrite,
        }
    }
}

/// Attributes of a path including unsaved changes.
#[derive(Debug, Clone, Copy)]
struct EffectiveAttributes {
    kind: FileType,
    permissions: u16,
    size: u64,
    modified: SystemTime,
    is_unsaved: bool,
}

impl EffectiveAttributes {
    const fn file(size: u64, modified: SystemTime) -> Self {
        Self { kind: FileType::RegularFile, permissions: 0o644, size, modified, is_unsaved: false }
    }
    const fn directory(modified: SystemTime) -> Self {
        Self { kind: FileType::Directory, permissions: 0o755, size: 0, modified, is_unsaved: false }
    }
    fn of(entry: &RemoteEntry) -> Self {
        let modified = entry.modified.into();
        match entry.kind {
            EntryType::Directory => Self::directory(modified),
            EntryType::File | EntryType::Special => Self::file(entry.size, modified),
            EntryType::Executable => Self { permissions: 0o755, ..Self::file(entry.size, modified) },
            EntryType::Symlink => {
                Self { kind: FileType::Symlink, permissions: 0o777, ..Self::file(entry.size, modified) }
            }
        }
    }
}
