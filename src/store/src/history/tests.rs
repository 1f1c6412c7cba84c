#![expect(clippy::disallowed_methods, reason = "the repository is damaged and edited by hand")]

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use svcfs_base::{Actor, FileKind, Timestamp, TreePath};

use super::*;
use crate::DiffBase;

pub(super) struct Fixture {
    pub(super) directory: tempfile::TempDir,
    pub(super) history: History,
}

pub(super) fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let (history, is_new) = History::open(directory.path(), &[]).unwrap();
    assert!(is_new);
    Fixture { directory, history }
}

impl Fixture {
    pub(super) fn git(&self, arguments: &[&str]) -> String {
        // git lists packs first and reads them then: one that is merged away between is told as
        // missing.
        self.history.merger.wait_idle();
        let output = Command::new("git").arg("-C").arg(self.directory.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
    pub(super) fn commit(&self, parent: Option<CommitId>, edits: &[FileEdit<'_>]) -> CommitId {
        let staged = self.history.stage(parent, edits, &author(&Actor::new("eve"))).unwrap();
        self.history.advance(parent, staged.commit).unwrap();
        self.history.unpin_packs();
        staged.commit
    }
}

pub(super) fn author(actor: &Actor) -> CommitAuthor<'_> {
    CommitAuthor { actor, email: None, time: Timestamp::from_second(1_800_000_000).unwrap(), message: "m" }
}

pub(super) fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

pub(super) fn write<'a>(path: &'a TreePath, content: &'a str) -> FileEdit<'a> {
    FileEdit::Write { path, kind: FileKind::Regular, content: content.as_bytes() }
}

#[test]
fn the_same_set_on_the_same_parent_gives_the_same_commit() {
    let fixture = fixture();
    let path = at("a/b.md");
    let (one, two) = (
        fixture.history.stage(None, &[write(&path, "x")], &author(&Actor::new("eve"))).unwrap(),
        fixture.history.stage(None, &[write(&path, "x")], &author(&Actor::new("eve"))).unwrap(),
    );
    assert_eq!(one, two);
    assert_eq!(fixture.history.head().unwrap(), None);
}

#[test]
fn a_set_that_changes_nothing_makes_no_commit() {
    let fixture = fixture();
    let path = at("a.md");
    let first = fixture.commit(None, &[write(&path, "x")]);
    let again = fixture.history.stage(Some(first), &[write(&path, "x")], &author(&Actor::new("eve"))).unwrap();
    assert_eq!(again, StagedCommit { commit: first, is_new: false });
}

#[test]
fn removals_make_room_for_what_the_same_set_puts_there() {
    let fixture = fixture();
    let (file, below) = (at("x"), at("x/y.md"));
    let first = fixture.commit(None, &[write(&file, "file")]);
    let second = fixture.commit(Some(first), &[write(&below, "y"), FileEdit::Remove { path: &file }]);
    fixture.commit(Some(second), &[write(&file, "file"), FileEdit::Remove { path: &below }]);
    assert_eq!(fixture.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "x\n");
    assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]).trim(), "3");
}

#[test]
fn a_path_git_refuses_is_named() {
    let fixture = fixture();
    for name in [".git/x", "a/.GIT", "git~1", "d/.git"] {
        let path = at(name);
        let error = fixture.history.stage(None, &[write(&path, "x")], &author(&Actor::new("eve"))).unwrap_err();
        assert!(
            matches!(&error, StoreError::Unrecordable { path: refused, .. } if *refused == path),
            "{name}: {error}"
        );
    }
}

#[test]
fn the_branch_moves_only_from_where_it_was_expected() {
    let fixture = fixture();
    let path = at("a.md");
    let first = fixture.commit(None, &[write(&path, "1")]);
    let second = fixture.history.stage(Some(first), &[write(&path, "2")], &author(&Actor::new("eve"))).unwrap().commit;
    fixture.history.advance(Some(first), second).unwrap();
    assert!(fixture.history.advance(Some(first), second).is_err());
    assert!(fixture.history.advance(None, first).is_err());
    assert_eq!(fixture.history.head().unwrap(), Some(second));
}

#[test]
fn many_batches_are_few_packs_and_stock_git_reads_them_all() {
    let fixture = fixture();
    let mut head = None;
    for n in 0..300 {
        let path = at(&format!("d{}/{n}.md", n % 3));
        head = Some(fixture.commit(head, &[write(&path, &format!("page {n}"))]));
    }
    let counted = fixture.git(&["count-objects", "-v"]);
    assert!(counted.starts_with("count: 0\n"), "{counted}");
    let packs: usize = counted.lines().find_map(|line| line.strip_prefix("packs: ")).unwrap().parse().unwrap();
    assert!(packs <= 36, "{counted}");
    assert!(counted.contains("garbage: 0\n") && counted.contains("prune-packable: 0\n"), "{counted}");
    fixture.git(&["fsck", "--strict", "--full"]);
    for index in std::fs::read_dir(fixture.directory.path().join(".git/objects/pack")).unwrap() {
        let index = index.unwrap().path();
        if index.extension().is_some_and(|extension| extension == "idx") {
            fixture.git(&["verify-pack", index.to_str().unwrap()]);
        }
    }
    assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]).trim(), "300");
    assert_eq!(fixture.git(&["show", "HEAD:d2/299.md"]), "page 299");
    fixture.git(&["gc", "-q", "--prune=now"]);
    let path = at("after.md");
    fixture.commit(head, &[write(&path, "gc")]);
    fixture.git(&["fsck", "--strict", "--full"]);
}

#[test]
fn trees_are_in_the_order_git_gives_them() {
    let fixture = fixture();
    let names = ["a", "a.md", "a/b", "a-b", "a0", "ab/c", "ab.c", "Z", "é", "b/x/y/z", "b.x", "b-", "b0/q"];
    let paths: Vec<_> = names.iter().filter(|name| **name != "a").map(|name| at(name)).collect();
    let edits: Vec<_> = paths.iter().map(|path| write(path, path.as_str())).collect();
    let all = fixture.commit(None, &edits);
    fixture.git(&["read-tree", "HEAD"]);
    let tree = fixture.git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(fixture.git(&["write-tree"]), tree);
    let mut head = all;
    for path in &paths {
        head = fixture.commit(Some(head), &[FileEdit::Remove { path }]);
        fixture.git(&["read-tree", "HEAD"]);
        assert_eq!(fixture.git(&["write-tree"]), fixture.git(&["rev-parse", "HEAD^{tree}"]), "without {path}");
    }
    assert_eq!(fixture.git(&["ls-tree", "-r", "HEAD"]), "");
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn staged_objects_are_seen_only_by_the_next_set_until_published() {
    let fixture = fixture();
    let (one, two) = (at("a/one.md"), at("a/two.md"));
    let first = fixture.history.stage(None, &[write(&one, "1")], &author(&Actor::new("eve"))).unwrap().commit;
    let second = fixture.history.stage(Some(first), &[write(&two, "2")], &author(&Actor::new("eve"))).unwrap().commit;
    let (none, directory, root, below) = (at("a/none.md"), at("a"), TreePath::root(), at("a/one.md/x"));
    let asked = [&two, &none, &root, &one, &below, &directory, &one];
    let leaf = Some((svcfs_base::ETag::from_content(b"1"), FileKind::Regular));
    let other = Some((svcfs_base::ETag::from_content(b"2"), FileKind::Regular));
    let found = fixture.history.staged_leaves(Some(second), &asked).unwrap();
    assert_eq!(found, [other, None, None, leaf, None, None, leaf]);
    assert!(fixture.history.leaf(second, &one).is_err());
    fixture.history.publish().unwrap();
    assert_eq!(fixture.history.leaf(second, &one).unwrap(), leaf);
}

#[test]
fn more_data_than_the_deflate_buffer_is_published_completely() {
    let fixture = fixture();
    let pages: Vec<_> = (0..5).map(|n| (at(&format!("d/{n}.md")), format!("{n}").repeat(900 << 10))).collect();
    let edits: Vec<_> = pages.iter().map(|(path, content)| write(path, content)).collect();
    let stage = |parent, edits: &[FileEdit<'_>]| fixture.history.stage(parent, edits, &author(&Actor::new("eve")));
    let first = stage(None, &edits[..3]).unwrap().commit;
    assert!(stage(Some(first), &[edits[3].clone(), write(&at(".git/x"), "refused")]).is_err());
    let second = stage(Some(first), &edits[4..]).unwrap().commit;
    fixture.history.advance(None, second).unwrap();
    assert_eq!(fixture.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "d/0.md\nd/1.md\nd/2.md\nd/4.md\n");
    assert_eq!(fixture.git(&["show", "HEAD:d/4.md"]), pages[4].1);
    fixture.git(&["fsck", "--strict"]);
    fixture.history.discard();
    stage(Some(second), &edits[3..4]).unwrap();
    fixture.history.discard();
    assert_eq!(fixture.history.writer.lock().objects.count(), 0);
}

#[test]
fn an_incomplete_pack_is_removed_and_an_intact_pack_stays() {
    let fixture = fixture();
    let path = at("a.md");
    let first = fixture.commit(None, &[write(&path, "1")]);
    let packs = || {
        let found = std::fs::read_dir(fixture.directory.path().join(".git/objects/pack")).unwrap();
        found.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() == "pack").collect::<Vec<_>>()
    };
    let whole = packs();
    fixture.history.stage(Some(first), &[write(&path, "2")], &author(&Actor::new("eve"))).unwrap();
    fixture.history.publish().unwrap();
    let torn = packs().into_iter().find(|pack| !whole.contains(pack)).unwrap();
    let bytes = std::fs::read(&torn).unwrap();
    std::fs::remove_file(&torn).unwrap();
    std::fs::write(&torn, &bytes[..bytes.len() - 9]).unwrap();
    assert_eq!(fixture.history.remove_torn_packs(Some(Timestamp::now())).unwrap(), 1);
    assert_eq!(packs(), whole);
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn external_commits_are_reported_with_their_changes() {
    let fixture = fixture();
    let path = at("a.md");
    let ours = fixture.commit(None, &[write(&path, "1")]);
    fixture.git(&["reset", "-q", "--hard"]);
    std::fs::write(fixture.directory.path().join("b.md"), "theirs").unwrap();
    fixture.git(&["rm", "-q", "a.md"]);
    fixture.git(&["add", "b.md"]);
    fixture.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-qm", "by hand"]);
    let theirs = fixture.history.head().unwrap().unwrap();
    assert_eq!(fixture.history.head_move(Some(ours), theirs).unwrap(), HeadMove::FastForward(vec![theirs]));
    let between = fixture.history.external_commits(&[theirs]).unwrap();
    assert_eq!((between[0].actor.as_str(), between[0].message.as_str()), ("Ann", "by hand"));
    let changed: Vec<_> = between[0].entries.iter().map(|entry| (entry.path.as_str(), entry.new.is_some())).collect();
    assert_eq!(changed, [("a.md", false), ("b.md", true)]);
    assert_eq!(fixture.history.head_move(None, theirs).unwrap(), HeadMove::FastForward(vec![ours, theirs]));
}

#[test]
fn a_rewritten_head_is_reported_as_one_difference() {
    let fixture = fixture();
    let (one, two) = (at("a.md"), at("b.md"));
    let ours = fixture.commit(None, &[write(&one, "1")]);
    fixture.git(&["reset", "-q", "--hard"]);
    let other = fixture.history.stage(None, &[write(&two, "2")], &author(&Actor::new("ann"))).unwrap().commit;
    fixture.history.publish().unwrap();
    assert_eq!(fixture.history.head_move(Some(ours), other).unwrap(), HeadMove::Diverged(ours));
    let jump = fixture.history.diverged_move(ours, other).unwrap();
    let DivergedMove { diff: whole, dropped: left, added: come } = jump;
    assert_eq!((whole.diff_base, whole.commit, whole.entries.len()), (DiffBase::PreviousHead, other, 2));
    assert_eq!((left, come), (vec![ours], vec![other]));
}

#[test]
fn an_abbreviated_hash_finds_its_commit_and_nonsense_finds_none() {
    let fixture = fixture();
    let path = at("a.md");
    let commit = fixture.commit(None, &[write(&path, "1")]);
    let hash = commit.to_string();
    assert_eq!(fixture.history.find_commit(&hash).unwrap(), Some(commit));
    assert_eq!(fixture.history.find_commit(&hash[..6]).unwrap(), Some(commit));
    let blob = svcfs_base::ETag::from_content(b"1").to_string();
    for nonsense in ["", "abc", "zzzz", "HEAD", "../..", &"f".repeat(40), &"f".repeat(41), &blob] {
        assert_eq!(fixture.history.find_commit(nonsense).unwrap(), None, "{nonsense}");
    }
}

/// Shows: GIT-9
#[test]
fn an_index_lock_older_than_boot_is_removed_and_a_younger_stays() {
    let fixture = fixture();
    let page = at("page.md");
    fixture.commit(None, &[write(&page, "1")]);
    let lock = fixture.directory.path().join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let made = std::fs::metadata(&lock).unwrap().modified().unwrap();
    fixture.history.repair_index(made).unwrap();
    assert!(lock.exists(), "a person's git may hold it");
    fixture.history.repair_index(made + std::time::Duration::from_secs(1)).unwrap();
    assert!(!lock.exists());
}

#[test]
fn a_held_branch_lock_is_respected_and_an_orphan_is_removed() {
    let fixture = fixture();
    let commit = fixture.commit(None, &[write(&at("page.md"), "1")]);
    let lock = fixture.directory.path().join(".git/refs/heads/main.lock");
    let held = std::fs::File::create(&lock).unwrap();
    fixture.history.repair_branch(Some(commit)).unwrap();
    assert!(lock.exists());
    drop(held);
    fixture.history.repair_branch(Some(commit)).unwrap();
    assert!(!lock.exists());
}

/// Shows: EDIT-4
#[test]
fn a_file_is_unchanged_until_it_is_written_or_replaced() {
    let fixture = fixture();
    let root = fixture.directory.path();
    let pages = ["same.md", "edited.md", "replaced.md"].map(at);
    pages.iter().for_each(|page| std::fs::write(root.join(page.as_str()), "1").unwrap());
    fixture.commit(None, &pages.each_ref().map(|page| write(page, "1")));
    fixture.history.refresh_index(pages.iter(), |_, _| Ok(true)).unwrap();
    std::fs::write(root.join("unknown.md"), "1").unwrap();
    std::fs::write(root.join("edited.md"), "2").unwrap();
    std::fs::write(root.join("new"), "1").unwrap();
    std::fs::rename(root.join("new"), root.join("replaced.md")).unwrap();
    let (unknown, gone) = (at("unknown.md"), at("gone.md"));
    let asked: Vec<_> = pages.iter().chain([&unknown, &gone]).collect();
    // It is what a person put into the index.
    assert!(fixture.history.unmodified_paths(&asked).unwrap().is_empty());
    let repository = Repository::open(root).unwrap();
    let mut index = repository.index().unwrap();
    let noted = index.get_path(std::path::Path::new("same.md"), 0).unwrap();
    index.add(&git2::IndexEntry { id: repository.blob(b"2").unwrap(), ..noted }).unwrap();
    index.write().unwrap();
    assert_eq!(fixture.history.unmodified_paths(&asked).unwrap(), std::collections::HashSet::from([&pages[0]]));
    std::fs::remove_file(root.join(".git/index")).unwrap();
    assert!(fixture.history.unmodified_paths(&asked).unwrap().is_empty());
}

#[test]
fn an_index_lock_does_not_hide_differences() {
    let fixture = fixture();
    let (root, page) = (fixture.directory.path(), at("page.md"));
    std::fs::write(root.join("page.md"), "1").unwrap();
    fixture.commit(None, &[write(&page, "1")]);
    fixture.history.refresh_index([&page].into_iter(), |_, _| Ok(true)).unwrap();
    // Touched and the same: git would note that in its index.
    std::fs::remove_file(root.join("page.md")).unwrap();
    std::fs::write(root.join("page.md"), "1").unwrap();
    std::fs::write(root.join(".git/index.lock"), "").unwrap();
    assert_eq!(fixture.history.differences().unwrap(), []);
    std::fs::write(root.join("new.md"), "2").unwrap();
    assert_eq!(fixture.history.differences().unwrap(), [at("new.md")]);
}

#[test]
fn an_object_missed_during_a_pack_merge_is_looked_up_again() {
    let fixture = fixture();
    let path = at("d/a.md");
    let commit = fixture.commit(None, &[write(&path, "1")]);
    let etag = svcfs_base::ETag::from_content(b"1");
    let elsewhere = tempfile::tempdir().unwrap();
    // As readers that have looked at the packs in the moment in which they were merged: one sees
    // nothing, one the commit and its tree.
    let place = |repository| *fixture.history.readers.lock() = vec![repository];
    let blind = || place(Repository::init_bare(elsewhere.path().join("blind")).unwrap());
    let stale = || {
        let repository = Repository::init_bare(elsewhere.path().join("stale")).unwrap();
        let whole = Repository::open(fixture.directory.path()).unwrap();
        let (seen, all) = (whole.find_commit(oid(commit).unwrap()).unwrap(), whole.odb().unwrap());
        for id in [seen.id(), seen.tree_id()] {
            let object = all.read(id).unwrap();
            repository.odb().unwrap().write(object.kind(), object.data()).unwrap();
        }
        place(repository);
    };
    blind();
    assert_eq!(fixture.history.find_commit(&commit.to_string()).unwrap(), Some(commit));
    blind();
    assert_eq!(fixture.history.find_commit(&commit.to_string()[..8]).unwrap(), Some(commit));
    assert_eq!(fixture.history.find_commit("0123456789abcdef").unwrap(), None);
    blind();
    assert_eq!(fixture.history.head_move(Some(commit), commit).unwrap(), HeadMove::FastForward(Vec::new()));
    stale();
    assert_eq!(fixture.history.leaf(commit, &path).unwrap(), Some((etag, FileKind::Regular)));
    stale();
    assert_eq!(fixture.history.leaves(commit, &at("d")).unwrap().len(), 1);
    stale();
    assert_eq!(fixture.history.read_directory(commit, &at("d")).unwrap().map(|entries| entries.len()), Some(1));
    stale();
    assert_eq!(fixture.history.read_blob(etag).unwrap().as_deref(), Some(&b"1"[..]));
    stale();
    assert_eq!(fixture.history.blob_size(etag).unwrap(), Some(1));
    let (none, below) = (at("d/none.md"), at("d/a.md/none.md"));
    assert!(fixture.history.leaf(commit, &none).unwrap().is_none());
    assert!(fixture.history.leaf(commit, &below).unwrap().is_none());
}

#[test]
fn a_repository_on_another_disk_than_its_root_is_flushed_too() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let folder = elsewhere.path().join("git");
    let init =
        Command::new("git").arg("init").arg("-q").arg("--separate-git-dir").args([&folder, root.path()]).status();
    assert!(init.unwrap().success());
    let (history, _) = History::open(root.path(), &[]).unwrap();
    let disk = |path: &Path| std::fs::metadata(path).unwrap().dev();
    let flushed: Vec<_> = history.other_disks().iter().map(|folder| folder.metadata().unwrap().dev()).collect();
    assert_eq!(flushed, [disk(&folder)]);
    assert_ne!(disk(&folder), disk(root.path()));
    assert!(fixture().history.other_disks().is_empty());
}
