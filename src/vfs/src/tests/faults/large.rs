//! A page that takes the place of a file too large for any version, broken off at each point: the
//! one is there or the other, and the file is where it was until the page can be found.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use super::killed::{Image, Recorder, images_of_an_opening};
use super::*;
use crate::tests::stop::Stop;

const LARGE: u64 = svcfs_base::MAX_FILE_BYTES as u64 + 1;
const FILM: &str = "film.bin";
const PAGE: &str = "page\n";

/// A way to take its place.
type Deed = fn(&TestSpace) -> Result<(), Fault>;

fn put(space: &TestSpace) -> Result<(), Fault> {
    space.vfs.apply(&eve(), Change::put(at(FILM), PAGE)).map(drop)
}

fn put_another(space: &TestSpace) -> Result<(), Fault> {
    space.vfs.apply(&eve(), Change::put(at(FILM), "two\n")).map(drop)
}

fn put_soon(space: &TestSpace) -> Result<(), Fault> {
    space.vfs.apply(&eve(), ChangeSet::from(Change::put(at(FILM), PAGE)).soon())?;
    space.vfs.wait_applied().map(drop)
}

fn rename(space: &TestSpace) -> Result<(), Fault> {
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at(FILM))).map(drop)
}

fn rename_scratch(space: &TestSpace) -> Result<(), Fault> {
    space.vfs.apply(&eve(), Change::rename(at("a.md~"), at(FILM))).map(drop)
}

/// A film, and what could take its place.
fn with_film(strategy: VersionStrategy) -> TestSpace {
    let space = new_space(strategy);
    space.put("a.md", PAGE);
    fs::write(space.directory.path().join("a.md~"), PAGE).unwrap();
    lay(space.directory.path());
    space
}

/// Lays a film into a tree, behind the server.
fn lay(root: &Path) {
    let film = File::create(root.join(FILM)).unwrap();
    film.set_len(LARGE).unwrap();
}

fn film(root: &Path) -> fs::Metadata {
    fs::metadata(root.join(FILM)).unwrap()
}

/// How many sets the space tells of.
fn told(space: &TestSpace) -> usize {
    space.vfs.feed().events_after(Seq(0), usize::MAX).unwrap().iter().filter(|event| !event.changes.is_empty()).count()
}

/// Images of a space whose film gives way, and of its end.
fn images(strategy: VersionStrategy, deed: Deed) -> Vec<Image> {
    let space = with_film(strategy);
    let recorder = Recorder::watch(space.directory.path(), 0..=1);
    deed(&space).unwrap();
    recorder.safe.store(1, Ordering::SeqCst);
    recorder.stage.store(1, Ordering::SeqCst);
    space.vfs.close().unwrap();
    recorder.finish()
}

fn assert_one_of_both(image: Image, strategy: VersionStrategy, when: &str) {
    let when = format!("{when} at `{}` ({})", image.point.name(), image.point.description());
    let found = fs::metadata(image.directory.path().join(FILM)).unwrap_or_else(|error| panic!("{when}: {error}"));
    let space = opened(image.directory, strategy);
    let now = film(space.directory.path());
    if now.len() == LARGE {
        assert_eq!((now.ino(), now.mtime_nsec()), (found.ino(), found.mtime_nsec()), "{when}");
        assert_eq!(*image.deeds.start(), 0, "{when}: acknowledged, and the large file is back");
        assert_eq!((told(&space), space.vfs.recorded_etag(&at(FILM)).unwrap()), (1, None), "{when}");
    } else {
        assert_eq!((space.text(FILM).as_str(), told(&space)), (PAGE, 2), "{when}");
        assert_eq!(space.vfs.recorded_etag(&at(FILM)).unwrap(), Some(ETag::from_content(PAGE.as_bytes())), "{when}");
    }
    space.vfs.close().unwrap();
    if strategy == VersionStrategy::Git {
        space.git(&["fsck", "--strict", "--no-dangling"]);
    }
}

#[test]
fn a_crash_at_any_point_leaves_a_large_file_or_its_replacement() {
    for strategy in STRATEGIES {
        let deeds =
            [("put", put as Deed), ("put soon", put_soon), ("a page", rename), ("a scratch file", rename_scratch)];
        for (what, deed) in deeds {
            let images = images(strategy, deed);
            let when = format!("{what}, with `{}`", strategy.name());
            let is_logged = |image: &&Image| image.point == FailPoint::LogFlushed;
            let logged = images.iter().find(is_logged).unwrap_or_else(|| panic!("{when}: nothing is logged"));
            assert_eq!(film(logged.directory.path()).len(), LARGE, "{when}: it gave way before its time");
            let again = images_of_an_opening(logged, strategy);
            let last = again.iter().find(|image| image.point == FailPoint::OpenReconciled).unwrap();
            assert_eq!(film(last.directory.path()).len(), PAGE.len() as u64, "{when}: what is logged will happen");
            for image in images {
                assert_one_of_both(image, strategy, &when);
            }
            for image in again {
                assert_one_of_both(image, strategy, &format!("{when}, killed while opened"));
            }
        }
    }
}

/// Where commits are gathered the set and its commit are records of their own.
#[test]
fn a_page_that_replaces_a_large_file_is_committed_later() {
    let space = TestSpace::gathering(crate::tests::gathered::NEVER, usize::MAX);
    lay(space.directory.path());
    let stop = Stop::at(&FailPoints::new(space.directory.path()), FailPoint::LogFlushed);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(&space));
        stop.wait();
        let image = copied(space.directory.path());
        FailPoints::new(space.directory.path()).clear(FailPoint::LogFlushed);
        stop.go_on();
        writer.join().unwrap().unwrap();
        assert_eq!(film(image.path()).len(), LARGE);
        let again = reopened(image);
        assert_eq!((again.text(FILM).as_str(), again.log()), (PAGE, vec!["eve|eve: film.bin".to_owned()]));
    });
    space.vfs.wait_committed().unwrap();
    assert_eq!((space.text(FILM).as_str(), space.log()), (PAGE, vec!["eve|eve: film.bin".to_owned()]));
}

/// What a disk has after the power went that never heard of the rename.
#[test]
fn a_large_file_returned_by_power_loss_is_replaced_again() {
    let space = with_film(VersionStrategy::Git);
    let before = film(space.directory.path()).modified().unwrap();
    put(&space).unwrap();
    let crashed = || {
        let copy = crashed(&space);
        fs::remove_file(copy.path().join(FILM)).unwrap();
        lay(copy.path());
        copy
    };
    let lay_of = |copy: &TempDir, time: SystemTime| {
        File::options().write(true).open(copy.path().join(FILM)).unwrap().set_modified(time).unwrap();
    };
    let old = crashed();
    lay_of(&old, before);
    let old = reopened(old);
    assert_eq!(old.text(FILM), PAGE);
    let other = crashed();
    lay_of(&other, before + Duration::from_nanos(1));
    let other = reopened(other);
    assert_eq!(film(other.directory.path()).len(), LARGE);
    assert_eq!(other.log(), ["fswatch|delete: film.bin", "eve|eve: film.bin", "eve|eve: a.md"]);
    assert_eq!(other.git(&["show", "HEAD~:film.bin"]), PAGE);
}

#[test]
fn a_large_file_stays_until_the_disk_accepts_its_replacement() {
    let points = [FailPoint::StageCommit, FailPoint::LogWrite, FailPoint::LogFlush];
    for point in points {
        let space = with_film(VersionStrategy::Git);
        let before = film(space.directory.path()).ino();
        let points = FailPoints::new(space.directory.path());
        points.inject_error(point, 28);
        assert_eq!(put(&space).unwrap_err().kind(), Kind::NoSpace, "{}", point.name());
        assert_eq!(film(space.directory.path()).ino(), before, "{}", point.name());
        assert_eq!(space.vfs.stat(Protocol::Http, &at(FILM)).unwrap().size, LARGE);
        points.clear(point);
        space.wait_until("the disk takes writes again", |space| space.vfs.health().is_ok());
        put(&space).unwrap();
        assert_eq!(space.text(FILM), PAGE);
    }
    for point in [FailPoint::TreeWrite, FailPoint::TreeRename] {
        let space = with_film(VersionStrategy::Git);
        let before = film(space.directory.path()).ino();
        let points = FailPoints::new(space.directory.path());
        points.inject_error(point, 28);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| put(&space));
            space.wait_until("the disk refuses", |space| space.vfs.health().is_err());
            assert_eq!(film(space.directory.path()).ino(), before, "{}", point.name());
            assert_eq!(space.text(FILM), PAGE, "logged, and every reader sees it");
            points.clear(point);
            writer.join().unwrap().unwrap();
        });
        assert_eq!(film(space.directory.path()).len(), PAGE.len() as u64, "{}", point.name());
    }
}

#[test]
fn the_last_of_successive_changes_replaces_a_large_file() {
    for (what, last) in [
        ("a page", put_another as Deed),
        ("nothing", |space| space.vfs.apply(&eve(), Change::remove(at(FILM))).map(drop)),
    ] {
        let space = with_film(VersionStrategy::Git);
        let points = FailPoints::new(space.directory.path());
        // Another's batch is under way: these come behind it, together.
        let stop = Stop::at(&points, FailPoint::LogWrite);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| space.put("b.md", "b"));
            stop.wait();
            space.vfs.apply(&eve(), ChangeSet::from(Change::put(at(FILM), PAGE)).soon()).unwrap();
            let second = scope.spawn(|| last(&space).unwrap());
            let is_queued = |space: &TestSpace| space.vfs.core.queue.depth().0 == 2;
            space.wait_until("both wait", is_queued);
            let (vfs, caller) = (&space.vfs, Caller::new(Protocol::Fuse));
            let seen = vfs
                .lookup(&caller, crate::NodeId::ROOT, &PathComponent::parse(FILM).unwrap())
                .map(|(_, seen)| seen.size);
            assert!(seen.is_ok_and(|size| size == 4) == (what == "a page"), "{what}: the large file is seen still");
            points.clear(FailPoint::LogWrite);
            stop.go_on();
            first.join().unwrap();
            second.join().unwrap();
        });
        space.vfs.wait_applied().unwrap();
        let standing = fs::read_to_string(space.directory.path().join(FILM)).ok();
        assert_eq!(standing.as_deref(), (what == "a page").then_some("two\n"), "{what}");
        assert_eq!(space.vfs.rescan().unwrap(), 0, "{what}");
        space.vfs.close().unwrap();
    }
}

#[test]
fn a_large_file_written_before_its_replacement_stays() {
    let space = with_film(VersionStrategy::Git);
    let root = space.directory.path().to_owned();
    let points = FailPoints::new(&root);
    points.set_callback(FailPoint::LogFlushed, move || {
        File::options().append(true).open(root.join(FILM)).unwrap().set_len(LARGE + 1).unwrap();
    });
    put(&space).unwrap();
    points.clear(FailPoint::LogFlushed);
    space.vfs.wait_applied().unwrap();
    assert_eq!(film(space.directory.path()).len(), LARGE + 1);
    assert_eq!(space.log(), ["fswatch|delete: film.bin", "eve|eve: film.bin", "eve|eve: a.md"]);
}

#[test]
fn open_handles_of_a_replaced_large_file_write_to_the_old_file() {
    let space = with_film(VersionStrategy::Git);
    let caller = Caller::new(Protocol::Fuse);
    let (node, _) = space.vfs.lookup(&caller, crate::NodeId::ROOT, &PathComponent::parse(FILM).unwrap()).unwrap();
    let mode = crate::OpenMode { write: true, truncate: false };
    let handle = space.vfs.open_node(&caller, node, mode).unwrap();
    let points = FailPoints::new(space.directory.path());
    let stop = Stop::at(&points, FailPoint::LogFlushed);
    std::thread::scope(|scope| {
        let page = scope.spawn(|| put(&space));
        stop.wait();
        let writer = scope.spawn(|| space.vfs.write_node(&caller, handle, crate::WriteAt::Offset(0), b"late"));
        points.clear(FailPoint::LogFlushed);
        stop.go_on();
        page.join().unwrap().unwrap();
        writer.join().unwrap().unwrap();
    });
    assert_eq!((space.text(FILM).as_str(), space.log().len()), (PAGE, 2));
    space.vfs.release(&caller, handle).unwrap();
    assert_eq!(space.text(FILM), PAGE);
}
