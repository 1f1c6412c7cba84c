//! Texts of refused saves, and what becomes of them when the next write of their page is refused by the disk.

use svcfs_store::{FailPoint, FailPoints};

use super::stop::Stop;
use super::*;

fn refuse(space: &TestSpace, path: &str, text: &str, expect: Expect) -> Kind {
    space.vfs.save(&eve(), at(path), text.to_owned().into(), expect).unwrap_err().kind()
}

fn kept(space: &TestSpace, path: &str) -> Option<String> {
    let text = space.vfs.refused_text(&at(path)).unwrap()?;
    Some(String::from_utf8(text.to_vec()).unwrap())
}

#[test]
fn a_refused_text_stays_when_the_disk_refuses_the_next_write_of_its_page() {
    let space = TestSpace::new();
    space.put("a.md", "good");
    assert_eq!(refuse(&space, "a.md", "refuse this", Expect::Any), Kind::Rejected);
    let points = FailPoints::of(space.directory.path());
    points.refuse(FailPoint::LogFlush, 28);
    assert_eq!(space.vfs.apply(&eve(), Change::put(at("a.md"), "better")).unwrap_err().kind(), Kind::NoSpace);
    points.clear(FailPoint::LogFlush);
    assert_eq!(kept(&space, "a.md").as_deref(), Some("refuse this"), "nothing was accepted");
    assert!(space.vfs.core.refusals.of(&at("a.md")).is_some());
    space.wait_until("the disk takes writes", |space| space.vfs.health().is_ok());
    space.put("a.md", "better");
    assert_eq!(kept(&space, "a.md"), None);
    assert_eq!(space.vfs.core.refusals.of(&at("a.md")), None);
}

#[test]
fn what_is_refused_while_an_accepted_write_is_on_its_way_to_the_disk_is_kept_after_it() {
    let space = TestSpace::new();
    space.put("a.md", "good");
    assert_eq!(refuse(&space, "a.md", "refuse this", Expect::Any), Kind::Rejected);
    let points = FailPoints::of(space.directory.path());
    let stop = Stop::at(&points, FailPoint::LogWrite);
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| space.vfs.apply(&eve(), Change::put(at("a.md"), "better")).map(drop));
        stop.wait();
        assert_eq!(refuse(&space, "a.md", "refuse that", Expect::Any), Kind::Rejected);
        points.clear(FailPoint::LogWrite);
        stop.go_on();
        accepted.join().unwrap().unwrap();
    });
    assert_eq!(kept(&space, "a.md").as_deref(), Some("refuse that"));
    space.put("a.md", "best");
    assert_eq!(kept(&space, "a.md"), None);
}
