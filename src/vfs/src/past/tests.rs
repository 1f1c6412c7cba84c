#![expect(clippy::disallowed_methods, reason = "a person works beside the server")]

use svcfs_base::{Actor, Change, ChangeSet, Protocol};

use crate::StoredContent;
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
    eve().with_actor(Actor::new(name))
}

fn commit(space: &TestSpace, name: &str, text: &str) {
    std::fs::write(space.directory.path().join(name), text).unwrap();
    space.git(&["reset", "-q"]);
    space.git(&["add", name]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=ann@x", "commit", "-qm", name]);
}

/// Shows: HIST-3
#[test]
fn lines_of_a_renamed_page_are_blamed_across_the_rename() {
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

/// Shows: HIST-3
#[test]
fn lines_from_merges_and_branches_are_blamed_as_git_does() {
    let space = TestSpace::new();
    space.put("a.md", "1\n2\n3\n4\n5\n6\n7\n8\n");
    space.vfs.wait_applied().unwrap();
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
    assert_eq!(space.vfs.read(Protocol::Http, &at("a.md")).unwrap().content, "side\n2\n3\n4\n5\n6\n7\nmain\n");
}

/// Shows: VIEW-4
#[test]
fn the_state_at_a_time_is_where_the_branch_was_then() {
    let space = TestSpace::new();
    space.vfs.close().unwrap();
    let root = space.directory.path();
    let on = |day: u32, arguments: &[&str]| {
        let date = format!("2020-01-{day:02}T12:00:00Z");
        let output = std::process::Command::new("git")
            .args(["-C", root.to_str().unwrap(), "-c", "user.name=Ann", "-c", "user.email=ann@x"])
            .args(arguments)
            .envs([("GIT_AUTHOR_DATE", &date), ("GIT_COMMITTER_DATE", &date)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let save = |day: u32, name: &str, text: &str| {
        std::fs::write(root.join(name), text).unwrap();
        on(day, &["add", name]);
        on(day, &["commit", "-qm", name]);
    };
    // The second day's work was done aside, and came in on the fourth.
    save(1, "a.md", "first");
    on(1, &["checkout", "-qb", "side"]);
    save(2, "side.md", "aside");
    on(2, &["checkout", "-q", "-"]);
    save(3, "a.md", "third");
    on(4, &["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    let mut space = space;
    space.reopen();
    let here = space.put("a.md", "ours").commit.unwrap();
    let names = |text: &str| {
        let state = space.vfs.past_state(text).unwrap()?;
        let entries = space.vfs.past_directory(&state, &at("")).unwrap().unwrap();
        let content =
            |content: &StoredContent| String::from_utf8(space.vfs.stored_content(content).unwrap().to_vec()).unwrap();
        let told = entries.iter().filter(|entry| entry.name.as_str().ends_with(".md"));
        Some(
            told.map(|entry| format!("{}={} ", entry.name.as_str(), content(&entry.leaf.as_ref().unwrap().0)))
                .collect::<String>(),
        )
    };
    for (text, meant) in [
        ("2020-01-01", None),
        ("2020-01-01T12:00:00Z", Some("a.md=first ")),
        ("2020-01-03", Some("a.md=first ")),
        ("2020-01-04", Some("a.md=third ")),
        ("2020-01-05", Some("a.md=third side.md=aside ")),
        ("side", Some("a.md=first side.md=aside ")),
        ("2999-01-01", Some("a.md=ours side.md=aside ")),
        (&here.to_string()[..7], Some("a.md=ours side.md=aside ")),
    ] {
        assert_eq!(names(text).as_deref(), meant, "{text}");
    }
}

/// Shows: VIEW-4
#[test]
fn the_state_of_an_earlier_second_is_found_among_own_commits() {
    let space = TestSpace::new();
    let first = space.put("a.md", "one").commit.unwrap();
    let second = |commit: &str| space.vfs.past_state(commit).unwrap().unwrap().time;
    let before = second(&first.to_string());
    let start = std::time::Instant::now();
    let mut commits = vec![first];
    while second(&commits.last().unwrap().to_string()) == before {
        assert!(start.elapsed().as_secs() < 10);
        commits.push(space.put("a.md", &format!("{}", commits.len())).commit.unwrap());
    }
    let last_of_that_second = commits[commits.len() - 2];
    assert_eq!(space.vfs.past_state(&before.to_string()).unwrap().unwrap().commit, last_of_that_second);
}

/// Shows: VIEW-3
#[test]
fn versions_are_numbered_with_removals_and_readable_ones_listed() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.vfs.apply(&eve(), Change::remove(at("a.md"))).unwrap();
    space.put("a.md", "three");
    let kept = space.vfs.stored_versions(&at("a.md")).unwrap();
    let told: Vec<_> =
        kept.iter().map(|version| (version.number, space.vfs.stored_size(&version.content).unwrap())).collect();
    assert_eq!(told, [(1, 3), (3, 5)]);
    assert_eq!(space.vfs.newest_version(&at("a.md")).unwrap().unwrap().version.hash, kept[1].id);
    assert!(space.vfs.has_history(&at("a.md")).unwrap() && !space.vfs.has_history(&at("b.md")).unwrap());
    let lost = StoredContent::Blob(svcfs_base::ETag::from_content(b"never written"));
    assert_eq!(space.vfs.stored_content(&lost).unwrap_err().kind(), svcfs_base::Kind::NotFound);
}

#[test]
fn a_removal_is_known_from_the_versions_of_its_path_alone() {
    let space = TestSpace::new();
    let commit = |change: Change| space.vfs.apply(&eve(), change).unwrap().commit.unwrap().to_string();
    let one = space.put("a.md", "one").commit.unwrap().to_string();
    let gone = commit(Change::remove(at("a.md")));
    let other = commit(Change::put(at("b.md"), "b"));
    let is_removal = |path: &str, version: &str| space.vfs.is_removal(&at(path), version).unwrap();
    assert!(is_removal("a.md", &gone));
    for (path, version) in [("a.md", &one), ("a.md", &other), ("b.md", &gone), ("a.md", &"0".repeat(40))] {
        assert!(!is_removal(path, version), "{path} at {version}");
    }
}
