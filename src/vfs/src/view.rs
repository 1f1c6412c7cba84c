//! Reading by path: what HTTP, WebDAV, S3 and the tools see.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use svcfs_base::{ETag, Fault, FileKind, Kind, LargeFile, MAX_FILE_BYTES, PathComponent, Protocol, TreePath};
use svcfs_store::{CachedFile, FileStat, SpecialFile, StatKind, StoreError};

use crate::Vfs;
use crate::overlay::OverlayFile;
use crate::path_class::REJECTED_DIRECTORY;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device: only nodes are ever of this kind (`nodes/special.rs`), no path question answers with it.
    Special(SpecialFile),
}

/// What is known of a path without reading it.
#[derive(Debug, Clone)]
pub struct PathAttributes {
    /// What it is.
    pub kind: EntryKind,
    /// Length in bytes; of a directory 0, of a link the length of its target.
    pub size: u64,
    /// Room it takes on the disk, in blocks of 512 bytes; of what is not there yet, as many as its bytes need.
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
    /// What tells its contents apart, of a file too large for any version.
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
    /// What is known of it.
    pub attributes: PathAttributes,
}

/// A file's content and what goes with it.
#[derive(Debug, Clone)]
pub struct FileView {
    /// The bytes.
    pub content: Bytes,
    /// Their git blob hash.
    pub etag: ETag,
    /// What is known of the file.
    pub attributes: PathAttributes,
}

/// A file that was found.
pub(crate) enum FoundFile {
    /// On its way to the disk.
    Pending(FileView),
    /// In the tree, where it has so many bytes.
    Placed(TreePath, u64),
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

/// Blocks of 512 bytes that so many bytes need.
pub(crate) const fn blocks_of(size: u64) -> u64 {
    size.div_ceil(512)
}

/// Links a reader follows at most, as the kernel does.
const MAX_LINKS: usize = 40;

impl Vfs {
    /// What stands at a path; a link at its end is not followed.
    ///
    /// # Errors
    /// `NotFound` when nothing is there, or nothing this door may see.
    pub fn stat(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        self.see(protocol, path)?;
        match self.core.overlay.get(path) {
            Some(pending) => match pending.leaf {
                Some(leaf) => self.pending_attributes(path, &leaf, pending.accepted),
                None => self.directory_attributes(path),
            },
            None => match self.core.tree.stat(path) {
                Ok(stat) => Ok(stat.into()),
                Err(StoreError::SymlinkInPath(_)) => self.stat(protocol, &self.led_to(protocol, path)?),
                Err(error) => Err(not_there(path, error)),
            },
        }
    }

    /// The entries of a directory in name order, as the door may see them.
    ///
    /// # Errors
    /// `NotFound`, or `NotDirectory`.
    pub fn list(&self, protocol: Protocol, path: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        self.see(protocol, path)?;
        // Before the tree: what is installed between the two looks is then seen twice, not missed.
        let pending = self.core.overlay.below(path);
        let found = match self.core.tree.list(path) {
            Ok(found) => found,
            Err(StoreError::Disk { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Fault::not_directory(path));
            }
            Err(StoreError::SymlinkInPath(_)) => {
                let place = self.led_to(protocol, path)?;
                let place = match self.core.tree.read_link(&place) {
                    Ok(target) => self.follow(&place, &target)?,
                    Err(_) => place,
                };
                // Under the names the caller knows.
                let renamed = |entry: DirectoryEntry| {
                    let path = entry.path.rebase(&place, path).unwrap_or(entry.path);
                    DirectoryEntry { path, ..entry }
                };
                return Ok(self.list(protocol, &place)?.into_iter().map(renamed).collect());
            }
            Err(error) => return Err(not_there(path, error)),
        };
        let found = found.into_iter().map(|(name, stat)| (name, PathAttributes::from(stat)));
        let shown = |(name, attributes)| {
            let entry = DirectoryEntry { path: path.join(&name), attributes };
            self.core.places.is_visible(protocol, &entry.path).then_some(entry)
        };
        if pending.is_empty() {
            return Ok(found.filter_map(shown).collect());
        }
        let mut entries: BTreeMap<PathComponent, PathAttributes> = found.collect();
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
        Ok(entries.into_iter().filter_map(shown).collect())
    }

    /// The content of a file; links that stay inside the root are followed.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, or `Invalid` when a link leads out of the root.
    pub fn read(&self, protocol: Protocol, path: &TreePath) -> Result<FileView, Fault> {
        self.taken(path, self.there(protocol, path)?)
    }

    /// What was found where a path leads, whole.
    pub(crate) fn taken(&self, path: &TreePath, there: FoundFile) -> Result<FileView, Fault> {
        let place = match there {
            FoundFile::Pending(file) => return Ok(file),
            FoundFile::Placed(place, _) => place,
        };
        let (content, stat) = self.core.tree.read(&place).map_err(|error| not_there(path, error))?;
        Ok(FileView { etag: ETag::from_content(&content), content, attributes: stat.into() })
    }

    /// The file that a path leads to, links that stay inside the root followed.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    pub(crate) fn there(&self, protocol: Protocol, path: &TreePath) -> Result<FoundFile, Fault> {
        let mut place = path.clone();
        for _ in 0..MAX_LINKS {
            self.see(protocol, &place)?;
            match self.core.overlay.get(&place).map(|pending| (pending.leaf, pending.accepted)) {
                Some((Some(leaf), accepted)) if leaf.kind != FileKind::Symlink => {
                    let attributes = self.pending_attributes(&place, &leaf, accepted)?;
                    return Ok(FoundFile::Pending(FileView { content: leaf.content, etag: leaf.etag, attributes }));
                }
                Some((Some(leaf), _)) => place = self.follow(&place, &String::from_utf8_lossy(&leaf.content))?,
                Some((None, _)) => return Err(Fault::file_not_found(path)),
                None => match self.core.tree.stat(&place) {
                    Ok(stat) if stat.kind == StatKind::Symlink => {
                        place = self.follow(&place, &self.core.tree.read_link(&place)?)?;
                    }
                    Ok(stat) if stat.kind == StatKind::Directory => return Err(Fault::is_directory(path)),
                    Ok(stat) => return Ok(FoundFile::Placed(place, stat.size)),
                    Err(StoreError::SymlinkInPath(_)) => place = self.led_to(protocol, &place)?,
                    Err(error) => return Err(not_there(path, error)),
                },
            }
        }
        Err(too_many_links(path))
    }

    /// The content of a small file that can be had without waiting for the disk, as [`Vfs::read`] has it, and one of its extended attributes.
    /// None for all else, which `read` then tells of: a door that is async asks here first, where it is, and needs no thread for what is there.
    pub fn try_read_cached(
        &self,
        protocol: Protocol,
        path: &TreePath,
        extended: Option<&[u8]>,
    ) -> Option<(FileView, Option<Vec<u8>>)> {
        self.see(protocol, path).ok()?;
        if self.core.overlay.get(path).is_some() {
            return None;
        }
        let CachedFile { content, stat, xattr: extended } = self.core.tree.try_read_cached(path, extended)?;
        Some((FileView { etag: ETag::from_content(&content), content, attributes: stat.into() }, extended))
    }

    /// The text of the last save of a path, when it was refused and is still kept (gaps.md D6).
    ///
    /// # Errors
    /// Those of [`Vfs::read`], but `NotFound`.
    pub fn rejected_text(&self, path: &TreePath) -> Result<Option<Bytes>, Fault> {
        let Ok(place) = TreePath::parse(&format!("{REJECTED_DIRECTORY}/{path}")) else { return Ok(None) };
        match self.read(Protocol::Internal, &place) {
            Ok(file) => Ok(Some(file.content)),
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `NotFound` when nothing is there, `Invalid` when it is no link.
    pub fn read_link(&self, protocol: Protocol, path: &TreePath) -> Result<String, Fault> {
        if self.stat(protocol, path)?.kind != EntryKind::Symlink {
            return Err(Fault::invalid("path", format_args!("`{path}` is not a symbolic link")));
        }
        match self.core.overlay.get(path).and_then(|pending| pending.leaf) {
            Some(leaf) => Ok(String::from_utf8_lossy(&leaf.content).into_owned()),
            None => Ok(self.core.tree.read_link(path)?),
        }
    }

    /// Every versioned file below a directory that the door may see, in path order; links are listed, not followed.
    ///
    /// # Errors
    /// `NotFound`, or `NotDirectory`.
    pub fn walk(&self, protocol: Protocol, below: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        let mut found = Vec::new();
        let mut open = vec![below.clone()];
        while let Some(directory) = open.pop() {
            let entries = match self.list(protocol, &directory) {
                Ok(entries) => entries,
                // Removed while we walked.
                Err(fault) if directory != *below && fault.kind() == svcfs_base::Kind::NotFound => continue,
                Err(fault) => return Err(fault),
            };
            for entry in entries {
                if !self.core.places.of(&entry.path).is_versioned() {
                    continue;
                }
                match entry.attributes.kind {
                    EntryKind::Directory => open.push(entry.path),
                    EntryKind::File | EntryKind::Symlink => found.push(entry),
                    EntryKind::Special(_) => {}
                }
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    fn see(&self, protocol: Protocol, path: &TreePath) -> Result<(), Fault> {
        if self.core.places.is_visible(protocol, path) { Ok(()) } else { Err(Fault::file_not_found(path)) }
    }

    /// Whether callers of a door can neither make nor take away what is at a path, whatever stands there: the root, and what belongs to the server.
    pub fn is_protected(&self, protocol: Protocol, path: &TreePath) -> bool {
        let places = &self.core.places;
        path.is_root() || !places.is_visible(protocol, path) || places.is_fixed(protocol, path)
    }

    /// Where a path leads in the end, whatever links stand on the way; the path itself when there are none, whether or not there is
    /// anything.
    ///
    /// # Errors
    /// `Invalid` for links that lead out of the root or in a circle.
    pub fn resolve_links(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        // Nearly no path has a link in it, and the disk says so of the whole at once.
        self.see(protocol, path)?;
        if self.core.tree.stat(path).is_ok_and(|stat| stat.kind != StatKind::Symlink)
            && self.core.overlay.get(path).is_none()
        {
            return Ok(path.clone());
        }
        let mut place = path.clone();
        for _ in 0..MAX_LINKS {
            place = self.led_to(protocol, &place)?;
            if place.is_root() || !self.stat(protocol, &place).is_ok_and(|there| there.kind == EntryKind::Symlink) {
                return Ok(place);
            }
            place = self.follow(&place, &self.read_link(protocol, &place)?)?;
        }
        Err(too_many_links(path))
    }

    /// Where the link at a path leads in the end; the path itself when it is none.
    pub(crate) fn end_of_links(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        let mut place = path.clone();
        for _ in 0..MAX_LINKS {
            if path.is_root() || !self.stat(protocol, &place).is_ok_and(|there| there.kind == EntryKind::Symlink) {
                return Ok(place);
            }
            place = self.follow(&place, &self.read_link(protocol, &place)?)?;
        }
        Err(too_many_links(path))
    }

    /// Where a path leads whose directories are, in part, links: a path of real directories that this door may see.
    pub(crate) fn led_to(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        let mut place = TreePath::root();
        let mut followed = 0;
        let mut ahead: Vec<PathComponent> =
            path.components().rev().map(PathComponent::parse).collect::<Result<_, _>>()?;
        while let Some(name) = ahead.pop() {
            place = place.join(&name);
            self.see(protocol, &place)?;
            if ahead.is_empty() {
                break;
            }
            if let Ok(target) = self.core.tree.read_link(&place) {
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(too_many_links(path));
                }
                let target = self.follow(&place, &target)?;
                ahead.extend(target.components().rev().map(PathComponent::parse).collect::<Result<Vec<_>, _>>()?);
                place = TreePath::root();
            }
        }
        Ok(place)
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

    /// Attributes of a file that is accepted and not in the tree yet: those it will have.
    pub(crate) fn pending_attributes(
        &self,
        path: &TreePath,
        leaf: &OverlayFile,
        accepted: SystemTime,
    ) -> Result<PathAttributes, Fault> {
        let standing = match self.core.tree.stat(path) {
            Ok(stat) if stat.kind != StatKind::Directory => Some(stat),
            Ok(_) => None,
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error.into()),
        };
        let (uid, gid) = match (leaf.disk.owner, &standing) {
            (Some(owner), _) => owner,
            (None, Some(stat)) => (stat.uid, stat.gid),
            (None, None) => {
                let parent = self.core.tree.stat(&path.parent().unwrap_or_else(TreePath::root))?;
                (parent.uid, parent.gid)
            }
        };
        let modified = leaf.disk.modified.unwrap_or_else(|| self.core.file_time());
        let bits = leaf.disk.mode.or(standing.map(|stat| stat.preserved_mode())).unwrap_or(0o644);
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

    /// A directory that took the place of a file whose removal is pending.
    fn directory_attributes(&self, path: &TreePath) -> Result<PathAttributes, Fault> {
        match self.core.tree.stat(path) {
            Ok(stat) if stat.kind == StatKind::Directory => Ok(stat.into()),
            Ok(_) | Err(_) => Err(Fault::file_not_found(path)),
        }
    }
}

fn too_many_links(path: &TreePath) -> Fault {
    Fault::invalid("path", format_args!("`{path}`: too many links lead to each other"))
}

/// The name of the entry of `directory` that `path`, somewhere below it, belongs to, when `path` is that entry itself.
fn child_name(directory: &TreePath, path: &TreePath) -> Option<PathComponent> {
    (path.parent().as_ref() == Some(directory)).then(|| PathComponent::parse(path.name()).ok()).flatten()
}

/// A path through a file, or one that is not there, is simply not found.
pub(crate) fn not_there(path: &TreePath, error: StoreError) -> Fault {
    if error.is_missing() { Fault::file_not_found(path) } else { error.into() }
}
