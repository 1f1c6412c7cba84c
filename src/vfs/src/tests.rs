//! The write path on a real disk with real git and SQLite.
#![expect(clippy::disallowed_methods, reason = "edits behind the server are made as a person makes them")]

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::*;
use tempfile::TempDir;

use super::*;

mod authors;
mod branches;
mod dependent;
mod directories;
mod disks;
mod early;
mod edited;
mod faults;
mod gathered;
mod git_rules;
mod hostile;
mod leases;
mod model;
mod others;
mod racing;
mod rejected;
mod seat;
pub(crate) mod space;
mod stop;
mod strategies;
mod uploads;

pub(crate) use space::{TestSpace, at, eve, options};

/// Shows: DUR-1
#[test]
fn a_write_is_read_back_and_is_one_commit_by_its_author() {
    let space = TestSpace::new();
    let applied = space.put("notes/a.md", "one\n");
    assert_eq!(space.text("notes/a.md"), "one\n");
    assert_eq!(space.log(), ["eve|eve: notes/a.md"]);
    assert_eq!(space.git(&["rev-parse", "HEAD"]).trim(), applied.commit.unwrap().to_string());
    assert_eq!(space.git(&["show", "HEAD:notes/a.md"]), "one\n");
    assert_eq!(applied.files[0].etag.unwrap().to_string(), space.git(&["rev-parse", "HEAD:notes/a.md"]).trim());
}

/// Shows: DUR-4
#[test]
fn the_same_content_again_is_no_new_version() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let again = space.put("a.md", "one\n");
    assert_eq!(again.commit, None);
    assert_eq!(space.log().len(), 1);
}

/// Shows: DUR-3
#[test]
fn a_change_set_is_one_commit_and_atomic() {
    let space = TestSpace::new();
    let good = vec![Change::put(at("a.md"), "a"), Change::put(at("b/c.md"), "c")];
    space.vfs.apply(&eve(), ChangeSet::new(good).with_message("both")).unwrap();
    assert_eq!(space.log(), ["eve|both"]);
    let bad = vec![Change::put(at("d.md"), "d"), Change::put(at("e.md"), "refuse")];
    let fault = space.vfs.apply(&eve(), ChangeSet::new(bad)).unwrap_err();
    assert_eq!(fault.kind(), Kind::Rejected);
    assert_eq!(space.vfs.stat(Protocol::Http, &at("d.md")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(space.log().len(), 1);
}

#[test]
fn a_gate_may_rewrite_what_is_stored() {
    let space = TestSpace::new();
    let applied = space.put("a.md", "stamp me");
    assert_eq!(space.text("a.md"), "stamped\n");
    assert_eq!(applied.files[0].etag, Some(ETag::from_content(b"stamped\n")));
}

/// Shows: COND-2
#[test]
fn conditions_are_held_against_what_is_there_now() {
    let space = TestSpace::new();
    let etag = space.put("a.md", "one").files[0].etag.unwrap();
    let put = |path: &str, expect| space.vfs.apply(&eve(), Change::put(at(path), "two").with_precondition(expect));
    let stale = ETag::from_content(b"stale");
    assert_eq!(put("a.md", Precondition::OneOf(vec![stale])).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(put("missing.md", Precondition::OneOf(vec![etag])).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(put("missing.md", Precondition::Present).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(put("a.md", Precondition::Absent).unwrap_err().kind(), Kind::PreconditionFailed);
    assert_eq!(space.log().len(), 1);
    put("a.md", Precondition::OneOf(vec![stale, etag])).unwrap();
    put("new.md", Precondition::Absent).unwrap();
    assert_eq!(space.log().len(), 3);
}

#[test]
fn a_rename_is_one_commit_and_keeps_the_content() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at("deep/er/b.md"))).unwrap();
    assert_eq!(space.text("deep/er/b.md"), "one");
    assert_eq!(space.vfs.stat(Protocol::Http, &at("a.md")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(space.log()[0], "eve|eve: rename a.md → deep/er/b.md");
    assert_eq!(space.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "deep/er/b.md\n");
}

#[test]
fn a_directory_moves_atomically_in_one_commit() {
    let space = TestSpace::new();
    for n in 0..20 {
        space.put(&format!("d/{}/{n}.md", n % 3), &format!("page {n}"));
    }
    let before = space.log().len();
    space.vfs.apply(&eve(), Change::rename(at("d"), at("x/y"))).unwrap();
    assert_eq!(space.log().len(), before + 1);
    assert_eq!(space.text("x/y/2/5.md"), "page 5");
    assert_eq!(
        space.git(&["ls-tree", "-r", "--name-only", "HEAD"]).lines().filter(|path| path.starts_with("x/y/")).count(),
        20
    );
    let fault = space.vfs.apply(&eve(), Change::rename(at("x"), at("x/y/z"))).unwrap_err();
    assert_eq!(fault.kind(), Kind::Invalid);
}

#[test]
fn a_file_may_give_way_to_a_directory_of_its_name_and_back() {
    let space = TestSpace::new();
    space.put("x", "file");
    assert_eq!(space.vfs.apply(&eve(), Change::put(at("x/y.md"), "y")).unwrap_err().kind(), Kind::NotDirectory);
    space.vfs.apply(&eve(), Change::remove(at("x"))).unwrap();
    space.put("x/y.md", "y");
    assert_eq!(space.vfs.apply(&eve(), Change::put(at("x"), "file")).unwrap_err().kind(), Kind::IsDirectory);
    space.vfs.apply(&eve(), Change::remove(at("x/y.md"))).unwrap();
    space.vfs.apply(&eve(), Change::RemoveDir { path: at("x") }).unwrap();
    space.put("x", "file again");
    assert_eq!(space.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "x\n");
}

/// Shows: PATH-1
#[test]
fn places_of_the_server_are_invisible_and_unwritable() {
    let space = TestSpace::new();
    for path in [".git/config", ".GIT/config", ".svc/state/log.db", ".svc/config.toml"] {
        let fault = space.vfs.apply(&eve(), Change::put(at(path), "x")).unwrap_err();
        assert_eq!(fault.kind(), Kind::Invalid, "{path}");
        assert!(fault.message().contains("path denied"), "{fault}");
        assert_eq!(space.vfs.read(Protocol::Http, &at(path)).unwrap_err().kind(), Kind::NotFound, "{path}");
    }
    assert!(
        space.vfs.list(Protocol::Http, &TreePath::root()).unwrap().iter().all(|entry| entry.path.as_str() != ".git")
    );
    assert_eq!(space.vfs.apply(&eve(), Change::put(TreePath::root(), "x")).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn a_name_git_refuses_is_refused_and_changes_nothing() {
    let space = TestSpace::new();
    let fault = space.vfs.apply(&eve(), Change::put(at("a/git~1"), "x")).unwrap_err();
    assert_eq!(fault.kind(), Kind::Invalid, "{fault:?}");
    assert_eq!(space.vfs.stat(Protocol::Http, &at("a/git~1")).unwrap_err().kind(), Kind::NotFound);
    space.put("ok.md", "still works");
}

/// Shows: PATH-2
#[test]
fn scratch_files_are_stored_and_never_versioned() {
    let space = TestSpace::new();
    space.put("a.md~", "backup");
    assert_eq!(space.text("a.md~"), "backup");
    space.put("a.md", "page");
    space.vfs.apply(&eve(), Change::rename(at("a.md~"), at("b.md~"))).unwrap();
    assert_eq!(space.log(), ["eve|eve: a.md"]);
    space.vfs.apply(&eve(), Change::rename(at("b.md~"), at("a.md"))).unwrap();
    assert_eq!(space.text("a.md"), "backup");
    assert_eq!(space.log(), ["eve|eve: a.md", "eve|eve: a.md"]);
    assert_eq!(space.vfs.stat(Protocol::Http, &at("b.md~")).unwrap_err().kind(), Kind::NotFound);
}

/// Shows: MNT-5
#[test]
fn a_backup_rename_followed_by_a_new_file_is_one_version() {
    let space = TestSpace::new();
    space.put("a.md", "old");
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at("a.md~"))).unwrap();
    space.put("a.md", "new");
    space.vfs.apply(&eve(), Change::remove(at("a.md~"))).unwrap();
    assert_eq!(space.log().len(), 2);
    assert_eq!(space.text("a.md"), "new");
    let changes = space.vfs.changes(None, 50).unwrap();
    assert!(changes.changes.iter().all(|change| change.action == PathAction::Write));
}

#[test]
fn a_page_renamed_to_a_scratch_name_is_removed_from_history() {
    let space = TestSpace::new();
    space.put("a.md", "old");
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at("a.md~"))).unwrap();
    space.wait_until("the removal is recorded", |space| space.log()[0] == "eve|delete: a.md");
    assert_eq!(space.text("a.md~"), "old");
}

#[test]
fn a_page_back_from_a_scratch_name_is_in_the_git_index_again() {
    let space = TestSpace::new();
    space.put("a.md", "old");
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at("a.md~"))).unwrap();
    space.put("b.md", "b");
    space.wait_until("git's index is written", |space| space.git(&["ls-files"]).contains("b.md"));
    space.vfs.apply(&eve(), Change::rename(at("a.md~"), at("a.md"))).unwrap();
    // Not `git status`, which writes the index itself.
    space.wait_until("git's index agrees", |space| space.git(&["diff", "--cached", "--name-only"]).is_empty());
    assert_eq!(space.log().len(), 2);
}

/// Shows: DUR-2
#[test]
fn a_soon_write_is_visible_immediately_and_committed_shortly() {
    let space = TestSpace::new();
    let set = ChangeSet::from(Change::put(at("d/a.md"), "soon")).soon();
    space.vfs.apply(&eve(), set).unwrap();
    assert_eq!(space.text("d/a.md"), "soon");
    assert_eq!(space.vfs.stat(Protocol::Http, &at("d/a.md")).unwrap().size, 4);
    assert_eq!(space.vfs.list(Protocol::Http, &at("d")).unwrap().len(), 1);
    assert_eq!(space.vfs.versions(&at("d/a.md")).unwrap().len(), 1);
}

#[test]
fn versions_diff_and_blame_tell_who_wrote_what() {
    let space = TestSpace::new();
    let one = space.put("a.md", "first\nsecond\n").commit.unwrap().to_string();
    let adam = Caller::new(Protocol::Mcp).with_actor(Actor::new("adam"));
    let two = space.vfs.apply(&adam, Change::put(at("a.md"), "first\nchanged\n")).unwrap().commit.unwrap().to_string();
    let versions = space.vfs.versions(&at("a.md")).unwrap();
    assert_eq!(versions.iter().map(|v| v.author.as_str()).collect::<Vec<_>>(), ["adam", "eve"]);
    assert_eq!(space.vfs.read_version(&at("a.md"), &one[..7]).unwrap(), "first\nsecond\n");
    let diff = space.vfs.diff(&[crate::NamePeriod::always(at("a.md"))], &one, &two).unwrap();
    assert!(diff.contains("-second\n+changed\n"), "{diff}");
    let blame = space.vfs.blame(&at("a.md")).unwrap();
    assert_eq!(
        blame.iter().map(|l| (l.content.as_str(), l.author.as_str())).collect::<Vec<_>>(),
        [("first", "eve"), ("changed", "adam")]
    );
    assert_eq!(space.vfs.read_version(&at("a.md"), "dead").unwrap_err().kind(), Kind::NotFound);
}

/// Shows: HTTP-8
#[test]
fn changes_page_forward_without_a_gap() {
    let space = TestSpace::new();
    for n in 0..7 {
        space.put(&format!("{n}.md"), "x");
    }
    space.vfs.apply(&eve(), Change::rename(at("0.md"), at("z.md"))).unwrap();
    let all = space.vfs.changes(None, 500).unwrap();
    assert_eq!(all.changes.len(), 9);
    let first = all.changes[0].seq.to_string();
    let (mut since, mut seen) = (first, 1);
    loop {
        let page = space.vfs.changes(Some(&since), 3).unwrap();
        if page.changes.is_empty() {
            break;
        }
        seen += page.changes.len();
        since = page.last_seq;
    }
    assert_eq!(seen, 9);
    assert_eq!(space.vfs.changes(Some("zzzz"), 3).unwrap_err().kind(), Kind::Invalid);
}

/// Shows: EDIT-1
#[test]
fn what_was_edited_while_closed_is_adopted_at_opening() {
    let mut space = TestSpace::new();
    space.put("a.md", "one");
    space.put("b.md", "two");
    space.vfs.close().unwrap();
    fs::write(space.directory.path().join("a.md"), "edited").unwrap();
    fs::remove_file(space.directory.path().join("b.md")).unwrap();
    fs::create_dir(space.directory.path().join("new")).unwrap();
    fs::write(space.directory.path().join("new/c.md"), "three").unwrap();
    space.vfs = Vfs::open(options(space.directory.path(), false)).unwrap();
    assert_eq!(space.log()[0], "fswatch|fswatch: 3 files");
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "edited");
    assert_eq!(space.vfs.versions(&at("new/c.md")).unwrap().len(), 1);
}

/// Shows: EDIT-2
#[test]
fn an_external_edit_and_the_write_over_it_are_both_versions() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    fs::write(space.directory.path().join("a.md"), "behind").unwrap();
    space.put("a.md", "two");
    assert_eq!(space.log(), ["eve|eve: a.md", "fswatch|fswatch: a.md", "eve|eve: a.md"]);
    assert_eq!(space.git(&["show", "HEAD^:a.md"]), "behind");
}

#[test]
fn an_existing_repository_is_adopted_with_its_history() {
    let directory = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let status = Command::new("git").arg("-C").arg(directory.path()).args(arguments).output().unwrap();
        assert!(status.status.success(), "{arguments:?}");
    };
    git(&["init", "-q", "-b", "trunk"]);
    for text in ["one", "two"] {
        fs::write(directory.path().join("a.md"), text).unwrap();
        git(&["add", "."]);
        git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-qm", text]);
    }
    let vfs = Vfs::open(options(directory.path(), false)).unwrap();
    let space = TestSpace { directory, vfs };
    let versions = space.vfs.versions(&at("a.md")).unwrap();
    assert_eq!(
        versions.iter().map(|v| (v.author.as_str(), v.message.as_str())).collect::<Vec<_>>(),
        [("Ann", "two"), ("Ann", "one")]
    );
    space.put("a.md", "three");
    assert_eq!(space.git(&["rev-parse", "--abbrev-ref", "HEAD"]).trim(), "trunk");
    assert_eq!(space.log().len(), 3);
}

/// Shows: EDIT-7
#[test]
fn an_external_commit_is_recorded_and_own_ones_come_after_it() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "by hand"]);
    space.put("b.md", "two");
    assert_eq!(space.log(), ["eve|eve: b.md", "Ann|by hand", "eve|eve: a.md"]);
}

#[test]
fn git_status_is_clean_and_fsck_content_after_a_checkpoint() {
    let mut space = TestSpace::new();
    for n in 0..30 {
        space.put(&format!("d{}/{n}.md", n % 4), &format!("page {n}\n"));
    }
    space.vfs.apply(&eve(), Change::symlink(at("link"), "d1/1.md")).unwrap();
    space.vfs.apply(&eve(), Change::remove(at("d0/0.md"))).unwrap();
    space.put("a.md~", "scratch");
    space.reopen();
    assert_eq!(space.git(&["status", "--porcelain"]), "");
    space.git(&["fsck", "--strict"]);
    assert_eq!(space.log().len(), 32);
    assert_eq!(space.text("link"), "page 1\n");
}

#[test]
fn a_second_server_learns_which_process_has_the_root() {
    let space = TestSpace::new();
    let Err(fault) = Vfs::open(options(space.directory.path(), false)) else { panic!("opened twice") };
    assert_eq!(fault.kind(), Kind::Conflict);
    assert!(fault.message().contains(&std::process::id().to_string()), "{fault}");
}

#[test]
fn a_root_that_is_a_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("f"), "x").unwrap();
    let Err(fault) = Vfs::open(options(&directory.path().join("f"), false)) else { panic!("opened a file") };
    assert!(fault.message().contains("is a file"), "{fault}");
}

/// Shows: PATH-3
#[test]
fn links_never_lead_a_reader_or_writer_out_of_the_root() {
    let space = TestSpace::new();
    let root = space.directory.path();
    std::os::unix::fs::symlink("/etc/hostname", root.join("abs")).unwrap();
    std::os::unix::fs::symlink("../..", root.join("up")).unwrap();
    fs::create_dir(root.join("real")).unwrap();
    std::os::unix::fs::symlink("real", root.join("dir")).unwrap();
    assert_eq!(space.vfs.read(Protocol::Http, &at("abs")).unwrap_err().kind(), Kind::Invalid);
    assert_eq!(space.vfs.read(Protocol::Http, &at("up/etc/hostname")).unwrap_err().kind(), Kind::Invalid);
    assert!(space.vfs.apply(&eve(), Change::put(at("up/x.md"), "x")).is_err());
    assert!(space.vfs.apply(&eve(), Change::put(at("dir/x.md"), "x")).is_err());
    assert!(!root.parent().unwrap().join("x.md").exists());
}

/// Shows: HTTP-3
#[test]
fn a_page_is_read_and_written_through_a_link_under_one_etag() {
    let space = TestSpace::new();
    space.put("real/a.md", "one");
    space.vfs.apply(&eve(), Change::symlink(at("link.md"), "real/a.md")).unwrap();
    space.vfs.apply(&eve(), Change::symlink(at("loop"), "loop")).unwrap();
    let seen = space.vfs.read(Protocol::Http, &at("link.md")).unwrap().etag;
    let change = Change::put(at("link.md"), "two").with_precondition(Precondition::OneOf(vec![seen]));
    assert_eq!(space.vfs.apply(&eve(), change).unwrap().files[0].path, at("real/a.md"));
    assert_eq!(space.text("real/a.md"), "two");
    assert_eq!(space.vfs.stat(Protocol::Http, &at("link.md")).unwrap().kind, EntryKind::Symlink);
    assert_eq!(space.vfs.apply(&eve(), Change::put(at("loop"), "x")).unwrap_err().kind(), Kind::Invalid);
    fs::create_dir(space.directory.path().join("d")).unwrap();
    space.vfs.apply(&eve(), Change::symlink(at("d/up"), "../real")).unwrap();
    assert_eq!(space.text("d/up/a.md"), "two");
    assert_eq!(space.vfs.list(Protocol::Http, &at("d/up")).unwrap()[0].path, at("d/up/a.md"));
}

/// Shows: DUR-1
#[test]
fn concurrent_writers_each_get_their_own_commit() {
    let space = TestSpace::new();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let vfs = &space.vfs;
            scope.spawn(move || {
                let caller = Caller::new(Protocol::Http).with_actor(Actor::new(&format!("w{writer}")));
                for n in 0..20 {
                    vfs.apply(&caller, Change::put(at(&format!("d{writer}/{n}.md")), format!("{writer} {n}"))).unwrap();
                }
            });
        }
    });
    let log = space.log();
    assert_eq!(log.len(), 160);
    for writer in 0..8 {
        assert_eq!(log.iter().filter(|line| line.starts_with(&format!("w{writer}|"))).count(), 20);
    }
    space.git(&["fsck", "--strict"]);
}

/// Shows: COND-1
#[test]
fn compare_and_swap_loses_no_update() {
    let space = TestSpace::new();
    space.put("n", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut done = 0;
                while done < 25 {
                    let file = space.vfs.read(Protocol::Http, &at("n")).unwrap();
                    let number: u32 = std::str::from_utf8(&file.content).unwrap().parse().unwrap();
                    let change = Change::put(at("n"), (number + 1).to_string())
                        .with_precondition(Precondition::OneOf(vec![file.etag]));
                    done += u32::from(space.vfs.apply(&eve(), change).is_ok());
                }
            });
        }
    });
    assert_eq!(space.text("n"), "100");
    assert_eq!(space.log().len(), 101);
}

/// Shows: EDIT-1
#[test]
fn edits_behind_a_running_server_are_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let vfs = Vfs::open(options(directory.path(), true)).unwrap();
    let space = TestSpace { directory, vfs };
    space.put("a.md", "one");
    fs::write(space.directory.path().join("a.md"), "behind").unwrap();
    fs::create_dir_all(space.directory.path().join("x/y")).unwrap();
    fs::write(space.directory.path().join("x/y/z.md"), "new").unwrap();
    space.wait_until("both are in history", |space| {
        space.vfs.recorded_etag(&at("a.md")).unwrap() == Some(ETag::from_content(b"behind"))
            && space.vfs.recorded_etag(&at("x/y/z.md")).unwrap() == Some(ETag::from_content(b"new"))
    });
    fs::remove_dir_all(space.directory.path().join("x")).unwrap();
    space.wait_until("the removal is in history", |space| space.vfs.recorded_etag(&at("x/y/z.md")).unwrap().is_none());
    assert!(space.log().iter().all(|line| line.starts_with("eve|") || line.starts_with("fswatch|")));
}
