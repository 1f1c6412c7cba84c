//! What is wrong with a log is told, and looking at it changes nothing.

use std::fs;

use svcfs_base::{ETag, Seq};

use super::*;
use crate::log::tests::{Fixture, fixture, record};

#[test]
fn an_intact_log_is_counted_and_its_settled_commits_are_named() {
    let Fixture { directory, log } = fixture();
    let paths = StatePaths::new(directory.path());
    log.append(&[record(1, "a.md", b"one"), record(2, "a.md", b"two"), record(3, "b.md", b"three")]).unwrap();
    log.checkpoint(Seq(2), record(2, "a.md", b"two").commit).unwrap();
    let found = Log::check(&paths).unwrap().unwrap();
    assert_eq!(
        (found.last_seq, found.checkpoint_seq, found.pending_records),
        (Seq(3), Seq(2), 1),
        "beside the one who has it open"
    );
    assert_eq!((found.checkpoint_commit, found.has_commits), (record(2, "", b"").commit, true));
    assert_eq!(found.commits, [record(1, "", b"").commit.unwrap(), record(2, "", b"").commit.unwrap()]);
    assert!(found.damage.is_empty() && found.missing_spool.is_empty() && found.leftover_spool.is_empty(), "{found:?}");
}

#[test]
fn missing_blobs_and_orphan_files_are_reported() {
    let Fixture { directory, log } = fixture();
    let paths = StatePaths::new(directory.path());
    log.append(&[record(1, "big.md", &vec![b'x'; 2 << 20]), record(2, "other.md", &vec![b'y'; 2 << 20])]).unwrap();
    let name = super::file_name(Seq(1), 0, Some(ETag::from_content(&vec![b'x'; 2 << 20])));
    fs::rename(paths.spool().join(&name), paths.spool().join("7-0")).unwrap();
    let found = Log::check(&paths).unwrap().unwrap();
    assert_eq!(found.missing_spool, [name]);
    assert_eq!(found.leftover_spool, [paths.spool().join("7-0")]);
}

#[test]
fn log_damage_is_reported_and_never_repaired_by_a_check() {
    let Fixture { directory, log } = fixture();
    let paths = StatePaths::new(directory.path());
    let many: Vec<_> = (1..200).map(|seq| record(seq, &format!("{seq}.md"), &[b'x'; 900])).collect();
    log.append(&many).unwrap();
    log.close().unwrap();
    drop(log);
    let whole = fs::read(paths.log()).unwrap();
    let mut scribbled = whole.clone();
    scribbled[8192..].iter_mut().step_by(3).for_each(|byte| *byte ^= 0x55);
    for damaged in [&b""[..], b"rubbish", &whole[..whole.len() / 2], &scribbled] {
        fs::write(paths.log(), damaged).unwrap();
        let found = Log::check(&paths).unwrap().unwrap();
        assert!(!found.damage.is_empty(), "{} bytes", damaged.len());
        assert_eq!(fs::read(paths.log()).unwrap(), damaged);
    }
    fs::remove_file(paths.log()).unwrap();
    assert!(Log::check(&paths).unwrap().is_none());
    assert!(!paths.log().exists());
}

#[test]
fn a_log_moved_aside_is_preserved_and_replaced_by_a_new_one() {
    let Fixture { directory, log } = fixture();
    let paths = StatePaths::new(directory.path());
    log.append(&[record(1, "a.md", b"one")]).unwrap();
    drop(log);
    let names: Vec<_> = [(), ()]
        .map(|()| {
            fs::write(paths.log(), "rubbish").unwrap();
            Log::quarantine(&paths).unwrap()
        })
        .into();
    assert_eq!(names, [1, 2].map(|number| paths.directory().join(format!("log.db.damaged-{number}"))));
    assert!(names.iter().all(|name| fs::read(name).unwrap() == b"rubbish"));
    let (log, is_new) = Log::open(&paths).unwrap();
    assert!(is_new && log.last_seq() == Seq(0), "what stood beside the old file is not taken for its own");
}
