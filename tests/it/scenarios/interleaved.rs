//! Several doors on one page at the same time.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use crate::protocols::kernel::save;
use crate::protocols::{ALL, Kind};
use crate::space::client::endpoint;
use crate::space::{TestSpace, git};

#[test]
fn the_mount_reads_http_writes_immediately() {
    let Some(space) = TestSpace::mounted() else { return };
    let (http, page) = (Kind::Http.of(&space), space.mountpoint().join("a.md"));
    for round in 0..50 {
        let text = format!("# Round {round}\n\n{}\n", "x".repeat(1 + round * 7 % 90));
        http.write("a.md", text.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), text, "round {round}");
        assert_eq!(fs::metadata(&page).unwrap().len(), text.len() as u64, "round {round}");
    }
    http.remove("a.md").unwrap();
    assert!(File::open(&page).is_err());
}

#[test]
fn what_the_mount_writes_http_reads_immediately_and_finds() {
    let Some(space) = TestSpace::mounted() else { return };
    let (client, page) = (space.client(), space.mountpoint().join("a.md"));
    for round in 0..50 {
        let text = format!("# Round {round}\n\nround{round}word\n");
        save(File::create(&page).unwrap(), text.as_bytes()).unwrap();
        assert_eq!(client.get(&endpoint("/file", &[("path", "a.md")])).text(), text, "round {round}");
        client.until_found(&format!("round{round}word"), &["a.md"]);
        assert!(client.found(&format!("round{}word", round - 1)).is_empty(), "round {round}");
    }
    assert_eq!(space.story().log.len(), 50);
}

#[test]
fn protocols_alternating_on_one_page_leave_one_version_per_turn() {
    let Some(space) = TestSpace::mounted() else { return };
    let protocols = ALL.map(|kind| kind.of(&space));
    for round in 0..40 {
        let text = format!("# Turn {round}\n");
        protocols[round % 4].write("a.md", text.as_bytes()).unwrap();
        for (reader, protocol) in protocols.iter().enumerate() {
            assert_eq!(protocol.read("a.md").unwrap(), text.as_bytes(), "turn {round}, read by {:?}", ALL[reader]);
        }
    }
    space.settle();
    let expected: Vec<String> = (0..40).map(|round| format!("# Turn {round}\n")).collect();
    assert_eq!(git::contents(&space.root(), "a.md"), expected);
}

/// Shows: VIS-5
#[test]
fn concurrent_appends_of_all_protocols_are_preserved() {
    let Some(space) = TestSpace::mounted() else { return };
    Kind::Http.of(&space).write("log.md", b"# Log\n").unwrap();
    std::thread::scope(|scope| {
        for kind in [Kind::Http, Kind::Mcp] {
            let protocol = kind.of(&space);
            scope.spawn(move || {
                for number in 0..30 {
                    protocol.append("log.md", format!("- {kind:?} {number}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    let text = space.text("log.md");
    for kind in [Kind::Http, Kind::Mcp] {
        for number in 0..30 {
            let line = format!("- {kind:?} {number}\n");
            assert_eq!(text.matches(&line).count(), 1, "{line:?} in {text}");
        }
    }
    assert_eq!(space.story().log.len(), 61);
}

/// Shows: VIS-4
#[test]
fn concurrent_writes_of_three_protocols_are_all_in_history() {
    const ROUNDS: usize = 15;
    let space = TestSpace::new();
    let kinds = [Kind::WebDav, Kind::Nfs, Kind::S3];
    Kind::Http.of(&space).write("a.md", b"# First\n").unwrap();
    let text = |kind: Kind, round: usize| format!("# {kind:?} {round}\n");
    let start = std::sync::Barrier::new(kinds.len());
    std::thread::scope(|scope| {
        for kind in kinds {
            let (protocol, start) = (kind.of(&space), &start);
            scope.spawn(move || {
                start.wait();
                (0..ROUNDS).for_each(|round| protocol.write("a.md", text(kind, round).as_bytes()).unwrap());
            });
        }
    });
    space.settle();
    let versions = git::contents(&space.root(), "a.md");
    for kind in kinds {
        let of_kind = versions.iter().filter(|version| version.starts_with(&format!("# {kind:?} ")));
        let written: Vec<_> = (0..ROUNDS).map(|round| text(kind, round)).collect();
        assert!(of_kind.eq(&written), "each write is a version of its own, in order: {versions:?}");
    }
    assert_eq!(Some(&space.text("a.md")), versions.last());
}

#[test]
fn saves_without_fsync_do_not_make_other_writers_wait() {
    let Some(space) = TestSpace::mounted() else { return };
    let (http, page) = (Kind::Http.of(&space), space.mountpoint().join("busy.md"));
    for number in 0..4_000 {
        save(File::create(&page).unwrap(), format!("# Save {number}\n").as_bytes()).unwrap();
    }
    let start = Instant::now();
    http.write("other.md", b"# Other\n").unwrap();
    let waited = start.elapsed();
    assert!(waited < Duration::from_secs(1), "after 4,000 saves through the mount a write over HTTP took {waited:?}");
}
