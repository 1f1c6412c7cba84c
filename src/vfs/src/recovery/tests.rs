//! What a crash may leave behind, made by copying a running root and taking things away.
#![expect(clippy::disallowed_methods, reason = "a crash is imitated by damaging a copy")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::{Change, ChangeSet, DiskAttributes, ETag, PathComponent, Protocol, Seq};
use svcfs_store::{HeadMove, History, Log, StatePaths};
use tempfile::TempDir;

use crate::committer::{assign_seqs, external_record};
use crate::tests::{TestSpace, at, eve, options};
use crate::{NodeId, SetAttributes, Vfs};

mod branches;
mod cut;
mod directories;
mod many;

/// A copy of the root as a crash would leave it: the log is flushed, nothing was closed.
pub(crate) fn crashed(space: &TestSpace) -> TempDir {
    copied(space.directory.path())
}

/// A copy of a root as it is at one moment. When something changes while it is copied, such as a
/// pack that is merged into another or a log whose journal begins anew, the copy shows no such
/// moment, and is made again.
pub(crate) fn copied(root: &Path) -> TempDir {
    let from = format!("{}/.", root.display());
    // Other tests keep the machine busy.
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let copy = tempfile::tempdir().unwrap();
        let before = written(root);
        let output = Command::new("cp").env("LC_ALL", "C").args(["-a", &from]).arg(copy.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        let moves = ["No such file or directory", "as it was replaced while being copied"];
        assert!(told.lines().all(|line| moves.iter().any(|moves| line.ends_with(moves))), "{told}");
        if output.status.success() && before.is_some_and(|before| Some(before) == written(root)) {
            return copy;
        }
    }
    panic!("`{}` does not come to rest", root.display());
}

/// Which file stands where, and when it was written; none while files go.
fn written(root: &Path) -> Option<BTreeMap<PathBuf, (u64, u64, i64, i64)>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).ok()? {
            let path = entry.ok()?.path();
            let stat = fs::symlink_metadata(&path).ok()?;
            if stat.is_dir() {
                directories.push(path.clone());
            }
            found.insert(path, (stat.ino(), stat.size(), stat.ctime(), stat.ctime_nsec()));
        }
    }
    Some(found)
}

pub(crate) fn reopened(directory: TempDir) -> TestSpace {
    let vfs: Arc<Vfs> = Vfs::open(options(directory.path(), false)).unwrap();
    TestSpace { directory, vfs }
}

fn busy_space() -> TestSpace {
    let space = TestSpace::new();
    space.put("kept.md", "settled");
    space.vfs.close().unwrap();
    let TestSpace { directory, vfs } = space;
    drop(vfs);
    let space = reopened(directory);
    space.put("a.md", "one");
    space.put("a.md", "two");
    space.put("d/b.md", "b");
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    space.vfs.apply(&eve(), Change::remove(at("kept.md"))).unwrap();
    let big = "x".repeat(3 << 20);
    space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("big.txt"), big))).unwrap();
    space
}

fn assert_whole(space: &TestSpace, log: &[String]) {
    assert_eq!(space.text("a.md"), "two");
    assert_eq!(space.text("e/b.md"), "b");
    assert_eq!(space.text("big.txt").len(), 3 << 20);
    assert!(space.vfs.read(Protocol::Http, &at("kept.md")).is_err());
    assert!(space.vfs.read(Protocol::Http, &at("d/b.md")).is_err());
    assert_eq!(space.log(), log);
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 2);
    assert_eq!(space.vfs.recorded_etag(&at("e/b.md")).unwrap(), Some(ETag::from_content(b"b")));
    space.git(&["fsck", "--strict"]);
}

pub(crate) fn remove_tree(root: &Path) {
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match name.as_str() {
            ".git" | ".svc" => {}
            _ if path.is_dir() => fs::remove_dir_all(path).unwrap(),
            _ => fs::remove_file(path).unwrap(),
        }
    }
}

/// The packs of a copy that were written after its first commit was settled, by their index.
fn new_packs(space: &TestSpace, root: &Path) -> Vec<PathBuf> {
    let settled = space.git(&["rev-list", "--max-parents=0", "HEAD"]);
    let has_first = |index: &PathBuf| {
        let listed = Command::new("git").arg("show-index").stdin(fs::File::open(index).unwrap()).output().unwrap();
        String::from_utf8(listed.stdout).unwrap().contains(settled.trim())
    };
    let files = fs::read_dir(root.join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let indexes = files.filter(|file| file.extension().is_some_and(|extension| extension == "idx"));
    let found: Vec<_> = indexes.filter(|index| !has_first(index)).collect();
    assert!(!found.is_empty(), "nothing was written since");
    found
}

/// Takes the objects from a copy that were written after its first commit was settled.
pub(crate) fn remove_new_objects(space: &TestSpace, root: &Path) {
    for index in new_packs(space, root) {
        fs::remove_file(index.with_extension("pack")).unwrap();
        fs::remove_file(index).unwrap();
    }
}

/// Shows: DUR-5
#[test]
fn a_crash_after_the_answer_loses_nothing() {
    let space = busy_space();
    assert_whole(&reopened(crashed(&space)), &space.log());
}

/// Shows: DUR-5
#[test]
fn files_that_never_reached_the_disk_are_installed_from_the_log() {
    let space = busy_space();
    let copy = crashed(&space);
    remove_tree(copy.path());
    // `kept.md` was settled before and removed since; the others exist in the log only.
    assert_whole(&reopened(copy), &space.log());
}

#[test]
fn files_lost_by_a_broken_disk_are_replayed_without_a_reboot() {
    let space = settled_space();
    space.put("a.md", "one");
    space.put("b.md", "two");
    let copy = crashed(&space);
    // What a file is whose room was reserved and whose bytes did not come; and a person's edit
    // beside it.
    fs::write(copy.path().join("a.md"), "\0\0\0").unwrap();
    fs::write(copy.path().join("b.md"), "").unwrap();
    let again = reopened(copy);
    assert_eq!((again.text("a.md").as_str(), again.text("b.md").as_str()), ("one", ""));
    assert_eq!(again.log()[0], "fswatch|fswatch: b.md");
}

/// Shows: MNT-20
#[test]
fn mode_and_owner_of_unflushed_files_are_replayed_from_the_log() {
    let space = settled_space();
    // Only root can give files away.
    let me = fs::metadata(space.directory.path()).unwrap().uid();
    let owner = if me == 0 { 12345 } else { me };
    let put = |path: &str, text: &str, mode| {
        let disk = DiskAttributes { mode, owner: mode.map(|_| (owner, owner)), ..DiskAttributes::default() };
        let change = Change::put(at(path), text.to_owned());
        let Change::Put { path, content, precondition: expect, kind, .. } = change else { unreachable!() };
        space.vfs.apply(&eve(), Change::Put { path, content, precondition: expect, kind, attributes: disk }).unwrap();
    };
    put("private.md", "one", Some(0o600));
    put("private.md", "two", None);
    put("plain.md", "one", Some(0o600));
    space.vfs.apply(&eve(), Change::remove(at("plain.md"))).unwrap();
    put("plain.md", "two", None);
    space.put("run.sh", "#!/bin/sh\n");
    let (node, _) = space.vfs.lookup(&eve(), NodeId::ROOT, &PathComponent::parse("run.sh").unwrap()).unwrap();
    let set = SetAttributes { mode: Some(0o750), ..SetAttributes::default() };
    space.vfs.set_attributes(&eve(), node, set).unwrap();
    let killed = crashed(&space);
    let without_power = crashed(&space);
    remove_tree(without_power.path());
    fs::write(without_power.path().join("first.md"), "first").unwrap();
    for copy in [killed, without_power] {
        let again = reopened(copy);
        let stat = |path: &str| fs::metadata(again.directory.path().join(path)).unwrap();
        let modes = ["private.md", "plain.md", "run.sh"].map(|path| stat(path).mode() & 0o7777);
        assert_eq!(modes, [0o600, 0o644, 0o750]);
        assert_eq!(stat("private.md").uid(), owner);
        assert_eq!(again.text("private.md"), "two");
        again.vfs.close().unwrap();
        let staged = again.git(&["ls-files", "-s", "run.sh", "private.md"]);
        assert_eq!(staged.lines().map(|line| &line[..6]).collect::<Vec<_>>(), ["100644", "100755"]);
        assert_eq!(again.git(&["status", "--porcelain"]), "");
    }
}

/// Shows: DUR-5
#[test]
fn unflushed_objects_and_a_branch_are_recreated_by_replay() {
    let space = busy_space();
    let copy = crashed(&space);
    let settled = space.git(&["rev-list", "--max-parents=0", "HEAD"]);
    fs::write(copy.path().join(".git/refs/heads/main"), settled).unwrap();
    remove_new_objects(&space, copy.path());
    assert_whole(&reopened(copy), &space.log());
}

/// The files of all packs of a root.
fn packs(root: &Path) -> BTreeMap<PathBuf, u64> {
    let entries = fs::read_dir(root.join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into(), entry.metadata().unwrap().ino())).collect()
}

#[test]
fn replay_does_not_rewrite_intact_files_that_the_branch_has() {
    let space = busy_space();
    let copy = crashed(&space);
    for keep in packs(copy.path()).keys().filter(|name| name.extension().is_some_and(|kind| kind == "keep")) {
        fs::remove_file(copy.path().join(".git/objects/pack").join(keep)).unwrap();
    }
    let before = packs(copy.path());
    let again = reopened(copy);
    assert_eq!(packs(again.directory.path()), before);
    assert_whole(&again, &space.log());
}

#[test]
fn what_the_branch_shows_and_was_lost_in_part_is_made_again() {
    let lose = |index: &Path| {
        fs::remove_file(index.with_extension("pack")).unwrap();
        fs::remove_file(index).unwrap();
    };
    // The index tells of objects that are not there.
    let tear = |index: &Path| {
        let pack = index.with_extension("pack");
        let bytes = vec![0; fs::read(&pack).unwrap().len()];
        fs::remove_file(&pack).unwrap();
        fs::write(pack, bytes).unwrap();
    };
    let ways: [&dyn Fn(&Path); 2] = [&lose, &tear];
    for (first, damage) in (0..2).flat_map(|first| ways.map(|damage| (first, damage))) {
        let space = busy_space();
        let copy = crashed(&space);
        let new = new_packs(&space, copy.path());
        assert!(new.len() > 1, "{new:?}");
        new.iter().skip(first).step_by(2).for_each(|index| damage(index));
        assert_whole(&reopened(copy), &space.log());
    }
}

/// Shows: EDIT-5
#[test]
fn an_edit_made_after_the_crash_is_preserved_and_recorded() {
    let space = busy_space();
    let copy = crashed(&space);
    fs::write(copy.path().join("a.md"), "by hand").unwrap();
    let again = reopened(copy);
    assert_eq!(again.text("a.md"), "by hand");
    assert_eq!(again.log()[0], "fswatch|fswatch: a.md");
    assert_eq!(again.vfs.versions(&at("a.md")).unwrap().len(), 3);
}

/// Shows: EDIT-7
#[test]
fn an_external_commit_after_the_crash_stays_below_own_commits() {
    let space = busy_space();
    let copy = crashed(&space);
    let settled = space.git(&["rev-list", "--max-parents=0", "HEAD"]);
    fs::write(copy.path().join(".git/refs/heads/main"), settled).unwrap();
    // With the index as it was then, too.
    let commit = ["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "by hand"];
    for git in [&["read-tree", "HEAD"][..], &commit] {
        assert!(Command::new("git").arg("-C").arg(copy.path()).args(git).status().unwrap().success());
    }
    let again = reopened(copy);
    let log = again.log();
    assert_eq!(log.len(), space.log().len() + 1);
    assert_eq!(log[log.len() - 2], "Ann|by hand");
    assert_eq!(again.text("a.md"), "two");
    again.git(&["fsck", "--strict"]);
}

#[test]
fn opening_twice_after_a_crash_changes_nothing_more() {
    let space = busy_space();
    let again = reopened(crashed(&space));
    let twice = reopened(crashed(&again));
    assert_whole(&twice, &space.log());
}

/// Takes a copy back to the state of its first commit, as far as git goes.
fn lose_history_since_the_first_commit(space: &TestSpace, copy: &Path) {
    let settled = space.git(&["rev-list", "--max-parents=0", "HEAD"]);
    fs::write(copy.join(".git/refs/heads/main"), settled).unwrap();
    remove_new_objects(space, copy);
}

/// A space whose log is settled up to a first commit, with one page in it.
fn settled_space() -> TestSpace {
    let mut space = TestSpace::new();
    space.put("first.md", "first");
    space.reopen();
    space
}

#[test]
fn an_overwritten_external_edit_survives_lost_objects() {
    let space = settled_space();
    space.put("a.md", "one");
    fs::write(space.directory.path().join("a.md"), "behind").unwrap();
    space.put("a.md", "two");
    let copy = crashed(&space);
    lose_history_since_the_first_commit(&space, copy.path());
    let again = reopened(copy);
    assert_eq!(again.log(), space.log());
    assert_eq!(again.git(&["show", "HEAD^:a.md"]), "behind");
}

#[test]
fn an_overwritten_external_edit_is_in_history_after_power_loss() {
    let space = settled_space();
    fs::write(space.directory.path().join("a.md"), "by hand").unwrap();
    space.vfs.rescan().unwrap();
    space.put("a.md", "ours");
    let copy = crashed(&space);
    lose_history_since_the_first_commit(&space, copy.path());
    let again = reopened(copy);
    assert_eq!(again.log(), space.log());
    assert_eq!(again.git(&["show", "HEAD^:a.md"]), "by hand");
    assert_eq!(again.text("a.md"), "ours");
}

#[test]
fn an_adopted_edit_lost_in_a_power_loss_does_not_block_opening() {
    let space = settled_space();
    // More than the log keeps of such.
    fs::write(space.directory.path().join("a.md"), "behind\n".repeat(200_000)).unwrap();
    space.vfs.rescan().unwrap();
    space.put("b.md", "ours");
    for is_branch_lost in [true, false] {
        let copy = crashed(&space);
        if is_branch_lost {
            lose_history_since_the_first_commit(&space, copy.path());
        } else {
            remove_new_objects(&space, copy.path());
        }
        fs::remove_file(copy.path().join("a.md")).unwrap();
        let again = reopened(copy);
        assert_eq!(again.text("b.md"), "ours");
        assert_eq!(again.git(&["show", "HEAD:b.md"]), "ours");
        again.wait_until("the index is up to date", |again| again.git(&["status", "--porcelain"]).is_empty());
        again.git(&["fsck", "--strict"]);
    }
}

/// Shows: DUR-6
#[test]
fn objects_that_lost_their_bytes_are_recreated_by_replay() {
    let space = settled_space();
    space.put("d/a.md", "one");
    space.put("d/a.md", "two");
    let copy = crashed(&space);
    for index in new_packs(&space, copy.path()) {
        for file in [index.with_extension("pack"), index] {
            fs::remove_file(&file).unwrap();
            fs::write(&file, "").unwrap();
        }
    }
    let again = reopened(copy);
    assert_eq!(again.log(), space.log());
    assert_eq!(again.git(&["show", "HEAD:d/a.md"]), "two");
    again.git(&["fsck", "--strict"]);
}

/// Shows: DUR-6
#[test]
fn a_branch_and_an_index_without_their_bytes_are_made_again() {
    let space = settled_space();
    space.put("a.md", "one");
    let copy = crashed(&space);
    fs::write(copy.path().join(".git/refs/heads/main"), "").unwrap();
    fs::write(copy.path().join(".git/index"), "").unwrap();
    let mut again = reopened(copy);
    assert_eq!(again.log(), space.log());
    again.reopen();
    assert_eq!(again.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_execute_bit_that_never_reached_the_disk_is_set_again() {
    use std::os::unix::fs::PermissionsExt;
    let space = settled_space();
    space.put("run", "#!/bin/sh\n");
    let change = Change::Put {
        path: at("run"),
        content: "#!/bin/sh\n".into(),
        precondition: svcfs_base::Precondition::Any,
        kind: Some(svcfs_base::FileKind::Executable),
        attributes: svcfs_base::DiskAttributes::default(),
    };
    space.vfs.apply(&eve(), change).unwrap();
    let copy = crashed(&space);
    fs::set_permissions(copy.path().join("run"), fs::Permissions::from_mode(0o644)).unwrap();
    let again = reopened(copy);
    assert_eq!(again.log(), space.log());
    assert_eq!(again.git(&["ls-tree", "HEAD", "run"]).split(' ').next(), Some("100755"));
}

#[test]
fn a_link_at_an_unsettled_path_does_not_block_opening() {
    let space = settled_space();
    space.put("d/a.md", "one");
    let copy = crashed(&space);
    fs::remove_dir_all(copy.path().join("d")).unwrap();
    std::os::unix::fs::symlink("first.md", copy.path().join("d")).unwrap();
    let again = reopened(copy);
    assert_eq!(again.text("d"), "first");
    assert_eq!(again.vfs.versions(&at("d/a.md")).unwrap().len(), 2);
}

#[test]
fn a_branch_a_person_took_back_stays_back_after_a_crash() {
    let space = settled_space();
    space.put("a.md", "one");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    space.git(&["reset", "-q", "--hard", "HEAD~1"]);
    space.put("b.md", "two");
    let again = reopened(crashed(&space));
    assert_eq!(again.log(), space.log());
    assert_eq!(again.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "b.md\nfirst.md\n");
}

/// Shows: HIST-1
#[test]
fn interrupted_reading_of_external_history_is_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(root).args(["-c", "user.name=Ann", "-c", "user.email=ann@x"]).args(arguments);
        assert!(command.output().unwrap().status.success(), "git {arguments:?}");
    };
    let commit = |name: &str, text: &str| {
        fs::write(root.join(name), text).unwrap();
        git(&["add", name]);
        git(&["commit", "-qm", &format!("{name}: {text}")]);
    };
    git(&["init", "-q", "-b", "main"]);
    commit("a.md", "first");
    git(&["branch", "side"]);
    commit("a.md", "second");
    git(&["checkout", "-q", "side"]);
    commit("s.md", "beside");
    git(&["checkout", "-q", "main"]);
    git(&["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    // As it was when the log, ended too early, knew it last.
    commit("a.md", "first");
    fs::create_dir_all(StatePaths::new(root).spool()).unwrap();
    let (history, _) = History::open(root, &[]).unwrap();
    let (log, _) = Log::open(&StatePaths::new(root)).unwrap();
    let HeadMove::FastForward(commits) = history.head_move(None, history.head().unwrap().unwrap()).unwrap() else {
        panic!()
    };
    let part: Vec<_> = history.external_commits(&commits[..3]).unwrap().into_iter().map(external_record).collect();
    log.append(&assign_seqs(&part, Seq(0))).unwrap();
    drop((history, log));
    let space = reopened(directory);
    let told: Vec<_> = space.vfs.changes(None, 500).unwrap().changes.iter().map(|change| change.seq).collect();
    let each_once: std::collections::BTreeSet<_> = told.iter().collect();
    assert_eq!((commits.len(), each_once.len()), (5, 5), "{told:?}");
    assert_eq!(space.text("a.md"), "first");
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 3);
    assert_eq!(space.git(&["rev-list", "--count", "HEAD"]), "5\n");
}
