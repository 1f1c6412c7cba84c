//! Versions kept as snapshots, and not at all; and the change from one to another.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::faults::{new_space, opened};
use super::*;
use crate::recovery::tests::{crashed, remove_tree};

const SNAPSHOTS: VersionStrategy = VersionStrategy::Snapshots { max_snapshots: None };
const WITHOUT_GIT: [VersionStrategy; 2] = [SNAPSHOTS, VersionStrategy::LogOnly];

fn adam() -> Caller {
    Caller::new(Protocol::Mcp).with_actor(Actor::new("adam"))
}

/// Closed, and opened again with a strategy.
fn turned(space: TestSpace, strategy: VersionStrategy) -> TestSpace {
    space.vfs.close().unwrap();
    let TestSpace { directory, vfs } = space;
    drop(vfs);
    opened(directory, strategy)
}

/// What each version of a path was, oldest first.
fn texts(space: &TestSpace, path: &str) -> Vec<String> {
    let versions = space.vfs.versions(&at(path)).unwrap();
    let text = |version: PageVersion| {
        let content = space.vfs.read_version(&at(path), &version.hash.to_string()).ok()?;
        Some(String::from_utf8(content.to_vec()).unwrap())
    };
    versions.into_iter().rev().filter_map(text).collect()
}

/// Actor and changed paths of everything that was told, oldest first.
fn told(space: &TestSpace) -> Vec<String> {
    let changes = space.vfs.changes(None, 500).unwrap().changes;
    changes.iter().map(|change| format!("{} {:?} {}", change.actor, change.action, change.path)).collect()
}

/// Shows: COW-3
#[test]
fn snapshots_are_listed_read_and_compared() {
    let space = new_space(SNAPSHOTS);
    space.put("d/a.md", "first\nsecond\n");
    space.vfs.apply(&adam(), Change::put(at("d/a.md"), "first\nchanged\n")).unwrap();
    let versions = space.vfs.versions(&at("d/a.md")).unwrap();
    let authors: Vec<_> = versions.iter().map(|version| (version.author.as_str(), version.message.as_str())).collect();
    assert_eq!(authors, [("adam", "adam: d/a.md"), ("eve", "eve: d/a.md")]);
    let [two, one] = [0, 1].map(|at| versions[at].hash.to_string());
    assert!(one.len() == 19 && one < two, "{one} {two}");
    assert_eq!(texts(&space, "d/a.md"), ["first\nsecond\n", "first\nchanged\n"]);
    let diff = space.vfs.diff(&[crate::NamePeriod::always(at("d/a.md"))], &one, &two).unwrap();
    assert!(diff.ends_with("@@ -1,2 +1,2 @@\n first\n-second\n+changed\n"), "{diff}");
    space.vfs.apply(&eve(), Change::remove(at("d/a.md"))).unwrap();
    assert_eq!(texts(&space, "d/a.md").len(), 2, "a removed page still has its versions");
    for unknown in ["dead", &one[..18], "1234567890123456789", "../../d/a.md", ""] {
        assert_eq!(space.vfs.read_version(&at("d/a.md"), unknown).unwrap_err().kind(), Kind::NotFound, "{unknown}");
        assert_eq!(
            space.vfs.diff(&[crate::NamePeriod::always(at("d/a.md"))], unknown, &two).unwrap_err().kind(),
            Kind::NotFound,
            "{unknown}"
        );
    }
    assert!(!space.directory.path().join(".git").exists());
}

/// Shows: COW-2
#[test]
fn without_versions_changes_are_still_reported() {
    let space = new_space(VersionStrategy::LogOnly);
    let applied = space.put("a.md", "one");
    assert_eq!((applied.commit, applied.files[0].etag), (None, Some(ETag::from_content(b"one"))));
    space.vfs.apply(&adam(), Change::rename(at("a.md"), at("b.md"))).unwrap();
    assert_eq!(space.vfs.versions(&at("b.md")).unwrap(), []);
    let moment = space.vfs.changes(None, 1).unwrap().last_seq;
    assert_eq!(space.vfs.read_version(&at("b.md"), &moment).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(told(&space), ["eve Write a.md", "adam Delete a.md", "adam Write b.md"]);
    let timeline = space.vfs.timeline(&ChangeFilter::default(), 0, 9).unwrap();
    assert_eq!((timeline.total, timeline.events[0].actor.as_str()), (3, "adam"));
    assert_eq!(space.vfs.activity(Timestamp::UNIX_EPOCH, None).unwrap().changes, 3);
    assert!(!space.directory.path().join(".git").exists() && !space.directory.path().join(".versions").exists());
}

#[test]
fn blame_is_available_only_with_the_git_strategy() {
    for strategy in WITHOUT_GIT {
        let space = new_space(strategy);
        space.put("a.md", "one");
        let fault = space.vfs.blame(&at("a.md")).unwrap_err();
        assert_eq!(fault.kind(), Kind::Disabled);
        assert!(fault.message().contains("versioning.strategy"), "{fault:?}");
    }
}

/// Shows: COW-2
#[test]
fn changes_page_forward_by_moments_without_a_gap() {
    for strategy in WITHOUT_GIT {
        let mut space = new_space(strategy);
        for n in 0..5 {
            space.put(&format!("{n}.md"), "x");
        }
        let several = (0..4).map(|n| Change::put(at(&format!("{n}.md")), "y")).collect();
        space.vfs.apply(&eve(), ChangeSet::new(several)).unwrap();
        let all = space.vfs.changes(None, 500).unwrap();
        assert_eq!(all.changes.len(), 9);
        space = turned(space, strategy);
        let (mut since, mut seen) = (all.changes[0].seq.to_string(), vec![all.changes[0].clone()]);
        loop {
            let page = space.vfs.changes(Some(&since), 2).unwrap();
            if page.changes.is_empty() {
                break;
            }
            seen.extend(page.changes);
            since = page.last_seq;
        }
        assert_eq!(seen, all.changes);
        assert_eq!(space.vfs.changes(Some("1234567890123456789"), 3).unwrap_err().kind(), Kind::Invalid);
    }
}

/// Shows: COW-3
#[test]
fn the_oldest_snapshots_of_a_file_are_removed_above_the_limit() {
    let mut space = new_space(VersionStrategy::Snapshots { max_snapshots: NonZeroUsize::new(3) });
    for n in 0..5 {
        space.put("a.md", &n.to_string());
        space.put("b.md", &n.to_string());
    }
    assert_eq!(texts(&space, "a.md"), ["2", "3", "4"]);
    space = turned(space, VersionStrategy::Snapshots { max_snapshots: NonZeroUsize::new(2) });
    space.put("a.md", "5");
    assert_eq!(texts(&space, "a.md"), ["4", "5"]);
    assert_eq!(texts(&space, "b.md"), ["2", "3", "4"], "another file keeps its own until it is written");
    space = turned(space, SNAPSHOTS);
    space.put("b.md", "5");
    assert_eq!(texts(&space, "b.md"), ["2", "3", "4", "5"]);
}

/// Shows: COW-3
#[test]
fn a_directory_rename_brings_a_first_snapshot_to_each_new_name() {
    let space = new_space(SNAPSHOTS);
    space.put("d/a.md", "one");
    space.put("d/a.md", "two");
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    assert_eq!(texts(&space, "e/a.md"), ["two"]);
    assert_eq!(texts(&space, "d/a.md"), ["one", "two"]);
}

/// Shows: COW-5
#[test]
fn without_git_external_edits_are_recorded_closed_and_running() {
    for strategy in WITHOUT_GIT {
        let space = new_space(strategy);
        for path in ["a.md", "b.md", "d/c.md"] {
            space.put(path, "ours");
        }
        space.vfs.close().unwrap();
        let root = space.directory.path().to_owned();
        fs::write(root.join("a.md"), "edited").unwrap();
        fs::remove_file(root.join("b.md")).unwrap();
        fs::write(root.join(".gitignore"), "*.log\n").unwrap();
        fs::write(root.join("left-alone.log"), "x").unwrap();
        let space = turned(space, strategy);
        let closed = ["fswatch Delete b.md", "fswatch Write .gitignore", "fswatch Write a.md"];
        assert_eq!(told(&space)[3..], closed, "{strategy:?}");
        fs::remove_dir_all(root.join("d")).unwrap();
        fs::create_dir(root.join("new")).unwrap();
        fs::write(root.join("new/e.md"), "new").unwrap();
        assert_eq!(space.vfs.adopt(&[at("d"), at("new")]).unwrap(), 2);
        assert_eq!(space.vfs.rescan().unwrap(), 0, "everything is recorded");
        assert_eq!(told(&space)[6..], ["fswatch Delete d/c.md", "fswatch Write new/e.md"]);
        if strategy == SNAPSHOTS {
            assert_eq!(texts(&space, "a.md"), ["ours", "edited"]);
            assert_eq!(texts(&space, "b.md"), ["ours"]);
            assert_eq!(texts(&space, "new/e.md"), ["new"]);
        }
    }
}

/// Shows: COW-5
#[test]
fn an_overwritten_external_edit_is_a_snapshot_or_is_reported() {
    for strategy in WITHOUT_GIT {
        let space = new_space(strategy);
        space.put("a.md", "one");
        fs::write(space.directory.path().join("a.md"), "behind").unwrap();
        space.put("a.md", "two");
        assert_eq!(told(&space), ["eve Write a.md", "fswatch Write a.md", "eve Write a.md"]);
        let expected: &[&str] = if strategy == SNAPSHOTS { &["one", "behind", "two"] } else { &[] };
        assert_eq!(texts(&space, "a.md"), expected);
    }
}

/// Shows: COW-6
#[test]
fn unflushed_files_and_snapshots_are_recreated_from_the_log() {
    for strategy in WITHOUT_GIT {
        let space = new_space(strategy);
        space.put("kept.md", "settled");
        let space = turned(space, strategy);
        let points = svcfs_store::FailPoints::new(space.directory.path());
        points.pause(svcfs_store::FailPoint::CheckpointFlush);
        space.put("a.md", "one");
        space.put("a.md", "two");
        space.put("d/b.md", "b");
        space.vfs.apply(&adam(), Change::rename(at("d"), at("e"))).unwrap();
        fs::write(space.directory.path().join("a.md"), "behind").unwrap();
        space.put("a.md", "three");
        let before = told(&space);
        let torn = crashed(&space);
        points.clear(svcfs_store::FailPoint::CheckpointFlush);
        let kept = fs::read(torn.path().join("kept.md")).unwrap();
        remove_tree(torn.path());
        fs::write(torn.path().join("kept.md"), kept).unwrap();
        if strategy == SNAPSHOTS {
            // Of a snapshot its name reached the disk, and not its bytes.
            let folder = torn.path().join(".versions/a.md");
            fs::create_dir_all(&folder).unwrap();
            let newest = space.vfs.versions(&at("a.md")).unwrap()[0].hash;
            fs::write(folder.join(format!("{newest}.md")), "").unwrap();
        }
        let again = opened(torn, strategy);
        assert_eq!([again.text("a.md"), again.text("e/b.md"), again.text("kept.md")], ["three", "b", "settled"]);
        assert!(again.vfs.read(Protocol::Http, &at("d/b.md")).is_err());
        assert_eq!(told(&again), before, "{strategy:?}");
        if strategy == SNAPSHOTS {
            assert_eq!(texts(&again, "a.md"), ["one", "two", "behind", "three"]);
            assert_eq!(texts(&again, "e/b.md"), ["b"]);
        }
        again.vfs.close().unwrap();
    }
}

/// Every file of a repository with its content.
fn repository(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.join(".git")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
    }
    found
}

/// Shows: COW-1
#[test]
fn without_git_an_existing_repository_is_not_changed() {
    for strategy in WITHOUT_GIT {
        let directory = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let output = Command::new("git").arg("-C").arg(directory.path()).args(arguments).output().unwrap();
            assert!(output.status.success(), "{arguments:?}");
        };
        git(&["init", "-q"]);
        fs::write(directory.path().join("a.md"), "a person's").unwrap();
        git(&["add", "."]);
        git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-qm", "hers"]);
        let before = repository(directory.path());
        let space = opened(directory, strategy);
        space.put("a.md", "ours");
        fs::write(space.directory.path().join("b.md"), "behind").unwrap();
        space.vfs.rescan().unwrap();
        assert_eq!(told(&space), ["fswatch Write a.md", "eve Write a.md", "fswatch Write b.md"]);
        space.vfs.close().unwrap();
        assert!(repository(space.directory.path()) == before, "{strategy:?} touched `.git`");
    }
}

/// Shows: COW-7
#[test]
fn changes_of_another_strategy_are_committed_when_git_returns() {
    for strategy in WITHOUT_GIT {
        let mut space = TestSpace::new();
        space.put("a.md", "of git");
        space.put("gone.md", "of git");
        let commit = space.vfs.changes(None, 1).unwrap().last_seq;
        space = turned(space, strategy);
        space.put("a.md", "meanwhile");
        space.put("a.md", "meanwhile, again");
        space.vfs.apply(&adam(), Change::remove(at("gone.md"))).unwrap();
        assert_eq!(space.log().len(), 2, "git was not asked");
        let later = space.vfs.changes(Some(&commit), 9).unwrap();
        assert_eq!(later.changes.len(), 3, "names of git's time are still known");
        space = turned(space, VersionStrategy::Git);
        assert_eq!(space.log(), ["fswatch|fswatch: 2 files", "eve|eve: gone.md", "eve|eve: a.md"]);
        assert_eq!(space.git(&["show", "HEAD:a.md"]), "meanwhile, again");
        let resumed = space.vfs.changes(Some(&later.last_seq), 9).unwrap().changes;
        assert_eq!(resumed.len(), 2, "names of the time without git are still known");
        assert_eq!(space.vfs.timeline(&ChangeFilter::default(), 0, 9).unwrap().total, 7);
        let expected: &[&str] = if strategy == SNAPSHOTS {
            &["of git", "meanwhile", "meanwhile, again", "meanwhile, again"]
        } else {
            &["of git", "meanwhile, again"]
        };
        assert_eq!(texts(&space, "a.md"), expected, "{strategy:?}");
        let blamed = space.vfs.blame(&at("a.md")).unwrap();
        assert_eq!(blamed[0].author.as_str(), "fswatch");
        space.put("a.md", "of git again");
        assert_eq!(space.vfs.blame(&at("a.md")).unwrap()[0].author.as_str(), "eve");
        space.vfs.close().unwrap();
        assert_eq!(space.git(&["status", "--porcelain"]), "");
    }
}

/// Shows: COW-7
#[test]
fn a_file_of_another_strategy_gets_a_snapshot_before_overwrite() {
    for before in [VersionStrategy::Git, VersionStrategy::LogOnly] {
        let mut space = new_space(before);
        space.put("a.md", "one");
        space.vfs.apply(&adam(), Change::put(at("a.md"), "two")).unwrap();
        space = turned(space, SNAPSHOTS);
        space.put("a.md", "three");
        assert_eq!(texts(&space, "a.md"), ["two", "three"]);
        let authors: Vec<_> =
            space.vfs.versions(&at("a.md")).unwrap().into_iter().map(|version| version.author).collect();
        assert_eq!(authors, ["eve", "adam"]);
    }
}

#[test]
fn snapshots_without_their_log_are_still_versions() {
    let space = new_space(SNAPSHOTS);
    space.put("a.md", "one");
    space.put("a.md", "two");
    space.vfs.close().unwrap();
    for file in ["log.db", "log.db-wal", "log.db-shm", "log.journal-0", "log.journal-1"] {
        let _ = fs::remove_file(space.directory.path().join(".svc/state").join(file));
    }
    let space = turned(space, SNAPSHOTS);
    let versions = space.vfs.versions(&at("a.md")).unwrap();
    assert_eq!((versions[1].author.as_str(), versions[1].message.as_str()), ("", "snapshot"));
    assert_eq!(texts(&space, "a.md")[..2], ["one", "two"]);
}

/// Shows: COW-7
#[test]
fn writes_accepted_under_one_strategy_complete_before_a_switch() {
    for (before, after) in [
        (VersionStrategy::Git, SNAPSHOTS),
        (SNAPSHOTS, VersionStrategy::Git),
        (VersionStrategy::Git, VersionStrategy::LogOnly),
    ] {
        let space = new_space(before);
        let points = svcfs_store::FailPoints::new(space.directory.path());
        points.pause(svcfs_store::FailPoint::CheckpointFlush);
        space.put("a.md", "one");
        space.put("a.md", "two");
        let mut cut = crashed(&space);
        points.clear(svcfs_store::FailPoint::CheckpointFlush);
        fs::remove_file(cut.path().join("a.md")).unwrap();
        let again = opened(cut, after);
        assert_eq!(again.text("a.md"), "two", "{before:?} to {after:?}");
        assert_eq!(told(&again)[..2], ["eve Write a.md", "eve Write a.md"]);
        again.vfs.close().unwrap();
        cut = again.directory;
        let first = opened(cut, before);
        assert_eq!(texts(&first, "a.md")[..2], ["one", "two"], "{before:?} to {after:?} and back");
    }
}

/// Shows: PATH-1
#[test]
fn snapshots_are_nobodys_to_see_to_write_or_to_record() {
    for strategy in [VersionStrategy::Git, SNAPSHOTS, VersionStrategy::LogOnly] {
        let space = new_space(strategy);
        space.put("a.md", "one");
        let folder = space.directory.path().join(".versions/b.md");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("0000000000000000001.md"), "forged").unwrap();
        assert_eq!(space.vfs.rescan().unwrap(), 0, "{strategy:?}");
        let place = at(".versions/b.md/0000000000000000001.md");
        for protocol in [Protocol::Fuse, Protocol::Http, Protocol::Mcp, Protocol::S3] {
            assert_eq!(space.vfs.read(protocol, &place).unwrap_err().kind(), Kind::NotFound, "{protocol:?}");
            assert!(
                space.vfs.list(protocol, &TreePath::root()).unwrap().iter().all(|entry| entry.path != at(".versions"))
            );
            let caller = Caller::new(protocol);
            for change in [
                Change::put(place.clone(), "x"),
                Change::remove(place.clone()),
                Change::rename(at("a.md"), place.clone()),
                Change::rename(at(".versions"), at("seen")),
            ] {
                space.vfs.apply(&caller, change).unwrap_err();
            }
        }
        assert_eq!(told(&space), ["eve Write a.md"]);
    }
}

/// Shows: COW-7
#[test]
fn snapshot_names_are_rejected_but_allowed_for_external_files() {
    let space = new_space(SNAPSHOTS);
    space.put("a.md", "one");
    let fault = space.vfs.apply(&eve(), Change::put(at("d/1234567890123456789.md"), "x")).unwrap_err();
    assert_eq!(fault.kind(), Kind::Invalid);
    assert!(fault.message().contains("cannot be recorded"), "{fault:?}");
    fs::write(space.directory.path().join("1234567890123456789.md"), "hers").unwrap();
    fs::write(space.directory.path().join("b.md"), "beside").unwrap();
    space.vfs.rescan().unwrap();
    assert_eq!(told(&space), ["eve Write a.md", "fswatch Write b.md"]);
    assert_eq!(space.text("1234567890123456789.md"), "hers");
    // What a person puts in the way of a snapshot keeps no write from being taken.
    fs::remove_dir_all(space.directory.path().join(".versions")).unwrap();
    fs::write(space.directory.path().join(".versions"), "in the way").unwrap();
    space.put("a.md", "two");
    assert_eq!(space.text("a.md"), "two");
    space.vfs.health().unwrap();
}
