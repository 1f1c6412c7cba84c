//! Tombstones: who may read the past of removed files.
//!
//! Invariant: before a protocol removes a page that not everyone may read, its owner and permission
//! bits are stored as those of a small file in the state directory: they exist only on disk, and
//! are lost with the name. For external removals only the directory's permissions are known.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use svcfs_base::{Change, DiskAttributes, ETag, Fault, FileKind, Protocol, TreePath};
use svcfs_store::FileInstall;

use crate::Vfs;
use crate::view::{EntryKind, PathAttributes};

/// Where tombstones are stored, named by the hash of the path.
const TOMBSTONE_DIRECTORY: &str = ".svc/state/gone";
/// Read permission of the group and of others.
const GROUP_READ: u32 = 0o040;
const OTHERS_READ: u32 = 0o004;

fn tombstone_path(path: &TreePath) -> Option<TreePath> {
    TreePath::parse(&format!("{TOMBSTONE_DIRECTORY}/{}", ETag::from_content(path.as_str().as_bytes()))).ok()
}

/// A path that a set removes.
pub(crate) struct RemovedPaths {
    path: TreePath,
    /// Whether everything below it is removed, too.
    is_recursive: bool,
}

impl RemovedPaths {
    /// The paths that these changes remove.
    pub(crate) fn of(changes: &[Change]) -> Vec<Self> {
        let removal = |change: &Change| match change {
            Change::Remove { path, .. } | Change::RemoveDir { path } => {
                Some(Self { path: path.clone(), is_recursive: false })
            }
            Change::Move { from, .. } => Some(Self { path: from.clone(), is_recursive: true }),
            Change::Put { .. } | Change::MakeDir { .. } => None,
        };
        changes.iter().filter_map(removal).collect()
    }
}

/// Who may traverse a directory and all its ancestors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraverseClass {
    Everybody,
    /// The owner and a group.
    Group(u32),
    Owner,
}

impl TraverseClass {
    /// The class after entering this directory.
    const fn enter(self, directory: &PathAttributes) -> Self {
        match self {
            _ if directory.mode & 0o001 != 0 => self,
            Self::Everybody if directory.mode & 0o010 != 0 => Self::Group(directory.gid),
            Self::Group(gid) if gid == directory.gid && directory.mode & 0o010 != 0 => self,
            _ => Self::Owner,
        }
    }

    /// Permission bits, limited to those who can reach the path.
    const fn narrowed(self, attributes: &PathAttributes) -> u32 {
        let mode = attributes.mode & 0o777;
        match self {
            Self::Everybody => mode,
            Self::Group(gid) if gid == attributes.gid => mode & 0o770,
            Self::Group(_) | Self::Owner => mode & 0o700,
        }
    }
}

struct TombstoneWriter<'a> {
    vfs: &'a Vfs,
    classes: HashMap<TreePath, TraverseClass>,
}

impl TombstoneWriter<'_> {
    fn traverse_class(&mut self, directory: Option<TreePath>) -> TraverseClass {
        // Without access to the root there is no access to history: the root needs no check.
        let Some(directory) = directory.filter(|directory| !directory.is_root()) else {
            return TraverseClass::Everybody;
        };
        if let Some(classes) = self.classes.get(&directory) {
            return *classes;
        }
        let parent_class = self.traverse_class(directory.parent());
        let attributes = self.vfs.stat(Protocol::Internal, &directory);
        let class = attributes.map_or(parent_class, |attributes| parent_class.enter(&attributes));
        self.classes.insert(directory, class);
        class
    }

    fn record(&mut self, path: &TreePath, attributes: &PathAttributes) {
        // Everyone may read a link, and unversioned files have no past.
        if attributes.kind == EntryKind::Symlink || !self.vfs.is_versioned(path) {
            return;
        }
        let mode = self.traverse_class(path.parent()).narrowed(attributes);
        let tree = &self.vfs.core.tree;
        let outcome = tombstone_path(path).map_or(Ok(()), |tombstone| {
            if mode & (GROUP_READ | OTHERS_READ) == GROUP_READ | OTHERS_READ {
                return if tree.stat(&tombstone).is_ok() { tree.remove(&tombstone) } else { Ok(()) };
            }
            let owner = Some((attributes.uid, attributes.gid));
            let disk = DiskAttributes { mode: Some(mode), owner, ..DiskAttributes::default() };
            let content = Bytes::copy_from_slice(path.as_str().as_bytes());
            tree.install(&FileInstall {
                path: &tombstone,
                content: &content,
                kind: FileKind::Regular,
                attributes: disk,
            })
            .map(drop)
        });
        if let Err(error) = outcome {
            // A full disk must not prevent removal.
            tracing::warn!(page.path = %path, %error, "cannot record a tombstone; the past of the removed file is readable as its directory");
        }
    }
}

impl Vfs {
    /// Writes tombstones for paths that are about to be removed.
    pub(crate) fn record_tombstones(&self, removed: &[RemovedPaths]) {
        let mut writer = TombstoneWriter { vfs: self, classes: HashMap::new() };
        for RemovedPaths { path, is_recursive } in removed {
            // A missing file needs none.
            let Ok(attributes) = self.stat(Protocol::Internal, path) else { continue };
            writer.record(path, &attributes);
            if attributes.kind != EntryKind::Directory || !is_recursive {
                continue;
            }
            let mut directories = BTreeSet::new();
            for entry in self.walk(Protocol::Internal, path).unwrap_or_default() {
                directories.extend(entry.path.ancestors().take_while(|ancestor| ancestor != path));
                writer.record(&entry.path, &entry.attributes);
            }
            for directory in directories {
                if let Ok(attributes) = self.stat(Protocol::Internal, &directory) {
                    writer.record(&directory, &attributes);
                }
            }
        }
    }

    /// Owner and permission bits that a removed file had, if not everyone could read it.
    ///
    /// # Errors
    /// The disk's error.
    pub fn tombstone_attributes(&self, path: &TreePath) -> Result<Option<PathAttributes>, Fault> {
        let Some(tombstone) = tombstone_path(path) else { return Ok(None) };
        match self.core.tree.stat(&tombstone) {
            Ok(stat) => Ok(Some(stat.into())),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use svcfs_base::{Kind, Precondition};

    use crate::tests::{TestSpace, at, eve};

    use super::*;

    /// Shows: VIEW-9
    #[test]
    fn the_history_of_a_deleted_page_is_as_private_as_the_page() {
        let space = TestSpace::new();
        let root = space.directory.path();
        let set = |path: &str, mode| set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
        for page in ["open.md", "own.md", "team.md", "shut/a.md", "moved/own.md", "moved/open.md", "moved/shut/in/a.md"]
        {
            space.put(page, "text\n");
        }
        space.vfs.wait_applied().unwrap();
        for (path, mode) in
            [("own.md", 0o600), ("team.md", 0o640), ("shut", 0o700), ("moved/own.md", 0o600), ("moved/shut", 0o700)]
        {
            set(path, mode);
        }
        set("", 0o700);
        let mode = |path: &str| space.vfs.tombstone_attributes(&at(path)).unwrap().map(|kept| kept.mode & 0o777);
        for page in ["open.md", "own.md", "team.md", "shut/a.md"] {
            space.vfs.apply(&eve(), Change::remove(at(page))).unwrap();
        }
        space.vfs.apply(&eve(), Change::rename(at("moved"), at("elsewhere"))).unwrap();
        assert_eq!(mode("open.md"), None);
        assert_eq!((mode("own.md"), mode("team.md"), mode("shut/a.md")), (Some(0o600), Some(0o640), Some(0o600)));
        assert_eq!((mode("moved/own.md"), mode("moved/open.md"), mode("moved")), (Some(0o600), None, None));
        assert_eq!((mode("moved/shut"), mode("moved/shut/in")), (Some(0o600), Some(0o600)));
        // One that everybody could read took its name since, and went.
        space.put("own.md", "for all\n");
        space.vfs.wait_applied().unwrap();
        set("own.md", 0o644);
        space.vfs.apply(&eve(), Change::remove(at("own.md")).with_precondition(Precondition::Any)).unwrap();
        assert_eq!(mode("own.md"), None);
    }
    #[test]
    fn a_rename_that_is_refused_keeps_nothing_of_who_may_read() {
        let space = TestSpace::new();
        space.put("own/a.md", "text\n");
        space.put("full/b.md", "text\n");
        space.vfs.wait_applied().unwrap();
        set_permissions(space.directory.path().join("own"), Permissions::from_mode(0o700)).unwrap();
        let refused = space.vfs.apply(&eve(), Change::rename(at("own"), at("full"))).map(drop);
        assert_eq!(refused.unwrap_err().kind(), Kind::NotEmpty);
        assert!(!space.directory.path().join(TOMBSTONE_DIRECTORY).exists());
    }
}
