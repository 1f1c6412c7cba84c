#![expect(clippy::disallowed_methods, reason = "a person works beside the server")]

use svcfs_base::{Actor, Change, ChangeSet, Door};

use crate::tests::{TestSpace, at, eve};

/// The author of each line, as we tell it and as stock git does.
fn blamed(space: &TestSpace, path: &str) -> (Vec<String>, Vec<String>) {
    let ours = space.vfs.blame(&at(path)).unwrap().into_iter().map(|line| format!("{} {}", line.hash, line.author));
    let told = space.git(&["blame", "--line-porcelain", "HEAD", "--", path]);
    let mut of_git = Vec::new();
    let mut hash = String::new();
    for line in told.lines() {
        match line.split_once(' ') {
            Some(("author", name)) => of_git.push(format!("{hash} {name}")),
            Some((word, _)) if word.len() == 40 => word.clone_into(&mut hash),
            Some(_) | None => {}
        }
    }
    (ours.collect(), of_git)
}

#[track_caller]
fn assert_as_git(space: &TestSpace, path: &str, lines: usize) {
    let (ours, of_git) = blamed(space, path);
    assert_eq!((ours.len(), &ours), (lines, &of_git), "{path}");
}

fn by(name: &str) -> svcfs_base::Caller {
    eve().named(Actor::new(name))
}

fn commit(space: &TestSpace, name: &str, text: &str) {
    std::fs::write(space.directory.path().join(name), text).unwrap();
    space.git(&["reset", "-q"]);
    space.git(&["add", name]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=ann@x", "commit", "-qm", name]);
}

#[test]
fn the_lines_of_a_renamed_page_are_blamed_on_those_who_wrote_them_under_its_old_name() {
    let space = TestSpace::new();
    let put = |name: &str, path: &str, text: &str| {
        space.vfs.apply(&by(name), Change::put(at(path), text.to_owned())).unwrap();
    };
    put("ann", "a.md", "one\ntwo\nthree\nfour\n");
    put("bob", "a.md", "one\nzwei\nthree\nfour\n");
    space.vfs.apply(&by("carl"), Change::rename(at("a.md"), at("d/b.md"))).unwrap();
    put("dora", "d/b.md", "one\nzwei\nthree\nvier\n");
    assert_as_git(&space, "d/b.md", 4);
    // Renamed and changed at once; another page goes at the same time.
    put("ann", "other.md", "nothing of it\n");
    let changes = vec![
        Change::remove(at("d/b.md")),
        Change::remove(at("other.md")),
        Change::put(at("c.md"), "one\nzwei\ndrei\nvier\n".to_owned()),
    ];
    space.vfs.apply(&by("emil"), ChangeSet { changes, ..ChangeSet::from(Change::remove(at("x"))) }).unwrap();
    assert_as_git(&space, "c.md", 4);
    let names: Vec<_> = space.vfs.blame(&at("c.md")).unwrap().iter().map(|line| line.author.to_string()).collect();
    assert_eq!(names, ["ann", "bob", "emil", "dora"]);
}

#[test]
fn lines_that_came_by_a_merge_or_from_another_branch_are_blamed_as_git_blames_them() {
    let space = TestSpace::new();
    space.put("a.md", "1\n2\n3\n4\n5\n6\n7\n8\n");
    space.vfs.settled().unwrap();
    space.git(&["reset", "-q", "--hard"]);
    space.git(&["checkout", "-q", "-b", "side"]);
    commit(&space, "a.md", "side\n2\n3\n4\n5\n6\n7\n8\n");
    space.put("b.md", "ours, on the side\n");
    space.git(&["reset", "-q", "--hard"]);
    space.git(&["checkout", "-q", "main"]);
    commit(&space, "a.md", "1\n2\n3\n4\n5\n6\n7\nmain\n");
    space.put("c.md", "ours, on main\n");
    assert_as_git(&space, "a.md", 8);
    space.git(&["reset", "-q", "--hard"]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=ann@x", "merge", "-q", "--no-ff", "-m", "merge", "side"]);
    space.put("d.md", "ours, on top\n");
    assert_as_git(&space, "a.md", 8);
    assert_as_git(&space, "b.md", 1);
    assert_eq!(space.vfs.read(Door::Http, &at("a.md")).unwrap().content, "side\n2\n3\n4\n5\n6\n7\nmain\n");
}
