//! Two who want one name in one moment.

use parking_lot::Mutex;
use svcfs_store::{FailPoint, FailPoints};

use super::stop::Stop;
use super::*;

/// Does something when it is asked for the time, once.
#[derive(Default)]
struct Hooked(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Clock for Hooked {
    fn now(&self) -> Timestamp {
        let hook = self.0.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        SystemClock.now()
    }
}

#[test]
fn a_page_created_during_a_rename_elsewhere_is_saved_or_fails() {
    let ann = Caller::new(Protocol::Fuse).with_actor(Actor::new("ann"));
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hooked::default());
    let vfs = Vfs::open(VfsOptions { clock: Arc::clone(&clock) as _, ..options(directory.path(), false) }).unwrap();
    let space = TestSpace { directory, vfs };
    space.put("from.md", "renamed\n");
    let (found, _) = space.vfs.lookup_path(&ann, &at("from.md")).unwrap();
    let reader = space.vfs.open_node(&ann, found, OpenMode::default()).unwrap();
    let points = FailPoints::new(space.directory.path());
    let stop = Stop::at(&points, FailPoint::AcceptLocked);
    let renaming = Arc::new(Mutex::new(None));
    let (vfs, renamer) = (Arc::clone(&space.vfs), Arc::clone(&renaming));
    // While the page is made: the name was free.
    *clock.0.lock() = Some(Box::new(move || {
        let rename = move || vfs.apply(&eve(), Change::rename(at("from.md"), at("to.md"))).map(drop);
        *renamer.lock() = Some(std::thread::spawn(rename));
        stop.wait();
        points.clear(FailPoint::AcceptLocked);
        stop.go_on();
    }));
    let made = space.vfs.create(&ann, NodeId::ROOT, &PathComponent::parse("to.md").unwrap(), 0o644);
    let renamed = renaming.lock().take().unwrap().join().unwrap();
    match made {
        Ok((.., handle)) => {
            space.vfs.write_node(&ann, handle, WriteAt::Offset(0), b"made\n").unwrap();
            space.vfs.release(&ann, handle).unwrap();
            assert_eq!(space.text("to.md"), "made\n", "the close said that it is saved");
        }
        Err(fault) => {
            assert_eq!((fault.kind(), renamed.map_err(|fault| fault.kind())), (Kind::Exists, Ok(())));
            assert_eq!(space.text("to.md"), "renamed\n");
            assert_eq!(space.vfs.path_of(found).unwrap(), at("to.md"));
        }
    }
    space.vfs.release(&ann, reader).unwrap();
}

#[test]
fn one_of_two_concurrent_creators_learns_that_the_page_exists() {
    let ann = Caller::new(Protocol::Fuse).with_actor(Actor::new("ann"));
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hooked::default());
    let vfs = Vfs::open(VfsOptions { clock: Arc::clone(&clock) as _, ..options(directory.path(), false) }).unwrap();
    let name = PathComponent::parse("a.md").unwrap();
    let made = Arc::new(Mutex::new(None));
    let (other, maker) = (Arc::clone(&vfs), Arc::clone(&made));
    *clock.0.lock() = Some(Box::new(move || {
        let eve = Caller::new(Protocol::Nfs).with_actor(Actor::new("eve"));
        *maker.lock() = Some(other.create(&eve, NodeId::ROOT, &PathComponent::parse("a.md").unwrap(), 0o644).unwrap());
    }));
    let late = vfs.create(&ann, NodeId::ROOT, &name, 0o644).map(drop);
    assert_eq!(late.map_err(|fault| fault.kind()), Err(Kind::Exists));
    let (.., handle) = made.lock().take().unwrap();
    vfs.write_node(&eve(), handle, WriteAt::Offset(0), b"made\n").unwrap();
    vfs.release(&eve(), handle).unwrap();
    assert_eq!(TestSpace { directory, vfs }.text("a.md"), "made\n");
}
