//! A crash with many accepted changes on their way.

use std::time::{Duration, Instant};

use svcfs_store::{FailPoint, FailPoints};

use super::*;

const RECORDS: usize = 10_000;
/// What an unoptimised build on a busy machine is given; an optimised one must take less than the three seconds that are promised.
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

#[test]
fn opening_ten_thousand_unsettled_records_takes_under_three_seconds() {
    let space = settled_space();
    let points = FailPoints::of(space.directory.path());
    // However long writing and copying take on a busy machine.
    points.pause(FailPoint::CheckpointFlush);
    for number in 0..RECORDS {
        let path = at(&format!("{:03}/{number}.md", number / 100));
        let set = ChangeSet::from(Change::put(path, format!("# Page {number}\n")));
        space.vfs.apply(&eve(), set.soon()).unwrap();
    }
    space.vfs.settled().unwrap();
    assert_eq!(space.vfs.core.log.unsettled().unwrap().len(), RECORDS, "a checkpoint came between");
    let killed = crashed(&space);
    let without_power = crashed(&space);
    points.clear(FailPoint::CheckpointFlush);
    assert_opens_in_time(&space, killed, "after a kill");
    remove_tree(without_power.path());
    fs::write(without_power.path().join("first.md"), "first").unwrap();
    remove_new_objects(&space, without_power.path());
    assert_opens_in_time(&space, without_power, "after a power cut that left nothing but the log");
}
