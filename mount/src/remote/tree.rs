//! The server's tree as programs see it: what is known of it, asked where it is not, and what was not saved yet over it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{FileAttr, FileType, INodeNo};
use svcfs_base::{ETag, Fault, Kind, PathComponent, TreePath};

use super::cache::{CacheLookup, RemoteCache};
use super::client::{ApiClient, EntryType, ExpectedVersion, RemoteEntry, VersionedContent};
use super::dirty_buffers::DirtyBufferPool;
use super::nodes::{RemoteHandle, RemoteNodes, UnsavedChange};
use super::read_versions::ReadVersions;
use super::rejected::RejectedSaves;
use crate::convert::blank;
use crate::listings::{DirectoryListing, ListingEntry};

/// How long the kernel may believe what it was told, while the event stream is open: it is told earlier of what changes.
const FOLLOWED: Duration = Duration::from_secs(5);

/// Attributes, and how long the kernel may believe them.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttributeReply {
    pub(super) attributes: FileAttr,
    pub(super) lasts: Duration,
}

/// A mounted tree of a server.
pub(super) struct RemoteTree {
    pub(super) client: ApiClient,
    pub(super) cache: RemoteCache,
    pub(super) nodes: RemoteNodes,
    pub(super) drafts: DirtyBufferPool,
    pub(super) kept: RejectedSaves,
    pub(super) readers: ReadVersions,
    /// Whose the files are: the API knows no owners.
    pub(super) owner: (u32, u32),
    /// When it was mounted: what has no time of its own has this one.
    pub(super) mounted: SystemTime,
}

impl RemoteTree {
    /// How long the kernel may believe what it is told now.
    pub(super) fn lasts(&self) -> Duration {
        if self.cache.is_followed() { FOLLOWED } else { Duration::ZERO }
    }

    /// Finds a name in a directory, or nothing; counts as a finding.
    pub(super) fn lookup(&self, parent: INodeNo, name: &PathComponent) -> Result<Option<AttributeReply>, Fault> {
        let path = self.nodes.path(parent)?.join(name);
        match self.at(&path) {
            Ok(shown) => {
                let inode = self.nodes.find(&path, 1);
                Ok(Some(self.told(inode, shown)))
            }
            Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// `Stale` when its name is another's, `NotFound` when it is gone from the server.
    pub(super) fn attributes(&self, inode: INodeNo) -> Result<AttributeReply, Fault> {
        match self.nodes.path(inode) {
            Ok(path) => Ok(self.told(inode, self.at(&path)?)),
            Err(gone) => {
                // It lives on for its handles.
                let unsaved = self.unsaved(inode);
                let content = || self.nodes.kept_open(inode).map(|content| content.bytes.len() as u64);
                let shown = match unsaved {
                    Some(shown) => shown,
                    None => EffectiveAttributes::file(content().ok_or(gone)?, self.mounted),
                };
                Ok(AttributeReply {
                    attributes: FileAttr { nlink: 0, ..self.told(inode, shown).attributes },
                    lasts: Duration::ZERO,
                })
            }
        }
    }

    /// What a path shows.
    fn at(&self, path: &TreePath) -> Result<EffectiveAttributes, Fault> {
        if let Some(unsaved) = self.nodes.at(path).and_then(|inode| self.unsaved(inode)) {
            return Ok(unsaved);
        }
        if path.is_root() || RejectedSaves::is_above(path) || self.nodes.is_own_directory(path) {
            return Ok(EffectiveAttributes::directory(self.mounted));
        }
        if RejectedSaves::has(path) {
            let found = self.kept.look(path)?;
            return Ok(if found.is_directory {
                EffectiveAttributes::directory(found.modified)
            } else {
                EffectiveAttributes::file(found.size, found.modified)
            });
        }
        match self.entry(path)? {
            Some(entry) => Ok(EffectiveAttributes::of(&entry)),
            None => Err(Fault::file_not_found(path)),
        }
    }

    /// What programs wrote to a file and nobody saved yet.
    fn unsaved(&self, inode: INodeNo) -> Option<EffectiveAttributes> {
        let shared = self.nodes.shared(inode).ok()?;
        let shared = shared.lock();
        let UnsavedChange { draft, modified, .. } = shared.unsaved.as_ref()?;
        Some(EffectiveAttributes { is_unsaved: true, ..EffectiveAttributes::file(draft.length() as u64, *modified) })
    }

    fn told(&self, inode: INodeNo, shown: EffectiveAttributes) -> AttributeReply {
        let EffectiveAttributes { kind, permissions, size, modified, is_unsaved } = shown;
        let lasts = if is_unsaved { Duration::ZERO } else { self.lasts() };
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
            ..blank(inode, kind)
        };
        AttributeReply { attributes, lasts }
    }

    /// What the server has at a path.
    ///
    /// # Errors
    /// Those of asking it.
    pub(super) fn entry(&self, path: &TreePath) -> Result<Option<RemoteEntry>, Fault> {
        let Some(directory) = path.parent() else { return Ok(None) };
        match self.cache.entry(&directory, path.name()) {
            CacheLookup::There(entry) => Ok(Some(entry)),
            CacheLookup::Absent => Ok(None),
            CacheLookup::Stale => self.look(path),
            CacheLookup::Unknown => {
                let entries = match self.list(&directory) {
                    Err(fault) if fault.kind() == Kind::NotFound => Vec::new(),
                    listed => listed?,
                };
                Ok(entries.into_iter().find(|entry| *entry.name == *path.name()))
            }
        }
    }

    /// Looks at one file of the server anew.
    ///
    /// # Errors
    /// Those of asking it.
    pub(super) fn look(&self, path: &TreePath) -> Result<Option<RemoteEntry>, Fault> {
        let asked = self.cache.asked();
        let entry = self.client.look(path)?;
        self.cache.keep_entry(path, entry.clone(), asked);
        Ok(entry)
    }

    /// The entries of a directory of the server.
    fn list(&self, directory: &TreePath) -> Result<Vec<RemoteEntry>, Fault> {
        if let Some(entries) = self.cache.listing(directory) {
            let anew = |entry: RemoteEntry| match PathComponent::parse(&entry.name) {
                Ok(name) => self.look(&directory.join(&name)).transpose(),
                Err(fault) => Some(Err(fault)),
            };
            return entries
                .into_iter()
                .filter_map(|(entry, is_stale)| if is_stale { anew(entry) } else { Some(Ok(entry)) })
                .collect();
        }
        let asked = self.cache.asked();
        match self.client.list(directory) {
            Ok(entries) => {
                self.cache.keep_listing(directory, &entries, asked);
                Ok(entries)
            }
            Err(fault) if fault.kind() == Kind::NotFound && self.nodes.is_own_directory(directory) => Ok(Vec::new()),
            Err(fault) => {
                if let (Kind::NotFound, Some(above)) = (fault.kind(), directory.parent()) {
                    self.cache.forget_listing(&above);
                }
                Err(fault)
            }
        }
    }

    /// Whether nothing is in a directory, on the server and here.
    ///
    /// # Errors
    /// Those of asking the server.
    pub(super) fn is_empty(&self, directory: &TreePath) -> Result<bool, Fault> {
        let (directories, files) = self.nodes.own_in(directory);
        Ok(directories.is_empty() && files.is_empty() && self.list(directory)?.is_empty())
    }

    /// A directory as it is read.
    ///
    /// # Errors
    /// Those of asking the server.
    pub(super) fn listing(&self, inode: INodeNo) -> Result<DirectoryListing, Fault> {
        let directory = self.nodes.path(inode)?;
        let above = directory.parent().map_or(INodeNo::ROOT, |path| self.nodes.find(&path, 0));
        let dots = [(".", inode), ("..", above)].map(|(name, inode)| ListingEntry {
            name: name.into(),
            inode,
            kind: FileType::Directory,
            known: None,
        });
        let mut lines: Vec<ListingEntry> = dots.into();
        for (name, entry) in self.names(&directory)? {
            let Ok(place) = PathComponent::parse(&name).map(|name| directory.join(&name)) else { continue };
            let unsaved = self.nodes.at(&place).and_then(|inode| self.unsaved(inode));
            let shown = match (unsaved, entry) {
                (Some(unsaved), _) => unsaved,
                // Not asked again: the server may be slow, and the directory long.
                (None, Some(entry)) => EffectiveAttributes::of(&entry),
                (None, None) => match self.at(&place) {
                    Ok(shown) => shown,
                    // Gone in this moment.
                    Err(fault) if fault.kind() == Kind::NotFound => continue,
                    Err(fault) => return Err(fault),
                },
            };
            let inode = self.nodes.find(&place, 0);
            let known = self.told(inode, shown).attributes;
            lines.push(ListingEntry { name: name.into(), inode, kind: known.kind, known: Some(known) });
        }
        Ok(lines.into_iter().collect())
    }

    /// The names in a directory, with what the server has there; those that are here only have nothing.
    fn names(&self, directory: &TreePath) -> Result<BTreeMap<String, Option<RemoteEntry>>, Fault> {
        if RejectedSaves::has(directory) {
            return Ok(self.kept.list(directory).into_iter().map(|name| (name, None)).collect());
        }
        let listed = match self.list(directory) {
            // Also when the server is away: then it is looked for what was not saved.
            Err(_) if RejectedSaves::is_above(directory) => Vec::new(),
            listed => listed?,
        };
        let (directories, files) = self.nodes.own_in(directory);
        let own = directories.iter().chain(&files).map(|path| (path.name().to_owned(), None));
        let listed = listed.into_iter().map(|entry| (entry.name.to_string(), Some(entry)));
        let mut names: BTreeMap<_, _> = own.chain(listed).collect();
        if RejectedSaves::is_above(directory) {
            names.insert(RejectedSaves::name().to_owned(), None);
        }
        Ok(names)
    }

    /// A file's content, asked for unless it is certainly known; `known` is what somebody has of it.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge` over 64 MiB, those of asking the server.
    pub(super) fn content(&self, path: &TreePath, known: Option<&VersionedContent>) -> Result<VersionedContent, Fault> {
        if RejectedSaves::has(path) {
            let bytes = self.kept.read(path)?;
            return Ok(VersionedContent { etag: ETag::from_content(&bytes), bytes });
        }
        let cached = match self.cache.content(path) {
            Some((content, true)) => return Ok(content),
            Some((content, false)) => Some(content),
            None => known.cloned(),
        };
        let asked = self.cache.asked();
        let answer = self.client.read(path, cached.as_ref().map(|content| content.etag));
        if answer.as_ref().is_err_and(|fault| fault.kind() == Kind::NotFound) {
            // Gone, and not told yet.
            self.cache.removed(path);
        }
        match (answer?, cached) {
            (Some(content), _) => {
                self.cache.keep_content(path, content.clone(), asked);
                Ok(content)
            }
            (None, Some(content)) => {
                self.cache.keep_content(path, content.clone(), asked);
                Ok(content)
            }
            (None, None) => {
                Err(Fault::new(Kind::Upstream, "the server says that nothing changed, and was not asked that"))
            }
        }
    }

    /// The version of a file that is certainly there now, without its content where that is not known.
    ///
    /// # Errors
    /// `NotFound`, those of asking the server.
    pub(super) fn version(&self, path: &TreePath) -> Result<ETag, Fault> {
        match self.cache.content(path) {
            Some((content, true)) => Ok(content.etag),
            Some((_, false)) | None => self.client.version(path),
        }
    }

    /// Opens a file; `process` is who does, and `is_emptied` says that its content does not matter.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `ReadOnly` for a text that is kept here, those of asking the server.
    pub(super) fn open(
        &self,
        (inode, process): (INodeNo, Option<u32>),
        is_writing: bool,
        is_emptied: bool,
    ) -> Result<u64, Fault> {
        let path = self.nodes.path(inode)?;
        if is_writing {
            RejectedSaves::check_writable(&path)?;
        }
        let shared = self.nodes.shared(inode)?;
        let mut shared = shared.lock();
        let mut opened = RemoteHandle { inode, is_writing, content: None, refused: None };
        if is_writing && is_emptied {
            let base = match &shared.unsaved {
                Some(unsaved) => unsaved.base,
                None => {
                    ExpectedVersion::Version(match process.and_then(|process| self.readers.version(process, &path)) {
                        Some(read) => read,
                        None => self.version(&path)?,
                    })
                }
            };
            shared.unsaved = Some(UnsavedChange::of(base, self.drafts.empty()));
            return Ok(self.nodes.open(opened));
        }
        if let Some(unsaved) = &shared.unsaved {
            // What it reads may become a version, or not, or may be in the middle of being written.
            if let Some(process) = process {
                self.readers.read(process, &path, unsaved.draft.etag()?);
            }
            return Ok(self.nodes.open(opened));
        }
        let content = self.content(&path, None)?;
        if let Some(process) = process {
            self.readers.read(process, &path, content.etag);
        }
        self.check_listed(&path, &content);
        opened.content = Some(content);
        Ok(self.nodes.open(opened))
    }

    /// Looks at a file anew when what its directory says is about another content.
    fn check_listed(&self, path: &TreePath, content: &VersionedContent) {
        let Some(directory) = path.parent() else { return };
        if let CacheLookup::There(entry) = self.cache.entry(&directory, path.name())
            && entry.kind != EntryType::Symlink
            && entry.size != content.bytes.len() as u64
        {
            // Not needed now, and asked again by whoever needs it.
            drop(self.look(path));
        }
    }

    /// Reads from a file: of one version from its beginning to its end, the one that was there when it was opened. Only what was added to
    /// it since is seen by whoever reads on at its end.
    ///
    /// # Errors
    /// Those of asking the server, for a file that was not read before.
    pub(super) fn read(&self, inode: INodeNo, handle: u64, (offset, length): (u64, u32)) -> Result<Bytes, Fault> {
        if let Some(unsaved) = &self.nodes.shared(inode)?.lock().unsaved {
            let range = range(unsaved.draft.length(), offset, length);
            return unsaved.draft.read((range.start, range.end));
        }
        let content = match self.nodes.opened(handle)?.content {
            Some(opened) if offset < opened.bytes.len() as u64 => opened,
            Some(opened) => self.continued(inode, opened),
            None => self.content(&self.nodes.path(inode)?, None)?,
        };
        self.nodes.read(handle, &content);
        let range = range(content.bytes.len(), offset, length);
        Ok(content.bytes.slice(range))
    }

    /// What a file is now, if that begins with what it was.
    fn continued(&self, inode: INodeNo, opened: VersionedContent) -> VersionedContent {
        let now = self.nodes.path(inode).ok().and_then(|path| {
            self.cache.content(&path).or_else(|| {
                // Nothing is known of it: it was changed.
                self.content(&path, Some(&opened)).ok().map(|content| (content, true))
            })
        });
        match now {
            Some((now, _)) if now.bytes.starts_with(&opened.bytes) => now,
            Some(_) | None => opened,
        }
    }

    /// Where a link points.
    ///
    /// # Errors
    /// Those of asking the server.
    pub(super) fn target(&self, inode: INodeNo) -> Result<Bytes, Fault> {
        self.client.target(&self.nodes.path(inode)?)
    }
}

fn range(length: usize, offset: u64, wanted: u32) -> std::ops::Range<usize> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(length);
    start..start.saturating_add(wanted as usize).min(length)
}

/// What programs are shown of a path.
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
