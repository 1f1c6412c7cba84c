//! Commits made some time after their writers were answered (`async_commit`).

use super::*;
use crate::recovery::tests::{crashed, reopened};

/// Longer than any test takes: the window closes only when somebody needs its commits.
pub(super) const NEVER: Duration = Duration::from_secs(600);

pub(super) fn gathering(window: Duration, max_paths: usize) -> CommitPolicy {
    CommitPolicy::Coalesced { window, max_paths }
}

impl TestSpace {
    /// A space whose commits are made later.
    pub(super) fn gathering(window: Duration, max_paths: usize) -> Self {
        Self::open(tempfile::tempdir().unwrap(), gathering(window, max_paths))
    }
    pub(super) fn open(directory: TempDir, commits: CommitPolicy) -> Self {
        let vfs = Vfs::open(VfsOptions { commit_policy: commits, ..options(directory.path(), false) }).unwrap();
        Self { directory, vfs }
    }
    fn put_as(&self, who: &str, path: &str, text: &str) {
        let caller = Caller::new(Protocol::Http).with_actor(Actor::new(who));
        self.vfs.apply(&caller, Change::put(at(path), text.to_owned())).unwrap();
    }
    fn has_commits(&self) -> bool {
        self.vfs.core.versions.head().unwrap().is_some()
    }
    /// What history has, oldest commit first, with everything it waits for.
    fn committed(&self) -> Vec<String> {
        self.vfs.wait_committed().unwrap();
        self.log().into_iter().rev().collect()
    }
}

/// Shows: ASYNC-4
#[test]
fn the_writes_of_one_author_in_a_window_are_one_commit() {
    let space = TestSpace::gathering(NEVER, 50);
    for path in ["a.md", "d/b.md", "c.md"] {
        assert_eq!(space.put(path, path).commit, None);
        assert_eq!(space.text(path), path, "seen at once");
    }
    assert!(!space.has_commits());
    assert_eq!(space.committed(), ["eve|eve: 3 files"]);
    assert_eq!(space.git(&["log", "--format=%b"]).trim(), "eve: a.md\neve: d/b.md\neve: c.md");
    assert_eq!(space.git(&["show", "HEAD:d/b.md"]), "d/b.md");
    let told: Vec<_> =
        space.vfs.feed().events_after(Seq(0), 9).unwrap().iter().map(|event| event.changes.len()).collect();
    assert_eq!(told, [1, 1, 1, 0], "each is told at once, and not again with its commit");
}

/// Shows: ASYNC-2
#[test]
fn a_window_closes_by_itself() {
    let space = TestSpace::gathering(Duration::from_millis(1), 50);
    space.put("a.md", "one");
    space.wait_until("the commit is made", TestSpace::has_commits);
    assert_eq!(space.log(), ["eve|eve: a.md"]);
}

/// Shows: ASYNC-2
#[test]
fn the_window_is_a_deadline_and_waits_for_no_pause() {
    let space = TestSpace::gathering(Duration::from_millis(300), 50);
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut count = 0;
    while !space.has_commits() {
        assert!(Instant::now() < deadline, "no commit while somebody goes on writing");
        count += 1;
        space.put("a.md", &format!("{count}"));
    }
    assert!(count > 1);
}

/// Shows: ASYNC-4
#[test]
fn each_author_has_own_commits_and_page_changes_retain_order() {
    let space = TestSpace::gathering(NEVER, 50);
    for (who, path, text) in [
        ("eve", "a.md", "1"),
        ("adam", "b.md", "2"),
        ("eve", "c.md", "3"),
        ("adam", "a.md", "4"),
        ("eve", "a.md", "5"),
        ("eve", "d.md", "6"),
    ] {
        space.put_as(who, path, text);
    }
    assert_eq!(space.committed(), ["eve|eve: 2 files", "adam|adam: 2 files", "eve|eve: 2 files"]);
    let versions: Vec<_> = space.vfs.versions(&at("a.md")).unwrap();
    let authors: Vec<_> = versions.iter().map(|version| version.author.as_str().to_owned()).collect();
    assert_eq!(authors, ["eve", "adam", "eve"]);
    let texts = versions.iter().map(|version| space.vfs.read_version(&at("a.md"), &version.hash.to_string()).unwrap());
    assert_eq!(texts.collect::<Vec<_>>(), ["5", "4", "1"]);
}

/// Shows: ASYNC-4
#[test]
fn a_page_written_again_and_again_in_a_window_is_one_version() {
    let space = TestSpace::gathering(NEVER, 1);
    space.put("a.md", "one");
    space.put("a.md", "two");
    space.put("a.md", "three");
    assert_eq!(space.committed(), ["eve|eve: a.md"]);
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 1);
    space.put("b.md", "made");
    space.vfs.apply(&eve(), Change::remove(at("b.md"))).unwrap();
    assert_eq!(space.committed().len(), 1, "what is as it was before needs no commit");
    assert_eq!(space.vfs.changes(None, 10).unwrap().changes.len(), 1);
}

/// Shows: ASYNC-4
#[test]
fn a_commit_has_at_most_as_many_paths_as_it_may_have() {
    let space = TestSpace::gathering(NEVER, 2);
    for path in ["a.md", "b.md", "c.md", "d.md", "e.md"] {
        space.put(path, path);
    }
    assert_eq!(space.committed(), ["eve|eve: 2 files", "eve|eve: 2 files", "eve|eve: e.md"]);
}

/// Shows: ASYNC-5
#[test]
fn a_bulk_write_and_a_rename_are_commits_by_themselves() {
    let space = TestSpace::gathering(NEVER, 2);
    space.put("a.md", "a");
    let many = (0..7).map(|number| Change::put(at(&format!("many/{number}.md")), "x")).collect::<Vec<_>>();
    space
        .vfs
        .apply(&eve(), ChangeSet::new(many).with_message("many").with_announcement(EventAnnouncement::Bulk))
        .unwrap();
    space.put("b.md", "b");
    space.vfs.apply(&eve(), Change::rename(at("b.md"), at("c.md"))).unwrap();
    space.vfs.apply(&eve(), Change::rename(at("many"), at("moved"))).unwrap();
    space.put("moved/0.md", "changed");
    let wanted = [
        "eve: a.md",
        "many",
        "eve: b.md",
        "eve: rename b.md → c.md",
        "eve: rename dir many → moved",
        "eve: moved/0.md",
    ];
    assert_eq!(space.committed(), wanted.map(|subject| format!("eve|{subject}")));
    assert_eq!(space.git(&["ls-tree", "-r", "--name-only", "HEAD", "moved"]).lines().count(), 7);
}

/// Shows: ASYNC-6
#[test]
fn a_history_query_sees_the_own_writes_of_its_caller() {
    let space = TestSpace::gathering(NEVER, 50);
    let page = at("a.md");
    space.put("a.md", "one\n");
    assert_eq!(space.vfs.versions(&page).unwrap().len(), 1);
    space.put("a.md", "two\n");
    let changes = space.vfs.changes(None, 10).unwrap();
    assert_eq!(changes.changes.len(), 2);
    assert_eq!(changes.last_seq, space.git(&["rev-parse", "HEAD"]).trim());
    space.put("a.md", "two\nthree\n");
    assert_eq!(space.vfs.blame(&page).unwrap().len(), 2);
    space.put("b.md", "b");
    space.put("c.md", "c");
    let timeline = space.vfs.timeline(&ChangeFilter::default(), 0, 10).unwrap();
    assert_eq!((timeline.events.len(), timeline.total), (5, 5));
    let newer = space.vfs.changes(Some(&changes.last_seq), 10).unwrap();
    let paths: Vec<_> = newer.changes.iter().map(|change| (change.path.as_str(), change.seq)).collect();
    assert_eq!(paths.iter().map(|(path, _)| *path).collect::<Vec<_>>(), ["a.md", "b.md", "c.md"]);
    assert_eq!(paths[1].1, paths[2].1, "one commit, one record for each path");
}

/// Shows: ASYNC-7
#[test]
fn what_has_no_commit_in_a_crash_gets_it_once_when_opened() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("a.md", "one");
    space.put_as("adam", "b.md", "two");
    space.put("a.md", "three");
    space.vfs.apply(&eve(), Change::rename(at("b.md"), at("c.md"))).unwrap();
    let mut commits = Vec::new();
    for is_gathering in [true, false] {
        let copy = crashed(&space);
        let mut again = match is_gathering {
            true => TestSpace::open(copy, gathering(NEVER, 50)),
            false => reopened(copy),
        };
        for _ in 0..2 {
            let log = again.git(&["log", "--reverse", "--format=%H %an|%s"]);
            assert_eq!(
                log.lines().map(|line| &line[41..]).collect::<Vec<_>>(),
                ["eve|eve: a.md", "adam|adam: b.md", "eve|eve: rename b.md → c.md"]
            );
            commits.push(log);
            assert_eq!(again.vfs.versions(&at("a.md")).unwrap().len(), 1);
            assert_eq!((again.text("a.md").as_str(), again.text("c.md").as_str()), ("three", "two"));
            again.reopen();
        }
    }
    commits.push(space.committed().first().map(|_| space.git(&["log", "--reverse", "--format=%H %an|%s"])).unwrap());
    assert!(commits.iter().all(|log| *log == commits[0]), "the same commits, whoever makes them: {commits:#?}");
}

/// Shows: ASYNC-3
#[test]
fn a_stop_makes_the_commits_that_are_missing() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("a.md", "one");
    space.put("b.md", "two");
    assert_eq!(space.git(&["status", "--porcelain", "a.md", "b.md"]), "?? a.md\n?? b.md\n");
    space.vfs.close().unwrap();
    assert_eq!(space.log(), ["eve|eve: 2 files"]);
    assert_eq!(space.git(&["status", "--porcelain"]), "");
    assert!(space.vfs.core.log.pending_records().unwrap().is_empty());
}

#[test]
fn a_name_invalid_in_git_is_rejected_early_and_others_accepted() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("a.md", "one");
    let refused = space.vfs.apply(&eve(), Change::put(at("d/git~1"), "x")).unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid);
    space.put("d/b.md", "two");
    assert_eq!(space.committed(), ["eve|eve: 2 files"]);
}

#[test]
fn a_path_conflict_in_history_is_rejected_before_the_ack() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("x", "a file");
    space.put("d/a.md", "below");
    space.vfs.wait_committed().unwrap();
    let root = space.directory.path();
    // Somebody's doing behind the server, which it has not seen yet.
    fs::remove_file(root.join("x")).unwrap();
    fs::remove_dir_all(root.join("d")).unwrap();
    for path in ["x/a.md", "d"] {
        let refused = space.vfs.apply(&eve(), Change::put(at(path), "in its place")).unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid, "{path}: {refused:?}");
    }
    space.vfs.rescan().unwrap();
    space.put("x/a.md", "in its place");
    space.put("d", "in its place");
    space.vfs.apply(&eve(), Change::remove(at("d"))).unwrap();
    space.put("d/b.md", "again");
    space.vfs.wait_committed().unwrap();
    assert_eq!(space.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "d/b.md\nx/a.md\n");
}

#[test]
fn own_uncommitted_writes_are_no_external_edits() {
    let directory = tempfile::tempdir().unwrap();
    let vfs = Vfs::open(VfsOptions { commit_policy: gathering(NEVER, 50), ..options(directory.path(), true) }).unwrap();
    let space = TestSpace { directory, vfs };
    space.put("a.md", "one");
    space.put("d/b.md", "two");
    // The watcher has seen ours when it has seen what was done after it.
    fs::write(space.directory.path().join("z.md"), "behind").unwrap();
    space.wait_until("the edit is recorded", |space| space.vfs.recorded_etag(&at("z.md")).unwrap().is_some());
    assert_eq!(space.log(), ["fswatch|fswatch: z.md", "eve|eve: 2 files"]);
    assert_eq!(space.vfs.adopt(&[at("a.md"), at("d"), TreePath::root()]).unwrap(), 0);
    space.put("d/b.md", "three");
    assert_eq!(space.vfs.adopt(&[at("a.md"), at("d"), TreePath::root()]).unwrap(), 0);
    fs::remove_file(space.directory.path().join("d/b.md")).unwrap();
    space.wait_until("the removal is recorded", |space| space.log().len() == 4);
    assert_eq!(space.log()[..2], ["fswatch|delete: d/b.md", "eve|eve: d/b.md"]);
}

#[test]
fn an_external_edit_under_a_write_is_a_version_in_its_order() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("a.md", "one");
    fs::write(space.directory.path().join("a.md"), "behind").unwrap();
    space.put("a.md", "two");
    assert_eq!(space.committed(), ["eve|eve: a.md", "fswatch|fswatch: a.md", "eve|eve: a.md"]);
    assert_eq!(space.git(&["show", "HEAD^:a.md"]), "behind");
}

/// What a person does in the root while commits are missing.
fn commit_by_hand(space: &TestSpace, arguments: &[&str]) {
    let who = ["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "by hand"];
    space.git(&[&who, arguments].concat());
}

/// Shows: ASYNC-8
#[test]
fn an_external_commit_in_a_gather_window_comes_before_own_ones() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("a.md", "one");
    space.vfs.wait_committed().unwrap();
    space.put("b.md", "two");
    fs::write(space.directory.path().join("c.md"), "by hand").unwrap();
    space.git(&["add", "c.md"]);
    commit_by_hand(&space, &["--", "c.md"]);
    space.put("d.md", "three");
    let (log, ours) = (space.committed(), ["eve|eve: b.md", "eve|eve: d.md"]);
    assert_eq!(log[..2], ["eve|eve: a.md", "Ann|by hand"]);
    // The committer looks at the branch once a second: it may have met her commit before the last
    // write came.
    assert!(log[2..] == ["eve|eve: 2 files"] || log[2..] == ours, "{log:?}");
    let changes = space.vfs.changes(None, 10).unwrap().changes;
    assert_eq!(changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["a.md", "c.md", "b.md", "d.md"]);
    assert_eq!(reopened(crashed(&space)).log(), space.log());
}

/// Shows: ASYNC-8
#[test]
fn own_changes_committed_by_a_user_are_committed_once() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("a.md", "one");
    space.put("b.md", "two");
    space.git(&["add", "a.md"]);
    commit_by_hand(&space, &["--", "a.md"]);
    let crash = reopened(crashed(&space));
    assert_eq!(space.committed(), ["Ann|by hand", "eve|eve: 2 files"]);
    assert_eq!(space.git(&["show", "--name-only", "--format=", "HEAD"]), "b.md\n");
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 1);
    assert_eq!(crash.log(), space.log());
}

/// Shows: ASYNC-8
#[test]
fn an_external_commit_over_own_changes_leaves_both_in_history() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("a.md", "ours");
    fs::write(space.directory.path().join("a.md"), "theirs").unwrap();
    space.git(&["add", "a.md"]);
    commit_by_hand(&space, &["--", "a.md"]);
    space.vfs.rescan().unwrap();
    assert_eq!(space.text("a.md"), "theirs");
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "theirs");
    let versions = space.vfs.versions(&at("a.md")).unwrap();
    assert!(versions.iter().any(|version| version.author.as_str() == "eve"), "{versions:?}");
}

/// Shows: ASYNC-9
#[test]
fn commits_due_on_a_full_disk_are_reported_and_retried() {
    let space = TestSpace::gathering(Duration::from_millis(1), 50);
    let points = svcfs_store::FailPoints::new(space.directory.path());
    points.inject_error(svcfs_store::FailPoint::StageCommit, 28);
    space.put("a.md", "one");
    space.wait_until("the server says so", |space| space.vfs.health().is_err());
    assert_eq!(space.vfs.health().unwrap_err().kind(), Kind::NoSpace);
    assert_eq!(space.text("a.md"), "one");
    assert_eq!(space.vfs.wait_committed().unwrap_err().kind(), Kind::NoSpace);
    points.clear(svcfs_store::FailPoint::StageCommit);
    space.wait_until("the server is well again", |space| space.vfs.health().is_ok());
    assert_eq!(space.committed(), ["eve|eve: a.md"]);
}

/// Shows: ASYNC-9
#[test]
fn commits_refused_by_disk_until_shutdown_are_made_at_startup() {
    let space = TestSpace::gathering(NEVER, 50);
    space.put("a.md", "one");
    space.put("b.md", "two");
    let points = svcfs_store::FailPoints::new(space.directory.path());
    points.inject_error(svcfs_store::FailPoint::StageCommit, 28);
    space.vfs.close().unwrap();
    points.clear(svcfs_store::FailPoint::StageCommit);
    assert!(!space.has_commits());
    let TestSpace { directory, vfs } = space;
    drop(vfs);
    assert_eq!(reopened(directory).log(), ["eve|eve: 2 files"]);
}
