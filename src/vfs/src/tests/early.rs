//! Pages of a set of many, written before the set is logged.

use std::path::Path;

use svcfs_store::{FailPoint, FailPoints, StatePaths};

use super::*;

const MANY: usize = 200;

fn many(text: &str) -> ChangeSet {
    let change = |number: usize| Change::put(at(&format!("d/{number}.md")), format!("{text} {number}\n"));
    ChangeSet { changes: (0..MANY).map(change).collect(), ..ChangeSet::from(Change::put(at("d/0.md"), "")) }
}

/// Files under names of our own that have a content.
fn written(root: &Path) -> usize {
    let mut directories = vec![StatePaths::new(root).temp_directory()];
    let mut count = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            // They come and go.
            match entry.metadata() {
                Ok(stat) if stat.is_dir() => directories.push(entry.path()),
                Ok(stat) if stat.len() > 0 => count += 1,
                Ok(_) | Err(_) => {}
            }
        }
    }
    count
}

fn assert_all(space: &TestSpace, text: &str) {
    for number in 0..MANY {
        assert_eq!(space.text(&format!("d/{number}.md")), format!("{text} {number}\n"));
    }
    space.wait_until("nothing is left", |space| written(space.directory.path()) == 0);
}

#[test]
fn the_pages_of_a_set_of_many_are_written_while_it_is_logged() {
    let space = TestSpace::new();
    let root = space.directory.path().to_owned();
    let points = FailPoints::new(&root);
    points.set_callback(FailPoint::LogFlushed, move || {
        let deadline = Instant::now() + Duration::from_secs(20);
        while written(&root) < MANY {
            assert!(Instant::now() < deadline, "{} of {MANY} are written", written(&root));
            std::thread::yield_now();
        }
    });
    space.vfs.apply(&eve(), many("one")).unwrap();
    points.clear(FailPoint::LogFlushed);
    assert_all(&space, "one");
    space.vfs.apply(&eve(), many("two")).unwrap();
    assert_all(&space, "two");
    space.wait_until("git's index has them", |space| space.git(&["status", "--porcelain"]).is_empty());
    assert_eq!(space.log().len(), 2);
}

#[test]
fn what_was_written_for_a_set_that_is_refused_goes() {
    let space = TestSpace::new();
    space.vfs.apply(&eve(), many("one")).unwrap();
    let points = FailPoints::new(space.directory.path());
    points.inject_error(FailPoint::LogFlush, 28);
    space.vfs.apply(&eve(), many("two")).unwrap_err();
    points.clear(FailPoint::LogFlush);
    assert_all(&space, "one");
    assert_eq!(space.log().len(), 1);
}

#[test]
fn an_edit_during_logging_of_a_large_set_is_not_overwritten() {
    let space = TestSpace::new();
    space.vfs.apply(&eve(), many("one")).unwrap();
    let points = FailPoints::new(space.directory.path());
    let edited = ["d/0.md", "d/199.md"].map(|path| space.directory.path().join(path));
    points.set_callback(FailPoint::LogFlushed, move || {
        edited.iter().for_each(|path| fs::write(path, "by hand\n").unwrap());
    });
    space.vfs.apply(&eve(), many("two")).unwrap();
    points.clear(FailPoint::LogFlushed);
    space.vfs.wait_applied().unwrap();
    for path in ["d/0.md", "d/199.md"] {
        assert_eq!(space.git(&["show", &format!("HEAD:{path}")]), "by hand\n");
        assert_eq!(space.git(&["show", &format!("HEAD~:{path}")]), format!("two {}\n", &path[2..path.len() - 3]));
    }
    assert_eq!(space.text("d/100.md"), "two 100\n");
}

#[test]
fn closing_leaves_no_temporary_files_and_the_next_opening_works() {
    let mut space = TestSpace::new();
    for round in 0..20 {
        space.vfs.apply(&eve(), many(&format!("{round}"))).unwrap();
        space.put("a.md", &format!("{round}"));
        let closed = Arc::clone(&space.vfs);
        closed.close().unwrap();
        let left = fs::read_dir(StatePaths::new(space.directory.path()).temp_directory()).unwrap();
        assert_eq!(left.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), [""; 0]);
        space.vfs = Vfs::open(options(space.directory.path(), false)).unwrap();
        space.put("a.md", &format!("{round} again"));
        drop(closed);
        space.vfs.apply(&eve(), many(&format!("{round} again"))).unwrap();
        assert_all(&space, &format!("{round} again"));
    }
}
