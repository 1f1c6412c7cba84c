//! Writes that stand on others which are accepted, and then refused.

use svcfs_store::{FailPoint, FailPoints};

use super::stop::Stop;
use super::*;

fn put(path: &str, text: &str, expect: Precondition) -> Change {
    Change::put(at(path), text.to_owned()).with_precondition(expect)
}

/// What a page will hold once everything accepted is done, or that it will be gone; none when
/// nothing is accepted.
fn pending(space: &TestSpace, path: &str) -> Option<Option<String>> {
    let leaf = space.vfs.core.overlay.get(&at(path))?.leaf;
    Some(leaf.map(|leaf| String::from_utf8(leaf.content.to_vec()).unwrap()))
}

/// Shows: COND-5
#[test]
fn writes_based_on_a_rejected_one_are_rejected_or_rebased() {
    let space = TestSpace::new();
    for path in ["any.md", "soon.md", "same.md", "match.md", "create.md"] {
        space.put(path, "one");
    }
    let points = FailPoints::new(space.directory.path());
    let stop = Stop::at(&points, FailPoint::LogWrite);
    let two = ETag::from_content(b"two");
    let refused = vec![
        Change::put(at("any.md"), "two"),
        Change::put(at("soon.md"), "two"),
        Change::put(at("same.md"), "two"),
        Change::put(at("match.md"), "two"),
        Change::remove(at("create.md")),
        Change::put(at("remove.md"), "two"),
        Change::put(at("from.md"), "two"),
    ];
    std::thread::scope(|scope| {
        let apply =
            |set: ChangeSet| scope.spawn(|| space.vfs.apply(&eve(), set).map(|_| ()).map_err(|fault| fault.kind()));
        let refused = apply(ChangeSet::new(refused));
        stop.wait();
        // All of them see the other's change, which is not in the log yet.
        let soon = ChangeSet::from(put("soon.md", "three", Precondition::OneOf(vec![two]))).soon();
        space.vfs.apply(&eve(), soon).unwrap();
        let any = apply(put("any.md", "three", Precondition::Any).into());
        let same = apply(put("same.md", "one", Precondition::Any).into());
        let matching = apply(put("match.md", "three", Precondition::OneOf(vec![two])).into());
        let create = apply(put("create.md", "three", Precondition::Absent).into());
        let remove = apply(Change::remove(at("remove.md")).into());
        let rename = apply(Change::rename(at("from.md"), at("to.md")).into());
        space.wait_until("all of them are accepted", |space| {
            let is_shown = |path, text| pending(space, path).is_some_and(|leaf| leaf.as_deref() == Some(text));
            let is_gone = |path| pending(space, path) == Some(None);
            is_shown("any.md", "three")
                && is_shown("soon.md", "three")
                && is_shown("same.md", "one")
                && is_shown("match.md", "three")
                && is_shown("create.md", "three")
                && is_gone("remove.md")
                && is_shown("to.md", "two")
        });
        points.inject_error(FailPoint::LogFlush, 28);
        stop.go_on();
        stop.wait();
        points.clear(FailPoint::LogFlush);
        points.clear(FailPoint::LogWrite);
        stop.go_on();
        assert_eq!(refused.join().unwrap(), Err(Kind::NoSpace));
        assert_eq!((any.join().unwrap(), same.join().unwrap()), (Ok(()), Ok(())));
        assert_eq!(matching.join().unwrap(), Err(Kind::Conflict));
        assert_eq!(create.join().unwrap(), Err(Kind::PreconditionFailed));
        assert_eq!((remove.join().unwrap(), rename.join().unwrap()), (Err(Kind::Conflict), Err(Kind::Conflict)));
    });
    space.vfs.wait_applied().unwrap();
    assert!(space.vfs.core.overlay.is_empty());
    let one = ETag::from_content(b"one");
    for path in ["any.md", "soon.md"] {
        assert_eq!(space.text(path), "three");
        let versions = space.vfs.core.log.versions(&at(path), Seq(u64::MAX >> 1), 9).unwrap();
        assert_eq!((versions.len(), versions[0].old), (2, Some(one)), "{path}: what it was before");
    }
    for path in ["same.md", "match.md", "create.md"] {
        assert_eq!(space.text(path), "one");
        assert_eq!(space.vfs.versions(&at(path)).unwrap().len(), 1, "{path}: no version came of it");
    }
    for path in ["remove.md", "from.md", "to.md"] {
        assert_eq!(space.vfs.versions(&at(path)).unwrap().len(), 0, "{path} never was");
    }
    assert_eq!(space.vfs.rescan().unwrap(), 0, "tree and history agree");
}

/// Shows: DUR-4
#[test]
fn a_write_of_content_in_flight_waits_for_its_outcome() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    let stop = Stop::at(&points, FailPoint::LogWrite);
    let paths = ["any.md", "soon.md", "match.md"];
    let apply = |set: ChangeSet| space.vfs.apply(&eve(), set).map(|_| ()).map_err(|fault| fault.kind());
    let apply = &apply;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| apply(ChangeSet::new(paths.map(|path| Change::put(at(path), "two")).to_vec())));
        stop.wait();
        // Nothing of the first is in the log, and each of these asks for what it would make.
        apply(ChangeSet::from(put("soon.md", "two", Precondition::Any)).soon()).unwrap();
        let any = scope.spawn(|| apply(put("any.md", "two", Precondition::Any).into()));
        let matching =
            scope.spawn(|| apply(put("match.md", "two", Precondition::OneOf(vec![ETag::from_content(b"two")])).into()));
        space.wait_until("all of them wait", |space| space.vfs.core.queue.depth().0 == 3);
        points.inject_error(FailPoint::LogFlush, 28);
        stop.go_on();
        stop.wait();
        points.clear(FailPoint::LogFlush);
        points.clear(FailPoint::LogWrite);
        stop.go_on();
        assert_eq!(first.join().unwrap(), Err(Kind::NoSpace));
        assert_eq!(any.join().unwrap(), Ok(()));
        assert_eq!(matching.join().unwrap(), Err(Kind::Conflict));
    });
    space.vfs.wait_applied().unwrap();
    assert_eq!((space.text("any.md"), space.text("soon.md")), ("two".to_owned(), "two".to_owned()));
    assert_eq!(space.vfs.versions(&at("match.md")).unwrap().len(), 0);
    assert!(space.vfs.core.overlay.is_empty());
}

/// Shows: DUR-4
#[test]
fn a_write_made_redundant_by_its_batch_returns_the_other_result() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    let stop = Stop::at(&points, FailPoint::LogWrite);
    let apply = |set: ChangeSet| space.vfs.apply(&eve(), set).map(|_| ()).map_err(|fault| fault.kind());
    let apply = &apply;
    std::thread::scope(|scope| {
        let before = scope.spawn(|| apply(put("before.md", "one", Precondition::Any).into()));
        stop.wait();
        let twice = [0, 1].map(|_| scope.spawn(|| apply(put("a.md", "two", Precondition::Any).into())));
        space.wait_until("both of them wait", |space| space.vfs.core.queue.depth().0 == 2);
        stop.go_on();
        stop.wait();
        assert!(twice.iter().all(|writer| !writer.is_finished()), "nothing of them is in the log");
        assert_eq!(pending(&space, "a.md"), Some(Some("two".to_owned())));
        points.inject_error(FailPoint::LogFlush, 28);
        points.clear(FailPoint::LogWrite);
        stop.go_on();
        assert_eq!(before.join().unwrap(), Ok(()));
        assert_eq!(twice.map(|writer| writer.join().unwrap()), [Err(Kind::NoSpace), Err(Kind::NoSpace)]);
        points.clear(FailPoint::LogFlush);
    });
    assert!(space.vfs.core.overlay.is_empty());
    space.wait_until("the disk takes writes", |space| space.vfs.health().is_ok());
    space.put("a.md", "two");
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 1);
}

/// Shows: EDIT-2
#[test]
fn an_external_removal_before_a_rewrite_is_in_history_too() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    for text in ["one", "two"] {
        fs::remove_file(space.directory.path().join("a.md")).unwrap();
        space.put("a.md", text);
        assert_eq!(fs::read_to_string(space.directory.path().join("a.md")).unwrap(), text);
    }
    let removal = "fswatch|delete: a.md";
    assert_eq!(space.log(), ["eve|eve: a.md", removal, "eve|eve: a.md", removal, "eve|eve: a.md"]);
}
