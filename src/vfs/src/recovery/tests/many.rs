//! A crash with many accepted changes on their way.

use std::time::{Duration, Instant};

use svcfs_store::{FailPoint, FailPoints};

use super::*;

const RECORDS: usize = 10_000;
/// What an unoptimised build on a busy machine is given; an optimised one must take less than the
/// three seconds that are promised.
const AT_MOST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 30 } else { 3 });

fn assert_opens_in_time(space: &TestSpace, copy: TempDir, what: &str) {
    let began = Instant::now();
    let again = reopened(copy);
    let took = began.elapsed();
    println!("{what}: {took:?}");
    assert_eq!(again.git(&["rev-parse", "HEAD"]), space.git(&["rev-parse", "HEAD"]));
    assert_eq!(again.git(&["ls-tree", "-r", "--name-only", "HEAD"]).lines().count(), RECORDS + 1);
    assert_eq!(again.text("099/9999.md"), "# Page 9999\n");
    assert!(took < AT_MOST, "{what}: took {took:?}");
}

/// A space with so many records that no checkpoint settled, and copies of it as a crash would leave
/// it.
fn crashed_with_many_records<const COPIES: usize>() -> (TestSpace, [TempDir; COPIES]) {
    let space = settled_space();
    let points = FailPoints::new(space.directory.path());
    // However long writing and copying take on a busy machine.
    points.pause(FailPoint::CheckpointFlush);
    for number in 0..RECORDS {
        let path = at(&format!("{:03}/{number}.md", number / 100));
        let set = ChangeSet::from(Change::put(path, format!("# Page {number}\n")));
        space.vfs.apply(&eve(), set.soon()).unwrap();
    }
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.vfs.core.log.pending_records().unwrap().len(), RECORDS, "a checkpoint came between");
    let copies = std::array::from_fn(|_| crashed(&space));
    points.clear(FailPoint::CheckpointFlush);
    (space, copies)
}

#[test]
fn opening_ten_thousand_unsettled_records_takes_under_3_seconds() {
    let (space, [killed, without_power]) = crashed_with_many_records();
    assert_opens_in_time(&space, killed, "after a kill");
    remove_tree(without_power.path());
    fs::write(without_power.path().join("first.md"), "first").unwrap();
    remove_new_objects(&space, without_power.path());
    assert_opens_in_time(&space, without_power, "after a power cut that left nothing but the log");
}

/// Whether a person's branch has a commit of ours is not asked for each of them anew: that takes
/// quadratic time.
#[test]
fn opening_ten_thousand_records_beside_a_user_branch_is_as_fast() {
    let (space, [copy]) = crashed_with_many_records();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(copy.path()).args(["-c", "user.name=Ann", "-c", "user.email=a@x"]).args(arguments);
        assert!(command.status().unwrap().success(), "{arguments:?}");
    };
    // With the power the branch went back to where it was flushed, and git's index is as old as the
    // last checkpoint.
    let flushed = space.git(&["rev-parse", &format!("HEAD~{}", RECORDS / 2)]);
    fs::write(copy.path().join(".git/refs/heads/main"), flushed).unwrap();
    git(&["read-tree", "HEAD"]);
    git(&["commit", "-q", "--allow-empty", "-m", "by hand"]);
    let began = Instant::now();
    let again = reopened(copy);
    let took = began.elapsed();
    println!("beside a person's branch: {took:?}");
    let log = again.log();
    assert_eq!((log.len(), log[RECORDS / 2].as_str()), (RECORDS + 2, "Ann|by hand"));
    assert_eq!(again.text("099/9999.md"), "# Page 9999\n");
    assert_eq!(again.git(&["status", "--porcelain"]), "");
    assert_eq!(space.log()[..10], log[..10]);
    assert!(took < AT_MOST, "took {took:?}");
}
