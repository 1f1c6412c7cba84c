//! What a test may not leave behind. Checked when a [`super::TestSpace`] is dropped, so that a leak
//! is found where it starts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use svcfs_knowledge::kernel::Space;
use svcfs_knowledge::search;

use super::{git, tree};

/// The index answers as one that is made anew would.
pub fn check_index(space: &Space) {
    let report = search::reindex(space, |_, _| {}).unwrap();
    assert!(report.differences.is_empty(), "the index differed from the tree: {:?}", report.differences);
}

/// A root nobody serves any more: whole repository, nothing uncommitted, nothing half done, and a
/// clone has all of it.
pub fn check_root(root: &Path, clone: &Path) {
    check_state(root);
    assert_eq!(git::git(root, &["fsck", "--strict", "--no-dangling"]), "", "git fsck");
    assert_eq!(git::git(root, &["status", "--porcelain"]), "", "git status");
    if !git::has_commits(root) {
        return;
    }
    let head = git::head(root);
    let versioned: BTreeMap<_, _> = tree::files(root).into_iter().filter(|(path, _)| head.contains_key(path)).collect();
    assert_eq!(versioned, head, "the tree differs from its newest commit");
    if clone.exists() {
        fs::remove_dir_all(clone).unwrap();
    }
    git::git(root, &["clone", "--quiet", ".", clone.to_str().unwrap()]);
    assert_eq!(tree::files(clone), head, "a fresh clone differs");
}

/// The same where git does not remember: nothing half done, and no repository.
pub fn check_root_without_git(root: &Path) {
    check_state(root);
    assert!(!root.join(".git").exists(), "a repository");
}

fn check_state(root: &Path) {
    for name in ["tmp", "spool", "staging"] {
        let mut left: Vec<_> =
            fs::read_dir(root.join(".svc/state").join(name)).into_iter().flatten().flatten().collect();
        // Made before somebody needs them, and swept by the next opening.
        left.retain(|file| !file.file_name().to_string_lossy().starts_with("room-"));
        assert!(left.is_empty(), "left in {name}: {left:?}");
    }
}
