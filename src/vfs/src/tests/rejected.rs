//! Texts of refused saves, and what becomes of them when the next write of their page is refused by
//! the disk.

use svcfs_store::{FailPoint, FailPoints};

use super::stop::Stop;
use super::*;

fn refuse(space: &TestSpace, path: &str, text: &str, expect: Precondition) -> Kind {
    space.vfs.save(&eve(), at(path), text.to_owned().into(), expect).unwrap_err().kind()
}

fn kept(space: &TestSpace, path: &str) -> Option<String> {
    let text = space.vfs.rejected_text(&at(path)).unwrap()?;
    Some(String::from_utf8(text.to_vec()).unwrap())
}

/// Shows: LINT-6
#[test]
fn rejected_content_stays_when_the_next_write_gets_a_disk_error() {
    let space = TestSpace::new();
    space.put("a.md", "good");
    assert_eq!(refuse(&space, "a.md", "refuse this", Precondition::Any), Kind::Rejected);
    let points = FailPoints::new(space.directory.path());
    points.inject_error(FailPoint::LogFlush, 28);
    assert_eq!(space.vfs.apply(&eve(), Change::put(at("a.md"), "better")).unwrap_err().kind(), Kind::NoSpace);
    points.clear(FailPoint::LogFlush);
    assert_eq!(kept(&space, "a.md").as_deref(), Some("refuse this"), "nothing was accepted");
    assert!(space.vfs.core.refusals.reason(&at("a.md")).is_some());
    space.wait_until("the disk takes writes", |space| space.vfs.health().is_ok());
    space.put("a.md", "better");
    assert_eq!(kept(&space, "a.md"), None);
    assert_eq!(space.vfs.core.refusals.reason(&at("a.md")), None);
}

#[test]
fn content_rejected_beside_a_write_in_flight_outlives_it() {
    let space = TestSpace::new();
    space.put("a.md", "good");
    assert_eq!(refuse(&space, "a.md", "refuse this", Precondition::Any), Kind::Rejected);
    let points = FailPoints::new(space.directory.path());
    let stop = Stop::at(&points, FailPoint::LogWrite);
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| space.vfs.apply(&eve(), Change::put(at("a.md"), "better")).map(drop));
        stop.wait();
        assert_eq!(refuse(&space, "a.md", "refuse that", Precondition::Any), Kind::Rejected);
        points.clear(FailPoint::LogWrite);
        stop.go_on();
        accepted.join().unwrap().unwrap();
    });
    assert_eq!(kept(&space, "a.md").as_deref(), Some("refuse that"));
    space.put("a.md", "best");
    assert_eq!(kept(&space, "a.md"), None);
}

/// As if the text had been refused so many days ago.
fn age(space: &TestSpace, path: &str, days: u32) {
    let file = fs::File::options().write(true).open(space.directory.path().join(".svc/rejected").join(path)).unwrap();
    file.set_modified(space.vfs.core.file_time() - Duration::from_secs(24 * 3600) * days).unwrap();
}

#[test]
fn the_rejection_reason_is_removed_with_its_content() {
    let space = TestSpace::new();
    for (path, days) in [("d/a.md", 8), ("d/b.md", 6)] {
        refuse(&space, path, "refuse this", Precondition::Any);
        age(&space, path, days);
    }
    let told = |path| space.vfs.core.refusals.reason(&at(path));
    assert!(told("d/a.md").is_some());
    space.vfs.core.sweep_rejected();
    assert_eq!((told("d/a.md"), told("d/b.md").as_deref()), (None, Some("bad word")));
    // Somebody took them away by hand: nothing is left to look at each hour.
    fs::remove_dir_all(space.directory.path().join(".svc/rejected")).unwrap();
    space.vfs.core.sweep_rejected();
    assert_eq!(told("d/b.md"), None);
    assert!(!space.vfs.core.refusals.has_any());
    refuse(&space, "d/a.md", "refuse this", Precondition::Any);
    assert!(told("d/a.md").is_some() && space.vfs.core.refusals.has_any());
}

#[test]
fn one_unremovable_rejected_content_does_not_retain_others() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let space = TestSpace::new();
    for path in ["a/held.md", "b/old.md", "c.md"] {
        refuse(&space, path, "refuse this", Precondition::Any);
        age(&space, path, 8);
    }
    let kept = space.directory.path().join(".svc/rejected");
    let may = |mode| {
        let bits = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(kept.join("a"), bits).unwrap();
    };
    may(0o500);
    // Of this thread alone, which ends with the test.
    let mut own = capabilities(None).unwrap();
    own.effective -= CapabilitySet::DAC_OVERRIDE;
    set_capabilities(None, own).unwrap();
    space.vfs.core.sweep_rejected();
    let left = ["a/held.md", "b/old.md", "c.md"].map(|path| kept.join(path).exists());
    may(0o700);
    assert_eq!(left, [true, false, false]);
    assert!(space.vfs.core.refusals.reason(&at("a/held.md")).is_some());
}

#[test]
fn only_the_newest_of_many_rejections_are_listed() {
    let space = TestSpace::new();
    let refusals = &space.vfs.core.refusals;
    let path = |number: u32| at(&format!("{number}.md"));
    for number in 0..10_000 {
        drop(refusals.note(&path(number), "bad"));
    }
    drop(refusals.note(&path(0), "bad again"));
    drop(refusals.note(&path(10_000), "bad"));
    let told = [0, 1, 2, 10_000].map(|number| refusals.reason(&path(number)));
    assert_eq!(told.each_ref().map(Option::as_deref), [Some("bad again"), None, Some("bad"), Some("bad")]);
}
