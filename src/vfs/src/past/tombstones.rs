//! Who may read the past of what is gone.
//!
//! One rule: before a door takes its name from a page that not everybody may read, its owner and permission bits are kept, as those of a small
//! file among our own: they are the disk's alone, and nobody knows them any more once the name is gone. What was removed behind the server
//! is known by nothing but the directory that it was in.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use svcfs_base::{Change, DiskAttributes, ETag, Fault, FileKind, Protocol, TreePath};
use svcfs_store::FileInstall;

use crate::Vfs;
use crate::view::{EntryKind, PathAttributes};

/// Where they are kept, under the hash of the path.
const DIRECTORY: &str = ".svc/state/gone";
/// Permission to read, for the group and for all others.
const GROUP: u32 = 0o040;
const OTHERS: u32 = 0o004;

fn place_of(path: &TreePath) -> Option<TreePath> {
    TreePath::parse(&format!("{DIRECTORY}/{}", ETag::from_content(path.as_str().as_bytes()))).ok()
}

/// What a set takes away.
pub(crate) struct RemovedPaths {
    path: TreePath,
    /// Whether all that is below goes with it.
    is_whole: bool,
}

impl RemovedPaths {
    /// What these changes take away, if anything.
    pub(crate) fn of(changes: &[Change]) -> Vec<Self> {
        let going = |change: &Change| match change {
            Change::Remove { path, .. } | Change::RemoveDir { path } => {
                Some(Self { path: path.clone(), is_whole: false })
            }
            Change::Move { from, .. } => Some(Self { path: from.clone(), is_whole: true }),
            Change::Put { .. } | Change::MakeDir { .. } => None,
        };
        changes.iter().filter_map(going).collect()
    }
}

/// Who may enter a directory and all that are above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraverseClass {
    Everybody,
    /// A group, beside the owner.
    Group(u32),
    Owner,
}

impl TraverseClass {
    /// Those of them who may enter this directory, too.
    const fn into(self, directory: &PathAttributes) -> Self {
        match self {
            _ if directory.mode & 0o001 != 0 => self,
            Self::Everybody if directory.mode & 0o010 != 0 => Self::Group(directory.gid),
            Self::Group(gid) if gid == directory.gid && directory.mode & 0o010 != 0 => self,
            _ => Self::Owner,
        }
    }

    /// The permission bits of what stands there: as much as everybody has who can get there.
    const fn narrowed(self, there: &PathAttributes) -> u32 {
        let mode = there.mode & 0o777;
        match self {
            Self::Everybody => mode,
            Self::Group(gid) if gid == there.gid => mode & 0o770,
            Self::Group(_) | Self::Owner => mode & 0o700,
        }
    }
}

/// Keeps what is needed to know who may read the past of what goes.
struct TombstoneWriter<'a> {
    vfs: &'a Vfs,
    /// By directory.
    known: HashMap<TreePath, TraverseClass>,
}

impl TombstoneWriter<'_> {
    fn entrants(&mut self, directory: Option<TreePath>) -> TraverseClass {
        // Who may not enter the root gets to no past either: in somebody's own folder nothing has to be kept.
        let Some(directory) = directory.filter(|directory| !directory.is_root()) else {
            return TraverseClass::Everybody;
        };
        if let Some(known) = self.known.get(&directory) {
            return *known;
        }
        let above = self.entrants(directory.parent());
        let there = self.vfs.stat(Protocol::Internal, &directory);
        let entrants = there.map_or(above, |there| above.into(&there));
        self.known.insert(directory, entrants);
        entrants
    }

    fn keep(&mut self, path: &TreePath, there: &PathAttributes) {
        // A link is read by everybody, and what has no versions has no past.
        if there.kind == EntryKind::Symlink || !self.vfs.is_versioned(path) {
            return;
        }
        let mode = self.entrants(path.parent()).narrowed(there);
        let tree = &self.vfs.core.tree;
        let outcome = place_of(path).map_or(Ok(()), |place| {
            if mode & (GROUP | OTHERS) == GROUP | OTHERS {
                return if tree.stat(&place).is_ok() { tree.remove(&place) } else { Ok(()) };
            }
            let owner = Some((there.uid, there.gid));
            let disk = DiskAttributes { mode: Some(mode), owner, ..DiskAttributes::default() };
            let content = Bytes::copy_from_slice(path.as_str().as_bytes());
            tree.install(&FileInstall { path: &place, content: &content, kind: FileKind::Regular, attributes: disk })
                .map(drop)
        });
        if let Err(error) = outcome {
            // A full disk must not keep anybody from removing.
            tracing::warn!(page.path = %path, %error, "who may read the past of what is removed goes by its directory");
        }
    }
}

impl Vfs {
    /// Keeps what is needed to know who may read the past of what is about to go.
    pub(crate) fn keep_readers(&self, going: &[RemovedPaths]) {
        let mut keeper = TombstoneWriter { vfs: self, known: HashMap::new() };
        for RemovedPaths { path, is_whole } in going {
            // What is not there cannot go.
            let Ok(there) = self.stat(Protocol::Internal, path) else { continue };
            keeper.keep(path, &there);
            if there.kind != EntryKind::Directory || !is_whole {
                continue;
            }
            let mut directories = BTreeSet::new();
            for entry in self.walk(Protocol::Internal, path).unwrap_or_default() {
                directories.extend(entry.path.ancestors().take_while(|above| above != path));
                keeper.keep(&entry.path, &entry.attributes);
            }
            for directory in directories {
                if let Ok(there) = self.stat(Protocol::Internal, &directory) {
                    keeper.keep(&directory, &there);
                }
            }
        }
    }

    /// Owner and permission bits that what stood at a path had when a door took its name, where not everybody may read it.
    ///
    /// # Errors
    /// What the disk says.
    pub fn tombstone_attributes(&self, path: &TreePath) -> Result<Option<PathAttributes>, Fault> {
        let Some(place) = place_of(path) else { return Ok(None) };
        match self.core.tree.stat(&place) {
            Ok(kept) => Ok(Some(kept.into())),
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

    #[test]
    fn the_past_of_a_page_that_is_gone_is_as_private_as_the_page_was() {
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
        assert!(!space.directory.path().join(DIRECTORY).exists());
    }
}
