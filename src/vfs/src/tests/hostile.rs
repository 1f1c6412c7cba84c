//! What a root may hold, and what may happen behind the server, without keeping it from opening or
//! from writing.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use svcfs_store::{FailPoint, FailPoints};

use super::*;
use crate::recovery::tests::{crashed, reopened};

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn soon(space: &TestSpace, change: Change) -> Result<ApplyResult, Fault> {
    space.vfs.apply(&eve(), ChangeSet::from(change).soon())
}

fn paths_in_head(space: &TestSpace) -> Vec<String> {
    space.git(&["ls-tree", "-r", "--name-only", "HEAD"]).lines().map(str::to_owned).collect()
}

/// Shows: EDIT-10
#[test]
fn what_cannot_be_recorded_never_keeps_a_space_from_opening() {
    let mut space = TestSpace::new();
    space.put("a.md", "one");
    let root = space.directory.path().to_owned();
    fifo(&root.join("pipe"));
    fs::File::create(root.join("huge")).unwrap().set_len((64 << 20) + 1).unwrap();
    fs::write(root.join("git~1"), "git refuses this name").unwrap();
    symlink(std::ffi::OsStr::from_bytes(b"\xff"), root.join("odd-link")).unwrap();
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"odd-\xff")), "no UTF-8").unwrap();
    fs::write(root.join("odd\u{1}"), "a control character").unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/GIT~1"), "nor this").unwrap();
    fs::write(root.join("d/new.md"), "two").unwrap();
    space.reopen();
    assert_eq!(paths_in_head(&space), ["a.md", "d/new.md"]);
    space.put("b.md", "still works");
    space.reopen();
    assert_eq!(space.log(), ["eve|eve: b.md", "fswatch|fswatch: d/new.md", "eve|eve: a.md"]);
}

#[test]
fn a_directory_externally_replaced_by_a_link_is_adopted() {
    let mut space = TestSpace::new();
    space.put("d/a.md", "one");
    let root = space.directory.path();
    fs::rename(root.join("d"), root.join("e")).unwrap();
    symlink("e", root.join("d")).unwrap();
    space.reopen();
    assert_eq!(paths_in_head(&space), ["d", "e/a.md"]);
    assert_eq!(space.text("d/a.md"), "one");
}

#[test]
fn a_file_cannot_be_put_below_one_that_is_still_on_its_way() {
    let space = TestSpace::new();
    soon(&space, Change::put(at("p"), "file")).unwrap();
    assert_eq!(space.vfs.apply(&eve(), Change::put(at("p/q"), "x")).unwrap_err().kind(), Kind::NotDirectory);
    let set = vec![Change::put(at("r"), "file"), Change::put(at("r/s"), "x")];
    assert_eq!(space.vfs.apply(&eve(), ChangeSet::new(set)).unwrap_err().kind(), Kind::NotDirectory);
    space.put("b.md", "still works");
    assert_eq!(space.text("p"), "file");
    assert_eq!(paths_in_head(&space), ["b.md", "p"]);
}

#[test]
fn a_file_cannot_be_put_where_the_same_set_puts_one_below() {
    let space = TestSpace::new();
    let set = vec![Change::put(at("d/a.md"), "a"), Change::put(at("d"), "d"), Change::rename(at("d"), at("e"))];
    assert_eq!(space.vfs.apply(&eve(), ChangeSet::new(set)).unwrap_err().kind(), Kind::IsDirectory);
    let set = vec![Change::put(at("f"), "f"), Change::put(at("d/a.md"), "a"), Change::rename(at("f"), at("d"))];
    assert_eq!(space.vfs.apply(&eve(), ChangeSet::new(set)).unwrap_err().kind(), Kind::IsDirectory);
    assert!(space.vfs.stat(Protocol::Http, &at("d")).is_err());
}

#[test]
fn a_directory_externally_made_over_a_pending_file_is_an_edit() {
    let mut space = TestSpace::new();
    soon(&space, Change::put(at("p"), "file")).unwrap();
    fs::create_dir(space.directory.path().join("p")).unwrap();
    fs::write(space.directory.path().join("p/theirs.md"), "theirs").unwrap();
    space.put("b.md", "still works");
    space.reopen();
    assert_eq!(paths_in_head(&space), ["b.md", "p/theirs.md"]);
    assert_eq!(space.vfs.versions(&at("p")).unwrap().len(), 2);
}

#[test]
fn an_empty_directory_in_the_way_of_a_set_gives_way() {
    let space = TestSpace::new();
    let set = vec![Change::MakeDir { path: at("p") }, Change::put(at("p"), "file")];
    let _ = space.vfs.apply(&eve(), ChangeSet::new(set));
    space.put("b.md", "still works");
}

#[test]
fn a_directory_can_be_created_right_after_removing_a_file() {
    let space = TestSpace::new();
    space.put("d", "file");
    soon(&space, Change::remove(at("d"))).unwrap();
    space.vfs.apply(&eve(), Change::MakeDir { path: at("d") }).unwrap();
    assert_eq!(space.vfs.stat(Protocol::Http, &at("d")).unwrap().kind, EntryKind::Directory);
}

#[test]
fn a_directory_with_nothing_but_a_pipe_is_not_empty() {
    let space = TestSpace::new();
    space.put("d/a.md", "one");
    fs::create_dir(space.directory.path().join("e")).unwrap();
    fifo(&space.directory.path().join("e/pipe"));
    assert_eq!(space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap_err().kind(), Kind::NotEmpty);
    assert_eq!(space.text("d/a.md"), "one");
    space.put("b.md", "still works");
}

#[test]
fn a_directory_is_not_moved_below_a_scratch_file() {
    let space = TestSpace::new();
    space.put("d/a.md", "one");
    space.put("f~", "scratch");
    assert_eq!(space.vfs.apply(&eve(), Change::rename(at("d"), at("f~/d"))).unwrap_err().kind(), Kind::NotDirectory);
    assert_eq!(space.text("d/a.md"), "one");
    space.put("b.md", "still works");
}

#[test]
fn two_directories_do_not_move_in_one_set() {
    let space = TestSpace::new();
    space.put("d/a.md", "one");
    space.put("f/a.md", "two");
    let set = vec![Change::rename(at("d"), at("e")), Change::rename(at("f"), at("g"))];
    assert_eq!(space.vfs.apply(&eve(), ChangeSet::new(set)).unwrap_err().kind(), Kind::Invalid);
    assert_eq!(space.text("d/a.md"), "one");
}

#[test]
fn a_user_file_put_back_after_a_backup_rename_is_preserved() {
    let mut space = TestSpace::new();
    space.put("a.md", "old");
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at("a.md~"))).unwrap();
    fs::write(space.directory.path().join("a.md"), "by hand").unwrap();
    space.reopen();
    assert_eq!(space.text("a.md"), "by hand");
    assert_eq!(space.vfs.recorded_etag(&at("a.md")).unwrap(), Some(ETag::from_content(b"by hand")));
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 2);
}

#[test]
fn a_page_moved_to_a_scratch_name_stays_out_with_its_directory() {
    let space = TestSpace::new();
    space.put("d/a.md", "old");
    space.put("d/b.md", "other");
    space.vfs.apply(&eve(), Change::rename(at("d/a.md"), at("d/a.md~"))).unwrap();
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    assert_eq!(paths_in_head(&space), ["e/b.md"]);
    assert_eq!(space.text("e/a.md~"), "old");
}

#[test]
fn a_refused_set_leaves_a_departed_page_departed() {
    let mut space = TestSpace::new();
    space.put("a.md", "old");
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at("a.md~"))).unwrap();
    let set = vec![Change::put(at("a.md"), "new"), Change::put(at("b.md"), "refuse")];
    assert_eq!(space.vfs.apply(&eve(), ChangeSet::new(set)).unwrap_err().kind(), Kind::Rejected);
    space.vfs.close().unwrap();
    assert_eq!(space.log()[0], "eve|delete: a.md");
    space.vfs = Vfs::open(options(space.directory.path(), false)).unwrap();
}

#[test]
fn a_page_that_leaves_and_returns_in_one_set_stays_in_history() {
    let mut space = TestSpace::new();
    space.put("a.md", "old");
    let set = vec![Change::rename(at("a.md"), at("a.md~")), Change::put(at("a.md"), "new")];
    space.vfs.apply(&eve(), ChangeSet::new(set)).unwrap();
    space.reopen();
    assert_eq!(space.text("a.md"), "new");
    assert_eq!(space.text("a.md~"), "old");
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 2);
}

#[test]
fn a_scratch_file_rewritten_after_becoming_a_page_is_preserved() {
    let space = TestSpace::new();
    space.put("a.md~", "page");
    soon(&space, Change::rename(at("a.md~"), at("a.md"))).unwrap();
    space.put("a.md~", "scratch again");
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.text("a.md"), "page");
    assert_eq!(space.text("a.md~"), "scratch again");
}

#[test]
fn a_set_the_log_rejects_over_an_external_edit_is_written_later() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let spool = space.directory.path().join(".svc/state/spool");
    fs::write(space.directory.path().join("a.md"), "behind").unwrap();
    fs::rename(&spool, spool.with_extension("away")).unwrap();
    soon(&space, Change::put(at("a.md"), "x".repeat(2 << 20))).unwrap();
    space.wait_until("the log has refused it", |space| space.vfs.health().is_err());
    fs::rename(spool.with_extension("away"), &spool).unwrap();
    space.wait_until("it is written", |space| space.vfs.health().is_ok());
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log(), ["eve|eve: a.md", "fswatch|fswatch: a.md", "eve|eve: a.md"]);
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 3);
}

#[test]
fn a_server_stopped_while_the_disk_refuses_loses_nothing() {
    let mut space = TestSpace::new();
    space.put("a.md", "one");
    let temporary = space.directory.path().join(".svc/state/tmp");
    // Files may be made there in this moment.
    space.wait_until("it is gone", |_| fs::remove_dir_all(&temporary).is_ok());
    soon(&space, Change::put(at("a.md"), "two")).unwrap();
    space.wait_until("the tree has refused it", |space| space.vfs.health().is_err());
    let late = soon(&space, Change::put(at("b.md"), "late"));
    assert_eq!(late.unwrap_err().kind(), Kind::Unavailable);
    space.vfs.close().unwrap();
    space.vfs = Vfs::open(options(space.directory.path(), false)).unwrap();
    assert_eq!(space.text("a.md"), "two");
    assert_eq!(space.log(), ["eve|eve: a.md", "eve|eve: a.md"]);
}

#[test]
fn a_root_inside_another_repository_gets_its_own() {
    let outer = tempfile::tempdir().unwrap();
    assert!(Command::new("git").arg("-C").arg(outer.path()).args(["init", "-q"]).status().unwrap().success());
    let inner = outer.path().join("inner");
    let vfs = Vfs::open(options(&inner, false)).unwrap();
    vfs.apply(&eve(), Change::put(at("a.md"), "one")).unwrap();
    vfs.close().unwrap();
    assert!(inner.join(".git/HEAD").exists());
    assert!(!outer.path().join(".git/refs/heads/main").exists());
}

#[test]
fn a_work_tree_of_another_repository_is_served_and_packed() {
    let main = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        assert!(Command::new("git").arg("-C").arg(main.path()).args(arguments).status().unwrap().success());
    };
    git(&["init", "-q"]);
    git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "first"]);
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("tree");
    git(&["worktree", "add", "-q", "-b", "side", root.to_str().unwrap()]);
    let vfs = Vfs::open(options(&root, false)).unwrap();
    vfs.apply(&eve(), Change::put(at("a.md"), "one")).unwrap();
    vfs.apply(&eve(), Change::put(at("a.md~"), "scratch")).unwrap();
    vfs.close().unwrap();
    let status = Command::new("git").arg("-C").arg(&root).args(["status", "--porcelain"]).output().unwrap();
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "");
    assert!(fs::read_dir(main.path().join(".git/objects/pack")).unwrap().count() > 0);
    git(&["fsck", "--strict"]);
}

/// Shows: GIT-11
#[test]
fn two_work_trees_of_one_repository_cannot_be_served_together() {
    let directory = tempfile::tempdir().unwrap();
    let [main, side] = ["main", "side"].map(|name| directory.path().canonicalize().unwrap().join(name));
    let git = |arguments: &[&str]| {
        assert!(Command::new("git").arg("-C").arg(directory.path()).args(arguments).status().unwrap().success());
    };
    git(&["init", "-q", "main"]);
    let commit = ["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "first"];
    git(&[&["-C", "main"][..], &commit].concat());
    git(&["-C", "main", "worktree", "add", "-q", "-b", "side", side.to_str().unwrap()]);
    for (first, second) in [(&main, &side), (&side, &main)] {
        let served = Vfs::open(options(first, false)).unwrap();
        let refused = Vfs::open(options(second, false)).err().unwrap();
        assert_eq!(refused.kind(), Kind::Conflict);
        for part in
            [first.to_str().unwrap(), second.to_str().unwrap(), &std::process::id().to_string(), "stop that process"]
        {
            assert!(refused.message().contains(part), "{part}: {refused}");
        }
        served.apply(&eve(), Change::put(at("a.md"), "one")).unwrap();
        served.close().unwrap();
        // Let go of by closing, though the first is still there.
        Vfs::open(options(second, false)).unwrap().close().unwrap();
        drop(served);
    }
    git(&["-C", "main", "fsck", "--strict"]);
}

#[test]
fn a_root_with_lost_early_history_starts_no_new_one() {
    let space = TestSpace::new();
    let points = svcfs_store::FailPoints::new(space.directory.path());
    points.pause(FailPoint::CheckpointFlush);
    space.put("a.md", "one");
    let copy = crashed(&space);
    points.clear(FailPoint::CheckpointFlush);
    let (git, aside) = (copy.path().join(".git"), copy.path().join("aside"));
    fs::rename(&git, &aside).unwrap();
    for _ in 0..2 {
        let Err(fault) = Vfs::open(options(copy.path(), false)) else { panic!("opened it") };
        assert!(fault.message().contains("the history of its pages, is missing"), "{fault}");
        assert!(!git.exists());
    }
    fs::rename(&aside, &git).unwrap();
    assert_eq!(reopened(copy).text("a.md"), "one");
}

#[test]
fn a_detached_head_moves_along_and_no_branch_does() {
    let mut space = TestSpace::new();
    space.put("a.md", "one");
    space.vfs.close().unwrap();
    space.git(&["checkout", "-q", "--detach"]);
    space.vfs = Vfs::open(options(space.directory.path(), false)).unwrap();
    space.put("a.md", "two");
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "two");
    assert_eq!(space.git(&["show", "main:a.md"]), "one");
}

#[test]
fn history_with_non_utf8_names_is_read_and_preserved() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let odd = root.join("d").join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    fs::create_dir_all(&odd).unwrap();
    fs::write(odd.join("x.md"), "odd").unwrap();
    fs::write(root.join("d/a.md"), "one").unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "old", "--date=@-5000000000"],
    ] {
        assert!(Command::new("git").arg("-C").arg(root).args(arguments).status().unwrap().success());
    }
    let vfs = Vfs::open(options(root, false)).unwrap();
    let space = TestSpace { directory, vfs };
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    assert_eq!(space.text("e/a.md"), "one");
    assert_eq!(space.vfs.recorded_etag(&at("e/a.md")).unwrap(), Some(ETag::from_content(b"one")));
    assert_eq!(reopened(crashed(&space)).text("e/a.md"), "one");
}

#[test]
fn an_edit_in_a_renamed_directory_is_recorded_at_its_new_path() {
    let directory = tempfile::tempdir().unwrap();
    let vfs = Vfs::open(options(directory.path(), true)).unwrap();
    let space = TestSpace { directory, vfs };
    space.put("d/x/a.md", "one");
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    space.vfs.apply(&eve(), Change::MakeDir { path: at("d") }).unwrap();
    space.wait_until("the new name is watched", |space| {
        fs::write(space.directory.path().join("e/x/a.md"), "behind").unwrap();
        space.vfs.recorded_etag(&at("e/x/a.md")).unwrap() == Some(ETag::from_content(b"behind"))
    });
}

#[test]
fn a_set_rejected_by_a_path_conflict_writes_no_scratch_file() {
    let space = TestSpace::new();
    space.put("e", "file");
    let set = vec![Change::put(at("d/c~"), "scratch"), Change::put(at("e/a.md"), "below a file")];
    assert_eq!(space.vfs.apply(&eve(), ChangeSet::new(set)).unwrap_err().kind(), Kind::NotDirectory);
    assert_eq!(space.vfs.stat(Protocol::Http, &at("d/c~")).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_concurrent_external_commit_is_below_the_own_one_everywhere() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.wait_until("a checkpoint is made", |space| {
        space.vfs.core.log.last_checkpoint().unwrap().0 == space.vfs.last_seq()
    });
    // Between the look at the branch and its advance.
    let points = FailPoints::new(space.directory.path());
    let (root, is_done) = (space.directory.path().to_owned(), std::sync::atomic::AtomicBool::new(false));
    points.set_callback(FailPoint::StageCommit, move || {
        if !is_done.swap(true, std::sync::atomic::Ordering::SeqCst) {
            let by = ["-c", "user.name=Ann", "-c", "user.email=a@x"];
            git_in(&root, &[&by[..], &["commit", "-q", "--allow-empty", "-m", "by hand"]].concat());
        }
    });
    let applied = space.put("b.md", "two");
    points.clear(FailPoint::StageCommit);
    space.put("c.md", "three");
    assert_eq!(space.log(), ["eve|eve: c.md", "eve|eve: b.md", "Ann|by hand", "eve|eve: a.md"]);
    assert_eq!(applied.commit.unwrap().to_string(), space.git(&["rev-parse", "HEAD^"]).trim());
    let seqs: Vec<u64> = space.vfs.feed().events_after(Seq(0), 10).unwrap().iter().map(|event| event.seq.0).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
    let again = reopened(crashed(&space));
    assert_eq!(again.log(), space.log());
    assert_eq!(again.vfs.feed().events_after(Seq(0), 10).unwrap().len(), 4);
    assert_eq!(again.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "a.md\nb.md\nc.md\n");
}

fn repository(attributes: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(".gitattributes"), attributes).unwrap();
    fs::write(directory.path().join("a.md"), "one\r\ntwo\r\n").unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "theirs"],
    ] {
        git_in(directory.path(), arguments);
    }
    directory
}

fn git_in(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_repository_with_line_end_conversion_opens_without_changes() {
    let directory = repository("* text=auto eol=crlf\n");
    let vfs = Vfs::open(options(directory.path(), false)).unwrap();
    let mut space = TestSpace { directory, vfs };
    space.put("b.md", "b\r\n");
    space.reopen();
    assert_eq!(space.log(), ["eve|eve: b.md", "Ann|theirs"]);
    assert_eq!(space.text("a.md"), "one\r\ntwo\r\n");
}

#[test]
fn a_nested_repository_is_not_touched_by_opening() {
    let other = repository("");
    let directory = repository("");
    let source = other.path().to_str().unwrap();
    git_in(directory.path(), &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "sub"]);
    git_in(directory.path(), &["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "sub"]);
    let vfs = Vfs::open(options(directory.path(), true)).unwrap();
    let mut space = TestSpace { directory, vfs };
    fs::write(space.directory.path().join("sub/new.md"), "inside").unwrap();
    fs::write(space.directory.path().join("new.md"), "outside").unwrap();
    space.wait_until("the edit is recorded", |space| space.vfs.recorded_etag(&at("new.md")).unwrap().is_some());
    let _ = space.vfs.apply(&eve(), Change::put(at("sub/b.md"), "git has no place for it"));
    space.reopen();
    assert_eq!(space.git(&["ls-tree", "HEAD", "sub"]).split(' ').next(), Some("160000"));
    space.put("b.md", "still works");
}

#[test]
fn many_names_invalid_in_git_are_omitted_together() {
    let mut space = TestSpace::new();
    for number in 0..300 {
        let below = space.directory.path().join(format!("d{number}"));
        fs::create_dir(&below).unwrap();
        fs::write(below.join("git~1"), "refused").unwrap();
        fs::write(below.join("a.md"), format!("{number}")).unwrap();
    }
    let started = Instant::now();
    space.reopen();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(paths_in_head(&space).len(), 300);
}

#[test]
fn the_server_state_directory_cannot_be_moved_or_removed() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.put("d/b.md", "two");
    for protocol in [Protocol::Http, Protocol::Mcp, Protocol::Fuse, Protocol::Cli] {
        let caller = Caller::new(protocol);
        let changes = [
            Change::rename(at(".svc"), at("x")),
            Change::rename(at("d"), at(".svc")),
            Change::Remove { path: at(".svc"), precondition: Precondition::Any },
        ];
        for change in changes {
            let fault = space.vfs.apply(&caller, change).unwrap_err();
            assert!(fault.message().contains("cannot be moved or removed"), "{protocol:?}: {fault}");
        }
    }
    assert!(space.directory.path().join(".svc/state/log.db").is_file());
    assert!(!space.directory.path().join("x").exists());
}
