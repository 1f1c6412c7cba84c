//! Damage is found by name, and mended without loss.
#![expect(clippy::disallowed_methods, reason = "the damage is done as programs and disks do it")]

use std::fs::{self, File};
use std::time::{Duration, Instant, SystemTime};

use svcfs_base::{Actor, FileKind, Timestamp, TreePath};
use tempfile::TempDir;

use super::*;
use crate::{CommitAuthor, FileEdit, History};

/// A repository with two pages, their files in place.
struct Repo {
    folder: TempDir,
    newest: CommitId,
}

impl Repo {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (history, _) = History::open(folder.path(), &[]).unwrap();
        let mut newest = None;
        for (name, text) in [("a.md", "one"), ("folder/b.md", "two")] {
            let path = TreePath::parse(name).unwrap();
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
            let edit = FileEdit::Write { path: &path, kind: FileKind::Regular, content: text.as_bytes() };
            let author =
                CommitAuthor { actor: &Actor::new("eve"), email: None, time: Timestamp::UNIX_EPOCH, message: name };
            let staged = history.stage(newest, &[edit], &author).unwrap();
            history.advance(newest, staged.commit).unwrap();
            history.unpin_packs();
            history.refresh_index([&path].into_iter(), |_, _| Ok(true)).unwrap();
            newest = Some(staged.commit);
        }
        Self { folder, newest: newest.unwrap() }
    }
    fn git(&self, name: &str) -> PathBuf {
        self.folder.path().join(".git").join(name)
    }
    fn inspect(&self) -> RepoInspection {
        RepoInspection::open(self.folder.path()).unwrap().unwrap()
    }
    /// Every object in a file of its own.
    fn loosen(&self) {
        let packs = fs::read_dir(self.git("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        let aside = tempfile::tempdir().unwrap();
        for pack in packs.filter(|path| path.extension().is_some_and(|extension| extension == "pack")) {
            let moved = aside.path().join("p.pack");
            fs::rename(&pack, &moved).unwrap();
            fs::remove_file(pack.with_extension("idx")).unwrap();
            let unpack = std::process::Command::new("git")
                .args(["unpack-objects", "-q"])
                .current_dir(self.folder.path())
                .stdin(File::open(moved).unwrap())
                .status();
            assert!(unpack.unwrap().success());
        }
    }
    fn loose(&self, content: &str) -> PathBuf {
        let name = svcfs_base::ETag::from_content(content.as_bytes()).to_string();
        self.git("objects").join(&name[..2]).join(&name[2..])
    }
}

#[test]
fn an_intact_repository_passes_inspection_without_findings() {
    let repo = Repo::new();
    let inspection = repo.inspect();
    assert_eq!(inspection.head().unwrap(), Some(repo.newest));
    let objects = inspection.check_objects(|_| {}).unwrap();
    assert_eq!(objects.read_count, 7, "two commits, three directories, two contents");
    assert!(objects.bad.is_empty() && inspection.torn_packs().unwrap().is_empty() && inspection.locks().is_empty());
    let state = inspection.compare_tree(|_, _| {}).unwrap();
    assert_eq!(state.files.len(), 2);
    assert!(state.modified.is_empty() && state.untracked.is_empty() && state.stale_index.is_empty(), "{state:?}");
    assert_eq!(state.index_error, None);
    assert_eq!(repair_head(repo.folder.path(), Some(repo.newest)).unwrap(), None);
}

#[test]
fn lost_and_damaged_blobs_are_named_and_rewritten_from_the_tree() {
    let repo = Repo::new();
    repo.loosen();
    fs::remove_file(repo.loose("one")).unwrap();
    fs::remove_file(repo.loose("two")).unwrap();
    fs::write(repo.loose("two"), "rubbish").unwrap();
    let inspection = repo.inspect();
    let mut bad = inspection.check_objects(|_| {}).unwrap().bad;
    bad.sort_by(|one, other| one.path.cmp(&other.path));
    let told: Vec<_> = bad.iter().map(|object| (object.path.as_str(), object.kind, object.is_missing)).collect();
    assert_eq!(told, [("a.md", "content", true), ("folder/b.md", "content", false)]);
    assert_eq!(inspection.restore_objects(&bad).unwrap(), 2);
    assert!(repo.inspect().check_objects(|_| {}).unwrap().bad.is_empty());
    let aside: Vec<_> = fs::read_dir(repo.git("damaged")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(fs::read(&aside[0]).unwrap(), b"rubbish", "what stood there is kept");
}

#[test]
fn an_object_that_was_cut_off_is_named() {
    let repo = Repo::new();
    repo.loosen();
    let bytes = fs::read(repo.loose("one")).unwrap();
    fs::remove_file(repo.loose("one")).unwrap();
    fs::write(repo.loose("one"), &bytes[..bytes.len() - 6]).unwrap();
    let bad = repo.inspect().check_objects(|_| {}).unwrap().bad;
    assert_eq!(
        bad.iter().map(|object| (object.path.as_str(), object.is_missing)).collect::<Vec<_>>(),
        [("a.md", false)]
    );
}

#[test]
fn a_blob_that_exists_nowhere_is_not_invented() {
    let repo = Repo::new();
    repo.loosen();
    fs::remove_file(repo.loose("one")).unwrap();
    fs::write(repo.folder.path().join("a.md"), "another").unwrap();
    let bad = repo.inspect().check_objects(|_| {}).unwrap().bad;
    assert_eq!(repo.inspect().restore_objects(&bad).unwrap(), 0);
    assert_eq!(repo.inspect().check_objects(|_| {}).unwrap().bad.len(), 1);
}

#[test]
fn a_pack_that_was_cut_short_is_named() {
    let repo = Repo::new();
    let pack = fs::read_dir(repo.git("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let pack = pack.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).min().unwrap();
    File::options().write(true).open(&pack).unwrap().set_len(40).unwrap();
    assert_eq!(repo.inspect().torn_packs().unwrap(), [pack]);
    assert!(!repo.inspect().check_objects(|_| {}).unwrap().bad.is_empty());
}

#[test]
fn an_edit_of_the_same_size_and_time_is_seen() {
    let repo = Repo::new();
    let file = repo.folder.path().join("a.md");
    let before = file.metadata().unwrap().modified().unwrap();
    fs::write(&file, "won").unwrap();
    File::options().write(true).open(&file).unwrap().set_modified(before).unwrap();
    fs::write(repo.folder.path().join("new.md"), "new").unwrap();
    fs::remove_file(repo.folder.path().join("folder/b.md")).unwrap();
    let state = repo.inspect().compare_tree(|_, _| {}).unwrap();
    let names = |paths: &[TreePath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&state.modified), ["a.md", "folder/b.md"]);
    assert_eq!(names(&state.untracked), ["new.md"]);
}

#[test]
fn a_stale_or_damaged_index_is_reported() {
    let repo = Repo::new();
    let other = Repo::new();
    fs::copy(other.git("index"), repo.git("index")).unwrap();
    assert!(repo.inspect().compare_tree(|_, _| {}).unwrap().stale_index.is_empty(), "times are not believed");
    fs::remove_file(repo.git("index")).unwrap();
    assert_eq!(repo.inspect().compare_tree(|_, _| {}).unwrap().stale_index.len(), 2);
    fs::write(repo.git("index"), "rubbish that is long enough to be read as one").unwrap();
    assert!(repo.inspect().compare_tree(|_, _| {}).unwrap().index_error.is_some());
}

#[test]
fn an_unknown_index_format_is_no_damage_and_files_are_reported() {
    let repo = Repo::new();
    fs::write(repo.folder.path().join("new.md"), "new").unwrap();
    let mut git = std::process::Command::new("git");
    let split = git.args(["update-index", "--split-index"]).current_dir(repo.folder.path());
    assert!(split.status().unwrap().success());
    let state = repo.inspect().compare_tree(|_, _| {}).unwrap();
    assert!(state.index_unsupported.is_some_and(|told| told.contains("--no-split-index")));
    assert_eq!((state.index_error, state.stale_index, state.modified), (None, Vec::new(), Vec::new()));
    assert_eq!(state.untracked, [TreePath::parse("new.md").unwrap()]);
}

#[test]
fn a_lock_is_stale_when_it_is_old_and_has_no_holder() {
    let repo = Repo::new();
    let lock = repo.git("refs/heads/main.lock");
    let file = File::create(&lock).unwrap();
    let found = repo.inspect().locks();
    assert_eq!(
        found[0].holder.as_ref().map(|lock_holder| lock_holder.pid),
        Some(std::process::id()),
        "it is open here"
    );
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
    repo.inspect().remove_lock(&repo.inspect().locks()[0]).unwrap();
    assert!(lock.exists(), "it is held");
    drop(file);
    // A program that another test starts in this moment has our descriptors until it has become
    // that program.
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut found = repo.inspect().locks();
    while !found[0].is_stale() && Instant::now() < deadline {
        std::thread::yield_now();
        found = repo.inspect().locks();
    }
    assert!(found[0].is_stale() && found[0].path == lock, "{found:?}");
    repo.inspect().remove_lock(&found[0]).unwrap();
    assert!(repo.inspect().locks().is_empty());
}

#[test]
fn a_head_without_sense_names_its_branch_again() {
    let repo = Repo::new();
    for broken in [&b"\0\0\0\0"[..], b"", b"ref: \n", b"ref: refs heads\n", b"0123"] {
        fs::write(repo.git("HEAD"), broken).unwrap();
        let name = repair_head(repo.folder.path(), Some(repo.newest)).unwrap();
        assert_eq!(name.as_deref(), Some("refs/heads/main"), "{broken:?}");
        assert_eq!(repo.inspect().head().unwrap(), Some(repo.newest));
    }
    fs::remove_file(repo.git("HEAD")).unwrap();
    assert!(RepoInspection::open(repo.folder.path()).unwrap().is_none());
    assert!(repair_head(repo.folder.path(), None).unwrap().is_some());
    assert_eq!(repo.inspect().head().unwrap(), Some(repo.newest));
    assert_eq!(fs::read(repo.git("damaged/HEAD.damaged-1")).unwrap(), b"\0\0\0\0", "what stood there is kept");
}

#[test]
fn an_ambiguous_head_is_not_changed_by_repair() {
    let repo = Repo::new();
    for name in ["one", "two"] {
        fs::copy(repo.git("refs/heads/main"), repo.git("refs/heads").join(name)).unwrap();
    }
    fs::remove_file(repo.git("refs/heads/main")).unwrap();
    fs::write(repo.git("HEAD"), "?").unwrap();
    assert_eq!(repair_head(repo.folder.path(), Some(repo.newest)).unwrap(), None);
    assert_eq!(fs::read(repo.git("HEAD")).unwrap(), b"?");
}

#[test]
fn an_unreadable_branch_is_repaired_to_the_commit_in_the_log() {
    let repo = Repo::new();
    assert!(!repo.inspect().repair_branch(repo.newest).unwrap(), "nothing is wrong");
    fs::write(repo.git("refs/heads/main"), "rubbish").unwrap();
    assert!(repo.inspect().head().is_err());
    assert!(repo.inspect().repair_branch(repo.newest).unwrap());
    assert_eq!(repo.inspect().head().unwrap(), Some(repo.newest));
    assert_eq!(
        fs::read(repo.git("damaged/refs-heads-main.damaged-1")).unwrap(),
        b"rubbish",
        "what stood there is kept"
    );
}

#[test]
fn own_temporary_files_go_immediately_and_those_of_git_when_old() {
    let repo = Repo::new();
    for name in [".svcfs_1", "tmp_pack_x", "tmp_pack_y"] {
        File::create(repo.git("objects/pack").join(name)).unwrap();
    }
    let old = File::options().write(true).open(repo.git("objects/pack/tmp_pack_x")).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    assert_eq!(repo.inspect().remove_partial_files().unwrap(), 2);
    assert!(repo.git("objects/pack/tmp_pack_y").exists(), "its git may be at work");
}
