//! What is told of a tree whose branch became another: by a checkout, a reset, a rebase.

use svcfs_store::ChangeFilter;

use super::*;
use crate::recovery::tests::{copied, reopened};

/// Lets a person do something in git once the index has what was written, and waits until the
/// server has seen it.
fn done(space: &TestSpace, command: &[&str]) {
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    seen(space, command);
}

fn seen(space: &TestSpace, command: &[&str]) {
    space.git(&[&["-c", "user.name=Ann", "-c", "user.email=a@x"], command].concat());
    let head = space.git(&["rev-parse", "HEAD"]);
    space.wait_until("the server knows the branch", |space| {
        space.vfs.wait_committed().unwrap();
        let events = space.vfs.feed().events_after(Seq(0), 1000).unwrap();
        events.last().and_then(|event| event.commit).is_some_and(|commit| commit.to_string() == head.trim())
    });
}

/// A person's commit of one page on a branch of its own.
fn on_a_branch(space: &TestSpace, branch: &str, path: &str) {
    done(space, &["checkout", "-q", "-b", branch]);
    fs::write(space.directory.path().join(path), format!("{path} on {branch}")).unwrap();
    space.git(&["add", path]);
    seen(space, &["commit", "-q", "-m", &format!("{path} on {branch}")]);
}

/// All that history says: what happened, newest first, and the versions of these pages.
fn history(space: &TestSpace, pages: &[&str]) -> Vec<String> {
    let lately = space.vfs.timeline(&ChangeFilter::default(), 0, 1000).unwrap();
    let events = lately.events.iter().map(|event| {
        let first = event.message.lines().next().unwrap_or_default();
        format!("{} {:?} {} {} {first}", event.id, event.action, event.path, event.actor)
    });
    let versions = pages.iter().flat_map(|page| {
        let versions = space.vfs.versions(&at(page)).unwrap();
        versions.into_iter().map(move |version| format!("{page} {} {}", version.hash, version.author))
    });
    events.chain(versions).collect()
}

/// Shows: GIT-3
#[test]
fn history_follows_the_current_branch_and_a_rebuilt_log_agrees() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.put("b.md", "one");
    let told = |way: &str| {
        let copy = copied(space.directory.path());
        fs::remove_dir_all(copy.path().join(".svc/state")).unwrap();
        let again = reopened(copy);
        let pages = ["a.md", "b.md", "c.md", "d.md"];
        assert_eq!(history(&space, &pages), history(&again, &pages), "{way}");
    };
    on_a_branch(&space, "side", "c.md");
    told("a branch of a person's");
    done(&space, &["checkout", "-q", "main"]);
    told("back on main");
    space.put("a.md", "two");
    done(&space, &["checkout", "-q", "side"]);
    told("on a branch that main is not an ancestor of");
    space.put("d.md", "on side");
    done(&space, &["rebase", "-q", "main"]);
    told("rebased");
    done(&space, &["reset", "-q", "--hard", "HEAD~1"]);
    told("taken back");
    done(&space, &["checkout", "-q", "main"]);
    done(&space, &["merge", "-q", "--no-edit", "--no-ff", "side"]);
    told("merged");
    space.put("c.md", "ours");
    told("written on");
    on_a_branch(&space, "other", "a.md");
    done(&space, &["checkout", "-q", "main"]);
    space.put("b.md", "beside it");
    done(&space, &["merge", "-q", "--no-edit", "-s", "ours", "other"]);
    told("merged, and not what the other branch had");
    let newest = space.vfs.newest_version(&at("a.md")).unwrap().unwrap();
    assert_eq!(newest.etag, ETag::from_content(space.text("a.md").as_bytes()));
}

/// Shows: GIT-3
#[test]
fn the_feed_resumes_from_every_position_across_branch_switches() {
    let space = TestSpace::new();
    let all = ChangeSet::new(["x.md", "y.md", "z.md"].map(|path| Change::put(at(path), "1")).into());
    space.vfs.apply(&eve(), all).unwrap();
    let first = space.vfs.changes(None, 1).unwrap().changes.remove(0).seq;
    let page = space.vfs.changes(Some(&format!("{first}.1")), 1).unwrap();
    assert_eq!(page.changes[0].path, at("y.md"));
    on_a_branch(&space, "side", "a.md");
    done(&space, &["checkout", "-q", "main"]);
    let rest = space.vfs.changes(Some(&page.last_seq), 10).unwrap().changes;
    let told: Vec<_> = rest.iter().map(|change| (change.path.as_str(), change.action, change.actor.as_str())).collect();
    let expected = [
        ("z.md", PathAction::Write, "eve"),
        ("a.md", PathAction::Write, "Ann"),
        ("a.md", PathAction::Delete, "fswatch"),
    ];
    assert_eq!(told, expected);
    let last = space.vfs.changes(None, 1).unwrap().last_seq;
    assert!(space.vfs.changes(Some(&last), 10).unwrap().changes.is_empty());
}

#[test]
fn a_side_branch_that_reverts_a_page_is_not_its_last_change() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    done(&space, &["checkout", "-q", "-b", "side"]);
    for text in ["two", "one"] {
        fs::write(space.directory.path().join("a.md"), text).unwrap();
        space.git(&["add", "a.md"]);
        seen(&space, &["commit", "-q", "-m", text]);
    }
    done(&space, &["checkout", "-q", "main"]);
    space.put("a.md", "ours");
    done(&space, &["merge", "-q", "--no-edit", "--no-ff", "side"]);
    let newest = space.vfs.newest_version(&at("a.md")).unwrap().unwrap();
    assert_eq!((space.text("a.md").as_str(), newest.etag), ("ours", ETag::from_content(b"ours")));
    // As after a kill, with a write that is not settled.
    space.put("b.md", "another");
    let again = reopened(copied(space.directory.path()));
    assert_eq!((again.text("a.md").as_str(), again.text("b.md").as_str()), ("ours", "another"));
    assert_eq!(history(&again, &["a.md"]), history(&space, &["a.md"]));
}
