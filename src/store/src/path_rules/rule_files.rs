//! The rule files of one directory.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use gix_glob::Pattern;
use svcfs_base::TreePath;
use tracing::warn;

use super::attributes::AttributeLine;

/// Larger rule files are not read, as git does not read huge ones.
const MAX_RULE_FILE_BYTES: u64 = 4 << 20;

/// Identifies one state of a file: inode number, size and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleFileStamp(u64, u64, i64, i64, i64, i64);

impl RuleFileStamp {
    fn new(stat: &Metadata) -> Self {
        Self(stat.ino(), stat.size(), stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec())
    }
}

/// The stamp of a regular file. git follows no symbolic link to a rule file in the tree.
pub(super) fn stamp_in_tree(file: &Path) -> Option<RuleFileStamp> {
    fs::symlink_metadata(file).ok().filter(Metadata::is_file).as_ref().map(RuleFileStamp::new)
}

/// The stamp of a regular file outside of the tree.
pub(super) fn stamp_of(file: &Path) -> Option<RuleFileStamp> {
    fs::metadata(file).ok().filter(Metadata::is_file).as_ref().map(RuleFileStamp::new)
}

/// The content of a rule file; empty when it cannot be read, as for git.
pub(super) fn read_rules(file: &Path, stamp: Option<RuleFileStamp>) -> Vec<u8> {
    match stamp {
        Some(RuleFileStamp(_, size, ..)) if size > MAX_RULE_FILE_BYTES => {
            warn!(file = %file.display(), size, "a rule file of git is too large and has no effect in svcfs");
            Vec::new()
        }
        Some(_) => fs::read(file).unwrap_or_default(),
        None => Vec::new(),
    }
}

pub(super) fn ignore_patterns(text: &[u8]) -> Vec<Pattern> {
    gix_ignore::parse(text, false).map(|(pattern, ..)| pattern).collect()
}

/// The rules that one directory has.
#[derive(Default)]
pub(super) struct DirectoryRules {
    stamps: [Option<RuleFileStamp>; 4],
    /// Whether `.git` is a file, as in a submodule or a linked work tree.
    pub(super) has_git_file: bool,
    pub(super) ignored: Vec<Pattern>,
    pub(super) attributes: Vec<AttributeLine>,
    /// Of the root only: the directories that `.gitmodules` lists.
    pub(super) submodules: BTreeSet<TreePath>,
}

impl DirectoryRules {
    /// Reads the rules of a directory, unless they are as known.
    pub(super) fn read(root: &Path, directory: &TreePath, known: Option<Arc<Self>>) -> Arc<Self> {
        let files =
            [".gitignore", ".gitattributes", ".gitmodules"].map(|name| root.join(directory.as_str()).join(name));
        let modules = directory.is_root().then(|| stamp_in_tree(&files[2])).flatten();
        let git_file = stamp_in_tree(&root.join(directory.as_str()).join(".git"));
        let stamps = [stamp_in_tree(&files[0]), stamp_in_tree(&files[1]), modules, git_file];
        if let Some(known) = known.filter(|known| known.stamps == stamps) {
            return known;
        }
        let text = |at: usize| read_rules(&files[at], stamps[at]);
        Arc::new(Self {
            stamps,
            has_git_file: git_file.is_some(),
            ignored: ignore_patterns(&text(0)),
            attributes: AttributeLine::parse(&text(1), directory.is_root()),
            submodules: stamps[2].map(|_| submodule_paths(&files[2])).unwrap_or_default(),
        })
    }
}

/// The paths in `.gitmodules`; none when it is damaged.
fn submodule_paths(file: &Path) -> BTreeSet<TreePath> {
    let read = || {
        let config = git2::Config::open(file)?;
        let mut paths = BTreeSet::new();
        config.entries(Some(r"submodule\..*\.path"))?.for_each(|entry| {
            let path = entry.value().ok().and_then(|value| TreePath::parse(value).ok());
            paths.extend(path.filter(|path| !path.is_root()));
        })?;
        Ok::<_, git2::Error>(paths)
    };
    read().unwrap_or_else(|error| {
        warn!(%error, "`.gitmodules` cannot be read; submodules are recognised by their file `.git` only");
        BTreeSet::new()
    })
}
