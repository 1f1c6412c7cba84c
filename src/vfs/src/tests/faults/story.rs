//! A short life of a space that comes by every fail point, and what it should look like after each deed.

use std::os::unix::fs::symlink;

use svcfs_store::preflight::leftover_temp_files;
use svcfs_store::{Log, SnapshotStore, StatePaths, VersionStore};

use super::*;

/// One thing that happens, and how many commits it makes.
pub(super) struct Deed {
    pub(super) what: &'static str,
    pub(super) commits: usize,
    pub(super) go: fn(&TestSpace) -> Result<(), Fault>,
}

const fn deed(what: &'static str, go: fn(&TestSpace) -> Result<(), Fault>) -> Deed {
    Deed { what, commits: 1, go }
}

/// In this order. Each may be done again after it was refused.
pub(super) const DEEDS: &[Deed] = &[
    deed("a page is written", |space| put(space, "eve", "a.md", "one\n")),
    deed("a page is written in a new directory", |space| put(space, "adam", "d/b.md", "b\n")),
    deed("a large file is written", |space| put(space, "eve", "big.txt", &"large\n".repeat(300_000))),
    deed("a page is saved, and nobody waits for the disk", save),
    deed("a directory is renamed, and files inside and outside are written with it", rename_directory),
    deed("a page is removed", |space| apply(space, "eve", Change::remove(at("a.md")))),
    deed("several pages change at once", several),
    deed("a link is made", |space| apply(space, "adam", Change::symlink(at("link"), "e/c.md"))),
    deed("somebody edits behind the server", edit_behind),
    Deed { commits: 0, ..deed("a checkpoint is made", checkpoint) },
    deed("a tenth commit is made", |space| put(space, "eve", "10.md", "ten\n")),
    deed("an eleventh commit is made", |space| put(space, "eve", "11.md", "eleven\n")),
    deed("a twelfth commit is made", |space| put(space, "eve", "12.md", "twelve\n")),
    deed("a thirteenth commit is made", |space| put(space, "eve", "e/c.md", "thirteen\n")),
    Deed { commits: 0, ..deed("packs that were flushed and packs that were not become one", merged) },
    deed("a last commit is made", |space| put(space, "adam", "14.md", "fourteen\n")),
];

fn apply(space: &TestSpace, who: &str, set: impl Into<ChangeSet>) -> Result<(), Fault> {
    space.vfs.apply(&Caller::new(Protocol::Http).with_actor(Actor::new(who)), set).map(|_| ())
}

fn put(space: &TestSpace, who: &str, path: &str, text: &str) -> Result<(), Fault> {
    apply(space, who, Change::put(at(path), text.to_owned()))
}

/// Waits for the disk afterwards, so that the next deed finds everything quiet.
fn save(space: &TestSpace) -> Result<(), Fault> {
    apply(space, "eve", ChangeSet::from(Change::put(at("a.md"), "two\n")).soon())?;
    space.vfs.wait_applied().map(|_| ())
}

fn rename_directory(space: &TestSpace) -> Result<(), Fault> {
    let changes = vec![
        Change::rename(at("d"), at("e")),
        Change::put(at("e/b.md"), "b\nin e\n"),
        Change::put(at("a.md"), "two\nof e\n"),
    ];
    apply(space, "adam", ChangeSet::new(changes).with_message("adam: rename dir d → e"))
}

fn several(space: &TestSpace) -> Result<(), Fault> {
    let changes = vec![
        Change::put(at("x/1.md"), "one of several\n"),
        Change::put(at("x/2.md"), "another\n"),
        Change::rename(at("e/b.md"), at("e/c.md")),
        Change::remove(at("big.txt")),
    ];
    apply(space, "eve", ChangeSet::new(changes).with_message("several"))
}

fn edit_behind(space: &TestSpace) -> Result<(), Fault> {
    let root = space.directory.path();
    fs::create_dir_all(root.join("behind")).unwrap();
    fs::write(root.join("behind/a.md"), "behind\n").unwrap();
    let _ = symlink("a.md", root.join("behind/link"));
    space.vfs.rescan().map(|_| ())
}

fn checkpoint(space: &TestSpace) -> Result<(), Fault> {
    space.wait_until("a checkpoint is made", is_settled);
    Ok(())
}

fn merged(space: &TestSpace) -> Result<(), Fault> {
    space.wait_until("packs are merged", |space| packs(space.directory.path()).len() < 6);
    Ok(())
}

/// The packs that git has; none where there is no git.
pub(super) fn packs(root: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(root.join(".git/objects/pack")).into_iter().flatten().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "pack")).collect()
}

pub(super) fn is_settled(space: &TestSpace) -> bool {
    let check = Log::check(&StatePaths::new(space.directory.path())).unwrap().unwrap();
    check.pending_records == 0 && check.leftover_spool.is_empty()
}

/// Each set that the story makes, as [`sets`] tells it.
fn reference(strategy: VersionStrategy) -> &'static [String] {
    static REFERENCE: Once<Vec<String>> = Once::new();
    REFERENCE.get(strategy, || {
        let space = new_space(strategy);
        for deed in DEEDS {
            (deed.go)(&space).unwrap();
        }
        let told = sets(&space);
        assert_eq!(told.len(), commits_after(DEEDS.len()), "{told:#?}");
        told
    })
}

/// How many commits there are after so many deeds.
pub(super) fn commits_after(deeds: usize) -> usize {
    DEEDS[..deeds].iter().map(|deed| deed.commits).sum()
}

/// Author, subject and tree of each commit, oldest first; author, subject and files where there are no commits.
pub(super) fn sets(space: &TestSpace) -> Vec<String> {
    match &space.vfs.core.memory {
        VersionStore::Git { history, .. } if history.head().unwrap().is_none() => Vec::new(),
        VersionStore::Git { .. } => {
            space.git(&["log", "--reverse", "--format=%an|%s|%T"]).lines().map(str::to_owned).collect()
        }
        VersionStore::Snapshots { .. } | VersionStore::LogOnly { .. } => {
            let told = |event: Arc<FeedEvent>| {
                let files = event.changes.iter().map(|change| format!("{}={:?}", change.path, change.new));
                format!("{}|{}|{}", event.actor, event.message, files.collect::<Vec<_>>().join(","))
            };
            space.vfs.feed().events_after(Seq(0), usize::MAX).unwrap().into_iter().map(told).collect()
        }
    }
}

/// Whether a space is what it should be after as many deeds as one of a range says; whichever it is, it is sound. Closes it.
pub(super) fn assert_whole(
    (space, strategy): (&TestSpace, VersionStrategy),
    deeds: std::ops::RangeInclusive<usize>,
    when: &str,
) {
    let when = format!("with `{}`, {when}", strategy.name());
    let found = sets(space);
    let allowed = commits_after(*deeds.start())..=commits_after(*deeds.end());
    assert!(allowed.contains(&found.len()), "{when}: {} commits, not {allowed:?}: {found:#?}", found.len());
    assert_eq!(found, reference(strategy)[..found.len()], "{when}: author, message or content");
    let told = space.vfs.feed().events_after(Seq(0), usize::MAX).unwrap();
    assert_eq!(told.iter().filter(|event| !event.changes.is_empty()).count(), found.len(), "{when}: the feed");
    assert_sound((space, strategy), &when);
}

/// Whether nothing is there by half, and nothing is left lying about. Closes the space.
pub(super) fn assert_sound((space, strategy): (&TestSpace, VersionStrategy), when: &str) {
    for entry in space.vfs.walk(Protocol::Fuse, &TreePath::root()).unwrap() {
        let present = space.vfs.core.standing(&entry.path).unwrap().map(|leaf| leaf.etag);
        assert_eq!(space.vfs.recorded_etag(&entry.path).unwrap(), present, "{when}: `{}`", entry.path);
    }
    space.vfs.health().unwrap_or_else(|fault| panic!("{when}: {fault:?}"));
    space.vfs.close().unwrap_or_else(|fault| panic!("{when}: {fault:?}"));
    let root = space.directory.path();
    match &space.vfs.core.memory {
        VersionStore::Git { .. } => {
            assert_eq!(space.git(&["status", "--porcelain"]), "", "{when}: tree, newest commit and index");
            space.git(&["fsck", "--strict", "--no-dangling"]);
        }
        VersionStore::Snapshots { snapshots, .. } => assert_newest_is_kept(space, snapshots, when),
        VersionStore::LogOnly { .. } => assert!(!root.join(".versions").exists(), "{when}"),
    }
    assert_eq!(root.join(".git").exists(), strategy == VersionStrategy::Git, "{when}: a repository");
    let check = Log::check(&StatePaths::new(root)).unwrap().unwrap();
    assert_eq!((check.damage, check.pending_records), (Vec::new(), 0), "{when}: the log");
    assert_eq!((check.missing_spool, check.leftover_spool), (Vec::new(), Vec::new()), "{when}: the spool");
    space.wait_until(&format!("{when}: temporary files are gone"), |_| leftover_temp_files(root).is_empty());
    for file in fs::read_dir(root.join(".git/objects/pack")).into_iter().flatten() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(name.ends_with(".pack") || name.ends_with(".idx"), "{when}: `{name}` is left over");
    }
}

/// The newest snapshot of every file is what stands in the tree.
fn assert_newest_is_kept(space: &TestSpace, snapshots: &SnapshotStore, when: &str) {
    for entry in space.vfs.walk(Protocol::Fuse, &TreePath::root()).unwrap() {
        let Some(present) = space.vfs.core.standing(&entry.path).unwrap() else { continue };
        let newest = snapshots.list(&entry.path).unwrap().pop();
        let kept = newest.and_then(|moment| snapshots.read(&entry.path, moment).unwrap());
        assert_eq!(kept.as_ref(), Some(&present.content), "{when}: the newest snapshot of `{}`", entry.path);
    }
}
