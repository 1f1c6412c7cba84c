//! Edits behind the server that come between the acceptance of a change and its place in the tree.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use svcfs_store::{FailPoint, FailPoints};

use super::stop::Stop;
use super::*;

/// A way to edit a file, and what a reader finds there afterwards; the file held `one`.
struct Edit {
    how: &'static str,
    go: fn(&Path),
    left: &'static str,
}

const EDITS: [Edit; 4] = [
    Edit { how: "in place", go: |file| fs::write(file, "by hand").unwrap(), left: "by hand" },
    Edit { how: "by its name", go: replaced, left: "by hand" },
    Edit { how: "with much text", go: |file| fs::write(file, MUCH).unwrap(), left: MUCH },
    Edit { how: "by a link", go: linked, left: "elsewhere.md" },
];
/// As long as what was there.
const MUCH: &str = "two";

fn replaced(file: &Path) {
    let beside = file.with_extension("new~");
    fs::write(&beside, "by hand").unwrap();
    fs::rename(beside, file).unwrap();
}

fn linked(file: &Path) {
    fs::remove_file(file).unwrap();
    symlink("elsewhere.md", file).unwrap();
}

/// Moments between the acceptance of a change and its place in the tree.
const MOMENTS: [FailPoint; 3] = [FailPoint::LogWrite, FailPoint::LogFlushed, FailPoint::TreeRename];

/// Does a change, and edits `a.md` behind it the first time that the change comes by a point.
fn edited_meanwhile(space: &TestSpace, point: FailPoint, edit: fn(&Path), change: Change) {
    let points = FailPoints::new(space.directory.path());
    let (file, is_done) = (space.directory.path().join("a.md"), AtomicBool::new(false));
    points.set_callback(point, move || {
        if !is_done.swap(true, Ordering::SeqCst) {
            edit(&file);
        }
    });
    space.vfs.apply(&eve(), change).unwrap();
    points.clear(point);
    space.vfs.wait_applied().unwrap();
}

/// Both are versions, the edit on top, and everybody agrees.
fn assert_both(space: &TestSpace, when: &str, (ours, edit): (Option<&str>, &str)) {
    let content = |revision: &str| space.git(&["show", &format!("{revision}:a.md")]);
    assert_eq!(space.log()[0], "fswatch|fswatch: a.md", "{when}");
    assert_eq!(content("HEAD"), edit, "{when}");
    match ours {
        Some(ours) => assert_eq!(content("HEAD~1"), ours, "{when}"),
        None => assert_eq!(space.git(&["ls-tree", "HEAD~1", "a.md"]), "", "{when}"),
    }
    assert_eq!(space.vfs.core.read_worktree(&at("a.md")).unwrap().unwrap().content, edit, "{when}");
    assert_eq!(space.vfs.rescan().unwrap(), 0, "{when}");
    let is_tidy = |space: &TestSpace| svcfs_store::preflight::leftover_temp_files(space.directory.path()).is_empty();
    space.wait_until(&format!("{when}: temporary files are gone"), is_tidy);
}

/// Shows: EDIT-3
#[test]
fn an_edit_between_acceptance_and_install_stays_as_a_version() {
    for point in MOMENTS {
        for Edit { how, go, left } in EDITS {
            let space = TestSpace::new();
            space.put("a.md", "one");
            edited_meanwhile(&space, point, go, Change::put(at("a.md"), "new text"));
            assert_both(&space, &format!("{how} at `{}`", point.name()), (Some("new text"), left));
        }
    }
}

/// Shows: EDIT-3
#[test]
fn an_edit_between_acceptance_and_removal_stays_as_a_version() {
    for point in [FailPoint::LogWrite, FailPoint::LogFlushed, FailPoint::TreeRemove] {
        for Edit { how, go, left } in EDITS {
            let space = TestSpace::new();
            space.put("a.md", "one");
            edited_meanwhile(&space, point, go, Change::remove(at("a.md")));
            assert_both(&space, &format!("{how} at `{}`", point.name()), (None, left));
        }
    }
}

/// Shows: EDIT-3
#[test]
fn a_foreign_file_at_the_path_of_an_accepted_one_stays() {
    for point in MOMENTS {
        let space = TestSpace::new();
        edited_meanwhile(
            &space,
            point,
            |file| fs::write(file, "by hand").unwrap(),
            Change::put(at("a.md"), "new text"),
        );
        assert_both(&space, &format!("at `{}`", point.name()), (Some("new text"), "by hand"));
    }
}

#[test]
fn a_removed_or_touched_file_is_written_by_the_pending_change() {
    let touched = |file: &Path| {
        let mut permissions = fs::metadata(file).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
        fs::set_permissions(file, permissions).unwrap();
        fs::write(file, "one").unwrap();
    };
    for point in MOMENTS {
        for edit in [touched, |file: &Path| fs::remove_file(file).unwrap()] {
            let space = TestSpace::new();
            space.put("a.md", "one");
            edited_meanwhile(&space, point, edit, Change::put(at("a.md"), "new text"));
            assert_eq!(fs::read_to_string(space.directory.path().join("a.md")).unwrap(), "new text");
            assert_eq!(space.log(), ["eve|eve: a.md", "eve|eve: a.md"]);
        }
    }
}

/// What is accepted on top of an accepted change knows only that one.
#[test]
fn an_edit_under_several_accepted_changes_stays_on_top_of_all() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let points = FailPoints::new(space.directory.path());
    let stop = Stop::at(&points, FailPoint::LogFlushed);
    std::thread::scope(|scope| {
        scope.spawn(|| space.put("b.md", "b"));
        stop.wait();
        for text in ["two", "three"] {
            space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("a.md"), text)).soon()).unwrap();
        }
        stop.go_on();
        stop.wait();
        // Both are in the log, and neither is in the tree.
        fs::write(space.directory.path().join("a.md"), "by hand").unwrap();
        points.clear(FailPoint::LogFlushed);
        stop.go_on();
    });
    space.vfs.wait_applied().unwrap();
    let content = |revision: &str| space.git(&["show", &format!("{revision}:a.md")]);
    assert_eq!(["HEAD", "HEAD~1", "HEAD~2", "HEAD~4"].map(content), ["by hand", "three", "two", "one"]);
    assert_eq!(space.text("a.md"), "by hand");
}
