//! What a listener hears of an opening.
#![expect(clippy::disallowed_methods, reason = "edits behind the server are made as a person makes them")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use svcfs_base::{Change, Protocol};
use tempfile::TempDir;

use super::*;
use crate::Vfs;
use crate::recovery::tests::{crashed, remove_tree};
use crate::tests::{TestSpace, at, eve, options};

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<OpenProgress>>>);

impl Heard {
    fn listener(&self) -> OnProgress {
        let heard = Arc::clone(&self.0);
        Box::new(move |progress| heard.lock().push(progress))
    }
    fn all(&self) -> Vec<OpenProgress> {
        self.0.lock().clone()
    }
}

fn opened(root: &Path) -> (Arc<Vfs>, Heard) {
    let heard = Heard::default();
    let mut options = options(root, false);
    options.progress = Some(heard.listener());
    (Vfs::open(options).unwrap(), heard)
}

fn tree_of(files: usize) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..files {
        let below = directory.path().join(format!("d{}", number / 500));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(format!("{number}.md")), format!("# {number}\n")).unwrap();
    }
    directory
}

/// The two counts and the total of each adoption that was told.
fn adoptions(heard: &[OpenProgress]) -> Vec<(usize, usize, usize)> {
    let counts = |progress: &OpenProgress| match *progress {
        OpenProgress::Adopting { scanned_files: looked_at, recorded_files: recorded, total } => {
            Some((looked_at, recorded, total))
        }
        OpenProgress::Replaying { .. }
        | OpenProgress::Restoring { .. }
        | OpenProgress::ReadingHistory
        | OpenProgress::Comparing => None,
    };
    heard.iter().filter_map(counts).collect()
}

#[test]
fn opening_tells_how_far_adoption_is() {
    // One more than fits in a commit.
    let total = 10_001;
    let directory = tree_of(total);
    let (vfs, heard) = opened(directory.path());
    assert_eq!(vfs.read(Protocol::Http, &at("d20/10000.md")).unwrap().content.as_ref(), b"# 10000\n");
    let heard = heard.all();
    assert_eq!(heard[0], OpenProgress::Comparing);
    let counts = adoptions(&heard);
    assert_eq!(counts.len(), heard.len() - 1, "{heard:?}");
    assert_eq!((counts[0], counts[counts.len() - 1]), ((0, 0, total), (total, total, total)));
    assert!(counts.is_sorted_by(|one, next| one.0 <= next.0 && one.1 <= next.1), "{counts:?}");
    assert!(counts.iter().all(|(looked_at, recorded, all)| recorded <= looked_at && looked_at <= all && *all == total));
    assert!(counts.iter().any(|(_, recorded, _)| *recorded == 10_000), "each commit is told: {counts:?}");
}

#[test]
fn files_that_turn_out_to_be_the_same_count_as_recorded() {
    let directory = tree_of(3);
    opened(directory.path()).0.close().unwrap();
    let file = directory.path().join("d0/1.md");
    fs::write(&file, "other\n").unwrap();
    fs::remove_file(directory.path().join("d0/2.md")).unwrap();
    let (vfs, heard) = opened(directory.path());
    let counts = adoptions(&heard.all());
    assert_eq!((counts[0], counts[counts.len() - 1]), ((0, 0, 2), (2, 2, 2)));
    let before = vfs.last_seq();
    assert_eq!(vfs.adopt(&[at("d0")]).unwrap(), 0);
    assert_eq!(vfs.last_seq(), before);
}

#[test]
fn opening_what_was_closed_well_tells_of_the_comparison_only() {
    let directory = tree_of(3);
    opened(directory.path()).0.close().unwrap();
    assert_eq!(opened(directory.path()).1.all(), [OpenProgress::Comparing]);
}

#[test]
fn opening_tells_how_far_the_replay_of_the_log_is() {
    let mut space = TestSpace::new();
    space.put("first.md", "first");
    space.reopen();
    for number in 0..20 {
        space.put(&format!("{number}.md"), "text");
    }
    space.vfs.apply(&eve(), Change::remove(at("7.md"))).unwrap();
    let copy = crashed(&space);
    remove_tree(copy.path());
    fs::write(copy.path().join("first.md"), "first").unwrap();
    let (vfs, heard) = opened(copy.path());
    assert_eq!(vfs.read(Protocol::Http, &at("19.md")).unwrap().content.as_ref(), b"text");
    let heard = heard.all();
    let counts = |progress: &OpenProgress| match *progress {
        OpenProgress::Replaying { records, total } => Some((records, total)),
        OpenProgress::Restoring { .. }
        | OpenProgress::ReadingHistory
        | OpenProgress::Comparing
        | OpenProgress::Adopting { .. } => None,
    };
    let replayed: Vec<_> = heard.iter().map_while(counts).collect();
    assert_eq!((replayed[0], replayed[replayed.len() - 1]), ((0, 21), (21, 21)));
    assert!(replayed.is_sorted(), "{replayed:?}");
    let counts = |progress: &OpenProgress| match *progress {
        OpenProgress::Restoring { files, total } => Some((files, total)),
        OpenProgress::Replaying { .. }
        | OpenProgress::ReadingHistory
        | OpenProgress::Comparing
        | OpenProgress::Adopting { .. } => None,
    };
    let restored: Vec<_> = heard[replayed.len()..].iter().map_while(counts).collect();
    // The page that was removed is in place: it is not there.
    assert_eq!((restored[0], restored[restored.len() - 1]), ((0, 19), (19, 19)));
    assert_eq!(heard[replayed.len() + restored.len()], OpenProgress::Comparing);
}

#[test]
fn external_history_is_reported_before_the_comparison() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.vfs.close().unwrap();
    space.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "by hand"]);
    let (vfs, heard) = opened(space.directory.path());
    assert_eq!(heard.all(), [OpenProgress::ReadingHistory, OpenProgress::Comparing]);
    vfs.close().unwrap();
}

#[test]
fn no_progress_is_reported_once_a_space_is_open() {
    let directory = tree_of(3);
    let (vfs, heard) = opened(directory.path());
    let before = heard.all().len();
    fs::write(directory.path().join("new.md"), "new").unwrap();
    assert_eq!(vfs.rescan().unwrap(), 1);
    assert_eq!(heard.all().len(), before);
    assert_eq!(Arc::strong_count(&heard.0), 1, "the listener is let go");
}

#[test]
fn many_counts_are_reported_at_a_bounded_rate() {
    let heard = Heard::default();
    let mut reporter = ProgressReporter::new(Some(heard.listener()));
    let started = Instant::now();
    for files in 0..200_000 {
        reporter.report_throttled(OpenProgress::Restoring { files, total: 200_000 });
    }
    let at_most = 1 + started.elapsed().as_millis() / REPORT_INTERVAL.as_millis();
    let count = heard.all().len() as u128;
    assert!((1..=at_most).contains(&count), "{count} of at most {at_most}");
}
