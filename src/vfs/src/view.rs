//! Reading by path: what HTTP, WebDAV, S3 and the tools see.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use svcfs_base::{ETag, Fault, FileKind, Kind, LargeFile, MAX_FILE_BYTES, PathComponent, Protocol, TreePath};
use svcfs_store::{CachedFile, FileStat, SpecialFile, StatKind, StoreError};

use crate::Vfs;
use crate::overlay::OverlayFile;
use crate::path_class::REJECTED_DIRECTORY;

/// Type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device: only for nodes (`nodes/special.rs`), never in results by path.
    Special(SpecialFile),
}

/// Attributes of a path.
#[derive(Debug, Clone)]
pub struct PathAttributes {
    /// Type of the entry.
    pub kind: EntryKind,
    /// Length in bytes; 0 for a directory, the length of the target for a link.
    pub size: u64,
    /// Blocks of 512 bytes on disk; those that its bytes need while it is pending.
    pub blocks: u64,
    /// Permission bits (`0o7777`).
    pub mode: u32,
    /// Owner on the server's disk.
    pub uid: u32,
    /// Group on the server's disk.
    pub gid: u32,
    /// Last modification.
    pub modified: SystemTime,
    /// Last change of attributes.
    pub changed: SystemTime,
    /// Last access.
    pub accessed: SystemTime,
    /// Number of names on the server's disk.
    pub links: u32,
}

impl PathAttributes {
    /// Identity of an unversioned large file, if it is one.
    pub fn large_file(&self) -> Option<LargeFile> {
        let is_large = self.kind == EntryKind::File && self.size > MAX_FILE_BYTES as u64;
        is_large.then_some(LargeFile { size: self.size, modified: self.modified })
    }
}

/// One entry of a listing.
#[derive(Debug, Clone)]
pub struct DirectoryEntry {
    /// Its full path.
    pub path: TreePath,
    /// Its attributes.
    pub attributes: PathAttributes,
}

/// A file's content and attributes.
#[derive(Debug, Clone)]
pub struct FileView {
    /// Its bytes.
    pub content: Bytes,
    /// Their git blob hash.
    pub etag: ETag,
    /// Its attributes.
    pub attributes: PathAttributes,
}

/// The file that a path resolves to.
pub(crate) enum FoundFile {
    Pending(FileView),
    /// In the tree, with its size in bytes.
    InTree(TreePath, u64),
}

impl From<FileStat> for PathAttributes {
    fn from(stat: FileStat) -> Self {
        let kind = match stat.kind {
            StatKind::Directory => EntryKind::Directory,
            StatKind::File => EntryKind::File,
            StatKind::Symlink => EntryKind::Symlink,
            StatKind::Special(special) => EntryKind::Special(special),
        };
        Self {
            kind,
            size: if kind == EntryKind::Directory { 0 } else { stat.size },
            blocks: stat.blocks,
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            modified: stat.modified,
            changed: stat.changed,
            accessed: stat.accessed,
            links: stat.links,
        }
    }
}

pub(crate) const fn blocks_of(size: u64) -> u64 {
    size.div_ceil(512)
}

const MAX_LINKS: usize = 40;

impl Vfs {
    /// Attributes of a path; a final link is not followed.
    ///
    /// # Errors
    /// `NotFound` when nothing is there, or nothing visible to this protocol.
    pub fn stat(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        self.check_visible(protocol, path)?;
        match self.core.overlay.get(path) {
            Some(pending) => match pending.leaf {
                Some(leaf) => self.pending_attributes(path, &leaf, pending.accepted),
                None => self.directory_attributes(path),
            },
            None => match self.core.tree.stat(path) {
                Ok(stat) => Ok(stat.into()),
                Err(StoreError::SymlinkInPath(_)) => self.stat(protocol, &self.resolve_directories(protocol, path)?),
                Err(error) => Err(not_found_fault(path, error)),
            },
        }
    }

    /// The entries of a directory in name order, as visible to the protocol.
    ///
    /// # Errors
    /// `NotFound`, or `NotDirectory`.
    pub fn list(&self, protocol: Protocol, path: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        self.check_visible(protocol, path)?;
        // Read before the tree: a file installed in between is seen twice, not missed.
        let pending = self.core.overlay.below(path);
        let entries = match self.core.tree.list(path) {
            Ok(entries) => entries,
            Err(StoreError::Disk { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Fault::not_directory(path));
            }
            Err(StoreError::SymlinkInPath(_)) => {
                let target = self.resolve_directories(protocol, path)?;
                let target = match self.core.tree.read_link(&target) {
                    Ok(link_text) => self.follow(&target, &link_text)?,
                    Err(_) => target,
                };
                // With paths below the requested one.
                let renamed = |entry: DirectoryEntry| {
                    let path = entry.path.rebase(&target, path).unwrap_or(entry.path);
                    DirectoryEntry { path, ..entry }
                };
                return Ok(self.list(protocol, &target)?.into_iter().map(renamed).collect());
            }
            Err(error) => return Err(not_found_fault(path, error)),
        };
        let entries = entries.into_iter().map(|(name, stat)| (name, PathAttributes::from(stat)));
        let visible = |(name, attributes)| {
            let entry = DirectoryEntry { path: path.join(&name), attributes };
            self.core.is_visible(protocol, &entry.path).then_some(entry)
        };
        if pending.is_empty() {
            return Ok(entries.filter_map(visible).collect());
        }
        let mut entries: BTreeMap<PathComponent, PathAttributes> = entries.collect();
        for (pending_path, pending) in pending {
            let Some(name) = child_name(path, &pending_path) else {
                continue;
            };
            match pending.leaf {
                Some(leaf) => {
                    entries.insert(name, self.pending_attributes(&pending_path, &leaf, pending.accepted)?);
                }
                None if entries.get(&name).is_some_and(|entry| entry.kind != EntryKind::Directory) => {
                    entries.remove(&name);
                }
                None => {}
            }
        }
        Ok(entries.into_iter().filter_map(visible).collect())
    }

    /// The content of a file; links within the root are followed.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, or `Invalid` when a link leads out of the root.
    pub fn read(&self, protocol: Protocol, path: &TreePath) -> Result<FileView, Fault> {
        self.read_found(path, self.find_file(protocol, path)?)
    }

    pub(crate) fn read_found(&self, path: &TreePath, file: FoundFile) -> Result<FileView, Fault> {
        let target = match file {
            FoundFile::Pending(file) => return Ok(file),
            FoundFile::InTree(target, _) => target,
        };
        let (content, stat) = self.core.tree.read(&target).map_err(|error| not_found_fault(path, error))?;
        Ok(FileView { etag: ETag::from_content(&content), content, attributes: stat.into() })
    }

    /// The file that a path resolves to; links within the root are followed.
    pub(crate) fn find_file(&self, protocol: Protocol, path: &TreePath) -> Result<FoundFile, Fault> {
        let mut target = path.clone();
        for _ in 0..MAX_LINKS {
            self.check_visible(protocol, &target)?;
            match self.core.overlay.get(&target).map(|pending| (pending.leaf, pending.accepted)) {
                Some((Some(leaf), accepted)) if leaf.kind != FileKind::Symlink => {
                    let attributes = self.pending_attributes(&target, &leaf, accepted)?;
                    return Ok(FoundFile::Pending(FileView { content: leaf.content, etag: leaf.etag, attributes }));
                }
                Some((Some(leaf), _)) => target = self.follow(&target, &String::from_utf8_lossy(&leaf.content))?,
                Some((None, _)) => return Err(Fault::file_not_found(path)),
                None => match self.core.tree.stat(&target) {
                    Ok(stat) if stat.kind == StatKind::Symlink => {
                        target = self.follow(&target, &self.core.tree.read_link(&target)?)?;
                    }
                    Ok(stat) if stat.kind == StatKind::Directory => return Err(Fault::is_directory(path)),
                    Ok(stat) => return Ok(FoundFile::InTree(target, stat.size)),
                    Err(StoreError::SymlinkInPath(_)) => target = self.resolve_directories(protocol, &target)?,
                    Err(error) => return Err(not_found_fault(path, error)),
                },
            }
        }
        Err(too_many_links(path))
    }

    /// The content of a small file and one of its extended attributes, if no I/O is needed. None
    /// for everything else; async protocols then call [`Vfs::read`] on another thread.
    pub fn try_read_cached(
        &self,
        protocol: Protocol,
        path: &TreePath,
        xattr_name: Option<&[u8]>,
    ) -> Option<(FileView, Option<Vec<u8>>)> {
        if !self.core.is_surely_visible(protocol, path) || self.core.overlay.get(path).is_some() {
            return None;
        }
        let CachedFile { content, stat, xattr } = self.core.tree.try_read_cached(path, xattr_name)?;
        Some((FileView { etag: ETag::from_content(&content), content, attributes: stat.into() }, xattr))
    }

    /// The stored text of the last save of a path, if that was rejected.
    ///
    /// # Errors
    /// Those of [`Vfs::read`], without `NotFound`.
    pub fn rejected_text(&self, path: &TreePath) -> Result<Option<Bytes>, Fault> {
        let Ok(target) = TreePath::parse(&format!("{REJECTED_DIRECTORY}/{path}")) else { return Ok(None) };
        match self.read(Protocol::Internal, &target) {
            Ok(file) => Ok(Some(file.content)),
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `NotFound` when nothing is there, `Invalid` when it is not a link.
    pub fn read_link(&self, protocol: Protocol, path: &TreePath) -> Result<String, Fault> {
        if self.stat(protocol, path)?.kind != EntryKind::Symlink {
            return Err(Fault::invalid("path", format_args!("`{path}` is not a symbolic link")));
        }
        match self.core.overlay.get(path).and_then(|pending| pending.leaf) {
            Some(leaf) => Ok(String::from_utf8_lossy(&leaf.content).into_owned()),
            None => Ok(self.core.tree.read_link(path)?),
        }
    }

    /// All visible versioned files below a directory, in path order; follows no links.
    ///
    /// # Errors
    /// `NotFound`, or `NotDirectory`.
    pub fn walk(&self, protocol: Protocol, below: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        let mut files = Vec::new();
        let mut pending_dirs = vec![below.clone()];
        while let Some(directory) = pending_dirs.pop() {
            let entries = match self.list(protocol, &directory) {
                Ok(entries) => entries,
                // Removed during the walk.
                Err(fault) if directory != *below && fault.kind() == svcfs_base::Kind::NotFound => continue,
                Err(fault) => return Err(fault),
            };
            for entry in entries {
                if !self.core.is_versioned(&entry.path) || self.core.is_left_untracked(&entry.path) {
                    continue;
                }
                match entry.attributes.kind {
                    EntryKind::Directory => pending_dirs.push(entry.path),
                    EntryKind::File | EntryKind::Symlink => files.push(entry),
                    EntryKind::Special(_) => {}
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    fn check_visible(&self, protocol: Protocol, path: &TreePath) -> Result<(), Fault> {
        if self.core.is_visible(protocol, path) { Ok(()) } else { Err(Fault::file_not_found(path)) }
    }

    /// Whether a protocol cannot create or remove this path: root and server files.
    pub fn is_protected(&self, protocol: Protocol, path: &TreePath) -> bool {
        path.is_root() || !self.core.is_visible(protocol, path) || self.core.path_classes.is_fixed(protocol, path)
    }

    /// Resolves all links of a path; the path itself without links, whether or not it exists.
    ///
    /// # Errors
    /// `Invalid` for links that lead out of the root or in a circle.
    pub fn resolve_links(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        // Almost no path contains links, which one stat shows.
        self.check_visible(protocol, path)?;
        if self.core.tree.stat(path).is_ok_and(|stat| stat.kind != StatKind::Symlink)
            && self.core.overlay.get(path).is_none()
        {
            return Ok(path.clone());
        }
        let mut target = path.clone();
        for _ in 0..MAX_LINKS {
            target = self.resolve_directories(protocol, &target)?;
            if target.is_root() || !self.stat(protocol, &target).is_ok_and(|file| file.kind == EntryKind::Symlink) {
                return Ok(target);
            }
            target = self.follow(&target, &self.read_link(protocol, &target)?)?;
        }
        Err(too_many_links(path))
    }

    /// Resolves the link at a path; the path itself when it is none.
    pub(crate) fn resolve_final_link(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        let mut target = path.clone();
        for _ in 0..MAX_LINKS {
            if path.is_root() || !self.stat(protocol, &target).is_ok_and(|file| file.kind == EntryKind::Symlink) {
                return Ok(target);
            }
            target = self.follow(&target, &self.read_link(protocol, &target)?)?;
        }
        Err(too_many_links(path))
    }

    /// Resolves links in the directories of a path, all of which must be visible to the protocol.
    pub(crate) fn resolve_directories(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        let mut target = TreePath::root();
        let mut followed = 0;
        let mut remaining: Vec<PathComponent> =
            path.components().rev().map(PathComponent::parse).collect::<Result<_, _>>()?;
        while let Some(name) = remaining.pop() {
            target = target.join(&name);
            self.check_visible(protocol, &target)?;
            if remaining.is_empty() {
                break;
            }
            if let Ok(link_text) = self.core.tree.read_link(&target) {
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(too_many_links(path));
                }
                let target_path = self.follow(&target, &link_text)?;
                remaining
                    .extend(target_path.components().rev().map(PathComponent::parse).collect::<Result<Vec<_>, _>>()?);
                target = TreePath::root();
            }
        }
        Ok(target)
    }

    fn follow(&self, link: &TreePath, target: &str) -> Result<TreePath, Fault> {
        let outside = || Fault::invalid("path", format_args!("`{link}` leads out of the knowledge root"));
        if target.starts_with('/') {
            return Err(outside());
        }
        let mut parts: Vec<&str> = link.components().collect();
        parts.pop();
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop().ok_or_else(outside)?;
                }
                name => parts.push(name),
            }
        }
        TreePath::parse(&parts.join("/"))
    }

    /// Attributes that a pending file will have.
    pub(crate) fn pending_attributes(
        &self,
        path: &TreePath,
        leaf: &OverlayFile,
        accepted: SystemTime,
    ) -> Result<PathAttributes, Fault> {
        let on_disk = match self.core.tree.stat(path) {
            Ok(stat) if stat.kind != StatKind::Directory => Some(stat),
            Ok(_) => None,
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error.into()),
        };
        let (uid, gid) = match (leaf.disk.owner, &on_disk) {
            (Some(owner), _) => owner,
            (None, Some(stat)) => (stat.uid, stat.gid),
            (None, None) => {
                let parent = self.core.tree.stat(&path.parent().unwrap_or_else(TreePath::root))?;
                (parent.uid, parent.gid)
            }
        };
        let modified = leaf.disk.modified.unwrap_or_else(|| self.core.file_time());
        let bits = leaf.disk.mode.or(on_disk.map(|stat| stat.preserved_mode())).unwrap_or(0o644);
        let (kind, mode) = match leaf.kind {
            FileKind::Symlink => (EntryKind::Symlink, 0o777),
            FileKind::Executable => (EntryKind::File, bits | ((bits & 0o444) >> 2)),
            FileKind::Regular => (EntryKind::File, bits & !0o111),
        };
        Ok(PathAttributes {
            kind,
            size: leaf.content.len() as u64,
            mode,
            uid,
            gid,
            modified,
            changed: accepted,
            blocks: blocks_of(leaf.content.len() as u64),
            accessed: leaf.disk.accessed.unwrap_or(modified),
            links: 1,
        })
    }

    /// Attributes of a directory that replaced a file with a pending removal.
    fn directory_attributes(&self, path: &TreePath) -> Result<PathAttributes, Fault> {
        match self.core.tree.stat(path) {
            Ok(stat) if stat.kind == StatKind::Directory => Ok(stat.into()),
            Ok(_) | Err(_) => Err(Fault::file_not_found(path)),
        }
    }
}

fn too_many_links(path: &TreePath) -> Fault {
    Fault::invalid("path", format_args!("`{path}`: too many levels of symbolic links"))
}

/// The name of `path` if it is directly in `directory`.
fn child_name(directory: &TreePath, path: &TreePath) -> Option<PathComponent> {
    (path.parent().as_ref() == Some(directory)).then(|| PathComponent::parse(path.name()).ok()).flatten()
}

/// A path that does not exist, or leads through a file, is `NotFound`.
pub(crate) fn not_found_fault(path: &TreePath, error: StoreError) -> Fault {
    if error.is_missing() { Fault::file_not_found(path) } else { error.into() }
}
